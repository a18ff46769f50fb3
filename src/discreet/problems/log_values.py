"""What a log says about actions that were not taken: doubly robust values with intervals.

    y(i, a) = q(x_i, a) + 1{a = A_i} / p_i (r_i - q(x_i, A_i))

estimates what arm a would have given person i. Its mean is right if either the propensities p or
the expected rewards q are, whatever is wrong with the other (Dudik, Langford and Li, 2011): the
second term corrects the errors of q. A policy that gives arm a with probability w(x_i, a) is worth
the mean over people of sum_a w(x_i, a) y(i, a).

| array        | shape  | meaning                                                              |
|--------------|--------|----------------------------------------------------------------------|
| expected     | (n, K) | q(x_i, a), from models that have not seen person i                   |
| outcomes     | (n, K) | y(i, a)                                                              |
| propensities | (n,)   | p_i, of the action that was taken                                    |
| likely       | (n, K) | how likely each arm was in the log, as far as is known or estimated  |
| people       | (n,)   | whose rows they are                                                  |

Intervals come from a bootstrap over people: whole people are drawn with replacement, and the
quantiles of (mean* - mean) / error* stand for those of Student's t (Efron and Tibshirani, 1993,
section 12.5), because few rows with small propensities make means skewed.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    probability,
    whole_number,
    whole_vector,
)

HARDLY = 0.2
"""An action was hardly taken where it was less likely than this share of 1 / K."""

_FEW_PEOPLE = 20


@dataclass(frozen=True)
class LogValue:
    """What people would have earned on average, as far as a log tells.

    Attributes:
        mean: reward per person.
        standard_error: of the mean, over people.
        lower, upper: the interval.
        confidence: of the interval, such as 0.95.
        effective: so many rows with weights of 1 would tell as much,
            (sum_i w_i)^2 / sum_i w_i^2 with w_i = w(x_i, A_i) / p_i.
        hardly: the share of people who are given what the log hardly gave to people like them.
    """

    mean: float
    standard_error: float
    lower: float
    upper: float
    confidence: float
    effective: float
    hardly: float

    @property
    def sentence(self) -> str:
        """The value in words."""
        text = (
            f"{self.mean:.4g} per person ({100.0 * self.confidence:g}% interval {self.lower:.4g} "
            f"to {self.upper:.4g}), from as much as {self.effective:,.0f} rows that count fully"
        )
        if self.hardly >= 0.01:
            text += (
                f"; {100.0 * self.hardly:.0f}% of people are given what people like them were "
                "hardly ever given, and for them it rests on a model"
            )
        return text + "."


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
    ) -> LogValue:
        """What people would have earned on average under a choice.

        Args:
            choice: an arm for everyone, arms (n,), or probabilities (n, K), for the rows of the log
                in their order. It must not have been learnt from the rewards of these rows: such a
                choice looks better than it is.
            confidence: of the interval.
            resamples: of the bootstrap.
            seed: of the bootstrap.
            instead_of: another choice; then the value is the difference, person by person.

        Raises:
            InvalidInput: for a choice that does not fit the log.
        """
        weights = self.weights(choice)
        values = np.einsum("nk,nk->n", weights, self.outcomes)
        if instead_of is not None:
            values = values - np.einsum("nk,nk->n", self.weights(instead_of), self.outcomes)
        mean, error, lower, upper = interval(values, self.people, confidence, resamples, seed)
        return LogValue(
            mean,
            error,
            lower,
            upper,
            confidence,
            self.effective(weights),
            self.hardly(weights),
        )

    def effective(self, weights: FloatArray) -> float:
        """The number of rows that count fully, of a choice with probabilities (n, K)."""
        used = weights[np.arange(len(self)), self.actions] / self.propensities
        squares = float(np.square(used).sum())
        return float(used.sum()) ** 2 / squares if squares else 0.0

    def hardly(self, weights: FloatArray) -> float:
        """The share of people who are given what the log hardly gave to people like them."""
        return float((weights * self.rare).sum(axis=1).mean())

    @property
    def rare(self) -> BoolArray:
        """(n, K) which arms the log hardly gave to people like each."""
        rare: BoolArray = self.likely < HARDLY / self.likely.shape[1]
        return rare


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
