"""Models of a log's rewards and choices, and what each action would have given each person.

The people of a log are divided at random into two halves. What a model says about the people of one
half it learnt from the other (cross-fitting), so it has seen nobody's own reward, and people served
by a model can be judged by rewards that it has not seen. Rewards are modelled by histogram gradient
boosting over context and arm, choices by multinomial logistic regression, which is better
calibrated: values by boosted propensities erred by a third more (`benchmarks/logged.py values`).

| array        | shape  | meaning                                                              |
|--------------|--------|----------------------------------------------------------------------|
| rewards      | (n,)   | r_i, what followed                                                   |
| halves       | (n,)   | 0 or 1; all rows of a person in the same                             |
| folds        | (n,)   | 0 to 3, likewise                                                     |
| expected     | (n, K) | q(x_i, a), the expected reward of each arm, from the other half      |
| likely       | (n, K) | the probability of each arm, from the other folds                    |
| propensities | (n,)   | of the actions taken: as logged, or estimated and not below a least  |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.lab.environments.log_values import HARDLY, Estimates
from discreet.lab.environments.logs import Log
from discreet.people.domain import Box
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

_FOLDS = 4
# Small trees, slowly: a log of a few thousand rows has much noise.
_BOOSTING: dict[str, Any] = {
    "max_iter": 60,
    "learning_rate": 0.08,
    "max_leaf_nodes": 8,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "random_state": 0,
}
_MOST_LABELS = 255  # of a category, by scikit-learn; others are numbers
# Squares and products are taken of so many columns; with more, columns enter as they are.
_MOST_SQUARED = 12
# Those with about the same expected reward, from whom a reward is drawn: so many at least, at most,
# and as a share of an arm's rows.
_LEAST_ALIKE, _MOST_ALIKE, _SHARE_ALIKE = 10, 200, 0.05
# Estimated propensities below these are raised to them: they would make single rows decide.
_LEAST_ESTIMATED, _LEAST_SHARE = 0.01, 0.1
# So often an arm must have been taken that there is anything to tell.
_FEWEST_TAKEN = 20
# What is said of an arm: the effective number of rows that are few, the share of people that is
# much, and how many standard errors from 1 weights may be that should add up to 1.
_FEW_ROWS, _MANY_PEOPLE, _FAR = 100.0, 0.05, 4.0


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
    """What a log says.

    Attributes:
        estimates: what each arm would have given each person, with intervals.
        models: of rewards.
        warnings: what looks wrong or rests on little, each one sentence.
    """

    estimates: Estimates
    models: RewardModels
    warnings: tuple[str, ...]


def estimate(log: Log) -> Estimated:
    """Models of a log's rewards, its propensities, and doubly robust outcomes of every arm.

    Raises:
        InvalidInput: for arms that were hardly ever taken.
    """
    _check_taken(log)
    people = np.arange(len(log)) if log.ids is None else log.ids
    likely = _likely(log, people)
    propensities, raised = _propensities(log, likely)
    models = reward_models(log.contexts, log.actions, log.rewards, people, log.domain, log.arms)
    estimates = Estimates(log.actions, log.rewards, propensities, people, models.expected, likely)
    unknown = _about_estimated(log, raised)
    warnings = unknown if log.propensities is None else _about_known(log, log.propensities)
    return Estimated(estimates, models, (*warnings, *_about_support(log, estimates)))


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
) -> RewardModels:
    """A model of rewards by context and arm for either half, learnt from the other.

    Args:
        contexts: (n, d).
        actions, rewards: (n,).
        people: (n,) whose rows they are.
        domain: of the contexts.
        arms: K; the rewards of one that nobody in a half was given are taken for those of anyone.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(0)
    halves, folds = split(people, 2, rng), split(people, _FOLDS, rng)
    codes, unordered = _codes(contexts, domain)
    features = np.column_stack([codes, actions])
    categories = np.append(unordered, arms <= _MOST_LABELS)
    model = HistGradientBoostingRegressor(categorical_features=categories, **_BOOSTING)
    expected, before = np.empty((len(actions), arms)), np.empty(len(actions))
    alike: list[list[_Alike]] = [[], []]
    for half in (0, 1):
        own, other = np.flatnonzero(halves == half), np.flatnonzero(halves != half)
        for fold in range(_FOLDS):
            learnt, asked = own[folds[own] != fold], own[folds[own] == fold]
            if len(asked):
                learnt = learnt if len(learnt) else own
                before[asked] = model.fit(features[learnt], rewards[learnt]).predict(
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
    return RewardModels(halves, expected, (tuple(alike[0]), tuple(alike[1])))


def likely_actions(
    contexts: FloatArray, actions: IntArray, people: IntArray, domain: Box, arms: int
) -> FloatArray:
    """(n, K) how likely each arm was for each row, by models of the other folds."""
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
        learnt, asked = folds != fold, np.flatnonzero(folds == fold)
        present = np.unique(actions[learnt])
        if len(present) == 1:
            likely[asked, present[0]] = 1.0
        elif len(asked):
            model.fit(codes[learnt], actions[learnt])
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
            f"action {', '.join(rare)} in the log; at least {_FEWEST_TAKEN} are needed to say "
            'anything about an action. Leave such actions out of the names, with outside = "drop"; '
            "propensities must then be those among the actions that are left."
        )


def _likely(log: Log, people: IntArray) -> FloatArray:
    """(n, K) how likely each arm was."""
    if log.propensities is not None and np.allclose(log.propensities, 1.0 / log.arms):
        return np.full((len(log), log.arms), 1.0 / log.arms)
    return likely_actions(log.contexts, log.actions, people, log.domain, log.arms)


def _propensities(log: Log, likely: FloatArray) -> tuple[FloatArray, int]:
    """(n,) of the actions taken, and how many were raised to the least that is allowed."""
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
    """Arms whose propensities cannot be right: E[1{a = A} / p] = 1."""
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
    """Arms about which the log says little."""
    texts = []
    for arm, name in enumerate(log.arm_names):
        weights = estimates.weights(arm)
        hardly, effective = estimates.hardly(weights), estimates.effective(weights)
        if hardly >= _MANY_PEOPLE:
            texts.append(
                f"{100.0 * hardly:.0f}% of people are unlike those who were given {name!r} (less "
                f"than once in {log.arms / HARDLY:.0f} decisions like theirs): what it would give "
                "them rests on a model."
            )
        if effective < _FEW_ROWS:
            texts.append(
                f"What {name!r} would give everyone is known only as well as from "
                f"{effective:,.0f} people drawn at random."
            )
    return texts
