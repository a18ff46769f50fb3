"""Values of policies estimated from a log, with intervals over people.

With w(x, a) the probability with which the policy gives arm a, and u_i = w(x_i, A_i) / p_i:

    ipw     mean of u_i r_i                                       inverse propensity weighting
    snipw   sum of u_i r_i / sum of u_i                           self-normalised
    dr      mean of sum_a w(x_i, a) q(x_i, a) + u_i (r_i - q(x_i, A_i))      doubly robust

The mean of dr is right if either the propensities p or the expected rewards q are (Dudik, Langford
and Li, 2011); snipw trades a bias of order 1/n for less variance (Swaminathan and Joachims, 2015).
Each is the mean of n terms; those of snipw, with mean m, are m + u_i (r_i - m) / mean u.

| array        | shape  | meaning                                                              |
|--------------|--------|----------------------------------------------------------------------|
| expected     | (n, K) | q(x_i, a), from models that have not seen person i                   |
| outcomes     | (n, K) | q(x_i, a) + 1{a = A_i} / p_i (r_i - q(x_i, A_i))                     |
| propensities | (n,)   | p_i, of the action that was taken                                    |
| likely       | (n, K) | how likely each arm was in the log, as far as is known or estimated  |
| people       | (n,)   | whose rows they are                                                  |
| used         | (n,)   | u_i                                                                  |

Intervals are bootstrap-t over people: whole people are drawn with replacement, and the quantiles of
(mean* - mean) / error* replace those of Student's t (Efron and Tibshirani, 1993, section 12.5),
because few rows with small propensities make means skewed. Where nearly all rewards are 0, a value
rests on the others: below an effective number of `FEWEST_BEHIND` people with one of those there is
no interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    finite_matrix,
    finite_vector,
    freeze_arrays,
    one_of,
    probability,
    whole_number,
    whole_vector,
)

HARDLY = 0.2
"""An action was hardly taken where it was less likely than this share of 1 / K."""

Estimator = Literal["ipw", "snipw", "dr"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)

FEWEST_BEHIND = 30
"""People with a reward other than the most frequent value that an interval needs."""

_FEW_PEOPLE = 20


@dataclass(frozen=True)
class LogValue:
    """The value of a choice, estimated from a log.

    Attributes:
        mean: reward per person.
        standard_error: of the mean, over people.
        lower, upper: the interval; None where fewer than `FEWEST_BEHIND` stand behind it.
        confidence: of the interval, such as 0.95.
        effective: (sum of u)^2 / sum of u^2, the number of rows with equal weights that would tell
            as much.
        hardly: the share of people given an arm that the log hardly gave to people like them.
        behind: the effective number of people whose rewards are not the most frequent value.
        estimator: ipw, snipw or dr.
    """

    mean: float
    standard_error: float
    lower: float | None
    upper: float | None
    confidence: float
    effective: float
    hardly: float
    behind: float
    estimator: Estimator = "dr"

    @property
    def sentence(self) -> str:
        """The value in words."""
        text = (
            f"{self.mean:.4g} per person by {self.estimator} ({self.interval_text}), from as much "
            f"as {self.effective:,.0f} rows that count fully"
        )
        if self.hardly >= 0.01:
            text += (
                f"; {100.0 * self.hardly:.0f}% of people are given what people like them were "
                "hardly ever given, and for them it rests on a model"
            )
        return text + "."

    @property
    def interval_text(self) -> str:
        """The interval in words, or why there is none."""
        if self.lower is None or self.upper is None:
            return (
                f"no interval: {self.behind:,.1f} effective rewards differ from the most frequent "
                f"one, {FEWEST_BEHIND} needed"
            )
        return (
            f"{100.0 * self.confidence:g}% interval over people {self.lower:.4g} to "
            f"{self.upper:.4g}"
        )


@dataclass(frozen=True, eq=False)
class Estimates:
    """Doubly robust outcomes of every arm for every person of a log.

    Attributes:
        actions, rewards, propensities, people, expected, likely: see the module.

    Raises:
        InvalidInput: for arrays that do not fit together.
    """

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    people: IntArray
    expected: FloatArray
    likely: FloatArray

    def __post_init__(self) -> None:
        count, arms = np.shape(self.expected)
        for name in ("expected", "likely"):
            array = finite_matrix(getattr(self, name), name, arms)
            object.__setattr__(self, name, array)
        for name in ("rewards", "propensities"):
            object.__setattr__(self, name, finite_vector(getattr(self, name), name, count))
        actions = whole_vector(self.actions, "actions", 0, arms - 1, count)
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "people", whole_vector(self.people, "people", length=count))
        freeze_arrays(self)

    def __len__(self) -> int:
        return len(self.actions)

    def of(self, rows: IntArray) -> Estimates:
        """The estimates of some rows, in that order."""
        return Estimates(
            self.actions[rows],
            self.rewards[rows],
            self.propensities[rows],
            self.people[rows],
            self.expected[rows],
            self.likely[rows],
        )

    @property
    def outcomes(self) -> FloatArray:
        """(n, K) y(i, a)."""
        rows = np.arange(len(self))
        outcomes = self.expected.copy()
        missed = self.rewards - self.expected[rows, self.actions]
        outcomes[rows, self.actions] += missed / self.propensities
        return outcomes

    def weights(self, choice: ArrayLike) -> FloatArray:
        """(n, K) the probabilities of a choice: arms (n,), probabilities (n, K), or one arm.

        Raises:
            InvalidInput: for an arm that does not exist, or probabilities that do not add up to 1.
        """
        count, arms = self.expected.shape
        given = np.asarray(choice)
        if given.ndim == 0:
            given = np.full(count, whole_number(choice, "choice", 0, arms - 1))
        if given.ndim == 1:
            chosen = whole_vector(given, "choice", 0, arms - 1, count)
            return np.equal.outer(chosen, np.arange(arms)).astype(np.float64)
        weights = finite_matrix(given, "choice", arms)
        if len(weights) != count or (weights < 0.0).any():
            raise InvalidInput(
                f"choice had {len(weights)} rows, the smallest entry was {weights.min():g}; give "
                f"probabilities of {arms} arms for each of {count} rows of the log."
            )
        if not np.allclose(weights.sum(axis=1), 1.0, atol=1e-6):
            raise InvalidInput(
                f"choice had probabilities that add up to between {weights.sum(axis=1).min():g} "
                f"and {weights.sum(axis=1).max():g}; those of a row must add up to 1."
            )
        return weights

    def value(
        self,
        choice: ArrayLike,
        confidence: float = 0.95,
        resamples: int = 1000,
        seed: int = 0,
        instead_of: ArrayLike | None = None,
        estimator: Estimator = "dr",
    ) -> LogValue:
        """What people would have earned on average under a choice.

        Args:
            choice: an arm for everyone, arms (n,), or probabilities (n, K), for the rows of the log
                in their order. It must not have been learnt from the rewards of these rows: such a
                choice looks better than it is. A policy is valued by its probabilities, not by
                actions drawn from them, which add their own noise.
            confidence: of the interval.
            resamples: of the bootstrap.
            seed: of the bootstrap.
            instead_of: another choice; then the value is the difference, person by person.
            estimator: "ipw", "snipw" or "dr" (see the module).

        Raises:
            InvalidInput: for a choice that does not fit the log, and for snipw of a choice that
                gives nobody what the log gave.
        """
        one_of(estimator, "estimator", ESTIMATORS)
        weights = self.weights(choice)
        used, behind = self.used(weights), np.inf
        values = self.terms(weights, estimator)
        if instead_of is None:
            behind = behind_interval(used, self.rewards, self.people)
        else:
            others = self.weights(instead_of)
            values = values - self.terms(others, estimator)
            differs = used != self.used(others)
            behind = min(
                behind_interval(each * differs, self.rewards, self.people)
                for each in (used, self.used(others))
            )
        return value_of_terms(
            values,
            self.people,
            behind,
            estimator,
            self.effective(weights),
            self.hardly(weights),
            resamples,
            confidence,
            seed,
        )

    def used(self, weights: FloatArray) -> FloatArray:
        """(n,) u_i of a choice with probabilities (n, K)."""
        used: FloatArray = weights[np.arange(len(self)), self.actions] / self.propensities
        return used

    def terms(self, weights: FloatArray, estimator: Estimator) -> FloatArray:
        """(n,) the terms whose mean is the value of a choice with probabilities (n, K)."""
        used = self.used(weights)
        if estimator == "ipw":
            return used * self.rewards
        if estimator == "snipw":
            return normalised_terms(used, self.rewards)
        missed = self.rewards - self.expected[np.arange(len(self)), self.actions]
        terms: FloatArray = np.einsum("nk,nk->n", weights, self.expected) + used * missed
        return terms

    def effective(self, weights: FloatArray) -> float:
        """The number of rows that count fully, of a choice with probabilities (n, K)."""
        return effective_number(self.used(weights))

    def hardly(self, weights: FloatArray) -> float:
        """The share of people who are given what the log hardly gave to people like them."""
        return float((weights * self.rare).sum(axis=1).mean())

    @property
    def rare(self) -> BoolArray:
        """(n, K) which arms the log hardly gave to people like each."""
        rare: BoolArray = self.likely < HARDLY / self.likely.shape[1]
        return rare


def normalised_terms(used: FloatArray, rewards: FloatArray) -> FloatArray:
    """(n,) the terms of snipw, whose variance is that of the ratio by the delta method.

    Raises:
        InvalidInput: where all weights (n,) are 0.
    """
    total = float(used.sum())
    if not total:
        raise InvalidInput(
            "estimator was 'snipw', but the choice gives no person what the log gave them, so all "
            "weights are 0; use 'dr'."
        )
    mean = float(used @ rewards) / total
    terms: FloatArray = mean + used * (rewards - mean) * (len(used) / total)
    return terms


def effective_number(weights: FloatArray) -> float:
    """(sum of w)^2 / sum of w^2 of weights (n,) (Kish, 1965); 0 where all are 0."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def behind_interval(used: FloatArray, rewards: FloatArray, people: IntArray) -> float:
    """The effective number of people whose rewards are not the most frequent value.

    Of rewards of 0 and 1 that are mostly 0 these are the positive ones. The number is that of
    people with such a reward and a weight, and at most the effective number of all people times
    the share of people with such a reward: weights of the rewards that were seen would not tell of
    a heavy arm that happened to earn nothing. Weights of one person are added.

    Args:
        used: (n,) u_i.
        rewards, people: (n,).
    """
    levels, level = np.unique(rewards, return_inverse=True)
    _, who = np.unique(people, return_inverse=True)
    unusual = (level != np.bincount(level).argmax()) & (len(levels) > 1)
    seen = np.bincount(who, unusual) > 0.0
    counted = np.bincount(who, unusual & (used != 0.0)) > 0.0
    weights: FloatArray = np.bincount(who, used).astype(np.float64)
    expected = effective_number(weights) * float(seen.mean())
    return min(float(counted.sum()), expected)


