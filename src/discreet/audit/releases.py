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
| both kinds           | Laplace and Gaussian noise, the Laplace noise the louder            |
| somebody twice       | one release with two rows of theirs                                 |

The sentence of a certificate must not say less than its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from discreet.audit.exact import Claim, Exact, Facts, Promise, exact_of, promised
from discreet.audit.games import AdditiveGame, Check
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
# Noise of releases that come together, as a multiple of their sensitivity, and a pure epsilon.
_FAR, _NEAR, _PURE = 4.0, 2.5, 3.0


# Streams.


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
            partial(stream_exact, short, make(_LONG)),
            partial(_stream_trials, short),
            about=f"streams of {_ROWS} and {_LONG} rows",
        )


def stream_exact(short: PrefixMechanism, long: PrefixMechanism) -> Exact:
    """The worst row of a short stream and of a long one."""
    groups = []
    for mechanism, rows in ((short, _ROWS), (long, _LONG)):
        for place in range(rows) if rows == _ROWS else (0, rows // 2, rows - 2, rows - 1):
            label = f"row {place + 1} of {rows}"
            groups.append(
                [(f"{label}: {sign}", (mechanism, rows, place, sign)) for sign in (0.5, -0.5, 0.0)]
            )
    return exact_of(_streamed, *groups)


def _rows(stream: PrivateStream, place: int, count: int) -> Iterator[tuple[bool, int]]:
    """(whether the person is in it, people) of each row, as early as it may come."""
    came = 0
    while came < count:
        stop = min(max(stream.due, came + 1), count)
        yield came <= place < stop, stop - came
        came = stop


def _streamed(data: tuple[PrefixMechanism, int, int, float], facts: Facts) -> Promise:
    mechanism, rows, place, value = data
    source = _Failing(2)
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    stream = PrivateStream(mechanism, 1, 1.0, multiplier, source)
    for theirs, people in _rows(stream, place, rows):
        row = np.full(1, value if theirs else 0.0)
        source.fails = theirs
        try:
            estimate = stream.release(row, people)
        except OSError:
            # Whoever runs it tries again, with the row that did not come out.
            source.fails = False
            estimate = stream.release(row, people)
        facts.add("an estimate", estimate.values.tobytes())
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


def _stream_trials(mechanism: PrefixMechanism, exact: Exact) -> AdditiveGame:
    place = exact.pair[0].data[2] if exact.pair[0].data[1] == _ROWS else 0

    def side(first: bool, trials: int, noise: NoiseSource) -> None:
        """A stream whose every coordinate is a trial of its own, because noise is independent."""
        multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
        stream = PrivateStream(mechanism, trials, 1.0, multiplier, noise)
        for theirs, people in _rows(stream, place, _ROWS):
            value = (0.5 if first else -0.5) if theirs else 0.0
            stream.release(np.full(trials, value), people)

    words = f"likelihood ratio; row {place + 1} of {_ROWS}"
    return AdditiveGame(claim=exact.claim, attack=words, side=side, trials_last=True)


# Composition.


def composition_checks() -> list[Check]:
    """One check for each way in which releases come together."""
    return [
        Check(f"composition, {name}", "mechanism", "joint", partial(_composed, name), about=about)
        for name, about in (
            ("rounds", "rounds that overlap"),
            ("group", "releases of which a person enters one"),
            ("Laplace noise", "two releases with Laplace noise"),
            ("both kinds", "Laplace and Gaussian noise"),
            ("repeated", "a person who takes part twice"),
        )
    ]


def _composed(name: str) -> Exact:
    return exact_of(partial(_entering, name), [("0", 0.0), ("1", 1.0)])


def _release(event: Event, people: Rounds | OnceEach) -> Release:
    scale = event.noise_multiplier if isinstance(event, GaussianEvent) else 1.0 / event.epsilon
    return Release("noise", event, 1.0, "numbers 1 apart", scale, people, "a number", "simulated")


def _releases(name: str) -> tuple[list[Release], list[Release]]:
    """All releases, and those that the person's data enters."""
    group, round_ = OnceEach("a group"), Rounds(0, 1)
    pure = [_release(PureEvent(epsilon), round_) for epsilon in (1.0, 0.5)]
    once = [_release(GaussianEvent(multiplier), group) for multiplier in (_FAR, _NEAR)]
    rounds = [
        _release(GaussianEvent(_FAR), Rounds(0, 10)),
        _release(GaussianEvent(_FAR), Rounds(5, 15)),
    ]
    both = [_release(PureEvent(_PURE), round_), _release(GaussianEvent(2.0 * _FAR), round_)]
    return {
        "rounds": (rounds, rounds),
        "group": (once, once[1:]),
        "Laplace noise": (pure, pure),
        "both kinds": (both, both),
        "repeated": (once[1:], once[1:]),
    }[name]


def _entering(name: str, value: float, facts: Facts) -> Promise:
    noise = SimulatedNoise(9)
    releases, entered = _releases(name)
    for release in entered:
        drawn = np.array([2.0 * value if name == "repeated" else value])
        add = noise.add_laplace if isinstance(release.event, PureEvent) else noise.add_gaussian
        facts.add("a release", add(drawn, release.scale).tobytes())
    delta = 0.0 if name == "Laplace noise" else DELTA
    held = derive_guarantee(releases, "joint", Adjacency("a number"), delta)
    if name == "repeated":
        held = held.repeated(2)
    facts.rule(_understated(held))
    claim = Claim(held.epsilon, held.delta)
    return Promise(claim, claim)


def _understated(held: Guarantee) -> str:
    """Whether the sentence of a certificate says less than its numbers; empty if it does not."""
    said = re.search(r"epsilon = ([0-9.e+-]+)", held.sentence)
    if said is None or float(said[1].rstrip(".")) < held.epsilon * (1.0 - 1e-9):
        return f"the certificate's sentence says less than epsilon = {held.epsilon:.6g}"
    return ""
