"""The cases of Figures 6 to 9: what is run for each point of a grid."""

from __future__ import annotations

from itertools import product

from discreet.records import Value
from discreet.reproduction.cases import Case
from discreet.reproduction.ma2025.grid import Grid
from discreet.reproduction.ma2025.methods import (
    METHODS,
    private_case,
    references,
    source_setting,
)
from discreet.reproduction.ma2025.settings import (
    HIGH_FIRST,
    LOW_FIRST,
    PROBE,
    SourceSpec,
    SyntheticSources,
    alike,
    logged_mean,
)

NO_DATA, WEAK, EFFECTIVE = "no auxiliary data", "weak", "effective"


def illustration(grid: Grid) -> list[Case]:
    """Figure 6: no, weak and effective auxiliary data."""
    cases: list[Case] = []
    for rounds, epsilon, method in product(grid.rounds, grid.epsilons, METHODS):
        for people in grid.auxiliary:
            kinds = {
                NO_DATA: None,
                WEAK: alike(1, people, 0.5, gamma=5.0),
                EFFECTIVE: alike(1, people, 8.0),
            }
            cases += [
                private_case(
                    method,
                    epsilon,
                    rounds,
                    figure="6",
                    panel=_panel(grid, method, rounds, epsilon),
                    label=kind,
                    constant=grid.constant,
                    sources=sources,
                    setting={"auxiliary_data": kind, **source_setting(sources)},
                    probe=PROBE,
                )
                for kind, sources in kinds.items()
            ]
    for rounds in grid.rounds:
        cases += references(rounds, figure="6", probe=PROBE)[:1]
    return cases


def _panel(grid: Grid, method: str, rounds: int, epsilon: float) -> str:
    parts = [method]
    parts += [f"epsilon {epsilon:g}"] if len(grid.epsilons) > 1 else []
    parts += [f"{rounds:,} people"] if len(grid.rounds) > 1 else []
    return ", ".join(parts)


def target_sizes(grid: Grid) -> list[Case]:
    """Figure 7: regret against n_P by epsilon, without and with auxiliary data."""
    kinds: list[tuple[str, SyntheticSources | None]] = [("no auxiliary data", None)]
    for number, people, epsilon in product(grid.sources, grid.auxiliary, grid.auxiliary_epsilons):
        several = f"{number} source{'s' if number > 1 else ''}"
        text = f"{several} of {people:,}, epsilon {epsilon:g}"
        kinds.append((text, alike(number, people, epsilon, rewards=grid.rewards)))
    cases: list[Case] = []
    for method, (kind, sources) in product(METHODS, kinds):
        found = source_setting(sources)
        for epsilon, rounds in product(grid.epsilons, grid.rounds):
            auxiliary = 1024.0 if sources is None else sources.specs[0].epsilon
            paper = logged_mean(
                "sample_size_target",
                epsilon=epsilon,
                rounds=rounds,
                n_auxiliary=0 if sources is None else sources.specs[0].people,
                sources=2 if sources is None else len(sources.specs),
                epsilon_auxiliary=auxiliary,
                rewards=grid.rewards,
            )
            cases.append(
                private_case(
                    method,
                    epsilon,
                    rounds,
                    figure="7",
                    panel=f"{method}, {kind}",
                    label=f"epsilon {epsilon:g}",
                    constant=grid.constant,
                    sources=sources,
                    paper=paper,
                    setting=found,
                    rewards=grid.rewards,
                )
            )
    for rounds in grid.rounds:
        cases += references(rounds, figure="7", rewards=grid.rewards)
    return cases


def source_sizes(grid: Grid) -> list[Case]:
    """Figure 8: regret against n_Qm by gamma and epsilon_m; M = 2."""
    cases: list[Case] = []
    for rounds, epsilon, method in product(grid.rounds, grid.epsilons, METHODS):
        for gamma, auxiliary in product(grid.gammas, grid.auxiliary_epsilons):
            for number, people in product(grid.sources, (0, *grid.auxiliary)):
                cases.append(
                    _of_size(grid, rounds, epsilon, method, gamma, auxiliary, number, people)
                )
    for rounds in grid.rounds:
        cases += references(rounds, figure="8", rewards=grid.rewards)
    return cases


