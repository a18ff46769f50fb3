"""Record and replay of everything that code draws, and the exact privacy loss between two runs.

While a `NoiseTape` is open, noise sources and mechanisms record their inputs and outcomes, wherever
the code got them from. Played back, they hand out the same outcomes again while the code runs on
another data set, so both runs have the same public past, and what was handed in on either tells the
exact loss. This is record and replay as in Re:cord-play (Cebere, Erb, Desfontaines, Bellet and
Fitzsimons 2026, arXiv 2602.17454).

| what is drawn                  | recorded               | played back                           |
|--------------------------------|------------------------|---------------------------------------|
| Gaussian and Laplace noise     | values, scale, outcome | the outcome                           |
| subset selection, PrivUnit,    | the private value, the | the outcome; each of these mechanisms |
| unary encoding, exponential    | mechanism, the outcome | has a check of its own for its law    |
| mechanism                      |                        |                                       |
| coins                          | uniform numbers        | the same, against the new probability |
| whole numbers, keys, `urandom` | the outcome            | the outcome: their law has no data    |

Noise protects only if its source does: an adversary who can rebuild a generator subtracts its
noise, and replay cannot distinguish its numbers from others. So everything must be drawn from the
sources that the audit hands in. `foreign` names the first draw from anything else: a source that
the code made or copied, a generator other than those of public randomness (randomness.py), Python's
or NumPy's own generator, or the operating system's. Public randomness must have one seed, and be
used equally, for every person.

Conditional on coins, whole numbers and keys, which have the same law on either data set, the loss
of a run is that of its mechanisms; so a loss that is never above epsilon proves epsilon for these
two data sets, and where these numbers are public, or do not matter, it is exact.

| mechanism        | loss between the values x and x'                                              |
|------------------|-------------------------------------------------------------------------------|
| Gaussian noise   | mu = |x - x'|_2 / scale; mu^2 adds (Dong, Roth and Su 2022, Corollary 2)      |
| Laplace noise    | |x - x'|_1 / scale; these and all below add as they are                       |
| subset selection | log of the largest ratio of its classes, if (bin, sign) differ                |
| unary encoding   | log of the largest ratio of reports, if values differ                         |
| PrivUnit         | log of the largest ratio of the two mixtures of caps                          |
| exponential      | log of the largest ratio of the probabilities of an option                    |

Together (epsilon, delta) is, for Gaussian noise alone,

    delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8), solved here without the library's accounting. Several other losses
compose at a delta as randomised responses do, the worst case. With both kinds the larger of the two
epsilons is a lower bound, and is used.

Files, connections and processes that the code opens to write are `foreign` too: data that leave by
them are in no report. The interpreter's audit events name them.

A seed from which a source is made while a tape is open must not depend on data: an adversary who
guesses the data could subtract the noise.
"""

from __future__ import annotations

import math
import os
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Self
from unittest.mock import patch

import numpy as np

# Its import draws from Python's shared generator, which a run under a tape must not do.
import sklearn.gaussian_process.kernels  # noqa: F401
from scipy.optimize import brentq
from scipy.special import log_ndtr

from discreet.audit.output_distributions import subset_ratio, unary_ratio, vector_ratio
from discreet.audit.randomness import SERVING, SOURCES, maker, may_generate, may_name, may_write
from discreet.privacy.frequency import SignedSubsetSelection, UnaryEncoding
from discreet.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray, IntArray, InvalidInput


@dataclass(frozen=True)
class Loss:
    """The privacy loss between two runs.

    Attributes:
        squared: mu^2 of all Gaussian noise.
        losses: of all other mechanisms.
        reason: a difference that distinguishes the runs with certainty; empty for none.
    """

    squared: float = 0.0
    losses: tuple[float, ...] = ()
    reason: str = ""

    @property
    def pure(self) -> float:
        """The sum of all losses but those of Gaussian noise."""
        return math.fsum(self.losses)

    def epsilon(self, delta: float) -> float:
        """The least epsilon at `delta` of the two data sets."""
        if self.reason:
            return math.inf
        if self.squared == 0.0:
            return responses_epsilon(self.losses, delta)
        if delta == 0.0:
            return math.inf
        mu = math.sqrt(self.squared)
        return max(responses_epsilon(self.losses, delta), gaussian_epsilon(mu, delta))

    @property
    def order(self) -> tuple[bool, float]:
        """A sort key, larger for larger losses."""
        return bool(self.reason), self.pure + math.sqrt(self.squared)


