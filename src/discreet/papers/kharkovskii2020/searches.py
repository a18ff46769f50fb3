"""Tables 1 to 12 and Figures 2 and 3 of Kharkovskii et al. (2020), section 4 and appendix A.

A table is searched as published, by ours, without privacy, or at random. All methods of a run
search for the same function, ask for the same random row first, and know the same hyperparameters.
The modeler sees a release of the table that is made once, before the first question:

    published           Algorithm 1, then GP-UCB (Algorithm 2) on its points as if they were rows
    ours                X + N(0, scale^2) on every number; the posterior of every row given the
                        noise and the public box; expected improvement of what rows share, or
                        GP-UCB as published
    non-private         the rows as they are; GP-UCB as published, or expected improvement
    random              rows drawn without replacement, without a release

Equal searches run once, however many tables they stand in. A trial gives one row: the simple regret
in units of sigma_y, traced over questions.

Epsilon is given by its logarithm, as in the paper. Tables print S_T without a unit; the text gives
differences in units of sigma_y, the standard deviation of the Gaussian process (its signal).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.lab.experiments.engine import Row, Seed, frame_of
from discreet.lab.experiments.means import mean_traces, means
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.mechanisms import noise_scale
from discreet.outsourcing.modeler import (
    Acquisition,
    ExpectedImprovement,
    Modeler,
    PublishedUCB,
)
from discreet.outsourcing.posterior import RowPrior
from discreet.papers.kharkovskii2020.data_sets import (
    BRANIN,
    LOANS,
    NEED_FILES,
    PROPERTY,
    SEED,
    SETTINGS,
    SYNTHETIC,
    SYNTHETIC_5,
    DataSet,
    Outcomes,
    load,
)
from discreet.papers.kharkovskii2020.published import (
    AS_STATED,
    RADIUS,
    Branch,
    RandomProjection,
    Taken,
)
from discreet.papers.reproduction import (
    NON_PRIVATE,
    OURS,
    PUBLISHED,
    RUN_OPTIONS,
    PaperPlan,
    PaperResults,
    Reproduction,
    of_methods,
    record_of,
)
from discreet.privacy import (
    Adjacency,
    Guarantee,
    OnceEach,
    Outsourced,
    Release,
    SimulatedNoise,
    derive_guarantee,
)
from discreet.privacy.accounting import GaussianEvent
from discreet.validation import IntArray, InvalidInput, one_of, whole_number

if TYPE_CHECKING:
    import pandas as pd

PAPERS = "paper's branch"
OURS_UCB = f"{OURS}, GP-UCB"
NON_PRIVATE_EI = f"{NON_PRIVATE}, expected improvement"
RANDOM = "random"
# delta' of Algorithm 2: half of the paper's delta_ucb = 0.05 (Theorem 3).
PUBLISHED_RULE = PublishedUCB(0.025)
IMPROVEMENT = ExpectedImprovement()


@dataclass(frozen=True, eq=False)
class Task:
    """One run, the same for every method.

    Attributes:
        data: the curator's table.
        outcomes: what is to be found.
        first: the row that is asked for first.
        rounds: questions, the first included: T.
        release: seed of what the curator draws.
        choice: seed of what the modeler draws.
    """

    data: DataSet
    outcomes: Outcomes
    first: int
    rounds: int
    release: np.random.SeedSequence
    choice: np.random.SeedSequence


class Method(ABC):
    """A way to search a table. Methods that are equal give equal results.

    Attributes:
        name: in tables and records.
        epsilon: what is asked for, or claimed; None for a reference.
    """

    name: str
    epsilon: float | None

    def label(self, data: DataSet) -> str:
        """In printed tables and figures."""
        return self.name

    @abstractmethod
    def search(self, task: Task) -> IntArray:
        """(T,) the rows that were asked for, in order."""

    def guarantee(self, data: DataSet) -> Guarantee | None:
        """What the release promises each row; None for a reference without any wish for privacy."""
        return None

    def facts(self, data: DataSet) -> dict[str, Any]:
        """What records say about the release, beyond its guarantee."""
        return {}


@dataclass(frozen=True)
class Published(Method):
    """Algorithms 1 and 2.

    Attributes:
        epsilon: claimed.
        columns: of the release, r.
        branch: of Algorithm 1.
    """

    epsilon: float
    columns: int
    branch: Branch = AS_STATED

    @property
    def name(self) -> str:  # type: ignore[override]
        return PUBLISHED if self.branch == AS_STATED else f"{PUBLISHED}, {PAPERS}"

    def label(self, data: DataSet) -> str:
        """With the branch that was taken."""
        which = PUBLISHED if self.branch == AS_STATED else PAPERS
        return f"{which} ({self.algorithm(data).taken(data.rows)})"

    def algorithm(self, data: DataSet) -> RandomProjection:
        """Algorithm 1 at the data set's delta."""
        return RandomProjection(self.epsilon, data.setting.delta, self.columns, self.branch)

    def search(self, task: Task) -> IntArray:
        rng = np.random.default_rng(task.release)
        points = self.algorithm(task.data).release(task.data.rows, rng)
        return _asked(task, RowBeliefs.exact(points), PUBLISHED_RULE)

    def guarantee(self, data: DataSet) -> Guarantee:
        return self.algorithm(data).guarantee()

    def facts(self, data: DataSet) -> dict[str, Any]:
        algorithm = self.algorithm(data)
        return {
            "r": self.columns,
            "branch": algorithm.taken(data.rows),
            "radius": RADIUS,
            "omega": algorithm.omega,
        }


