"""Tables 1 to 12 and Figures 2 and 3 of Kharkovskii et al. (2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from discreet.reproduction.kharkovskii2020.data_sets import DataSet
from discreet.reproduction.kharkovskii2020.methods import (
    Method,
    NonPrivate,
    Ours,
    Published,
    Random,
    power,
)
from discreet.reproduction.kharkovskii2020.searches import (
    ABOVE,
    REGRET,
    Entry,
    Line,
    Run,
    Search,
    lines_of,
    run_all,
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
from discreet.validation import InvalidInput, whole_number

Part = PaperTable | PaperFigure

REFERENCES: tuple[Method, ...] = (NonPrivate(), NonPrivate(published_rule=False), Random())


@dataclass(frozen=True)
class Wish:
    """Which part of a reproduction is asked for; empty for all of it.

    Attributes:
        data_sets: names.
        tables: numbers of the paper.
        methods: names.
        rounds: questions, in place of the paper's number.
    """

    data_sets: Sequence[str] = ()
    tables: Sequence[int] = ()
    methods: Sequence[str] = ()
    rounds: int | None = None

    def questions(self, data_set: str) -> int:
        """Of one search."""
        return SETTINGS[data_set].rounds if self.rounds is None else self.rounds


@dataclass(frozen=True)
class Searches:
    """A reproduction that searches tables.

    Attributes:
        name: how the command line calls it.
        title: what it shows, and where it comes from.
        parts: the tables or figures.
        note: what the numbers do and do not say.
        figure: whether its figure shows regret by the columns of the release, or over questions.
        trials: how many runs the paper has.
        seed: base of the runs' seeds.
    """

    name: str
    title: str
    parts: Sequence[Part]
    note: str
    figure: Literal["columns", "questions"]
    trials: int = RUNS
    seed: int = SEED

    @property
    def sizes(self) -> tuple[int, ...]:
        """The paper's numbers of questions."""
        return tuple(sorted({SETTINGS[part.data_set].rounds for part in self.parts}))

    def needed(self, wish: Wish) -> list[str]:
        """The names of the data sets that are needed, in order.

        Raises:
            InvalidInput: for a data set or table that there is not, or none at all.
        """
        _check_known(wish.data_sets, DATA_SETS, "data set")
        numbers = [part.number for part in self.parts if isinstance(part, PaperTable)]
        _check_known(wish.tables, [one for one in numbers if one is not None], "table")
        if wish.rounds is not None:
            whole_number(wish.rounds, "rounds", minimum=1)
        names = [part.data_set for part in self._parts(wish)]
        if not names:
            raise InvalidInput(
                f"no table is left of data sets {', '.join(wish.data_sets)} and tables "
                f"{', '.join(map(str, wish.tables))}; leave one of the two out."
            )
        return list(dict.fromkeys(names))

    def plan(self, wish: Wish, data: Mapping[str, DataSet]) -> list[Entry]:
        """What is run on the data sets that are there.

        Raises:
            InvalidInput: for a method that there is not.
        """
        entries: list[Entry] = []
        for part in self._parts(wish):
            if part.data_set in data:
                rounds = wish.questions(part.data_set)
                entries += entries_of(part, data[part.data_set], rounds)
        names = list(dict.fromkeys(entry.search.method.name for entry in entries))
        _check_known(wish.methods, names, "method")
        return [
            # What was printed holds for the paper's number of questions only.
            entry if rounds_of(entry) == entry.search.rounds else replace(entry, paper=None)
            for entry in entries
            if not wish.methods or entry.search.method.name in wish.methods
        ]

    def run(
        self, entries: Sequence[Entry], data: Mapping[str, DataSet], runs: int, jobs: int = 1
    ) -> Iterator[Run]:
        """Every search of a plan in every run, in the order in which they finish."""
        return run_all([entry.search for entry in entries], data, runs, self.seed, jobs)

    def lines(
        self, wish: Wish, data: Mapping[str, DataSet], runs: int | None = None, jobs: int = 1
    ) -> list[Line]:
        """Run everything and return it in the order of the plan."""
        entries = self.plan(wish, data)
        number = self.trials if runs is None else runs
        return lines_of(entries, data, list(self.run(entries, data, number, jobs)))

    def _parts(self, wish: Wish) -> list[Part]:
        return [
            part
            for part in self.parts
            if (not wish.data_sets or part.data_set in wish.data_sets)
            and (not wish.tables or (isinstance(part, PaperTable) and part.number in wish.tables))
        ]