def responses_epsilon(losses: Sequence[float], delta: float) -> float:
    """Epsilon at `delta` of randomised responses with these losses; their sum without a delta."""
    if delta == 0.0 or len(losses) < 2:
        return math.fsum(losses)
    shares = {0.0: 1.0}  # of the first data set, by how much likelier an outcome is there
    for loss in losses:
        before, shares = shares, {}
        for lost, share in before.items():
            for answer in (loss, -loss):  # the truth, or not
                key, part = round(lost + answer, 12), share / (1.0 + math.exp(-answer))
                shares[key] = shares.get(key, 0.0) + part

    def excess(epsilon: float) -> float:
        above = [s * -math.expm1(epsilon - lost) for lost, s in shares.items() if lost > epsilon]
        return math.fsum(above) - delta

    return 0.0 if excess(0.0) <= 0.0 else float(brentq(excess, 0.0, math.fsum(losses), xtol=1e-12))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of N(0, 1) against N(mu, 1) (see the module)."""

    def excess(epsilon: float) -> float:
        first = log_ndtr(0.5 * mu - epsilon / mu)
        second = epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
        return float(math.exp(first) * -math.expm1(min(second - first, 0.0))) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    highest = 1.0
    while excess(highest) > 0.0:
        highest *= 2.0
        if highest > 1e6:
            return math.inf
    return float(brentq(excess, 0.0, highest, xtol=1e-12, rtol=1e-14))


# Noise of two numbers is the same if it differs by the rounding of either at most.
_SAME = 1e-13
_NUMBERS = 64
# Two numbers on OpenDP's grid are equal with a probability of 2.6e-10: among more numbers than the
# first of these one pair is allowed, then two, then three.
_BY_CHANCE = (4, 64, 1000)


@dataclass(frozen=True, eq=False)
class Draw(ABC):
    """One mechanism, applied once.

    Attributes:
        kind: its name.
        mechanism: the scale of additive noise; else the mechanism itself.
        value: (n, ...) the private input: values before noise, (bin, sign), vectors, or scores.
        outcome: the output.
        public: its public input, as the ranges of scores.
        secure: whether noise came from SecureNoise, whose grid makes equal numbers by chance.
    """

    kind: ClassVar[str]
    mechanism: Any
    value: FloatArray
    outcome: Any
    public: Sequence[float] | FloatArray = ()
    secure: bool = False

    def __str__(self) -> str:
        return str(self.mechanism)

    @cached_property
    def value_bytes(self) -> bytes:
        """The bits of the private input."""
        return self.value.tobytes()

    @cached_property
    def has_nan(self) -> bool:
        """Whether the private input has NaN, which is equal to nothing."""
        return bool(np.isnan(self.value).any())

    @abstractmethod
    def loss(self, other: Self) -> Loss:
        """The loss of the mechanism between this value and the other one."""

    def log_density(self) -> float:
        """The log-likelihood of the outcome, but for a constant."""
        raise InvalidInput(f"the audit knows no likelihood of {self}; ask for --trials 0.")

    def moved(self, other: Self) -> IntArray:
        """The rows in which two values differ."""
        apart = (self.value != other.value).reshape(len(self.value), -1)
        return np.flatnonzero(apart.any(axis=1))


class AddedNoise(Draw):
    """Noise on every number; `norm` is that in which its sensitivity is measured."""

    norm: ClassVar[int]

    def __str__(self) -> str:
        return f"{self.kind} noise of scale {self.mechanism!r}"

    def distance(self, other: Draw) -> float:
        """How far apart two values are."""
        return float(np.linalg.norm((self.value - other.value).ravel(), self.norm))

    def log_density(self) -> float:
        away = np.asarray(self.outcome) - self.value
        return -self._lost(away) - away.size * math.log(self.mechanism)

    @abstractmethod
    def _lost(self, away: FloatArray) -> float:
        """Minus the log-density of noise, but for a constant."""


class GaussianDraw(AddedNoise):
    """mu = |x - x'|_2 / scale."""

    kind, norm = "gaussian", 2

    def loss(self, other: Self) -> Loss:
        return Loss(squared=self.distance(other) ** 2 / self.mechanism**2)

    def _lost(self, away: FloatArray) -> float:
        lost: float = np.square(away).sum() / (2.0 * self.mechanism**2)
        return lost


class LaplaceDraw(AddedNoise):
    """|x - x'|_1 / scale."""

    kind, norm = "laplace", 1

    def loss(self, other: Self) -> Loss:
        return Loss(losses=(self.distance(other) / self.mechanism,))

    def _lost(self, away: FloatArray) -> float:
        lost: float = np.abs(away).sum() / self.mechanism
        return lost


