"""What reports should say, and what they are expected to: from public points alone.

Decision sets are private, so how people of a policy will be spread is not known. It is taken from
sets of as many points, drawn from a public sample of where points may lie. For each set a theta
drawn twice from the posterior says which points are in doubt:

    M = E d d',   d = phi(best by theta_1) - phi(best by theta_2),     Q = M^(1/2),

so that a person's report goes to the directions in which sets are decided, and none of it to those
in which all good points are alike. For the greedy point of each set

    J = E s(phi) (mu'(theta'phi) / l) P(l) phi',

with P(l) the belief that the mean lies within l of mu, is how scores answer to theta: their mean is
about J (theta* - theta) under the true theta*. A sample that is not like people's points makes
steps too long or too short, which costs reward; the steps still end where scores are 0 on average,
which is at the truth.

| array  | shape     | meaning                                                              |
|--------|-----------|----------------------------------------------------------------------|
| sample | (N, m)    | features of public points, divided by their norm                     |
| sets   | (k, c, m) | features of k sets                                                   |
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from discreet.learners.glm.policy import ScorePolicy, asked, expected, lengths, slope
from discreet.validation import FloatArray

# Sets that are drawn, and numbers in them at most.
_SETS, _NUMBERS = 1500, 2_000_000


def drawn_sets(sample: FloatArray, most: int, rng: np.random.Generator) -> FloatArray:
    """(k, most, m) sets of points of the sample (N, m)."""
    count = max(1, min(_SETS, _NUMBERS // (most * sample.shape[1])))
    return sample[rng.integers(len(sample), size=(count, most))]


def designed(policy: ScorePolicy, sets: FloatArray, rng: np.random.Generator) -> ScorePolicy:
    """The policy with the questions that suit it, and how scores answer to theta.

    Args:
        policy: with any of these.
        sets: (k, c, m).
        rng: of public draws.
    """
    doubts = _best(policy, sets, rng) - _best(policy, sets, rng)
    values, vectors = np.linalg.eigh(doubts.T @ doubts)
    questions = np.eye(len(values))
    if values[-1] > 0.0:
        questions = (vectors * np.sqrt(np.maximum(values, 0.0) / values[-1])) @ vectors.T
    places = policy.best(sets, np.ones(sets.shape[:2], dtype=np.bool_))
    phi = sets[np.arange(len(sets)), places]
    linear = phi @ policy.mean
    rise = slope(policy.link, linear)
    length = lengths(expected(policy.link, linear), policy.limit)
    spread = rise * np.sqrt(np.sum((phi @ policy.root) ** 2, axis=1))
    # A residual that is cut does not answer any more.
    scale = rise / length * (2.0 * ndtr(length / np.maximum(spread, 1e-300)) - 1.0)
    answers = (asked(phi, questions) * scale[:, None]).T @ phi / len(phi)
    return replace(policy, questions=questions, answers=answers)


def _best(policy: ScorePolicy, sets: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(k, m) features of the best point of each set, under a theta of its own."""
    normal = rng.standard_normal((len(sets), policy.root.shape[1]))
    theta = policy.mean + normal @ policy.root.T
    places = np.einsum("kcm,km->kc", sets, theta).argmax(axis=1)
    best: FloatArray = sets[np.arange(len(sets)), places]
    return best
