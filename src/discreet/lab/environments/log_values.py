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
| likely       | (n, K) | the probability of each arm, known or estimated from other folds     |
| people       | (n,)   | the person of each row                                               |
| used         | (n,)   | u_i                                                                  |

Intervals are bootstrap-t over people: whole people are drawn with replacement, and the quantiles of
(mean* - mean) / error* replace those of Student's t (Efron and Tibshirani, 1993, section 12.5),
because few rows with small propensities make means skewed. Where nearly all rewards are 0, a value
rests on the others: below an effective number of `FEWEST_BEHIND` people with one of those there is
no interval.

Models are cross-fitted: the people of a log are divided at random into two halves, and rewards of
one half are predicted by a model of the other, so no person's own reward is used, and people served
by a model can be judged by rewards that it has not seen. Rewards are modelled by histogram gradient
boosting over context and arm, choices by multinomial logistic regression, which is better
calibrated: values by boosted propensities erred by a third more (`benchmarks/logged.py values`).

| array        | shape  | meaning                                                              |
|--------------|--------|----------------------------------------------------------------------|
| halves       | (n,)   | 0 or 1; all rows of a person in the same                             |
| folds        | (n,)   | 0 to 3, likewise                                                     |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from discreet.lab.environments.logs import Log
from discreet.people.domain import Box
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
"""An action was rare where its probability was below this share of 1 / K."""

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
        effective: (sum of u)^2 / sum of u^2, the effective number of rows.
        hardly: the share of people given an arm that was rare for people like them.
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
        """The value in one sentence."""
        text = (
            f"{self.mean:.4g} per person by {self.estimator} ({self.interval_text}), from as much "
            f"as {self.effective:,.0f} rows that count fully"
        )
        if self.hardly >= 0.01:
            text += (
                f"; for {100.0 * self.hardly:.0f}% of people it rests on a model, as people like "
                "them were hardly ever given their action"
            )
        return text + "."

    @property
    def interval_text(self) -> str:
        """The interval, or why there is none."""
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
        instead_of: ArrayLike | None = None,
        estimator: Estimator = "dr",
    ) -> LogValue:
        """The mean reward of all people under a choice.

        Args:
            choice: an arm for everyone, arms (n,), or probabilities (n, K), for the rows of the log
                in their order. A choice that was learnt from these rewards looks better than it is.
                Value a policy by its probabilities; drawn actions add their own noise.
            confidence: of the interval.
            resamples: of the bootstrap.
            instead_of: another choice; the value is then the paired difference.
            estimator: "ipw", "snipw" or "dr" (see the module).

        Raises:
            InvalidInput: for a choice that does not fit the log, and for snipw of a choice that
                never agrees with the log.
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
        )

    def used(self, weights: FloatArray) -> FloatArray:
        """(n,) u_i of a choice with probabilities (n, K)."""
        return weights[np.arange(len(self)), self.actions] / self.propensities

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
        """The share of people given an arm that was rare for people like them."""
        return float((weights * self.rare).sum(axis=1).mean())

    @property
    def rare(self) -> BoolArray:
        """(n, K) which arms were rare for people like each."""
        rare: BoolArray = self.likely < HARDLY / self.likely.shape[1]
        return rare


def normalised_terms(used: FloatArray, rewards: FloatArray) -> FloatArray:
    """(n,) the terms of snipw; their variance is the ratio's by the delta method.

    Raises:
        InvalidInput: where all weights (n,) are 0.
    """
    total = float(used.sum())
    if not total:
        raise InvalidInput(
            "estimator was 'snipw', but the choice never agrees with the log, so all weights are "
            "0; use 'dr'."
        )
    mean = float(used @ rewards) / total
    return mean + used * (rewards - mean) * (len(used) / total)


def effective_number(weights: FloatArray) -> float:
    """(sum of w)^2 / sum of w^2 of weights (n,) (Kish, 1965); 0 where all are 0."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def behind_interval(used: FloatArray, rewards: FloatArray, people: IntArray) -> float:
    """The effective number of people whose rewards are not the most frequent value.

    Of rewards of 0 and 1 that are mostly 0 these are the positive ones. It is the number of people
    with such a reward and a weight, and at most the effective number of all people times the share
    with such a reward, which also counts a heavy arm that happened to earn nothing. Weights of one
    person are added.

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
) -> LogValue:
    """The mean of terms (n,) of people (n,), with an interval where it has enough support.

    Args:
        terms: (n,).
        people: (n,) the person of each term.
        behind, estimator, effective, hardly: as in `LogValue`.
        resamples, confidence: of `interval`.
    """
    mean, error, lower, upper = interval(terms, people, confidence, resamples)
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
    # Resamples of equal values have no error to divide by. Few people are often alike, and too few
    # to tell the shape of their distribution: there Student's t itself is used.
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


# Models.

_FOLDS = 4
# Small trees and a low rate: a log of a few thousand rows has much noise.
_BOOSTING: dict[str, Any] = {
    "max_iter": 60,
    "learning_rate": 0.08,
    "max_leaf_nodes": 8,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "random_state": 0,
}
_MOST_LABELS = 255  # of a category, by scikit-learn; others are numbers
_MOST_SQUARED = 12  # columns of which squares and products are taken
# Rows of about the same expected reward, from which a reward is drawn: at least, at most, and as a
# share of an arm's rows.
_LEAST_ALIKE, _MOST_ALIKE, _SHARE_ALIKE = 10, 200, 0.05
# Estimated propensities are at least the first, and at least this share of 1 / K.
_LEAST_ESTIMATED, _LEAST_SHARE = 0.01, 0.1
_FEWEST_TAKEN = 20  # decisions that an arm needs
# Warnings about an arm: below this effective number of rows, above this share of people, and where
# weights that should have mean 1 are this many standard errors away.
_FEW_ROWS, _MANY_PEOPLE, _FAR = 100.0, 0.05, 4.0


@dataclass(frozen=True, eq=False)
class _Alike:
    """The rows of one arm in one half, sorted by their cross-fitted expected rewards.

    Attributes:
        expected: (m,) in increasing order.
        rewards: (m,) of the rows.
        window: the number of neighbours from which a reward is drawn.
    """

    expected: FloatArray
    rewards: FloatArray
    window: int

    def draw(self, expected: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rewards (n,) with these means (n,).

        A reward is that of a row of the arm with about the same expected reward, so it has the
        noise of the log there. Its mean m becomes q, as it is replaced by the largest reward of the
        arm with probability (q - m) / (largest - m), or by the smallest if q < m; rewards of 0 and
        1 are then Bernoulli draws of mean q.
        """
        last = len(self.rewards) - self.window
        first = np.searchsorted(self.expected, expected) - self.window // 2
        first = np.clip(first, 0, last)
        rewards = self.rewards[first + rng.integers(self.window, size=len(expected))]
        sums = np.concatenate([[0.0], np.cumsum(self.rewards)])
        means = (sums[first + self.window] - sums[first]) / self.window
        extreme = np.where(expected > means, self.rewards.max(), self.rewards.min())
        gap = extreme - means
        share = np.where(gap == 0.0, 0.0, (expected - means) / np.where(gap == 0.0, 1.0, gap))
        drawn: FloatArray = np.where(rng.random(len(expected)) < share, extreme, rewards)
        return drawn