class SubsetDraw(Draw):
    """Signed subset selection of (bin, sign)."""

    kind = "subset"

    def loss(self, other: Self) -> Loss:
        return Loss(losses=(subset_ratio(self.mechanism, self.secure),) * len(self.moved(other)))


class UnaryDraw(Draw):
    """Unary encoding of one of several values."""

    kind = "unary"

    def loss(self, other: Self) -> Loss:
        return Loss(losses=(unary_ratio(self.mechanism, self.secure),) * len(self.moved(other)))


class VectorDraw(Draw):
    """PrivUnit of vectors."""

    kind = "vector"

    def loss(self, other: Self) -> Loss:
        moved = self.moved(other)
        pairs = zip(self.value[moved], other.value[moved], strict=True)
        return Loss(
            losses=tuple(vector_ratio(self.mechanism, *pair, self.secure) for pair in pairs)
        )


class SelectionDraw(Draw):
    """The exponential mechanism on scores."""

    kind = "selection"

    def loss(self, other: Self) -> Loss:
        with np.errstate(invalid="ignore"):
            away = np.abs(self._logs() - other._logs())
        return Loss(losses=tuple(np.where(np.isnan(away), 0.0, away).max(axis=1).tolist()))

    def log_density(self) -> float:
        logs = self._logs()
        return float(logs[np.arange(len(logs)), self.outcome].sum())

    def _logs(self) -> FloatArray:
        logs: FloatArray = self.mechanism.log_probabilities(self.value, self.public)
        return logs


def loss_between(mine: Sequence[Draw], theirs: Sequence[Draw]) -> Loss:
    """The loss of everything that two runs drew, the one with the other's outcomes."""
    squared = 0.0
    losses: tuple[float, ...] = ()
    if len(mine) != len(theirs):
        return Loss(reason=f"there are {len(mine)} draws on one, {len(theirs)} on the other")
    for number, (draw, other) in enumerate(zip(mine, theirs, strict=True)):
        if (draw.kind, draw.mechanism) != (other.kind, other.mechanism):
            return Loss(reason=f"draw {number + 1} is {draw} on one, {other} on the other")
        if draw.public is not other.public and not np.array_equal(draw.public, other.public):
            return Loss(reason=f"the ranges of draw {number + 1} differ")
        if draw.value_bytes != other.value_bytes or draw.has_nan:
            if not (np.isfinite(draw.value).all() and np.isfinite(other.value).all()):
                return Loss(reason=f"whether the values of draw {number + 1} are finite")
            loss = draw.loss(other)
            squared, losses = squared + loss.squared, (*losses, *loss.losses)
    return Loss(squared, losses)


def shared_noise(draws: Sequence[Draw]) -> str:
    """Noise that two numbers share, or that is 0, in words; empty if there is none.

    Losses add because each number has noise of its own; the difference of two numbers with the same
    noise has none. OpenDP draws on a grid, on which a few of many numbers are equal by chance.
    """
    noises, tolerances = [], []
    for draw in draws:
        if not isinstance(draw, AddedNoise):
            continue
        value, outcome = draw.value.ravel()[:_NUMBERS], np.ravel(draw.outcome)[:_NUMBERS]
        noises.append(np.abs(outcome - value) / draw.mechanism)
        tolerances.append(_SAME + 4e-16 * (np.abs(value) + np.abs(outcome)) / draw.mechanism)
    if not noises:
        return ""
    noise, tolerance = np.concatenate(noises), np.concatenate(tolerances)
    secure = any(draw.secure for draw in draws)
    most = sum(len(noise) > count for count in _BY_CHANCE) if secure else 0
    if (noise <= tolerance).sum() > most:
        return "a number was released without noise"
    order = np.argsort(noise)
    equal = np.diff(noise[order]) <= np.maximum(tolerance[order][1:], tolerance[order][:-1])
    if equal.sum() > most:
        return "two released numbers have the same noise"
    return ""


