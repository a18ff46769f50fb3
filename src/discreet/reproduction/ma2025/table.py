"""Table 2: what is run, and ratios to ABSE with the Wilcoxon test between methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import wilcoxon

from discreet.intervals import half_width
from discreet.learners.registry import LEARNERS
from discreet.learners.sources import SourceLearner
from discreet.privacy import Local, NonPrivate
from discreet.records import ReproductionRecord, Value
from discreet.reproduction.cases import UNIFORM, Case, Line, Trial
from discreet.reproduction.ma2025.methods import OURS
from discreet.reproduction.ma2025.paper_table import LINEAR, NEURAL, PUBLISHED, printed
from discreet.reproduction.ma2025.real_data import AT_END, AT_QUARTER, Split, TableSources
from discreet.reproduction.ma2025.settings import SEED, TRIALS, check_known
from discreet.reproduction.runner import run_all
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

ABSE = "ABSE"
EPSILONS = (1.0, 2.0)
AUXILIARY_EPSILONS = (1.0, 4.0)
SIGNIFICANCE = 0.05
_LEARNERS = {
    OURS: "partition",
    PUBLISHED: "published_partition",
    LINEAR: "private_linear",
    NEURAL: "private_neural",
}


def methods() -> tuple[str, ...]:
    """The private methods that are registered."""
    return tuple(method for method, learner in _LEARNERS.items() if learner in LEARNERS)


@dataclass(frozen=True)
class Wish:
    """What of Table 2 is asked for; empty for all of it.

    Attributes:
        methods: names of private methods.
        epsilons, auxiliary_epsilons: in place of the paper's.
        rounds: people of the target, who are all of them if left out.
        constant: c of C_n in the published rules.
    """

    methods: Sequence[str] = ()
    epsilons: Sequence[float] = ()
    auxiliary_epsilons: Sequence[float] = ()
    rounds: int | None = None
    constant: float = 1.0

    def __post_init__(self) -> None:
        for method in self.methods:
            check_known(method, methods(), "method")
        for epsilon in (*self.epsilons, *self.auxiliary_epsilons):
            positive_number(epsilon, "epsilon")
        positive_number(self.constant, "the constant")
        if self.rounds is not None:
            whole_number(self.rounds, "rounds", minimum=8)

    @property
    def cells(self) -> tuple[tuple[float, float], ...]:
        """(epsilon, epsilon_m)."""
        own = dict.fromkeys(self.epsilons or EPSILONS)
        other = dict.fromkeys(self.auxiliary_epsilons or AUXILIARY_EPSILONS)
        return tuple((epsilon, auxiliary) for epsilon in own for auxiliary in other)


def plan(wish: Wish, splits: Sequence[Split]) -> list[Case]:
    """ABSE and uniform choice, and every method with and without sources, on every data set."""
    cases: list[Case] = []
    for split in splits:
        rounds = min(wish.rounds or split.target.size, split.target.size)
        for name, learner in ((ABSE, "abse"), (UNIFORM, "uniform")):
            cases.append(_case(split, name, learner, None, None, rounds, {}))
        for method in wish.methods or methods():
            learner, options = _LEARNERS[method], {}
            if method == PUBLISHED:
                largest = max(table.size for table in split.sources.values())
                options = {"confidence_constant": wish.constant, "source_horizon": largest}
            for epsilon in dict.fromkeys(epsilon for epsilon, _ in wish.cells):
                cases.append(_case(split, method, learner, epsilon, None, rounds, options))
            if issubclass(LEARNERS[learner], SourceLearner):
                for epsilon, auxiliary in wish.cells:
                    cases.append(_case(split, method, learner, epsilon, auxiliary, rounds, options))
    return cases


def _case(
    split: Split,
    method: str,
    learner: str,
    epsilon: float | None,
    auxiliary: float | None,
    rounds: int,
    options: Mapping[str, Value],
) -> Case:
    return Case(
        method,
        split.target,
        learner,
        NonPrivate() if epsilon is None else Local(epsilon),
        options=options,
        setting={"dataset": split.name, "rounds": rounds, "epsilon_auxiliary": auxiliary},
        label=f"{method}, {'without' if auxiliary is None else 'with'}",
        rounds=rounds,
        metric=AT_END,
        sources=None if auxiliary is None else TableSources(split.sources, auxiliary),
    )


def run(cases: Sequence[Case], trials: int, jobs: int = 1) -> Iterator[Trial]:
    """Every case in every trial, in the order in which they finish."""
    return run_all(cases, trials, None, SEED, jobs)


@dataclass(frozen=True)
class Ratio:
    """One number of Table 2.

    Attributes:
        data_set, method: names.
        epsilon, epsilon_auxiliary: the cell of the table.
        with_data: whether sources were heard.
        at: `AT_QUARTER` or `AT_END`.
        ratio: mean reward over that of ABSE, both over the same trials.
        standard_error: of the ratio.
        trials: how many.
        best: whether it is the largest of its cell.
        p_value: of the Wilcoxon signed-rank test against the best; for the best itself the largest
            of those against it. NaN if it is alone.
        paper: what the paper printed.
        true_epsilon: what was really promised to the target.
        true_epsilon_auxiliary: what was really promised to the people of sources, the largest of
            them; None where none were heard.
    """

    data_set: str
    method: str
    epsilon: float
    epsilon_auxiliary: float
    with_data: bool
    at: str
    ratio: float
    standard_error: float
    trials: int
    best: bool
    p_value: float
    paper: float | None
    true_epsilon: float | None
    true_epsilon_auxiliary: float | None

    @property
    def significant(self) -> bool:
        """Whether it is significantly the best of its cell."""
        return self.best and self.p_value < SIGNIFICANCE

    @property
    def half_width(self) -> float:
        """Of the ratio's interval; 0 for one trial."""
        return half_width(self.standard_error, self.trials) if self.trials > 1 else 0.0

    @property
    def record(self) -> ReproductionRecord:
        """For files."""
        return ReproductionRecord(
            method=self.method,
            metric=f"ratio of {self.at} to ABSE",
            mean=self.ratio,
            standard_error=self.standard_error,
            trials=self.trials,
            paper=self.paper,
            setting={
                "table": 2,
                "dataset": self.data_set,
                "trust_model": "local",
                "epsilon": self.epsilon,
                "epsilon_auxiliary": self.epsilon_auxiliary,
                "auxiliary_data": self.with_data,
                "true_epsilon": self.true_epsilon,
                "true_epsilon_auxiliary": self.true_epsilon_auxiliary,
                "best": self.best,
                "p_value": self.p_value,
            },
        )


