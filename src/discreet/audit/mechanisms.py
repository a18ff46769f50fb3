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

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from discreet.audit.enumeration import exact_epsilon, law_of
from discreet.audit.exact import Claim, Exact, Facts, Promise, exact_of, promised
from discreet.audit.games import AdditiveGame, Check, Game, Seed, Stated
from discreet.audit.releases import stream_checks
from discreet.audit.samplers import secure, selection_checks, tested
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent, composed_epsilon
from discreet.privacy.budget import TrustModel
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
_DIMENSION = 6
_VALUES = 3
# Of promises that are as tight as each other the first is shown: that of the trials.
_EPSILONS = (EPSILON, 0.1, 16.0)

Source = Callable[[Seed], NoiseSource]
Finite = SignedSubsetSelection | UnaryEncoding


def mechanism_checks() -> list[Check]:
    """One check or more for every mechanism."""
    return [
        _check("gaussian", "joint", _gaussian, _gaussian_trials, "one release, Gaussian noise"),
        _check("gaussian, secure", "joint", None, _gaussian_secure, "the same, OpenDP"),
        *stream_checks(),
        _check("laplace", "local", _laplace, _laplace_trials, "one number, Laplace noise"),
        _check("laplace, secure", "local", None, _laplace_secure, "the same, OpenDP"),
        *_finite_checks(),
        *_vector_checks(),
        *selection_checks(),
        _check("noise, simulated", "none", lambda: tested(SimulatedNoise(5)), None, _DRAWS),
        _check("noise, secure", "none", lambda: tested(secure(Seed(0))), None, _DRAWS),
    ]


_DRAWS = "draws of each kind"


def _check(
    name: str,
    trust_model: TrustModel,
    exact: Callable[[], Exact] | None,
    game: Callable[..., Game] | None = None,
    about: str = "",
) -> Check:
    return Check(name, "mechanism", trust_model, exact, game, about=about)


def _delta(event: Event) -> float:
    return DELTA if isinstance(event, GaussianEvent) else 0.0


def _held(event: Event) -> Claim:
    return Claim(composed_epsilon([event], _delta(event)), _delta(event))


def _vectors(first: bool, trials: int, dimension: int = _DIMENSION) -> FloatArray:
    """(trials, d) a vector of length 1, or its opposite."""
    vector = np.ones(dimension) / np.sqrt(dimension)
    return np.tile(vector if first else -vector, (trials, 1))


# Noise that is added.


def _gaussian() -> Exact:
    groups = [
        [(f"a vector, epsilon {epsilon:g}", (epsilon, True)), ("its opposite", (epsilon, False))]
        for epsilon in _EPSILONS
    ]

    def release(data: tuple[float, bool], facts: Facts) -> Promise:
        epsilon, first = data
        multiplier = gaussian_noise_multiplier(epsilon, DELTA)
        noisy = SimulatedNoise(1).add_gaussian(_vectors(first, 1), 2.0 * multiplier)
        facts.add("the release", noisy.tobytes())
        return promised(Claim(epsilon, DELTA), [GaussianEvent(multiplier)])

    return exact_of(release, *groups)


