"""What policies do at one context, while people are served (Ma et al. 2025, section 4.1).

For a context x and policies pi_1, pi_2, .. that serve person 1, 2, .., which are public,

    share_k(t)  = 1/t sum_{i <= t} pi_i(k | x),
    regret(t)   = sum_k share_k(t) (max_j f_j(x) - f_k(x)).

The paper draws an arm at x for each person and counts it; these are the means of what it counts,
so nothing need be drawn.

| metric           | trace                | other columns                                       |
|------------------|----------------------|-----------------------------------------------------|
| `local_regret`   | regret(t)            |                                                     |
| `share_of_arm_k` | share_k(t)           | `mean_reward` f_k(x); `given_up` after how many     |
|                  |                      | people the arm was never offered again, None if not |
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from discreet.experiments.engine import Row
from discreet.learners.messages import ArmPolicy, Policy
from discreet.validation import FloatArray, IntArray, InvalidInput

# A context, in the units of the problem's domain.
Context = tuple[float, ...]
LOCAL_REGRET = "local_regret"


@runtime_checkable
class KnowsMeans(Protocol):
    """A problem whose mean rewards are known for every context."""

    def mean_rewards(self, contexts: ArrayLike) -> FloatArray:
        """(n, K) for contexts (n, d)."""
        ...


class Probe:
    """Watches what policies offer at one context; called after each batch of a simulation.

    Args:
        context: x.
        problem: whose mean rewards are known.

    Raises:
        InvalidInput: for another kind of problem, or a context outside its domain.
    """

    def __init__(self, context: Context, problem: object) -> None:
        if not isinstance(problem, KnowsMeans):
            raise InvalidInput(
                f"a probe was wanted of {type(problem).__name__}, whose mean rewards are not "
                "known; use a synthetic problem, or leave the probe out."
            )
        self._contexts = [list(context)]
        self._means: FloatArray = problem.mean_rewards(self._contexts)[0]
        self._served: list[int] = []
        self._offers: list[FloatArray] = []

    def __call__(self, policy: Policy[Any], served: int) -> None:
        if not isinstance(policy, ArmPolicy):
            raise InvalidInput(
                f"a probe met a {type(policy).__name__}, which chooses no arm for a context; use "
                "a learner that chooses among arms, or leave the probe out."
            )
        self._served.append(served)
        self._offers.append(policy.probabilities(self._contexts)[0])

    def rows(self, at: IntArray) -> list[Row]:
        """What was seen, at numbers of people (t,) up to that of the last batch, as rows."""
        served, offers = np.array(self._served), np.stack(self._offers)
        lengths = np.diff(served, prepend=0)
        sums = np.cumsum(lengths[:, None] * offers, axis=0)
        # Within a batch the policy is the same, so sums grow linearly from one batch to the next.
        ends = np.concatenate([[0], served])
        columns = [np.interp(at, ends, np.concatenate([[0.0], column])) for column in sums.T]
        shares: FloatArray = np.stack(columns, axis=1) / at[:, None]
        regret = shares @ (self._means.max() - self._means)
        last_offered = (served[:, None] * (offers > 0.0)).max(axis=0)
        traced: list[Row] = [{"metric": LOCAL_REGRET, "trace": regret}]
        traced += [
            {
                "metric": f"share_of_arm_{k + 1}",
                "trace": shares[:, k],
                "mean_reward": float(mean),
                "given_up": int(last_offered[k]) if last_offered[k] < served[-1] else None,
            }
            for k, mean in enumerate(self._means)
        ]
        return [
            {**row, "value": float(row["trace"][-1]), "along": at, "final": True} for row in traced
        ]
