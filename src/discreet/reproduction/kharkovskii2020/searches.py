"""Runs searches: the same function and the same first row for every method of a run.

Run number k draws from the reproduction's seed and k alone, so the result does not depend on how
many processes shared the work, nor on which other methods run.

| array  | shape | meaning                                                       |
|--------|-------|---------------------------------------------------------------|
| asked  | (T,)  | rows in the order in which they were asked for                |
| regret | (T,)  | simple regret after 1, .., T questions, in units of sigma_y   |
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import joblib
import numpy as np

from discreet.intervals import mean_and_band, mean_and_error
from discreet.privacy import Guarantee
from discreet.records import ReproductionRecord, Value
from discreet.reproduction.kharkovskii2020.data_sets import DataSet
from discreet.reproduction.kharkovskii2020.methods import Method, NonPrivate, Task
from discreet.reproduction.repeats import carried_out
from discreet.validation import FloatArray, InvalidInput, whole_number

REGRET = "simple regret"
RAW_REGRET = "simple regret in the unit of the outcome"
ABOVE = "simple regret above non-private"


@dataclass(frozen=True)
class Search:
    """One method on one data set; equal searches are run once.

    Attributes:
        data_set: its name.
        method: how it is searched.
        rounds: questions, the first row included.
    """

    data_set: str
    method: Method
    rounds: int


@dataclass(frozen=True, eq=False)
class Run:
    """One search in one run.

    Attributes:
        search: what ran.
        number: of the run, from 0.
        regret: (T,) simple regret in units of sigma_y.
        seconds: of the release and the search.
    """

    search: Search
    number: int
    regret: FloatArray
    seconds: float


def run_all(
    searches: Sequence[Search],
    data: Mapping[str, DataSet],
    runs: int,
    seed: int,
    jobs: int = 1,
) -> Iterator[Run]:
    """Every search in every run, each different search once, in the order in which they finish.

    Raises:
        InvalidInput: before anything runs, for numbers that are not allowed, or more questions than
            a data set has rows.
    """
    whole_number(runs, "runs", minimum=1)
    whole_number(jobs, "jobs", minimum=1)
    for search in searches:
        rows = len(data[search.data_set].rows)
        if search.rounds > rows:
            raise InvalidInput(
                f"rounds was {search.rounds}, but {search.data_set} has {rows} rows; ask for fewer."
            )
    different = list(dict.fromkeys(searches))
    tasks = (
        joblib.delayed(run_search)(search, data[search.data_set], seed, number)
        for number in range(runs)
        for search in different
    )
    return carried_out(tasks, jobs)


def run_search(search: Search, data: DataSet, seed: int, number: int) -> Run:
    """Run `number` of a search; the same arguments give the same result anywhere."""
    function, initial, release, choice = np.random.SeedSequence([seed, number]).spawn(4)
    outcomes = data.draw(np.random.default_rng(function))
    first = int(np.random.default_rng(initial).integers(len(data.rows)))
    started = time.perf_counter()
    asked = search.method.search(Task(data, outcomes, first, search.rounds, release, choice))
    seconds = time.perf_counter() - started
    return Run(search, number, outcomes.simple_regret(asked), seconds)


@dataclass(frozen=True)
class Entry:
    """A row of a table, or a line of a figure.

    Attributes:
        group: the table or figure it belongs to.
        search: what is run for it.
        paper: the number that the paper prints for it, if any.
        metric: what that number is, `REGRET` or `ABOVE`.
        setting: what records say about its place.
    """

    group: str
    search: Search
    paper: float | None = None
    metric: str = REGRET
    setting: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Line:
    """An entry over its finished runs.

    Attributes:
        entry: what ran.
        data: the data set.
        runs: at least one, in order.
        reference: the runs of the search without privacy, in order; may be empty.
    """

    entry: Entry
    data: DataSet
    runs: tuple[Run, ...]
    reference: tuple[Run, ...] = ()

    @property
    def method(self) -> Method:
        """How the data set was searched."""
        return self.entry.search.method

    @property
    def seconds(self) -> float:
        """Of a search, on average."""
        return math.fsum(run.seconds for run in self.runs) / len(self.runs)

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What the release promises; None for references."""
        return self.method.guarantee(self.data)

    @property
    def true_epsilon(self) -> float | None:
        """The epsilon held at the data set's delta: infinite for none, None for references."""
        return None if self.guarantee is None else self.guarantee.epsilon

    @cached_property
    def final(self) -> FloatArray:
        """(runs,) simple regret after all questions."""
        return np.array([run.regret[-1] for run in self.runs])

    @cached_property
    def above(self) -> FloatArray:
        """(m,) how much more that is than without privacy, in the runs that both finished."""
        free = {run.number: run.regret[-1] for run in self.reference}
        return np.array(
            [run.regret[-1] - free[run.number] for run in self.runs if run.number in free]
        )

    @cached_property
    def facts(self) -> dict[str, Value]:
        """The setting, as records say it."""
        epsilon, held = self.method.epsilon, self.true_epsilon
        return {
            **self.entry.setting,
            "dataset": self.data.name,
            "rounds": self.entry.search.rounds,
            "sigma_y": self.data.deviation,
            "epsilon": epsilon,
            "delta": None if epsilon is None else self.data.setting.delta,
            "trust_model": "none" if self.guarantee is None else self.guarantee.trust_model,
            "true_epsilon": held if held is not None and math.isfinite(held) else None,
            **dict.fromkeys(("r", "branch", "radius", "noise_scale")),
            **self.method.facts(self.data),
            "seconds": round(self.seconds, 4),
        }

    @cached_property
    def records(self) -> tuple[ReproductionRecord, ...]:
        """Simple regret in units of sigma_y, in the unit of the outcome, and above non-private."""
        found = {REGRET: self.final, RAW_REGRET: self.data.deviation * self.final}
        if len(self.above):
            found[ABOVE] = self.above
        return tuple(self._record(metric, values) for metric, values in found.items())

    def _record(self, metric: str, values: FloatArray) -> ReproductionRecord:
        mean, error = mean_and_error(values)
        # What tables print has no unit, so it stands beside both.
        printed = metric == self.entry.metric or (metric, self.entry.metric) == (RAW_REGRET, REGRET)
        return ReproductionRecord(
            method=self.method.name,
            metric=metric,
            mean=mean,
            standard_error=error,
            trials=len(values),
            paper=self.entry.paper if printed else None,
            setting=self.facts,
        )

    def band(self) -> tuple[FloatArray, FloatArray]:
        """(T,) mean of the simple regret and the half width of its interval."""
        return mean_and_band(np.stack([run.regret for run in self.runs]))


def lines_of(
    entries: Sequence[Entry], data: Mapping[str, DataSet], runs: Sequence[Run]
) -> list[Line]:
    """Entries with their finished runs, in order; entries without any are left out."""
    found: dict[Search, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.number):
        found.setdefault(run.search, []).append(run)
    made = []
    for entry in entries:
        search = entry.search
        free = Search(search.data_set, NonPrivate(), search.rounds)
        mine = found.get(search, [])
        if mine:
            reference = () if search == free else tuple(found.get(free, ()))
            made.append(Line(entry, data[search.data_set], tuple(mine), reference))
    return made
