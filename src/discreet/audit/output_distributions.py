"""The exact law of code that draws, and whether what noise sources draw has its law.

**Enumeration.** `EnumeratedNoise` stands in for a noise source: code that draws from it is run once
for every combination of what it can draw, and each run has a known probability. So the law of what
the code returns is known, of the code itself and not of a formula beside it.

| drawn            | outcomes                                                       |
|------------------|----------------------------------------------------------------|
| a coin           | True with its probability, False otherwise; certain ones are 1 |
| below(bound)     | 0 .. bound - 1, equally likely                                 |
| keys of m words  | all m! orders of m words (ties have probability below m^2/2^64)|

Between two laws P and Q epsilon at delta is the least one with

    sum over outcomes of max(P - e^epsilon Q, 0) <= delta,   and the same with P and Q exchanged,

which for delta = 0 is the largest log-ratio of two probabilities.

**Classes.** Larger mechanisms run on many copies of one person, with every outcome of their coins
and whole numbers enumerated and all else drawn from a seed. What they do with them tells the class
of a report, so their law is known from the coins that they toss, not from the epsilon that they
were made with:

| mechanism        | classes of reports                          | within a class                  |
|------------------|---------------------------------------------|---------------------------------|
| subset selection | the truth is in; its bin with another sign; | all sets of a class are equally |
|                  | neither                                     | likely, by exchange of bins     |
| PrivUnit         | in the cap of the vector; outside           | uniform, by rotation            |
| unary encoding   | every outcome of the bits of two values     | bits of other values are alike  |

That points of PrivUnit are uniform is compared with the masses of caps.

Code may ask whether a source is secure, so mechanisms that draw from one are enumerated with a
source that says so.

**Sources.** Exact replay takes the law of additive noise from its scale; here the draws of a source
are tested, by tests that err less than once in 10^9: their distribution (Kolmogorov and Smirnov)
and variance, that no two are the same, and that they depend neither on others, however far apart
in the stream, nor on those of another kind. A scale that is wrong by a tenth is found among 20,000
draws. Reports of many people, made one by one and together, are tested for what they share, too.

Of `SecureNoise` it is also known where its randomness comes from. With stand-ins in the place of
the operating system and of OpenDP, which hand out numbers that never come twice, each of 200,000
draws must use up a number of its own, and draw at the scale that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import permutations, product
from typing import Any, NoReturn, TypeVar
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, ndtr
from scipy.stats import kstest, laplace, rankdata

from discreet.privacy.frequency import SignedSubsetSelection, UnaryEncoding
from discreet.privacy.noise import (
    NoiseSource,
    Probability,
    SecureNoise,
    Shape,
    SimulatedNoise,
    Words,
)
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray, IntArray, InvalidInput

Outcome = TypeVar("Outcome", bound=Hashable)

# Runs of the code; a few seconds of work.
MOST_RUNS = 50_000
# Orders of more keys than this are too many.
_MOST_KEYS = 7
_LARGEST = 700.0


class NotFinite(InvalidInput):
    """The code drew something that takes infinitely, or too, many values."""


class AsSecure(SecureNoise):
    """Draws from another source, and says that it is secure."""

    def __init__(self, source: NoiseSource) -> None:
        self.keys, self.below, self.coins = source.keys, source.below, source.coins  # type: ignore[method-assign]
        self.add_laplace, self.add_gaussian = source.add_laplace, source.add_gaussian  # type: ignore[method-assign]


class EnumeratedNoise(SimulatedNoise):
    """Hands out the outcomes of one path, and notes how many others there were.

    Attributes:
        probability: of what was handed out since `begin`.
    """

    def __init__(self) -> None:
        super().__init__(0)
        # Of each choice on the path, which was taken and of how many.
        self._path: list[tuple[int, int]] = []
        self._place = 0
        self.probability = 1.0

    def begin(self) -> None:
        """Start the next run on the present path."""
        self._place = 0
        self.probability = 1.0

    def advance(self) -> bool:
        """Go on to the next path; whether there is one."""
        while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
            self._path.pop()
        if not self._path:
            return False
        taken, count = self._path[-1]
        self._path[-1] = taken + 1, count
        return True

    def _branch(self, count: int) -> int:
        if self._place == len(self._path):
            self._path.append((0, count))
        self._place += 1
        return self._path[self._place - 1][0]

    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        chances = np.broadcast_to(np.asarray(probability, dtype=np.float64), shape)
        shown = chances >= 1.0
        for place in zip(*np.nonzero((chances > 0.0) & ~shown), strict=True):
            shown[place] = self._branch(2) == 0
            self.probability *= chances[place] if shown[place] else 1.0 - chances[place]
        return shown

    def below(self, bound: int, shape: Shape) -> IntArray:
        drawn = np.zeros(shape, dtype=np.int64)
        for place in np.ndindex(drawn.shape if bound > 1 else 0):
            drawn[place] = self._branch(int(bound))
            self.probability /= bound
        return drawn

    def keys(self, shape: Shape) -> Words:
        count = int(np.prod(shape))
        if count > _MOST_KEYS:
            self._refuse(f"{count} keys")
        orders = list(permutations(range(1, count + 1)))
        words = np.array(orders[self._branch(len(orders))], dtype=np.uint64)
        self.probability /= len(orders)
        return words.reshape(shape)

    def add_laplace(self, values: FloatArray, scale: float) -> FloatArray:
        self._refuse("Laplace noise")

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        self._refuse("Gaussian noise")

    def _refuse(self, what: str) -> NoReturn:
        raise NotFinite(
            f"the code drew {what}, which takes too many values to go through; attack it by trials."
        )


def law_of(
    run: Callable[[NoiseSource], Hashable], most: int = MOST_RUNS, secure: bool = False
) -> dict[Hashable, float]:
    """The probability of everything that `run` can return.

    Args:
        run: code that draws from the source it is given, and from nowhere else.
        most: the number of runs after which it gives up.
        secure: whether the source says that it is.

    Raises:
        NotFinite: if the code draws additive noise, too many keys, or takes more runs.
    """
    noise = EnumeratedNoise()
    law: dict[Hashable, float] = {}
    for _ in range(most):
        noise.begin()
        outcome = run(AsSecure(noise) if secure else noise)
        law[outcome] = law.get(outcome, 0.0) + noise.probability
        if not noise.advance():
            return law
    raise NotFinite(f"the code has more than {most} outcomes; attack it by trials.")


def exact_epsilon(
    first: Mapping[Outcome, float], second: Mapping[Outcome, float], delta: float = 0.0
) -> float:
    """The least epsilon at `delta` between two laws; infinity if there is none.

    Args:
        first: probabilities of outcomes on the first data set.
        second: probabilities of outcomes on the second.
        delta: at least 0 and below 1.
    """
    outcomes = list({*first, *second})
    p = np.array([first.get(outcome, 0.0) for outcome in outcomes])
    q = np.array([second.get(outcome, 0.0) for outcome in outcomes])
    return max(_one_way(p, q, delta), _one_way(q, p, delta))


def _one_way(p: FloatArray, q: FloatArray, delta: float) -> float:
    if delta == 0.0:
        possible = p > 0.0
        impossible = (q[possible] == 0.0).any()
        return math.inf if impossible else float(np.log(p[possible] / q[possible]).max())

    def excess(epsilon: float) -> float:
        return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    return math.inf if excess(_LARGEST) > 0.0 else float(brentq(excess, 0.0, _LARGEST, xtol=1e-13))


# Classes.

# Points on the sphere for each outcome of the coins.
_POINTS = 400
# The largest distance of empirical masses from uniform, times sqrt(points): exceeded with a
# probability of 2 exp(-2 x^2) < 1e-13 (Massart 1990); the seed is fixed besides.
_UNIFORM = 4.0


class _Lots(SimulatedNoise):
    """Gives every row, from `first` on, its own outcome of the first coins and whole numbers."""

    def __init__(self, coins: int, below: int, first: int = 0) -> None:
        super().__init__(11)
        self._first = first
        self._coins, self._bound = coins, below
        self._tossed: list[tuple[NDArray[np.bool_], FloatArray]] = []
        self._divided = False

    def probabilities(self, rows: int) -> FloatArray:
        """(rows,) of the outcomes that were handed out.

        Raises:
            InvalidInput: if the mechanism did not ask for all that were to be enumerated.
        """
        chances = np.full(rows, 1.0 / self._bound if self._divided else 1.0)
        for shown, chance in self._tossed:
            chances *= np.where(shown, chance, 1.0 - chance)
        if len(self._tossed) < self._coins or self._divided < bool(self._bound):
            raise InvalidInput(
                f"the mechanism tossed {len(self._tossed)} coins, not {self._coins}; its law is "
                "not known to the audit."
            )
        return chances

    def coins(self, probability: Probability, shape: Shape) -> NDArray[np.bool_]:
        if len(self._tossed) == self._coins:
            return super().coins(probability, shape)
        rows = self._first + np.arange(int(np.prod(shape)))
        shown: NDArray[np.bool_] = (rows >> len(self._tossed)) % 2 == 1
        chance = np.clip(np.asarray(probability, dtype=np.float64), 0.0, 1.0)
        self._tossed.append((shown, np.broadcast_to(chance, shape)))
        return shown

    def below(self, bound: int, shape: Shape) -> IntArray:
        if self._divided or not self._bound:
            return super().below(bound, shape)
        self._divided = True
        if bound != self._bound:
            raise InvalidInput(
                f"the first whole number was below {bound}, not {self._bound}; the law of this "
                "mechanism is not known to the audit."
            )
        return (np.arange(int(np.prod(shape))) >> self._coins) % self._bound


@lru_cache(maxsize=4096)
def subset_ratio(mechanism: SignedSubsetSelection, secure: bool = False) -> float:
    """The log of the largest ratio of two reports' probabilities (see the module)."""
    bins, size = mechanism.bins, mechanism.size
    if math.isinf(mechanism.epsilon):
        return math.inf
    bound = 2 * bins - size
    lots = _Lots(1, bound)
    rows = 2 * bound
    own, sign = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int8)
    chosen, signs = mechanism.privatise(own, sign, AsSecure(lots) if secure else lots)
    chances = lots.probabilities(rows)
    mine = chosen == 0
    truth, wrong = ((mine & (signs == which)).any(axis=1) for which in (1, -1))
    with_bin = math.comb(bins - 1, size - 1) * 2 ** (size - 1)
    classes = [(truth, with_bin), (wrong, with_bin)]
    if size < bins:
        classes.append((~truth & ~wrong, math.comb(bins - 1, size) * 2**size))
    densities = [float(chances[members].sum()) / count for members, count in classes]
    return math.log(max(densities) / min(densities)) if min(densities) > 0.0 else math.inf


