"""Policies of kernel learners, and the reports made under them.

*Decision sets.* The point of the person's own set with the largest posterior mean plus a multiple
of its deviation, or under Thompson sampling the best point of one theta that the ticket draws.

*Public points.* Everyone can be given the same points, so the policy is a table: for every
coordinate group the probability of each point of a public grid. The ticket draws one point in each
group; context and reward of the person play no part. The learner draws it again from the ticket,
so a report cannot smuggle another point in.

| array   | shape  | meaning                                                            |
|---------|--------|--------------------------------------------------------------------|
| points  | (n, d) | chosen points, in the units of the domain                          |
| places  | (n, G) | places of chosen points in the grids of the G groups               |
| offers  | (N_g,) | probabilities of the points of group g, adding up to 1             |
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from discreet.action_space import Candidates, DecisionSets, PublicSet
from discreet.learners.gp_ucb.local_noise import LocalNoise
from discreet.learners.gp_ucb.model import CENTRE, KernelModel
from discreet.learners.gp_ucb.reports import NoisyRows, Observations
from discreet.learners.gp_ucb.rows import (
    RowWeights,
    in_unit_ball,
    row_sensitivity,
    row_size,
    single_rows,
)
from discreet.learners.messages import Actions, Reports
from discreet.learners.points import PointPolicy, Visitors
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import NoiseSource, Release
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    TicketArray,
    finite_number,
    read_array,
)

# Candidates whose features are computed together: about 100 MB at 200 features.
_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class GPPolicy(PointPolicy):
    """What both kinds of kernel policies share.

    Attributes:
        model: what is believed; public, predicts anywhere.
        local: the noise on each report; None where people trust the learner.
    """

    model: KernelModel
    local: LocalNoise | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.features.domain != self.domain:
            # The norm of features is certified on their own domain only.
            raise InvalidInput("the features of a policy are for another domain than its own.")

    @property
    def reports_are_private(self) -> bool:
        return self.local is not None

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean reward and its standard deviation at points of the domain, as `KernelModel` has."""
        return self.model.predict(X)

    @property
    @abstractmethod
    def data(self) -> str:
        """What of a person's data a report holds."""

    @property
    @abstractmethod
    def report_size(self) -> int:
        """Numbers in a private report."""

    def release(self, noise: str) -> Release | None:
        if self.local is None:
            return self.as_it_is(self.data)
        kind = "Laplace" if self.local.laplace else "Gaussian"
        return Release(
            mechanism=f"{kind} noise on each of {self.report_size} numbers of a report",
            event=self.local.event(noise, self.report_size),
            sensitivity=self.local.sensitivity,
            sensitivity_source=self.sensitivity_source,
            scale=self.local.scale,
            people=self.group,
            data=self.data,
            noise=noise,
        )

    @property
    @abstractmethod
    def sensitivity_source(self) -> str:
        """How the sensitivity of a report was computed."""

    def header(self) -> dict[str, Any]:
        return {
            **super().header(),
            "model": self.model.to_fields(),
            "local": None if self.local is None else self.local.to_fields(),
        }

    @staticmethod
    def read_header(fields: dict[str, Any]) -> dict[str, Any]:
        local = fields["local"]
        return {
            **PointPolicy.read_header(fields),
            "model": KernelModel.from_fields(fields["model"]),
            "local": None if local is None else LocalNoise.from_fields(local),
        }


