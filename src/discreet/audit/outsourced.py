"""The game of outsourced tables: the adversary knows every row but one, and where that one stands.

A row of a release carries noise of its own, so all rows but the one that moves tell nothing, and
many trials of that row are drawn as the rows of one table. The random order of rows is taken from
the release here: the promise rests on the noise alone.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from discreet.audit.games import Check, Claim
from discreet.audit.played import Additive
from discreet.audit.replay import Tape
from discreet.outsourcing.answer_noise import AnswerNoise
from discreet.outsourcing.projection import Projection
from discreet.outsourcing.release import Mechanism, draw_rows, mechanism_for
from discreet.privacy import NoiseSource, Outsourced, SimulatedNoise
from discreet.privacy.accounting import composed_epsilon
from discreet.privacy.noise import Shape, Words
from discreet.validation import FloatArray

EPSILON, DELTA, RADIUS = 2.0, 1e-5, 0.5
_EXTENT = np.array([4.0, 3.0, 2.0])
_ROWS, _PROJECTED, _REPEATS = 50, 2, 4
_GRID = 2.0**32
_OUTCOMES = (-1.0, 3.0)


def outsourced_checks() -> list[Check]:
    """Releases of rows, as they are and projected, and answers."""

    def named(name: str, make: partial[Additive], about: str) -> Check:
        return Check(f"outsourced, {name}", "mechanism", "outsourced", make, about=about)

    anywhere = Outsourced(EPSILON, DELTA)
    return [
        named(
            "rows",
            partial(_release, Outsourced(EPSILON, DELTA, RADIUS), False),
            f"a row moves by {RADIUS:g}",
        ),
        named("any row", partial(_release, anywhere, False), "any row for any other"),
        named("projected", partial(_release, anywhere, True), "any other, projected columns"),
        named("answers", partial(_answers), f"one outcome, {_REPEATS} answers"),
    ]


class _InOrder(Tape):
    """A tape whose keys leave rows in the order of the table."""

    def keys(self, shape: Shape) -> Words:
        return np.zeros(shape, dtype=np.uint64)


def _release(budget: Outsourced, projected: bool) -> Additive:
    rng = np.random.default_rng(7)
    projection = Projection.draw(len(_EXTENT), _PROJECTED, rng) if projected else None
    reach = float(np.linalg.norm(_EXTENT)) if budget.radius is None else budget.radius
    mechanism = mechanism_for(budget, reach, _EXTENT, _ROWS, projection, SimulatedNoise(0))
    held = Claim(mechanism.epsilon(reach, budget.delta), budget.delta)
    sides = tuple(
        (
            f"a row moves by {np.linalg.norm(one - two):.3g} {words}",
            partial(_rows, mechanism, projection, one, two),
        )
        for words, one, two in _neighbours(reach, projection)
    )
    return Additive(held, sides, tape=_InOrder)


def _neighbours(
    reach: float, projection: Projection | None
) -> list[tuple[str, FloatArray, FloatArray]]:
    """Rows (d,) that are as far apart as neighbours may be, on the grid of coordinates."""
    corner = np.zeros(len(_EXTENT))
    along = min(reach, float(_EXTENT[0]))
    pairs = [
        ("along the first column", corner, corner + along * np.eye(len(_EXTENT))[0]),
        ("from corner to corner", corner, _EXTENT * min(1.0, reach / np.linalg.norm(_EXTENT))),
    ]
    if projection is not None:
        longest = np.linalg.svd(projection.matrix)[0][:, 0]
        # The longest step inside the box in the direction that the projection lengthens most.
        step = float((_EXTENT / np.maximum(np.abs(longest), 1e-12)).min())
        start = np.where(longest < 0.0, _EXTENT, 0.0)
        moved = start + min(step, reach) * longest
        pairs.append(("where the projection is longest", start, moved))
    return [
        (words, np.rint(one * _GRID) / _GRID, np.rint(two * _GRID) / _GRID)
        for words, one, two in pairs
    ]


def _rows(
    mechanism: Mechanism,
    projection: Projection | None,
    one: FloatArray,
    two: FloatArray,
    first: bool,
    trials: int,
    noise: NoiseSource,
) -> FloatArray:
    table = np.tile(one if first else two, (trials, 1))
    whole = Mechanism(**{**vars(mechanism), "numbers": table.size})
    return draw_rows(table, whole, projection, noise).points


def _answers() -> Additive:
    made = AnswerNoise.calibrated(EPSILON, DELTA, _OUTCOMES, _REPEATS, SimulatedNoise(0))
    held = Claim(composed_epsilon([made.event], DELTA), DELTA)
    return Additive(held, (("an outcome at either bound", partial(_told, made)),))


def _told(made: AnswerNoise, first: bool, trials: int, noise: NoiseSource) -> None:
    outcome = made.upper if first else made.lower
    for _ in range(made.repeats):
        noise.add_gaussian(np.full((trials, 1), outcome), made.scale)