@dataclass(frozen=True, eq=False)
class RewardModels:
    """The expected reward of each arm for each person of a log.

    Attributes:
        halves: (n,) 0 or 1.
        expected: (n, K), within the arm's rewards in the other half.
    """

    halves: IntArray
    expected: FloatArray
    _alike: tuple[tuple[_Alike, ...], tuple[_Alike, ...]]

    def draw(self, rows: IntArray, rng: np.random.Generator) -> FloatArray:
        """(len(rows), K) simulated rewards for rows of one half."""
        alike = self._alike[1 - int(self.halves[rows[0]])]
        columns = [each.draw(self.expected[rows, arm], rng) for arm, each in enumerate(alike)]
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class Estimated:
    """Estimates from a log.

    Attributes:
        estimates: doubly robust outcomes of each arm for each person.
        models: of rewards.
        warnings: about propensities and support, each one sentence.
    """

    estimates: Estimates
    models: RewardModels
    warnings: tuple[str, ...]


def estimate(log: Log, draws: bool = False) -> Estimated:
    """Models of a log's rewards, its propensities, and doubly robust outcomes of every arm.

    Only models for `draws` can draw rewards, which takes four fifths of all fits.

    Raises:
        InvalidInput: for arms that were hardly ever taken.
    """
    _check_taken(log)
    people = np.arange(len(log)) if log.ids is None else log.ids
    likely = _likely(log, people)
    propensities, raised = _propensities(log, likely)
    known = log.contexts, log.actions, log.rewards, people, log.domain, log.arms
    models = reward_models(*known, draws)
    estimates = Estimates(log.actions, log.rewards, propensities, people, models.expected, likely)
    unknown = _about_estimated(log, raised)
    warnings = unknown if log.propensities is None else _about_known(log, log.propensities)
    return Estimated(estimates, models, (*warnings, *_about_support(log, estimates)))


