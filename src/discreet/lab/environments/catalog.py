"""The named problems that `discreet run` and `discreet data list|show` know.

A new named problem is one function, or class, under `@named(...)`: its parameters with their types
and defaults are the options that a TOML file can set, and what `@named` says of each is what
`discreet data show NAME` prints. `load_problem` checks options against them and then calls it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, create_model

from discreet.lab.environments.base import Problem
from discreet.lab.environments.classification import (
    ClassLabels,
    classification_from_table,
)
from discreet.lab.environments.decision_sets import (
    BumpProblem,
    DoseProblem,
    LinearSetProblem,
    RandomSetProblem,
)
from discreet.lab.environments.frames import Files
from discreet.lab.environments.functions import (
    BENCHMARK,
    NOISES,
    camelback,
    michalewicz,
    styblinski_tang,
)
from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.lab.environments.log_problem import problem_of_log
from discreet.lab.environments.movies import MOVIE_COLUMNS, MOVIE_SOURCE, MovieProblem
from discreet.lab.environments.real_data import (
    ADULT_CLASSES,
    ADULT_COLUMNS,
    EARNINGS_COLUMNS,
    EARNINGS_SOURCE,
    LOAN_COLUMNS,
    LOAN_SOURCE,
    QUOTE_NAMES,
    adult_files,
    download_adult,
    loan_quotes,
    read_adult,
    read_packaged,
)
from discreet.lab.environments.synthetic import LAWS, exponential, symmetric
from discreet.lab.environments.user_tables import problem_of_sets, problem_of_table
from discreet.people.columns import Column, Number
from discreet.toml_files import Place, Positive, Two, checked
from discreet.validation import InvalidInput, Refusals, one_of

_MANY_ARMS = 12  # more than this many are not listed one by one


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
        build: the problem for its options, given by name, and for `files` if it takes them.
        meanings: what each option means.
    """

    name: str
    description: str
    source: str
    people: int | None
    columns: tuple[Column, ...]
    arms: tuple[str, ...]
    build: Callable[..., Problem]
    meanings: Mapping[str, str]

    @cached_property
    def options(self) -> type[BaseModel]:
        """The pydantic model of the options: the parameters of `build`."""
        fields: dict[str, Any] = {}
        for name, option in inspect.signature(self.build, eval_str=True).parameters.items():
            if name != "files":
                default = ... if option.default is option.empty else option.default
                fields[name] = option.annotation, Field(default, description=self.meanings[name])
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

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


def _short(value: object) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else text[:77] + "..."


_ENTRIES: dict[str, Entry] = {}
Build = TypeVar("Build", bound=Callable[..., Problem])


def entries() -> tuple[Entry, ...]:
    """All named problems in the order in which they are listed."""
    return tuple(_ENTRIES.values())


def find_entry(name: str) -> Entry:
    """The entry called `name`; `InvalidInput` listing those which exist."""
    return _ENTRIES[one_of(name, "the problem", _ENTRIES)]


