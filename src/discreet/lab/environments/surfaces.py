"""Arms over contexts that nobody tuned a learner for: a table of surfaces, most of them one line.

| array    | shape  | meaning                                                                 |
|----------|--------|-------------------------------------------------------------------------|
| unit     | (n, d) | contexts on [0, 1]^d, where the means are written down                   |
| means    | (n, K) | the mean reward of each arm, on [0, 1] unless `Lognormal` pays           |

Each entry of `SURFACES` is the simplest example of one difficulty: fine structure under halves that
look alike, borders that no axis follows, declared bounds that are far too wide, columns that do not
matter, noise that is not constant, a world that changes. A learner that was tuned for smooth
problems on the whole box meets none of these there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtr

from discreet.lab.environments.base import People
from discreet.lab.environments.synthetic import (
    ContextSampler,
    ExponentialMeans,
    MeanFunction,
    SyntheticProblem,
    UniformContexts,
)
from discreet.people.columns import Number
from discreet.people.domain import RewardBounds
from discreet.toml_words import Two
from discreet.validation import BoolArray, FloatArray

Waves = Literal[1, 2]
Share = Annotated[Number, Field(gt=0, le=1)]


@dataclass(frozen=True)
class Surface:
    """What one entry of the table is called and does.

    Attributes:
        build: the problem for its options.
        description: one line.
        meanings: what each option means.
    """

    build: Callable[..., SyntheticProblem]
    description: str
    meanings: Mapping[str, str] = field(default_factory=dict)


class Lognormal(SyntheticProblem):
    """Rewards with a long tail: log-normal with scale 1, cut to [0, 100].

    An arm with unit mean m (see `ExponentialMeans`) has the median 3 exp(1.5 m): from 3 to 13.
    """

    reward_bounds = RewardBounds(0.0, 100.0)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        centre = math.log(3.0) + 1.5 * self._means(contexts)
        rewards = np.minimum(np.exp(centre + rng.standard_normal(centre.shape)), 100.0)
        return People(contexts, rewards, cut_lognormal_mean(centre, 100.0))


def cut_lognormal_mean(centre: FloatArray, bound: float) -> FloatArray:
    """The mean of min(exp(centre + Z), bound), Z standard normal."""
    away = math.log(bound) - centre
    mean: FloatArray = np.exp(centre + 0.5) * ndtr(away - 1.0) + bound * ndtr(-away)
    return mean


class UnevenNoise(SyntheticProblem):
    """Rewards that are almost certain for half of the people: Beta(50 m, 50 (1 - m)) where x_2 <
    1/2, Bernoulli(m) elsewhere; the mean is m everywhere."""

    def sample(self, people: int, rng: np.random.Generator) -> People:
        drawn = super().sample(people, rng)
        assert drawn.means is not None
        inner = np.clip(drawn.means, 1e-6, 1.0 - 1e-6)
        sure = rng.beta(50.0 * inner, 50.0 * (1.0 - inner))
        rewards = np.where(drawn.contexts[:, 1:2] < 0.5, sure, drawn.rewards)
        return People(drawn.contexts, rewards, drawn.means)


class Rotation(SyntheticProblem):
    """Arms change places for the second half of the people: arm k then pays as arm k - 1 did."""

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        contexts = self._contexts(people, rng)
        means = self._means(contexts)
        later = np.arange(people)[:, None] >= people // 2
        return People.bernoulli(contexts, np.where(later, np.roll(means, 1, axis=1), means), rng)


@dataclass(frozen=True)
class CornerOfBox:
    """Contexts, and means, that fill only a small square (cube) at the lower corner of the box.

    Attributes:
        side: of the square, as a share of the declared bounds.
        means: what is paid on the square, as a function on [0, 1]^d.
        dimension: d.
    """

    side: float
    means: MeanFunction
    dimension: int = 2

    def __call__(self, unit: FloatArray) -> FloatArray:
        return self.means(np.minimum(unit / self.side, 1.0))

    def contexts(self, people: int, rng: np.random.Generator) -> FloatArray:
        """(people, d) uniform on the square."""
        return self.side * rng.random((people, self.dimension))


@dataclass(frozen=True)
class PointContexts:
    """Contexts that are three points of the square, with probabilities 1/2, 3/10 and 1/5."""

    def __call__(self, people: int, rng: np.random.Generator) -> FloatArray:
        contexts: FloatArray = _POINTS[rng.choice(3, people, p=(0.5, 0.3, 0.2))]
        return contexts


_POINTS = np.array([[0.2, 0.3], [0.5, 0.8], [0.9, 0.4]])


def wave_means(unit: FloatArray) -> FloatArray:
    """.5 + .45 sin(2 pi (3 x_1 + k/3)) cos(6 pi x_2), k = 1, 2, 3; eight waves of x_1 if d = 1."""
    waves, across = 8.0, np.ones((len(unit), 1))
    if unit.shape[1] > 1:
        waves, across = 3.0, np.cos(6.0 * np.pi * unit[:, 1:2])
    means: FloatArray = 0.5 + 0.45 * np.sin(2.0 * np.pi * (waves * unit[:, :1] + _THIRDS)) * across
    return means


_THIRDS = np.array([1.0, 2.0, 3.0]) / 3.0


def checker_means(unit: FloatArray) -> FloatArray:
    """7 x 5 fields: arm 1 pays .8 on one colour and .2 on the other, arm 2 the reverse."""
    field = np.floor(7.0 * unit[:, 0]) + np.floor(5.0 * unit[:, 1])
    return _sides(np.mod(field, 2.0) == 0.0, 0.3)


def diagonal_means(unit: FloatArray) -> FloatArray:
    """Two arms, .8 and .2 on the two sides of the diagonal x_1 = x_2."""
    return _sides(unit[:, 0] > unit[:, 1], 0.3)


def gap_means(unit: FloatArray) -> FloatArray:
    """.5, .55 and .6 everywhere."""
    return np.tile(np.array([0.5, 0.55, 0.6]), (len(unit), 1))


def equal_means(unit: FloatArray) -> FloatArray:
    """.5 for each of three arms, everywhere."""
    return np.full((len(unit), 3), 0.5)


def dominated_means(unit: FloatArray) -> FloatArray:
    """Waves that all arms share; arm 1 pays .3 more than arm 2 and .2 more than arm 3."""
    shared = 0.45 + 0.2 * np.sin(2.0 * np.pi * unit[:, :1]) * np.cos(2.0 * np.pi * unit[:, 1:2])
    means: FloatArray = shared + np.array([0.3, 0.0, 0.1])
    return means


def strip_means(unit: FloatArray) -> FloatArray:
    """Arm 1 pays .6; arm 2 pays .9 in the strip .62 <= x_1 < .72 and .3 elsewhere."""
    inside = (unit[:, 0] >= 0.62) & (unit[:, 0] < 0.72)
    return np.stack([np.full(len(unit), 0.6), np.where(inside, 0.9, 0.3)], axis=1)


def point_means(unit: FloatArray) -> FloatArray:
    """The arm of the nearest of the three points pays .8, the two others .3."""
    nearest = ((unit[:, None, :2] - _POINTS) ** 2).sum(axis=2).argmin(axis=1)
    means: FloatArray = 0.3 + 0.5 * np.eye(3)[nearest]
    return means


def wheel_means(unit: FloatArray) -> FloatArray:
    """.5 + .4 cos(angle - 2 pi k/3), k = 0, 1, 2: the angle of (x_1, x_2) around the middle."""
    x, y = (unit[:, :2] - 0.5).T
    angle = np.arctan2(y, x)[:, None]
    means: FloatArray = 0.5 + 0.4 * np.cos(angle - 2.0 * np.pi * np.arange(3) / 3.0)
    return means


def faint_means(unit: FloatArray) -> FloatArray:
    """.62, .26 and .12, of which a context moves .04: three doses of which most need the same."""
    moved = 0.04 * (unit[:, :1] + unit[:, 1:2] - 1.0)
    means: FloatArray = np.array([0.62, 0.26, 0.12]) + moved * np.array([-1.0, 1.0, 0.0])
    return means


def _sides(first: BoolArray, margin: float) -> FloatArray:
    """(n, 2) means: arm 1 is best where `first`, by twice the margin."""
    signed = np.where(first, margin, -margin)
    return np.stack([0.5 + signed, 0.5 - signed], axis=1)


def _source(name: str) -> str:
    return f"Synthetic: the surface {name!r} of the zoo."


def _surface(
    name: str,
    means: MeanFunction,
    arms: int,
    dimension: int = 2,
    contexts: ContextSampler | None = None,
    kind: type[SyntheticProblem] = SyntheticProblem,
) -> SyntheticProblem:
    law = UniformContexts(dimension) if contexts is None else contexts
    return kind(means, law, dimension, arms, _source(name))


def _waves(dimension: Waves = 2) -> SyntheticProblem:
    return _surface("waves", wave_means, 3, dimension)


def _few_columns(dimension: Two = 6) -> SyntheticProblem:
    return _surface("few_columns", wheel_means, 3, dimension)


def _corner(side: Share = 0.05) -> SyntheticProblem:
    corner = CornerOfBox(side, ExponentialMeans(3))
    return _surface("corner", corner, 3, contexts=corner.contexts)


def _plain(
    name: str,
    means: MeanFunction,
    arms: int,
    contexts: ContextSampler | None = None,
    kind: type[SyntheticProblem] = SyntheticProblem,
) -> Callable[[], SyntheticProblem]:
    """An entry without options, on two columns."""
    return partial(_surface, name, means, arms, 2, contexts, kind)


_THREE = ExponentialMeans(3)
SURFACES: dict[str, Surface] = {
    "waves": Surface(
        _waves,
        "three arms in waves: no half of the square has a better arm than the other",
        {"dimension": "number of context columns: 1 (eight waves) or 2 (three by three)"},
    ),
    "checker": Surface(_plain("checker", checker_means, 2), "two arms on 7 x 5 fields"),
    "diagonal": Surface(
        _plain("diagonal", diagonal_means, 2), "two arms with a border that no axis follows"
    ),
    "strip": Surface(
        _plain("strip", strip_means, 2), "a second arm is best for a strip of 10% of the people"
    ),
    "three_points": Surface(
        _plain("three_points", point_means, 3, PointContexts()), "contexts are three points only"
    ),
    "corner": Surface(
        _corner,
        "the exponential problem where bounds of contexts are declared far too wide",
        {"side": "of the square with all people, as a share of the declared bounds"},
    ),
    "few_columns": Surface(
        _few_columns, "many columns of which two matter", {"dimension": "number of context columns"}
    ),
    "gaps": Surface(_plain("gaps", gap_means, 3), "three arms .05 apart, the same for everyone"),
    "equal_arms": Surface(_plain("equal_arms", equal_means, 3), "three arms that are all alike"),
    "dominating_arm": Surface(
        _plain("dominating_arm", dominated_means, 3),
        "one arm is best for everyone, though all depend on the context",
    ),
    "faint_contexts": Surface(
        _plain("faint_contexts", faint_means, 3),
        "as doses of warfarin: one arm is best for everyone, and contexts hardly matter",
    ),
    "lognormal": Surface(
        _plain("lognormal", _THREE, 3, kind=Lognormal), "rewards with a long tail, in [0, 100]"
    ),
    "uneven_noise": Surface(
        _plain("uneven_noise", _THREE, 3, kind=UnevenNoise),
        "rewards are almost certain for half of the people",
    ),
    "rotation": Surface(
        _plain("rotation", _THREE, 3, kind=Rotation),
        "the exponential problem, whose arms change places for the second half of the people",
    ),
}
