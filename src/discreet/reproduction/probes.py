"""What policies do at one context, while people are served (Ma et al. 2025, section 4.1).

For a context x and policies pi_1, pi_2, .. that serve person 1, 2, .., which are public,

    share_k(t)  = 1/t sum_{i <= t} pi_i(k | x),
    regret(t)   = sum_k share_k(t) (max_j f_j(x) - f_k(x)).

The paper draws an arm at x for each person and counts it; these are the means of what it counts,
so nothing need be drawn.

| array        | shape       | meaning                                                    |
|--------------|-------------|------------------------------------------------------------|
| rounds       | (points,)   | numbers of people, t                                       |
| shares       | (points, K) | how often each arm was offered at x up to there            |
| means        | (K,)        | mean rewards at x, f_k(x)                                  |
| last_offered | (K,)        | people served when the arm was last offered at x; 0: never |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

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


@dataclass(frozen=True, eq=False)
class LocalTrace:
    """What happened at one context in one trial; see the module's table."""

    rounds: IntArray
    shares: FloatArray
    means: FloatArray
    last_offered: IntArray

    @property
    def regret(self) -> FloatArray:
        """(points,) regret at the context for each person so far."""
        regret: FloatArray = self.shares @ (self.means.max() - self.means)
        return regret

    @property
    def best(self) -> int:
        """The number of the best arm at the context, from 0 on."""
        return int(np.argmax(self.means))

    @property
    def given_up(self) -> dict[int, int]:
        """For each arm that is never offered again how many were served by then."""
        served = int(self.rounds[-1])
        return {arm: int(at) for arm, at in enumerate(self.last_offered) if at < served}

    @property
    def finals(self) -> dict[str, float]:
        """The regret for each person, and the share of each arm, over all people."""
        shares = {f"share_of_arm_{k + 1}": float(share) for k, share in enumerate(self.shares[-1])}
        return {LOCAL_REGRET: float(self.regret[-1]), **shares}


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

    def trace(self, rounds: IntArray) -> LocalTrace:
        """What was seen, at numbers of people (points,) up to that of the last batch."""
        served, offers = np.array(self._served), np.stack(self._offers)
        lengths = np.diff(served, prepend=0)
        sums = np.cumsum(lengths[:, None] * offers, axis=0)
        # Within a batch the policy is the same, so sums grow linearly from one batch to the next.
        ends = np.concatenate([[0], served])
        columns = [np.interp(rounds, ends, np.concatenate([[0.0], one])) for one in sums.T]
        return LocalTrace(
            rounds=rounds,
            shares=np.stack(columns, axis=1) / rounds[:, None],
            means=self._means,
            last_offered=(served[:, None] * (offers > 0.0)).max(axis=0),
        )