@lru_cache(maxsize=4096)
def unary_ratio(mechanism: UnaryEncoding, secure: bool = False) -> float:
    """The log of the largest ratio of two reports' probabilities, by every outcome of the code.

    Bits are drawn one by one, so those of values that neither person has have one law, and the law
    of two values alone is enough.
    """
    two = replace(mechanism, values=2)

    def report(own: int, noise: NoiseSource) -> Hashable:
        return two.privatise(np.array([own]), noise).tobytes()

    first, second = (law_of(partial(report, own), secure=secure) for own in (0, 1))
    return exact_epsilon(first, second)


@lru_cache(maxsize=4096)
def cap_ratios(mechanism: PrivUnit, secure: bool = False) -> tuple[float, float, bool]:
    """Densities, relative to uniform, in the cap of a vector of length 1 and outside; and whether
    the cap is half of the sphere."""
    rows = 4 * _POINTS
    lots = _Lots(2, 0)
    vector = np.zeros(mechanism.dimension)
    vector[0] = 1.0
    noise = AsSecure(lots) if secure else lots
    reports = mechanism.privatise(np.tile(vector, (rows, 1)), noise)
    cosines = reports[:, 0] / np.linalg.norm(reports, axis=1)
    chances = lots.probabilities(rows) / _POINTS
    threshold = mechanism.threshold
    inside = cosines >= threshold - 1e-12
    mass = _mass_above(mechanism.dimension, np.array([threshold]))[0]
    share = float(chances[inside].sum())
    for pattern in range(4):
        lots = _Lots(2, 0, pattern)
        alone = mechanism.privatise(vector[None], AsSecure(lots) if secure else lots)[0]
        both = np.array([alone[0] / np.linalg.norm(alone), cosines[pattern]])
        # Around the vector, or, where the first coin shows False, around its mirror image.
        hidden = (both if pattern % 2 else -both) < threshold - 1e-12
        if hidden[0] != hidden[1]:
            raise InvalidInput("a vector that is reported alone is not hidden as in a batch.")
        if mechanism.dimension > 1:  # of the rows with one outcome of the coins
            _check_uniform(mechanism.dimension, cosines[pattern::4], mass)
    return share / mass, (1.0 - share) / (1.0 - mass), mass >= 0.5 - 1e-12