def value_of_terms(
    terms: FloatArray,
    people: IntArray,
    behind: float,
    estimator: Estimator,
    effective: float,
    hardly: float,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> LogValue:
    """The value of terms (n,) of people (n,); with an interval where enough stands behind it.

    Args:
        terms: whose mean it is.
        people: whose terms they are.
        behind, estimator, effective, hardly: as in `LogValue`.
        resamples, confidence, seed: of `interval`.
    """
    mean, error, lower, upper = interval(terms, people, confidence, resamples, seed)
    enough = behind >= FEWEST_BEHIND
    return LogValue(
        mean,
        error,
        lower if enough else None,
        upper if enough else None,
        confidence,
        effective,
        hardly,
        behind,
        estimator,
    )


def interval(
    values: ArrayLike,
    people: ArrayLike,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float, float]:
    """Mean, standard error and bootstrap interval (see the module) of values (n,) of people (n,).

    Raises:
        InvalidInput: for values of fewer than two people, and fewer than 100 resamples.
    """
    probability(confidence, "confidence")
    whole_number(resamples, "resamples", minimum=100)
    given = np.asarray(people)
    array = finite_vector(values, "values", len(given))
    _, who = np.unique(given, return_inverse=True)
    count = int(who.max()) + 1
    if count < 2:
        raise InvalidInput("values were of one person; an interval needs at least two.")
    # Around the mean the sums of powers keep their digits.
    centre = float(array.mean())
    sums = np.bincount(who, array - centre, minlength=count)
    sizes = np.bincount(who, minlength=count).astype(np.float64)
    moments = np.stack([sums, sizes, sums * sums, sums * sizes, sizes * sizes], axis=1)
    mean, error = (float(each) for each in _mean_and_error(moments.sum(axis=0), count))
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, moments.shape[1]))
    for resample in range(resamples):
        times = np.bincount(rng.integers(count, size=count), minlength=count)
        drawn[resample] = times @ moments
    means, errors = _mean_and_error(drawn.T, count)
    # Where all that were drawn are alike there is no error to divide by. Few people are often
    # alike, and do not tell the shape of their distribution: there Student's t itself is used.
    usable = errors > 1e-12 * max(error, 1e-300)
    tail = (1.0 - confidence) / 2.0
    if count < _FEW_PEOPLE or not usable.any():
        high = -float(stdtrit(count - 1, tail))
        low = -high
    else:
        ratios = (means[usable] - mean) / errors[usable]
        low, high = map(float, np.quantile(ratios, [tail, 1.0 - tail]))
    mean += centre
    return mean, error, mean - high * error, mean - low * error


def _mean_and_error(moments: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The mean of values over rows and its error over people, from the sums s of people's values
    and their numbers m of rows:

        mean = sum s / sum m,    error = sqrt(C / (C - 1) sum (s - mean m)^2) / sum m.
    """
    sums, sizes, squares, products, sizes_squared = moments
    mean = sums / sizes
    spread = np.maximum(squares - 2.0 * mean * products + mean**2 * sizes_squared, 0.0)
    error: FloatArray = np.sqrt(spread * count / (count - 1.0)) / sizes
    return mean, error
