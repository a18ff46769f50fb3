"""Table 2 of Ma et al. (2025): ratios to ABSE on real tables, with the Wilcoxon test.

    ratio = mean over trials of the mean reward / the same of ABSE

What the paper prints has a row for each data set: with and without auxiliary data for LDPMAB,
Linear and NN at t = n_P / 4, and the same at t = n_P.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.stats import wilcoxon

from discreet.lab.experiments.engine import Row
from discreet.lab.experiments.means import half_width, mean_and_error
from discreet.papers.base import Plan, Reproduction, Results, record_of
from discreet.papers.cases import OURS, PUBLISHED, UNIFORM, Case, plan_of, promises_of
from discreet.papers.ma2025.real_data import (
    ADULT,
    AT_END,
    AT_QUARTER,
    DATA_SETS,
    JOBS,
    TAXI,
    Split,
    TableSources,
    load,
)
from discreet.papers.ma2025.settings import SEED, TRIALS
from discreet.privacy import Local, NonPrivate
from discreet.validation import FloatArray, InvalidInput, one_of, positive_number, whole_number

if TYPE_CHECKING:
    import pandas as pd

ABSE = "ABSE"
LINEAR, NEURAL = "linear", "neural"
EPSILONS = (1.0, 2.0)
AUXILIARY_EPSILONS = (1.0, 4.0)
SIGNIFICANCE = 0.05
_LEARNERS = {
    ABSE: "abse",
    UNIFORM: UNIFORM,
    OURS: "local_kernel",
    PUBLISHED: "published_partition",
    LINEAR: "private_linear",
    NEURAL: "private_neural",
}
METHODS = (OURS, PUBLISHED, LINEAR, NEURAL)
Cells = Sequence[tuple[float, float]]

_PRINTED: dict[tuple[float, float], dict[str, tuple[float, ...]]] = {
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


def printed(
    data_set: str, epsilon: float, epsilon_auxiliary: float, method: str, with_data: bool, at: str
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
            "scale": 1.0,
            **dict.fromkeys(("jobs", "engine", "address", "json", "plot")),
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
        constant: float = 1.0,
    ) -> Plan:
        # All is checked before tables are read.
        names = [one_of(name, "the data set", DATA_SETS) for name in only or DATA_SETS]
        methods = [one_of(name, "the method", METHODS) for name in method or METHODS]
        own, other = (
            dict.fromkeys(positive_number(value, "epsilon") for value in values)
            for values in (epsilon or EPSILONS, auxiliary_epsilon or AUXILIARY_EPSILONS)
        )
        c = positive_number(constant, "the constant")
        people = None if rounds is None else whole_number(rounds, "rounds", minimum=8)
        splits = [load(name, data) for name in DATA_SETS if name in names]
        trials = repetitions or self.trials
        return self.planned(splits, list(product(own, other)), trials, methods, people, c)

    def planned(
        self,
        splits: Sequence[Split],
        cells: Cells,
        trials: int,
        methods: Sequence[str] = METHODS,
        rounds: int | None = None,
        constant: float = 1.0,
    ) -> Plan:
        """What is run on tables that are there; see `cases_of`."""
        cases = [
            case for split in splits for case in cases_of(split, cells, methods, rounds, constant)
        ]
        return plan_of(cases, trials, self.seed, partial(ratios_of, cells=cells))


def cases_of(
    split: Split,
    cells: Cells,
    methods: Sequence[str] = METHODS,
    rounds: int | None = None,
    constant: float = 1.0,
) -> Iterator[Case]:
    """ABSE and uniform choice, and methods with and without sources, on a data set.

    Args:
        split: the data set.
        cells: budgets of the target and its sources.
        methods: names of private methods.
        rounds: people of the target, who are all of them if left out.
        constant: c of C_n in the published rules.
    """
    people = min(rounds or split.target.size, split.target.size)
    largest = max(table.size for table in split.sources.values())
    published = {"confidence_constant": constant, "source_horizon": largest}

    def case(name: str, epsilon: float | None = None, auxiliary: float | None = None) -> Case:
        return Case(
            name,
            split.target,
            _LEARNERS[name],
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


def ratios_of(cases: Sequence[Case], frame: pd.DataFrame, cells: Cells) -> Results:
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
    for (data_set, base), (epsilon, auxiliary), at in product(
        bases.items(), cells, (AT_QUARTER, AT_END)
    ):
        mine = [
            n
            for n in promises
            if cases[n].budget.private
            and cases[n].setting["dataset"] == data_set
            and cases[n].budget.epsilon == epsilon
            and cases[n].setting["epsilon_auxiliary"] in (None, auxiliary)
        ]
        # Trials that all of them finished: after an interruption there may be none.
        shared = rewards[[(n, at) for n in (base, *mine)]].dropna().to_numpy().T
        if not mine or not shared.size:
            continue
        # What was printed holds for all people of the target.
        whole = cases[base].rounds == cases[base].problem.size
        for n, mean in zip(mine, _compared(shared[1:], shared[0]), strict=True):
            method, with_data = cases[n].method, cases[n].sources is not None
            setting = {
                "table": 2,
                "dataset": data_set,
                "trust_model": "local",
                "epsilon": epsilon,
                "epsilon_auxiliary": auxiliary,
                "auxiliary_data": with_data,
                "true_epsilon": promises[n]["true_epsilon"],
                "true_epsilon_auxiliary": promises[n]["true_epsilon_auxiliary"],
                "best": mean["best"],
                "p_value": mean["p_value"],
            }
            paper = printed(data_set, epsilon, auxiliary, method, with_data, at) if whole else None
            metric = f"ratio of {at} to ABSE"
            records.append(record_of(setting, method, {**mean, "metric": metric}, paper))
            label = f"{method}, {'with' if with_data else 'without'}"
            ends.append({"case": len(ends), "panel": f"{data_set}, {at}", "label": label, **mean})
    shown = pd.DataFrame([{**record, **end} for record, end in zip(records, ends, strict=True)])
    return Results(records, shown, pd.DataFrame(), frame)


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
_NOTE = (
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


TABLE_2 = RatioTable(name="ldpmab-table-2", title=_TITLE, note=_NOTE)