@dataclass(frozen=True)
class Ours(Method):
    """Gaussian noise on every number of the table.

    Attributes:
        epsilon: asked for.
        published_rule: whether rows are chosen by Algorithm 2; otherwise by the modeler's own rule.
    """

    epsilon: float
    published_rule: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return OURS_UCB if self.published_rule else OURS

    def scale(self, data: DataSet) -> float:
        """The standard deviation of the noise, in the units of the rows."""
        budget = Outsourced(self.epsilon, data.setting.delta, RADIUS)
        return noise_scale(budget, RADIUS, SimulatedNoise(0), data.rows.size)

    def search(self, task: Task) -> IntArray:
        scale = self.scale(task.data)
        points = SimulatedNoise(task.release).add_gaussian(task.data.rows, scale)
        beliefs = RowBeliefs.within(points, scale, *task.data.box)
        return _asked(task, beliefs, PUBLISHED_RULE if self.published_rule else IMPROVEMENT)

    def guarantee(self, data: DataSet) -> Guarantee:
        """Derived from the noise: one Gaussian release of sensitivity `RADIUS`."""
        scale = self.scale(data)
        multiplier = SimulatedNoise(0).gaussian_multiplier(RADIUS, scale, data.rows.size)
        release = Release(
            mechanism="Gaussian noise on every number of the table",
            event=GaussianEvent(multiplier),
            sensitivity=RADIUS,
            sensitivity_source="the radius: one row moves so far, all others stay",
            scale=scale,
            people=OnceEach("released table"),
            data="the row",
            noise=SimulatedNoise.name,
        )
        adjacency = Adjacency("row", radius=RADIUS)
        return derive_guarantee([release], "outsourced", adjacency, data.setting.delta)

    def facts(self, data: DataSet) -> dict[str, Any]:
        return {"radius": RADIUS, "noise_scale": self.scale(data)}


@dataclass(frozen=True)
class Reference(Method):
    """A search that sees the rows, by GP-UCB as published or by expected improvement; or rows drawn
    without replacement."""

    name: str
    epsilon: None = None

    def label(self, data: DataSet) -> str:
        return "non-private, EI" if self.name == NON_PRIVATE_EI else self.name

    def search(self, task: Task) -> IntArray:
        if self.name == RANDOM:
            drawn = np.random.default_rng(task.choice).permutation(len(task.data.rows))
            others: IntArray = drawn[drawn != task.first][: task.rounds - 1]
            return np.concatenate([[task.first], others])
        rule = PUBLISHED_RULE if self.name == NON_PRIVATE else IMPROVEMENT
        return _asked(task, RowBeliefs.exact(task.data.rows), rule)


def _asked(task: Task, beliefs: RowBeliefs, rule: Acquisition) -> IntArray:
    """(T,) the rows that a modeler with the known hyperparameters asks for.

    Algorithm 2 may ask for a row again; no other rule does.
    """
    prior = RowPrior(task.data.length_scale, noise=task.data.noise)
    repeats = task.rounds if rule is PUBLISHED_RULE else 1
    modeler = Modeler(beliefs, prior, rule, repeats=repeats)
    asked, answers = [task.first], task.outcomes.answers
    modeler.tell(asked, answers[asked])
    while len(asked) < task.rounds:
        rows = modeler.ask()
        modeler.tell(rows, answers[rows])
        asked += rows.tolist()
    return np.array(asked, dtype=np.int64)


