"""Which arms an elimination learner gives up, and what its epochs measure.

| rule         | an arm is given up when                                       | proof            |
|--------------|---------------------------------------------------------------|------------------|
| `Posterior`  | it is behind the best by z posterior deviations of their      | none             |
|              | difference, under all releases together                       |                  |
| `Bernstein`  | its upper bound from the last release is under another's      | with confidence  |
|              | lower bound                                                   | 1 - failure      |

**Bernstein.** The estimate of an epoch is mu(w) = phi' Z^-1 (sum phi_t y_t) + phi' Z^(-1/2) noise
with Z = n Lambda + tau I, |y| <= B. Its distance from f(w) is at most the sum of

    ||(I - n Lambda Z^-1) phi|| ||f||                                    (ridge)
    (1 + sqrt(n) ||Z^(-1/2) phi||) sqrt(error) ||f||                     (features left out)
    sqrt(2 n v log(2/p)) + (4/3) b log(2/p)                              (who came, what they saw)
    sqrt(2 s) ||Z^(-1/2) phi|| sqrt(log(2/p)) (+ Bernstein's term)       (noise)

with v = B^2 sum rho (phi' Z^-1 phi_w)^2, b = B max_w |phi' Z^-1 phi_w|, s the variance of the noise
on each number, each with probability 1 - p; p = failure / (2 |W| epochs) for all at once. (Freedman
or Bernstein for sums of independent terms that lie within 2 b of their mean.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from discreet.learners.epochs.belief import Belief
from discreet.learners.epochs.design import DESIGNS, check_design
from discreet.learners.epochs.learner import EpochLearner
from discreet.learners.epochs.rows import BOUND, RowMap
from discreet.privacy import Joint, Local
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import BoolArray, FloatArray, InvalidInput, positive_number, probability

# Ridges that the rigorous rule chooses from, as multiples of n times the mean eigenvalue of Lambda.
_RIDGES = 10.0 ** np.arange(-6.0, 1.0, 0.5)


class Elimination(ABC):
    """What `Capri` leaves to its rule. All of it is a public function of releases.

    Attributes:
        name: as study files and saved files call it.
        design: how active arms are offered (design.py).
        last_greedy: whether people who are left for an unfinished epoch get the best arm.
    """

    name: ClassVar[str]
    design: str
    last_greedy: ClassVar[bool] = True

    def noise_multiplier(self, budget: Joint, learner: EpochLearner, rows: RowMap) -> float:
        """Noise on a release, as a multiple of its sensitivity."""
        return gaussian_noise_multiplier(budget.epsilon, budget.delta)

    @abstractmethod
    def rows(
        self, learner: EpochLearner, belief: Belief, offers: FloatArray, people: int
    ) -> RowMap:
        """What people of the next epoch add."""

    @abstractmethod
    def survivors(self, learner: EpochLearner, belief: Belief, active: BoolArray) -> BoolArray:
        """(N, K) the arms that stay, at least one in every context."""

    def fields(self) -> dict[str, Any]:
        """Options of study files and saved files."""
        return {"rule": self.name, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Posterior(Elimination):
    """Heuristic widths from the Gaussian posterior of all releases.

    Attributes:
        deviations: z; 1 loses best arms, 2 hardly ever does.
        design: `optimal` or `uniform`.
    """

    name: ClassVar[str] = "posterior"
    deviations: float = 2.0
    design: str = DESIGNS[0]

    def __post_init__(self) -> None:
        positive_number(self.deviations, "deviations")
        check_design(self.design)

    def rows(
        self, learner: EpochLearner, belief: Belief, offers: FloatArray, people: int
    ) -> RowMap:
        matters = learner.matters(belief, offers)
        made, _ = learner.best_rows(belief, learner.chances(offers), matters, people)
        return made

    def survivors(self, learner: EpochLearner, belief: Belief, active: BoolArray) -> BoolArray:
        return active & within(learner.features.table, belief, self.deviations, active)


def within(
    table: FloatArray, belief: Belief, deviations: float, active: BoolArray | None = None
) -> BoolArray:
    """(N, K) the arms that are at most this many posterior deviations behind the best.

    Args:
        table: (N, K, m) features.
        belief: the posterior.
        deviations: of the difference to the best.
        active: (N, K) the arms among which the best is looked for; all by default.
    """
    mean = table @ belief.mean
    if active is not None:
        mean = np.where(active, mean, -np.inf)
    best = mean.argmax(axis=1)
    places = np.arange(len(mean))
    away = (table - table[places, best][:, None]) @ belief.root
    behind = mean[places, best][:, None] - mean
    found: BoolArray = behind <= deviations * np.sqrt((away**2).sum(axis=2))
    found[places, best] = True
    return found


@dataclass(frozen=True)
class Bernstein(Elimination):
    """Widths that hold with confidence 1 - failure for every f of the given norm.

    Attributes:
        norm: a bound on the norm of f (rewards scaled to [0, 1], minus 1/2) in the kernel's space.
        failure: the probability that any bound fails.
        design: `optimal` or `uniform`.
    """

    name: ClassVar[str] = "bernstein"
    norm: float = 1.0
    failure: float = 0.05
    design: str = DESIGNS[0]

    def __post_init__(self) -> None:
        positive_number(self.norm, "norm")
        probability(self.failure, "failure")
        check_design(self.design)

    def rows(
        self, learner: EpochLearner, belief: Belief, offers: FloatArray, people: int
    ) -> RowMap:
        chances = learner.chances(offers)
        phi = learner.pairs
        values, axes = np.linalg.eigh((phi * chances[:, None]).T @ phi)
        values = np.maximum(values, 0.0)
        best: tuple[float, RowMap] | None = None
        for ridge in _RIDGES * people * values.mean():
            turn = axes / np.sqrt(people * values + ridge)
            made = full_rows(turn, phi[chances > 0.0])
            width = float(self._widths(learner, made, chances, people)[chances > 0.0].max())
            if best is None or width < best[0]:
                best = width, made
        assert best is not None
        return best[1]

    def survivors(self, learner: EpochLearner, belief: Belief, active: BoolArray) -> BoolArray:
        last = learner.last_estimate()
        if last is None:
            return active
        made, people, estimate, chances = last
        width = self._widths(learner, made, chances, people).reshape(active.shape)
        upper = np.where(active, estimate.reshape(active.shape) + width, -np.inf)
        lower = np.where(active, estimate.reshape(active.shape) - width, -np.inf)
        kept: BoolArray = active & (upper >= lower.max(axis=1, keepdims=True))
        return kept

    def _widths(
        self, learner: EpochLearner, rows: RowMap, chances: FloatArray, people: int
    ) -> FloatArray:
        """(N K,) how far the estimate of an epoch may be from f at each pair."""
        phi = learner.pairs
        some = chances > 0.0
        turned = phi @ rows.turn
        length = np.sqrt((turned**2).sum(axis=1))
        influence = turned @ turned[some].T
        spread = BOUND**2 * (influence**2 @ chances[some])
        largest = BOUND * np.abs(influence).max(axis=1)
        log = math.log(4.0 * len(phi) * _most_epochs(learner) / self.failure)
        covariance = (phi[some] * chances[some, None]).T @ phi[some]
        missed = phi - people * turned @ rows.turn.T @ covariance
        left_out = math.sqrt(learner.error) * self.norm
        noise = learner.noise_variance(rows.size, people) * rows.bound**2
        width: FloatArray = (
            np.sqrt((missed**2).sum(axis=1)) * self.norm
            + (1.0 + math.sqrt(people) * length) * left_out
            + np.sqrt(2.0 * people * spread * log)
            + 4.0 / 3.0 * largest * log
            + length * math.sqrt(2.0 * noise * log)
        )
        hidden = learner.hidden(rows.size)
        if hidden is not None and isinstance(learner.budget, Local):
            # Local reports are not Gaussian, but bounded: the largest is about sqrt(d variance).
            reach = rows.bound * (1.0 + math.sqrt(rows.size * hidden.variance))
            extra = people * rows.bound**2 * hidden.largest_variance
            width = width + length * (math.sqrt(2.0 * extra * log) + 4.0 / 3.0 * reach * log)
        return width


def _most_epochs(learner: EpochLearner) -> int:
    """How many epochs that double from ceil(sqrt T) on there can be."""
    assert learner.horizon is not None
    return max(1, math.ceil(math.log2(math.sqrt(learner.horizon) + 1.0)))


def full_rows(turn: FloatArray, phi: FloatArray) -> RowMap:
    """Rows without control variate whose largest length over features (w, m) is allowed."""
    features = len(turn)
    nothing = np.zeros(features), np.zeros((features, 1))
    lengths = BOUND * np.sqrt(((phi @ turn) ** 2).sum(axis=1))
    return RowMap(*nothing, turn, float(lengths.max()), BOUND)


RULES: dict[str, type[Posterior] | type[Bernstein]] = {
    Posterior.name: Posterior,
    Bernstein.name: Bernstein,
}


def rule_of(options: dict[str, Any]) -> Elimination:
    """The rule that the options of a study file name; takes its options out of them."""
    name = options.pop("rule", Posterior.name)
    if name not in RULES:
        raise InvalidInput(f"rule was {name!r:.80}; it must be one of {', '.join(RULES)}.")
    kind = RULES[name]
    own = [field.name for field in fields(kind)]
    return kind(**{key: options.pop(key) for key in list(options) if key in own})