def _of_size(
    grid: Grid,
    rounds: int,
    epsilon: float,
    method: str,
    gamma: float,
    auxiliary: float,
    number: int,
    people: int,
) -> Case:
    sources = alike(number, people, auxiliary, gamma, rewards=grid.rewards) if people else None
    paper = logged_mean(
        "sample_size_source",
        epsilon=epsilon,
        rounds=rounds,
        n_auxiliary=people,
        sources=number,
        epsilon_auxiliary=auxiliary,
        gamma=gamma,
        rewards=grid.rewards,
    )
    setting: dict[str, Value] = {
        "n_auxiliary": people,
        "sources": number,
        "epsilon_auxiliary": auxiliary,
        "gamma": gamma,
        "kappa": 1.0,
    }
    return private_case(
        method,
        epsilon,
        rounds,
        figure="8",
        panel=f"gamma {gamma:g}, auxiliary epsilon {auxiliary:g}",
        label=f"{method}, epsilon {epsilon:g}",
        constant=grid.constant,
        sources=sources,
        paper=paper,
        setting=setting,
        rewards=grid.rewards,
    )


def _quality(grid: Grid, figure: str, axis: str) -> list[Case]:
    """Figures 9a and 9b: regret against kappa or gamma by epsilon_m, and without sources."""
    cases: list[Case] = []
    for rounds, epsilon, method in product(grid.rounds, grid.epsilons, METHODS):

        def case(
            label: str,
            panel: str | None,
            sources: SyntheticSources | None,
            method: str = method,
            epsilon: float = epsilon,
            rounds: int = rounds,
        ) -> Case:
            # Without people in its sources the program logged the same for every other value.
            any_kind = alike(2, 1, grid.auxiliary_epsilons[0], grid.gammas[0], grid.kappas[0])
            first = (sources or any_kind).specs[0]
            paper = logged_mean(
                axis,
                epsilon=epsilon,
                rounds=rounds,
                n_auxiliary=first.people if sources else 0,
                sources=len((sources or any_kind).specs),
                epsilon_auxiliary=first.epsilon,
                gamma=first.gamma,
                kappa=first.kappa,
                rewards=grid.rewards,
            )
            return private_case(
                method,
                epsilon,
                rounds,
                figure=figure,
                panel=panel,
                label=label,
                constant=grid.constant,
                sources=sources,
                paper=paper,
                setting=source_setting(sources),
                rewards=grid.rewards,
            )

        cases.append(case(f"{method}, no auxiliary data", None, None))
        for number, people, auxiliary, gamma, kappa in product(
            grid.sources, grid.auxiliary, grid.auxiliary_epsilons, grid.gammas, grid.kappas
        ):
            panel = f"auxiliary epsilon {auxiliary:g}"
            cases.append(
                case(
                    f"{method}, with",
                    panel,
                    alike(number, people, auxiliary, gamma, kappa, grid.rewards),
                )
            )
    for rounds in grid.rounds:
        cases += references(rounds, figure=figure, rewards=grid.rewards)
    return cases


def exploration(grid: Grid) -> list[Case]:
    """Figure 9a: regret against kappa."""
    return _quality(grid, "9a", "kappa")


def shift(grid: Grid) -> list[Case]:
    """Figure 9b: regret against gamma."""
    return _quality(grid, "9b", "gamma")


def order(grid: Grid) -> list[Case]:
    """Figure 9c: one source of low and one of high quality, in both orders."""
    low, high = min(grid.auxiliary_epsilons), max(grid.auxiliary_epsilons)
    cases: list[Case] = []
    for rounds, epsilon, method, people in product(
        grid.rounds, grid.epsilons, METHODS, grid.auxiliary
    ):
        poor, good = (
            SourceSpec("low quality", people, low),
            SourceSpec("high quality", people, high),
        )
        for which, specs in ((HIGH_FIRST, (good, poor)), (LOW_FIRST, (poor, good))):
            paper = logged_mean(
                "order_of_auxiliary",
                epsilon=epsilon,
                rounds=rounds,
                n_auxiliary=people,
                epsilon_auxiliary=which,
                rewards=grid.rewards,
            )
            cases.append(
                private_case(
                    method,
                    epsilon,
                    rounds,
                    figure="9c",
                    panel=f"{rounds:,} people, epsilon {epsilon:g}",
                    label=f"{method}, {which}",
                    constant=grid.constant,
                    sources=SyntheticSources(specs, grid.rewards),
                    paper=paper,
                    setting={
                        "n_auxiliary": people,
                        "sources": 2,
                        "order": which,
                        "epsilon_auxiliary": f"{low:g} and {high:g}",
                        "gamma": 0.0,
                        "kappa": 1.0,
                    },
                    rewards=grid.rewards,
                )
            )
    return cases
