"""Tables 1 to 12 and Figures 2 and 3 of Kharkovskii et al. (2020): searches of tables.

All methods of a run search for the same function and start from the same row; equal searches run
once, however many tables they stand in.

A trial gives one row: the simple regret in units of sigma_y, traced over questions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.experiments.engine import Row, Seed, frame_of
from discreet.experiments.means import mean_traces, means
from discreet.reproduction.base import Plan, Reproduction, Results, record_of
from discreet.reproduction.kharkovskii2020.data_sets import NEED_FILES, DataSet, load
from discreet.reproduction.kharkovskii2020.methods import (
    Method,
    NonPrivateSearch,
    Ours,
    Published,
    Random,
    Task,
    power,
)
from discreet.reproduction.kharkovskii2020.settings import (
    DATA_SETS,
    FIGURES,
    RUNS,
    SEED,
    SETTINGS,
    TABLES,
    PaperFigure,
    PaperTable,
)
from discreet.reproduction.kharkovskii2020.transformation import AS_STATED, Taken
from discreet.validation import InvalidInput, one_of, whole_number

if TYPE_CHECKING:
    import pandas as pd

REGRET = "simple regret"
RAW_REGRET = "simple regret in the unit of the outcome"
ABOVE = "simple regret above non-private"

Part = PaperTable | PaperFigure
REFERENCES: tuple[Method, ...] = (
    NonPrivateSearch(),
    NonPrivateSearch(published_rule=False),
    Random(),
)


@dataclass(frozen=True)
class SearchEntry:
    """A row of a table, or a line of a figure: one method on one data set.

    Attributes:
        group: the table or figure it belongs to.
        data_set: its name.
        method: how it is searched.
        paper: the number that the paper prints for it, if any.
        metric: what that number is, `REGRET` or `ABOVE`.
        setting: what records say about its place.
    """

    group: str
    data_set: str
    method: Method
    paper: float | None = None
    metric: str = REGRET
    setting: Mapping[str, Any] = field(default_factory=dict)

    @property
    def search(self) -> tuple[str, Method]:
        """Entries with equal searches have equal runs."""
        return self.data_set, self.method


@dataclass(frozen=True, kw_only=True)
class Searches(Reproduction):
    """A reproduction that searches tables.

    Attributes:
        parts: the tables or figures.
    """

    parts: Sequence[Part]
    trials: int = RUNS
    seed: int = SEED

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted({SETTINGS[part.data_set].rounds for part in self.parts}))

    @property
    def options(self) -> Mapping[str, Any]:
        tables = ("table",) if any(isinstance(part, PaperTable) for part in self.parts) else ()
        names = ("questions", *tables, "only", "method", "jobs", "json", "plot")
        return {"files": None, "runs": self.trials, **dict.fromkeys(names), "linear": False}

    def plan(
        self,
        data: Path | None = None,
        runs: int | None = None,
        rounds: int | None = None,
        table: Sequence[int] | None = None,
        only: Sequence[str] | None = None,
        method: Sequence[str] | None = None,
    ) -> Plan:
        if rounds is not None:
            whole_number(rounds, "rounds", minimum=1)
        parts = self.chosen(only or (), table or ())
        names = list(dict.fromkeys(part.data_set for part in parts))
        missing = [name for name in names if name in NEED_FILES and data is None]
        if len(missing) == len(names):
            raise InvalidInput(
                f"{' and '.join(missing)} need files that pip does not install; name their folder "
                "with --data."
            )
        loaded = {name: load(name, data) for name in names if name not in missing}
        left_out = f"Without --data these data sets are left out: {', '.join(missing)}."
        return plan_of(
            self.entries(parts, loaded, method or ()),
            loaded,
            self.trials if runs is None else runs,
            self.seed,
            rounds,
            (left_out,) if missing else (),
        )

    def chosen(self, only: Sequence[str], tables: Sequence[int]) -> list[Part]:
        """The parts on the named data sets, and the tables of these numbers; all if none.

        Raises:
            InvalidInput: for a data set or table that there is not, or if nothing is left.
        """
        numbers = [part.number for part in self.parts if isinstance(part, PaperTable)]
        for name in only:
            one_of(name, "the data set", DATA_SETS)
        for number in tables:
            one_of(number, "the table", [n for n in numbers if n is not None])
        parts = [
            part
            for part in self.parts
            if (not only or part.data_set in only)
            and (not tables or (isinstance(part, PaperTable) and part.number in tables))
        ]
        if not parts:
            raise InvalidInput(
                f"no table is left of data sets {', '.join(only)} and tables "
                f"{', '.join(map(str, tables))}; leave one of the two out."
            )
        return parts

    def entries(
        self, parts: Sequence[Part], data: Mapping[str, DataSet], methods: Sequence[str] = ()
    ) -> list[SearchEntry]:
        """What is run of some parts, by the named methods (all if none), on data that are there.

        Raises:
            InvalidInput: for a method that there is not.
        """
        entries = [
            entry
            for part in parts
            if part.data_set in data
            for entry in entries_of(part, data[part.data_set])
        ]
        names = list(dict.fromkeys(entry.method.name for entry in entries))
        for name in methods:
            one_of(name, "the method", names)
        return [entry for entry in entries if not methods or entry.method.name in methods]


def plan_of(
    entries: Sequence[SearchEntry],
    data: Mapping[str, DataSet],
    runs: int,
    seed: int,
    rounds: int | None = None,
    notices: Sequence[str] = (),
) -> Plan:
    """Every search in every run, each different search once.

    Args:
        entries: in order.
        data: the data sets by name.
        runs: of each search.
        seed: of everything that is drawn.
        rounds: questions, in place of the paper's number.
        notices: what the user should know beforehand.

    Raises:
        InvalidInput: for numbers that are not allowed, or more questions than a data set has rows.
    """
    searches = list(dict.fromkeys(entry.search for entry in entries))
    settings = []
    for name, method in searches:
        questions, rows = rounds or SETTINGS[name].rounds, len(data[name].rows)
        if questions > rows:
            raise InvalidInput(
                f"rounds was {questions}, but {name} has {rows} rows; ask for fewer."
            )
        settings.append({"data": data[name], "method": method, "rounds": questions})
    return Plan(
        search,
        settings,
        [f"{name}: {method.name}" for name, method in searches],
        whole_number(runs, "runs", minimum=1),
        seed,
        lambda done: results_of(entries, searches, data, frame_of(done), rounds),
        notices,
    )


def search(seed: Seed, data: DataSet, method: Method, rounds: int) -> list[Row]:
    """One run of a search."""
    function, initial, release, choice = seed.streams(4)
    outcomes = data.draw(np.random.default_rng(function))
    first = int(np.random.default_rng(initial).integers(len(data.rows)))
    started = time.perf_counter()
    asked = method.search(Task(data, outcomes, first, rounds, release, choice))
    seconds = time.perf_counter() - started
    regret = outcomes.simple_regret(asked)
    traced = {"along": np.arange(1, rounds + 1), "trace": regret}
    return [{"metric": REGRET, "value": float(regret[-1]), "seconds": seconds, **traced}]


def results_of(
    entries: Sequence[SearchEntry],
    searches: Sequence[tuple[str, Method]],
    data: Mapping[str, DataSet],
    frame: pd.DataFrame,
    rounds: int | None,
) -> Results:
    """Simple regret in units of sigma_y and of the outcome, and how much more than non-private.

    Besides records, `ends` says in `panel` the table or figure, in `label` the method with the
    branch that it took, and what `data` is.

    Args:
        entries: in order; those without a finished run are left out.
        searches: what was run.
        data: the data sets by name.
        frame: the rows of `search`.
        rounds: questions, in place of the paper's number.
    """
    import pandas as pd

    runs = {key: frame[frame["case"] == number] for number, key in enumerate(searches)}
    runs = {key: rows for key, rows in runs.items() if len(rows)}
    finals = {key: rows.set_index("trial")["value"] for key, rows in runs.items()}
    records: list[Row] = []
    ends: list[Row] = []
    curves = []
    for number, entry in enumerate(entries):
        if entry.search not in runs:
            continue
        table, mine, final = data[entry.data_set], runs[entry.search], finals[entry.search]
        free = (entry.data_set, NonPrivateSearch())
        # Run by run, in the runs that both finished.
        measured = {REGRET: final, RAW_REGRET: table.deviation * final}
        if free in finals and free != entry.search:
            measured[ABOVE] = (final - finals[free]).dropna()
        values = pd.concat(
            [pd.DataFrame({"metric": name, "value": part}) for name, part in measured.items()]
        )
        paper = entry.paper if rounds in (None, table.setting.rounds) else None
        facts = _facts(entry, table, len(mine["trace"].iloc[0]), float(mine["seconds"].mean()))
        more: Row = {"case": number, "panel": entry.group, "label": entry.method.label(table)}
        for row in means(values, ["metric"]).to_dict("records"):
            # What tables print has no unit, so it stands beside both.
            printed = {entry.metric, RAW_REGRET if entry.metric == REGRET else entry.metric}
            number_of_paper = paper if row["metric"] in printed else None
            record = record_of(facts, entry.method.name, row, number_of_paper)
            records.append(record)
            ends.append({**more, "data": table, "half_width": row["half_width"], **record})
        traced = mean_traces(mine, ["metric"])
        epsilon = math.nan if entry.method.epsilon is None else entry.method.epsilon
        for name, value in {**more, "method": entry.method.name, "epsilon": epsilon}.items():
            traced[name] = value
        curves.append(traced)
    drawn = pd.concat(curves, ignore_index=True)
    return Results(records, pd.DataFrame(ends).astype({"paper": float}), drawn, frame)


def _facts(entry: SearchEntry, data: DataSet, rounds: int, seconds: float) -> Row:
    """The setting of an entry, as records say it."""
    method, guarantee = entry.method, entry.method.guarantee(data)
    return {
        **entry.setting,
        "dataset": data.name,
        "rounds": rounds,
        "sigma_y": data.deviation,
        "epsilon": method.epsilon,
        "delta": None if method.epsilon is None else data.setting.delta,
        "trust_model": "none" if guarantee is None else guarantee.trust_model,
        "true_epsilon": None if guarantee is None else guarantee.epsilon,
        **dict.fromkeys(("r", "branch", "radius", "noise_scale")),
        **method.facts(data),
        "seconds": round(seconds, 4),
    }


def entries_of(part: Part, data: DataSet) -> Iterator[SearchEntry]:
    """What is run for a table or figure: published, in its own branch and in the paper's; ours."""
    setting: dict[str, Any]
    # Epsilon, r, the branch that the paper reports for them, and the number that it prints.
    published: list[tuple[float, int, Taken, float | None]]
    if isinstance(part, PaperTable):
        group = f"{part.name}: {data.title}, epsilon {power(part.epsilon)}"
        metric, setting = REGRET, {"table": part.number}
        published = [
            (part.epsilon, r, "if" if r <= part.most_columns else "else", part.printed(r))
            for r in part.regrets
        ]
        again = published
        own = [part.epsilon]
    else:
        group = f"{part.name}: {data.title}"
        metric, setting = ABOVE, {"figure": part.name}
        published = [
            (
                epsilon,
                data.setting.columns,
                "if" if log_epsilon == part.projected_at else "else",
                part.printed(log_epsilon),
            )
            for log_epsilon, epsilon in part.epsilons.items()
        ]
        again = [line for line in published if line[2] == "if"]
        own = list(part.epsilons.values())

    def entry(method: Method, paper: float | None = None) -> SearchEntry:
        return SearchEntry(group, part.data_set, method, paper, metric, setting)

    for epsilon, r, _, paper in published:
        yield entry(Published(epsilon, r), paper)
    for epsilon, r, papers, paper in again:
        if _taken(epsilon, r, data) != papers:
            yield entry(Published(epsilon, r, papers), paper)
    for published_rule in (False, True):
        for epsilon in own:
            yield entry(Ours(epsilon, published_rule))
    for method in REFERENCES:
        yield entry(method)