def ratios(lines: Sequence[Line], wish: Wish) -> list[Ratio]:
    """All numbers of the table from finished trials; data sets without ABSE are left out."""
    made: list[Ratio] = []
    for data_set in dict.fromkeys(str(line.case.setting["dataset"]) for line in lines):
        mine = [line for line in lines if line.case.setting["dataset"] == data_set]
        base = next((line for line in mine if line.case.method == ABSE), None)
        if base is None:
            continue
        for epsilon, auxiliary in wish.cells:
            private = [
                line
                for line in mine
                if line.case.private
                and line.case.budget.epsilon == epsilon
                and line.case.setting["epsilon_auxiliary"] in (None, auxiliary)
            ]
            for at in (AT_QUARTER, AT_END):
                made += _cell(data_set, epsilon, auxiliary, at, private, base)
    return made


def _cell(
    data_set: str,
    epsilon: float,
    auxiliary: float,
    at: str,
    lines: Sequence[Line],
    base: Line,
) -> list[Ratio]:
    shared = set.intersection(*({t.number for t in line.trials} for line in (*lines, base)))
    if not shared or not lines:  # after an interruption
        return []
    below = _values(base, at, shared)
    found = [_values(line, at, shared) for line in lines]
    best = int(np.argmax([values.mean() for values in found]))
    tests = [_p_value(found[best], values) for values in found]
    others = [p for place, p in enumerate(tests) if place != best]
    tests[best] = max(others, default=float("nan"))
    # What was printed holds for all people of the target.
    whole = int(base.trials[0].rounds[-1]) == base.case.problem.size
    made = []
    for place, (line, values) in enumerate(zip(lines, found, strict=True)):
        ratio, error = _ratio(values, below)
        with_data = line.case.sources is not None
        method = line.case.method
        made.append(
            Ratio(
                data_set,
                method,
                epsilon,
                auxiliary,
                with_data,
                at,
                ratio,
                error,
                len(shared),
                place == best,
                tests[place],
                printed(data_set, epsilon, auxiliary, method, with_data, at) if whole else None,
                line.true_epsilon,
                line.true_epsilon_auxiliary,
            )
        )
    return made


def _values(line: Line, at: str, numbers: set[int]) -> FloatArray:
    """(trials,) in the order of the trials' numbers."""
    return np.array([trial.totals[at] for trial in line.trials if trial.number in numbers])


def _ratio(values: FloatArray, below: FloatArray) -> tuple[float, float]:
    """The ratio of two means over the same trials, and its linearised standard error."""
    if below.mean() <= 0.0:
        raise InvalidInput(
            "ABSE received no reward at all, so there is no ratio to it; ask for more people with "
            "--rounds."
        )
    ratio = float(values.mean() / below.mean())
    if len(values) < 2:
        return ratio, float("nan")
    residual = (values - ratio * below) / below.mean()
    return ratio, float(residual.std(ddof=1) / np.sqrt(len(values)))


def _p_value(one: FloatArray, two: FloatArray) -> float:
    """Two-sided, from paired trials; 1 where they do not differ at all."""
    if (one == two).all():
        return 1.0
    return float(wilcoxon(one, two).pvalue)


TABLE_2_TITLE = "Ma et al. (2025), Table 2: mean reward on real tables, over that of ABSE"
TABLE_2_NOTE = (
    "ADULT is the original table; jobs and taxi are stand-ins, so the paper's numbers beside them "
    "are for other rows. Public preprocessing: three columns with bounds fixed beforehand. ADULT: "
    "age 17 to 90, education 1 to 16, weekly hours 1 to 99; target: complete rows born in the US, "
    "sources: seven regions of birth. Jobs stand-in: years coding 0 to 50, years in a job 0 to 50, "
    "skills 0 to 40; target under 35, source older. Taxi stand-in: miles 0 to 20, minutes 0 to 60, "
    "hour of pickup; target Monday to Friday, source weekend. Behaviour policies choose uniformly. "
    "ABSE learns on the target without privacy and without sources. The paper's LDPMAB stands "
    "beside published, which runs with C_n = log(n). The Wilcoxon tests compare the best method, "
    "chosen on the same trials, with every other, and nothing is corrected for that choice or for "
    "the number of tests: significance is no error rate of 5%. The paper names no correction."
)


@dataclass(frozen=True)
class TableTwo:
    """For the list of reproductions."""

    name: str = "ldpmab-table-2"
    title: str = TABLE_2_TITLE
    trials: int = TRIALS
    sizes: tuple[int, ...] = ()


TABLE_2 = TableTwo()
