"""Figures 6 to 9 of Ma et al. (2025): for each its grid, and the cases of every point of it."""

from __future__ import annotations

from itertools import product
from typing import Any

from discreet.learners.partition.learner import Partition
from discreet.learners.partition.published import PublishedPartition
from discreet.privacy import Local, NonPrivate
from discreet.reproduction.cases import NON_PRIVATE, OURS, PUBLISHED, REGRET, UNIFORM, Case
from discreet.reproduction.ma2025.grid import Drawing, TransferFigure, TransferGrid
from discreet.reproduction.ma2025.settings import (
    EPSILONS,
    GAMMAS,
    HIGH_FIRST,
    KAPPAS,
    LOW_FIRST,
    PROBE,
    SOURCE_SIZES,
    TARGET_SIZES,
    SourceSpec,
    SyntheticSources,
    alike,
    logged_mean,
    problem,
)

METHODS = (OURS, PUBLISHED)
_LEARNERS = {
    OURS: Partition.name,
    PUBLISHED: PublishedPartition.name,
    NON_PRIVATE: Partition.name,
    UNIFORM: UNIFORM,
}
_NO_DATA = "no auxiliary data"
_PROBED = "6"  # the figure that looks at one context


def _case(
    grid: TransferGrid,
    figure: str,
    method: str,
    rounds: int,
    epsilon: float | None = None,
    *,
    label: str,
    panel: str | None = None,
    sources: SyntheticSources | None = None,
    setting: dict[str, Any] | None = None,
    logged: dict[str, Any] | None = None,
) -> Case:
    """One method in one setting.

    Args:
        figure: of the paper, for records.
        epsilon: of the target; None for no privacy.
        label, panel: of the figure.
        sources: that are heard, if any.
        setting: what else was varied.
        logged: the experiment by which the published program logged this setting, and its key
            beyond rounds, epsilon and rewards (`logged_mean`).
    """
    arguments: dict[str, Any] = {}
    if method == PUBLISHED:
        largest = max((spec.people for spec in sources.specs), default=0) if sources else 0
        arguments = {"confidence_constant": grid.constant, "source_horizon": largest}
    paper = None
    if method == PUBLISHED and logged is not None:
        paper = logged_mean(**logged, rounds=rounds, epsilon=epsilon or 0.0, rewards=grid.rewards)
    probed = figure == _PROBED
    named = {} if probed else {"rewards": grid.rewards}
    return Case(
        method,
        problem(grid.rewards),
        _LEARNERS[method],
        rounds,
        NonPrivate() if epsilon is None else Local(epsilon),
        arguments,
        {"figure": figure, "rounds": rounds, **named, **(setting or {})},
        panel if panel is None or probed else f"{panel}, {grid.rewards} rewards",
        label,
        {} if paper is None else {REGRET: paper},
        sources=sources,
        probe=PROBE if probed else None,
    )


def _references(grid: TransferGrid, figure: str) -> list[Case]:
    """Uniform choice, and ours without privacy and without sources."""
    methods = (UNIFORM,) if figure == _PROBED else (UNIFORM, NON_PRIVATE)
    return [
        _case(grid, figure, method, rounds, label=method)
        for rounds in grid.rounds
        for method in methods
    ]


def _setting(sources: SyntheticSources | None) -> dict[str, Any]:
    """What records say of sources that are all of one kind."""
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


def illustration(grid: TransferGrid) -> list[Case]:
    """Figure 6: no, weak and effective auxiliary data."""
    cases = []
    for rounds, epsilon, method, people in product(
        grid.rounds, grid.epsilon, METHODS, grid.auxiliary
    ):
        panel = [method]
        panel += [f"epsilon {epsilon:g}"] if len(grid.epsilon) > 1 else []
        panel += [f"{rounds:,} people"] if len(grid.rounds) > 1 else []
        kinds = {
            _NO_DATA: None,
            "weak": alike(1, people, 0.5, gamma=5.0),
            "effective": alike(1, people, 8.0),
        }
        cases += [
            _case(
                grid,
                _PROBED,
                method,
                rounds,
                epsilon,
                label=kind,
                panel=", ".join(panel),
                sources=sources,
                setting={"auxiliary_data": kind, **_setting(sources)},
            )
            for kind, sources in kinds.items()
        ]
    return cases + _references(grid, _PROBED)


