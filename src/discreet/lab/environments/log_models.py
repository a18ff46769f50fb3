"""Models of logged decisions: what an action gives whom, and how likely it was to be taken.

The people of a log are divided at random into two halves. What a model says about the people of one
half it learnt from the other (cross-fitting), so it has seen nobody's own reward, and whoever is
served by what it says can be judged by rewards that it has not seen.

| array      | shape  | meaning                                                                 |
|------------|--------|-------------------------------------------------------------------------|
| unit       | (n, d) | contexts on the unit cube                                               |
| folds      | (n,)   | to which fold each row belongs; all rows of a person to the same        |
| rewards    | (n,)   | r_i, what followed                                                      |
| expected   | (n, K) | q(x_i, a), the expected reward of each arm, from the other half         |
| likely     | (n, K) | the probability of each arm, from the other folds                       |

Rewards are modelled for each arm by ridge regression on squares and products of columns or by
histogram gradient boosting, whichever predicts rows that it has not seen with the smaller squared
error, or by their mean where there are few; propensities by multinomial logistic regression on the
same features or boosting, by log loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.people.domain import Box
from discreet.validation import BoolArray, FloatArray, IntArray

KINDS = ("ridge", "boosting")
"""The models of rewards that are compared, with each other and with the mean."""

# With fewer rows of an arm its rewards have no model but their mean, or none but ridge regression.
_LEAST_ROWS, _LEAST_FOR_TREES = 12, 100
# Squares and products are taken of so many columns; with more, columns enter as they are.
_MOST_SQUARED = 12
_FOLDS = 4
# Those with about the same expected reward, from whom a reward is drawn: so many at least, at most,
# and as a share of an arm's rows.
_LEAST_ALIKE, _MOST_ALIKE, _SHARE_ALIKE = 10, 200, 0.05


@dataclass(frozen=True, eq=False)
class _Alike:
    """The rows of one arm in one half, by what was expected of them before they were seen.

    Attributes:
        expected: (m,) in increasing order.
        rewards: (m,) what each gave.
        window: how many neighbours a reward is drawn from.
    """

    expected: FloatArray
    rewards: FloatArray
    window: int

    def draw(self, expected: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rewards (n,) with these means (n,).

        A reward is that of a row of the arm of which about the same was expected. So it lies where
        rewards lie, with as much noise as there. Its mean m becomes the one asked for, q, as it is
        replaced by the largest reward of the arm with probability (q - m) / (largest - m), or by
        the smallest if q < m; rewards of 0 and 1 are then Bernoulli draws of mean q.
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
    """What each arm is expected to give each person of a log.

    Attributes:
        halves: (n,) 0 or 1.
        expected: (n, K), within the rewards that the arm gave in the other half.
        kinds: for each half that a model learnt from, what it is for each arm.
    """

    halves: IntArray
    expected: FloatArray
    kinds: tuple[tuple[str, ...], tuple[str, ...]]
    _alike: tuple[tuple[_Alike, ...], tuple[_Alike, ...]]

    def draw(self, rows: IntArray, rng: np.random.Generator) -> FloatArray:
        """(len(rows), K) simulated rewards for rows of one half."""
        alike = self._alike[1 - int(self.halves[rows[0]])]
        columns = [each.draw(self.expected[rows, arm], rng) for arm, each in enumerate(alike)]
        return np.stack(columns, axis=1)


def split(people: IntArray, parts: int, rng: np.random.Generator) -> IntArray:
    """(n,) parts 0, 1, ... of about the same number of people, drawn at random; all rows of a
    person (n,) are in the same."""
    _, who = np.unique(people, return_inverse=True)
    order = rng.permutation(int(who.max()) + 1)
    part: IntArray = (order % parts)[who].astype(np.int64)
    return part


def reward_models(
    contexts: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    people: IntArray,
    domain: Box,
    arms: int,
    kinds: tuple[str, ...] = KINDS,
) -> RewardModels:
    """Models of the rewards of each arm, learnt in either half for the other (see the module).

    Args:
        contexts: (n, d).
        actions, rewards: (n,).
        people: (n,) whose rows they are.
        domain: of the contexts.
        arms: K; the rewards of one that nobody in a half was given are taken for those of anyone.
        kinds: the models that are compared, some of `KINDS`.
    """
    rng = np.random.default_rng(0)
    halves, folds = split(people, 2, rng), split(people, _FOLDS, rng)
    table = _Table(domain.to_unit(contexts), domain)
    expected = np.empty((len(actions), arms))
    alike: list[list[_Alike]] = [[], []]
    chosen: list[list[str]] = [[], []]
    for half in (0, 1):
        for arm in range(arms):
            rows = np.flatnonzero((halves == half) & (actions == arm))
            if not len(rows):  # an arm of few people, all in the other half
                rows = np.flatnonzero(halves == half)
            kind, before = _best_kind(table, rewards, rows, folds, kinds)
            other = np.flatnonzero(halves != half)
            model = _fitted(kind, table, rewards, rows)
            low, high = rewards[rows].min(), rewards[rows].max()
            expected[other, arm] = np.clip(model(other), low, high)
            order = np.argsort(before, kind="stable")
            window = int(np.clip(_SHARE_ALIKE * len(rows), _LEAST_ALIKE, _MOST_ALIKE))
            window = min(window, len(rows))
            alike[half].append(_Alike(before[order], rewards[rows][order], window))
            chosen[half].append(kind)
    expected.setflags(write=False)
    return RewardModels(
        halves,
        expected,
        (tuple(chosen[0]), tuple(chosen[1])),
        (tuple(alike[0]), tuple(alike[1])),
    )


def likely_actions(
    contexts: FloatArray, actions: IntArray, people: IntArray, domain: Box, arms: int
) -> tuple[FloatArray, str]:
    """(n, K) how likely each arm was for each row, by models of the other folds, and which kind of
    model these are."""
    folds = split(people, _FOLDS, np.random.default_rng(1))
    table = _Table(domain.to_unit(contexts), domain)
    rows = np.arange(len(actions))
    candidates = {
        kind: _likely(kind, table, actions, folds, arms) for kind in ("logistic", "boosting")
    }
    losses = {
        kind: float(-np.log(np.maximum(each[rows, actions], 1e-6)).mean())
        for kind, each in candidates.items()
    }
    best = min(losses, key=lambda kind: losses[kind])
    return candidates[best], best


def _likely(kind: str, table: _Table, actions: IntArray, folds: IntArray, arms: int) -> FloatArray:
    likely = np.zeros((len(actions), arms))
    for fold in range(_FOLDS):
        learnt, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if not len(asked):
            continue
        present = np.unique(actions[learnt])
        if len(present) == 1:
            likely[asked, present[0]] = 1.0
            continue
        classifier, features = _classifier(kind, table)
        classifier.fit(features[learnt], actions[learnt])
        likely[np.ix_(asked, classifier.classes_)] = classifier.predict_proba(features[asked])
    return likely


class _Table:
    """Contexts as the models take them.

    Attributes:
        codes: (n, d) on the unit cube; categories as 0, 1, ...
        unordered: (d,) which columns are categories of more than two labels.
        features: (n, f) for linear models: columns, their squares and products, and categories
            one-hot, each with mean 0 and standard deviation 1.
    """

    def __init__(self, unit: FloatArray, domain: Box) -> None:
        from sklearn.preprocessing import PolynomialFeatures, StandardScaler

        sizes = [len(labels) for labels in domain.categories]
        self.unordered: BoolArray = np.array([size > 2 for size in sizes], dtype=np.bool_)
        self.codes: FloatArray = unit.copy()
        parts = []
        for column in np.flatnonzero(self.unordered):
            codes = np.round(unit[:, column] * (sizes[column] - 1))
            self.codes[:, column] = codes
            parts.append(np.equal.outer(codes, np.arange(sizes[column])).astype(np.float64))
        numbers = unit[:, ~self.unordered]
        if numbers.shape[1]:
            degree = 2 if numbers.shape[1] <= _MOST_SQUARED else 1
            parts.append(PolynomialFeatures(degree, include_bias=False).fit_transform(numbers))
        self.features: FloatArray = StandardScaler().fit_transform(np.concatenate(parts, axis=1))


def _best_kind(
    table: _Table, rewards: FloatArray, rows: IntArray, folds: IntArray, kinds: tuple[str, ...]
) -> tuple[str, FloatArray]:
    """The kind of model with the smallest squared error on rows it has not seen, and (m,) what it
    expects of each row from the other folds."""
    wanted = ["mean"]
    wanted += ["ridge"] if "ridge" in kinds and len(rows) >= _LEAST_ROWS else []
    wanted += ["boosting"] if "boosting" in kinds and len(rows) >= _LEAST_FOR_TREES else []
    before = {kind: np.empty(len(rows)) for kind in wanted}
    for fold in range(_FOLDS):
        asked = folds[rows] == fold
        learnt = rows[~asked] if (~asked).any() else rows
        for kind in wanted:
            if asked.any():
                before[kind][asked] = _fitted(kind, table, rewards, learnt)(rows[asked])
    errors = {kind: float(np.square(rewards[rows] - before[kind]).mean()) for kind in wanted}
    best = min(errors, key=lambda kind: errors[kind])
    return best, before[best]


def _fitted(kind: str, table: _Table, rewards: FloatArray, rows: IntArray) -> Any:
    """A function of rows that gives what a model which learnt from `rows` expects of them."""
    if kind == "mean" or np.ptp(rewards[rows]) == 0.0:
        mean = float(rewards[rows].mean())
        return lambda asked: np.full(len(asked), mean)
    model, features = _regressor(kind, table)
    model.fit(features[rows], rewards[rows])
    return lambda asked: model.predict(features[asked])


def _regressor(kind: str, table: _Table) -> tuple[Any, FloatArray]:
    if kind == "ridge":
        from sklearn.linear_model import RidgeCV

        return RidgeCV(np.logspace(-2.0, 5.0, 15)), table.features
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(**_trees(table)), table.codes


def _classifier(kind: str, table: _Table) -> tuple[Any, FloatArray]:
    if kind == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=1.0, max_iter=300), table.features
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**_trees(table)), table.codes


def _trees(table: _Table) -> dict[str, Any]:
    """Small trees, slowly: a log of a few thousand rows has much noise."""
    return {
        "max_iter": 60,
        "learning_rate": 0.08,
        "max_leaf_nodes": 8,
        "min_samples_leaf": 20,
        "l2_regularization": 1.0,
        "early_stopping": False,
        "categorical_features": table.unordered if table.unordered.any() else None,
        "random_state": 0,
    }
