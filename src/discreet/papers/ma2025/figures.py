"""Figures 4 to 9 and Table 2 of Ma et al. (2025).

Figures have a grid and the cases of every point of it. The setting of a case states its sources:

| key               | meaning                                                                  |
|-------------------|--------------------------------------------------------------------------|
| n_auxiliary       | people of each source, n_Qm; 0 for no sources, which need no other key   |
| sources           | M                                                                        |
| epsilon_auxiliary | epsilon_m                                                                |
| gamma, kappa      | shift of their contexts, and exploration of their behaviour policies     |
| order             | of two sources that differ (Figure 9c)                                   |

Table 2 has ratios to ABSE on real tables, with the Wilcoxon test:

    ratio = mean over trials of the mean reward / the same of ABSE

The paper prints a row for each data set: with and without auxiliary data for LDPMAB, Linear and NN
at t = n_P / 4, and the same at t = n_P. Its last row has the sums of ranks in these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.stats import wilcoxon

from discreet.lab.experiments.engine import Row
from discreet.lab.experiments.means import half_width, mean_and_error
from discreet.learners.kernel.learner import LocalKernel
from discreet.papers.ma2025.data import (
    ADULT,
    AT_END,
    AT_QUARTER,
    DATA_SETS,
    EXPONENTIAL,
    HIGH_FIRST,
    JOBS,
    LOW_FIRST,
    PROBE,
    REWARDS,
    SEED,
    TAXI,
    TRIALS,
    Probe,
    Rewards,
    SourceSpec,
    Split,
    SyntheticSources,
    TableSources,
    load,
    logged_mean,
    problem,
)
from discreet.papers.ma2025.learners.published_partition import PublishedPartition
from discreet.papers.ma2025.program import Program
from discreet.papers.reproduction import (
    NON_PRIVATE,
    OURS,
    PUBLISHED,
    REGRET,
    RUN_OPTIONS,
    UNIFORM,
    Case,
    PaperPlan,
    PaperResults,
    Reproduction,
    of_methods,
    plan_of,
    promises_of,
    record_of,
)
from discreet.privacy import Local, NonPrivate
from discreet.validation import (
    FloatArray,
    InvalidInput,
    number_from,
    one_of,
    positive_number,
    whole_number,
)

if TYPE_CHECKING:
    import pandas as pd

# The published program, and the same with the noise that its epsilon needs.
PROGRAM, PROGRAM_PRIVATE = "program", "program, private"
METHODS = (OURS, PUBLISHED)
LOGGED_METHODS = (*METHODS, PROGRAM, PROGRAM_PRIVATE)
_LEARNERS = {
    OURS: LocalKernel.name,
    PUBLISHED: PublishedPartition.name,
    NON_PRIVATE: LocalKernel.name,
    UNIFORM: UNIFORM,
}
_NO_DATA = "no auxiliary data"
# What a figure can vary, and what a value of it may be.
AXES: dict[str, Callable[[Any], Any]] = {
    "rounds": lambda people: whole_number(people, "rounds", minimum=2),
    "epsilon": lambda epsilon: positive_number(epsilon, "epsilon"),
    "auxiliary": lambda people: whole_number(people, "auxiliary", minimum=1),
    "auxiliary_epsilon": lambda epsilon: positive_number(epsilon, "epsilon"),
    "gamma": lambda gamma: number_from(gamma, "gamma", 0.0),
    "kappa": lambda kappa: number_from(kappa, "kappa", 0.0, 1.0),
    "sources": lambda number: whole_number(number, "sources", minimum=1),
}


@dataclass(frozen=True, kw_only=True)
class TransferFigure(Reproduction):
    """A figure of the paper.

    Attributes:
        number: the paper's.
        grid: the paper's values of what it varies, by `AXES`.
        cases: what is run for a figure whose grid and rewards are as they were asked for.
        axis: the key of a setting that is the horizontal axis.
        axis_label: the same in words.
        experiment: the published program's name of it, where it logged it.
        batch: people between decisions of that program.
        references: what is run besides, without sources and without privacy.
        rewards: the mean rewards, of which a figure has one kind at a time.
    """

    number: str
    grid: Mapping[str, tuple[Any, ...]]
    cases: Callable[[TransferFigure], Iterator[Case]]
    axis: str
    axis_label: str
    experiment: str = ""
    batch: int = 100
    references: tuple[str, ...] = (UNIFORM, NON_PRIVATE)
    rewards: Rewards = EXPONENTIAL
    trials: int = TRIALS
    seed: int = SEED
    form: str = "sweep"

    @property
    def options(self) -> Mapping[str, Any]:
        axes = [axis for axis in AXES if axis != "rounds"]
        return {
            "repetitions": self.trials,
            **dict.fromkeys(("targets", *axes, "method")),
            "rewards": self.rewards,
            **dict.fromkeys(RUN_OPTIONS),
        }

    def plan(self, repetitions: int | None = None, **wish: Any) -> PaperPlan:
        trials = self.trials if repetitions is None else repetitions
        return plan_of(self.planned(**wish), trials, self.seed)

    def planned(
        self,
        method: Sequence[str] | None = None,
        rewards: str | None = None,
        **wish: Sequence[Any] | None,
    ) -> list[Case]:
        """The cases of the named methods (all if none) on a grid that a wish narrows.

        Args:
            method: names.
            rewards: `exponential`, as in the paper, or `symmetric`, as in its supplement S.4.3.
            wish: values in place of the paper's, by `AXES`.

        Raises:
            InvalidInput: for a quantity that the figure does not vary, a value that is not
                allowed, or a method that there is not.
        """
        if self.form == "average" and rewards not in (None, EXPONENTIAL):
            raise InvalidInput(
                f"--rewards was {rewards!r}, but {self.name} looks at a context where the best of "
                "the exponential rewards is known; it has those alone."
            )
        grid = dict(self.grid)
        for axis, values in wish.items():
            if values and axis not in self.grid:
                known = ", ".join(_option(axis) for axis in AXES if axis in self.grid)
                raise InvalidInput(
                    f"{_option(axis)} was given, but this figure does not vary it; it has {known}."
                )
            if values:
                grid[axis] = tuple(dict.fromkeys(AXES[axis](value) for value in values))
        narrowed = replace(
            self,
            grid=grid,
            rewards=one_of(rewards or self.rewards, "--rewards", REWARDS),
        )
        cases = list(self.cases(narrowed))
        for people, reference in product(grid["rounds"], self.references):
            cases.append(narrowed.case(reference, people, None, reference, None))
        return of_methods(cases, method)

    def case(
        self,
        method: str,
        rounds: int,
        epsilon: float | None,
        label: str,
        panel: str | None,
        setting: Mapping[str, Any] | None = None,
        specs: tuple[SourceSpec, ...] = (),
    ) -> Case:
        """One method in one setting.

        Args:
            method: its name.
            rounds: n_P.
            epsilon: of the target; None for no privacy.
            label, panel: of the figure.
            setting: of the sources (see the module's table); None for a reference.
            specs: of sources that differ.
        """
        says = {"n_auxiliary": 0} if setting is None else setting
        if says["n_auxiliary"] and not specs:
            kind = [says[key] for key in ("n_auxiliary", "epsilon_auxiliary", "gamma", "kappa")]
            specs = tuple(SourceSpec(f"source {m + 1}", *kind) for m in range(says["sources"]))
        learner: str | Program | None = _LEARNERS.get(method)
        paper = None
        if learner is None:
            assert epsilon is not None
            learner = Program(epsilon, self.batch, leaks=method == PROGRAM)
            if learner.leaks:
                logged = {"rounds": rounds, **says}
                paper = logged_mean(self.experiment, self.rewards, epsilon, logged)
        # Figure 6 looks at one context, and has one kind of rewards.
        probed = self.form == "average"
        named = {} if probed else {"rewards": self.rewards}
        suffix = "" if probed else f", {self.rewards} rewards"
        target = problem(self.rewards)
        return Case(
            method,
            target,
            learner,
            rounds,
            NonPrivate() if epsilon is None else Local(epsilon),
            {"source_horizon": says["n_auxiliary"]} if method == PUBLISHED else {},
            {"figure": self.number, "rounds": rounds, **named, **(setting or {})},
            None if panel is None else panel + suffix,
            label,
            {} if paper is None else {REGRET: paper},
            sources=SyntheticSources(specs, self.rewards) if specs else None,
            probe=partial(Probe, PROBE, target) if probed else None,
        )


def _option(axis: str) -> str:
    return f"--{axis.replace('_', '-')}"


def _alike(
    people: int, number: int, epsilon: float, gamma: float = 0.0, kappa: float = 1.0
) -> dict[str, Any]:
    """The setting of sources of one kind."""
    return {
        "n_auxiliary": people,
        "sources": number,
        "epsilon_auxiliary": epsilon,
        "gamma": gamma,
        "kappa": kappa,
    }


def illustration(figure: TransferFigure) -> Iterator[Case]:
    """Figure 6: no, weak and effective auxiliary data."""
    sizes, epsilons = figure.grid["rounds"], figure.grid["epsilon"]
    for rounds, epsilon, method, people in product(
        sizes, epsilons, METHODS, figure.grid["auxiliary"]
    ):
        panel = [method]
        panel += [f"epsilon {epsilon:g}"] if len(epsilons) > 1 else []
        panel += [f"{rounds:,} people"] if len(sizes) > 1 else []
        kinds = {
            _NO_DATA: {"n_auxiliary": 0},
            "weak": _alike(people, 1, 0.5, gamma=5.0),
            "effective": _alike(people, 1, 8.0),
        }
        for kind, sources in kinds.items():
            setting = {"auxiliary_data": kind, **sources}
            yield figure.case(method, rounds, epsilon, kind, ", ".join(panel), setting)


def target_sizes(figure: TransferFigure) -> Iterator[Case]:
    """Figure 7: regret against n_P by epsilon, without and with auxiliary data."""
    grid = figure.grid
    kinds: dict[str, dict[str, Any]] = {_NO_DATA: {"n_auxiliary": 0}}
    for number, people, epsilon in product(
        grid["sources"], grid["auxiliary"], grid["auxiliary_epsilon"]
    ):
        several = f"{number} source{'s' if number > 1 else ''}"
        kinds[f"{several} of {people:,}, epsilon {epsilon:g}"] = _alike(people, number, epsilon)
    for method, (kind, setting), epsilon, rounds in product(
        LOGGED_METHODS, kinds.items(), grid["epsilon"], grid["rounds"]
    ):
        label = f"epsilon {epsilon:g}"
        yield figure.case(method, rounds, epsilon, label, f"{method}, {kind}", setting)


def source_sizes(figure: TransferFigure) -> Iterator[Case]:
    """Figure 8: regret against n_Qm by gamma and epsilon_m; M = 2."""
    grid = figure.grid
    for rounds, epsilon, method, gamma, auxiliary, number, people in product(
        grid["rounds"],
        grid["epsilon"],
        LOGGED_METHODS,
        grid["gamma"],
        grid["auxiliary_epsilon"],
        grid["sources"],
        (0, *grid["auxiliary"]),
    ):
        label = f"{method}, epsilon {epsilon:g}"
        panel = f"gamma {gamma:g}, auxiliary epsilon {auxiliary:g}"
        setting = _alike(people, number, auxiliary, gamma)
        yield figure.case(method, rounds, epsilon, label, panel, setting)


def quality(figure: TransferFigure) -> Iterator[Case]:
    """Figures 9a and 9b: regret against kappa or gamma by epsilon_m, and without sources."""
    grid = figure.grid
    axes = ("sources", "auxiliary", "auxiliary_epsilon", "gamma", "kappa")
    drawn = product(*(grid[axis] for axis in axes))
    kinds: list[dict[str, Any]] = [{"n_auxiliary": 0}]
    kinds += [_alike(people, number, *kind) for number, people, *kind in drawn]
    for rounds, epsilon, method, setting in product(
        grid["rounds"], grid["epsilon"], LOGGED_METHODS, kinds
    ):
        with_data = setting["n_auxiliary"] > 0
        label = f"{method}, {'with' if with_data else _NO_DATA}"
        panel = f"auxiliary epsilon {setting['epsilon_auxiliary']:g}" if with_data else None
        yield figure.case(method, rounds, epsilon, label, panel, setting)


def order(figure: TransferFigure) -> Iterator[Case]:
    """Figure 9c: one source of low and one of high quality, in both orders."""
    grid = figure.grid
    low, high = min(grid["auxiliary_epsilon"]), max(grid["auxiliary_epsilon"])
    for rounds, epsilon in product(grid["rounds"], grid["epsilon"]):
        panel = f"{rounds:,} people, epsilon {epsilon:g}"
        for method, people, which in product(
            LOGGED_METHODS, grid["auxiliary"], (HIGH_FIRST, LOW_FIRST)
        ):
            poor = SourceSpec("low quality", people, low)
            good = SourceSpec("high quality", people, high)
            setting = {
                "n_auxiliary": people,
                "sources": 2,
                "order": which,
                "epsilon_auxiliary": f"{low:g} and {high:g}",
                "gamma": 0.0,
                "kappa": 1.0,
            }
            specs = (good, poor) if which == HIGH_FIRST else (poor, good)
            yield figure.case(method, rounds, epsilon, f"{method}, {which}", panel, setting, specs)
        for reference in (UNIFORM, NON_PRIVATE):
            yield figure.case(reference, rounds, None, reference, panel)


_NOTE = (
    "Published: Algorithms 2 and 3 as printed, with C_n = log(n). Program: the rules of the "
    "authors' program, whose noise inside a bin only holds no epsilon; private: with noise of "
    "everybody. Paper: what that program logged. All methods of a trial meet the same people and "
    "sources. Non-private: ours without noise and sources."
)
_SIZES_NOTE = f"{_NOTE} The paper does not say how many people its sources have; here 10,000 each."
_SOURCE_SIZES = (10_000, 20_000, 50_000, 100_000)

FIGURE_6 = TransferFigure(
    name="ldpmab-figure-6",
    title="Ma et al. (2025), Figure 6: average regret, and arms at (1/3, 1/3), by auxiliary data",
    number="6",
    grid={"rounds": (1000,), "epsilon": (1.0,), "auxiliary": (500,)},
    cases=illustration,
    note=(
        f"{_NOTE} Weak: one source of 500 people with epsilon 0.5 and gamma 5; effective: with "
        "epsilon 8 and gamma 0. The paper shows a single run."
    ),
    axis="rounds",
    axis_label="people of the target",
    trials=1,
    form="average",
)

FIGURE_7 = TransferFigure(
    name="ldpmab-figure-7",
    title="Ma et al. (2025), Figure 7: regret against people of the target by epsilon",
    number="7",
    grid={
        "rounds": (10_000, 20_000, 40_000, 60_000, 80_000, 120_000, 160_000),
        "epsilon": (1.0, 2.0, 4.0, 8.0, 1024.0),
        "auxiliary": (5000,),
        "auxiliary_epsilon": (8.0,),
        "sources": (1, 2),
    },
    cases=target_sizes,
    experiment="sample_size_target",
    note=f"{_NOTE} The paper shows one source; the program logged two as well.",
    axis="rounds",
    axis_label="people of the target",
)

FIGURE_8 = TransferFigure(
    name="ldpmab-figure-8",
    title="Ma et al. (2025), Figure 8: regret against people of each of two sources",
    number="8",
    grid={
        "rounds": (80_000,),
        "epsilon": (1.0, 2.0),
        "auxiliary": _SOURCE_SIZES,
        "auxiliary_epsilon": (2.0, 4.0, 8.0, 1024.0),
        "gamma": (0.2, 1.0, 2.0),
        "sources": (2,),
    },
    cases=source_sizes,
    experiment="sample_size_source",
    batch=500,
    note=_NOTE,
    axis="n_auxiliary",
    axis_label="people of each source",
)

FIGURE_9A = TransferFigure(
    name="ldpmab-figure-9a",
    title="Ma et al. (2025), Figure 9a: regret against the exploration of the sources (kappa)",
    number="9a",
    grid={
        "rounds": (40_000,),
        "epsilon": (2.0,),
        "auxiliary": (10_000,),
        "auxiliary_epsilon": (1.0, 8.0),
        "gamma": (0.2,),
        "kappa": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        "sources": (2,),
    },
    cases=quality,
    experiment="kappa",
    note=_SIZES_NOTE,
    axis="kappa",
    axis_label="exploration coefficient kappa",
)

FIGURE_9B = TransferFigure(
    name="ldpmab-figure-9b",
    title="Ma et al. (2025), Figure 9b: regret against the shift of the sources' contexts (gamma)",
    number="9b",
    grid={
        "rounds": (40_000,),
        "epsilon": (2.0,),
        "auxiliary": (10_000,),
        "auxiliary_epsilon": (2.0, 8.0),
        "gamma": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0),
        "kappa": (1.0,),
        "sources": (2,),
    },
    cases=quality,
    experiment="gamma",
    note=_SIZES_NOTE,
    axis="gamma",
    axis_label="transfer exponent gamma",
)

FIGURE_9C = TransferFigure(
    name="ldpmab-figure-9c",
    title="Ma et al. (2025), Figure 9c: regret by the order of a low- and a high-quality source",
    number="9c",
    grid={
        "rounds": (10_000, 80_000),
        "epsilon": (1.0, 2.0),
        "auxiliary": _SOURCE_SIZES,
        "auxiliary_epsilon": (2.0, 8.0),
    },
    cases=order,
    references=(),
    experiment="order_of_auxiliary",
    batch=500,
    note=f"{_NOTE} Both orders have the same data. Ours asks the second source what the first left "
    "open, so the order matters.",
    axis="n_auxiliary",
    axis_label="people of each source",
)


@dataclass(frozen=True, kw_only=True)
class Drawing(Reproduction):
    """A figure for which nothing is run."""

    trials: int = 0
    form: str = "drawing"

    @property
    def options(self) -> Mapping[str, Any]:
        return {"drawing": ...}

    def plan(self) -> PaperPlan:
        raise InvalidInput(f"{self.name} is drawn and not run; there is nothing to plan.")


FIGURES_4_5 = Drawing(
    name="ldpmab-figure-4-5",
    title="Ma et al. (2025), Figures 4 and 5: reward functions, and densities of sources' contexts",
)

MA_2025 = (FIGURES_4_5, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9A, FIGURE_9B, FIGURE_9C)


ABSE = "ABSE"
LINEAR, NEURAL = "linear", "neural"
EPSILONS = (1.0, 2.0)
AUXILIARY_EPSILONS = (1.0, 4.0)
SIGNIFICANCE = 0.05
_RATIO_LEARNERS = {
    ABSE: "abse",
    UNIFORM: UNIFORM,
    OURS: "kernel",
    PUBLISHED: "published_partition",
    LINEAR: "private_linear",
    NEURAL: "private_neural",
}
RATIO_METHODS = (OURS, PUBLISHED, LINEAR, NEURAL)
Cells = Sequence[tuple[float, float]]

_PRINTED: dict[tuple[float | None, float | None], dict[str, tuple[float, ...]]] = {
    (1.0, 1.0): {
        ADULT: (1.459, 0.987, 0.954, 0.950, 0.906, 0.935, 1.101, 0.795, 0.724, 0.715, 0.750, 0.784),
        JOBS: (0.801, 0.797, 0.786, 0.794, 0.800, 0.795, 0.694, 0.693, 0.684, 0.690, 0.700, 0.695),
        TAXI: (0.989, 0.976, 0.987, 0.984, 0.998, 0.989, 0.994, 0.992, 0.996, 0.993, 0.998, 0.995),
    },
    (1.0, 4.0): {
        ADULT: (1.602, 0.987, 0.988, 0.986, 1.110, 0.992, 1.210, 0.795, 0.782, 0.771, 0.871, 0.816),
        JOBS: (0.846, 0.797, 0.795, 0.804, 0.800, 0.798, 0.742, 0.693, 0.688, 0.704, 0.698, 0.695),
        TAXI: (0.997, 0.985, 0.976, 0.969, 0.990, 0.989, 0.996, 0.992, 0.992, 0.991, 0.996, 0.995),
    },
    (2.0, 1.0): {
        ADULT: (1.459, 0.986, 0.964, 0.986, 0.895, 0.930, 1.102, 0.919, 0.762, 0.772, 0.745, 0.808),
        JOBS: (0.819, 0.808, 0.788, 0.791, 0.800, 0.797, 0.719, 0.720, 0.683, 0.683, 0.705, 0.688),
        TAXI: (0.992, 0.974, 0.989, 0.989, 1.000, 0.996, 0.996, 0.992, 0.997, 0.997, 1.000, 0.999),
    },
    (2.0, 4.0): {
        ADULT: (1.602, 0.986, 0.964, 0.968, 0.895, 0.929, 1.210, 0.919, 0.762, 0.762, 0.745, 0.791),
        JOBS: (0.857, 0.808, 0.788, 0.785, 0.800, 0.792, 0.754, 0.720, 0.683, 0.674, 0.705, 0.696),
        TAXI: (1.001, 0.974, 0.989, 0.989, 1.000, 1.000, 1.002, 0.992, 0.997, 0.997, 1.000, 1.000),
    },
}
_COLUMNS = (PUBLISHED, LINEAR, NEURAL)
_PRINTED_SUMS = {AT_QUARTER: (15, 45, 55, 52, 37, 43), AT_END: (22, 44, 54, 56, 33, 36)}
RANK_SUM = "rank sum"


def printed(
    data_set: str,
    epsilon: float | None,
    epsilon_auxiliary: float | None,
    method: str,
    with_data: bool,
    at: str,
) -> float | None:
    """The ratio in the paper; None where it has none. JOBS and TAXI there are other tables."""
    row = _PRINTED.get((epsilon, epsilon_auxiliary), {}).get(data_set)
    if row is None or method not in _COLUMNS or at not in (AT_QUARTER, AT_END):
        return None
    return row[6 * (at == AT_END) + 2 * _COLUMNS.index(method) + (not with_data)]


@dataclass(frozen=True, kw_only=True)
class RatioTable(Reproduction):
    """Table 2."""

    trials: int = TRIALS
    seed: int = SEED
    form: str = "ratios"

    @property
    def options(self) -> Mapping[str, Any]:
        return {
            "folder": ...,
            "repetitions": self.trials,
            "people": None,
            **dict.fromkeys(("only", "method", "epsilon", "auxiliary_epsilon")),
            **dict.fromkeys(RUN_OPTIONS),
        }

    def plan(
        self,
        data: Path,
        repetitions: int | None = None,
        rounds: int | None = None,
        only: Sequence[str] | None = None,
        method: Sequence[str] | None = None,
        epsilon: Sequence[float] | None = None,
        auxiliary_epsilon: Sequence[float] | None = None,
    ) -> PaperPlan:
        # All is checked before tables are read.
        names = [one_of(name, "the data set", DATA_SETS) for name in only or DATA_SETS]
        methods = [one_of(name, "the method", RATIO_METHODS) for name in method or RATIO_METHODS]
        own, other = (
            dict.fromkeys(positive_number(value, "epsilon") for value in values)
            for values in (epsilon or EPSILONS, auxiliary_epsilon or AUXILIARY_EPSILONS)
        )
        people = None if rounds is None else whole_number(rounds, "rounds", minimum=8)
        splits = [load(name, data) for name in DATA_SETS if name in names]
        trials = repetitions or self.trials
        return self.planned(splits, list(product(own, other)), trials, methods, people)

    def planned(
        self,
        splits: Sequence[Split],
        cells: Cells,
        trials: int,
        methods: Sequence[str] = RATIO_METHODS,
        rounds: int | None = None,
    ) -> PaperPlan:
        """What is run on tables that are there; see `cases_of`."""
        cases = [case for split in splits for case in cases_of(split, cells, methods, rounds)]
        plan = plan_of(cases, trials, self.seed, partial(ratios_of, cells=cells))
        return replace(plan, notices=[_sizes(split) for split in splits])


# Table 1: people of the target, sources, people of the largest.
_PRINTED_SIZES = {ADULT: (41_292, 7, 3930), JOBS: (57_773, 1, 14_318), TAXI: (621_957, 1, 18_945)}


def _sizes(split: Split) -> str:
    """A row of Table 1, and what the paper prints there."""
    sources = [table.size for table in split.sources.values()]
    people, number, largest = _PRINTED_SIZES[split.name]
    return (
        f"{split.name}: {split.target.size:,} people; {len(sources)} sources of {sum(sources):,}, "
        f"the largest of {max(sources):,}. Table 1: {people:,} people; {number} sources, the "
        f"largest of {largest:,}."
    )


def cases_of(
    split: Split,
    cells: Cells,
    methods: Sequence[str] = RATIO_METHODS,
    rounds: int | None = None,
) -> Iterator[Case]:
    """ABSE and uniform choice, and methods with and without sources, on a data set.

    Args:
        split: the data set.
        cells: budgets of the target and its sources.
        methods: names of private methods.
        rounds: people of the target, who are all of them if left out.
    """
    people = min(rounds or split.target.size, split.target.size)
    largest = max(table.size for table in split.sources.values())
    published = {"source_horizon": largest}

    def case(name: str, epsilon: float | None = None, auxiliary: float | None = None) -> Case:
        return Case(
            name,
            split.target,
            _RATIO_LEARNERS[name],
            people,
            NonPrivate() if epsilon is None else Local(epsilon),
            published if name == PUBLISHED else {},
            {"dataset": split.name, "rounds": people, "epsilon_auxiliary": auxiliary},
            label=f"{name}, {'without' if auxiliary is None else 'with'}",
            metric=AT_END,
            sources=None if auxiliary is None else TableSources(split.sources, auxiliary),
        )

    yield from (case(ABSE), case(UNIFORM))
    without = [(epsilon, None) for epsilon in dict.fromkeys(own for own, _ in cells)]
    for name in methods:
        yield from (case(name, *budgets) for budgets in (*without, *cells))


def ratios_of(cases: Sequence[Case], frame: pd.DataFrame, cells: Cells) -> PaperResults:
    """All numbers of the table from finished trials; data sets without ABSE are left out.

    Besides records, `ends` says whether a ratio is the largest of its cell (`best`), significantly
    so (`significant`), and `panel` and `label` for the figure. `p_value` is that of the Wilcoxon
    signed-rank test against the best; for the best itself the largest of those against it, and NaN
    if it is alone.
    """
    import pandas as pd

    rewards = frame.pivot(index="trial", columns=["case", "metric"], values="value")
    promises = promises_of(frame)
    bases = {str(cases[n].setting["dataset"]): n for n in promises if cases[n].method == ABSE}
    records: list[Row] = []
    ends: list[Row] = []
    # Uniform choice has no budget, and is no candidate for the best.
    for (data_set, base), (epsilon, auxiliary), at in product(
        bases.items(), (*cells, (None, None)), (AT_QUARTER, AT_END)
    ):
        mine = [
            n
            for n in promises
            if cases[n].method != ABSE
            and cases[n].setting["dataset"] == data_set
            and (cases[n].budget.epsilon if cases[n].budget.private else None) == epsilon
            and cases[n].setting["epsilon_auxiliary"] in (None, auxiliary)
        ]
        # Trials that all of them finished: after an interruption there may be none.
        shared = rewards[[(n, at) for n in (base, *mine)]].dropna().to_numpy().T
        if not mine or not shared.size:
            continue
        # What was printed holds for all people of the target.
        whole = cases[base].rounds == cases[base].problem.size
        compared = _compared(shared[1:], shared[0])
        ranks = ranks_of([cases[n].method for n in mine], [mean["mean"] for mean in compared])
        for n, mean, rank in zip(mine, compared, ranks, strict=True):
            method, with_data = cases[n].method, cases[n].sources is not None
            mean["best"] &= method != UNIFORM
            setting = {
                "table": 2,
                "dataset": data_set,
                "trust_model": cases[n].budget.trust_model,
                "epsilon": epsilon,
                "epsilon_auxiliary": auxiliary,
                "auxiliary_data": with_data,
                "true_epsilon": promises[n]["true_epsilon"],
                "true_epsilon_auxiliary": promises[n]["true_epsilon_auxiliary"],
                "best": mean["best"],
                "p_value": mean["p_value"],
                "rank": None if method == UNIFORM else rank,
            }
            paper = printed(data_set, epsilon, auxiliary, method, with_data, at) if whole else None
            metric = f"ratio of {at} to ABSE"
            records.append(record_of(setting, method, {**mean, "metric": metric}, paper))
            label = f"{method}, {'with' if with_data else 'without'}"
            ends.append({"case": len(ends), "panel": f"{data_set}, {at}", "label": label, **mean})
    shown = pd.DataFrame([{**record, **end} for record, end in zip(records, ends, strict=True)])
    return PaperResults(records, shown, pd.DataFrame(), frame)


def ranks_of(methods: Sequence[str], ratios: Sequence[float]) -> list[int]:
    """Ranks of a row of ratios among the paper's methods; ours takes the place of published.

    The largest of three digits has rank 1, and equal ones share the smaller rank: the rule that
    gives the sums which the paper prints.
    """
    digits = [(name, round(ratio, 3)) for name, ratio in zip(methods, ratios, strict=True)]
    ranks = []
    for method, ratio in digits:
        rivals = (OURS if method == OURS else PUBLISHED, LINEAR, NEURAL)
        ranks.append(1 + sum(name in rivals and other > ratio for name, other in digits))
    return ranks


def rank_sums(ends: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The paper's last row, at both times: a title, and rows as in `ends` with the sums as `mean`.

    Nothing unless every method has every ratio of the paper. A sum has no standard error.
    """
    ranked = ends[ends["rank"].notna()]
    cells = set(zip(ranked["epsilon"], ranked["epsilon_auxiliary"], strict=True))
    if cells != set(_PRINTED) or len(ranked) < 4 * len(RATIO_METHODS) * len(DATA_SETS) * len(cells):
        return
    names = [(name, with_data) for name in _COLUMNS for with_data in (True, False)]
    for at, paper in _PRINTED_SUMS.items():
        own = ranked[ranked["metric"] == f"ratio of {at} to ABSE"]
        sums = own.groupby(["method", "auxiliary_data"], as_index=False, sort=False)["rank"].sum()
        printed_sums = dict(zip(names, paper, strict=True)) if own["paper"].notna().any() else {}
        keys = zip(sums["method"], sums["auxiliary_data"], strict=True)
        yield (
            f"{RANK_SUM}, {at}",
            sums.assign(
                mean=sums["rank"],
                best=sums["rank"] == sums["rank"].min(),
                paper=[printed_sums.get(key) for key in keys],
                **dict.fromkeys(("epsilon", "epsilon_auxiliary", "agrees", "significant")),
            ),
        )


def _compared(values: FloatArray, below: FloatArray) -> list[Row]:
    """The ratios of a cell and their tests, from the mean rewards of its methods (m, trials) and
    those of ABSE (trials,)."""
    best = int(values.mean(axis=1).argmax())
    tests = [p_value(values[best], own) for own in values]
    tests[best] = max((p for n, p in enumerate(tests) if n != best), default=float("nan"))
    rows: list[Row] = []
    for place, own in enumerate(values):
        ratio, error = ratio_of(own, below)
        rows.append(
            {
                "mean": ratio,
                "standard_error": error,
                "half_width": half_width(error, len(below)) if len(below) > 1 else 0.0,
                "trials": len(below),
                "best": place == best,
                "p_value": tests[place],
                "significant": place == best and tests[place] < SIGNIFICANCE,
            }
        )
    return rows


def ratio_of(values: FloatArray, below: FloatArray) -> tuple[float, float]:
    """The ratio of two means over the same trials, and its linearised standard error."""
    if below.mean() <= 0.0:
        raise InvalidInput(
            "ABSE received no reward at all, so there is no ratio to it; ask for more people with "
            "--rounds."
        )
    ratio = float(values.mean() / below.mean())
    residual = (values - ratio * below) / below.mean()
    return ratio, mean_and_error(residual)[1]


def p_value(first: FloatArray, second: FloatArray) -> float:
    """Two-sided, from paired trials; 1 where they do not differ at all."""
    if (first == second).all():
        return 1.0
    return float(wilcoxon(first, second).pvalue)


_TITLE = "Ma et al. (2025), Table 2: mean reward on real tables, over that of ABSE"
_RATIO_NOTE = (
    "ADULT is the original table; jobs and taxi are stand-ins, so the paper's numbers beside them "
    "are for other rows. ABSE learns on the target without privacy and sources. The paper's LDPMAB "
    "stands beside published, which runs with C_n = log(n). Wilcoxon tests compare the best method "
    "with every other; neither that choice nor the number of tests is corrected for."
)


TABLE_2 = RatioTable(name="ldpmab-table-2", title=_TITLE, note=_RATIO_NOTE)
