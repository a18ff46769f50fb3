"""Figures 6 to 9 of Ma et al. (2025) as commands: their grids, notes and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from discreet.reproduction.cases import Case, Line, Trial, lines_of
from discreet.reproduction.ma2025 import figures
from discreet.reproduction.ma2025.grid import Grid
from discreet.reproduction.ma2025.settings import (
    EPSILONS,
    EXPONENTIAL,
    GAMMAS,
    KAPPAS,
    SEED,
    SOURCE_SIZES,
    TARGET_SIZES,
    TRIALS,
    check_known,
)
from discreet.reproduction.runner import run_all
from discreet.validation import InvalidInput


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper.

    Attributes:
        name: how the command line calls it.
        title: what it shows, and where it comes from.
        grid: the paper's values.
        cases: what is run for a grid.
        note: what the numbers do and do not say.
        axis: the key of a setting that is the horizontal axis; "" for people served.
        axis_label: the same in words.
        trials: how many repetitions the paper has.
        seed: base of the trials' seeds.
        figure: whether lines are means by setting, or running averages over people.
    """

    name: str
    title: str
    grid: Grid
    cases: Callable[[Grid], list[Case]]
    note: str
    axis: str = ""
    axis_label: str = ""
    trials: int = TRIALS
    seed: int = SEED
    figure: Literal["sweep", "average"] = "sweep"

    @property
    def sizes(self) -> tuple[int, ...]:
        """People of the target."""
        return self.grid.rounds

    def plan(
        self,
        wish: Mapping[str, Sequence[Any]] | None = None,
        methods: Sequence[str] = (),
        constant: float | None = None,
        rewards: str | None = None,
    ) -> list[Case]:
        """The cases of the named methods (all if none) on a grid that a wish narrows.

        Args:
            wish: values in place of the paper's, by the grid's names.
            methods: which.
            constant: c of the published rules.
            rewards: `exponential`, as in the paper, or `symmetric`, as in its supplement S.4.3.

        Raises:
            InvalidInput: for a quantity that the figure does not vary, a value that is not
                allowed, or a method that there is not.
        """
        cases = self.cases(self.grid.narrowed(wish or {}, constant, self._checked(rewards)))
        known = tuple(dict.fromkeys(case.method for case in cases))
        for method in methods:
            check_known(method, known, "method")
        return [case for case in cases if not methods or case.method in methods]

    def _checked(self, rewards: str | None) -> str | None:
        if self.figure == "average" and rewards not in (None, EXPONENTIAL):
            raise InvalidInput(
                f"--rewards was {rewards!r}, but {self.name} looks at a context where the best of "
                "the exponential rewards is known; it has those alone."
            )
        return rewards

    def run(self, cases: Sequence[Case], trials: int, jobs: int = 1) -> Iterator[Trial]:
        """Every case of a plan in every trial, in the order in which they finish."""
        return run_all(cases, trials, None, self.seed, jobs)

    def lines(self, cases: Sequence[Case], trials: int, jobs: int = 1) -> list[Line]:
        """Run a plan and return it in the order of its cases."""
        return lines_of(cases, list(self.run(cases, trials, jobs)))


_NOTE = (
    "Published: Algorithms 2 and 3 as printed, with C_n = log(n), whose constant the paper leaves "
    "to a supplement; it splits bins long before it can tell arms apart. Paper: the mean regret "
    "that the published program logged, with another rule and noise for people inside a bin only, "
    "which does not keep its epsilon for contexts. All methods of a trial meet the same people, "
    "and the same sources. Non-private: ours without noise and without sources."
)

