"""Differentially private bandits and Bayesian optimization, with guarantees you can check.

Public names are imported when they are first used (PEP 562). So `import discreet` takes no longer
than Python itself, and whoever needs one learner, or a device that needs one policy, loads what
that needs and nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.action_space import ArmPoints, DecisionSets, PublicBox, PublicSet
    from discreet.domain import Box, RewardBounds
    from discreet.learners.epochs.capri import Capri
    from discreet.learners.epochs.contexts import ContextDistribution
    from discreet.learners.epochs.released_thompson import ReleasedThompson
    from discreet.learners.epochs.usca import Usca
    from discreet.learners.gp_ucb.learner import GPUCB
    from discreet.learners.gp_ucb.posterior import KernelModel
    from discreet.learners.local_kernel.learner import LocalKernel
    from discreet.learners.messages import Actions, Policy, Reports
    from discreet.learners.partition.learner import Partition
    from discreet.learners.registry import make_learner
    from discreet.learners.saving import load, save
    from discreet.learners.schema import decode, encode
    from discreet.learners.terms import Terms
    from discreet.outsourcing.curator import Curator
    from discreet.outsourcing.exchange import ReleasedTable
    from discreet.outsourcing.modeler import Modeler
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
else:
    # Where each name is at run time; the imports above say the same to type checkers and editors.
    _NAMES = {
        "action_space": ("ArmPoints", "DecisionSets", "PublicBox", "PublicSet"),
        "domain": ("Box", "RewardBounds"),
        "learners.epochs.capri": ("Capri",),
        "learners.epochs.contexts": ("ContextDistribution",),
        "learners.epochs.released_thompson": ("ReleasedThompson",),
        "learners.epochs.usca": ("Usca",),
        "learners.gp_ucb.learner": ("GPUCB",),
        "learners.gp_ucb.posterior": ("KernelModel",),
        "learners.local_kernel.learner": ("LocalKernel",),
        "learners.messages": ("Actions", "Policy", "Reports"),
        "learners.partition.learner": ("Partition",),
        "learners.registry": ("make_learner",),
        "learners.saving": ("load", "save"),
        "learners.schema": ("decode", "encode"),
        "learners.terms": ("Terms",),
        "outsourcing.curator": ("Curator",),
        "outsourcing.modeler": ("Modeler",),
        "outsourcing.exchange": ("ReleasedTable",),
        "privacy": (
            "Guarantee",
            "Joint",
            "Local",
            "NonPrivate",
            "Outsourced",
            "SecureNoise",
            "SimulatedNoise",
            "Unprotected",
        ),
        "validation": ("InvalidInput",),
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names}

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value  # so that the next use finds it at once
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


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
