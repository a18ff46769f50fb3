"""What mechanisms cost together, through dp-accounting.

An `Event` is one mechanism applied once to a person's data, reduced to the number that decides
its privacy. Events with adaptively chosen inputs compose as follows:

* all pure: epsilons add (Dwork and Roth 2014, Theorem 3.16);
* all Gaussian: mu^2 adds, exactly (Dong, Roth and Su 2022, Corollary 2), and (epsilon, delta)
  follow from delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)
  (Balle and Wang 2018, Theorem 8);
* both kinds: privacy loss distributions. A pure mechanism enters as its dominating pair,
  randomized response at the same epsilon, so the answer is an upper bound whatever it was.

Sensitivities are in the multiplier already (scale / sensitivity for replaced records), so the
relation that dp-accounting would assume plays no part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from discreet.validation import InvalidInput, positive_number, probability

# Below the first mu, delta(epsilon = 0) is under 1e-300; above the second, no epsilon is meant.
_LEAST_MU = 1e-150
_MOST_MU = 1e6


@dataclass(frozen=True)
class PureEvent:
    """A mechanism that is epsilon-differentially private."""

    epsilon: float

    def __post_init__(self) -> None:
        # Not positive_number: a report that carries nothing costs 0, one without noise infinity.
        if math.isnan(self.epsilon) or self.epsilon < 0.0:
            raise InvalidInput(f"epsilon of an event was {self.epsilon}; it must be 0 or more.")


@dataclass(frozen=True)
class GaussianEvent:
    """Gaussian noise of standard deviation noise_multiplier x sensitivity (l2, replace-one)."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        positive_number(self.noise_multiplier, "noise_multiplier")


Event = PureEvent | GaussianEvent


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """Epsilon of one Gaussian release at `delta`, exact for every epsilon."""
    multiplier = positive_number(noise_multiplier, "noise_multiplier")
    return _read_off(multiplier, probability(delta, "delta"))


# A certificate asks for the same few numbers again and again, and each takes milliseconds.
@lru_cache(maxsize=1024)
def _read_off(multiplier: float, delta: float) -> float:
    from dp_accounting import get_epsilon_gaussian

    return float(get_epsilon_gaussian(multiplier, delta))


def composed_epsilon(events: Sequence[Event], delta: float) -> float:
    """Epsilon at `delta` of all `events` on one person's data.

    Args:
        events: what the person's data entered, in any order.
        delta: the delta at which to read epsilon; 0 is allowed when every event is pure.

    Raises:
        InvalidInput: if delta is 0 and a Gaussian event is among them.
    """
    pure = [event.epsilon for event in events if isinstance(event, PureEvent)]
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    if not gaussian:
        return math.fsum(pure)
    if delta == 0.0:
        raise InvalidInput(
            "delta was 0, but a Gaussian release promises nothing at delta 0; give a delta "
            "between 0 and 1, well under 1 / (number of people)."
        )
    probability(delta, "delta")
    mu = math.hypot(*(1.0 / event.noise_multiplier for event in gaussian))
    if not _LEAST_MU < mu < _MOST_MU:
        return math.fsum(pure) if mu <= _LEAST_MU else math.inf
    if not any(pure):
        return gaussian_epsilon(1.0 / mu, delta)
    return _mixed_epsilon(pure, 1.0 / mu, delta)


def _mixed_epsilon(pure: Sequence[float], multiplier: float, delta: float) -> float:
    from dp_accounting.pld import common, privacy_loss_distribution

    if not all(math.isfinite(epsilon) for epsilon in pure):
        return math.inf
    # Simple addition is a valid bound too, and the discretised one may lie above it.
    added = math.fsum(pure) + gaussian_epsilon(multiplier, delta)
    # A grid that grows with the loss keeps time and memory bounded; it only rounds upwards.
    step = max(1e-4, 1e-5 * added)
    loss = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier, value_discretization_interval=step
    )
    for epsilon in pure:
        loss = loss.compose(
            privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(epsilon, 0.0), step
            )
        )
    return min(float(loss.get_epsilon_for_delta(delta)), added)