FIGURE_6 = Experiment(
    name="ldpmab-figure-6",
    title="Ma et al. (2025), Figure 6: average regret, and arms at (1/3, 1/3), by auxiliary data",
    grid=Grid(rounds=(1000,), epsilons=(1.0,), auxiliary=(500,)),
    cases=figures.illustration,
    note=(
        f"{_NOTE} Weak: one source of 500 people with epsilon 0.5 and gamma 5; effective: with "
        "epsilon 8 and gamma 0. The figure shows regret over all people, regret at the context "
        "(1/3, 1/3) and how often each arm was offered there; the records hold all three. The "
        "paper shows a single run."
    ),
    axis="rounds",
    axis_label="people of the target",
    trials=1,
    figure="average",
)

FIGURE_7 = Experiment(
    name="ldpmab-figure-7",
    title="Ma et al. (2025), Figure 7: regret against people of the target by epsilon",
    grid=Grid(
        rounds=TARGET_SIZES,
        epsilons=EPSILONS,
        auxiliary=(5000,),
        auxiliary_epsilons=(8.0,),
        sources=(1, 2),
    ),
    cases=figures.target_sizes,
    note=f"{_NOTE} The paper shows one source; the program logged two as well.",
    axis="rounds",
    axis_label="people of the target",
)

FIGURE_8 = Experiment(
    name="ldpmab-figure-8",
    title="Ma et al. (2025), Figure 8: regret against people of each of two sources",
    grid=Grid(
        rounds=(80_000,),
        epsilons=(1.0, 2.0),
        auxiliary=SOURCE_SIZES,
        auxiliary_epsilons=(2.0, 4.0, 8.0, 1024.0),
        gammas=(0.2, 1.0, 2.0),
        sources=(2,),
    ),
    cases=figures.source_sizes,
    note=_NOTE,
    axis="n_auxiliary",
    axis_label="people of each source",
)

FIGURE_9A = Experiment(
    name="ldpmab-figure-9a",
    title="Ma et al. (2025), Figure 9a: regret against the exploration of the sources (kappa)",
    grid=Grid(
        rounds=(40_000,),
        epsilons=(2.0,),
        auxiliary=(10_000,),
        auxiliary_epsilons=(1.0, 8.0),
        gammas=(0.2,),
        kappas=KAPPAS,
        sources=(2,),
    ),
    cases=figures.exploration,
    note=f"{_NOTE} The paper does not say how many people its sources have; here 10,000 each.",
    axis="kappa",
    axis_label="exploration coefficient kappa",
)

FIGURE_9B = Experiment(
    name="ldpmab-figure-9b",
    title="Ma et al. (2025), Figure 9b: regret against the shift of the sources' contexts (gamma)",
    grid=Grid(
        rounds=(40_000,),
        epsilons=(2.0,),
        auxiliary=(10_000,),
        auxiliary_epsilons=(2.0, 8.0),
        gammas=GAMMAS,
        kappas=(1.0,),
        sources=(2,),
    ),
    cases=figures.shift,
    note=f"{_NOTE} The paper does not say how many people its sources have; here 10,000 each.",
    axis="gamma",
    axis_label="transfer exponent gamma",
)

FIGURE_9C = Experiment(
    name="ldpmab-figure-9c",
    title="Ma et al. (2025), Figure 9c: regret by the order of a low- and a high-quality source",
    grid=Grid(
        rounds=(10_000, 80_000),
        epsilons=(1.0, 2.0),
        auxiliary=SOURCE_SIZES,
        auxiliary_epsilons=(2.0, 8.0),
    ),
    cases=figures.order,
    note=f"{_NOTE} Both orders have the same data. For ours the order should not matter.",
    axis="n_auxiliary",
    axis_label="people of each source",
)


@dataclass(frozen=True)
class Drawing:
    """A figure for which nothing is run."""

    name: str
    title: str
    trials: int = 0
    sizes: tuple[int, ...] = ()


FIGURES_4_5 = Drawing(
    "ldpmab-figure-4-5",
    "Ma et al. (2025), Figures 4 and 5: reward functions, and densities of sources' contexts",
)

EXPERIMENTS = (FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9A, FIGURE_9B, FIGURE_9C)