def _mass_above(dimension: int, cosines: FloatArray) -> FloatArray:
    """(n,) the share of the sphere with larger cosines."""
    if dimension == 1:
        return np.where(cosines > -1.0, 0.5, 1.0)
    half = 0.5 * betainc(0.5 * (dimension - 1), 0.5, 1.0 - np.minimum(np.square(cosines), 1.0))
    share: FloatArray = np.where(cosines >= 0.0, half, 1.0 - half)
    return share


def _check_uniform(dimension: int, cosines: FloatArray, mass: float) -> None:
    """`InvalidInput` unless points fill a cap, its complement, or their mirror images evenly."""
    above = np.sort(_mass_above(dimension, cosines))
    ends = [(0.0, mass), (mass, 1.0), (1.0 - mass, 1.0), (0.0, 1.0 - mass)]
    steps = (np.arange(len(above)) + 0.5) / len(above)
    away = min(float(np.abs((above - low) / (high - low) - steps).max()) for low, high in ends)
    if away * math.sqrt(len(above)) > _UNIFORM:
        raise InvalidInput(
            f"points of a cap in {dimension} dimensions are not uniform (distance {away:.3g} at "
            f"{len(above)} points)."
        )


def vector_ratio(
    mechanism: PrivUnit, vector: FloatArray, other: FloatArray, secure: bool = False
) -> float:
    """The largest log ratio, either way round, of PrivUnit reports of two vectors.

    A report of u has the density w f(c) + (1 - w) f(-c) at a cosine c with u, where w = (1 + |u|)/2
    and f is `inside` in the cap and `outside` elsewhere (`cap_ratios`). For two vectors that are
    not parallel there are points in either cap of the one that lie in no cap of the other, if caps
    are smaller than half the sphere; else in its less likely half.
    """
    inside, outside, halves = cap_ratios(mechanism, secure)
    if min(inside, outside) <= 0.0:
        return math.inf

    def densities(of: FloatArray) -> tuple[float, float]:
        weight = 0.5 * (1.0 + min(1.0, math.sqrt(of @ of)))
        return (
            weight * inside + (1.0 - weight) * outside,
            weight * outside + (1.0 - weight) * inside,
        )

    (high, low), (other_high, other_low) = densities(vector), densities(other)
    norms = math.sqrt(vector @ vector) * math.sqrt(other @ other)
    cosine = float(vector @ other) / norms if norms > 0.0 else 0.0
    if cosine > 1.0 - 1e-14:  # the same direction: caps are the same
        return max(abs(math.log(high / other_high)), abs(math.log(low / other_low)))
    if halves:
        return max(math.log(high / other_low), math.log(other_high / low))
    return max(math.log(high / outside), math.log(other_high / outside))


