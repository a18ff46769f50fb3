"""Table 2 of Ma et al. (2025): ratios to ABSE on real tables, with the Wilcoxon test.

    ratio = mean over trials of the mean reward / the same of ABSE

What the paper prints has a row for each data set: with and without auxiliary data for LDPMAB,
Linear and NN at t = n_P / 4, and the same at t = n_P.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.stats import wilcoxon

from discreet.experiments.engine import Row
from discreet.experiments.means import half_width, mean_and_error
from discreet.learners.registry import LEARNERS
from discreet.learners.sources import SourceLearner
from discreet.privacy import Local, NonPrivate
from discreet.reproduction.base import Plan, Reproduction, Results, check_known
from discreet.reproduction.cases import OURS, PUBLISHED, UNIFORM, Case, plan_of, promises_of
from discreet.reproduction.ma2025.real_data import (
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
from discreet.reproduction.ma2025.settings import SEED, TRIALS
from discreet.validation import FloatArray, InvalidInput, positive_number, whole_number

if TYPE_CHECKING:
    import pandas as pd

ABSE = "ABSE"
LINEAR, NEURAL = "linear", "neural"
EPSILONS = (1.0, 2.0)
AUXILIARY_EPSILONS = (1.0, 4.0)
SIGNIFICANCE = 0.05
_LEARNERS = {
    OURS: "partition",
    PUBLISHED: "published_partition",
    LINEAR: "private_linear",
    NEURAL: "private_neural",
}
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
    def sizes(self) -> tuple[int, ...]:
        return ()

    @property
    def options(self) -> Mapping[str, Any]:
        return {
            "folder": ...,
            "repetitions": self.trials,
            "people": None,
            **dict.fromkeys(("only", "method", "epsilon", "auxiliary_epsilon")),
            "scale": 1.0,
            **dict.fromkeys(("jobs", "json", "plot")),
        }

    def plan(
        self,
        data: Path,
        repetitions: int | None = None,
        only: Sequence[str] | None = None,
        **wish: Any,
    ) -> Plan:
        check_known(only or (), DATA_SETS, "data set")
        cells = cells_of(wish.pop("epsilon", None), wish.pop("auxiliary_epsilon", None))
        check_wish(**wish)
        splits = [load(name, data) for name in DATA_SETS if not only or name in only]
        return self.planned(splits, cells, repetitions or self.trials, **wish)

    def planned(self, splits: Sequence[Split], cells: Cells, trials: int, **wish: Any) -> Plan:
        """What is run on tables that are there; see `cases_of`."""
        cases = cases_of(splits, cells, **wish)

        def finish(cases: Sequence[Case], frame: pd.DataFrame) -> Results:
            return ratios_of(cases, frame, cells)

        return plan_of(cases, trials, self.seed, finish)


def methods() -> tuple[str, ...]:
    """The private methods that are registered."""
    return tuple(method for method, learner in _LEARNERS.items() if learner in LEARNERS)


def cells_of(
    epsilons: Sequence[float] | None = None, auxiliary: Sequence[float] | None = None
) -> list[tuple[float, float]]:
    """(epsilon, epsilon_m) of the table: those of the paper where none are asked for."""
    for epsilon in (*(epsilons or ()), *(auxiliary or ())):
        positive_number(epsilon, "epsilon")
    own, other = epsilons or EPSILONS, auxiliary or AUXILIARY_EPSILONS
    return list(product(dict.fromkeys(own), dict.fromkeys(other)))


def check_wish(
    method: Sequence[str] | None = None, rounds: int | None = None, constant: float = 1.0
) -> None:
    """Refuse what cannot be run, before tables are read."""
    check_known(method or (), methods(), "method")
    positive_number(constant, "the constant")
    if rounds is not None:
        whole_number(rounds, "rounds", minimum=8)


def cases_of(
    splits: Sequence[Split],
    cells: Cells,
    method: Sequence[str] | None = None,
    rounds: int | None = None,
    constant: float = 1.0,
) -> list[Case]:
    """ABSE and uniform choice, and every method with and without sources, on every data set.

    Args:
        splits: the data sets.
        cells: budgets of the target and its sources.
        method: names of private methods; all if none.
        rounds: people of the target, who are all of them if left out.
        constant: c of C_n in the published rules.
    """
    cases: list[Case] = []
    for split in splits:
        people = min(rounds or split.target.size, split.target.size)

        def case(
            name: str,
            learner: str,
            epsilon: float | None = None,
            auxiliary: float | None = None,
            arguments: Mapping[str, Any] | None = None,
            split: Split = split,
            people: int = people,
        ) -> Case:
            return Case(
                name,
                split.target,
                learner,
                people,
                NonPrivate() if epsilon is None else Local(epsilon),
                arguments or {},
                {"dataset": split.name, "rounds": people, "epsilon_auxiliary": auxiliary},
                label=f"{name}, {'without' if auxiliary is None else 'with'}",
                metric=AT_END,
                sources=None if auxiliary is None else TableSources(split.sources, auxiliary),
            )

        cases += [case(ABSE, "abse"), case(UNIFORM, UNIFORM)]
        largest = max(table.size for table in split.sources.values())
        for name in method or methods():
            learner, arguments = _LEARNERS[name], {}
            if name == PUBLISHED:
                arguments = {"confidence_constant": constant, "source_horizon": largest}
            pairs: list[tuple[float, float | None]] = [
                (epsilon, None) for epsilon in dict.fromkeys(own for own, _ in cells)
            ]
            if issubclass(LEARNERS[learner], SourceLearner):
                pairs += cells
            cases += [case(name, learner, own, other, arguments) for own, other in pairs]
    return cases


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
    rows: list[Row] = []
    for (data_set, base), (epsilon, auxiliary), at in product(
        bases.items(), cells, (AT_QUARTER, AT_END)
    ):
        mine = [
            n
            for n in promises
            if cases[n].private
            and cases[n].setting["dataset"] == data_set
            and cases[n].budget.epsilon == epsilon
            and cases[n].setting["epsilon_auxiliary"] in (None, auxiliary)
        ]
        # Trials that all of them finished: after an interruption there may be none.
        shared = rewards[[(n, at) for n in (base, *mine)]].dropna().to_numpy().T
        if not mine or not shared.size:
            continue
        below, values = shared[0], shared[1:]
        best = int(values.mean(axis=1).argmax())
        tests = [p_value(values[best], own) for own in values]
        tests[best] = max((p for n, p in enumerate(tests) if n != best), default=float("nan"))
        # What was printed holds for all people of the target.
        whole = cases[base].rounds == cases[base].problem.size
        for place, n in enumerate(mine):
            case, ratio = cases[n], ratio_of(values[place], below)
            with_data = case.sources is not None
            paper = printed(data_set, epsilon, auxiliary, case.method, with_data, at)
            rows.append(
                {
                    "table": 2,
                    "dataset": data_set,
                    "trust_model": "local",
                    "epsilon": epsilon,
                    "epsilon_auxiliary": auxiliary,
                    "auxiliary_data": with_data,
                    "true_epsilon": promises[n]["true_epsilon"],
                    "true_epsilon_auxiliary": promises[n]["true_epsilon_auxiliary"],
                    "best": place == best,
                    "p_value": tests[place],
                    "method": case.method,
                    "metric": f"ratio of {at} to ABSE",
                    "mean": ratio[0],
                    "standard_error": ratio[1],
                    "trials": len(below),
                    "paper": paper if whole else None,
                }
            )
    ends = pd.DataFrame(rows)
    if rows:
        ends["case"] = range(len(ends))
        ends["panel"] = [f"{row['dataset']}, {row['metric'][9:-8]}" for row in rows]
        ends["label"] = [
            f"{row['method']}, {'with' if row['auxiliary_data'] else 'without'}" for row in rows
        ]
        ends["significant"] = ends["best"] & (ends["p_value"] < SIGNIFICANCE)
        ends["half_width"] = [
            half_width(row["standard_error"], row["trials"]) if row["trials"] > 1 else 0.0
            for row in rows
        ]
    return Results(rows, ends, pd.DataFrame(), frame)


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
