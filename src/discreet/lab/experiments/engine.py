"""Trials of settings, run in parallel, as a tidy frame.

    rows = trial(seed, **setting)

A setting is a point of a grid, given to the trial as keywords; a trial is one repetition of it.
Trial r draws everything from the experiment's seed and r alone, so all settings of a trial meet the
same people, and results depend neither on the number of processes nor on the other settings.

Processes of this machine do the work, or Dask, Ray or Spark (`discreet.parallel`).

| column of a frame | meaning                                                  |
|-------------------|----------------------------------------------------------|
| case              | number of the setting, from 0                            |
| trial             | number of the trial, from 0                              |
| ...               | what the setting's facts and the rows of the trial hold  |
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import joblib
import numpy as np

from discreet.parallel import in_parallel
from discreet.validation import whole_number

if TYPE_CHECKING:
    import pandas as pd

Result = TypeVar("Result")
Row = dict[str, Any]
Point = Mapping[str, Any]
# Whether all trials of a setting start before those of the next setting, or all settings of a
# trial before those of the next trial.
Order = Literal["setting by setting", "trial by trial"]


@dataclass(frozen=True)
class Seed:
    """The seed of one trial.

    Attributes:
        base: of the experiment.
        trial: number of the trial, from 0.
    """

    base: int
    trial: int

    def streams(self, count: int) -> list[np.random.SeedSequence]:
        """Independent streams; the first ones do not depend on their number."""
        return np.random.SeedSequence([self.base, self.trial]).spawn(count)


@dataclass(frozen=True, eq=False)
class Done(Generic[Result]):
    """The result of one trial of one setting.

    Attributes:
        case: number of the setting.
        trial: number of the trial.
        result: as the trial returned it; rows for `frame_of`.
    """

    case: int
    trial: int
    result: Result


def grid(**axes: Iterable[Any]) -> list[Row]:
    """Every combination of the axes' values, those of the last axis changing fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def run_trials(
    trial: Callable[..., Result],
    settings: Sequence[Point],
    trials: int,
    seed: int,
    jobs: int = 1,
    order: Order = "trial by trial",
    done: Collection[tuple[int, int]] = (),
) -> Iterator[Done[Result]]:
    """Every trial of every setting, in the order in which they finish.

    Args:
        trial: called as `trial(seed, **setting)`; it must be importable by other processes.
        settings: in the order in which they run.
        trials: repetitions of each setting.
        seed: of the experiment.
        jobs: processes.
        order: the order in which trials start.
        done: (setting's number, trial's number) of trials that were run before, and are left out.

    Raises:
        InvalidInput: before anything runs, for numbers that are not allowed.
    """
    count = whole_number(trials, "trials", minimum=1)
    base = whole_number(seed, "seed")
    pairs: Iterable[tuple[int, int]] = itertools.product(range(len(settings)), range(count))
    if order == "trial by trial":
        pairs = sorted(pairs, key=lambda pair: pair[::-1])
    skipped = set(done)
    return in_parallel(
        (
            joblib.delayed(_one_trial)(trial, case, Seed(base, number), settings[case])
            for case, number in pairs
            if (case, number) not in skipped
        ),
        whole_number(jobs, "jobs", minimum=1),
    )


def _one_trial(trial: Callable[..., Result], case: int, seed: Seed, setting: Point) -> Done[Result]:
    return Done(case, seed.trial, trial(seed, **setting))


def frame_of(done: Iterable[Done[Sequence[Row]]], facts: Sequence[Point] = ()) -> pd.DataFrame:
    """All rows of finished trials, in the order of the settings and their trials.

    Args:
        done: the results of `run_trials`, in any order.
        facts: columns of each setting's rows, by the setting's number; () for none.
    """
    import pandas as pd  # takes half a second

    rows = [
        {"case": each.case, "trial": each.trial, **(facts[each.case] if facts else {}), **row}
        for each in sorted(done, key=lambda each: (each.case, each.trial))
        for row in each.result
    ]
    return pd.DataFrame(rows)
