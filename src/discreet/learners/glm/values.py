"""Values of policies under private scores (learners/values.py).

The mean reward of a point is mu(theta'phi), theta ~ N(mean, root root'). With the logistic link
that is not linear in theta, so V is evaluated under public draws of theta.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.gaussian import Posterior
from discreet.learners.glm.policy import ScorePolicy, mean_reward
from discreet.learners.gp_ucb.values import (
    MODEL_ERROR_AVERAGE,
    MODEL_ERROR_UNCHOSEN,
    set_features,
)
from discreet.learners.values import ValuePosterior, linear_values

_DRAWS = 400
# Candidates that are looked at together.
_AT_ONCE = 2**14


def score_values(policy: ScorePolicy, sets: Any) -> ValuePosterior:
    """The values of decision sets under the posterior of a policy."""
    most = policy.space.most  # type: ignore[union-attr]
    people, phi = set_features(sets, policy.domain, most, policy.features, policy.norm)
    facts: dict[str, Any] = {
        "contexts": sets,
        "weights": np.full(len(people), 1.0 / len(people)),
        "where": f"the {len(people)} decision sets given",
        "model_error_average": MODEL_ERROR_AVERAGE,
        "model_error_unchosen": MODEL_ERROR_UNCHOSEN,
    }
    if policy.link == "linear":
        return linear_values(phi, Posterior(policy.mean, policy.root), 0.5, people.present, **facts)
    rng = np.random.default_rng([policy.public_seed, policy.version])
    normal = rng.standard_normal((policy.root.shape[1], _DRAWS))
    theta = policy.mean[:, None] + policy.root @ normal
    flat = phi.reshape(-1, phi.shape[2])
    parts = [
        mean_reward(policy.link, flat[start : start + _AT_ONCE] @ theta)
        for start in range(0, len(flat), _AT_ONCE)
    ]
    drawn = np.concatenate(parts).reshape(*phi.shape[:2], _DRAWS)
    scores = np.where(people.present, phi @ policy.mean, -np.inf)
    return ValuePosterior(
        expected=np.where(people.present, drawn.mean(axis=2), -np.inf),
        recommended=scores.argmax(axis=1),
        variance=lambda weights: float(np.tensordot(weights, drawn, 2).var(ddof=1)),
        deviations=lambda places: drawn[places].std(axis=2, ddof=1),
        **facts,
    )