REGRET = "simple regret"
RAW_REGRET = "simple regret in the unit of the outcome"
ABOVE = "simple regret above non-private"
RUNS = 50

FREE = Reference(NON_PRIVATE)
REFERENCES: tuple[Method, ...] = (FREE, Reference(NON_PRIVATE_EI), Reference(RANDOM))


@dataclass(frozen=True)
class Reported:
    """What the paper says of its method at one epsilon and r.

    Attributes:
        log_epsilon: the logarithm of epsilon.
        columns: of the release, r.
        branch: of Algorithm 1 that is run where the method as stated takes another; None for none.
        number: that is printed, if any: in tables the simple regret; in the text, of figures, how
            much more it is than without privacy after T questions, in units of sigma_y.
    """

    log_epsilon: float
    columns: int
    branch: Taken | None
    number: float | None = None

    @property
    def epsilon(self) -> float:
        """Of the privacy that is asked for."""
        return math.exp(self.log_epsilon)


@dataclass(frozen=True)
class Exhibit:
    """One of Tables 1 to 12, simple regret by r at one epsilon; or a figure, against iteration.

    Attributes:
        data_set: its name.
        reported: what it says of the published method.
        name: in records and headings.
        table: its number; None for a figure, or what the paper does not have.
        metric: what is printed, `REGRET` or, for figures, `ABOVE`.
    """

    data_set: str
    reported: tuple[Reported, ...]
    name: str = "Not in the paper"
    table: int | None = None
    metric: str = REGRET

    def heading(self, data: DataSet) -> str:
        """Of the rows of the part."""
        single = f", epsilon {power(self.reported[0].epsilon)}" if self.metric == REGRET else ""
        return f"{self.name}: {data.title}{single}"

    @property
    def setting(self) -> dict[str, Any]:
        """What records say about the place of a row."""
        return {"table": self.table} if self.metric == REGRET else {"figure": self.name}


def power(epsilon: float) -> str:
    """Epsilon as the paper writes it: e^1.1."""
    return f"e^{math.log(epsilon):.3g}"


def _table(number: int, data_set: str, log_epsilon: float, most: int, *regrets: float) -> Exhibit:
    """Table `number`: `most` is the largest r for which the paper reports the branch "if"."""
    lists = {10: (3, 6, 8, 10, 15, 20), 15: (3, 9, 12, 15, 20, 30), 20: (5, 10, 15, 20, 30, 50)}
    reported = tuple(
        Reported(log_epsilon, r, "if" if r <= most else "else", regret)
        for r, regret in zip(lists[most], regrets, strict=True)
    )
    return Exhibit(data_set, reported, f"Table {number}", number)


def _figure(name: str, data_set: str, above: Mapping[float, float]) -> Exhibit:
    """Figure `name`, by the logarithm of epsilon: for the first the paper reports the branch "if",
    for all others "else", which its method takes as stated."""
    columns = SETTINGS[data_set].columns
    reported = tuple(
        Reported(log_epsilon, columns, None if place else "if", number)
        for place, (log_epsilon, number) in enumerate(above.items())
    )
    return Exhibit(data_set, reported, f"Figure {name}", metric=ABOVE)


# At length scale 5, where 50 questions can cover the domain, and at the paper's.
TABLES = (
    *(Exhibit(SYNTHETIC_5, (Reported(log_epsilon, 10, "if"),)) for log_epsilon in (1.1, 2.0, 3.0)),
    _table(1, SYNTHETIC, 1.1, 10, 0.073, 0.038, 0.018, 0.014, 0.118, 0.137),
    _table(2, SYNTHETIC, 1.3, 15, 0.091, 0.009, 0.019, 0.008, 0.127, 0.134),
    _table(3, SYNTHETIC, 1.5, 20, 0.05, 0.021, 0.003, 0.002, 0.094, 0.142),
    _table(4, LOANS, 2.7, 10, 0.083, 0.088, 0.078, 0.069, 0.081, 0.076),
    _table(5, LOANS, 2.9, 15, 0.091, 0.076, 0.078, 0.077, 0.1, 0.096),
    _table(6, LOANS, 3.1, 20, 0.097, 0.091, 0.069, 0.084, 0.104, 0.127),
    _table(7, PROPERTY, 2.6, 10, 0.682, 0.516, 0.495, 0.485, 0.485, 0.493),
    _table(8, PROPERTY, 2.8, 15, 0.567, 0.553, 0.479, 0.453, 0.493, 0.52),
    _table(9, PROPERTY, 3.0, 20, 0.591, 0.523, 0.486, 0.482, 0.489, 0.488),
    _table(10, BRANIN, 2.3, 10, 0.53, 0.184, 0.038, 0.0, 0.005, 0.024),
    _table(11, BRANIN, 2.5, 15, 0.259, 0.001, 0.0, 0.0, 0.014, 0.026),
    _table(12, BRANIN, 2.7, 20, 0.152, 0.0, 0.0, 0.0, 0.005, 0.073),
)
FIGURES = (
    Exhibit(
        SYNTHETIC_5,
        (Reported(3.0, 10, None), Reported(2.0, 10, None), Reported(1.1, 10, "if")),
        metric=ABOVE,
    ),
    _figure("2a", SYNTHETIC, {1.1: 0.011, 0.9: 0.069, 0.0: 0.099}),
    _figure("2b", LOANS, {2.9: 0.003, 2.0: 0.019, 1.0: 0.05}),
    _figure("2c", PROPERTY, {2.8: 0.051, 1.0: 0.017, 0.5: 0.082}),
    _figure("3", BRANIN, {2.3: 0.004, 2.0: 0.023, 1.8: 0.051}),
)


