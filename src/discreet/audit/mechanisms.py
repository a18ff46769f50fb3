"""The privacy mechanisms of the library, by exact replay.

| mechanism                           | what exact replay measures       |
|-------------------------------------|----------------------------------|
| Gaussian and Laplace noise, streams | what was handed in, over scale   |
| reports over a finite alphabet      | coins of the code; all outcomes  |
| PrivUnit, the l2 ball               | coins, masses of caps            |
| exponential mechanism               | integers at which options change |
| noise sources                       | tests of their draws             |
| shuffled groups                     | all outcomes of up to four people|

The SecureNoise forms draw from OpenDP and from the operating system.

The exponential mechanism looks up an integer of 106 bits, drawn in two parts, in cumulative
weights. With integers of the audit's choice it reveals where one option ends and the next begins;
the share of integers of an option is its probability.

**Streams.** Every mechanism for prefix sums is run with the person in each of its rows, short and
long. When the person's row is released, the noise source fails once and the release is tried again.

**Composition.** The accounting of several releases is compared with their exact loss together:

| data                 | releases of it                                                      |
|----------------------|---------------------------------------------------------------------|
| rounds that overlap  | Gaussian noise, for rounds 0 to 9 and for 5 to 14; a person of both |
| a group              | two of unequal noise, of which a person enters one                  |
| Laplace noise        | two releases of it                                                  |
| many reports         | nine pure ones of one person, at a delta                            |
| both kinds           | Laplace and Gaussian noise, the Laplace noise the louder            |
| repeated             | one release with two rows of one person                             |

The sentence of a certificate must not state less than its numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np

from discreet.audit.checks import Check, Design
from discreet.audit.output_distributions import (
    DRAWS,
    AsSecure,
    exact_epsilon,
    fault_of,
    fault_of_rows,
    law_of,
)
from discreet.audit.randomness import library_randomness
from discreet.audit.replay import Claim, Exact, Promise, Transcript, exact_of, promised, secure
from discreet.privacy import (
    Adjacency,
    NoiseSource,
    OnceEach,
    Release,
    Rounds,
    SimulatedNoise,
    derive_guarantee,
)
from discreet.privacy.accounting import Event, GaussianEvent, PureEvent, TrustModel
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.privacy.frequency import (
    LaplaceOnCells,
    SignedSubsetSelection,
    UnaryEncoding,
    k_ary_response,
)
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.noise import Shape
from discreet.privacy.prefix_sums import (
    BinaryTree,
    BufferedToeplitz,
    DiscountedEpochs,
    GeometricEpochs,
    Independent,
    PrefixMechanism,
    PrivateStream,
    SeparateEpochs,
)
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.shuffling import shuffled_epsilon
from discreet.privacy.vectors import GaussianVector, PrivUnit, VectorReport, l2_ball
from discreet.validation import FloatArray, IntArray

EPSILON, DELTA = 1.0, 1e-5
# Of equally tight promises the first is shown.
_EPSILONS = (EPSILON, 0.1, 16.0)
_DIMENSION = 6
_VALUES = 3
# Scores this many ranges apart, where the exponential mechanism is nearly tight.
_DEPTH = 2.5
# Shares of weights and probabilities are equal but for the rounding of a float.
_ROUNDING = 1e-12

Finite = SignedSubsetSelection | UnaryEncoding


def mechanism_checks() -> Iterator[Check]:
    """One check or more for every mechanism."""
    yield from (design.check for design in (*_gaussian(), *stream_designs(), *_laplace()))
    yield _cells().check
    yield from _subset_checks()
    yield from (design.check for design in _vector_reports())
    yield from _selection_checks()
    yield from _shuffled_checks()
    about = "reports of one person after the other"
    yield _exactly("reports, independent", "local", _independent, about)
    for name, source in (("simulated", SimulatedNoise), ("secure", secure)):
        yield _exactly(f"noise, {name}", "none", partial(_drawn, source), "draws of each kind")
    yield _exactly("randomness, library", "none", _randomness, "what draws, by its source code")
    yield from composition_checks()


def _exactly(
    name: str, trust_model: TrustModel, exact: Callable[[], Exact], about: str = ""
) -> Check:
    return Check(name, "mechanism", trust_model, exact, about=about)


def _of_event(event: Event, epsilon: float) -> Promise:
    """A budget of that epsilon, and the accounting of one event."""
    delta = DELTA if isinstance(event, GaussianEvent) else 0.0
    return promised(Claim(epsilon, delta), [event])


def _privatised(data: tuple[Any, ...], noise: NoiseSource, people: int = 1) -> Any:
    """Reports by a mechanism, the first of `data`, of as many people with these values."""
    mechanism, *values = data
    return mechanism.privatise(*(np.repeat(value[None], people, axis=0) for value in values), noise)


def _opposite(dimension: int = _DIMENSION) -> list[tuple[str, FloatArray]]:
    """A vector of length 1, and its opposite."""
    vector = np.ones(dimension) / np.sqrt(dimension)
    return [("a vector", vector), ("its opposite", -vector)]


def _drawn(make: Callable[[int], NoiseSource]) -> Exact:
    source = make(5)
    words = f"{DRAWS:,} draws of each kind, {source.name}"
    return Exact(Claim(0.0), 0.0, words, fault_of(source))


def _randomness() -> Exact:
    return Exact(Claim(0.0), 0.0, "every function that draws", library_randomness())


# Noise that is added.


def _gaussian() -> Iterator[Design]:
    def release(data: tuple[float, FloatArray], noise: NoiseSource) -> FloatArray:
        epsilon, vector = data
        return noise.add_gaussian(vector, 2.0 * gaussian_noise_multiplier(epsilon, DELTA))

    yield Design(
        name="gaussian",
        trust_model="joint",
        release=release,
        promise=lambda data, _: _of_event(
            GaussianEvent(gaussian_noise_multiplier(data[0], DELTA)), data[0]
        ),
        neighbours=[
            [(f"{words}, epsilon {epsilon:g}", (epsilon, vector)) for words, vector in _opposite()]
            for epsilon in _EPSILONS
        ],
        about="one release, Gaussian noise",
    )
    multiplier = gaussian_noise_multiplier(EPSILON, DELTA)
    yield Design(
        name="gaussian, secure",
        trust_model="joint",
        release=lambda number, noise: noise.add_gaussian(np.array([number]), multiplier),
        promise=lambda number, _: _of_event(
            GaussianEvent(secure().gaussian_multiplier(1.0, multiplier, 1)), math.inf
        ),
        neighbours=[[("0.5", 0.5), ("-0.5", -0.5)]],
        source=secure,
        about="the same, OpenDP",
    )


def _laplace() -> Iterator[Design]:
    ends = [("1", 1.0), ("0", 0.0)]
    plain = Design(
        name="laplace",
        trust_model="local",
        release=lambda number, noise: noise.add_laplace(np.array([number]), 1.0 / EPSILON),
        promise=lambda number, _: _of_event(PureEvent(EPSILON), EPSILON),
        neighbours=[ends],
        about="one number, Laplace noise",
    )
    yield plain
    yield replace(plain, name="laplace, secure", source=secure, about="the same, OpenDP")


def _cells() -> Design:
    def groups() -> Iterator[list[tuple[str, Any]]]:
        for epsilon, partly in product(_EPSILONS, (False, True)):
            mechanism = LaplaceOnCells(4, epsilon, partly)
            own = (-1, 0, 1) if partly else (0, 1, 3)
            yield [
                (f"cell {cell}, reward {reward:g}", (mechanism, *map(np.asarray, (cell, reward))))
                for cell, reward in product(own, (0.0, 0.5, 1.0))
            ]

    return Design(
        name="laplace_on_cells",
        trust_model="local",
        release=_privatised,
        promise=lambda data, _: _of_event(
            PureEvent(data[0].sensitivity / data[0].scale), data[0].epsilon
        ),
        neighbours=list(groups()),
        about="U and V of every pair (bin, arm)",
    )


# Reports over a finite alphabet.


def _subset_checks() -> Iterator[Check]:
    about = "every outcome of the code"
    for bins, size in ((2, 1), (3, 2), (4, 2)):
        exact = partial(enumerated, SignedSubsetSelection(bins, size, EPSILON))
        yield _exactly(f"signed_subset_selection, {size} of {bins}", "local", exact, about)
    yield subset_design(list(_subsets())).check
    best = SignedSubsetSelection.best(16, EPSILON)
    ends = [(f"bin {own}, sign {sign}", _held(best, own, sign)) for own, sign in ((0, 1), (1, -1))]
    plain = subset_design([ends], name="signed_subset_selection, secure", about="")
    yield replace(plain, source=secure).check
    for name, mechanism in (
        ("k_ary_response", k_ary_response(4, EPSILON)),
        ("unary_encoding", UnaryEncoding(2 * _VALUES, EPSILON)),
        ("unary_encoding, symmetric", UnaryEncoding.symmetric(4, EPSILON)),
    ):
        yield _exactly(name, "local", partial(enumerated, mechanism))


def _held(mechanism: Finite, own: int, sign: int) -> tuple[Any, ...]:
    if isinstance(mechanism, UnaryEncoding):
        return mechanism, np.asarray(2 * own + (sign > 0))
    return mechanism, np.asarray(own), np.asarray(sign, dtype=np.int8)


def enumerated(mechanism: Finite) -> Exact:
    """The worst two of all values (bin, sign), from every outcome of the code."""
    count = mechanism.values // 2 if isinstance(mechanism, UnaryEncoding) else mechanism.bins
    bins = min(count, 2)
    worst = 0.0
    for safe in (False, True):
        laws = [
            law_of(partial(_word, mechanism, own, sign), secure=safe)
            for own, sign in product(range(bins), (1, -1))
        ]
        worst = max(worst, *(exact_epsilon(law, other) for law in laws for other in laws))
    return Exact(Claim(mechanism.epsilon), worst, f"all {len(laws[0])} outcomes of a report")


def _word(mechanism: Finite, own: int, sign: int, noise: NoiseSource) -> bytes:
    report = _privatised(_held(mechanism, own, sign), noise)
    return b"".join(part.tobytes() for part in (report if isinstance(report, tuple) else (report,)))


def _subsets() -> Iterator[list[tuple[str, Any]]]:
    """Neighbours under subset selection of many sizes, replayed from the coins of its code."""
    for bins, epsilon in product((1, 2, 7, 16, 64, 200), (*_EPSILONS, 4.0)):
        best = SignedSubsetSelection.best(bins, epsilon)
        for size in {1, best.size, max(1, bins // 2), bins}:
            mechanism = SignedSubsetSelection(bins, size, epsilon)
            words = f"{size} of {bins} bins, epsilon {epsilon:g}"
            yield [
                (f"{words}, bin {own}, sign {sign}", _held(mechanism, own, sign))
                for own, sign in ((0, 1), (0, -1), (bins - 1, 1))
            ]


def subset_design(
    groups: Sequence[Sequence[tuple[str, Any]]],
    name: str = "signed_subset_selection, many bins",
    about: str = "up to 200 bins",
) -> Design:
    """Subset selection of neighbours, each with the mechanism, a bin and a sign."""
    return Design(
        name=name,
        trust_model="local",
        release=_privatised,
        promise=lambda data, _: _of_event(PureEvent(data[0].epsilon), data[0].epsilon),
        neighbours=groups,
        about=about,
    )


# Shuffled groups of reports.


def _shuffled_checks() -> Iterator[Check]:
    for name, mechanism in _SHUFFLED.items():
        exact = partial(worst_group, values_of(mechanism), mechanism.epsilon)
        yield _exactly(f"shuffled, {name}", "shuffled", exact, "every group of up to four people")
    exact = partial(worst_group, [partial(_with_coin, value) for value in range(3)], EPSILON)
    about = "the same, with a public coin in each report"
    yield _exactly("shuffled, public coins", "shuffled", exact, about)


_SHUFFLED: dict[str, Finite] = {
    "one bit": SignedSubsetSelection(1, 1, EPSILON),
    "four values": SignedSubsetSelection(2, 1, EPSILON),
    "two of three bins": SignedSubsetSelection(3, 2, EPSILON),
    "unary encoding": UnaryEncoding(2, EPSILON),
}

DrawReport = Callable[[NoiseSource], Hashable]


def values_of(mechanism: Finite) -> list[DrawReport]:
    """A report for each of at most four values."""
    count = mechanism.values // 2 if isinstance(mechanism, UnaryEncoding) else mechanism.bins
    values = product(range(min(count, 2)), (1, -1))
    return [partial(_word, mechanism, own, sign) for own, sign in values]


def _with_coin(value: int, noise: NoiseSource) -> Hashable:
    """A public coin, which merges two of three values or not, and a report."""
    coin = int(noise.below(2, (1,))[0])
    bins, place = (1, value // 2) if coin else (2, value)
    mechanism = SignedSubsetSelection(bins, 1, EPSILON)
    return coin, _word(mechanism, place // 2, 1 - 2 * (place % 2), noise)


def _any_order(reports: tuple[Hashable, ...]) -> Hashable:
    return tuple(sorted(reports, key=repr))


def worst_group(
    values: Sequence[DrawReport],
    epsilon: float,
    passed_on: Callable[[tuple[Hashable, ...]], Hashable] = _any_order,
    short: int = 0,
    reports: int = 1,
) -> Exact:
    """The worst two values of one person among all others', against the bound for groups.

    Args:
        values: draws a report for each value.
        epsilon: the claimed epsilon of a report.
        passed_on: the learner's view of a group's reports.
        short: by how many reports groups are smaller than the bound assumes.
        reports: how many of them are the person's.
    """
    laws = [law_of(value) for value in values]
    found = []
    for group, delta in product((2, 3, 4), (0.2, 0.02)):
        claim = Claim(shuffled_epsilon(epsilon, group, delta), delta)
        worst = 0.0
        for others in combinations_with_replacement(laws, group - 1 - short):
            seen = [_group_law([*[law] * reports, *others], passed_on) for law in laws]
            pairs = combinations(seen, 2)
            worst = max(worst, *(exact_epsilon(one, other, delta) for one, other in pairs))
        words = f"groups of {group - short}, of every {len(laws)} values"
        found.append(Exact(claim, worst, words))
    return max(found, key=lambda exact: exact.epsilon / exact.claim.epsilon)


def _group_law(
    laws: Sequence[Mapping[Hashable, float]],
    passed_on: Callable[[tuple[Hashable, ...]], Hashable],
) -> dict[Hashable, float]:
    """The law of what is passed on of independent reports with these laws."""
    law: dict[Any, float] = {(): 1.0}
    for each in laws:
        longer: dict[Any, float] = {}
        for reports, chance in law.items():
            for report, probability in each.items():
                key = passed_on((*reports, report))
                longer[key] = longer.get(key, 0.0) + chance * probability
        law = longer
    return law


# Reports of vectors.


def _vector_reports() -> Iterator[Design]:
    for name, make, epsilon in (
        ("privunit", partial(PrivUnit, _DIMENSION), 2.0),
        ("privunit, one number", partial(PrivUnit, 1), EPSILON),
        ("privunit, many numbers", partial(PrivUnit, 40), 2.0),
        ("l2_ball", partial(l2_ball, _DIMENSION), EPSILON),
    ):
        yield _vector_report(name, make, epsilon)
    plain = _vector_report("privunit, secure", partial(PrivUnit, 2), 2.0)
    yield replace(plain, source=secure)
    yield _vector_report(
        "gaussian_vector",
        partial(GaussianVector, _DIMENSION, delta=DELTA),
        EPSILON,
    )


def _vector_report(name: str, make: Callable[[float], VectorReport], asked: float) -> Design:
    """Vectors of length 1 and shorter, opposite, orthogonal and at random, 0, and with a gap."""
    groups = []
    for epsilon in (asked, 0.1, 16.0):
        mechanism = make(epsilon)
        rng = np.random.default_rng(8)
        ends = np.eye(mechanism.dimension)[: min(2, mechanism.dimension)]
        some = rng.standard_normal((3, mechanism.dimension))
        some /= np.linalg.norm(some, axis=1)[:, None]
        odd = [-ends[0], 5.0 * ends[-1], 0.3 * some[0], some[1], 0.9 * some[2], 0.0 * ends[0]]
        odd.append(np.where(ends[-1] > 0.0, np.nan, ends[0]))
        groups.append(
            [
                (f"a vector of length {np.linalg.norm(v):.3g}, epsilon {epsilon:g}", (mechanism, v))
                for v in (*ends, *odd)
            ]
        )
    return Design(
        name=name,
        trust_model="local",
        release=_privatised,
        promise=lambda data, _: _of_event(data[0].event(SimulatedNoise.name), data[0].epsilon),
        neighbours=groups,
    )


def _independent() -> Exact:
    """Whether people share noise, for every mechanism of reports."""
    vector = _opposite()[0][1]
    many, partly = SignedSubsetSelection(16, 3, EPSILON), LaplaceOnCells(4, EPSILON)
    mechanisms: tuple[tuple[Any, ...], ...] = (
        _held(many, 2, 1),
        _held(k_ary_response(4, EPSILON), 1, 1),
        (UnaryEncoding(6, EPSILON), np.asarray(1)),
        (partly, np.asarray(1), np.asarray(0.5)),
        (PrivUnit(_DIMENSION, 2.0), vector),
        (l2_ball(_DIMENSION, EPSILON), 0.5 * vector),
        (GaussianVector(_DIMENSION, EPSILON, DELTA), vector),
    )
    faults = (fault_of_rows(partial(_numbers, data)) for data in mechanisms)
    words = "reports of many people, together and one by one"
    return Exact(Claim(0.0), 0.0, words, next(filter(None, faults), ""))


def _numbers(data: tuple[Any, ...], people: int, noise: NoiseSource) -> FloatArray:
    """(n, k) reports as numbers; reported bins by their signs, other bins by 0."""
    report = _privatised(data, noise, people)
    if not isinstance(report, tuple):
        return np.asarray(report, dtype=np.float64).reshape(people, -1)
    if not isinstance(data[0], SignedSubsetSelection):
        return np.concatenate([part.reshape(people, -1) for part in report], axis=1)
    signs = np.zeros((people, data[0].bins))
    chosen, shown = report
    np.put_along_axis(signs, chosen, shown, axis=1)
    return signs


# The exponential mechanism.


def _scores() -> list[tuple[FloatArray, FloatArray]]:
    """Scores (1, K) of two neighbours, whose difference has the range 1."""
    two = [
        (np.array([[-depth, 0.0]]), np.array([[-depth - 1.0, 0.0]]))
        for depth in (0.0, _DEPTH, 20.0)
    ]
    three = np.array([[0.5, 0.0, -_DEPTH]])
    return [*two, (three, three + np.array([[-0.5, 0.5, 0.2]]))]


def _selection_checks() -> Iterator[Check]:
    def release(data: tuple[float, FloatArray], noise: NoiseSource) -> Any:
        epsilon, scores = data
        return ExponentialMechanism(epsilon).select(scores, 1.0, noise)

    law = Design(
        name="exponential, outcomes",
        trust_model="joint",
        release=release,
        promise=lambda data, _: _of_event(ExponentialMechanism(data[0]).event(), data[0]),
        neighbours=[
            [(f"scores {scores[0]}, epsilon {epsilon:g}", (epsilon, scores)) for scores in pair]
            for epsilon, pair in product((0.1, EPSILON, 16.0), _scores())
        ],
    )
    yield law.check
    yield replace(law, name="exponential, secure", source=secure).check
    yield _exactly("exponential, integers", "joint", _selection_drawn)


def _selection_drawn() -> Exact:
    fault = "".join(
        drawn_as_said(ExponentialMechanism(epsilon), scores)
        for epsilon in _EPSILONS
        for pair in _scores()
        for scores in pair
    )
    return Exact(Claim(0.0), 0.0, "the integers at which the option changes", fault)


class _Handed(SimulatedNoise):
    """A source that returns a given integer, in parts of the requested sizes."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self._number, self._bits = number, 106

    def below(self, bound: int, shape: Shape) -> IntArray:
        self._bits -= int(bound).bit_length() - 1
        if self._bits < 0:  # rejected, so this is another draw
            return super().below(bound, shape)
        part = self._number >> self._bits
        self._number -= part << self._bits
        return np.full(shape, part, dtype=np.int64)