def _gaussian_trials(exact: Exact) -> Game:
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)

    def side(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
        return noise.add_gaussian(_vectors(first, trials), 2.0 * multiplier)

    held = _held(GaussianEvent(multiplier))
    return AdditiveGame(claim=held, attack="likelihood ratio; opposite vectors", side=side)


def _gaussian_secure(exact: None) -> Game:
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)

    def number(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
        return noise.add_gaussian(np.full(trials, 0.5 if first else -0.5), multiplier)

    achieved = secure(Seed(0)).gaussian_multiplier(1.0, multiplier, 1)
    return Stated(
        claim=_held(GaussianEvent(achieved)),
        attack="the number, of numbers 1 apart",
        statistic=number,
        source=secure,
        bound="gaussian",
        threshold=0.0,
    )


def _laplace() -> Exact:
    def number(value: float, facts: Facts) -> Promise:
        noisy = SimulatedNoise(3).add_laplace(np.array([value]), 1.0 / EPSILON)
        facts.add("the number", noisy.tobytes())
        return promised(Claim(EPSILON), [PureEvent(EPSILON)])

    return exact_of(number, [("0", 0.0), ("1", 1.0)])


def _noisy_number(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
    return noise.add_laplace(np.full((trials, 1), float(first)), 1.0 / EPSILON)


def _laplace_trials(exact: Exact) -> Game:
    words = "likelihood ratio; numbers 1 apart"
    return _counted(exact.claim, words, _noisy_number)


def _counted(claim: Claim, words: str, side: Callable[..., FloatArray]) -> Game:
    """A likelihood ratio of noise that is not Gaussian."""
    return AdditiveGame(claim=claim, attack=words, side=side, bound="counts", threshold=None)


def _laplace_secure(exact: None) -> Game:
    return Stated(
        claim=Claim(EPSILON),
        attack="the number, of numbers 1 apart",
        statistic=lambda first, trials, noise: _noisy_number(first, trials, noise)[:, 0],
        source=secure,
    )


# Reports over a finite alphabet, and of a cell.


def _finite_checks() -> Iterator[Check]:
    about = "U and V of every pair (bin, arm)"
    yield _check("laplace_on_cells", "local", _cells, _cells_trials, about)
    for bins, size in ((2, 1), (3, 2), (4, 2)):
        name = f"signed_subset_selection, {size} of {bins}"
        exact = partial(enumerated, SignedSubsetSelection(bins, size, EPSILON))
        yield _check(name, "local", exact, None, "every outcome of the code")
    game = partial(subset_trials, SignedSubsetSelection.best(16, EPSILON))
    name, simulated = "signed_subset_selection, many bins", partial(game, SimulatedNoise)
    yield _check(name, "local", _subsets, simulated, "up to 200 bins")
    yield _check("signed_subset_selection, secure", "local", None, partial(game, secure))
    yield _check("k_ary_response", "local", partial(enumerated, k_ary_response(4, EPSILON)))
    yield _check("unary_encoding", "local", partial(enumerated, UnaryEncoding(_VALUES, EPSILON)))


def _cells() -> Exact:
    groups = []
    for epsilon, partly in product(_EPSILONS, (False, True)):
        mechanism = LaplaceOnCells(4, epsilon, partly)
        own = (-1, 0, 1) if partly else (0, 1, 3)
        groups.append(
            [
                (f"cell {cell}, reward {reward:g}", (mechanism, cell, reward))
                for cell, reward in product(own, (0.0, 0.5, 1.0))
            ]
        )

    def report(data: tuple[LaplaceOnCells, int, float], facts: Facts) -> Promise:
        mechanism, cell, reward = data
        noisy = mechanism.privatise(np.array([cell]), np.array([reward]), SimulatedNoise(4))
        facts.add("the report", noisy.tobytes())
        event = PureEvent(mechanism.sensitivity / mechanism.scale)
        return promised(Claim(mechanism.epsilon), [event])

    return exact_of(report, *groups)


def _cells_trials(exact: Exact) -> Game:
    mechanism = LaplaceOnCells(4, EPSILON)

    def side(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
        return mechanism.privatise(np.full(trials, 0 if first else 1), np.ones(trials), noise)

    return _counted(Claim(EPSILON), "likelihood ratio; another pair, rewards 1", side)


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

    def report(data: tuple[SignedSubsetSelection, int, int], facts: Facts) -> Promise:
        mechanism, own, sign = data
        facts.add("the report", _word(mechanism, own, sign, SimulatedNoise(6)))
        return promised(Claim(mechanism.epsilon), [PureEvent(mechanism.epsilon)])

    return exact_of(report, *groups)


def enumerated(mechanism: Finite) -> Exact:
    """The worst two of all values (bin, sign), from every outcome of the code."""
    bins = min(mechanism.bins, 2)
    laws = [law_of(partial(_word, mechanism, own, sign)) for own in range(bins) for sign in (1, -1)]
    worst = max(exact_epsilon(law, other) for law in laws for other in laws)
    return Exact(Claim(mechanism.epsilon), worst, f"all {len(laws[0])} outcomes of a report")


def _word(mechanism: Finite, own: int, sign: int, noise: NoiseSource) -> bytes:
    report = mechanism.privatise(np.array([own]), np.array([sign], dtype=np.int8), noise)
    return b"".join(part.tobytes() for part in (report if isinstance(report, tuple) else (report,)))


def subset_trials(mechanism: SignedSubsetSelection, source: Source, exact: Exact | None) -> Game:
    """The log-likelihood ratio over epsilon: is (0, +) in the report, and (1, -)?"""

    def contains(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
        own, sign = (0, 1) if first else (1, -1)
        signs = np.full(trials, sign, dtype=np.int8)
        chosen, shown = mechanism.privatise(np.full(trials, own), signs, noise)
        own = ((chosen == 0) & (shown == 1)).any(axis=1)
        others = ((chosen == 1) & (shown == -1)).any(axis=1)
        ratio: FloatArray = own.astype(np.float64) - others
        return ratio

    source(Seed(0))
    words = "likelihood ratio of a report; another bin and another sign"
    return Stated(claim=Claim(mechanism.epsilon), attack=words, statistic=contains, source=source)


# Reports of vectors.


def _vector_checks() -> Iterator[Check]:
    makers: tuple[tuple[str, Callable[[float], VectorReport], float], ...] = (
        ("privunit", partial(PrivUnit, _DIMENSION), 2.0),
        ("privunit, one number", partial(PrivUnit, 1), EPSILON),
        ("privunit, many numbers", partial(PrivUnit, 40), 2.0),
        ("l2_ball", partial(l2_ball, _DIMENSION), EPSILON),
    )
    for name, make, epsilon in makers:
        game = partial(_cosine_trials, make(epsilon), SimulatedNoise)
        yield _check(name, "local", partial(_vectors_of, make, epsilon), game)
    secretly = partial(_cosine_trials, PrivUnit(2, 2.0), secure)
    yield _check("privunit, secure", "local", None, secretly)
    exact = partial(_vectors_of, partial(GaussianVector, _DIMENSION, delta=DELTA), EPSILON)
    yield _check("gaussian_vector", "local", exact, _vector_trials)


def _vectors_of(make: Callable[[float], VectorReport], asked: float) -> Exact:
    """Vectors of length 1 and shorter, opposite, orthogonal and at random, and 0."""
    groups = []
    for epsilon in (asked, 0.1, 16.0):
        mechanism = make(epsilon)
        rng = np.random.default_rng(8)
        ends = np.eye(mechanism.dimension)[: min(2, mechanism.dimension)]
        some = rng.standard_normal((3, mechanism.dimension))
        some /= np.linalg.norm(some, axis=1)[:, None]
        odd = [-ends[0], 5.0 * ends[-1], 0.3 * some[0], some[1], 0.9 * some[2], 0.0 * ends[0]]
        groups.append(
            [
                (f"a vector of length {np.linalg.norm(v):.3g}, epsilon {epsilon:g}", (mechanism, v))
                for v in (*ends, *odd)
            ]
        )

    def report(data: tuple[VectorReport, FloatArray], facts: Facts) -> Promise:
        mechanism, vector = data
        facts.add("the report", mechanism.privatise(vector[None], SimulatedNoise(7)).tobytes())
        event = mechanism.event(SimulatedNoise.name)
        return promised(Claim(mechanism.epsilon, _delta(event)), [event])

    return exact_of(report, *groups)


def _cosine_trials(mechanism: VectorReport, source: Source, exact: Exact | None) -> Game:
    def cosine(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
        vectors = _vectors(first, trials, mechanism.dimension)
        along: FloatArray = mechanism.privatise(vectors, noise).sum(axis=1)
        return along

    source(Seed(0))
    held = _held(mechanism.event(SimulatedNoise.name))
    words = "cosine with the vector, of opposite vectors"
    return Stated(claim=held, attack=words, statistic=cosine, source=source)


def _vector_trials(exact: Exact) -> Game:
    mechanism = GaussianVector(_DIMENSION, EPSILON, DELTA)

    def side(first: bool, trials: int, noise: NoiseSource) -> FloatArray:
        return mechanism.privatise(_vectors(first, trials), noise)

    held = _held(mechanism.event(SimulatedNoise.name))
    return AdditiveGame(claim=held, attack="likelihood ratio; opposite vectors", side=side)
