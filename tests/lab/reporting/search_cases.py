"""Small searches over released tables, played by both parties."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from discreet.outsourcing.bounds import read_bounds
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.exchange import ReleasedTable, read_questions, write_answers
from discreet.outsourcing.mechanisms import AnswerRules
from discreet.outsourcing.modeler import RowSearch, SearchSettings, Turn
from discreet.privacy import NoiseSource, Outsourced, SimulatedNoise
from discreet.validation import FloatArray

PLAIN = """
id = "id"
outcome = "y"
[columns.east]
lower = 0
upper = 20
scale = 2
[columns.north]
lower = 0
upper = 10
"""
EVIL = "<script>alert(1)</script> $x_1$"
ONE = 'id = "id"\noutcome = "y"\n[columns.east]\nlower = 0\nupper = 20\nscale = 2\n'
FOUR = """
id = "id"
outcome = "y"
[columns.age]
lower = 18
upper = 90
scale = 10
[columns."income ($)"]
lower = 1000
upper = 1000000
log = true
scale = 2
[columns.smoker]
values = ["no", "yes"]
[columns.region]
values = ["<b>north</b>", "south & co", "west"]
"""


@dataclass
class Played:
    """A search, how far it came and the curator of its release."""

    search: RowSearch
    turn: Turn
    curator: Curator
    rounds: int


def hills(points: FloatArray) -> FloatArray:
    """(n,) outcomes of points with coordinates between 0 and 1."""
    outcomes: FloatArray = 100.0 + 30.0 * np.sin(4.0 * points[:, 0]) + 10.0 * points[:, -1]
    return outcomes


def people(bounds: str, count: int, scale: float = 1.0) -> pd.DataFrame:
    """A table that fits the bounds."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"id": [f"person {place}" for place in range(count)]})
    columns = {
        "east": 20.0 * rng.random(count),
        "north": 10.0 * rng.random(count),
        EVIL: 10.0 * rng.random(count),
        "age": rng.uniform(18, 90, count),
        "income ($)": np.exp(rng.uniform(7, 13, count)),
        "smoker": rng.choice(["no", "yes"], count),
        "region": rng.choice(["<b>north</b>", "south & co", "west"], count),
    }
    for name, values in columns.items():
        if name in bounds:
            frame[name] = values
    number = frame.select_dtypes("number").to_numpy()
    frame["y"] = scale * hills(number / number.max(axis=0))
    return frame


def play(
    folder: Path,
    bounds: str = PLAIN,
    count: int = 60,
    *,
    turns: int = 99,
    rounds: int = 12,
    batch: int = 4,
    settings: SearchSettings | None = None,
    answers: AnswerRules | None = None,
    projected: int | None = None,
    noise: NoiseSource | None = None,
    radius: float | None = 0.2,
    impossible: int = 0,
    scale: float = 1.0,
) -> Played:
    """Release a table and search it for some turns; the first rows asked for may be impossible."""
    folder.mkdir(exist_ok=True)
    (folder / "bounds.toml").write_text(bounds, encoding="utf-8")
    curator = Curator(folder / "key")
    certificate = curator.draw(
        curator.propose(
            people(bounds, count, scale),
            read_bounds(folder / "bounds.toml"),
            Outsourced(3.0, 1e-5, radius=radius),
            SimulatedNoise(1) if noise is None else noise,
            projected=projected,
            answers=answers,
            seed=1 if noise is None else None,
        )
    )
    curator.publish(certificate.release, folder / "release")
    search = RowSearch(ReleasedTable.read(folder / "release"), folder / "state.sqlite", settings)
    ask, tell = folder / "ask.csv", folder / "answers.csv"
    turn = search.step(ask, tell, rounds=rounds, batch=batch)
    for _ in range(turns - 1):
        if turn.done:
            break
        release, questions = read_questions(ask)
        given = curator.answer(release, questions)
        changed = [one.answered(None if one.number <= impossible else one.answer) for one in given]
        write_answers(release, changed, tell)
        turn = search.step(ask, tell, rounds=rounds, batch=batch)
    return Played(search, turn, curator, rounds)