@dataclass(frozen=True)
class SearchEntry:
    """A row of a table, or a line of a figure.

    Attributes:
        part: the table or figure it belongs to.
        how: its data set is searched.
        paper: the number that the paper prints for it, if any.
    """

    part: Exhibit
    how: Method
    paper: float | None = None

    @property
    def method(self) -> str:
        """Its name."""
        return self.how.name

    @property
    def search(self) -> tuple[str, Method]:
        """Entries with equal searches have equal runs."""
        return self.part.data_set, self.how


def entries_of(part: Exhibit, data: DataSet) -> Iterator[SearchEntry]:
    """What is run for a table or figure: published, as stated and in the paper's branch; ours."""
    for line in part.reported:
        yield SearchEntry(part, Published(line.epsilon, line.columns), line.number)
    for line in part.reported:
        stated = Published(line.epsilon, line.columns).algorithm(data).taken(data.rows)
        if line.branch not in (None, stated):
            again = Published(line.epsilon, line.columns, line.branch)
            yield SearchEntry(part, again, line.number)
    for published_rule in (False, True):
        for epsilon in dict.fromkeys(line.epsilon for line in part.reported):
            yield SearchEntry(part, Ours(epsilon, published_rule))
    yield from (SearchEntry(part, reference) for reference in REFERENCES)


@dataclass(frozen=True, kw_only=True)
class Searches(Reproduction):
    """A reproduction that searches tables.

    Attributes:
        parts: the tables or figures.
    """

    parts: Sequence[Exhibit]
    trials: int = RUNS
    seed: int = SEED

    @property
    def options(self) -> Mapping[str, Any]:
        tables = ("table",) if any(part.table is not None for part in self.parts) else ()
        names = ("questions", *tables, "only", "method", *RUN_OPTIONS)
        return {"files": None, "runs": self.trials, **dict.fromkeys(names), "linear": False}

    def plan(
        self,
        data: Path | None = None,
        runs: int | None = None,
        rounds: int | None = None,
        table: Sequence[int] | None = None,
        only: Sequence[str] | None = None,
        method: Sequence[str] | None = None,
    ) -> PaperPlan:
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

    def chosen(self, only: Sequence[str], tables: Sequence[int]) -> list[Exhibit]:
        """The parts on the named data sets, and the tables of these numbers; all if none.

        Raises:
            InvalidInput: for a data set or table that there is not, or if nothing is left.
        """
        numbers = [part.table for part in self.parts if part.table is not None]
        names = {one_of(name, "the data set", SETTINGS) for name in only or SETTINGS}
        wanted = {one_of(number, "the table", numbers) for number in tables}
        parts = [
            part
            for part in self.parts
            if part.data_set in names and (not tables or part.table in wanted)
        ]
        if not parts:
            raise InvalidInput(
                f"no table is left of data sets {', '.join(only)} and tables "
                f"{', '.join(map(str, tables))}; leave one of the two out."
            )
        return parts

    def entries(
        self, parts: Sequence[Exhibit], data: Mapping[str, DataSet], methods: Sequence[str] = ()
    ) -> list[SearchEntry]:
        """What is run of some parts, by the named methods (all if none), on data that are there.

        Raises:
            InvalidInput: for a method that there is not.
        """
        there = [part for part in parts if part.data_set in data]
        return of_methods(
            [entry for part in there for entry in entries_of(part, data[part.data_set])], methods
        )


