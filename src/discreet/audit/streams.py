"""Streams of rows that are released with noise: every mechanism for prefix sums, replayed.

A stream is run with the person in each of its rows, short and long. When their row is released the
noise source fails once, and whoever runs the stream tries again, as a service would.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact
from discreet.audit.played import Additive
from discreet.audit.values import exact_of, promised
from discreet.privacy import NoiseSource, OnceEach, SimulatedNoise
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.prefix_sums import (
    BinaryTree,
    BufferedToeplitz,
    Doubling,
    GeometricEpochs,
    Honaker,
    Independent,
    PrefixMechanism,
    PrivateStream,
    SquareRootToeplitz,
)
from discreet.validation import FloatArray

EPSILON, DELTA = 1.0, 1e-5
# Rows of a stream, and of a long one.
_ROWS, _LONG = 12, 50


def stream_checks() -> Iterator[Check]:
    """One check for every mechanism."""
    for make in (
        lambda rows: Independent(),
        BinaryTree,
        Honaker,
        SquareRootToeplitz,
        BufferedToeplitz,
        lambda rows: Doubling(first_rows=4),
        lambda rows: GeometricEpochs(1.5, horizon=rows),
    ):
        short = make(_ROWS)
        yield Check(
            f"prefix_sums, {short.name}",
            "mechanism",
            "joint",
            partial(_stream, short, make(_LONG)),
            partial(_stream_trials, short),
            about=f"streams of {_ROWS} and {_LONG} rows",
        )


def _stream(short: PrefixMechanism, long: PrefixMechanism) -> Exact:
    groups = []
    for mechanism, rows in ((short, _ROWS), (long, _LONG)):
        for place in range(rows) if rows == _ROWS else (0, rows // 2, rows - 2, rows - 1):
            label = f"row {place + 1} of {rows}"
            groups.append(
                [(f"{label}: {sign}", (mechanism, rows, place, sign)) for sign in (0.5, -0.5, 0.0)]
            )
    return exact_of(_streamed, *groups)


def _streamed(data: tuple[PrefixMechanism, int, int, float], facts: Facts) -> Promise:
    mechanism, rows, place, value = data
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    source = _Failing(2)
    stream = PrivateStream(mechanism, 1, 1.0, multiplier, source)
    came = 0
    while came < rows:
        stop = min(max(stream.due, came + 1), rows)
        row = np.full(1, value if came <= place < stop else 0.0)
        source.fails = came == place
        try:
            estimate = stream.release(row, stop - came)
        except OSError:
            # Whoever runs it tries again, with the row that did not come out.
            source.fails = False
            estimate = stream.release(row, stop - came)
        facts.add("an estimate", estimate.values.tobytes())
        came = stop
    record = stream.record("a row", OnceEach("a stream"))
    assert record is not None
    return promised(Claim(EPSILON, DELTA), [record.event], [record])


class _Failing(SimulatedNoise):
    """Fails once, when the person's row is released."""

    fails = False

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        if self.fails:
            raise OSError("no randomness")
        return super().add_gaussian(values, scale)


def _stream_trials(mechanism: PrefixMechanism, exact: Exact) -> Additive:
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    place = exact.pair[0].data[2] if exact.pair[0].data[1] == _ROWS else 0
    side = partial(_rows, mechanism, multiplier, place)
    return Additive(exact.claim, f"row {place + 1} of {_ROWS}", side, trials_last=True)


def _rows(
    mechanism: PrefixMechanism,
    multiplier: float,
    place: int,
    first: bool,
    trials: int,
    noise: NoiseSource,
) -> None:
    """A stream whose every coordinate is a trial of its own, because noise is independent."""
    stream = PrivateStream(mechanism, trials, 1.0, multiplier, noise)
    came = 0
    while came < _ROWS:
        stop = min(max(stream.due, came + 1), _ROWS)
        moved = came <= place < stop
        row = np.full(trials, (0.5 if first else -0.5) if moved else 0.0)
        stream.release(row, stop - came)
        came = stop