# The ledgers that record at present; the last one writes down.
_RECORDING: list[NoiseTape] = []
# What makes generators; NumPy's are built from these, or by `default_rng`.
_GENERATORS = (
    *((np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")),
    (np.random, "RandomState"),
    (random, "Random"),
    (random, "SystemRandom"),
)
# Audit events by which data leave a process, besides files that are opened to write.
_LEAVING = ("os.system", "socket.connect", "socket.sendto", "sqlite3.connect", "subprocess.Popen")
# How often stand-ins are wanted at present.
_watches = 0


def _seams() -> Iterator[tuple[Any, str, str]]:
    """Everything that draws, and the method of `NoiseTape` that stands in for it."""
    for source in (SimulatedNoise, SecureNoise):
        for name in ("add_gaussian", "add_laplace", "coins", "below", "keys"):
            yield source, name, f"_{name}"
    yield SignedSubsetSelection, "privatise", "_subset"
    yield UnaryEncoding, "privatise", "_unary"
    yield PrivUnit, "_report", "_vector"
    yield ExponentialMechanism, "select", "_selection"


def _makers() -> Iterator[tuple[Any, str, str]]:
    """Makers of sources and generators, and the method of `NoiseTape` that stands in for each."""
    yield SimulatedNoise, "__init__", "_simulated"
    yield SecureNoise, "__init__", "_secure"
    yield np.random, "default_rng", "_generator"
    yield os, "urandom", "_bytes"
    yield random, "_urandom", "_bytes"


@contextmanager
def watching() -> Iterator[None]:
    """Replace everything that draws by stand-ins, which ask the tape that records, if one does.

    Entered once around many runs, it saves the cost of replacing in each.
    """
    global _watches
    _prepare()
    with ExitStack() as stack:
        if not _watches:
            for owner, name, method in _seams():
                stand_in = _drawing(getattr(owner, name), method)
                stack.enter_context(patch.object(owner, name, stand_in))
            for owner, name, method in _makers():
                stand_in = _making(getattr(owner, name), method)
                stack.enter_context(patch.object(owner, name, stand_in))
            for owner, name in _GENERATORS:
                stack.enter_context(patch.object(owner, name, _made(getattr(owner, name))))
        _watches += 1
        try:
            yield
        finally:
            _watches -= 1


@lru_cache
def _prepare() -> None:
    """Load OpenDP, and receive audit events about files and connections from now on."""
    with suppress(InvalidInput):
        SecureNoise().check_additive()
    sys.addaudithook(_leaves)


def _leaves(event: str, given: tuple[Any, ...]) -> None:
    if not _RECORDING or (event != "open" and event not in _LEAVING):
        return
    # Descriptors were opened before.
    reads = event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR)
    if not reads and not isinstance(given[0], int):
        _RECORDING[-1].left(f"{event} {given[0]}")


def _drawing(original: Any, method: str) -> Callable[..., Any]:
    """A stand-in that records; draws inside the original are not recorded again."""

    def stand_in(*given: Any, **named: Any) -> Any:
        tape = _RECORDING[-1] if _RECORDING else None
        if tape is None or tape.inside:
            return original(*given, **named)
        tape.inside = True
        try:
            return getattr(tape, method)(original, *given, **named)
        finally:
            tape.inside = False

    return stand_in


def _making(original: Any, method: str) -> Callable[..., Any]:
    """A stand-in that checks who makes something, inside mechanisms too."""

    def stand_in(*given: Any, **named: Any) -> Any:
        if not _RECORDING:
            return original(*given, **named)
        return getattr(_RECORDING[-1], method)(original, *given, **named)

    return stand_in


def _made(kind: type[Any]) -> Any:
    """A class of generators that checks who makes each new object."""

    class Watched(type(kind)):  # type: ignore[misc]
        def __call__(cls, *given: Any, **named: Any) -> Any:
            if _RECORDING:
                _RECORDING[-1].made(kind.__name__)
            return kind(*given, **named)

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, kind)

    return Watched(kind.__name__, (kind,), {})


