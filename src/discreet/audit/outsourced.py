"""Outsourced tables: a curator releases a table and answers questions about it.

The adversary knows every row but one, sees the published files, the answers and the certificate,
and knows the place of the row: the promise rests on the noise, so the secret order is the same on
either side. Tables differ in one person: a row that moves by the radius, along a column
and in the direction that a projection lengthens most, or an outcome, missing ones included.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet.audit.checks import Check
from discreet.audit.replay import Claim, Exact, Promise, Transcript, exact_of, secure
from discreet.audit.tape import gaussian_epsilon
from discreet.outsourcing.bounds import PublicBounds, PublicColumn
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Allowed, Curator
from discreet.outsourcing.key import read_key
from discreet.outsourcing.mechanisms import AnswerRules, Question
from discreet.privacy import Outsourced, SimulatedNoise
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import FloatArray, InvalidInput

EPSILON, DELTA, RADIUS = 2.0, 1e-5, 0.5
_EXTENT = np.array([4.0, 3.0, 2.0])
_ROWS, _PROJECTED, _REPEATS = 6, 2, 2
_LOW, _HIGH = -1.0, 3.0
_SEED = 7
# One person's row and outcome; NaN where it was not measured.
Person = tuple[FloatArray, float]


@dataclass(frozen=True)
class TableSetup:
    """A table and what a curator does with it.

    Attributes:
        radius: how far neighbouring rows are apart at most; None for any two rows.
        projected: to how many columns.
        releases: how often the table is released.
        answers: whether questions are answered.
        secure: whether noise comes from SecureNoise.
        rows: of the table.
    """

    radius: float | None = None
    projected: int | None = None
    releases: int = 1
    answers: bool = False
    secure: bool = False
    rows: int = _ROWS

    @property
    def state(self) -> str:
        """In a few words."""
        releases = "a release" if self.releases == 1 else f"{self.releases} releases"
        return f"{releases} and answers" if self.answers else releases

    @property
    def asked(self) -> Claim:
        """The budgets of all releases and of answers together: mu^2 adds."""
        count = self.releases + self.answers
        if count == 1:
            return Claim(EPSILON, DELTA)
        mu = math.hypot(*[1.0 / gaussian_noise_multiplier(EPSILON, DELTA)] * count)
        return Claim(gaussian_epsilon(mu, DELTA), DELTA)


def outsourced_checks() -> list[Check]:
    """Releases of rows, as they are and projected, several of them, and answers."""
    wishes = (
        ("rows", TableSetup(RADIUS), f"a row moves by {RADIUS:g}"),
        ("any row", TableSetup(), "any row for any other"),
        (
            "one row",
            TableSetup(RADIUS, answers=True, rows=1),
            "a table of one person, and answers",
        ),
        ("projected", TableSetup(projected=_PROJECTED), "any other, projected columns"),
        (
            "two releases",
            TableSetup(RADIUS, releases=2),
            "a row of a table that is released twice",
        ),
        ("answers", TableSetup(RADIUS, answers=True), f"row and outcome, {_REPEATS} answers"),
        (
            "answers twice",
            TableSetup(RADIUS, releases=2, answers=True),
            "answers for two releases of a table",
        ),
        ("secure", TableSetup(RADIUS, answers=True, secure=True), "row and outcome, OpenDP"),
    )
    return [
        Check(
            f"outsourced, {name}",
            "mechanism",
            "outsourced",
            partial(_exact, wish),
            about,
        )
        for name, wish, about in wishes
    ]


def _bounds() -> PublicBounds:
    columns = tuple(
        PublicColumn(name=name, lower=0.0, upper=float(width), scale=1.0)
        for name, width in zip("abc", _EXTENT, strict=True)
    )
    return PublicBounds(columns, "id", "outcome")


def _table(person: Person, size: int) -> pd.DataFrame:
    rng = np.random.default_rng(_SEED)
    rows, outcomes = rng.random((size, len(_EXTENT))) * _EXTENT, rng.random(size)
    rows[0], outcomes[0] = person
    columns = {"id": [f"p{row:02d}" for row in range(size)], "outcome": outcomes}
    return pd.DataFrame({**columns, **dict(zip("abc", rows.T, strict=True))})


def _exact(wish: TableSetup) -> Exact:
    beyond = (-50.0, 50.0)
    outcomes = (_LOW, _HIGH, 1.0, float("nan"), *beyond) if wish.answers else (1.0,)
    pairs = neighbours(wish)[: 1 if wish.answers else None]
    groups = [
        [(f"row at {_words(row)}, outcome {y:g}", (row, y)) for y in outcomes for row in pair]
        for pair in pairs
    ]
    return exact_of(partial(_curated, wish), *groups, state=wish.state)


def neighbours(wish: TableSetup) -> list[list[FloatArray]]:
    """Two rows (d,) each, as far apart as neighbours may be, on the grid of coordinates."""
    reach = float(np.linalg.norm(_EXTENT)) if wish.radius is None else wish.radius
    corner, step = np.zeros(len(_EXTENT)), 2.0**-20
    along = min(reach, float(_EXTENT[0])) * np.eye(len(_EXTENT))[0]
    ends = [(corner, along), (corner, _EXTENT * min(1.0, reach / np.linalg.norm(_EXTENT)))]
    if wish.projected:
        # The direction that the curator's own projection lengthens most.
        projection = _certificate(wish).projection
        assert projection is not None
        longest = np.linalg.svd(np.asarray(projection.matrix))[0][:, 0]
        far = float((_EXTENT / np.maximum(np.abs(longest), 1e-12)).min())
        start = np.where(longest < 0.0, _EXTENT, 0.0)
        ends.append((start, start + min(far, reach) * longest))
    # Towards zero, so that rounding never carries a pair beyond the radius.
    return [[np.trunc(row / step) * step for row in pair] for pair in ends]


def _words(row: FloatArray) -> str:
    return "(" + ", ".join(f"{x:.3g}" for x in row) + ")"


def _certificate(wish: TableSetup) -> Certificate:
    """Of one release of a table in which the person's row is 0."""
    with tempfile.TemporaryDirectory() as folder:
        return _released(wish, Curator(Path(folder) / "key"), (np.zeros(len(_EXTENT)), 0.0))


