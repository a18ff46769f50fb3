"""The privacy mechanisms of the library, each attacked by the best test there is against it.

| mechanism                                   | score                                        |
|---------------------------------------------|----------------------------------------------|
| Gaussian noise, streams, Laplace noise      | likelihood ratio                             |
| reports over a finite alphabet              | all outcomes of the code; likelihood ratio   |
| PrivUnit, the l2 ball                       | the cosine with the person's own vector      |
| exponential mechanism                       | all outcomes; which of two options was drawn |

For two opposite vectors the cosine is as good as the likelihood ratio of PrivUnit, of which it is a
monotone function. The SecureNoise forms draw from OpenDP and from the operating system.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from discreet.audit.enumeration import exact_epsilon, law_of
from discreet.audit.games import Check, Claim, Exact, Seed
from discreet.audit.people import places
from discreet.audit.played import Additive, Side, Stated
from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import (
    Event,
    GaussianEvent,
    composed_epsilon,
    gaussian_noise_multiplier,
)
from discreet.privacy.frequency import (
    LaplaceOnCells,
    SignedSubsetSelection,
    UnaryEncoding,
    k_ary_response,
)
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
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport, l2_ball
from discreet.validation import FloatArray, InvalidInput

EPSILON, DELTA = 1.0, 1e-5
# Rows of a stream, and the dimension of vectors.
_ROWS, _DIMENSION = 12, 6
# Scores of the exponential mechanism are this many ranges apart, where it is nearly tight.
_DEPTH = 2.5
_VALUES = 3


def mechanism_checks() -> list[Check]:
    """One check or more for every mechanism."""
    made: list[Check] = []

    def add(name: str, trust_model: str, make: Callable[[], object], about: str) -> None:
        made.append(Check(name, "mechanism", trust_model, make, about=about))  # type: ignore[arg-type]

    add("gaussian", "joint", _gaussian, "one release, Gaussian noise")
    add("gaussian, secure", "joint", partial(_gaussian_stated, _secure), "the same, OpenDP")
    for stream in (
        Independent(),
        BinaryTree(_ROWS),
        Honaker(_ROWS),
        SquareRootToeplitz(_ROWS),
        BufferedToeplitz(_ROWS),
        Doubling(first_rows=4),
        GeometricEpochs(1.5, horizon=_ROWS),
    ):
        label = f"prefix_sums, {stream.name}"
        add(label, "joint", partial(_stream, stream), f"a stream of {_ROWS} rows")
    add("laplace", "local", _laplace, "one number, Laplace noise")
    add("laplace, secure", "local", partial(_laplace_stated, _secure), "the same, OpenDP")
    add("laplace_on_cells", "local", _cells, "U and V of every pair (bin, arm)")
    for bins, size in ((2, 1), (3, 2), (4, 2)):
        subset = SignedSubsetSelection(bins, size, EPSILON)
        label = f"signed_subset_selection, {size} of {bins}"
        add(label, "local", partial(_enumerated, subset), "every outcome of the code")
    many = SignedSubsetSelection.best(16, EPSILON)
    add("signed_subset_selection, trials", "local", partial(_subset, many, SimulatedNoise), "")
    add("signed_subset_selection, secure", "local", partial(_subset, many, _secure), "")
    add("k_ary_response", "local", partial(_enumerated, k_ary_response(4, EPSILON)), "")
    add("unary_encoding", "local", partial(_enumerated, UnaryEncoding(_VALUES, EPSILON)), "")
    add("privunit", "local", partial(_sphere, PrivUnit(_DIMENSION, 2.0)), "")
    add("privunit, one number", "local", partial(_sphere, PrivUnit(1, EPSILON)), "")
    add("l2_ball", "local", partial(_sphere, l2_ball(_DIMENSION, EPSILON)), "")
    add("gaussian_vector", "local", _gaussian_vector, "a report with Gaussian noise")
    add("exponential, outcomes", "joint", _selection_law, "the law that is drawn from")
    add("exponential, trials", "joint", partial(_selection, SimulatedNoise), "")
    add("exponential, secure", "joint", partial(_selection, _secure), "")
    return made


def _secure(seed: Seed) -> NoiseSource:
    """The deployed source; what it draws cannot be repeated, whatever the seed."""
    return SecureNoise()


def _check_secure(source: Callable[[Seed], NoiseSource]) -> None:
    if source is _secure and find_spec("opendp") is None:
        raise InvalidInput('OpenDP is not installed; run pip install "discreet[secure]".')


def _held(event: Event) -> Claim:
    delta = DELTA if isinstance(event, GaussianEvent) else 0.0
    return Claim(composed_epsilon([event], delta), delta)


def _vectors(first: bool, trials: int) -> FloatArray:
    """(trials, d) a vector of length 1, or its opposite."""
    one = np.ones(_DIMENSION) / np.sqrt(_DIMENSION)
    return np.tile(one if first else -one, (trials, 1))


def _gaussian() -> Additive:
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    return Additive(
        _held(GaussianEvent(multiplier)), (("opposite vectors", partial(_release, multiplier)),)
    )


def _release(multiplier: float, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return noise.add_gaussian(_vectors(first, trials), 2.0 * multiplier)


def _gaussian_stated(source: Callable[[Seed], NoiseSource]) -> Stated:
    _check_secure(source)
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    held = source(Seed(0)).gaussian_multiplier(1.0, multiplier, 1)
    return Stated(
        _held(GaussianEvent(held)),
        partial(_along, multiplier),
        "the number, of numbers 1 apart",
        source,
        "gaussian",
        0.0,
    )


def _along(multiplier: float, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    value = 0.5 if first else -0.5
    return noise.add_gaussian(np.full(trials, value), multiplier)


def _stream(mechanism: PrefixMechanism) -> Additive:
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    probe = PrivateStream(mechanism, 1, 1.0, multiplier, SimulatedNoise(0))
    sides: tuple[tuple[str, Side], ...] = tuple(
        (f"row {place + 1} of {_ROWS}", partial(_rows, mechanism, multiplier, place))
        for place in places(_ROWS)
    )
    return Additive(_held(GaussianEvent(probe.achieved_multiplier)), sides, trials_last=True)


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


def _laplace() -> Additive:
    return Additive(
        Claim(EPSILON), (("numbers 1 apart", _noisy_number),), bound="counts", threshold=None
    )


def _noisy_number(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return noise.add_laplace(np.full((trials, 1), float(first)), 1.0 / EPSILON)


def _laplace_stated(source: Callable[[Seed], NoiseSource]) -> Stated:
    _check_secure(source)
    return Stated(Claim(EPSILON), _number, "the number, of numbers 1 apart", source)


def _number(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return _noisy_number(first, trials, noise)[:, 0]


def _cells() -> Additive:
    mechanism = LaplaceOnCells(4, EPSILON)
    held = Claim(mechanism.sensitivity / mechanism.scale)
    sides = (("another pair, rewards 1", partial(_cell, mechanism)),)
    return Additive(held, sides, bound="counts", threshold=None)


def _cell(mechanism: LaplaceOnCells, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return mechanism.privatise(np.full(trials, 0 if first else 1), np.ones(trials), noise)


def _enumerated(mechanism: SignedSubsetSelection | UnaryEncoding) -> Exact:
    """The worst two of all values (bin, sign)."""
    bins = min(mechanism.bins, 2)
    values = [(bin_, sign) for bin_ in range(bins) for sign in (1, -1)]
    laws = [law_of(partial(_word, mechanism, *value)) for value in values]
    worst = max(exact_epsilon(one, two) for one in laws for two in laws)
    return Exact(Claim(mechanism.epsilon), worst, f"all {len(laws[0])} outcomes of a report")


def _word(
    mechanism: SignedSubsetSelection | UnaryEncoding, own: int, sign: int, noise: NoiseSource
) -> bytes:
    made = mechanism.privatise(np.array([own]), np.array([sign], dtype=np.int8), noise)
    return b"".join(part.tobytes() for part in (made if isinstance(made, tuple) else (made,)))


def _subset(mechanism: SignedSubsetSelection, source: Callable[[Seed], NoiseSource]) -> Stated:
    _check_secure(source)
    return Stated(
        Claim(mechanism.epsilon),
        partial(_contains, mechanism),
        "likelihood ratio of a report; another bin and another sign",
        source,
    )


def _contains(
    mechanism: SignedSubsetSelection, first: bool, trials: int, noise: NoiseSource
) -> FloatArray:
    """The log-likelihood ratio over epsilon: is (0, +) in the report, and (1, -)?"""
    own, sign = (0, 1) if first else (1, -1)
    signs = np.full(trials, sign, dtype=np.int8)
    chosen, shown = mechanism.privatise(np.full(trials, own), signs, noise)
    one = ((chosen == 0) & (shown == 1)).any(axis=1)
    two = ((chosen == 1) & (shown == -1)).any(axis=1)
    ratio: FloatArray = one.astype(np.float64) - two
    return ratio


def _sphere(mechanism: VectorReport) -> Stated:
    held = _held(mechanism.event(SimulatedNoise.name))
    words = "cosine with the vector, of opposite vectors"
    return Stated(held, partial(_cosine, mechanism), words)


def _cosine(mechanism: VectorReport, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    vectors = _vectors(first, trials)
    if mechanism.dimension == 1:
        vectors = np.sign(vectors[:, :1])
    along: FloatArray = mechanism.privatise(vectors, noise).sum(axis=1)
    return along


def _gaussian_vector() -> Additive:
    mechanism = GaussianVector(_DIMENSION, EPSILON, DELTA)
    held = _held(mechanism.event(SimulatedNoise.name))
    return Additive(held, (("opposite vectors", partial(_reported, mechanism)),))


def _reported(mechanism: VectorReport, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return mechanism.privatise(_vectors(first, trials), noise)


def _scores(first: bool, depth: float) -> FloatArray:
    """(1, 2) scores whose difference between the two data sets has range 1."""
    return np.array([[-depth if first else -depth - 1.0, 0.0]])


def _selection_law() -> Exact:
    mechanism = ExponentialMechanism(EPSILON)
    worst = 0.0
    for depth in (0.0, _DEPTH, 20.0):
        one, two = (
            dict(enumerate(mechanism.probabilities(_scores(first, depth), 1.0)[0]))
            for first in (True, False)
        )
        worst = max(worst, exact_epsilon(one, two))
    return Exact(Claim(EPSILON), worst, "both outcomes; scores that differ by their range")


def _selection(source: Callable[[Seed], NoiseSource]) -> Stated:
    _check_secure(source)
    words = "which option was drawn; scores that differ by their range"
    return Stated(Claim(EPSILON), _drawn, words, source)


def _drawn(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    scores = np.repeat(_scores(first, _DEPTH), trials, axis=0)
    chosen = ExponentialMechanism(EPSILON).select(scores, 1.0, noise)
    drawn: FloatArray = (chosen == 0).astype(np.float64)
    return drawn