@dataclass(frozen=True, eq=False)
class SetPolicy(GPPolicy):
    """Chooses from each person's own decision set.

    Attributes:
        confidence: how many posterior deviations are added to the mean, or by how many theta is
            spread under Thompson sampling.
        thompson: whether theta is drawn from the posterior by each ticket. Propensities are NaN
            then, because they have no closed form.
        weights: of a private report's parts.
    """

    kind: ClassVar[str] = "gp-set-policy"

    confidence: float
    thompson: bool
    weights: RowWeights

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be decision sets.")
        if self.local is not None:
            if self.local.laplace:
                raise InvalidInput("reports from decision sets carry Gaussian noise, not Laplace.")
            self.local.check(row_sensitivity(self.model.features.features, self.weights))

    def scores(self, phi: FloatArray, tickets: TicketArray) -> FloatArray:
        """(n, c) what is maximised, from features (n, c, m) divided by their norm."""
        n, c, m = phi.shape
        model = self.model
        flat = phi.reshape(n * c, m)
        if not self.thompson:
            spread = np.sqrt(np.sum((model.root[0] + flat @ model.root[1:]) ** 2, axis=1))
            score = model.mean[0] + flat @ model.mean[1:] + self.confidence * spread
            best: FloatArray = score.reshape(n, c)
            return best
        draws = public_uniforms(
            self.public_seed, self.version, tickets[:, None], np.arange(model.root.shape[1])
        )
        normal = ndtri(np.clip(draws, 2.0**-54, 1.0 - 2.0**-53))
        theta = model.mean + self.confidence * normal @ model.root.T
        perturbed: FloatArray = theta[:, :1] + np.einsum("ncm,nm->nc", phi, theta[:, 1:])
        return perturbed

    def _features(self, points: FloatArray) -> FloatArray:
        """(n, m) features. Points that a finite map lacks are refused, but not under local privacy,
        where that would tell whoever made the map something: there their features are 0."""
        features = self.model.features
        if self.local is None:
            features.check(points)
        # Numbers that were sent may overflow for some people; warnings would tell for whom.
        with np.errstate(all="ignore"):
            return features.compute(points) / self.model.norm

    def _choose(self, people: Candidates, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        arms = np.empty(len(people), dtype=np.int64)
        width = people.points.shape[1]
        most = max(1, _AT_ONCE // width)
        for start in range(0, len(people), most):
            some = slice(start, start + most)
            points = people.points[some]
            flat = points.reshape(-1, points.shape[2])
            phi = self._features(flat)
            with np.errstate(all="ignore"):
                scores = self.scores(phi.reshape(len(points), width, -1), tickets[some])
            arms[some] = np.where(people.present[some], scores, -np.inf).argmax(axis=1)
        odds = np.full(len(people), np.nan if self.thompson else 1.0)
        return arms, odds

    def _draw(self, tickets: TicketArray) -> tuple[IntArray, FloatArray, FloatArray]:
        raise InvalidInput("this policy takes decision sets; give each person's.")

    def _report(
        self, people: Visitors, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        points = self.chosen(people, actions)
        if self.local is None:
            none = np.zeros(0, dtype=np.uint64)
            return Observations(
                **self.origin(NO_NOISE), points=points, tickets=none, rewards=rewards
            )
        phi = in_unit_ball(self._features(points))
        rows = single_rows(phi, rewards - self.weights.centre, self.weights)
        return NoisyRows(
            **self.origin(noise.name),
            rows=self.local.add(rows, noise),
            tickets=np.zeros(0, dtype=np.uint64),
        )

    @property
    def report_size(self) -> int:
        return row_size(self.model.features.features)

    @property
    def data(self) -> str:
        return "the point chosen from the decision set, and the reward"

    @property
    def sensitivity_source(self) -> str:
        return "closed form over all pairs of features of norm 1 and rewards at their bounds"

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "confidence": self.confidence,
            "thompson": self.thompson,
            "weights": asdict(self.weights),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        if not isinstance(fields["thompson"], bool):
            raise InvalidInput(f"thompson was {fields['thompson']!r}; it must be true or false.")
        return cls(
            **cls.read_header(fields),
            confidence=finite_number(fields["confidence"], "confidence"),
            thompson=fields["thompson"],
            weights=RowWeights.from_fields(fields["weights"]),
        )


@dataclass(frozen=True, eq=False)
class PublicPolicy(GPPolicy):
    """Chooses among points that are the same for everyone.

    Attributes:
        columns: for each group the columns that it sets.
        grids: for each group its points (N_g, d_g), in the units of the domain.
        offers: for each group the probabilities of its points.
    """

    kind: ClassVar[str] = "gp-public-policy"

    columns: tuple[tuple[int, ...], ...]
    grids: tuple[FloatArray, ...]
    offers: tuple[FloatArray, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be public points.")
        if self.local is not None:
            self.local.check(1.0)
        given = sorted(column for group in self.columns for column in group)
        if given != list(range(self.domain.dimension)):
            raise InvalidInput(
                f"the groups of a policy set the columns {given}; they must set each of the "
                f"{self.domain.dimension} columns once."
            )
        for columns, grid, offers in zip(self.columns, self.grids, self.offers, strict=True):
            if (
                grid.ndim != 2
                or grid.shape[1] != len(columns)
                or offers.shape != grid.shape[:1]
                or not (offers >= 0.0).all()
                or abs(float(offers.sum()) - 1.0) > 1e-9
            ):
                raise InvalidInput(
                    f"a group of {len(columns)} columns had a grid of shape {grid.shape} and "
                    f"offers of shape {offers.shape} that add up to {float(offers.sum())}; each "
                    "point needs one probability, and they must add up to 1."
                )
            for array in (grid, offers):
                array.setflags(write=False)

    def sent(self) -> tuple[tuple[tuple[int, ...], FloatArray, FloatArray], ...]:
        """Where people are sent: for each group, which are drawn independently of each other, its
        columns, points (N_g, d_g) in the units of the domain, and their probabilities (N_g,)."""
        return tuple(zip(self.columns, self.grids, self.offers, strict=True))

    @cached_property
    def _cumulative(self) -> tuple[FloatArray, ...]:
        """Where no number in [0, 1) may end up behind the last point that is offered."""
        made = []
        for offers in self.offers:
            steps = np.cumsum(offers)
            steps[np.flatnonzero(offers)[-1] :] = 1.0
            made.append(steps)
        return tuple(made)

    def places(self, tickets: TicketArray) -> IntArray:
        """(n, G) which point of each group the tickets draw."""
        found = np.empty((len(tickets), len(self.grids)), dtype=np.int64)
        for g, steps in enumerate(self._cumulative):
            uniforms = public_uniforms(
                self.public_seed, self.version, tickets, np.full(len(tickets), g)
            )
            found[:, g] = np.searchsorted(steps, uniforms, side="right")
        return found

    def _choose(self, people: Candidates, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        raise InvalidInput("this policy takes no decision sets; give the number of people.")

    def _draw(self, tickets: TicketArray) -> tuple[IntArray, FloatArray, FloatArray]:
        places = self.places(tickets)
        points = np.empty((len(tickets), self.domain.dimension))
        odds = np.ones(len(tickets))
        for g, columns in enumerate(self.columns):
            points[:, list(columns)] = self.grids[g][places[:, g]]
            odds *= self.offers[g][places[:, g]]
        single = isinstance(self.offered, PublicSet)
        return places[:, 0] if single else np.full(len(tickets), -1), points, odds

    def _report(
        self, people: Visitors, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        if self.local is None:
            self.chosen(people, actions)
            return Observations(
                **self.origin(NO_NOISE),
                points=np.zeros((len(rewards), 0)),
                tickets=actions.tickets,
                rewards=rewards,
            )
        return NoisyRows(
            **self.origin(noise.name),
            rows=self.local.add((rewards - CENTRE)[:, None], noise),
            tickets=actions.tickets,
        )

    @property
    def report_size(self) -> int:
        return 1

    @property
    def data(self) -> str:
        return "the reward; points are chosen from earlier releases and public tickets"

    @property
    def sensitivity_source(self) -> str:
        return "the length of the reward bounds"

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "columns": [list(group) for group in self.columns],
            "grids": [grid.tolist() for grid in self.grids],
            "offers": [offers.tolist() for offers in self.offers],
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        columns = [read_array(group, "columns", "whole", 1) for group in fields["columns"]]
        return cls(
            **cls.read_header(fields),
            columns=tuple(tuple(group.tolist()) for group in columns),
            grids=tuple(read_array(grid, "grids", "number", 2) for grid in fields["grids"]),
            offers=tuple(read_array(one, "offers", "number", 1) for one in fields["offers"]),
        )