def target_sizes(grid: TransferGrid) -> list[Case]:
    """Figure 7: regret against n_P by epsilon, without and with auxiliary data."""
    kinds: list[tuple[str, SyntheticSources | None]] = [(_NO_DATA, None)]
    for number, people, epsilon in product(grid.sources, grid.auxiliary, grid.auxiliary_epsilon):
        several = f"{number} source{'s' if number > 1 else ''}"
        text = f"{several} of {people:,}, epsilon {epsilon:g}"
        kinds.append((text, alike(number, people, epsilon, rewards=grid.rewards)))
    cases = [
        _case(
            grid,
            "7",
            method,
            rounds,
            epsilon,
            label=f"epsilon {epsilon:g}",
            panel=f"{method}, {kind}",
            sources=sources,
            setting=_setting(sources),
            logged={
                "experiment": "sample_size_target",
                "n_auxiliary": sources.specs[0].people if sources else 0,
                "sources": len(sources.specs) if sources else 2,
                "epsilon_auxiliary": sources.specs[0].epsilon if sources else 1024.0,
            },
        )
        for method, (kind, sources) in product(METHODS, kinds)
        for epsilon, rounds in product(grid.epsilon, grid.rounds)
    ]
    return cases + _references(grid, "7")


def source_sizes(grid: TransferGrid) -> list[Case]:
    """Figure 8: regret against n_Qm by gamma and epsilon_m; M = 2."""
    cases = []
    for rounds, epsilon, method, gamma, auxiliary, number, people in product(
        grid.rounds,
        grid.epsilon,
        METHODS,
        grid.gamma,
        grid.auxiliary_epsilon,
        grid.sources,
        (0, *grid.auxiliary),
    ):
        setting: dict[str, Any] = {
            "n_auxiliary": people,
            "sources": number,
            "epsilon_auxiliary": auxiliary,
            "gamma": gamma,
        }
        drawn = alike(number, people, auxiliary, gamma, rewards=grid.rewards) if people else None
        cases.append(
            _case(
                grid,
                "8",
                method,
                rounds,
                epsilon,
                label=f"{method}, epsilon {epsilon:g}",
                panel=f"gamma {gamma:g}, auxiliary epsilon {auxiliary:g}",
                sources=drawn,
                setting={**setting, "kappa": 1.0},
                logged={"experiment": "sample_size_source", **setting},
            )
        )
    return cases + _references(grid, "8")


def _quality(grid: TransferGrid, figure: str, axis: str) -> list[Case]:
    """Figures 9a and 9b: regret against kappa or gamma by epsilon_m, and without sources."""
    some = alike(2, 1, grid.auxiliary_epsilon[0], grid.gamma[0], grid.kappa[0], grid.rewards)
    kinds: list[SyntheticSources | None] = [None]
    kinds += [
        alike(number, people, auxiliary, gamma, kappa, grid.rewards)
        for number, people, auxiliary, gamma, kappa in product(
            grid.sources, grid.auxiliary, grid.auxiliary_epsilon, grid.gamma, grid.kappa
        )
    ]
    cases = [
        _case(
            grid,
            figure,
            method,
            rounds,
            epsilon,
            label=f"{method}, {'with' if sources else _NO_DATA}",
            panel=f"auxiliary epsilon {sources.specs[0].epsilon:g}" if sources else None,
            sources=sources,
            setting=_setting(sources),
            # Without people in its sources the program logged the same for every other value.
            logged={
                "experiment": axis,
                **_setting(sources or some),
                **({} if sources else {"n_auxiliary": 0}),
            },
        )
        for rounds, epsilon, method, sources in product(grid.rounds, grid.epsilon, METHODS, kinds)
    ]
    return cases + _references(grid, figure)


def exploration(grid: TransferGrid) -> list[Case]:
    """Figure 9a: regret against kappa."""
    return _quality(grid, "9a", "kappa")


def shift(grid: TransferGrid) -> list[Case]:
    """Figure 9b: regret against gamma."""
    return _quality(grid, "9b", "gamma")


def order(grid: TransferGrid) -> list[Case]:
    """Figure 9c: one source of low and one of high quality, in both orders."""
    low, high = min(grid.auxiliary_epsilon), max(grid.auxiliary_epsilon)
    cases = []
    for rounds, epsilon, method, people in product(
        grid.rounds, grid.epsilon, METHODS, grid.auxiliary
    ):
        poor = SourceSpec("low quality", people, low)
        good = SourceSpec("high quality", people, high)
        cases += [
            _case(
                grid,
                "9c",
                method,
                rounds,
                epsilon,
                label=f"{method}, {which}",
                panel=f"{rounds:,} people, epsilon {epsilon:g}",
                sources=SyntheticSources(specs, grid.rewards),
                setting={
                    "n_auxiliary": people,
                    "sources": 2,
                    "order": which,
                    "epsilon_auxiliary": f"{low:g} and {high:g}",
                    "gamma": 0.0,
                    "kappa": 1.0,
                },
                logged={
                    "experiment": "order_of_auxiliary",
                    "n_auxiliary": people,
                    "epsilon_auxiliary": which,
                },
            )
            for which, specs in ((HIGH_FIRST, (good, poor)), (LOW_FIRST, (poor, good)))
        ]
    return cases


