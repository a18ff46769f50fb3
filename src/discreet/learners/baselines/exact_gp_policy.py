"""Policies of GP-UCB with the exact posterior, and what their reports add up to.

| array    | shape      | meaning                                                        |
|----------|------------|----------------------------------------------------------------|
| rows     | (n, d + 1) | observations: the point, then the reward on the scale [0, 1]   |
| choice   | (d,)       | the point that everyone is given; (0,) under decision sets     |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel

from discreet.action_space import Candidates, DecisionSets, PublicSet
from discreet.domain import Box
from discreet.kernels import kernel_from_text, kernel_to_text
from discreet.learners.baselines.exact_gp import LEAST_REWARD_VARIANCE, ExactPosterior, Prior
from discreet.learners.gp_ucb.learner import usual_kernel
from discreet.learners.gp_ucb.mode import PointObservations
from discreet.learners.messages import Actions, Statistics
from discreet.learners.points import PointPolicy, Visitors
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    finite_number,
    positive_number,
    read_array,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedRows(Statistics):
    """A multiset of observations (see the module's table), in sorted order."""

    kind: ClassVar[str] = "observed-rows"

    rows: FloatArray

    def __post_init__(self) -> None:
        if len(self.rows) != self.reports:
            raise InvalidInput(
                f"statistics of {self.reports} reports had {len(self.rows)} observations; send "
                "them as statistics() made them."
            )
        # Adding 0 leaves no negative zero, which would compare equal and print differently.
        rows = self.rows + 0.0
        rows = rows[np.lexsort(rows.T[::-1])] if rows.size else rows
        rows.setflags(write=False)
        object.__setattr__(self, "rows", rows)

    def __add__(self, other: ObservedRows) -> ObservedRows:
        parts = [one.rows for one in (self, other) if one.reports]
        if len({part.shape[1] for part in parts}) > 1:
            raise InvalidInput(
                f"statistics of {parts[0].shape[1]} and {parts[1].shape[1]} columns cannot be "
                "added; they come from different learners."
            )
        rows = np.concatenate(parts) if parts else self.rows
        return ObservedRows(**self.tally(other), rows=rows)

    def to_fields(self) -> dict[str, Any]:
        return {**self.tally_fields(), "rows": self.rows.tolist()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        rows = fields["rows"]
        array = np.zeros((0, 0)) if rows == [] else read_array(rows, "rows", "number", 2)
        return cls(**cls.read_tally(fields), rows=array)


@dataclass(frozen=True, eq=False)
class ExactGPPolicy(PointPolicy):
    """The point with the largest upper confidence bound.

    On the wire it is prior and data; whoever reads it works the factor out, once, in O(n^3).

    Attributes:
        posterior: what is believed.
        confidence: how many posterior deviations are added to the mean.
        choice: see the module's table.
    """

    kind: ClassVar[str] = "exact-gp-policy"

    posterior: ExactPosterior
    confidence: float
    choice: FloatArray

    def __post_init__(self) -> None:
        super().__post_init__()
        points, rewards = self.posterior.points, self.posterior.rewards
        wanted = 0 if isinstance(self.offered, DecisionSets) else self.domain.dimension
        if (
            points.shape != (len(rewards), self.domain.dimension)
            or self.choice.shape != (wanted,)
            or not ((rewards >= 0.0) & (rewards <= 1.0)).all()
        ):
            raise InvalidInput(
                f"a policy had points of shape {points.shape}, {len(rewards)} rewards and a choice "
                f"of shape {self.choice.shape}; they must fit the domain, with rewards in [0, 1]."
            )
        if wanted:
            self.domain.to_unit(self.choice[None])
            assert self._place >= -1

    @cached_property
    def _place(self) -> int:
        """The place of the choice in the public set; -1 in a box."""
        if not isinstance(self.offered, PublicSet):
            return -1
        found = np.flatnonzero((self.offered.array == self.choice).all(axis=1))
        if not len(found):
            raise InvalidInput(f"the choice {self.choice} of a policy is not in its public set.")
        return int(found[0])

    def sent(self) -> tuple[tuple[tuple[int, ...], FloatArray, FloatArray], ...]:
        """Where people are sent: the columns, points (1, d) and their probabilities (1,) of a
        single group; none where everyone brings points of their own."""
        if not self.choice.size:
            return ()
        return ((tuple(range(self.domain.dimension)), self.choice[None], np.ones(1)),)

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean reward and its standard deviation at points of the domain.

        Args:
            X: (n, d), in the units of the domain.

        Returns:
            (n,) posterior means and (n,) posterior standard deviations of f, in units of rewards.

        Raises:
            InvalidInput: for a wrong shape, NaN, or a point outside the domain.
        """
        self.domain.to_unit(X)
        mean, deviation = self.posterior.unit(np.asarray(X, dtype=np.float64))
        width = self.reward_bounds.upper - self.reward_bounds.lower
        return self.reward_bounds.lower + width * mean, width * deviation

    def _choose(self, people: Candidates, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        n, c, d = people.points.shape
        mean, deviation = self.posterior.unit(people.points.reshape(n * c, d))
        score = (mean + self.confidence * deviation).reshape(n, c)
        arms: IntArray = np.where(people.present, score, -np.inf).argmax(axis=1)
        return arms, np.ones(n)

    def _draw(self, tickets: TicketArray) -> tuple[IntArray, FloatArray, FloatArray]:
        if isinstance(self.offered, DecisionSets):
            raise InvalidInput("this policy takes decision sets; give each person's.")
        n = len(tickets)
        return np.full(n, self._place), np.tile(self.choice, (n, 1)), np.ones(n)

    def _report(
        self, people: Visitors, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> PointObservations:
        points = self.chosen(people, actions)
        own = isinstance(self.offered, DecisionSets)
        return PointObservations(
            **self.origin(NO_NOISE),
            points=points if own else np.zeros((len(rewards), 0)),
            tickets=np.zeros(0, dtype=np.uint64) if own else actions.tickets,
            rewards=rewards,
        )

    def rows(self, reports: PointObservations) -> FloatArray:
        """(n, d + 1) the observations in reports; `InvalidInput` for any it cannot have made."""
        count, rewards = len(reports.rewards), reports.rewards
        if count == 0 or not ((rewards >= 0.0) & (rewards <= 1.0)).all():
            raise InvalidInput(
                "reports had no rewards, or some outside [0, 1]; send them as report() made them."
            )
        own = isinstance(self.offered, DecisionSets)
        wanted = (count, self.domain.dimension if own else 0), (0 if own else count,)
        if (reports.points.shape, reports.tickets.shape) != wanted:
            raise InvalidInput(
                f"reports had points of shape {reports.points.shape} and tickets of shape "
                f"{reports.tickets.shape}; for {count} people they must be {wanted[0]} and "
                f"{wanted[1]}."
            )
        if own:
            self.domain.to_unit(reports.points)
        # Public points are the policy's own: a report cannot smuggle another one in.
        points = reports.points if own else np.tile(self.choice, (count, 1))
        return np.column_stack([points, rewards])

    def release(self, noise: str) -> Release | None:
        own = isinstance(self.offered, DecisionSets)
        return Release(
            mechanism="none: the observation as it is",
            event=PureEvent(float("inf")),
            sensitivity=1.0,
            sensitivity_source="nothing is protected",
            scale=0.0,
            people=self.group,
            data=f"{'the point chosen from the decision set, and ' if own else ''}the reward",
            noise=NO_NOISE,
        )

    def to_fields(self) -> dict[str, Any]:
        prior = self.posterior.prior
        return {
            **self.header(),
            "kernel": prior.kernel,
            "prior_variance": prior.variance,
            "reward_variance": prior.reward_variance,
            "points": self.posterior.points.tolist(),
            "rewards": self.posterior.rewards.tolist(),
            "confidence": self.confidence,
            "choice": self.choice.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        points: Any = fields["points"]
        if points == []:
            points = np.zeros((0, header["domain"].dimension))
        prior = Prior(
            check_kernel(header["domain"], fields["kernel"]),
            positive_number(fields["prior_variance"], "prior_variance"),
            check_reward_variance(fields["reward_variance"]),
        )
        posterior = ExactPosterior(
            prior,
            read_array(points, "points", "number", 2),
            read_array(fields["rewards"], "rewards", "number", 1),
        )
        return cls(
            **header,
            posterior=posterior,
            confidence=finite_number(fields["confidence"], "confidence"),
            choice=read_array(fields["choice"], "choice", "number", 1),
        )


def check_reward_variance(value: Any) -> float:
    """`value` as a variance that keeps the arithmetic sound."""
    variance = positive_number(value, "reward_variance")
    if variance < LEAST_REWARD_VARIANCE:
        raise InvalidInput(
            f"reward_variance was {value!r}; it must be at least {LEAST_REWARD_VARIANCE}, because "
            "observations at one point could not be told apart by rounding."
        )
    return variance


def check_kernel(domain: Box, kernel: Kernel | str | None) -> str:
    """The kernel as text, `usual_kernel` by default, checked on two points of the domain."""
    chosen = usual_kernel(domain) if kernel is None else kernel
    if isinstance(chosen, str):
        chosen = kernel_from_text(chosen)
    if not isinstance(chosen, Kernel):
        raise InvalidInput(
            f"kernel was {kernel!r:.80}; pass a scikit-learn kernel, or its text such as "
            '"RBF(length_scale=0.3)".'
        )
    text = kernel_to_text(chosen)
    corners = np.array([domain.lower, domain.upper])
    try:
        fits = np.isfinite(kernel_from_text(text)(corners)).all()
    except ValueError as error:
        raise InvalidInput(
            f"kernel was {text}, which does not fit a domain of {domain.dimension} columns "
            f"({error})."
        ) from error
    if not fits:
        raise InvalidInput(f"kernel was {text}; it is not finite on the domain.")
    return text
