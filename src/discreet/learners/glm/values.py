"""What private scores say of the value of a policy (learners/values.py).

The mean reward of a point is mu(theta'phi), theta ~ N(mean, root root'). With the logistic link
that is not linear in theta, so V is worked out under public draws of theta.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from discreet.learners.glm.policy import ScorePolicy, expected
from discreet.learners.gp_ucb.values import MISFIT, UNSEEN, set_features
from discreet.learners.values import Beliefs, LinearBeliefs, some_of
from discreet.validation import BoolArray, FloatArray

_DRAWS = 400
# Candidates that are looked at together.
_AT_ONCE = 2**14


class DrawnBeliefs(Beliefs):
    """Beliefs of which there are draws.

    Args:
        contexts, weights, where: see `Beliefs`.
        drawn: (n, c, draws) mean rewards of candidates under each draw.
        scores: (n, c) by which the best is chosen.
        present: (n, c) which candidates are there.
    """

    misfit, unseen = MISFIT, UNSEEN

    def __init__(
        self,
        contexts: Any,
        weights: FloatArray,
        where: str,
        drawn: FloatArray,
        scores: FloatArray,
        present: BoolArray,
    ) -> None:
        self.contexts, self.weights, self.where, self._drawn = contexts, weights, where, drawn
        self.expected = np.where(present, drawn.mean(axis=2), -np.inf)
        self.recommended = np.where(present, scores, -np.inf).argmax(axis=1)

    def variance(self, weights: FloatArray) -> float:
        return float(np.tensordot(weights, self._drawn, axes=([0, 1], [0, 1])).var(ddof=1))

    @cached_property
    def deviations(self) -> FloatArray:
        deviations: FloatArray = self._drawn[some_of(self._drawn)].std(axis=2, ddof=1)
        return deviations


def score_beliefs(policy: ScorePolicy, sets: Any) -> Beliefs:
    """What the posterior of a policy says of decision sets."""
    most = policy.space.most  # type: ignore[union-attr]
    people, phi = set_features(sets, policy.domain, most, policy.features, policy.norm)
    weights = np.full(len(people), 1.0 / len(people))
    where = f"the {len(people)} decision sets given"
    if policy.link == "linear":
        return LinearBeliefs(
            sets,
            weights,
            where,
            phi,
            policy.mean,
            policy.root,
            0.5,
            MISFIT,
            unseen=UNSEEN,
            present=people.present,
        )
    rng = np.random.default_rng([policy.public_seed, policy.version])
    normal = rng.standard_normal((policy.root.shape[1], _DRAWS))
    theta = policy.mean[:, None] + policy.root @ normal
    flat = phi.reshape(-1, phi.shape[2])
    parts = [
        expected(policy.link, flat[start : start + _AT_ONCE] @ theta)
        for start in range(0, len(flat), _AT_ONCE)
    ]
    drawn = np.concatenate(parts).reshape(*phi.shape[:2], _DRAWS)
    return DrawnBeliefs(sets, weights, where, drawn, phi @ policy.mean, people.present)