_NOTE = (
    "Published: Algorithms 2 and 3 as printed, with C_n = log(n), whose constant the paper leaves "
    "to a supplement; it splits bins long before it can tell arms apart. Paper: the mean regret "
    "that the published program logged, with another rule and noise for people inside a bin only, "
    "which does not keep its epsilon for contexts. All methods of a trial meet the same people, "
    "and the same sources. Non-private: ours without noise and without sources."
)

FIGURE_6 = TransferFigure(
    name="ldpmab-figure-6",
    title="Ma et al. (2025), Figure 6: average regret, and arms at (1/3, 1/3), by auxiliary data",
    grid=TransferGrid(rounds=(1000,), epsilon=(1.0,), auxiliary=(500,)),
    cases=illustration,
    note=(
        f"{_NOTE} Weak: one source of 500 people with epsilon 0.5 and gamma 5; effective: with "
        "epsilon 8 and gamma 0. The figure shows regret over all people, regret at the context "
        "(1/3, 1/3) and how often each arm was offered there; the records hold all three. The "
        "paper shows a single run."
    ),
    axis="rounds",
    axis_label="people of the target",
    trials=1,
    form="average",
)

FIGURE_7 = TransferFigure(
    name="ldpmab-figure-7",
    title="Ma et al. (2025), Figure 7: regret against people of the target by epsilon",
    grid=TransferGrid(
        rounds=TARGET_SIZES,
        epsilon=EPSILONS,
        auxiliary=(5000,),
        auxiliary_epsilon=(8.0,),
        sources=(1, 2),
    ),
    cases=target_sizes,
    note=f"{_NOTE} The paper shows one source; the program logged two as well.",
    axis="rounds",
    axis_label="people of the target",
)

FIGURE_8 = TransferFigure(
    name="ldpmab-figure-8",
    title="Ma et al. (2025), Figure 8: regret against people of each of two sources",
    grid=TransferGrid(
        rounds=(80_000,),
        epsilon=(1.0, 2.0),
        auxiliary=SOURCE_SIZES,
        auxiliary_epsilon=(2.0, 4.0, 8.0, 1024.0),
        gamma=(0.2, 1.0, 2.0),
        sources=(2,),
    ),
    cases=source_sizes,
    note=_NOTE,
    axis="n_auxiliary",
    axis_label="people of each source",
)

FIGURE_9A = TransferFigure(
    name="ldpmab-figure-9a",
    title="Ma et al. (2025), Figure 9a: regret against the exploration of the sources (kappa)",
    grid=TransferGrid(
        rounds=(40_000,),
        epsilon=(2.0,),
        auxiliary=(10_000,),
        auxiliary_epsilon=(1.0, 8.0),
        gamma=(0.2,),
        kappa=KAPPAS,
        sources=(2,),
    ),
    cases=exploration,
    note=f"{_NOTE} The paper does not say how many people its sources have; here 10,000 each.",
    axis="kappa",
    axis_label="exploration coefficient kappa",
)

FIGURE_9B = TransferFigure(
    name="ldpmab-figure-9b",
    title="Ma et al. (2025), Figure 9b: regret against the shift of the sources' contexts (gamma)",
    grid=TransferGrid(
        rounds=(40_000,),
        epsilon=(2.0,),
        auxiliary=(10_000,),
        auxiliary_epsilon=(2.0, 8.0),
        gamma=GAMMAS,
        kappa=(1.0,),
        sources=(2,),
    ),
    cases=shift,
    note=f"{_NOTE} The paper does not say how many people its sources have; here 10,000 each.",
    axis="gamma",
    axis_label="transfer exponent gamma",
)

FIGURE_9C = TransferFigure(
    name="ldpmab-figure-9c",
    title="Ma et al. (2025), Figure 9c: regret by the order of a low- and a high-quality source",
    grid=TransferGrid(
        rounds=(10_000, 80_000),
        epsilon=(1.0, 2.0),
        auxiliary=SOURCE_SIZES,
        auxiliary_epsilon=(2.0, 8.0),
    ),
    cases=order,
    note=f"{_NOTE} Both orders have the same data. For ours the order should not matter.",
    axis="n_auxiliary",
    axis_label="people of each source",
)

FIGURES_4_5 = Drawing(
    name="ldpmab-figure-4-5",
    title="Ma et al. (2025), Figures 4 and 5: reward functions, and densities of sources' contexts",
)

MA_2025 = (FIGURES_4_5, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9A, FIGURE_9B, FIGURE_9C)
