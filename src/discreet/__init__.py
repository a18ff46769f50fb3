"""Differentially private bandits and Bayesian optimization, with guarantees you can check.

Public names are imported when they are first used (PEP 562). So `import discreet` takes no longer
than Python itself, and a program that needs one learner, or a device that needs one policy, loads
what that needs and nothing else.

The log is Python's own, under the name `discreet` with a child for each module, and silent until a
handler is attached. It shows public facts only: what a learner without privacy learnt is left out.

| level   | events                                                                    |
|---------|---------------------------------------------------------------------------|
| WARNING | how many reports were rejected                                            |
| INFO    | policies that were published                                              |
| DEBUG   | releases with their mechanism and scale, length scales, splits of trees   |
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

logging.getLogger("discreet").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from discreet.codec import decode as decode
    from discreet.codec import encode as encode
    from discreet.estimator import PrivateBandit as PrivateBandit
    from discreet.lab.environments.log_problem import LogProblem as LogProblem
    from discreet.lab.environments.logs import Log as Log
    from discreet.lab.reporting.plan import Plan as Plan
    from discreet.lab.reporting.plan import plan as plan
    from discreet.lab.results.result import StudyResult as StudyResult
    from discreet.lab.results.run import Interrupted as Interrupted
    from discreet.lab.results.run import run_study as run_study
    from discreet.lab.studies import Study as Study
    from discreet.learners.contributions import ContributionCounter as ContributionCounter
    from discreet.learners.epochs.capri import Capri as Capri
    from discreet.learners.epochs.features import ContextDistribution as ContextDistribution
    from discreet.learners.epochs.usca import Usca as Usca
    from discreet.learners.gp_ucb.learner import GPUCB as GPUCB
    from discreet.learners.gp_ucb.policy import KernelModel as KernelModel
    from discreet.learners.kernel.joint import KernelBandit as KernelBandit
    from discreet.learners.kernel.learner import LocalKernel as LocalKernel
    from discreet.learners.messages import Reports as Reports
    from discreet.learners.partition.learner import Partition as Partition
    from discreet.learners.policy import Actions as Actions
    from discreet.learners.policy import Policy as Policy
    from discreet.learners.policy import Terms as Terms
    from discreet.learners.registry import make_learner as make_learner
    from discreet.learners.saving import load as load
    from discreet.learners.saving import save as save
    from discreet.learners.shuffler import Shuffler as Shuffler
    from discreet.learners.values import Value as Value
    from discreet.outsourcing.curator import Curator as Curator
    from discreet.outsourcing.exchange import ReleasedTable as ReleasedTable
    from discreet.outsourcing.modeler import Modeler as Modeler
    from discreet.people.columns import Column as Column
    from discreet.people.domain import ArmPoints as ArmPoints
    from discreet.people.domain import Ball as Ball
    from discreet.people.domain import Box as Box
    from discreet.people.domain import DecisionSets as DecisionSets
    from discreet.people.domain import PublicBox as PublicBox
    from discreet.people.domain import PublicSet as PublicSet
    from discreet.people.domain import RewardBounds as RewardBounds
    from discreet.privacy import Guarantee as Guarantee
    from discreet.privacy import Joint as Joint
    from discreet.privacy import Local as Local
    from discreet.privacy import NonPrivate as NonPrivate
    from discreet.privacy import Outsourced as Outsourced
    from discreet.privacy import SecureNoise as SecureNoise
    from discreet.privacy import Shuffled as Shuffled
    from discreet.privacy import SimulatedNoise as SimulatedNoise
    from discreet.privacy import Unprotected as Unprotected
    from discreet.search import Search as Search
    from discreet.validation import InvalidInput as InvalidInput
else:
    # Where each name is at run time; the imports above say the same to type checkers and editors.
    _NAMES = {
        "people.columns": ("Column",),
        "people.domain": (
            "ArmPoints",
            "Ball",
            "Box",
            "DecisionSets",
            "PublicBox",
            "PublicSet",
            "RewardBounds",
        ),
        "estimator": ("PrivateBandit",),
        "learners.epochs.capri": ("Capri",),
        "learners.epochs.features": ("ContextDistribution",),
        "learners.epochs.usca": ("Usca",),
        "learners.gp_ucb.learner": ("GPUCB",),
        "learners.gp_ucb.policy": ("KernelModel",),
        "learners.kernel.joint": ("KernelBandit",),
        "learners.kernel.learner": ("LocalKernel",),
        "codec": ("decode", "encode"),
        "learners.messages": ("Reports",),
        "learners.partition.learner": ("Partition",),
        "learners.policy": ("Actions", "Policy", "Terms"),
        "learners.registry": ("make_learner",),
        "learners.saving": ("load", "save"),
        "learners.shuffler": ("Shuffler",),
        "learners.values": ("Value",),
        "learners.contributions": ("ContributionCounter",),
        "outsourcing.curator": ("Curator",),
        "outsourcing.modeler": ("Modeler",),
        "outsourcing.exchange": ("ReleasedTable",),
        "privacy": (
            "Guarantee",
            "Joint",
            "Local",
            "NonPrivate",
            "Outsourced",
            "Shuffled",
            "SecureNoise",
            "SimulatedNoise",
            "Unprotected",
        ),
        "search": ("Search",),
        "lab.results.result": ("StudyResult",),
        "lab.results.run": ("Interrupted", "run_study"),
        "lab.studies": ("Study",),
        "lab.reporting.plan": ("Plan", "plan"),
        "lab.environments.log_problem": ("LogProblem",),
        "lab.environments.logs": ("Log",),
        "validation": ("InvalidInput",),
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names}
    __all__ = sorted(_MODULES)

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value  # so that the next use finds it at once
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