def _taken(epsilon: float, columns: int, data: DataSet) -> Taken:
    return Published(epsilon, columns, AS_STATED).algorithm(data).taken(data.rows)


_NOTE = (
    "Published has no guarantee: its columns lie in the column space of the table, which tells "
    "neighbouring tables apart with certainty (po-gp-ucb-attack). Its own rule takes the branch "
    '"else" of Algorithm 1 nearly everywhere; "paper\'s branch" is the one that the paper reports, '
    "where that differs. Ours holds the epsilon shown, for a row that moves by at most 1, where "
    "the largest norm is 25; it chooses rows by the modeler's own rule, or by GP-UCB as published, "
    "so that only the release differs. Hyperparameters, scaling and the box of the rows are taken "
    "as public by all methods."
)

PO_GP_UCB_TABLES = Searches(
    name="po-gp-ucb-tables",
    title="Kharkovskii et al. (2020), Tables 1 to 12: simple regret by the columns of the release",
    parts=TABLES,
    note=(
        f"{_NOTE} The paper prints S_T without a unit; sigma_y is the standard deviation of the "
        "Gaussian process. Ours does not depend on r. At length scale 1.25, 50 questions cannot "
        "cover the domain of norm 25: GP-UCB does no better than chance there, with or without "
        "privacy. Length scale 5 is not in the paper."
    ),
    form="columns",
)

PO_GP_UCB_FIGURES = Searches(
    name="po-gp-ucb-figures",
    title="Kharkovskii et al. (2020), Figures 2 and 3: simple regret over questions",
    parts=FIGURES,
    note=(
        f"{_NOTE} Paper: by how much, according to its text, the simple regret of the published "
        "method exceeds that of GP-UCB without privacy, in units of sigma_y."
    ),
    form="questions",
)

KHARKOVSKII_2020 = (PO_GP_UCB_TABLES, PO_GP_UCB_FIGURES)