def _released(
    wish: TableSetup, curator: Curator, person: Person, number: int = 0, epsilon: float = EPSILON
) -> Certificate:
    rules = AnswerRules(_REPEATS, EPSILON, DELTA, (_LOW, _HIGH)) if wish.answers else AnswerRules()
    seed = None if wish.secure else _SEED + number
    return curator.draw(
        curator.propose(
            _table(person, wish.rows),
            _bounds(),
            Outsourced(epsilon, DELTA, wish.radius),
            secure() if seed is None else SimulatedNoise(seed),
            projected=wish.projected,
            answers=rules,
            seed=seed,
            allowed=Allowed(again=number > 0),
        )
    )


def _curated(wish: TableSetup, person: Person, transcript: Transcript) -> Promise:
    """Release, publish, and answer; everything that leaves the curator is public."""
    with tempfile.TemporaryDirectory() as folder:
        curator, releases = Curator(Path(folder) / "key"), []
        for number in range(wish.releases):
            certificate = _released(wish, curator, person, number)
            curator.publish(certificate.release, Path(folder) / f"out{number}")
            for path in sorted((Path(folder) / f"out{number}").iterdir()):
                transcript.add(f"the published file {path.name}", path.read_bytes())
            releases.append(certificate)
            if not wish.secure:
                transcript.rule(partial(_plain_order, curator, certificate))
        transcript.rule(partial(_released_unasked, wish, curator, person))
        for certificate in releases if wish.answers else ():
            _answered(curator, certificate, transcript)
    held = certificate.with_answers if wish.answers else certificate.guarantee
    assert held is not None
    return Promise(wish.asked, Claim(held.epsilon, held.delta), _records(certificate))


def _plain_order(curator: Curator, certificate: Certificate) -> str:
    """Rows that are released in the table's order, in words; one in 720 orders is by chance."""
    key = read_key(curator.folder)
    assert key is not None
    order = key.find(certificate.release).order
    plain = len(order) > 1 and (np.diff(order) > 0).all()
    return "rows are released in the order of the table" if plain else ""


def _released_unasked(wish: TableSetup, curator: Curator, person: Person) -> str:
    """A table that is released again without an explicit request, in words; empty if refused."""
    try:
        _released(wish, curator, person, epsilon=0.5 * EPSILON)
    except InvalidInput:
        return ""
    return "a table is released again unasked"


def _answered(curator: Curator, certificate: Certificate, transcript: Transcript) -> None:
    rows = np.repeat(np.arange(certificate.rows), _REPEATS).tolist()
    asked = [Question(1 + number, row) for number, row in enumerate(rows)]
    key = read_key(curator.folder)
    assert key is not None
    missing = pd.DataFrame({"id": ["p00"], "outcome": [None]})
    measured = missing if np.isnan(key.roster.outcomes[0]) else None
    for answer in curator.answer(certificate.release, asked, measured):
        transcript.add(f"the answer to question {answer.number}", answer.answer)


def _records(certificate: Certificate) -> list[Any]:
    rows = (*certificate.earlier, certificate.mechanism)
    releases: list[Any] = [mechanism.release(certificate.radius) for mechanism in rows]
    return releases if certificate.answers is None else [*releases, certificate.answers.release]
