"""Values of policies from releases and private reports: estimates with intervals.

    V = sum_i w_i sum_k q_k(x_i) f_k(x_i)

for people at x_i with shares w_i, whom the policy gives arm k with probability q_k(x_i). V is
linear in f, and learners know f as a Gaussian posterior given what was released, so V is Gaussian
too. All of it is post-processing of releases and of private reports.

| array    | shape  | meaning                                                                    |
|----------|--------|----------------------------------------------------------------------------|
| weights  | (n,)   | w, the share of people at each place                                       |
| shares   | (n, K) | q, how often a policy gives each arm there                                 |
| expected | (n, K) | posterior means of f on the scale [0, 1] of the reward bounds              |
| phi      | (n, K, m) | features with f = centre + phi' theta                                   |

*Selection.* The same reports choose a policy and evaluate it, and an average of rewards would then
promise too much. A posterior mean does not: the prior shrinks it by the expected effect of
selection, for any choice of the policy.

*Bias.* That holds on average over functions drawn from the prior. For one fixed function the
prior's shrinkage may have the same direction everywhere and not average out over people: f may be
higher than expected wherever an arm is recommended, or wherever an informed rule chooses it. So
`BIAS_FRACTION` of a deviation at every place counts as bias, beside the variance of V,

    variance = Var V + (1/2 sum_i w_i sum_k q_k(x_i) deviation of f_k(x_i))^2,

and intervals are widened by `INTERVAL_INFLATION`. `benchmarks/values.py` measures the coverage of
each learner's intervals on functions that are not drawn from a prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.gaussian import Posterior
from discreet.learners.policy import ArmPolicy, Policy
from discreet.people.domain import RewardBounds
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput

INTERVAL_INFLATION = 1.3
CONFIDENCE = 0.95
RECOMMENDATION = "the learner's recommendation"
# The bias of a prior in deviations at each place, and at how many places deviations are evaluated.
BIAS_FRACTION = 0.5
_PLACES = 256
# Half waves of a column that are not fine (`policy_complexity`); and the prior deviation of f, of
# which any part may vary on a finer scale than learners of functions resolve.
_WAVES = 3
MODEL_ERROR_FINE = 0.27

# Over whom values are averaged.
AS_REPORTED = "people as their reports say they are spread"

# Arms for contexts (n, d) in the units of the domain: (n,) arms, or (n, K) their probabilities.
Rule = Callable[[FloatArray], ArrayLike]
# None for the learner's own recommendation; a published policy; an arm for everybody; a rule; arms
# for given contexts.
AnyPolicy = Policy[Any] | Rule | ArrayLike | None


@dataclass(frozen=True)
class Value:
    """What a policy earns per person, in the units of rewards.

    Attributes:
        mean: the estimate.
        lower, upper: the interval, within what rewards allow.
        confidence: the share of cases in which such an interval should hold the truth.
        about: whose value it is, and over whom it is averaged.
    """

    mean: float
    lower: float
    upper: float
    confidence: float
    about: str

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return 0.5 * (self.upper - self.lower)

    @property
    def sentence(self) -> str:
        """In words."""
        # Two digits of the half width.
        digits = max(0, min(6, 1 - math.floor(math.log10(max(self.half_width, 1e-6)))))
        mean, lower, upper = (f"{x:,.{digits}f}" for x in (self.mean, self.lower, self.upper))
        share = f"{100.0 * self.confidence:g}%"
        return f"{mean} per person ({share} interval {lower} to {upper}): {self.about}."

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, eq=False)
class PolicyShares:
    """What a policy chooses.

    Attributes:
        shares: (n, K), see the module's table.
        whose: the policy, in words.
        away: the share of people to whom it gives what the learner does not recommend.
        rule: whether it is a rule of the caller.
    """

    shares: FloatArray
    whose: str
    away: float
    rule: bool


def some_of(places: FloatArray | IntArray) -> IntArray:
    """The numbers of at most `_PLACES` of n places, evenly spaced."""
    return np.unique(np.linspace(0, len(places) - 1, _PLACES).astype(np.int64))


@dataclass(frozen=True, eq=False, kw_only=True)
class ValuePosterior:
    """The posterior of rewards at some places.

    Attributes:
        contexts: of the places, as rules and policies take them.
        weights: see the module's table.
        where: over whom values are averaged, in words.
        expected: see the module's table; -inf for candidates that are not available.
        recommended: (n,) the arms that the learner would choose, or (d,) the point.
        variance: the variance of sum weights f on the scale [0, 1], of weights (n, K) of any sign.
        deviations: (s, K) posterior standard deviations of f at the places with numbers (s,).
        judges_others: whether other people than those who reported can be judged.
        judges_rules: whether policies that depend on the context can be judged.
        model_error_average: deviation of averages because f is only about what the prior assumes:
            kernels smooth peaks, and features are left out.
        model_error_fine: deviation of the part of f on a finer scale than the model resolves; it
            adds up for a rule that separates people as finely (`policy_complexity`).
        model_error_unchosen: as `model_error_average`, for people who are given what the learner
            does not recommend, of which reports say less than a posterior claims.
    """

    contexts: Any
    weights: FloatArray
    where: str
    expected: FloatArray
    recommended: IntArray | FloatArray
    variance: Callable[[FloatArray], float]
    deviations: Callable[[IntArray], FloatArray]
    judges_others: bool = True
    judges_rules: bool = True
    model_error_average: float = 0.0
    model_error_fine: float = 0.0
    model_error_unchosen: float = 0.0

    def bias(self, weights: FloatArray) -> float:
        """`BIAS_FRACTION` of `sum |weights|` deviations, estimated from `some_of` the places; where
        none of these has a weight, from the least known of them."""
        places = some_of(weights)
        looked, total = np.abs(weights[places]), float(np.abs(weights).sum())
        seen, deviations = float(looked.sum()), self.deviations(places)
        if seen == 0.0:
            return BIAS_FRACTION * (total * float(deviations.max()))
        return BIAS_FRACTION * (float((looked * deviations).sum()) * total / seen)

    def choice(self, policy: AnyPolicy, given: bool, name: str) -> PolicyShares:
        """What a policy chooses at these places.

        Args:
            policy: as `Learner.value` takes it.
            given: whether `contexts` are those of the caller.
            name: of the argument, for messages.
        """
        people, arms = self.expected.shape
        chosen, rule = cast(Any, policy), False
        constant = policy is None or isinstance(policy, int | np.integer)
        if not (self.judges_rules or constant) and getattr(policy, "varies", True):
            raise InvalidInput(
                f"{name} was {policy!r:.80}, which may depend on the context; this learner knows "
                "what an arm earns over its people alone. Give an arm or its own policy."
            )
        if policy is None:
            chosen, whose = self.recommended, RECOMMENDATION
        elif isinstance(policy, Policy):
            if isinstance(policy, ArmPolicy):
                chosen = policy.probabilities(self.contexts)
            else:  # of decision sets it acts by public coins; these are as good as others
                chosen = policy.act(self.contexts, np.random.default_rng(0))[0].arms
            whose = f"policy version {policy.version}"
        elif isinstance(policy, int | np.integer):
            chosen, whose = np.full(people, policy), f"arm {policy} for everybody"
        elif callable(policy) or given:
            chosen, whose, rule = policy, "the policy given", True
            if callable(policy):
                chosen = policy(self.contexts)
        else:
            raise InvalidInput(
                f"{name} was {policy!r:.80}, but the people of these arms are unknown; give "
                "their contexts too, or a function of contexts."
            )
        shares = _read(np.asarray(chosen), people, arms, name)
        if (shares[np.isinf(self.expected)] > 0.0).any():
            raise InvalidInput(
                f"{name} chose a candidate that its decision set lacks; choose among those there."
            )
        kept = np.take_along_axis(shares, self.recommended[:, None].astype(np.int64), axis=1)[:, 0]
        return PolicyShares(shares, whose, 1.0 - float(self.weights @ kept), rule)

    def value(
        self,
        bounds: RewardBounds,
        policy: AnyPolicy = None,
        against: AnyPolicy = None,
        given: bool = False,
        level: float = CONFIDENCE,
    ) -> Value:
        """What a policy earns, or by how much more than another (see `Learner.value`)."""
        asked = self.choice(policy, given, "policy")
        rival = None if against is None else self.choice(against, given, "against")
        mean, deviation = self.worth(asked, rival)
        half = NormalDist().inv_cdf(0.5 + 0.5 * level) * INTERVAL_INFLATION * deviation
        least, start = (0.0, bounds.lower) if rival is None else (-1.0, 0.0)
        width = bounds.upper - bounds.lower
        # A model may promise more than rewards can be; what it then means is as much as they can.
        mean = min(max(mean, least), 1.0)
        whose = asked.whose if rival is None else f"{asked.whose} against {rival.whose}"
        return Value(
            mean=start + width * mean,
            lower=start + width * max(mean - half, least),
            upper=start + width * min(mean + half, 1.0),
            confidence=level,
            about=f"{whose}, averaged over {self.where}",
        )

    def worth(self, asked: PolicyShares, rival: PolicyShares | None = None) -> tuple[float, float]:
        """Mean and deviation of a policy's value, or of its difference to a rival's, on [0, 1]."""
        shares, away = asked.shares, asked.away
        if rival is not None:
            shares, away = shares - rival.shares, max(away, rival.away)
        weights = self.weights[:, None] * shares
        mean = float(np.sum(weights * np.where(np.isinf(self.expected), 0.0, self.expected)))
        variance = max(self.variance(weights), 0.0) + self.bias(weights) ** 2
        # What two policies have in common drops out of their difference.
        moved = min(float(np.abs(weights).sum()), 1.0)
        unchosen = away * self.model_error_unchosen
        variance += moved**2 * (self.model_error_average**2 + unchosen**2)
        if self.model_error_fine and (asked.rule or (rival is not None and rival.rule)):
            complexity = policy_complexity(np.asarray(self.contexts), self.weights, shares)
            variance += (self.model_error_fine * complexity) ** 2
        return mean, math.sqrt(variance)


def policy_complexity(contexts: FloatArray, weights: FloatArray, shares: FloatArray) -> float:
    """Root of what a fit leaves of a policy (n, K), over people and arms.

    The fit is by waves of at least two thirds of each column and products of the widest ones.
    """
    low, high = contexts.min(axis=0), contexts.max(axis=0)
    place = (contexts - low) / np.where(high > low, high - low, 1.0)
    waves = [np.cos(math.pi * order * place) for order in range(1, _WAVES + 1)]
    pairs = [waves[0][:, [a]] * waves[0][:, [b]] for a, b in combinations(range(place.shape[1]), 2)]
    basis = np.sqrt(weights)[:, None] * np.hstack([np.ones((len(place), 1)), *waves, *pairs])
    wanted = np.sqrt(weights)[:, None] * shares
    fitted = basis @ np.linalg.lstsq(basis, wanted, rcond=None)[0]
    return float(np.sqrt(np.sum((wanted - fitted) ** 2)))


def linear_values(
    phi: FloatArray,
    posterior: Posterior,
    centre: float,
    present: BoolArray | None = None,
    **facts: Any,
) -> ValuePosterior:
    """The values of f = centre + phi' theta.

    Args:
        phi: (n, K, m).
        posterior: of theta (m,).
        centre: f without features.
        present: (n, K) which candidates are available; None for all.
        facts: the other fields of `ValuePosterior`.
    """
    expected = centre + phi @ posterior.mean
    if present is not None:
        expected[~present] = -np.inf

    def variance(weights: FloatArray) -> float:
        along = np.tensordot(weights, phi, axes=2) @ posterior.root
        return float(along @ along)

    def deviations(places: IntArray) -> FloatArray:
        roots = (each @ posterior.root for each in phi[places])
        return np.stack([np.sqrt(np.sum(root**2, axis=-1)) for root in roots])

    return ValuePosterior(
        expected=expected,
        recommended=expected.argmax(axis=1),
        variance=variance,
        deviations=deviations,
        **facts,
    )


def _read(given: NDArray[Any], people: int, arms: int, name: str) -> FloatArray:
    """Arms (n,) or probabilities (n, K) as probabilities."""
    if given.shape == (people, arms) and given.dtype.kind in "fiub":
        shares: FloatArray = given.astype(np.float64)
        if (shares >= 0.0).all() and (np.abs(shares.sum(axis=1) - 1.0) <= 1e-9).all():
            return shares
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given % 1 == 0).all()))
    if given.shape == (people,) and whole and ((given >= 0) & (given < arms)).all():
        return np.eye(arms)[given.astype(np.int64)]
    raise InvalidInput(
        f"{name} gave {given!r:.80} of shape {given.shape}; for these {people} people give arms "
        f"from 0 to {arms - 1}, ({people},), or their probabilities, ({people}, {arms}), adding up "
        "to 1 for each."
    )
