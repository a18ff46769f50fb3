"""Records of releases, and their joint cost, through dp-accounting.

An `Event` is one mechanism applied once to a person's data, reduced to the number that decides
its privacy. Events with adaptively chosen inputs compose as follows:

* all pure: epsilons add (Dwork and Roth 2014, Theorem 3.16), or, where there is a delta and it is
  less, the optimal composition of as many as dear as the dearest (`repeated_epsilon`);
* all Gaussian: mu^2 adds, exactly (Dong, Roth and Su 2022, Corollary 2), and (epsilon, delta)
  follow from delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)
  (Balle and Wang 2018, Theorem 8);
* one shuffled report (shuffling.py), at a delta: the bound of its group; beside others it counts as
  the pure mechanism that it is;
* pure and Gaussian: privacy loss distributions. A pure mechanism enters as its dominating pair,
  randomized response at the same epsilon, so the answer is an upper bound whatever it was.

Sensitivities are in the multiplier already (scale / sensitivity for replaced records), so the
relation that dp-accounting would assume plays no part.

A `Release` records one mechanism that was applied to people's data: its sensitivity and how that
was computed, its scale, whose data it touched and where its noise came from. Whose data it touched
decides how releases compose for one person:

    Rounds(start, stop)   everyone who arrived in rounds start .. stop - 1; a person pays for all
                          releases whose rounds contain theirs
    OnceEach(group)       the data of a contribution enters at most one release of the group, so a
                          person who comes once pays for the worst of them, not for their sum. A
                          group belongs to one learner: anyone who reports to two learners pays for
                          both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np

from discreet.codec import Range
from discreet.validation import InvalidInput, positive_number, probability

# What the optimal composition is rounded up by, as a part of it: sums of binomial terms are wrong
# by 10^-11 of themselves at ten thousand mechanisms.
_ROUNDED_UP = 1e-9
# Below the first mu, delta(epsilon = 0) is under 1e-150; above the second, no epsilon is meant.
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
class ShuffledEvent(PureEvent):
    """A report that is epsilon-private, seen only among those of a shuffled group.

    Attributes:
        group: how many reports are in it.
        honest: the share of the others who follow the protocol.
    """

    group: int
    honest: float = 1.0

    def amplified(self, delta: float) -> float:
        """Epsilon at `delta` for who sees shuffled groups only."""
        from discreet.privacy.shuffling import shuffled_epsilon

        return shuffled_epsilon(self.epsilon, self.group, delta, self.honest)


@dataclass(frozen=True)
class GaussianEvent:
    """Gaussian noise of standard deviation noise_multiplier x sensitivity (l2, replace-one)."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        positive_number(self.noise_multiplier, "noise_multiplier")


Event = PureEvent | GaussianEvent

TrustModel = Literal["local", "shuffled", "joint", "outsourced", "none"]
# More contributions than these leave next to nothing for each.
MaxContributions = Annotated[int, Range(1, 10_000)]
Protects = Literal["person", "contribution"]
# Of a shuffled group: its reports, the share of honest people among the others, and the largest
# epsilon for which it has a bound.
GroupSize = Annotated[int, Range(1, 10_000_000)]
Honest = Annotated[float, Range(above=0.0, high=1.0)]
MOST_SHUFFLED = 100.0


@dataclass(frozen=True)
class Adjacency:
    """The neighbouring relation of data sets.

    Attributes:
        relation: always `replace-one` here: one person's record becomes any other record.
        record: what one person's record is.
        radius: for outsourced tables, how far (l2) a row may move; None for any replacement.
        unit: whose record that is: everything of a person that the guarantee covers, or one
            contribution.
    """

    record: str
    relation: str = "replace-one"
    radius: float | None = None
    unit: Protects = "person"


@dataclass(frozen=True)
class Rounds:
    """People who arrived in rounds start, .., stop - 1, each of them `max_contributions` times at
    most."""

    start: int
    stop: int
    max_contributions: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise InvalidInput(
                f"rounds were {self.start} to {self.stop}; they must satisfy 0 <= start < stop."
            )


@dataclass(frozen=True)
class OnceEach:
    """Each contribution enters at most one of the releases that share `group`.

    Attributes:
        group: its name.
        max_contributions: how often a person comes at most.
        apart: whether noise is drawn for each contribution by itself, as in local reports, and not
            once for a sum that may hold several contributions of a person.
    """

    group: str
    max_contributions: int = 1
    apart: bool = False


@dataclass(frozen=True)
class Release:
    """One mechanism applied to people's data.

    Attributes:
        mechanism: its name.
        event: what it costs one person.
        sensitivity: largest distance between the values of two records, of one contribution each,
            in the mechanism's metric.
        sensitivity_source: how `sensitivity` was computed.
        scale: the scale of the noise; for a finite alphabet the log of the largest ratio.
        people: whose data it touched.
        data: what of a person's data entered.
        noise: name of the noise source.
    """

    mechanism: str
    event: Event
    sensitivity: float
    sensitivity_source: str
    scale: float
    people: Rounds | OnceEach
    data: str
    noise: str

    @property
    def reach(self) -> float:
        """The sensitivity to all contributions of a person that share one draw of noise."""
        apart = isinstance(self.people, OnceEach) and self.people.apart
        return self.sensitivity * (1 if apart else self.people.max_contributions)


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
        if delta > 0.0 and len(events) == 1 and isinstance(events[0], ShuffledEvent):
            return events[0].amplified(delta)
        return _pure_epsilon([epsilon for epsilon in pure if epsilon > 0.0], delta)
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


def _pure_epsilon(epsilons: Sequence[float], delta: float) -> float:
    added = math.fsum(epsilons)
    if delta == 0.0 or len(epsilons) < 2 or not math.isfinite(added):
        return added
    largest = max(epsilons)
    # Never below the dearest alone, so that one more mechanism never seems to cost less.
    return max(largest, min(added, repeated_epsilon(largest, len(epsilons), delta)))


@lru_cache(maxsize=1024)
def repeated_epsilon(epsilon: float, times: int, delta: float) -> float:
    """Epsilon at `delta` of adaptively composed pure mechanisms of one epsilon; tight.

    No such composition is more distinguishable than randomised responses (Kairouz, Oh and
    Viswanath 2017, Theorem 3.3). With j of k responses true, P = binom(k, j) e^(j epsilon) / Z on
    one data set and Q = binom(k, j) e^((k - j) epsilon) / Z on the other, and E suffices where
    P(S) - e^E Q(S) <= delta for all sets S, of which the worst are S = {j >= i}:

        E = max over i of log((P(S_i) - delta) / Q(S_i)), and at least 0.
    """
    false = np.arange(times + 1.0)
    true = times - false
    # A device has no SciPy: log binom(k, j) from binom(k, j) = binom(k, j - 1) (k - j + 1) / j.
    ways = np.concatenate([[0.0], np.cumsum(np.log((true[1:] + 1.0) / false[1:]))])
    lie = np.log1p(np.exp(-epsilon))  # - log P(true)
    mine = np.logaddexp.accumulate(ways - false * epsilon - times * lie)
    other = np.logaddexp.accumulate(ways - true * epsilon - times * lie)
    above = np.exp(mine) - delta
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = np.where(above > 0.0, np.log(above) - other, 0.0)
    return float(max(ratios.max(), 0.0)) * (1.0 + _ROUNDED_UP)


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