def drawn_as_said(mechanism: ExponentialMechanism, scores: FloatArray) -> str:
    """An option of scores (n, K) of range 1 with a wrong probability, in words; empty for none."""
    for row, chances in zip(scores, mechanism.probabilities(scores, 1.0), strict=True):
        ends = _ends(mechanism, row)
        # No integer at all leads to the last option where draws do not follow the integers.
        shares = np.diff([0, *ends]).astype(np.float64) / float(max(ends[-1], 1))
        if np.abs(shares - chances).max() > _ROUNDING:
            return f"options of scores {row} are drawn with {shares}, not {chances}. "
    return ""


def _ends(mechanism: ExponentialMechanism, row: FloatArray) -> list[int]:
    """For each option the least integer that selects a later one, by bisection."""
    ends: list[int] = []
    for option in range(len(row)):
        low, high = (ends[-1] if ends else 0), 2**106
        while low < high:
            middle = (low + high) // 2
            beyond = _option(mechanism, row, middle) > option
            low, high = (low, middle) if beyond else (middle + 1, high)
        ends.append(low)
    return ends


def _option(mechanism: ExponentialMechanism, row: FloatArray, number: int) -> int:
    handed = _Handed(number)
    chosen = {
        int(mechanism.select(row[None], 1.0, source)[0])
        for source in (handed, AsSecure(_Handed(number)))
    }
    return chosen.pop() if handed._bits == 0 and len(chosen) == 1 else len(row)


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
        lambda rows: GeometricEpochs(1.5, horizon=rows),
        lambda rows: DiscountedEpochs(float(rows)),
        lambda rows: SeparateEpochs(1.5, horizon=rows),
    ):
        yield stream_design(make(_ROWS), make(_LONG))