def split(people: IntArray, parts: int, rng: np.random.Generator) -> IntArray:
    """(n,) random parts 0, 1, ... of equally many people; all rows of a person are in the same."""
    _, who = np.unique(people, return_inverse=True)
    order = rng.permutation(int(who.max()) + 1)
    return (order % parts)[who].astype(np.int64)


def reward_models(
    contexts: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    people: IntArray,
    domain: Box,
    arms: int,
    draws: bool = True,
) -> RewardModels:
    """A model of rewards by context and arm for either half, fitted to the other.

    Args:
        contexts: (n, d).
        actions, rewards: (n,).
        people: (n,) the person of each row.
        domain: of the contexts.
        arms: K; an arm without rows in a half takes the rewards of all arms there.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(0)
    halves, folds = split(people, 2, rng), split(people, _FOLDS, rng)
    codes, unordered = _codes(contexts, domain)
    features = np.column_stack([codes, actions])
    categories = np.append(unordered, arms <= _MOST_LABELS)
    model = HistGradientBoostingRegressor(categorical_features=categories, **_BOOSTING)
    expected, before = np.empty((len(actions), arms)), np.zeros(len(actions))
    alike: list[list[_Alike]] = [[], []]
    for half in (0, 1):
        own, other = np.flatnonzero(halves == half), np.flatnonzero(halves != half)
        for fold in range(_FOLDS if draws else 0):
            fitted, asked = own[folds[own] != fold], own[folds[own] == fold]
            if len(asked):
                fitted = fitted if len(fitted) else own
                before[asked] = model.fit(features[fitted], rewards[fitted]).predict(
                    features[asked]
                )
        model.fit(features[own], rewards[own])
        for arm in range(arms):
            taken = own[actions[own] == arm]
            rows = taken if len(taken) else own  # an arm of few people, all in the other half
            given = np.column_stack([codes[other], np.full(len(other), arm)])
            low, high = rewards[rows].min(), rewards[rows].max()
            expected[other, arm] = np.clip(model.predict(given), low, high)
            order = np.argsort(before[rows], kind="stable")
            window = int(np.clip(_SHARE_ALIKE * len(rows), _LEAST_ALIKE, _MOST_ALIKE))
            alike[half].append(
                _Alike(before[rows][order], rewards[rows][order], min(window, len(rows)))
            )
    expected.setflags(write=False)
    return RewardModels(halves, expected, (tuple(alike[0]), tuple(alike[1])) if draws else ((), ()))


def likely_actions(
    contexts: FloatArray, actions: IntArray, people: IntArray, domain: Box, arms: int
) -> FloatArray:
    """(n, K) the probability of each arm in each row, by models of the other folds."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

    codes, unordered = _codes(contexts, domain)
    degree = 2 if (~unordered).sum() <= _MOST_SQUARED else 1
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), np.flatnonzero(unordered)),
        (PolynomialFeatures(degree, include_bias=False), np.flatnonzero(~unordered)),
        sparse_threshold=0.0,
    )
    model = make_pipeline(columns, StandardScaler(), LogisticRegression(max_iter=300))
    folds = split(people, _FOLDS, np.random.default_rng(1))
    likely = np.zeros((len(actions), arms))
    for fold in range(_FOLDS):
        fitted, asked = folds != fold, np.flatnonzero(folds == fold)
        present = np.unique(actions[fitted])
        if len(present) == 1:
            likely[asked, present[0]] = 1.0
        elif len(asked):
            model.fit(codes[fitted], actions[fitted])
            likely[np.ix_(asked, model.classes_)] = model.predict_proba(codes[asked])
    return likely


