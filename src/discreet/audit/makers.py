"""Learners as an audit makes them: small, with a noise source that can be played back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.action_space import ActionSpace
from discreet.audit.people import People, people_for
from discreet.domain import Box, RewardBounds
from discreet.learners.base import Learner
from discreet.learners.registry import make_learner
from discreet.privacy import Budget, Joint, NoiseSource, SimulatedNoise


@dataclass(frozen=True)
class Maker:
    """What a learner is made of.

    Attributes:
        learner: its registered name.
        domain: the public bounds of contexts or points.
        space: what can be chosen.
        budget: asked for.
        people: how many take part in a run.
        options: as in a study file.
        bounds: of rewards.
        public_seed: of the learner.
        horizon: what the learner is told; `people` if left out.
    """

    learner: str
    domain: Box
    space: ActionSpace
    budget: Budget
    people: int
    options: Mapping[str, Any] = field(default_factory=dict)
    bounds: RewardBounds = field(default_factory=RewardBounds)
    public_seed: int = 11
    horizon: int | None = None

    def make(self, noise: NoiseSource | None = None) -> Learner[Any, Any, Any]:
        """A new learner.

        Args:
            noise: under joint privacy; simulated if left out.

        Raises:
            InvalidInput: if the learner does not take these settings.
        """
        return make_learner(
            self.learner,
            self.domain,
            self.space,
            self.budget,
            options=self.options,
            horizon=self.horizon or self.people,
            reward_bounds=self.bounds,
            public_seed=self.public_seed,
            noise=(noise or SimulatedNoise(0)) if isinstance(self.budget, Joint) else None,
        )

    def crowd(self) -> People:
        """People who can take part."""
        return people_for(self.domain, self.space, self.bounds)
