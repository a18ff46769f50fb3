"""What a policy earns per person, as far as learners may say: an estimate and its interval.

    V = sum_i w_i sum_k q_k(x_i) f_k(x_i)

for people at x_i, of whom w_i are there and whom the policy gives arm k with probability q_k(x_i).
V is linear in f, and learners know f as a Gaussian posterior given what was released, so V is
Gaussian too. All of it is computed from releases and from reports that were private when they left
a person, so it costs nobody anything.

| array    | shape  | meaning                                                                    |
|----------|--------|----------------------------------------------------------------------------|
| weights  | (n,)   | w, the share of people at each place                                       |
| shares   | (n, K) | q, how often a policy gives each arm there                                 |
| expected | (n, K) | posterior means of f on the scale [0, 1] of the reward bounds              |
| phi      | (n, K, m) | features with f = centre + phi' theta                                   |

*The same people.* Which policy looks best is decided by the same reports that say how good it is,
and what looks best is partly luck. An average of rewards would then promise too much. A posterior
does not: it is moved towards the prior by as much as luck is expected to matter, and what is
believed of f given the reports is the same, whoever chose a policy and why.

*One function.* That holds on average over functions that the prior could have drawn. Of the one
that there is the prior's pull may be in the same direction everywhere, and does not average out
over people as noise does: f may be higher than believed wherever an arm is recommended, or wherever
somebody who knows more than the reports tell chooses one. So half a deviation at every place counts
as such a pull, beside the deviation of V:

    variance = Var V + (1/2 sum_i w_i sum_k q_k(x_i) deviation of f_k(x_i))^2,

and all is widened by `WIDER`. `benchmarks/values.py` counts how many intervals hold the truth, for
each learner, on functions that nobody drew from a prior.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import NormalDist
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from discreet.learners.messages import ArmPolicy, Policy
from discreet.people.domain import Box, RewardBounds
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, number_from

# Deviations of posteriors count for so much more.
WIDER = 1.3
CONFIDENCE = 0.95
RECOMMENDATION = "the learner's recommendation"
# How far a prior pulls, in deviations at each place (see the module), and at how many places
# deviations are looked at.
_PULL = 0.5
_PLACES = 256
_LEAST, _MOST = 0.5, 0.9999
# Half waves of a column that are not fine (`fineness`); and the deviation of f that learners of
# functions take for granted, of which any part may be finer than they see.
_WAVES = 3
HIDDEN = 0.27

# Features of so many people fit into some tens of megabytes.
_MOST_AT_ONCE = 5_000

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
class Choice:
    """What a policy chooses.

    Attributes:
        shares: (n, K), see the module's table.
        whose: the policy, in words.
        away: the share of people to whom it gives what the learner does not recommend.
        rule: whether somebody else says who gets what.
    """

    shares: FloatArray
    whose: str
    away: float
    rule: bool


def some_of(places: FloatArray | IntArray) -> IntArray:
    """The numbers of at most so many of n places, evenly taken."""
    return np.unique(np.linspace(0, len(places) - 1, _PLACES).astype(np.int64))


class Beliefs(ABC):
    """What is believed of rewards at some places.

    Attributes:
        contexts: what people bring there, as rules and policies take it.
        weights: see the module's table.
        expected: see the module's table; -inf for what is not to be had.
        recommended: (n,) the arms that the learner would choose, or (d,) the point.
        where: over whom values are averaged, in words.
        elsewhere: whether other people than those who reported can be judged.
        misfit: how far averages may be off, as a deviation on the scale [0, 1], because f is only
            about what the prior takes it to be: kernels round peaks off, and features leave out.
        hidden: the deviation of what f may do on a finer scale than it is believed to vary on; it
            adds up for a rule that tells people apart as finely (`fineness`).
        unseen: as misfit, for people who are given what the learner does not recommend, where
            reports say less of that than a posterior claims.
    """

    elsewhere: bool = True
    misfit: float = 0.0
    hidden: float = 0.0
    unseen: float = 0.0
    contexts: Any
    weights: FloatArray
    expected: FloatArray
    recommended: IntArray | FloatArray
    where: str

    @abstractmethod
    def variance(self, weights: FloatArray) -> float:
        """Of sum weights f on the scale [0, 1], for weights (n, K) of either sign."""

    @property
    @abstractmethod
    def deviations(self) -> FloatArray:
        """(s, K) posterior standard deviations of f at some of the places: `some_of`."""

    def pull(self, weights: FloatArray) -> float:
        """sum |weights| deviations, of f at all places as at those that are looked at; where none
        of these has a weight, as at the least known of them."""
        looked, total = np.abs(weights[some_of(weights)]), float(np.abs(weights).sum())
        seen = float(looked.sum())
        if seen == 0.0:
            return total * float(self.deviations.max())
        return float((looked * self.deviations).sum()) * total / seen

    def choice(self, policy: AnyPolicy, given: bool, name: str) -> Choice:
        """What a policy chooses at these places.

        Args:
            policy: as `Valued.value` takes it.
            given: whether `contexts` are those of the caller.
            name: of the argument, for messages.
        """
        people, arms = self.expected.shape
        chosen, rule = cast(Any, policy), False
        if policy is None:
            chosen, whose = self.recommended, RECOMMENDATION
        elif isinstance(policy, Policy):
            if isinstance(policy, ArmPolicy):
                chosen = policy.probabilities(self.contexts)
            else:  # of decision sets it acts by tickets; these are as good as others
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
                f"{name} was {policy!r:.80}, but nobody knows for whom these arms are; give the "
                "contexts of the people too, or a function of contexts."
            )
        shares = _read(np.asarray(chosen), people, arms, name)
        if (shares[np.isinf(self.expected)] > 0.0).any():
            raise InvalidInput(
                f"{name} chose a candidate that its decision set lacks; choose among those there."
            )
        kept = np.take_along_axis(shares, self.recommended[:, None].astype(np.int64), axis=1)[:, 0]
        return Choice(shares, whose, 1.0 - float(self.weights @ kept), rule)

    def worth(self, asked: Choice, rival: Choice | None = None) -> tuple[float, float]:
        """What a policy is believed to earn, or earn more than a rival, and its deviation as the
        module has it, on the scale [0, 1]."""
        shares, away = asked.shares, asked.away
        if rival is not None:
            shares, away = shares - rival.shares, max(away, rival.away)
        weights = self.weights[:, None] * shares
        mean = float(np.sum(weights * np.where(np.isinf(self.expected), 0.0, self.expected)))
        variance = max(self.variance(weights), 0.0) + (_PULL * self.pull(weights)) ** 2
        # What two policies have in common drops out of their difference.
        moved = min(float(np.abs(weights).sum()), 1.0)
        variance += moved**2 * (self.misfit**2 + (away * self.unseen) ** 2)
        if self.hidden and (asked.rule or (rival is not None and rival.rule)):
            finer = fineness(np.asarray(self.contexts), self.weights, shares)
            variance += (self.hidden * finer) ** 2
        return mean, math.sqrt(variance)


def fineness(contexts: FloatArray, weights: FloatArray, shares: FloatArray) -> float:
    """How much of a policy (n, K) is finer than waves of two thirds of each column and products of
    its widest ones: the root of what a fit by these leaves of it, over people and arms."""
    low, high = contexts.min(axis=0), contexts.max(axis=0)
    place = (contexts - low) / np.where(high > low, high - low, 1.0)
    waves = [np.cos(math.pi * order * place) for order in range(1, _WAVES + 1)]
    pairs = [waves[0][:, [a]] * waves[0][:, [b]] for a, b in combinations(range(place.shape[1]), 2)]
    basis = np.sqrt(weights)[:, None] * np.hstack([np.ones((len(place), 1)), *waves, *pairs])
    wanted = np.sqrt(weights)[:, None] * shares
    fitted = basis @ np.linalg.lstsq(basis, wanted, rcond=None)[0]
    return float(np.sqrt(np.sum((wanted - fitted) ** 2)))


class LinearBeliefs(Beliefs):
    """f = centre + phi' theta with theta ~ N(mean, root root').

    Args:
        contexts, weights, where: see `Beliefs`.
        present: (n, K) which arms are to be had; None for all.
        phi: (n, K, m).
        mean, root: (m,) and (m, r).
        centre: what f is without features.
        misfit, hidden, unseen: see `Beliefs`.
    """

    def __init__(
        self,
        contexts: Any,
        weights: FloatArray,
        where: str,
        phi: FloatArray,
        mean: FloatArray,
        root: FloatArray,
        centre: float,
        misfit: float,
        hidden: float = 0.0,
        unseen: float = 0.0,
        present: BoolArray | None = None,
    ) -> None:
        self.contexts, self.weights, self.where = contexts, weights, where
        self.misfit, self.hidden, self.unseen = misfit, hidden, unseen
        self.expected = centre + phi @ mean
        if present is not None:
            self.expected[~present] = -np.inf
        self.recommended = self.expected.argmax(axis=1)
        self._phi, self._root = phi, root

    def variance(self, weights: FloatArray) -> float:
        along = np.tensordot(weights, self._phi, axes=2) @ self._root
        return float(along @ along)

    @cached_property
    def deviations(self) -> FloatArray:
        looked = self._phi[some_of(self._phi)]
        return np.stack([np.sqrt(np.sum((phi @ self._root) ** 2, axis=-1)) for phi in looked])


class Valued(ABC):
    """The part of a learner that says what policies are worth."""

    name: ClassVar[str]
    drift: float | None
    domain: Box
    reward_bounds: RewardBounds
    lock: AbstractContextManager[Any]

    @property
    @abstractmethod
    def _policies(self) -> Sequence[Any]: ...

    def value(
        self,
        policy: AnyPolicy = None,
        *,
        contexts: Any = None,
        against: AnyPolicy = None,
        confidence: float = CONFIDENCE,
    ) -> Value:
        """What a policy earns per person, from what was released already; costs no privacy.

        Without privacy nothing protects it, as nothing protects what else the learner says.

        Args:
            policy: whose value is asked; the learner's own recommendation if left out, which is
                what `recommend` says. Otherwise an arm for everybody; a function of contexts (n, d)
                that returns (n,) arms or (n, K) probabilities; arms (n,) for the `contexts` given;
                or a policy that a learner published.
            contexts: a public sample (n, d) of people, or of decision sets (n, c, d), over which
                to average. By default where the learner believes its people to be, where it does.
            against: another policy, as above; then the value is by how much the first earns more.
            confidence: of the interval.

        Returns:
            The value in the units of rewards.

        Raises:
            InvalidInput: for a learner that cannot say, a policy or contexts that do not fit, or
                where contexts are nowhere known and none are given.
        """
        level = number_from(confidence, "confidence", _LEAST, _MOST)
        with self.lock:
            beliefs = self._beliefs(contexts)
        given = contexts is not None
        if given and not beliefs.elsewhere:
            raise InvalidInput(
                f"contexts was given, but no report to {self.name} says where its people are, so "
                "it does not know what others would earn; leave contexts out, or declare a density "
                "that is known."
            )
        return self._value_under(beliefs, policy, against, given, level)

    def _value_under(
        self,
        beliefs: Beliefs,
        policy: AnyPolicy = None,
        against: AnyPolicy = None,
        given: bool = False,
        level: float = CONFIDENCE,
    ) -> Value:
        """`value` where what is believed is at hand."""
        asked = beliefs.choice(policy, given, "policy")
        rival = None if against is None else beliefs.choice(against, given, "against")
        mean, deviation = beliefs.worth(asked, rival)
        half = NormalDist().inv_cdf(0.5 + 0.5 * level) * WIDER * deviation
        least, start = (0.0, self.reward_bounds.lower) if rival is None else (-1.0, 0.0)
        width = self.reward_bounds.upper - self.reward_bounds.lower
        # A model may promise more than rewards can be; what it then means is as much as they can.
        mean = min(max(mean, least), 1.0)
        whose = asked.whose if rival is None else f"{asked.whose} against {rival.whose}"
        return Value(
            mean=start + width * mean,
            lower=start + width * max(mean - half, least),
            upper=start + width * min(mean + half, 1.0),
            confidence=level,
            about=f"{whose}, averaged over {beliefs.where}{self._lately}",
        )

    def recommend(self, contexts: Any = None) -> IntArray | FloatArray:
        """(n,) the arms that are believed to be best for contexts (n, d), or the places in decision
        sets (n, c, d); or, where everybody can be given the same points, the best of them (d,). For
        whoever decides without exploring, and no longer hears what came of it.

        Raises:
            InvalidInput: as `value`.
        """
        with self.lock:
            if not isinstance(contexts, np.ndarray) or len(contexts) <= _MOST_AT_ONCE:
                return self._beliefs(contexts).recommended
            starts = range(0, len(contexts), _MOST_AT_ONCE)
            first = self._beliefs(contexts[:_MOST_AT_ONCE]).recommended
            if first.dtype.kind == "f":  # a point for everybody
                return first
            rest = (contexts[start : start + _MOST_AT_ONCE] for start in starts[1:])
            return np.concatenate([first, *(self._beliefs(each).recommended for each in rest)])

    @property
    def _lately(self) -> str:
        return "" if self.drift is None else ", with rewards as they were of late"

    @property
    def _latest_policy(self) -> Any:
        """The last policy that was published, which holds all that was released."""
        if not self._policies:
            raise InvalidInput(
                f"{self.name} has published nothing yet that says what a policy is worth; call "
                "policy() first."
            )
        return self._policies[-1]

    def _beliefs(self, contexts: Any) -> Beliefs:
        """What is believed at contexts, or where people are if these are None."""
        raise InvalidInput(
            f"{self.name} cannot say what a policy is worth: it keeps no beliefs with a known "
            "error. Ask local_kernel, partition, gp_ucb, released_thompson, capri or usca."
        )


def _read(given: Any, people: int, arms: int, name: str) -> FloatArray:
    """Arms (n,) or probabilities (n, K) as probabilities."""
    if given.shape == (people, arms) and given.dtype.kind in "fiub":
        shares: FloatArray = given.astype(np.float64)
        if (shares >= 0.0).all() and (np.abs(shares.sum(axis=1) - 1.0) <= 1e-9).all():
            return shares
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given % 1 == 0).all()))
    if given.shape == (people,) and whole and ((given >= 0) & (given < arms)).all():
        return _certain(given.astype(np.int64), arms)
    raise InvalidInput(
        f"{name} gave {given!r:.80} of shape {given.shape}; for these {people} people give arms "
        f"from 0 to {arms - 1}, ({people},), or their probabilities, ({people}, {arms}), adding up "
        "to 1 for each."
    )


def _certain(arms: Any, count: int) -> FloatArray:
    """(n, K) shares of arms that are certain."""
    shares: FloatArray = np.equal.outer(arms, np.arange(count)).astype(np.float64)
    return shares
