"""Releases to everybody: streams of rows with noise, and what several releases cost one person.

**Streams.** Every mechanism for prefix sums is run with the person in each of its rows, short and
long. When their row is released the noise source fails once, and whoever runs the stream tries
again, as a service would.

**Composition.** What the accounting says of several releases, against their exact loss together:

| data                 | releases of it                                                      |
|----------------------|---------------------------------------------------------------------|
| rounds that overlap  | Gaussian noise, for rounds 0 to 9 and for 5 to 14; a person of both |
| a group              | two of unequal noise, of which a person enters one                  |
| Laplace noise        | two releases of it                                                  |
| many reports         | nine pure ones of one person, at a delta                            |
| both kinds           | Laplace and Gaussian noise, the Laplace noise the louder            |
| somebody twice       | one release with two rows of theirs                                 |

The sentence of a certificate must not say less than its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from discreet.audit.exact import Claim, Facts, Promise, exact_of, promised
from discreet.audit.games import Check, Design
from discreet.privacy import (
    Adjacency,
    NoiseSource,
    OnceEach,
    Release,
    Rounds,
    SimulatedNoise,
    derive_guarantee,
)
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.prefix_sums import (
    BinaryTree,
    BufferedToeplitz,
    Doubling,
    FadingEpochs,
    GeometricEpochs,
    Independent,
    PrefixMechanism,
    PrivateStream,
    SeparateEpochs,
)
from discreet.validation import FloatArray

EPSILON, DELTA = 1.0, 1e-5
# Rows of a stream, and of a long one.
_ROWS, _LONG = 12, 50
# Noise of releases that come together, as a multiple of their sensitivity, and a pure epsilon.
_FAR, _NEAR, _PURE = 4.0, 2.5, 3.0
# Pure reports of one person, and a delta at which they cost less than their sum.
_REPORTS, _EACH, _MUCH = 9, 0.5, 0.01


# Streams.

Stream = tuple[PrefixMechanism, int, int, float]


def stream_designs() -> Iterator[Design]:
    """One design for every mechanism."""
    for make in (
        lambda rows: Independent(),
        BinaryTree,
        BufferedToeplitz,
        lambda rows: Doubling(first_rows=4),
        lambda rows: GeometricEpochs(1.5, horizon=rows),
        lambda rows: FadingEpochs(float(rows)),
        lambda rows: SeparateEpochs(1.5, horizon=rows),
    ):
        yield stream_design(make(_ROWS), make(_LONG))


def stream_design(short: PrefixMechanism, long: PrefixMechanism) -> Design:
    """A person in any row of a short stream, and in some of a long one.

    Every coordinate of a stream is a trial of its own, because noise is independent.
    """
    places = [(short, _ROWS, place) for place in range(_ROWS)]
    places += [(long, _LONG, place) for place in (0, _LONG // 2, _LONG - 2, _LONG - 1)]
    return Design(
        name=f"prefix_sums, {short.name}",
        trust_model="joint",
        release=_streamed,
        promise=lambda data, released: promised(
            Claim(EPSILON, DELTA), [released[1].event], [released[1]]
        ),
        neighbours=[
            [
                (f"row {place + 1} of {rows}: {value}", (mechanism, rows, place, value))
                for value in (0.5, -0.5, 0.0)
            ]
            for mechanism, rows, place in places
        ],
        score="likelihood ratio",
        bound="gaussian",
        source=_Failing,
        axis=-1,
        about=f"streams of {_ROWS} and {_LONG} rows",
    )


def _streamed(
    data: Stream, trials: int, noise: NoiseSource
) -> tuple[list[FloatArray], Release | None]:
    """All estimates, and the record."""
    mechanism, rows, place, value = data
    stream = PrivateStream(mechanism, trials, 1.0, gaussian_noise_multiplier(EPSILON, DELTA), noise)
    estimates, came = [], 0
    while came < rows:
        stop = min(max(stream.due, came + 1), rows)
        theirs = came <= place < stop
        row = np.full(trials, value if theirs else 0.0)
        if isinstance(noise, _Failing):
            noise.fails = theirs
        try:
            estimate = stream.release(row, stop - came)
        except OSError:
            # Whoever runs it tries again, with the row that did not come out.
            estimate = stream.release(row, stop - came)
        estimates.append(estimate.values)
        came = stop
    return estimates, stream.record("a row", OnceEach("a stream"))


class _Failing(SimulatedNoise):
    """Fails once, when the person's row is released."""

    fails = False

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        if self.fails:
            self.fails = False
            raise OSError("no randomness")
        return super().add_gaussian(values, scale)


# Composition.


def composition_checks() -> Iterator[Check]:
    """One check for each way in which releases come together."""
    for name, about in (
        ("rounds", "rounds that overlap"),
        ("group", "releases of which a person enters one"),
        ("Laplace noise", "two releases with Laplace noise"),
        ("many reports", "pure reports at a delta"),
        ("both kinds", "Laplace and Gaussian noise"),
        ("repeated", "a person who takes part twice"),
    ):
        exact = partial(exact_of, partial(_entering, name), [("0", 0.0), ("1", 1.0)])
        yield Check(f"composition, {name}", "mechanism", "joint", exact, about=about)


def _release(event: Event, people: Rounds | OnceEach) -> Release:
    scale = event.noise_multiplier if isinstance(event, GaussianEvent) else 1.0 / event.epsilon
    return Release("noise", event, 1.0, "numbers 1 apart", scale, people, "a number", "simulated")


def _releases(name: str) -> tuple[list[Release], list[Release]]:
    """All releases, and those that the person's data enters."""
    group, round_ = OnceEach("a group"), Rounds(0, 1)
    pure = [_release(PureEvent(epsilon), round_) for epsilon in (1.0, 0.5)]
    many = [_release(PureEvent(_EACH), round_)] * _REPORTS
    once = [_release(GaussianEvent(multiplier), group) for multiplier in (_FAR, _NEAR)]
    rounds = [_release(GaussianEvent(_FAR), Rounds(start, start + 10)) for start in (0, 5)]
    both = [_release(PureEvent(_PURE), round_), _release(GaussianEvent(2.0 * _FAR), round_)]
    return {
        "rounds": (rounds, rounds),
        "group": (once, once[1:]),
        "Laplace noise": (pure, pure),
        "many reports": (many, many),
        "both kinds": (both, both),
        "repeated": (once[1:], once[1:]),
    }[name]


def _entering(name: str, value: float, facts: Facts) -> Promise:
    noise = SimulatedNoise(9)
    releases, entered = _releases(name)
    for release in entered:
        drawn = np.array([2.0 * value if name == "repeated" else value])
        add = noise.add_laplace if isinstance(release.event, PureEvent) else noise.add_gaussian
        facts.add("a release", add(drawn, release.scale))
    delta = {"Laplace noise": 0.0, "many reports": _MUCH}.get(name, DELTA)
    held = derive_guarantee(releases, "joint", Adjacency("a number"), delta)
    if name == "repeated":
        held = held.repeated(2)
    facts.rule(_understated(held))
    claim = Claim(held.epsilon, held.delta)
    return Promise(claim, claim)


def _understated(held: Guarantee) -> str:
    """Whether the sentence of a certificate says less than its numbers; empty if it does not."""
    stated = re.search(r"epsilon = ([0-9.e+-]+)", held.sentence)
    if stated is None or float(stated[1].rstrip(".")) < held.epsilon * (1.0 - 1e-9):
        return f"the certificate's sentence says less than epsilon = {held.epsilon:.6g}"
    return ""
