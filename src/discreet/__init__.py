"""Differentially private bandits and Bayesian optimization, with guarantees you can check."""

from discreet.action_space import ArmPoints, DecisionSets, PublicBox, PublicSet
from discreet.domain import Box, RewardBounds
from discreet.learners.epochs.capri import Capri
from discreet.learners.epochs.contexts import ContextDistribution
from discreet.learners.epochs.released_thompson import ReleasedThompson
from discreet.learners.epochs.usca import Usca
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.gp_ucb.model import KernelModel
from discreet.learners.local_kernel.learner import LocalKernel
from discreet.learners.messages import Actions, Policy, Reports
from discreet.learners.partition.learner import Partition
from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save
from discreet.learners.schema import decode, encode
from discreet.learners.terms import Terms
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.modeler import Modeler
from discreet.outsourcing.table import ReleasedTable
from discreet.privacy import (
    Guarantee,
    Joint,
    Local,
    NonPrivate,
    Outsourced,
    SecureNoise,
    SimulatedNoise,
    Unprotected,
)
from discreet.validation import InvalidInput

__all__ = [
    "GPUCB",
    "Actions",
    "ArmPoints",
    "Box",
    "Capri",
    "ContextDistribution",
    "Curator",
    "DecisionSets",
    "Guarantee",
    "InvalidInput",
    "Joint",
    "KernelModel",
    "Local",
    "LocalKernel",
    "Modeler",
    "NonPrivate",
    "Outsourced",
    "Partition",
    "Policy",
    "PublicBox",
    "PublicSet",
    "ReleasedTable",
    "ReleasedThompson",
    "Reports",
    "RewardBounds",
    "SecureNoise",
    "SimulatedNoise",
    "Terms",
    "Unprotected",
    "Usca",
    "decode",
    "encode",
    "load",
    "make_learner",
    "save",
]
