"""What is promised and what it costs. Knows nothing of bandits."""

from discreet.privacy.budget import Budget, Joint, Local, NonPrivate, Outsourced
from discreet.privacy.guarantee import (
    Adjacency,
    Guarantee,
    OnceEach,
    Release,
    Rounds,
    check_protects,
    derive_guarantee,
)
from discreet.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise, Unprotected

__all__ = [
    "Adjacency",
    "Budget",
    "Guarantee",
    "Joint",
    "Local",
    "NoiseSource",
    "NonPrivate",
    "OnceEach",
    "Outsourced",
    "Release",
    "Rounds",
    "SecureNoise",
    "SimulatedNoise",
    "Unprotected",
    "check_protects",
    "derive_guarantee",
]
