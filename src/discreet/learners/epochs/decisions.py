"""How the arms of an epoch are chosen: a public law of the context and of a public ticket.

| class      | a person is given                                                                 |
|------------|-----------------------------------------------------------------------------------|
| `Thompson` | the best arm under one of some public draws from the released posterior           |
| `Offers`   | an arm drawn from a public table, at the nearest tabulated context                |

| array   | shape  | meaning                                            | symbol     |
|---------|--------|----------------------------------------------------|------------|
| unit    | (n, d) | contexts as points of [0, 1]^d                     | c          |
| offers  | (N, K) | probabilities of arms at the tabulated contexts    | pi(x | c)  |
| uniform | (n,)   | one public number in [0, 1) for each person        |            |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from discreet.codec import decode_array, encode_array
from discreet.learners.epochs.features import ArmFeatures
from discreet.learners.messages import TICKETS
from discreet.learners.public_randomness import public_uniforms
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_number,
    freeze_arrays,
    whole_number,
)

# Public draws of theta that share the people of an epoch; fewer where every person's probabilities
# must be worked out anew, or where tables would be larger than this many scores.
_DRAWS = 600
_DRAWS_ANEW = 100
_SCORES = 2**21
_FEWEST_DRAWS = 64


class Decision(ABC):
    """A public law of arms given contexts."""

    features: ArmFeatures

    @cached_property
    @abstractmethod
    def table(self) -> FloatArray:
        """(N, K) probabilities of arms at the tabulated contexts."""

    @abstractmethod
    def probabilities(self, unit: FloatArray) -> FloatArray:
        """(n, K) probabilities of arms."""

    @abstractmethod
    def choose(self, unit: FloatArray, uniform: FloatArray) -> IntArray:
        """(n,) arms."""

    @abstractmethod
    def using(self, features: ArmFeatures) -> Decision:
        """The same law on a copy of its features."""

    @abstractmethod
    def to_fields(self) -> dict[str, Any]:
        """JSON values, without the features."""


@dataclass(frozen=True, eq=False)
class Thompson(Decision):
    """The best arm under mean + factor * root * z_k, where k is drawn for each person.

    Attributes:
        features: of contexts and arms.
        mean: (m,) posterior mean.
        root: (m, m) a square root of the posterior covariance.
        factor: how far draws are spread; 0 gives the best arm by the mean.
        draws: how many draws there are.
        seed: with `version` it fixes the draws.
        version: of the policy.
    """

    features: ArmFeatures
    mean: FloatArray
    root: FloatArray
    factor: float
    draws: int
    seed: int
    version: int

    def __post_init__(self) -> None:
        freeze_arrays(self)
        if (self.mean.shape, self.root.shape[:1]) != (
            (self.features.features,),
            (self.features.features,),
        ):
            raise InvalidInput(
                f"a posterior had shapes {self.mean.shape} and {self.root.shape} for "
                f"{self.features.features} features; send it as made."
            )

    @cached_property
    def drawn(self) -> FloatArray:
        """(draws, m) draws of theta."""
        places = np.arange(self.root.shape[1])
        tickets = np.arange(self.draws, dtype=np.uint64)[:, None]
        uniforms = public_uniforms(self.seed, self.version, tickets, places)
        normal = ndtri(np.clip(uniforms, 2.0**-54, 1.0 - 2.0**-53))
        drawn: FloatArray = self.mean + self.factor * normal @ self.root.T
        return drawn

    def _best(self, phi: FloatArray) -> IntArray:
        """(n, draws) the best arm under each draw, from features (n, K, m)."""
        n, arms, features = phi.shape
        scores = phi.reshape(n * arms, features) @ self.drawn.T
        return np.asarray(scores.reshape(n, arms, -1).argmax(axis=1), dtype=np.int64)

    @cached_property
    def _tabulated(self) -> IntArray:
        table = self.features.table
        parts = [self._best(table[some]) for some in self._portions(len(table))]
        return np.concatenate(parts)

    def _portions(self, people: int) -> list[slice]:
        most = max(1, 2 * _SCORES // (self.features.arms * self.draws))
        return [slice(start, start + most) for start in range(0, people, most)]

    @cached_property
    def table(self) -> FloatArray:
        return _shares(self._tabulated, self.features.arms)

    def probabilities(self, unit: FloatArray) -> FloatArray:
        if self.features.contexts.exact:
            return self.table[self.features.contexts.places(unit)]
        parts = [
            _shares(self._best(self.features.all(unit[some])), self.features.arms)
            for some in self._portions(len(unit))
        ]
        return np.concatenate(parts)

    def choose(self, unit: FloatArray, uniform: FloatArray) -> IntArray:
        draw = np.minimum((uniform * self.draws).astype(np.int64), self.draws - 1)
        if self.features.contexts.exact:
            return self._tabulated[self.features.contexts.places(unit), draw]
        arms = np.empty(len(unit), dtype=np.int64)
        for some in self.features.portions(len(unit)):
            phi = self.features.all(unit[some])
            arms[some] = np.einsum("nkm,nm->nk", phi, self.drawn[draw[some]]).argmax(axis=1)
        return arms

    def using(self, features: ArmFeatures) -> Thompson:
        return replace(self, features=features)

    def to_fields(self) -> dict[str, Any]:
        return {
            "kind": "thompson",
            "mean": self.mean.tolist(),
            "root": encode_array(self.root),
            "factor": self.factor,
            "draws": self.draws,
            "seed": self.seed,
            "version": self.version,
        }


@dataclass(frozen=True, eq=False)
class Offers(Decision):
    """Arms drawn from a table.

    Attributes:
        features: of contexts and arms.
        offers: see the module's table.
    """

    features: ArmFeatures
    offers: FloatArray

    def __post_init__(self) -> None:
        freeze_arrays(self)
        wanted = len(self.features.contexts), self.features.arms
        if (
            self.offers.shape != wanted
            or not (self.offers >= 0.0).all()
            or not (np.abs(self.offers.sum(axis=1) - 1.0) <= 1e-9).all()
        ):
            raise InvalidInput(
                f"offers had shape {self.offers.shape}; they need the shape {wanted}, and rows of "
                "probabilities that add up to 1."
            )

    @cached_property
    def table(self) -> FloatArray:
        return self.offers

    @cached_property
    def _cumulative(self) -> FloatArray:
        """Where no number in [0, 1) may end up behind the last arm that is offered."""
        steps = np.cumsum(self.offers, axis=1)
        last = self.offers.shape[1] - 1 - (self.offers[:, ::-1] > 0.0).argmax(axis=1)
        steps[np.arange(self.offers.shape[1]) >= last[:, None]] = 1.0
        return steps

    def probabilities(self, unit: FloatArray) -> FloatArray:
        return self.offers[self.features.contexts.places(unit)]

    def choose(self, unit: FloatArray, uniform: FloatArray) -> IntArray:
        steps = self._cumulative[self.features.contexts.places(unit)]
        return np.asarray((steps <= uniform[:, None]).sum(axis=1), dtype=np.int64)

    def using(self, features: ArmFeatures) -> Offers:
        return replace(self, features=features)

    def to_fields(self) -> dict[str, Any]:
        return {"kind": "offers", "offers": encode_array(self.offers)}


def decision_from_fields(fields: Mapping[str, Any], features: ArmFeatures) -> Decision:
    """The inverse of `to_fields`."""
    if fields["kind"] == "offers":
        return Offers(features, decode_array(fields["offers"], "offers", 2))
    if fields["kind"] == "thompson":
        return Thompson(
            features,
            decode_array(fields["mean"], "mean", 1),
            decode_array(fields["root"], "root", 2),
            finite_number(fields["factor"], "factor"),
            whole_number(fields["draws"], "draws", minimum=1, maximum=_DRAWS),
            whole_number(fields["seed"], "seed", maximum=TICKETS - 1),
            whole_number(fields["version"], "version", maximum=TICKETS - 1),
        )
    raise InvalidInput(
        f"the kind of a decision was {fields['kind']!r:.80}; it must be offers or thompson."
    )


def usual_draws(features: ArmFeatures) -> int:
    """How many draws a Thompson policy has."""
    pairs = len(features.contexts) * features.arms
    most = _DRAWS if features.contexts.exact else _DRAWS_ANEW
    return min(most, max(_FEWEST_DRAWS, _SCORES // pairs))


def _shares(best: IntArray, arms: int) -> FloatArray:
    """(n, K) how often each arm is best, from (n, draws)."""
    n, draws = best.shape
    flat = (best + np.arange(n)[:, None] * arms).ravel()
    counts = np.bincount(flat, minlength=n * arms).reshape(n, arms)
    shares: FloatArray = counts / draws
    return shares