# Sources.

DRAWS = 20_000
# Draws among which none may come twice; of secure sources with stand-ins, for OpenDP takes a while.
_STREAM = 200_000
# Tests that may fail, each with at most this probability; 7 deviations of a normal are 2.6e-12.
_FAILURE, _DEVIATIONS = 1e-10, 7.0
# Of correlations at all distances in a stream, each below 1e-15.
_CORRELATED = 8.0
# Reports that are made one by one, and together.
_ALONE, _AT_ONCE = 400, 4000
_SCALE, _SCALES = 0.7, (0.003, 40.0)
_VALUES = np.array([0.3, -1.7, 5.0, 0.0])
# How many equal pairs there may be: on the grid of OpenDP 0.08 are expected of 20,000 numbers, and
# 9 come with a probability of 1e-15.
_PAIRS = 8
_LAWS: dict[str, tuple[Callable[[FloatArray], FloatArray], float]] = {
    # The law of noise of variance 1, and the variance of its square.
    "gaussian": (ndtr, 2.0),
    "laplace": (laplace(scale=0.5**0.5).cdf, 5.0),
}


def fault_of(source: NoiseSource) -> str:
    """The first test that fails; empty if none does."""
    fault = _integers(source) or (_handed_out(source) if source.secure else "")
    uniform = {}
    for kind in () if fault else _LAWS:
        streams = [_standard(source, kind, scale, count) for scale, count in _calls(source)]
        fault = next(filter(None, (_continuous(kind, drawn) for drawn in streams)), "")
        fault = fault or _repeated(kind, np.concatenate(streams))
        uniform[kind] = _LAWS[kind][0](np.concatenate(streams)) - 0.5
        if fault:
            return fault
    return fault or _together(uniform) or _discrete(source)