def plan_of(
    entries: Sequence[SearchEntry],
    data: Mapping[str, DataSet],
    runs: int,
    seed: int,
    rounds: int | None = None,
    notices: Sequence[str] = (),
) -> PaperPlan:
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
    return PaperPlan(
        search,
        settings,
        [f"{name}: {method.name}" for name, method in searches],
        whole_number(runs, "runs", minimum=1),
        seed,
        lambda done: results_of(entries, searches, data, frame_of(done)),
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
) -> PaperResults:
    """Simple regret in units of sigma_y and of the outcome, and how much more than non-private.

    Besides records, `ends` says in `panel` the table or figure, in `label` the method with the
    branch that it took, and what `data` is.

    Args:
        entries: in order; those without a finished run are left out.
        searches: what was run.
        data: the data sets by name.
        frame: the rows of `search`.
    """
    import pandas as pd

    numbers = dict.fromkeys(frame["case"])
    runs = {searches[number]: frame[frame["case"] == number] for number in numbers}
    finals = {key: rows.set_index("trial")["value"] for key, rows in runs.items()}
    records: list[Row] = []
    ends: list[Row] = []
    curves = []
    for number, entry in enumerate(entries):
        if entry.search not in runs:
            continue
        part, rows, final = entry.part, runs[entry.search], finals[entry.search]
        table = data[part.data_set]
        # Run by run, in the runs that both finished.
        measured = {REGRET: final, RAW_REGRET: table.deviation * final}
        free = finals.get((part.data_set, FREE))
        if free is not None and entry.how != FREE:
            measured[ABOVE] = (final - free).dropna()
        values = pd.concat(
            [pd.DataFrame({"metric": name, "value": each}) for name, each in measured.items()]
        )
        facts = _facts(entry, table, rows)
        # What tables print has no unit, so it stands beside both; all is for the paper's T.
        printed = (REGRET, RAW_REGRET) if part.metric == REGRET else (ABOVE,)
        whole = facts["rounds"] == table.setting.rounds
        more: Row = {"case": number, "panel": part.heading(table), "label": entry.how.label(table)}
        for row in means(values, ["metric"]).to_dict("records"):
            paper = entry.paper if whole and row["metric"] in printed else None
            record = record_of(facts, entry.method, row, paper)
            records.append(record)
            ends.append({**more, "data": table, "half_width": row["half_width"], **record})
        epsilon = math.nan if entry.how.epsilon is None else entry.how.epsilon
        more |= {"method": entry.method, "epsilon": epsilon}
        curves.append(mean_traces(rows, ["metric"]).assign(**more))
    drawn = pd.concat(curves, ignore_index=True)
    return PaperResults(records, pd.DataFrame(ends).astype({"paper": float}), drawn, frame)


def _facts(entry: SearchEntry, data: DataSet, rows: pd.DataFrame) -> Row:
    """The setting of an entry, as records say it."""
    epsilon, guarantee = entry.how.epsilon, entry.how.guarantee(data)
    return {
        **entry.part.setting,
        "dataset": data.name,
        "rounds": len(rows["trace"].iloc[0]),
        "sigma_y": data.deviation,
        "epsilon": epsilon,
        "delta": None if epsilon is None else data.setting.delta,
        "trust_model": "none" if guarantee is None else guarantee.trust_model,
        "true_epsilon": None if guarantee is None else guarantee.epsilon,
        **dict.fromkeys(("r", "branch", "radius", "noise_scale")),
        **entry.how.facts(data),
        "seconds": round(float(rows["seconds"].mean()), 4),
    }


_NOTE = (
    "Published has no guarantee: its release tells neighbouring tables apart with certainty "
    '(po-gp-ucb-attack). "paper\'s branch": the branch of Algorithm 1 that the paper reports, '
    "where its own rule takes the other. Ours holds the epsilon shown, for a row that moves by at "
    "most 1 where the largest norm is 25; it chooses rows by its own rule or by GP-UCB as "
    "published. Hyperparameters, scaling and the box are taken as public."
)

PO_GP_UCB_TABLES = Searches(
    name="po-gp-ucb-tables",
    title="Kharkovskii et al. (2020), Tables 1 to 12: simple regret by the columns of the release",
    parts=TABLES,
    note=(
        f"{_NOTE} The paper prints S_T without a unit; sigma_y is the standard deviation of the "
        "Gaussian process. Ours does not depend on r. Length scale 5 is not in the paper."
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
