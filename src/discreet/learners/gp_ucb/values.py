"""Values of policies under a released model (learners/values.py).

f(x) = 1/2 + (1, phi(x))' theta with the released posterior of theta. Nothing is
released of people's own decision sets, so a public sample of them must be given. On public points
a policy is a point, or several that are given equally often.

| array     | shape        | meaning                                                            |
|-----------|--------------|--------------------------------------------------------------------|
| regressor | (1, m + 1)   | mean of (1, phi(x)) over the points of a policy                    |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.gaussian import Posterior
from discreet.kernels import FeatureMap
from discreet.learners.gp_ucb.policy import GPPolicy, KernelModel
from discreet.learners.gp_ucb.posterior import CENTRE, UNIFORM_VARIANCE
from discreet.learners.gp_ucb.public_points import PublicPolicy
from discreet.learners.values import (
    BIAS_FRACTION,
    RECOMMENDATION,
    Choice,
    ValuePosterior,
    linear_values,
)
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


# Deviations for model errors (learners/values.py): at the peaks of test functions means were too
# low by up to twice the first. Axes along which few people were given anything are shrunk away
# (posterior.py), so of points that are not recommended only the prior is known.
MODEL_ERROR_AVERAGE = 0.02
MODEL_ERROR_UNCHOSEN = math.sqrt(UNIFORM_VARIANCE)


@dataclass(frozen=True, eq=False, kw_only=True)
class PointValues(ValuePosterior):
    """The posterior of points that everybody can be given.

    Attributes:
        model: of f; the one place has a weight for each of its coefficients.
    """

    model: KernelModel

    def choice(self, policy: Any, given: bool, name: str) -> Choice:
        if given:
            raise InvalidInput(
                "contexts was given, but there are none here; leave it out, and give points as the "
                f"{name}."
            )
        chosen = self.recommended if policy is None else policy
        whose = RECOMMENDATION if policy is None else "the points given"
        features = self.model.features.transform(np.atleast_2d(chosen))
        phi = features / self.model.norm
        return Choice(np.append(1.0, phi.mean(axis=0))[None], whose, away=0.0, rule=False)

    def bias(self, weights: FloatArray) -> float:
        return BIAS_FRACTION * math.sqrt(self.variance(weights))


def model_values(policy: GPPolicy, sets: Any) -> ValuePosterior:
    """The values under the model of a policy, of decision sets or of public points."""
    model = policy.model
    posterior = Posterior(model.mean, model.root)
    if isinstance(policy.offered, DecisionSets):
        most = policy.offered.most
        people, phi = set_features(sets, policy.domain, most, model.features, model.norm)
        return linear_values(
            np.concatenate([np.ones((*phi.shape[:2], 1)), phi], axis=2),
            posterior,
            CENTRE,
            people.present,
            contexts=sets,
            weights=np.full(len(people), 1.0 / len(people)),
            where=f"the {len(people)} decision sets given",
            model_error_average=MODEL_ERROR_AVERAGE,
            model_error_unchosen=MODEL_ERROR_UNCHOSEN,
        )
    assert isinstance(policy, PublicPolicy)

    def variance(weights: FloatArray) -> float:
        along = weights[0] @ posterior.root
        return float(along @ along)

    return PointValues(
        model=model,
        contexts=None,
        weights=np.ones(1),
        where="everybody, who can be given the same points",
        expected=model.mean[None] + CENTRE * np.eye(1, len(model.mean)),
        recommended=best_point(policy),
        variance=variance,
        deviations=lambda places: np.sqrt((posterior.root**2).sum(axis=1))[None],
        model_error_average=MODEL_ERROR_AVERAGE,
    )


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
