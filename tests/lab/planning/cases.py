"""Forecasts made by hand, whose truth is known, and small studies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet.lab.environments.synthetic import exponential
from discreet.lab.experiments import Setting
from discreet.lab.planning.forecast import Forecast, PlanLine, RaceResult
from discreet.lab.reporting.plan import Plan
from discreet.lab.reporting.provenance import provenance_of_seed
from discreet.learners.base import LOCAL_RECORD
from discreet.privacy import Guarantee, Local, NonPrivate
from discreet.validation import FloatArray

HORIZONS = (250, 500, 1000, 2000, 4000)
FIXED = 0.4
"""Regret per person under one choice for everyone."""
CHANCE = 0.43


def promised(epsilon: float) -> Guarantee:
    return Guarantee("local", epsilon, 0.0, LOCAL_RECORD, ("the bin",), ("noise",), 1, 5)


def line(kind: Any, epsilon: float | None, learner: str, gain: FloatArray) -> PlanLine:
    budget = NonPrivate() if epsilon is None else Local(epsilon)
    label = learner if epsilon is None else f"{learner}, epsilon {epsilon:g}"
    guarantee = None if epsilon is None else promised(epsilon)
    return PlanLine(kind, Setting(learner, label, budget), gain - FIXED, gain, guarantee)


def forecast(
    private: Mapping[float, FloatArray],
    free: FloatArray,
    kind: type[Forecast] = Forecast,
    horizons: Sequence[int] = HORIZONS,
    **facts: Any,
) -> Any:
    """A forecast of gains (r, h) over one choice for everyone, by epsilon and without privacy."""
    nothing = np.zeros_like(free)
    lines = [line("private", epsilon, "partition", gain) for epsilon, gain in private.items()]
    lines += [line("none", None, "partition", free)]
    lines += [line("reference", None, "best_fixed", nothing)]
    lines += [line("reference", None, "uniform", nothing + FIXED - CHANCE)]
    if issubclass(kind, Plan):
        facts = {"provenance": provenance_of_seed("made", 1)} | facts
    races = [
        RaceResult(each.epsilon, each.setting, horizons[-1], 0, math.nan, True, False)
        for each in lines
        if each.kind != "reference"
    ]
    made = kind(
        name="made",
        title="A plan made by hand",
        problem=exponential(),
        data=("Planning used no one's data.",),
        horizons=tuple(horizons),
        expected=horizons[-1],
        lines=tuple(lines),
        races=tuple(races),
        left_out=(),
        lose_at_most=0.2,
        seed=1,
        seconds=1.0,
        **{key: facts.pop(key) for key in ("provenance",) if key in facts},
    )
    return replace(made, **facts)


def growing(scale: float, power: float, horizons: Sequence[int] = HORIZONS) -> FloatArray:
    """(h,) gains of a learner whose regret of n people in all is `scale` n^power."""
    people = np.asarray(horizons, dtype=np.float64)
    return FIXED - scale * people ** (power - 1.0)


def until(scale: float, power: float, gain: float) -> float:
    """From how many people on such a learner gains so much."""
    return float((scale / (FIXED - gain)) ** (1.0 / (1.0 - power)))


def drawn(mean: FloatArray, replicates: int, deviation: float, seed: int) -> FloatArray:
    """(r, h) replicates around a mean."""
    rng = np.random.default_rng(seed)
    return mean + deviation * rng.standard_normal((replicates, len(mean)))


STUDY = """
name = "small"
title = "Whom to call"
rounds = {rounds}
seed = 5
[problem]
{problem}
[[learners]]
name = "partition"
epsilon = [1.0, 2.0]
non_private = true
"""
TABLE = """
name = "table"
path = "people.csv"
label = { column = "y", classes = ["a", "b"] }
columns = [{ name = "x", lower = 0, upper = 9 }, { name = "s", values = ["f", "m"] }]
"""
SMOOTH = 'name = "exponential"\ndimension = 1\n'


def write_people(path: Path, rule: bool = True, rows: int = 600) -> None:
    """A table in which y follows from x where there is a rule, and from nothing otherwise."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 10, rows)
    y = (x > 4) if rule else rng.random(rows) < 0.5
    sexes = rng.integers(0, 2, rows)
    lines = [f"{a},{'fm'[s]},{'ab'[int(b)]}" for a, s, b in zip(x, sexes, y, strict=True)]
    path.write_text("x,s,y\n" + "\n".join(lines) + "\n")


def write_study(folder: Path, problem: str = TABLE, rounds: int = 600) -> Path:
    path = folder / "small.toml"
    path.write_text(STUDY.format(problem=problem, rounds=rounds))
    return path