def _codes(contexts: FloatArray, domain: Box) -> tuple[FloatArray, BoolArray]:
    """(n, d) contexts on the unit cube, categories as 0, 1, ..., and (d,) which are these."""
    sizes = np.array([len(labels) for labels in domain.categories])
    unordered: BoolArray = (sizes > 2) & (sizes <= _MOST_LABELS)
    codes: FloatArray = domain.to_unit(contexts) * np.where(unordered, sizes - 1.0, 1.0)
    codes[:, unordered] = codes[:, unordered].round()
    return codes, unordered


def _check_taken(log: Log) -> None:
    counts = np.bincount(log.actions, minlength=log.arms).tolist()
    rare = [
        f"{name!r} was taken {count} times"
        for name, count in zip(log.arm_names, counts, strict=True)
        if count < _FEWEST_TAKEN
    ]
    if rare:
        raise InvalidInput(
            f"action {', '.join(rare)} in the log; an action needs at least {_FEWEST_TAKEN}. Leave "
            'rare actions out of the names, with outside = "drop"; propensities must then be '
            "conditional on the other actions."
        )


def _likely(log: Log, people: IntArray) -> FloatArray:
    """(n, K) the probability of each arm."""
    if log.propensities is not None and np.allclose(log.propensities, 1.0 / log.arms):
        return np.full((len(log), log.arms), 1.0 / log.arms)
    return likely_actions(log.contexts, log.actions, people, log.domain, log.arms)


def _propensities(log: Log, likely: FloatArray) -> tuple[FloatArray, int]:
    """(n,) of the actions taken, and the number that was raised to the least allowed."""
    if log.propensities is not None:
        return log.propensities, 0
    estimated = likely[np.arange(len(log)), log.actions]
    least = min(_LEAST_ESTIMATED, _LEAST_SHARE / log.arms)
    return np.maximum(estimated, least), int((estimated < least).sum())


def _about_estimated(log: Log, raised: int) -> list[str]:
    texts = [
        "Propensities were estimated by multinomial logistic regression, cross-fitted: values are "
        "right only if the columns hold everything that the choice of actions depended on."
    ]
    if raised:
        texts.append(
            f"{raised:,} of {len(log):,} estimated propensities were so small that they were "
            "raised; those rows count less than they should."
        )
    return texts


def _about_known(log: Log, propensities: FloatArray) -> list[str]:
    """Warnings about arms whose propensities cannot be right: E[1{a = A} / p] = 1."""
    texts = []
    for arm, name in enumerate(log.arm_names):
        weights = (log.actions == arm) / propensities
        error = float(weights.std()) / np.sqrt(len(weights))
        if abs(weights.mean() - 1.0) > _FAR * error:
            texts.append(
                f"The propensities of {name!r} do not fit how often it was taken: their inverses "
                f"add up to {weights.mean():.3g} for each row of the log, and should to 1. Are "
                "they the probabilities of the actions that were taken, among the actions named?"
            )
    return texts


def _about_support(log: Log, estimates: Estimates) -> list[str]:
    """Warnings about arms with little support in the log."""
    texts = []
    for arm, name in enumerate(log.arm_names):
        weights = estimates.weights(arm)
        hardly, effective = estimates.hardly(weights), estimates.effective(weights)
        if hardly >= _MANY_PEOPLE:
            texts.append(
                f"{100.0 * hardly:.0f}% of people are unlike the people who were given {name!r} "
                f"(less than once in {log.arms / HARDLY:.0f} similar decisions): its value for "
                "them rests on a model."
            )
        if effective < _FEW_ROWS:
            texts.append(
                f"The value of {name!r} for everyone is known only as well as from "
                f"{effective:,.0f} people drawn at random."
            )
    return texts
