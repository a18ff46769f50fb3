"""Everything that is estimated from a log, in one step, and what to be wary of.

| array        | shape  | meaning                                                              |
|--------------|--------|----------------------------------------------------------------------|
| likely       | (n, K) | how likely each arm was for each person                              |
| propensities | (n,)   | of the actions taken: as logged, or estimated and not below a least  |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.lab.environments.log_models import KINDS, RewardModels, likely_actions, reward_models
from discreet.lab.environments.log_values import HARDLY, Estimates
from discreet.lab.environments.logs import Log
from discreet.validation import FloatArray, IntArray, InvalidInput

# Estimated propensities below these are raised to them: they would make single rows decide.
_LEAST_ESTIMATED, _LEAST_SHARE = 0.01, 0.1
# So often an arm must have been taken that there is anything to tell.
_FEWEST_TAKEN = 20
# What is said of an arm: the effective number of rows that are few, the share of people that is
# much, and how many standard errors from 1 weights may be that should add up to 1.
_FEW_ROWS, _MANY_PEOPLE, _FAR = 100.0, 0.05, 4.0


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


def estimate(log: Log, kinds: tuple[str, ...] = KINDS) -> Estimated:
    """Models of a log's rewards, its propensities, and doubly robust outcomes of every arm.

    Args:
        log: the decisions.
        kinds: which models of rewards compete, beside the mean (`log_models`).

    Raises:
        InvalidInput: for arms that were hardly ever taken.
    """
    _check_taken(log)
    people = np.arange(len(log)) if log.ids is None else log.ids
    likely, kind = _likely(log, people)
    propensities, raised = _propensities(log, likely)
    models = reward_models(
        log.contexts, log.actions, log.rewards, people, log.domain, log.arms, kinds
    )
    estimates = Estimates(log.actions, log.rewards, propensities, people, models.expected, likely)
    unknown = _about_estimated(log, kind, raised)
    warnings = unknown if log.propensities is None else _about_known(log, log.propensities)
    return Estimated(estimates, models, (*warnings, *_about_support(log, estimates)))


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


def _likely(log: Log, people: IntArray) -> tuple[FloatArray, str]:
    """(n, K) how likely each arm was, and by which kind of model that is estimated."""
    if log.propensities is not None and np.allclose(log.propensities, 1.0 / log.arms):
        return np.full((len(log), log.arms), 1.0 / log.arms), ""
    return likely_actions(log.contexts, log.actions, people, log.domain, log.arms)


def _propensities(log: Log, likely: FloatArray) -> tuple[FloatArray, int]:
    """(n,) of the actions taken, and how many were raised to the least that is allowed."""
    if log.propensities is not None:
        return log.propensities, 0
    estimated = likely[np.arange(len(log)), log.actions]
    least = min(_LEAST_ESTIMATED, _LEAST_SHARE / log.arms)
    return np.maximum(estimated, least), int((estimated < least).sum())


def _about_estimated(log: Log, kind: str, raised: int) -> list[str]:
    names = {"logistic": "multinomial logistic regression", "boosting": "boosted trees"}
    texts = [
        f"Propensities were estimated by {names.get(kind, kind)}, cross-fitted: values are right "
        "only if the columns hold everything that the choice of actions depended on."
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
