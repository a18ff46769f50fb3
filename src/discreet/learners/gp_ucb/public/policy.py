"""The policy of public points: each public coin draws a point.

For every coordinate group the policy has a table of probabilities on a public grid. A coin draws
one point in each group; the person's reward plays no part (public/learner.py has the rest).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np

from discreet.codec import Range, Serializable, Shape
from discreet.learners.gp_ucb.policy import GPPolicy, NoisyRows, PointObservations
from discreet.learners.gp_ucb.posterior import CENTRE
from discreet.learners.messages import Reports, public_uniforms
from discreet.learners.policy import Actions, CandidatesOrCount
from discreet.people.domain import DecisionSets, PublicSet
from discreet.privacy import NoiseSource
from discreet.privacy.noise import NO_NOISE
from discreet.validation import CoinArray, FloatArray, IntArray, InvalidInput


@dataclass(frozen=True, eq=False)
class OfferedGroup(Serializable):
    """The points of one coordinate group and their probabilities.

    Attributes:
        columns: the columns of the domain that it sets.
    """

    columns: tuple[Annotated[int, Range(0)], ...]
    grid: Annotated[FloatArray, Shape("N", "d")]
    probabilities: Annotated[FloatArray, Shape("N"), Range(0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        total = float(self.probabilities.sum())
        if self.grid.shape[1] != len(self.columns) or abs(total - 1.0) > 1e-9:
            raise InvalidInput(
                f"a group of {len(self.columns)} columns had a grid of shape {self.grid.shape} and "
                f"probabilities that add up to {total}; each point needs one, and they must add "
                "up to 1."
            )

    @cached_property
    def steps(self) -> FloatArray:
        """(N_g,) cumulative probabilities, 1 from the last point with positive probability on."""
        steps = np.cumsum(self.probabilities)
        steps[np.flatnonzero(self.probabilities)[-1] :] = 1.0
        return steps


@dataclass(frozen=True, eq=False)
class PublicPolicy(GPPolicy):
    """Chooses among points that are the same for everyone.

    Attributes:
        groups: for each coordinate group its points and their probabilities.
        measured: what the release of its people asks (`questions`).
    """

    kind: ClassVar[str] = "gp-public-policy"
    data = "the reward; points are chosen from earlier releases and public coins"
    sensitivity_source = "the length of the reward bounds"
    report_size = 1

    groups: tuple[OfferedGroup, ...]
    measured: Annotated[FloatArray, Shape("size", "r")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be public points.")
        if self.local is not None:
            self.local.check(1.0)
        if self.measured.shape[1] > self.measured.shape[0]:
            raise InvalidInput(
                f"measured had the shape {self.measured.shape}; a release asks at most as many "
                "questions as there are coefficients. Send policies as their learner made them."
            )
        given = sorted(column for group in self.groups for column in group.columns)
        if given != list(range(self.domain.dimension)):
            raise InvalidInput(
                f"the groups of a policy set the columns {given}; they must set each of the "
                f"{self.domain.dimension} columns once."
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        return len(self.measured), *(len(group.grid) for group in self.groups)

    def sent(self) -> tuple[tuple[tuple[int, ...], FloatArray, FloatArray], ...]:
        """Where people are sent: for each group, which are drawn independently of each other, its
        columns, points (N_g, d_g) in the units of the domain, and their probabilities (N_g,)."""
        return tuple((group.columns, group.grid, group.probabilities) for group in self.groups)

    def places(self, public_coins: CoinArray) -> IntArray:
        """(n, G) which point of each group the public coins draw."""
        places = np.empty((len(public_coins), len(self.groups)), dtype=np.int64)
        for g, group in enumerate(self.groups):
            uniforms = public_uniforms(
                self.public_seed, self.version, public_coins, np.full(len(public_coins), g)
            )
            places[:, g] = np.searchsorted(group.steps, uniforms, side="right")
        return places

    def _draw(self, public_coins: CoinArray) -> tuple[IntArray, FloatArray, FloatArray]:
        places = self.places(public_coins)
        points = np.empty((len(public_coins), self.domain.dimension))
        odds = np.ones(len(public_coins))
        for g, group in enumerate(self.groups):
            points[:, list(group.columns)] = group.grid[places[:, g]]
            odds *= group.probabilities[places[:, g]]
        single = isinstance(self.offered, PublicSet)
        return places[:, 0] if single else np.full(len(public_coins), -1), points, odds

    def _report(
        self, people: CandidatesOrCount, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        if self.local is None:
            self.chosen(people, actions)
            return PointObservations(
                **self.origin(NO_NOISE),
                points=np.zeros((len(rewards), 0)),
                public_coins=actions.public_coins,
                rewards=rewards,
            )
        return NoisyRows(
            **self.origin(noise.name),
            rows=self.local.add((rewards - CENTRE)[:, None], noise),
            public_coins=actions.public_coins,
        )
