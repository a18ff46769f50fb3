"""The tables of Table 2 as a target and its sources, after a public preprocessing.

The paper reduces each table to d = 3 and splits it as its supplement says, which is not printed.
Here three columns are chosen and bounded beforehand, from what is known of such columns and not
from the table, so nothing is paid for; values beyond a bound are moved to it.

| name  | columns and bounds                              | target         | sources            |
|-------|-------------------------------------------------|----------------|--------------------|
| adult | age 17-90, education 1-16, weekly hours 1-99    | born in the US | 7 regions of birth |
| jobs  | years coding 0-50, in a job 0-50, skills 0-40   | under 35       | 35 and older       |
| taxi  | miles 0-20, minutes 0-60, hour of pickup 0-23   | Monday-Friday  | weekend            |

ADULT is the original: complete rows of people born in the US are 41,292, which is the paper's n_P,
and the other complete rows are 3,930, which is its largest n_Qm. JOBS and TAXI are stand-ins with
other rows than the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from discreet.lab.environments.base import Population
from discreet.lab.environments.synthetic import auxiliary_from_table
from discreet.lab.environments.tables import (
    ClassificationProblem,
    ClassLabels,
    classification_from_table,
)
from discreet.lab.experiments import Source
from discreet.people.columns import Column
from discreet.people.tables import read_csv, read_table
from discreet.validation import FloatArray, InvalidInput

ADULT, JOBS, TAXI = "adult", "jobs stand-in", "taxi stand-in"
DATA_SETS = (ADULT, JOBS, TAXI)

AT_QUARTER, AT_END = "mean reward at n/4", "mean reward"

_REGIONS: Mapping[str, tuple[str, ...]] = {
    "Mexico": ("Mexico",),
    "Central America and Caribbean": (
        "Cuba", "Dominican-Republic", "El-Salvador", "Guatemala", "Haiti", "Honduras", "Jamaica",
        "Nicaragua", "Outlying-US(Guam-USVI-etc)", "Puerto-Rico", "Trinadad&Tobago",
    ),
    "South America": ("Columbia", "Ecuador", "Peru"),
    "Canada and British Isles": ("Canada", "England", "Ireland", "Scotland"),
    "continental Europe": (
        "France", "Germany", "Greece", "Holand-Netherlands", "Hungary", "Italy", "Poland",
        "Portugal", "Yugoslavia",
    ),
    "East Asia": (
        "Cambodia", "China", "Hong", "Japan", "Laos", "Philippines", "South", "Taiwan", "Thailand",
        "Vietnam",
    ),
    "South and West Asia": ("India", "Iran"),
}  # fmt: skip
_ADULT_FIELDS = {
    "age": 0,
    "workclass": 1,
    "education-num": 4,
    "occupation": 6,
    "hours-per-week": 12,
    "native-country": 13,
    "class": 14,
}


class Target(ClassificationProblem):
    """A table whose mean reward counts over all people and over the first quarter of them."""

    def metrics(self, people: Population, values: FloatArray) -> dict[str, FloatArray]:
        """Contributions (n,) to the mean reward of all, and of the first quarter."""
        count, quarter = len(values), max(len(values) // 4, 1)
        early = np.where(np.arange(count) < quarter, values / quarter, 0.0)
        return {AT_END: values / count, AT_QUARTER: early}


@dataclass(frozen=True, eq=False)
class Split:
    """A data set of Table 2.

    Attributes:
        name: as in `DATA_SETS`.
        target: the people who are served.
        sources: tables of the sources by name, in the order in which they report.
    """

    name: str
    target: Target
    sources: Mapping[str, ClassificationProblem]


@dataclass(frozen=True, eq=False)
class TableSources:
    """Draws what the sources of a split report: rows in a random order, arms at random.

    Attributes:
        tables: by name.
        epsilon: epsilon_m, the same for all.
    """

    tables: Mapping[str, ClassificationProblem]
    epsilon: float

    def __call__(self, rng: np.random.Generator) -> list[Source]:
        streams = rng.spawn(len(self.tables))
        return [
            Source(name, self.epsilon, auxiliary_from_table(table, own))
            for (name, table), own in zip(self.tables.items(), streams, strict=True)
        ]


# The rows of the target, and those of each source by its name.
Rows = tuple[pd.DataFrame, Mapping[str, pd.DataFrame]]


def _adult(folder: Path) -> Rows:
    stems = ("adult.data", "adult.test")
    frame = pd.concat([_adult_file(folder / "adult", stem) for stem in stems], ignore_index=True)
    complete = ~frame[["workclass", "occupation", "native-country"]].isin(["?"]).any(axis=1)
    frame = frame[complete]
    country = frame["native-country"]
    regions = {name: frame[country.isin(list(of))] for name, of in _REGIONS.items()}
    return frame[country == "United-States"], regions


def _adult_file(folder: Path, stem: str) -> pd.DataFrame:
    places = (folder / stem, folder / f"{stem}.gz")
    files = [place for place in places if place.is_file()]
    if not files:
        raise InvalidInput(
            f"there is no file {places[0]} or {places[1]}; put the UCI file there, or leave adult "
            "out with --only."
        )
    # adult.test opens with the line "|1x3 Cross validator" and ends its labels in a dot.
    frame = read_csv(
        files[0],
        header=None,
        names=list(_ADULT_FIELDS),
        usecols=list(_ADULT_FIELDS.values()),
        comment="|",
    )
    for name in ("workclass", "occupation", "native-country", "class"):
        frame[name] = [str(text).strip().removesuffix(".") for text in frame[name]]
    return frame


def _jobs(folder: Path) -> Rows:
    frame = read_table(folder / "jobs" / "stackoverflow_subset.csv.gz", ["Age", "Employed"])
    young = frame["Age"] == "<35"
    return frame[young], {"35 and older": frame[~young]}


def _taxi(folder: Path) -> Rows:
    frame = read_table(folder / "taxi" / "nyc_yellow_2022_taxi.csv.gz", ["tip", "pickup_day"])
    weekend = frame["pickup_day"].isin(["Sat", "Sun"])
    return frame[~weekend], {"weekend": frame[weekend]}


_READ: dict[str, tuple[Callable[[Path], Rows], tuple[Column, ...], ClassLabels, str]] = {
    ADULT: (
        _adult,
        (
            Column("age", 17, 90, outside="clip"),
            Column("education-num", 1, 16, 16),
            Column("hours-per-week", 1, 99, outside="clip"),
        ),
        ClassLabels("class", ("<=50K", ">50K")),
        "UCI ADULT.",
    ),
    JOBS: (
        _jobs,
        (
            Column("YearsCode", 0, 50, outside="clip"),
            Column("YearsCodePro", 0, 50, outside="clip"),
            Column("ComputerSkills", 0, 40, outside="clip"),
        ),
        ClassLabels("Employed", ("0", "1")),
        "Job applicants, employed or not: those who had earned 100,024 or more (a stand-in).",
    ),
    TAXI: (
        _taxi,
        (
            Column("trip_distance", 0, 20, outside="clip"),
            Column("trip_duration", 0, 60, outside="clip"),
            Column("pickup_hour", 0, 23, 24),
        ),
        ClassLabels("tip", ("No Tip", "Tip")),
        "Yellow-taxi trips in New York in 2022, tip or no tip (a stand-in).",
    ),
}


def load(name: str, folder: Path) -> Split:
    """A data set from `folder`; `InvalidInput` for files that are not there or not as expected."""
    read, columns, label, origin = _READ[name]
    people, others = read(folder)
    own = classification_from_table(people, columns, label, origin)
    target = Target(own.contexts, own.labels, own.domain, own.arm_names, own.source)
    sources = {
        source: classification_from_table(rows, columns, label, origin)
        for source, rows in others.items()
    }
    return Split(name, target, sources)
