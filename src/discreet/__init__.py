"""Differentially private bandits and Bayesian optimization, with guarantees you can check."""

from discreet.domain import Box, RewardBounds
from discreet.learners.messages import Policy, Reports, Terms
from discreet.learners.partition.learner import Partition
from discreet.learners.registry import make_learner
from discreet.learners.saving import load, save
from discreet.learners.schema import decode, encode
from discreet.privacy import (
    Guarantee,
    Joint,
    Local,
    NonPrivate,
    Outsourced,
    SecureNoise,
    SimulatedNoise,
)
from discreet.validation import InvalidInput

__all__ = [
    "Box",
    "Guarantee",
    "InvalidInput",
    "Joint",
    "Local",
    "NonPrivate",
    "Outsourced",
    "Partition",
    "Policy",
    "Reports",
    "RewardBounds",
    "SecureNoise",
    "SimulatedNoise",
    "Terms",
    "decode",
    "encode",
    "load",
    "make_learner",
    "save",
]
