"""Mechanisms, budgets, accounting and the guarantees derived from releases; no bandits.

Public names are imported on first use: a device that reports under a policy loads mechanisms and
noise alone, without budgets and guarantees.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.privacy.accounting import Adjacency as Adjacency
    from discreet.privacy.accounting import OnceEach as OnceEach
    from discreet.privacy.accounting import Release as Release
    from discreet.privacy.accounting import Rounds as Rounds
    from discreet.privacy.budget import Budget as Budget
    from discreet.privacy.budget import Joint as Joint
    from discreet.privacy.budget import Local as Local
    from discreet.privacy.budget import NonPrivate as NonPrivate
    from discreet.privacy.budget import Outsourced as Outsourced
    from discreet.privacy.budget import Shuffled as Shuffled
    from discreet.privacy.guarantee import Guarantee as Guarantee
    from discreet.privacy.guarantee import check_protects as check_protects
    from discreet.privacy.guarantee import derive_guarantee as derive_guarantee
    from discreet.privacy.noise import NoiseSource as NoiseSource
    from discreet.privacy.noise import SecureNoise as SecureNoise
    from discreet.privacy.noise import SimulatedNoise as SimulatedNoise
    from discreet.privacy.noise import Unprotected as Unprotected
else:
    _NAMES = {
        "accounting": ("Adjacency", "OnceEach", "Release", "Rounds"),
        "budget": ("Budget", "Joint", "Local", "NonPrivate", "Outsourced", "Shuffled"),
        "guarantee": ("Guarantee", "check_protects", "derive_guarantee"),
        "noise": ("NoiseSource", "SecureNoise", "SimulatedNoise", "Unprotected"),
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names}
    __all__ = sorted(_MODULES)

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
