"""Cases of one method in one synthetic setting."""

from __future__ import annotations

from typing import Any

from discreet.learners.partition.learner import Partition
from discreet.learners.partition.published import PublishedPartition
from discreet.privacy import Budget, Local, NonPrivate
from discreet.records import Value
from discreet.reproduction.cases import NON_PRIVATE, REGRET, UNIFORM, Case
from discreet.reproduction.ma2025.settings import (
    EXPONENTIAL,
    Rewards,
    SyntheticSources,
    problem,
)
from discreet.reproduction.probes import Context

OURS, PUBLISHED = "ours", "published"
METHODS = (OURS, PUBLISHED)


def private_case(
    method: str,
    epsilon: float,
    rounds: int,
    *,
    figure: str,
    panel: str | None,
    label: str,
    constant: float,
    sources: SyntheticSources | None = None,
    paper: float | None = None,
    setting: dict[str, Value] | None = None,
    probe: Context | None = None,
    rewards: Rewards | None = None,
) -> Case:
    """Ours or the published method, with or without sources.

    Args:
        figure: of the paper, for records.
        constant: c of the published rules.
        paper: what the published program logged.
        setting: what else was varied.
        probe: where policies are watched.
        rewards: the mean rewards, which panels then name; exponential ones if left out.
    """
    options: dict[str, Any] = {}
    if method == PUBLISHED:
        largest = max((spec.people for spec in sources.specs), default=0) if sources else 0
        options = {"confidence_constant": constant, "source_horizon": largest}
    return _case(
        method,
        Partition.name if method == OURS else PublishedPartition.name,
        Local(epsilon),
        rounds,
        options=options,
        sources=sources,
        paper={} if paper is None or method != PUBLISHED else {REGRET: paper},
        figure=figure,
        panel=panel,
        label=label,
        setting=setting,
        probe=probe,
        rewards=rewards,
    )


def references(
    rounds: int,
    *,
    figure: str,
    probe: Context | None = None,
    rewards: Rewards | None = None,
) -> list[Case]:
    """Uniform choice, and ours without privacy and without sources."""
    kinds = ((UNIFORM, UNIFORM), (NON_PRIVATE, Partition.name))
    return [
        _case(
            method,
            learner,
            NonPrivate(),
            rounds,
            figure=figure,
            panel=None,
            label=method,
            probe=probe,
            rewards=rewards,
        )
        for method, learner in kinds
    ]


def _case(
    method: str,
    learner: str,
    budget: Budget,
    rounds: int,
    *,
    figure: str,
    panel: str | None,
    label: str,
    options: dict[str, Any] | None = None,
    sources: SyntheticSources | None = None,
    paper: dict[str, float] | None = None,
    setting: dict[str, Value] | None = None,
    probe: Context | None = None,
    rewards: Rewards | None = None,
) -> Case:
    named: dict[str, Value] = {} if rewards is None else {"rewards": rewards}
    return Case(
        method,
        problem(rewards or EXPONENTIAL),
        learner,
        budget,
        options=options or {},
        setting={"figure": figure, "rounds": rounds, **named, **(setting or {})},
        panel=f"{panel}, {rewards} rewards" if panel and rewards else panel,
        label=label,
        paper=paper or {},
        rounds=rounds,
        sources=sources,
        probe=probe,
    )


def source_setting(sources: SyntheticSources | None) -> dict[str, Value]:
    """What records say of sources that are all of one kind; nothing for other sources."""
    if sources is None:
        return {"n_auxiliary": 0}
    first = sources.specs[0]
    return {
        "n_auxiliary": first.people,
        "sources": len(sources.specs),
        "epsilon_auxiliary": first.epsilon,
        "gamma": first.gamma,
        "kappa": first.kappa,
    }
