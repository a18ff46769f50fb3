"""A small table, its bounds, and a watch on what others get to see."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest

from discreet.outsourcing.bounds import PublicBounds, PublicColumn
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Allowed, Curator
from discreet.outsourcing.exchange import Format
from discreet.outsourcing.key import Key, read_key
from discreet.outsourcing.mechanisms import AnswerRules, Question, RowProjection
from discreet.privacy import NoiseSource, Outsourced, SimulatedNoise
from discreet.validation import InvalidInput

BUDGET = Outsourced(2.0, 1e-5, 1.0)
PROTECTED = AnswerRules(1, 1.0, 1e-6, (0.0, 10.0))


def bounds(columns: int = 2, outcome: str | None = "expense", width: float = 10.0) -> PublicBounds:
    """Columns a, b, ... from 0 to `width` in units of 1."""
    names = "abcdefghijkl"[:columns]
    made = tuple(PublicColumn(name=name, lower=0.0, upper=width, scale=1.0) for name in names)
    return PublicBounds(made, "citizen", outcome)


def table(rows: int = 12, columns: int = 2, seed: int = 0, width: float = 10.0) -> pd.DataFrame:
    """People with ids that are easily found again, and outcomes."""
    rng = np.random.default_rng(seed)
    names = "abcdefghijkl"[:columns]
    return pd.DataFrame(
        {
            "citizen": [f"Mrs Secret-{row:04d}" for row in range(rows)],
            **{name: (rng.random(rows) * width).round(5) for name in names},
            "expense": (rng.random(rows) * 10.0).round(7),
        }
    )


def release(
    key: Path,
    frame: pd.DataFrame | None = None,
    *,
    budget: Outsourced = BUDGET,
    noise: NoiseSource | None = None,
    seed: int | None = 7,
    public: PublicBounds | None = None,
    answers: AnswerRules | None = None,
    projected: int | None = None,
    form: Format = "csv",
    again: bool = False,
    allowed: Allowed | None = None,
) -> Certificate:
    """A simulated release of the small table, unless told otherwise."""
    curator = Curator(key)
    return curator.draw(
        curator.propose(
            table() if frame is None else frame,
            bounds() if public is None else public,
            budget,
            SimulatedNoise(seed) if noise is None else noise,
            projected=projected,
            answers=answers,
            form=form,
            seed=seed,
            allowed=Allowed(again=again) if allowed is None else allowed,
        )
    )


KINDS = ("orthonormal", "gaussian")


def projection(columns: int, kept: int, kind: str = "orthonormal", seed: int = 0) -> RowProjection:
    """As curators draw one, or with the entries N(0, 1 / r) of Kharkovskii et al. (2020)."""
    rng = np.random.default_rng(seed)
    if kind == "orthonormal":
        return RowProjection.draw(columns, kept, rng)
    return RowProjection(rng.standard_normal((columns, kept)) / np.sqrt(kept))


def publish(key: Path, certificate: Certificate, out: Path) -> bool:
    return Curator(key).publish(certificate.release, out)


def ask(
    key: Path,
    certificate: Certificate,
    *rows: int,
    first: int = 1,
    outcomes: pd.DataFrame | None = None,
) -> list[Question]:
    """Answers to questions about rows, numbered from `first`."""
    questions = [Question(first + place, row) for place, row in enumerate(rows)]
    return Curator(key).answer(certificate.release, questions, outcomes)


def answers_to(key: Path, certificate: Certificate, *rows: int, **options: Any) -> list[Any]:
    """What comes back for these questions, and for those before."""
    return [question.answer for question in ask(key, certificate, *rows, **options)]


def kept(key: Path) -> Key:
    """What the key holds."""
    state = read_key(key)
    assert state is not None
    return state


def order_of(key: Path, certificate: Certificate) -> np.ndarray:
    """(n,) which of the people, in the order of their ids, each released row is."""
    return kept(key).find(certificate.release).order


class Untouchable(SimulatedNoise):
    """A source of which nothing may be drawn."""

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("something was drawn")

    keys = below = coins = add_laplace = add_gaussian = _refuse  # type: ignore[assignment]


@contextmanager
def refused(message: str, *folders: Path) -> Iterator[pytest.ExceptionInfo[InvalidInput]]:
    """Refused with that message, and these folders and all in them stay as they were."""
    before = [everything(folder) for folder in folders]
    with pytest.raises(InvalidInput, match=message) as refusal:
        yield refusal
    assert [everything(folder) for folder in folders] == before


def change(key: Path, *statements: str) -> None:
    """Edit a key, as nobody should."""
    with closing(sqlite3.connect(key / "key.sqlite")) as state, state:
        for statement in statements:
            state.execute(statement)


def forget_answers(key: Path) -> None:
    """All answers are gone, as from a key that was restored from an older copy."""
    change(key, "DELETE FROM answers", "DELETE FROM draws")


def counted(key: Path, table: str) -> int:
    """How many rows a table of a key has."""
    with closing(sqlite3.connect(key / "key.sqlite")) as state:
        return int(state.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in a folder, however deep, by its name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def everything(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """All files and folders, hidden ones too, with when they were changed and what they hold."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in folder.rglob("*")
    }