def load_problem(
    name: str,
    options: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None,
    base: str | Path = ".",
    place: Place | None = None,
    tables: Mapping[str, pd.DataFrame] | None = None,
) -> Problem:
    """Build a named problem.

    Args:
        name: the name of an entry.
        options: the options of that entry as TOML or JSON values.
        data_dir: a folder with downloaded data (`--data DIR`), for entries that read one.
        base: the folder to which relative paths in the options refer.
        place: where the options stand in a file, for messages.
        tables: data frames by the path that names them in the options, in place of files.

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
    folder = None if data_dir is None else Path(data_dir)
    files, given, refusals = (
        Files(folder, Path(base), where, tables or {}),
        dict(options or {}),
        Refusals(),
    )
    with refusals.collected():
        settings = dict(checked(entry.options, given, where))
    if refusals and "path" in entry.options.model_fields:
        with refusals.collected():
            files.check_columns(given)
    refusals.raise_if_any()
    if "files" in inspect.signature(entry.build).parameters:
        settings["files"] = files
    with where.at():
        return entry.build(**settings)


def named(
    name: str,
    description: str,
    source: str,
    people: int | None = None,
    columns: tuple[Column, ...] | None = None,
    arms: tuple[str, ...] = (),
    /,
    **meanings: str,
) -> Callable[[Build], Build]:
    """Enter a function or class as a named problem, with what each of its options means.

    Columns and arms are those of the problem under its default options where they are left out.
    """

    def enter(build: Build) -> Build:
        own, names = columns, arms
        if own is None:
            usual = build()
            own, names = usual.domain.columns, usual.arm_names
        _ENTRIES[name] = Entry(name, description, source, people, own, names, build, meanings)
        return build

    return enter


_CONTEXTS = f'"uniform", {LAWS}'

named(
    "exponential",
    "smooth mean rewards, each arm best in one strip of the first column",
    "Synthetic: Ma et al. (2025), section 4.1.",
    arms="number of arms",
    dimension="number of context columns",
    centres="arm k peaks at k/K (paper) or k/(K+1) (program)",
    contexts=_CONTEXTS,
)(exponential)
named(
    "symmetric",
    "two arms, each best in two opposite quarters of the square",
    "Synthetic: Ma et al. (2025), S.4.3.",
    contexts=_CONTEXTS,
)(symmetric)


@named(
    "earnings",
    "guess the earnings bracket from age, years of education and gender",
    EARNINGS_SOURCE,
    61_395,
    EARNINGS_COLUMNS,
    ("under 13", "13 to 20", "20 or more"),
    thresholds="dollars an hour at which earnings are cut",
)
def _earnings(thresholds: tuple[Number, ...] = (13.0, 20.0)) -> Problem:
    label = ClassLabels("earnings", thresholds=thresholds)
    frame = read_packaged("earnings", "AER", "CPSSW8")
    return classification_from_table(frame, EARNINGS_COLUMNS, label, EARNINGS_SOURCE)


@named(
    "adult",
    "guess the income class from age, years of education and weekly hours",
    "UCI ADULT: adult.data and adult.test in --data DIR, otherwise openml.org.",
    48_842,
    ADULT_COLUMNS,
    ADULT_CLASSES,
)
def _adult(*, files: Files) -> Problem:
    own = [] if files.data_dir is None else adult_files(files.data_dir)
    frame, origin = read_adult(own) if own else download_adult()
    label = ClassLabels("class", ADULT_CLASSES)
    problem = classification_from_table(frame, ADULT_COLUMNS, label, f"UCI ADULT from {origin}.")
    problem.files = tuple(own)
    return problem


named(
    "table",
    "any CSV or Parquet file, with labels or with one reward column for each arm",
    "The file named by the option path.",
    None,
    (),
    path="a .csv, .csv.gz or .parquet file",
    columns="context columns: {name, lower, upper, levels?, outside?, missing?} or "
    "{name, values, outside?, missing?}",
    label="{column, classes, outside?, missing?} or {column, thresholds, missing?}; classes are "
    "arms",
    rewards="instead of label: {columns, lower, upper, outside?, missing?}, one column for each "
    "arm",
    person="the column that says whose row it is, as [people] id does, if people come more than "
    "once",
    radius="the largest Euclidean length of a row, where all columns go from -radius to radius",
)(problem_of_table)


named(
    "log",
    "logged decisions: what was done with whom, what followed, and how likely it was",
    "The file named by the option path.",
    None,
    (),
    path="a .csv, .csv.gz or .parquet file with one row for each decision",
    columns="context columns, as in 'table'",
    action="{column, names, outside?, missing?}: what was done; names are arms",
    reward="{column, lower, upper, outside?, missing?}: what followed",
    propensity="the probability of what was done: {column}, {value} where it was always the same, "
    "or {estimated = true}",
    replay='"rejection" or "model" (docs/logs.md); by the size of the log if left out',
    estimator='of what learners earn by a model: "ipw", "snipw" or "dr", which is the default',
    person="the column that says whose row it is, as [people] id does, if people come more than "
    "once",
    radius="as in 'table'",
)(problem_of_log)


named(
    "decision_sets",
    "any table in which every visit has candidates of its own, one row for each",
    "The files named by the options path and candidates_path.",
    None,
    (),
    path="a .csv, .csv.gz or .parquet file with one row for each candidate of each visit",
    visit="its column that says to which visit a row belongs",
    columns="columns of a candidate: {name, lower, upper, levels?, outside?, missing?} or {name, "
    "values, outside?, missing?}; a rule that leaves a row out leaves its visit out",
    reward="what a candidate gives its person: {name, lower, upper, outside?, missing?}",
    most="the largest number of candidates of a visit, a public fact",
    candidate="the column that names the candidate; no visit has a candidate twice",
    candidates_path="a second file with one row for each candidate, whose columns all share",
    person="the column that says who comes, as [people] id does, if people come more than once",
)(problem_of_sets)


named(
    "kernel_grid",
    "60 ordered arms, mean rewards smooth in context and arm, new in each replicate",
    KernelGridProblem.source,
    contexts="values of a context, equally spaced on [0, 1]",
    arms="arms, equally spaced points on [0, 1]",
    smoothness="the kernel: squared_exponential or matern52",
    length_scale="of the kernel, over [0, 1] x [0, 1]",
    bound="the largest mean reward, in absolute value",
    noise="rewards have uniform noise on [-noise, noise]",
    context_weights='how likely each context is: "uniform" or {beta = [a, b]}',
)(KernelGridProblem)


@named(
    "loan_quotes",
    "name the interest rate of a loan from card limit, debts and term",
    LOAN_SOURCE,
    9_976,
    LOAN_COLUMNS,
    QUOTE_NAMES,
    tolerance="percentage points from which on a quote is worth nothing",
)
def _loan_quotes(tolerance: Positive = 5.0) -> Problem:
    frame = read_packaged("loan_quotes", "openintro", "loans_full_schema")
    return loan_quotes(frame, tolerance)


named(
    "bumps",
    "everyone brings 25 points of which one is good; f is new in each replicate",
    BumpProblem.source,
    candidates="points that each person brings",
)(BumpProblem)
named(
    "dose",
    "find each patient's best dose among those feasible for them (invented)",
    DoseProblem.source,
    candidates="feasible doses of each patient",
)(DoseProblem)


@named(
    "movies",
    "propose one of ten films from what a person liked before; real ratings",
    MOVIE_SOURCE,
    None,
    MOVIE_COLUMNS,
    candidates="films of a visit",
)
def _movies(candidates: Two = 10) -> Problem:
    return MovieProblem(read_packaged("movies", "dslabs", "movielens"), candidates)


named(
    "linear_set",
    "the same 100 points for everyone, rewards are linear; new in each replicate",
    LinearSetProblem.source,
    candidates="points of the set",
    dimension="columns of a point",
    public="whether the points are public; otherwise everyone brings them",
)(LinearSetProblem)
named(
    "random_sets",
    "everyone brings 10 random points of the unit sphere; a generalised linear model",
    RandomSetProblem.source,
    candidates="points that each person brings",
    dimension="columns of a point",
    link="linear (rewards have no noise) or logistic (Bernoulli)",
    length="of the vector of coefficients",
    inside="whether points fill the unit ball",
)(RandomSetProblem)

_OFFERED = {
    "noise": f"the noise of a reward: {NOISES}",
    "grid": "offer a public grid with this many values on each axis (1 or 2 columns); None offers "
    "the whole box",
}
_DIMENSION = "number of columns of a point"

named(
    "camelback",
    "a function of 2 columns with six humps, the same points for everyone",
    BENCHMARK,
    **_OFFERED,
)(camelback)
named(
    "styblinski_tang",
    "a function of 20 columns, each with two valleys",
    BENCHMARK,
    **_OFFERED,
    dimension=_DIMENSION,
)(styblinski_tang)
named(
    "michalewicz",
    "a function of 10 columns that is flat but for steep valleys",
    BENCHMARK,
    **_OFFERED,
    dimension=_DIMENSION,
    steepness="how narrow the valleys are",
)(michalewicz)