def _calls(source: NoiseSource) -> Iterator[tuple[float, int]]:
    """Scales and numbers of draws of several calls."""
    yield _SCALE, DRAWS if source.secure else _STREAM
    for scale in _SCALES:
        yield scale, DRAWS // 4


def _standard(source: NoiseSource, kind: str, scale: float, count: int) -> FloatArray:
    """(count,) noise of variance 1, half of it in one call and half in tables and single calls."""
    add = getattr(source, f"add_{kind}")
    single, half = min(200, count // 8), count // 2 // 4 * 4
    shapes = [(half,), ((count - half - single) // 4, 4), *[(1,)] * single]
    drawn = []
    for shape in shapes:
        # On values other than 0 some bits of the noise are lost, so there none is looked up.
        values = np.zeros(shape) if len(shape) == 1 else np.tile(_VALUES, (shape[0], 1))
        drawn.append((add(values, scale) - values).ravel())
    spread = scale * (math.sqrt(2.0) if kind == "laplace" else 1.0)
    return np.concatenate(drawn) / spread


def _continuous(kind: str, drawn: FloatArray) -> str:
    """What is wrong with draws of variance 1."""
    (law, spread), count = _LAWS[kind], len(drawn)
    if kstest(drawn, law).pvalue < _FAILURE:
        return f"{kind} noise does not have its law"
    if abs(np.mean(np.square(drawn)) - 1.0) > _DEVIATIONS * math.sqrt(spread / count):
        return f"{kind} noise has another variance: {np.mean(np.square(drawn)):.4g} of its own"
    if abs(np.mean(drawn[1:] * drawn[:-1])) > _DEVIATIONS / math.sqrt(count):
        return f"{kind} noise depends on the draw before"
    return ""


def _repeated(kind: str, drawn: FloatArray) -> str:
    """Whether draws come twice, or depend on each other at any distance."""
    size = np.sort(np.abs(drawn))
    if (np.diff(size) <= 1e-15 * size[1:]).sum() > _PAIRS:
        return f"{kind} noise comes again"
    uniform = _LAWS[kind][0](drawn) - 0.5
    for ranks in (uniform, np.abs(uniform) - 0.25):
        if _correlation(ranks, ranks)[1:].max() > _CORRELATED:
            return f"{kind} noise depends on draws further back"
    return ""


def _together(uniform: Mapping[str, FloatArray]) -> str:
    """Whether noise of one kind depends on that of the other, at any distance."""
    for one, other in product(*((each, np.abs(each) - 0.25) for each in uniform.values())):
        if _correlation(one, other).max() > _CORRELATED:
            return "noise of one kind depends on that of the other"
    return ""


def _correlation(one: FloatArray, other: FloatArray) -> FloatArray:
    """The sizes of correlations at all distances, around the end, in standard deviations."""
    turned = np.fft.irfft(np.fft.rfft(one) * np.conj(np.fft.rfft(other)), len(one))
    return np.abs(turned) / math.sqrt(len(one) * one.var() * other.var())


def fault_of_rows(privatise: Callable[[int, NoiseSource], FloatArray]) -> str:
    """How reports of one person depend on each other; empty if nothing shows.

    Args:
        privatise: of a number of people, all with the same data, and a source, gives (n, k) numbers
            that stand for their reports, none of them certain.
    """
    for source in (SimulatedNoise(13), AsSecure(SimulatedNoise(13))):
        alone = [privatise(1, source) for _ in range(_ALONE)]
        drawn = np.concatenate([*alone, privatise(_AT_ONCE, source)])
        # Of continuous reports no two are equal, however their coins fell.
        if (drawn != np.rint(drawn)).any() and len(np.unique(drawn, axis=0)) < len(drawn):
            return f"reports of different people share their noise: some are equal ({source.name})"
        for column in drawn.T:
            rank = rankdata(column) - 0.5 * (len(column) + 1)
            if not rank.var() > 0.0 or _correlation(rank, rank)[1:].max() > _CORRELATED:
                return f"reports of different people share their noise ({source.name})"
    return ""


class _Stream:
    """Stands in for the operating system and for OpenDP, and never hands a number out twice.

    Attributes:
        words: that the operating system handed out.
        numbers: that OpenDP drew, in units of the scale.
        scales: at which OpenDP was asked to draw, with the values that it was given.
    """

    def __init__(self) -> None:
        self._rng = np.random.default_rng(12)
        self.words: list[Words] = []
        self.numbers: list[FloatArray] = []
        self.scales: list[tuple[str, float, list[float]]] = []
        self.domains = self.metrics = self.measurements = self
        self.make_laplace = partial(self._make, "laplace")
        self.make_gaussian = partial(self._make, "gaussian")

    def urandom(self, count: int) -> bytes:
        self.words.append(self._rng.integers(0, 2**64, -(-count // 8), dtype=np.uint64))
        return self.words[-1].tobytes()[:count]

    def atom_domain(self, **named: Any) -> None:
        """Of numbers."""

    def vector_domain(self, atom: None, size: int) -> int:
        return size

    def l1_distance(self, **named: Any) -> None:
        """Of Laplace noise."""

    l2_distance = l1_distance

    def _make(self, kind: str, size: int, metric: None, *, scale: float, **named: Any) -> Any:
        def draw(values: list[float]) -> list[float]:
            self.scales.append((kind, scale, values))
            self.numbers.append(self._rng.standard_normal(len(values)))
            drawn: list[float] = (np.array(values) + scale * self.numbers[-1]).tolist()
            return drawn

        return draw


def _handed_out(source: NoiseSource) -> str:
    """Whether each draw of a secure source uses up randomness of its own, at its own scale."""
    stream = _Stream()
    with (
        patch("os.urandom", stream.urandom),
        patch("discreet.privacy.noise._opendp", lambda: stream),
    ):
        for kind, (scale, shape) in product(_LAWS, product((1e-6, 0.7, 1e4), _SHAPES)):
            values = np.resize(_VALUES, shape)
            drawn = getattr(source, f"add_{kind}")(values, scale)
            # Noise that is added afterwards, in floating point, shows the last bits of a value.
            if stream.scales[-1:] != [(kind, scale, values.ravel().tolist())] or stream.words:
                return f"{kind} noise of scale {scale:g} is not drawn on the values by OpenDP"
            asked = (values.ravel() + scale * stream.numbers[-1]).reshape(shape)
            if not np.array_equal(drawn, asked):
                return f"{kind} noise is not what OpenDP drew for it"
        for shape in _SHAPES:
            for name, draw, read in _READ:
                stream.words.clear()
                drawn, count = draw(source, shape), int(np.prod(shape))
                taken = sum(map(len, stream.words))
                if taken < count or (name != "below" and taken > count):
                    return f"{name}() of {count} took {taken} words of the operating system"
                if name != "below" or taken == count:
                    asked = read(np.concatenate([np.zeros(0, np.uint64), *stream.words]))
                    if not np.array_equal(drawn, asked.reshape(shape)):
                        return f"{name}() is not what the operating system drew for it"
    return ""


_SHAPES: tuple[tuple[int, ...], ...] = ((1,), (0,), (7,), (3, 5), (64, 2, 33), (_STREAM,), (1,))
_COIN, _BOUND = Fraction(3, 8), 1000
# How words of the operating system become draws.
_READ: tuple[tuple[str, Callable[..., Any], Callable[[Words], Any]], ...] = (
    ("keys", lambda source, shape: source.keys(shape), lambda words: words),
    (
        "coins",
        lambda source, shape: source.coins(_COIN, shape),
        lambda words: words < np.uint64(_COIN * 2**64),
    ),
    (
        "coins",
        lambda source, shape: source.coins(float(_COIN), shape),
        lambda words: words < np.uint64(_COIN * 2**64),
    ),
    (
        "below",
        lambda source, shape: source.below(_BOUND, shape),
        lambda words: (words % np.uint64(_BOUND)).astype(np.int64),
    ),
)


class _Words(SecureNoise):
    """Hands out given words, and then zeros."""

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)

    def keys(self, shape: Shape) -> Words:
        count = int(np.prod(shape))
        taken, self._words = self._words[:count], self._words[count:]
        return np.array([*taken, *[0] * (count - len(taken))], dtype=np.uint64).reshape(shape)


def _integers(source: NoiseSource) -> str:
    """How SecureNoise turns words into coins and whole numbers, at the words where it matters."""
    if not source.secure:
        return ""
    for chance in (0.3, 1.0 / 3.0, 1e-3, 0.9, Fraction(1, 3), Fraction(2, 7)):
        # A coin that hides shows for at least p 2^64 of all words, whole numbers of them.
        last = math.ceil(Fraction(chance) * 2**64) - 1
        if not _Words([last]).coins(chance, 1)[0]:
            return f"a coin of probability {float(chance):g} shows less often than that"
    for bound in (3, 7, 1000):
        beyond = 2**64 - 2**64 % bound
        if _Words([beyond, 1]).below(bound, 1)[0] != 1 % bound or (
            _Words([beyond - 1]).below(bound, 1)[0] != bound - 1
        ):
            return f"whole numbers below {bound} are not equally likely"
    return ""


def _discrete(source: NoiseSource) -> str:
    """Coins, whole numbers and keys by their frequencies."""
    for chance in (0.02, 0.3, 0.9):
        shown = source.coins(chance, DRAWS).mean()
        if abs(shown - chance) > _DEVIATIONS * math.sqrt(chance * (1.0 - chance) / DRAWS):
            return f"coins of probability {chance} show {shown:.4g}"
    for bound in (2, 7):
        counts = np.bincount(source.below(bound, DRAWS), minlength=bound)
        if (np.abs(counts * bound / DRAWS - 1.0) > _DEVIATIONS * math.sqrt(bound / DRAWS)).any():
            return f"whole numbers below {bound} are not equally likely: {counts.tolist()}"
    bits = np.unpackbits(source.keys(DRAWS).view(np.uint8)).reshape(DRAWS, 64).mean(axis=0)
    if (np.abs(bits - 0.5) > _DEVIATIONS * 0.5 / math.sqrt(DRAWS)).any():
        return "bits of keys are not fair"
    return ""