def stream_design(short: PrefixMechanism, long: PrefixMechanism) -> Design:
    """A person in any row of a short stream, and in some of a long one."""
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
        source=_Failing,
        about=f"streams of {_ROWS} and {_LONG} rows",
    )


def _streamed(data: Stream, noise: NoiseSource) -> tuple[list[FloatArray], Release | None]:
    """All estimates, and the record."""
    mechanism, rows, place, value = data
    stream = PrivateStream(mechanism, 1, 1.0, gaussian_noise_multiplier(EPSILON, DELTA), noise)
    estimates, came = [], 0
    while came < rows:
        stop = min(max(stream.due, came + 1), rows)
        theirs = came <= place < stop
        row = np.array([value if theirs else 0.0])
        if isinstance(noise, _Failing):
            noise.fails = theirs
        try:
            estimate = stream.release(row, stop - came)
        except OSError:
            # A service tries again with the row that was not released.
            estimate = stream.release(row, stop - came)
        estimates.append(estimate.values)
        came = stop
    return estimates, stream.record("a row", OnceEach("a stream"))


class _Failing(SimulatedNoise):
    """A source that fails once, when the person's row is released."""

    fails = False

    def add_gaussian(self, values: FloatArray, scale: float) -> FloatArray:
        if self.fails:
            self.fails = False
            raise OSError("no randomness")
        return super().add_gaussian(values, scale)


# Composition.


def composition_checks() -> Iterator[Check]:
    """One check for each way in which releases compose."""
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


def _entering(name: str, value: float, transcript: Transcript) -> Promise:
    noise = SimulatedNoise(9)
    releases, entered = _releases(name)
    for release in entered:
        drawn = np.array([2.0 * value if name == "repeated" else value])
        add = noise.add_laplace if isinstance(release.event, PureEvent) else noise.add_gaussian
        transcript.add("a release", add(drawn, release.scale))
    delta = {"Laplace noise": 0.0, "many reports": _MUCH}.get(name, DELTA)
    held = derive_guarantee(releases, "joint", Adjacency("a number"), delta)
    if name == "repeated":
        held = held.repeated(2)
    transcript.rule(_understated(held))
    claim = Claim(held.epsilon, held.delta)
    return Promise(claim, claim)


def _understated(held: Guarantee) -> str:
    """A certificate's sentence that states less than its numbers, in words; empty if none."""
    stated = re.search(r"epsilon = ([0-9.e+-]+)", held.sentence)
    if stated is None or float(stated[1].rstrip(".")) < held.epsilon * (1.0 - 1e-9):
        return f"the certificate's sentence says less than epsilon = {held.epsilon:.6g}"
    return ""
