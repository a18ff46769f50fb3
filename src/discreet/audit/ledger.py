"""A run of any code with all that it hands to noise written down, and the same on a neighbour.

While a `Ledger` is open, noise sources and mechanisms write down what they are given, wherever the
code got them from. Played back, they hand out the same outcomes again while the code runs on
another data set, so both runs have the same public past, and what was handed in on either tells the
exact privacy loss (losses.py). This is record and replay as in Re:cord-play (Cebere, Erb,
Desfontaines, Bellet and Fitzsimons 2026, arXiv 2602.17454).

| what is drawn                  | recorded               | played back                           |
|--------------------------------|------------------------|---------------------------------------|
| Gaussian and Laplace noise     | values, scale, outcome | the outcome                           |
| subset selection, PrivUnit,    | the private value, the | the outcome; each of these mechanisms |
| exponential mechanism          | mechanism, the outcome | has a check of its own for its law    |
| coins                          | uniform numbers        | the same, against the new probability |
| whole numbers, keys, `urandom` | the outcome            | the outcome: their law has no data    |

Conditional on coins, whole numbers and keys, which have the same law on either data set, the loss
of a run is that of its mechanisms; so a loss that is never above epsilon proves epsilon for these
two data sets, and where these numbers are public, or do not matter, it is exact.

A seed from which a source is made while a ledger is open must not depend on data: whoever guesses
the data would take the noise off.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.losses import (
    Draw,
    GaussianDraw,
    LaplaceDraw,
    SelectionDraw,
    SubsetDraw,
    VectorDraw,
)
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from discreet.privacy.selection import ExponentialMechanism
from discreet.privacy.vectors import PrivUnit
from discreet.validation import FloatArray


@dataclass(frozen=True, eq=False)
class _Chance:
    """Something that was drawn without looking at data."""

    name: str
    asked: tuple[Any, ...]
    outcome: Any


class Ledger:
    """Records a run, or plays one back (see the module).

    Attributes:
        draws: of the present run.
        astray: how the run asked for something else than the recorded one; empty if it did not.
        own_noise: whether the run made a generator without a seed, which no noise source is.
    """

    def __init__(self, seed: int | np.random.SeedSequence = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._entries: list[Draw | _Chance] = []
        self._played: list[Draw | _Chance] | None = None
        self._open = False
        self.draws: list[Draw] = []
        self.astray = ""
        self.own_noise = False

    @contextmanager
    def recording(self) -> Iterator[Ledger]:
        """Write down what happens inside, with fresh noise."""
        self._played = None
        with self._watching():
            yield self

    @contextmanager
    def playing(self, recorded: Ledger) -> Iterator[Ledger]:
        """Hand out inside what the other ledger recorded."""
        self._played = recorded._entries
        with self._watching():
            yield self
        if len(self._entries) < len(self._played):
            self._strays("it drew less")

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self._entries, self.draws, self.astray, self.own_noise = [], [], "", False
        with ExitStack() as stack:
            for owner, name, wrap in self._seams():
                original = getattr(owner, name)
                stack.enter_context(patch.object(owner, name, self._seam(original, wrap)))
            self._open = True
            try:
                yield
            finally:
                self._open = False

    def _seam(self, original: Any, wrap: Callable[..., Any]) -> Callable[..., Any]:
        """A stand-in that writes down, and while it does lets everything inside be as it is."""

        def stand_in(*given: Any, **named: Any) -> Any:
            if not self._open:
                return original(*given, **named)
            self._open = False
            try:
                return wrap(original, *given, **named)
            finally:
                self._open = True

        return stand_in

    def _seams(self) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
        for source in (SimulatedNoise, SecureNoise):
            yield source, "add_gaussian", partial(self._added, GaussianDraw)
            yield source, "add_laplace", partial(self._added, LaplaceDraw)
            yield source, "coins", self._coins
            yield source, "below", self._below
            yield source, "keys", self._keys
        yield SimulatedNoise, "__init__", self._seeded
        yield SignedSubsetSelection, "privatise", self._subset
        yield PrivUnit, "_report", self._vector
        yield ExponentialMechanism, "select", self._selection
        yield np.random, "default_rng", self._generator
        yield os, "urandom", self._bytes
        yield random, "_urandom", self._bytes

    def _next(self, name: str, asked: tuple[Any, ...]) -> Any | None:
        """What was recorded in this place, if it was the same; None to draw afresh."""
        if self._played is None:
            return None
        place = len(self._entries)
        if place >= len(self._played):
            self._strays(f"it drew {name} besides")
            return None
        before = self._played[place]
        theirs: tuple[str, tuple[Any, ...]]
        if isinstance(before, Draw):
            theirs = before.kind, (before.value.shape,)
        else:
            theirs = before.name, before.asked
        if theirs != (name, asked):
            self._strays(f"it drew {name} {asked} in place of {theirs[0]} {theirs[1]}")
            return None
        return before

    def _strays(self, how: str) -> None:
        self.astray = self.astray or how

    def _drawn(
        self,
        kind: type[Draw],
        mechanism: Any,
        value: FloatArray,
        fresh: Callable[[], Any],
        public: FloatArray | None = None,
        secure: bool = False,
    ) -> Any:
        exact = np.array(value, dtype=np.float64)
        before = self._next(kind.kind, (exact.shape,))
        outcome = fresh() if before is None else before.outcome
        draw = kind(mechanism, exact, outcome, public, secure)
        self._entries.append(draw)
        self.draws.append(draw)
        return _copied(outcome)

    def _chance(self, name: str, asked: tuple[Any, ...], fresh: Callable[[], Any]) -> Any:
        before = self._next(name, asked)
        outcome = fresh() if before is None else before.outcome
        self._entries.append(_Chance(name, asked, outcome))
        return _copied(outcome)

    def _added(
        self, kind: type[Draw], original: Any, source: Any, values: Any, scale: float
    ) -> Any:
        def fresh() -> Any:
            return original(source, values, scale)

        return self._drawn(kind, scale, values, fresh, secure=source.secure)

    def _coins(self, original: Any, source: Any, probability: Any, shape: Any) -> Any:
        size = tuple(np.atleast_1d(shape))
        uniform = self._chance("coins", (size,), lambda: self._rng.random(shape))
        return uniform < np.asarray(probability, dtype=np.float64)

    def _below(self, original: Any, source: Any, bound: int, shape: Any) -> Any:
        asked = int(bound), tuple(np.atleast_1d(shape))
        return self._chance("below", asked, lambda: original(source, bound, shape))

    def _keys(self, original: Any, source: Any, shape: Any) -> Any:
        asked = (tuple(np.atleast_1d(shape)),)
        return self._chance("keys", asked, lambda: original(source, shape))

    def _bytes(self, original: Any, count: int) -> Any:
        return self._chance("bytes", (count,), lambda: original(count))

    def _generator(self, original: Any, seed: Any = None) -> Any:
        self.own_noise = self.own_noise or seed is None
        return original(seed)

    def _seeded(self, original: Any, source: Any, seed: Any = None) -> None:
        self._chance("a seed", (repr(seed),), lambda: None)
        original(source, seed)

    def _subset(
        self, original: Any, mechanism: Any, bins: Any, signs: Any, noise: NoiseSource
    ) -> Any:
        value = np.stack([np.asarray(bins), np.asarray(signs)], axis=1)
        # Every report can be anybody's: one of somebody drawn at random shows what the code does
        # with reports that are rare for the person of the run.
        anyone = self._rng.integers(mechanism.bins, size=len(value))
        either = self._rng.choice(np.array([-1, 1], dtype=np.int8), size=len(value))
        fresh = self._inner(lambda inner: original(mechanism, anyone, either, inner))
        return self._drawn(SubsetDraw, mechanism, value, fresh)

    def _vector(
        self, original: Any, mechanism: Any, directions: Any, lengths: Any, noise: NoiseSource
    ) -> Any:
        value = np.asarray(directions) * np.asarray(lengths)[:, None]
        fresh = self._inner(lambda inner: original(mechanism, directions, lengths, inner))
        return self._drawn(VectorDraw, mechanism, value, fresh)

    def _selection(
        self, original: Any, mechanism: Any, scores: Any, score_range: Any, noise: NoiseSource
    ) -> Any:
        ranges = np.broadcast_to(np.asarray(score_range, dtype=np.float64), len(scores))
        fresh = self._inner(lambda inner: original(mechanism, scores, score_range, inner))
        return self._drawn(SelectionDraw, mechanism, scores, fresh, ranges)

    def _inner(self, draw: Callable[[NoiseSource], Any]) -> Callable[[], Any]:
        """Mechanisms whose law has a check of its own draw from a source that costs little."""
        return lambda: draw(SimulatedNoise(int(self._rng.integers(2**62))))


def _copied(outcome: Any) -> Any:
    if isinstance(outcome, tuple):
        return tuple(_copied(part) for part in outcome)
    return outcome.copy() if isinstance(outcome, np.ndarray) else outcome