def rounds_of(entry: Entry) -> int:
    """The paper's number of questions for an entry."""
    return SETTINGS[entry.search.data_set].rounds


def searches_in(entries: Sequence[Entry]) -> int:
    """How many different searches a plan has."""
    return len({entry.search for entry in entries})


def entries_of(part: Part, data: DataSet, rounds: int) -> Iterator[Entry]:
    """What is run for a table or figure."""
    if isinstance(part, PaperTable):
        return _table_entries(part, data, rounds)
    return _figure_entries(part, data, rounds)


def _table_entries(part: PaperTable, data: DataSet, rounds: int) -> Iterator[Entry]:
    """Published at every r, in its own branch and in the paper's; ours; references."""
    group = f"{part.name}: {data.title}, epsilon {power(part.epsilon)}"
    setting = {"table": part.number}

    def entry(method: Method, columns: int | None = None) -> Entry:
        paper = None if columns is None else part.printed(columns)
        return Entry(group, Search(part.data_set, method, rounds), paper, REGRET, setting)

    for columns in part.regrets:
        yield entry(Published(part.epsilon, columns), columns)
    for columns in part.regrets:
        papers: Taken = "if" if columns <= part.most_columns else "else"
        if _taken(part.epsilon, columns, data) != papers:
            yield entry(Published(part.epsilon, columns, papers), columns)
    for published_rule in (False, True):
        yield entry(Ours(part.epsilon, published_rule))
    for method in REFERENCES:
        yield entry(method)


def _figure_entries(part: PaperFigure, data: DataSet, rounds: int) -> Iterator[Entry]:
    """Published and ours at every epsilon of the text; references."""
    group, columns = f"{part.name}: {data.title}", data.setting.columns
    setting = {"figure": part.name}

    def entry(method: Method, paper: float | None = None) -> Entry:
        return Entry(group, Search(part.data_set, method, rounds), paper, ABOVE, setting)

    for log_epsilon, epsilon in part.epsilons.items():
        yield entry(Published(epsilon, columns), part.printed(log_epsilon))
    for log_epsilon, epsilon in part.epsilons.items():
        papers: Taken = "if" if log_epsilon == part.projected_at else "else"
        if papers == "if" and _taken(epsilon, columns, data) == "else":
            yield entry(Published(epsilon, columns, papers), part.printed(log_epsilon))
    for published_rule in (False, True):
        for epsilon in part.epsilons.values():
            yield entry(Ours(epsilon, published_rule))
    for method in REFERENCES:
        yield entry(method)


def _taken(epsilon: float, columns: int, data: DataSet) -> Taken:
    return Published(epsilon, columns, AS_STATED).algorithm(data).taken(data.rows)


def _check_known(asked: Sequence[object], known: Sequence[object], what: str) -> None:
    unknown = [one for one in asked if one not in known]
    if unknown:
        raise InvalidInput(
            f"the {what} was {unknown[0]!r}; it must be one of {', '.join(map(repr, known))}."
        )


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
    figure="columns",
)

PO_GP_UCB_FIGURES = Searches(
    name="po-gp-ucb-figures",
    title="Kharkovskii et al. (2020), Figures 2 and 3: simple regret over questions",
    parts=FIGURES,
    note=(
        f"{_NOTE} Paper: by how much, according to its text, the simple regret of the published "
        "method exceeds that of GP-UCB without privacy, in units of sigma_y."
    ),
    figure="questions",
)

SEARCHES = (PO_GP_UCB_TABLES, PO_GP_UCB_FIGURES)
