"""The privacy mechanisms of the library, by exact replay and by the best test against each.

| mechanism                           | exact replay                     | score of trials     |
|-------------------------------------|----------------------------------|---------------------|
| Gaussian and Laplace noise, streams | what was handed in, over scale   | likelihood ratio    |
| reports over a finite alphabet      | coins of the code; all outcomes  | likelihood ratio    |
| PrivUnit, the l2 ball               | coins, masses of caps            | cosine with vector  |
| exponential mechanism               | integers at which options change | the option drawn    |
| noise sources                       | tests of their draws             |                     |

For two opposite vectors the cosine is as good as the likelihood ratio of PrivUnit, of which it is a
monotone function. The SecureNoise forms draw from OpenDP and from the operating system.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from discreet.audit.enumeration import exact_epsilon, law_of
from discreet.audit.exact import Facts, Promise
from discreet.audit.games import Check, Claim, Exact, Game, Seed
from discreet.audit.played import Additive, Stated
from discreet.audit.selections import selection_checks
from discreet.audit.sources import secure, tested
from discreet.audit.streams import stream_checks
from discreet.audit.values import exact_of, promised
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent, composed_epsilon
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.frequency import (
    LaplaceOnCells,
    SignedSubsetSelection,
    UnaryEncoding,
    k_ary_response,
)
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport, l2_ball
from discreet.validation import FloatArray

EPSILON, DELTA = 1.0, 1e-5
# Rows of a stream, of a long one, and the dimension of vectors.
_ROWS, _LONG, _DIMENSION = 12, 50, 6
# Scores of the exponential mechanism are this many ranges apart, where it is nearly tight.
_DEPTH = 2.5
_VALUES = 3
# Of promises that are as tight as each other the first is shown: that of the trials.
_EPSILONS = (EPSILON, 0.1, 16.0)


def mechanism_checks() -> list[Check]:
    """One check or more for every mechanism."""
    found: list[Check] = []

    def add(
        name: str,
        trust_model: str,
        exact: Callable[[], Exact] | None,
        game: Callable[..., Game] | None = None,
        about: str = "",
    ) -> None:
        found.append(Check(name, "mechanism", trust_model, exact, game, about=about))  # type: ignore[arg-type]

    add("gaussian", "joint", _gaussian, _gaussian_trials, "one release, Gaussian noise")
    add("gaussian, secure", "joint", None, _gaussian_stated, "the same, OpenDP")
    found.extend(stream_checks())
    add("laplace", "local", _laplace, _laplace_trials, "one number, Laplace noise")
    add("laplace, secure", "local", None, _laplace_stated, "the same, OpenDP")
    add("laplace_on_cells", "local", _cells, _cells_trials, "U and V of every pair (bin, arm)")
    for bins, size in ((2, 1), (3, 2), (4, 2)):
        subset = SignedSubsetSelection(bins, size, EPSILON)
        label = f"signed_subset_selection, {size} of {bins}"
        add(label, "local", partial(_enumerated, subset), None, "every outcome of the code")
    many = SignedSubsetSelection.best(16, EPSILON)
    label = "signed_subset_selection, many bins"
    add(label, "local", _subsets, partial(_subset, many, SimulatedNoise), "up to 200 bins")
    add("signed_subset_selection, secure", "local", None, partial(_subset, many, secure), "")
    add("k_ary_response", "local", partial(_enumerated, k_ary_response(4, EPSILON)))
    add("unary_encoding", "local", partial(_enumerated, UnaryEncoding(_VALUES, EPSILON)))
    for name, make_vector, asked in (
        ("privunit", partial(PrivUnit, _DIMENSION), 2.0),
        ("privunit, one number", partial(PrivUnit, 1), EPSILON),
        ("privunit, many numbers", partial(PrivUnit, 40), 2.0),
        ("l2_ball", partial(l2_ball, _DIMENSION), EPSILON),
    ):
        exact = partial(_vectors_of, make_vector, asked)
        add(name, "local", exact, partial(_sphere, make_vector(asked), SimulatedNoise))
    add("privunit, secure", "local", None, partial(_sphere, PrivUnit(2, 2.0), secure))
    gaussian = GaussianVector(_DIMENSION, EPSILON, DELTA)
    exact = partial(
        _vectors_of, lambda epsilon: GaussianVector(_DIMENSION, epsilon, DELTA), EPSILON
    )
    add("gaussian_vector", "local", exact, partial(_vector_trials, gaussian))
    found.extend(selection_checks())
    add("noise, simulated", "none", lambda: tested(SimulatedNoise(5)), None, "draws of each kind")
    add("noise, secure", "none", lambda: tested(secure(Seed(0))), None, "draws of each kind")
    return found


def _delta(event: Event) -> float:
    return DELTA if isinstance(event, GaussianEvent) else 0.0


def _held(event: Event) -> Claim:
    return Claim(composed_epsilon([event], _delta(event)), _delta(event))


def _vectors(first: bool, trials: int) -> FloatArray:
    """(trials, d) a vector of length 1, or its opposite."""
    one = np.ones(_DIMENSION) / np.sqrt(_DIMENSION)
    return np.tile(one if first else -one, (trials, 1))


def _gaussian() -> Exact:
    groups = [
        [(f"a vector, epsilon {epsilon:g}", (epsilon, 1.0)), ("its opposite", (epsilon, -1.0))]
        for epsilon in _EPSILONS
    ]
    return exact_of(_release, *groups)


def _release(data: tuple[float, float], facts: Facts) -> Promise:
    epsilon, sign = data
    multiplier = gaussian_noise_multiplier(epsilon, DELTA)
    noisy = SimulatedNoise(1).add_gaussian(sign * _vectors(True, 1), 2.0 * multiplier)
    facts.add("the release", noisy.tobytes())
    return promised(Claim(epsilon, DELTA), [GaussianEvent(multiplier)])


def _gaussian_trials(exact: Exact) -> Additive:
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    held, side = _held(GaussianEvent(multiplier)), partial(_opposite, multiplier)
    return Additive(held, "opposite vectors", side)


def _opposite(multiplier: float, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return noise.add_gaussian(_vectors(first, trials), 2.0 * multiplier)


def _gaussian_stated(exact: None) -> Stated:
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    held = secure(Seed(0)).gaussian_multiplier(1.0, multiplier, 1)
    return Stated(
        _held(GaussianEvent(held)),
        partial(_along, multiplier),
        "the number, of numbers 1 apart",
        secure,
        "gaussian",
        0.0,
    )


def _along(multiplier: float, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    value = 0.5 if first else -0.5
    return noise.add_gaussian(np.full(trials, value), multiplier)


def _laplace() -> Exact:
    def code(value: float, facts: Facts) -> Promise:
        noisy = SimulatedNoise(3).add_laplace(np.array([value]), 1.0 / EPSILON)
        facts.add("the number", noisy.tobytes())
        return promised(Claim(EPSILON), [PureEvent(EPSILON)])

    return exact_of(code, [("0", 0.0), ("1", 1.0)])


def _laplace_trials(exact: Exact) -> Additive:
    return Additive(exact.claim, "numbers 1 apart", _noisy_number, bound="counts", threshold=None)


def _noisy_number(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return noise.add_laplace(np.full((trials, 1), float(first)), 1.0 / EPSILON)


def _laplace_stated(exact: None) -> Stated:
    return Stated(Claim(EPSILON), _number, "the number, of numbers 1 apart", secure)


def _number(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return _noisy_number(first, trials, noise)[:, 0]


def _cells() -> Exact:
    groups = []
    for epsilon, partial_ in product(_EPSILONS, (False, True)):
        mechanism = LaplaceOnCells(4, epsilon, partial_)
        own = (-1, 0, 1) if partial_ else (0, 1, 3)
        groups.append(
            [
                (f"cell {cell}, reward {reward:g}", (mechanism, cell, reward))
                for cell, reward in product(own, (0.0, 0.5, 1.0))
            ]
        )
    return exact_of(_celled, *groups)


def _celled(data: tuple[LaplaceOnCells, int, float], facts: Facts) -> Promise:
    mechanism, cell, reward = data
    noisy = mechanism.privatise(np.array([cell]), np.array([reward]), SimulatedNoise(4))
    facts.add("the report", noisy.tobytes())
    event = PureEvent(mechanism.sensitivity / mechanism.scale)
    return promised(Claim(mechanism.epsilon), [event])


def _cells_trials(exact: Exact) -> Additive:
    side = partial(_cell, LaplaceOnCells(4, EPSILON))
    held, words = Claim(EPSILON), "another pair, rewards 1"
    return Additive(held, words, side, bound="counts", threshold=None)


def _cell(mechanism: LaplaceOnCells, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return mechanism.privatise(np.full(trials, 0 if first else 1), np.ones(trials), noise)


def _subsets() -> Exact:
    """Subset selection of many sizes, from the coins of its code."""
    groups = []
    for bins, epsilon in product((1, 2, 7, 16, 64, 200), (*_EPSILONS, 4.0)):
        best = SignedSubsetSelection.best(bins, epsilon)
        for size in {1, best.size, max(1, bins // 2), bins}:
            mechanism = SignedSubsetSelection(bins, size, epsilon)
            words = f"{size} of {bins} bins, epsilon {epsilon:g}"
            ends = [(0, 1), (0, -1), (bins - 1, 1)]
            groups.append(
                [(f"{words}, bin {own}, sign {sign}", (mechanism, own, sign)) for own, sign in ends]
            )
    return exact_of(_chosen, *groups)


def _chosen(data: tuple[SignedSubsetSelection, int, int], facts: Facts) -> Promise:
    mechanism, own, sign = data
    facts.add("the report", _word(mechanism, own, sign, SimulatedNoise(6)))
    return promised(Claim(mechanism.epsilon), [PureEvent(mechanism.epsilon)])


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


def _subset(
    mechanism: SignedSubsetSelection, source: Callable[[Seed], NoiseSource], exact: Exact | None
) -> Stated:
    source(Seed(0))
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


def _vectors_of(make: Callable[[float], VectorReport], asked: float) -> Exact:
    """Vectors of length 1 and shorter, opposite, orthogonal and at random, and 0."""
    groups = []
    for epsilon in (asked, 0.1, 16.0):
        mechanism = make(epsilon)
        rng = np.random.default_rng(8)
        ends = np.eye(mechanism.dimension)[: min(2, mechanism.dimension)]
        some = rng.standard_normal((3, mechanism.dimension))
        some /= np.linalg.norm(some, axis=1)[:, None]
        vectors = [
            *ends,
            -ends[0],
            5.0 * ends[-1],
            0.3 * some[0],
            some[1],
            0.9 * some[2],
            0.0 * ends[0],
        ]
        groups.append(
            [
                (
                    f"a vector of length {np.linalg.norm(one):.3g}, epsilon {epsilon:g}",
                    (mechanism, one),
                )
                for one in vectors
            ]
        )
    return exact_of(_hidden, *groups)


def _hidden(data: tuple[VectorReport, FloatArray], facts: Facts) -> Promise:
    mechanism, vector = data
    report = mechanism.privatise(vector[None], SimulatedNoise(7))
    facts.add("the report", report.tobytes())
    event = mechanism.event(SimulatedNoise.name)
    return promised(Claim(mechanism.epsilon, _delta(event)), [event])  # type: ignore[attr-defined]


def _sphere(
    mechanism: VectorReport, source: Callable[[Seed], NoiseSource], exact: Exact | None
) -> Stated:
    source(Seed(0))
    held = _held(mechanism.event(SimulatedNoise.name))
    words = "cosine with the vector, of opposite vectors"
    return Stated(held, partial(_cosine, mechanism), words, source)


def _cosine(mechanism: VectorReport, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    one = np.full(mechanism.dimension, 1.0 / np.sqrt(mechanism.dimension))
    vectors = np.tile(one if first else -one, (trials, 1))
    along: FloatArray = mechanism.privatise(vectors, noise).sum(axis=1)
    return along


def _vector_trials(mechanism: GaussianVector, exact: Exact) -> Additive:
    held = _held(mechanism.event(SimulatedNoise.name))
    return Additive(held, "opposite vectors", partial(_reported, mechanism))


def _reported(mechanism: VectorReport, first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return mechanism.privatise(_vectors(first, trials), noise)