class NoiseTape:
    """Records a run, or plays one back (see the module).

    Attributes:
        draws: of the present run.
        astray: how the run drew something else than the recorded one; empty if it did not.
        foreign: the first draw from anything but the audit's sources; empty if none was.
        inside: whether a mechanism runs that is recorded as a whole.
    """

    def __init__(self, seed: int | np.random.SeedSequence = 0) -> None:
        self._rng = np.random.default_rng(seed)
        # What was drawn: its kind, what else was asked for that is public, and what came back.
        self._entries: list[tuple[str, tuple[Any, ...], Any]] = []
        self._played: NoiseTape | None = None
        # Sources that the audit made or took over; they are kept, so that none has their id.
        self._handed: list[NoiseSource] = []
        # Where public generators were made, from which seeds, and how far they were used.
        self._generators: list[tuple[str, str, np.random.Generator]] = []
        self._public: set[tuple[str, str, str]] = set()
        self.draws: list[Draw] = []
        self.astray = ""
        self.foreign = ""
        self.inside = False

    @contextmanager
    def recording(self) -> Iterator[NoiseTape]:
        """Record the draws inside, with new noise."""
        self._entries, self._handed, self._generators, self._public = [], [], [], set()
        self.draws, self.astray, self.foreign = [], "", ""
        with watching():
            _RECORDING.append(self)
            # Looking takes a while: the recorded run, of which there are several, stands for all.
            before = None if self._played else _global_states()
            try:
                yield self
            finally:
                _RECORDING.remove(self)
        if before and _global_states() != before:
            self._strange("it draws from the generator that Python or NumPy shares")
        for site, seed, generator in self._generators:
            self._public.add((site, seed, repr(generator.bit_generator.state)))

    @contextmanager
    def playing(self, recorded: NoiseTape) -> Iterator[NoiseTape]:
        """Replay inside the outcomes that the other tape recorded."""
        self._played = recorded
        with self.recording():
            yield self
        if len(self._entries) < len(recorded._entries):
            self._strays("it drew less")
        # What is kept from one run to the next is not made again.
        for site, *_ in sorted(self._public - recorded._public):
            self._strays(f"the public randomness of {site}")

    # Who draws, and from what.

    def hand(self, source: NoiseSource) -> NoiseSource:
        """The source, from which the code may draw."""
        self._handed.append(source)
        return source

    def made(self, what: str) -> None:
        """Note who makes a generator."""
        site = maker()
        if site is not None and not may_generate(site):
            self._strange(f"{site} makes a generator ({what})")

    def left(self, how: str) -> None:
        """Note who opens what data can leave by."""
        site = maker()
        if site is not None and not may_write(site):
            self.foreign = self.foreign or f"{site} writes beside its report ({how:.80})"

    def _strange(self, what: str) -> None:
        self.foreign = self.foreign or f"{what}; draw everything from the noise source given"

    def _given(self, source: NoiseSource, what: str) -> None:
        if not any(each is source for each in self._handed):
            self._strange(f"{what} come from a source that the code made itself")

    def _simulated(self, original: Any, source: Any, seed: Any = None) -> None:
        site = maker()
        if site is None:
            self._handed.append(source)
        elif self.inside:
            self._strange(f"{site} makes SimulatedNoise")
        elif site in SOURCES and not any(each.secure for each in self._handed):
            self._handed.append(source)
        if not self.inside:
            self._taken("a seed", (repr(seed),), lambda: None)
        original(source, seed)

    def _secure(self, original: Any, source: Any) -> None:
        site = maker()
        if site is None or site in SOURCES:
            self._handed.append(source)
        original(source)

    def _generator(self, original: Any, seed: Any = None) -> Any:
        generator = original(seed)
        site = maker()
        if generator is seed or site is None or site.endswith(" SimulatedNoise.__init__"):
            return generator
        if not may_generate(site):
            self._strange(f"{site} makes a generator")
        elif seed is not None:
            self._generators.append((site, repr(seed), generator))
        elif not site.startswith(SERVING):
            self._strange(f"{site} makes a generator without a seed")
        return generator

    def _bytes(self, original: Any, count: int) -> Any:
        # Of SecureNoise this is seen inside only, where each draw is written down as a whole.
        site = maker()
        if site is not None and not may_name(site):
            self._strange(f"{site} draws from the operating system")
        if self.inside:
            return original(count)
        return self._taken("bytes", (count,), partial(original, count))

    def _taken(self, name: str, asked: tuple[Any, ...], fresh: Callable[[], Any]) -> Any:
        """A copy of the recorded outcome in this place; a new draw if another one was asked for."""
        place = len(self._entries)
        played = None if self._played is None else self._played._entries
        if played is None:
            outcome = fresh()
        elif place >= len(played):
            self._strays(f"it drew {name} besides")
            outcome = fresh()
        elif played[place][:2] == (name, asked):
            outcome = played[place][2]
        else:
            before, other, _ = played[place]
            self._strays(f"it drew {name} {asked} in place of {before} {other}")
            outcome = fresh()
        self._entries.append((name, asked, outcome))
        if isinstance(outcome, tuple):
            return tuple(part.copy() for part in outcome)
        return outcome.copy() if isinstance(outcome, np.ndarray) else outcome

    def _strays(self, how: str) -> None:
        self.astray = self.astray or how

    # Draws whose law has data.

    def _drawn(
        self,
        kind: type[Draw],
        mechanism: Any,
        value: FloatArray,
        noise: NoiseSource,
        fresh: Callable[[], Any],
        public: Sequence[float] | FloatArray = (),
    ) -> Any:
        self._given(noise, f"draws of {kind.kind}")
        exact = np.array(value, dtype=np.float64)
        taken = self._taken(kind.kind, (exact.shape,), fresh)
        self.draws.append(kind(mechanism, exact, self._entries[-1][2], public, noise.secure))
        return taken

    def _fresh(self, original: Any, *given: Any) -> Callable[[], Any]:
        """Mechanisms whose distribution has a check of its own draw from a fast source."""
        return lambda: original(*given, SimulatedNoise(int(self._rng.integers(2**62))))

    def _add_gaussian(self, original: Any, source: Any, values: Any, scale: float) -> Any:
        fresh = partial(original, source, values, scale)
        return self._drawn(GaussianDraw, scale, values, source, fresh)

    def _add_laplace(self, original: Any, source: Any, values: Any, scale: float) -> Any:
        fresh = partial(original, source, values, scale)
        return self._drawn(LaplaceDraw, scale, values, source, fresh)

    def _subset(
        self, original: Any, mechanism: Any, bins: Any, signs: Any, noise: NoiseSource
    ) -> Any:
        value = np.stack([np.asarray(bins), np.asarray(signs)], axis=1)
        # Every report has positive probability for every person: one drawn for a random person
        # shows what the code does with reports that are rare for the person of the run.
        anyone = self._rng.integers(mechanism.bins, size=len(value))
        either = self._rng.choice(np.array([-1, 1], dtype=np.int8), size=len(value))
        fresh = self._fresh(original, mechanism, anyone, either)
        return self._drawn(SubsetDraw, mechanism, value, noise, fresh)

    def _unary(self, original: Any, mechanism: Any, values: Any, noise: NoiseSource) -> Any:
        value = np.asarray(values)
        anyone = self._rng.integers(mechanism.values, size=len(value))
        fresh = self._fresh(original, mechanism, anyone)
        return self._drawn(UnaryDraw, mechanism, value, noise, fresh)

    def _vector(
        self, original: Any, mechanism: Any, directions: Any, lengths: Any, noise: NoiseSource
    ) -> Any:
        value = np.asarray(directions) * np.asarray(lengths)[:, None]
        fresh = self._fresh(original, mechanism, directions, lengths)
        return self._drawn(VectorDraw, mechanism, value, noise, fresh)

    def _selection(
        self, original: Any, mechanism: Any, scores: Any, score_range: Any, noise: NoiseSource
    ) -> Any:
        ranges = np.broadcast_to(np.asarray(score_range, dtype=np.float64), len(scores))
        fresh = self._fresh(original, mechanism, scores, score_range)
        return self._drawn(SelectionDraw, mechanism, scores, noise, fresh, ranges)

    # Draws without looking at data.

    def _coins(self, original: Any, source: Any, probability: Any, shape: Any) -> Any:
        self._given(source, "coins")
        size = tuple(np.atleast_1d(shape))
        uniform = self._taken("coins", (size,), lambda: self._rng.random(shape))
        return uniform < np.asarray(probability, dtype=np.float64)

    def _below(self, original: Any, source: Any, bound: int, shape: Any) -> Any:
        self._given(source, "whole numbers")
        asked = int(bound), tuple(np.atleast_1d(shape))
        return self._taken("below", asked, partial(original, source, bound, shape))

    def _keys(self, original: Any, source: Any, shape: Any) -> Any:
        self._given(source, "keys")
        asked = (tuple(np.atleast_1d(shape)),)
        return self._taken("keys", asked, partial(original, source, shape))


@contextmanager
def unrecorded() -> Iterator[None]:
    """Nothing drawn inside is recorded or played back."""
    hidden, _RECORDING[:] = _RECORDING[:], []
    try:
        yield
    finally:
        _RECORDING[:] = hidden


def hand(source: NoiseSource) -> NoiseSource:
    """The source, from which audited code may draw, in a run that is recorded."""
    return _RECORDING[-1].hand(source) if _RECORDING else source


def _global_states() -> tuple[Any, ...]:
    """Of the generators that Python and NumPy share among all code."""
    numpy: Any = np.random.get_state(legacy=True)  # noqa: NPY002 (it is looked at)
    return numpy[1].tobytes(), numpy[2:], random.getstate()
