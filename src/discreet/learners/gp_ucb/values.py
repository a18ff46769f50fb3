"""What a released model says of the value of a policy (learners/values.py).

f(x) = 1/2 + (1, phi(x))' theta with the released posterior of theta. Where everybody brings a
decision set of their own nothing is released of whose sets these are, so a public sample of them
must be given. On public points nobody brings anything: a policy is a point, or several that are
given equally often.

| array     | shape        | meaning                                                            |
|-----------|--------------|--------------------------------------------------------------------|
| regressor | (1, m + 1)   | mean of (1, phi(x)) over the points of a policy                    |
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.policy import GPPolicy, KernelModel
from discreet.learners.gp_ucb.posterior import CENTRE, UNIFORM_VARIANCE
from discreet.learners.gp_ucb.public_points import PublicPolicy
from discreet.learners.values import RECOMMENDATION, Beliefs, Choice, LinearBeliefs
from discreet.people.domain import Box, Candidates, DecisionSets
from discreet.validation import FloatArray, InvalidInput


def set_features(
    sets: Any, domain: Box, most: int, features: FeatureMap, norm: float
) -> tuple[Candidates, FloatArray]:
    """The candidates of decision sets, and their features (n, c, m); for an average over them.

    Raises:
        InvalidInput: where none are given, or they are malformed.
    """
    if sets is None:
        raise InvalidInput(
            "contexts was left out, but everybody brings a decision set of their own here, and "
            "nothing is released of whose; give a public sample of decision sets."
        )
    people = Candidates.read(sets, domain, most)
    count, width, columns = people.points.shape
    phi = features.transform(people.points.reshape(-1, columns)) / norm
    return people, phi.reshape(count, width, -1)


# See `Beliefs`; at the peaks of test functions means were too low by up to twice as much.
MISFIT = 0.02
# Axes along which few people were given anything are shrunk away (posterior.py), and what they
# carry with them: of points that are not recommended next to nothing is known, as before anybody
# came.
UNSEEN = math.sqrt(UNIFORM_VARIANCE)


class PointBeliefs(Beliefs):
    """Beliefs about points that everybody can be given.

    Args:
        model: that was released.
        point: (d,) the one with the largest mean.
    """

    misfit = MISFIT

    def __init__(self, model: KernelModel, point: FloatArray) -> None:
        self._model, self.recommended = model, point
        self.contexts, self.weights, self.where = (
            None,
            np.ones(1),
            "everybody, who can be given the same points",
        )
        self.expected = model.mean[None] + CENTRE * np.eye(1, len(model.mean))

    def choice(self, policy: Any, given: bool, name: str) -> Choice:
        if given:
            raise InvalidInput(
                "contexts was given, but nobody brings any here; leave it out, and give points as "
                f"the {name}."
            )
        chosen = self.recommended if policy is None else policy
        whose = RECOMMENDATION if policy is None else "the points given"
        phi = self._model.features.transform(np.atleast_2d(chosen)) / self._model.norm
        return Choice(np.append(1.0, phi.mean(axis=0))[None], whose, away=0.0, rule=False)

    def variance(self, weights: FloatArray) -> float:
        along = weights[0] @ self._model.root
        return float(along @ along)

    def pull(self, weights: FloatArray) -> float:
        return math.sqrt(self.variance(weights))

    @property
    def deviations(self) -> FloatArray:
        deviations: FloatArray = np.sqrt((self._model.root**2).sum(axis=1))
        return deviations[None]


def model_beliefs(policy: GPPolicy, sets: Any) -> Beliefs:
    """What the model of a policy says, of decision sets or of public points."""
    model = policy.model
    if isinstance(policy.offered, DecisionSets):
        most = policy.offered.most
        people, phi = set_features(sets, policy.domain, most, model.features, model.norm)
        return LinearBeliefs(
            sets,
            np.full(len(people), 1.0 / len(people)),
            f"the {len(people)} decision sets given",
            np.concatenate([np.ones((*phi.shape[:2], 1)), phi], axis=2),
            model.mean,
            model.root,
            CENTRE,
            MISFIT,
            unseen=UNSEEN,
            present=people.present,
        )
    assert isinstance(policy, PublicPolicy)
    return PointBeliefs(model, best_point(policy))


@lru_cache(maxsize=8)  # policies are equal to themselves alone
def best_point(policy: PublicPolicy) -> FloatArray:
    """(d,) the public point with the largest mean; groups of columns add up, so each for itself."""
    domain = policy.domain
    best = domain.from_unit(np.full((1, domain.dimension), 0.5))[0]
    for columns, points, _ in policy.sent():
        tried = np.tile(best, (len(points), 1))
        tried[:, list(columns)] = points
        best = tried[policy.model.predict(tried)[0].argmax()]
    return np.asarray(best)
