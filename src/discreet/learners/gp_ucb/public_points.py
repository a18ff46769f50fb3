"""Everyone can be given the same points: only rewards are private.

Points are chosen from earlier releases and public tickets. The policy is a table: for every
coordinate group the probability of each point of a public grid. The ticket draws one point in each
group; context and reward of the person play no part. The learner draws it again from the ticket,
so a report cannot smuggle another point in. What is released is sum s(x) y with

    s(x) = Q' psi(x) / ||Q' psi(x)||,    psi = (1, psi_1, .., psi_d),

Q the policy's questions: what its offers and the belief let a release tell most about
(`questions`). Everybody uses the whole budget, and once a policy has narrowed down, it is the
differences between the points left that are measured. s may be any function of x and of what is
public, because sum s(x) psi(x)' is known. Every epoch is released alone (`SeparateEpochs`), so each
asks questions of its own, and an epoch that went to one point tells that point's value.

With f = constant + sum of one function a group, the best point is found group by group.

| array  | shape      | meaning                                                    | symbol |
|--------|------------|------------------------------------------------------------|--------|
| grid   | (N_g, d_g) | public points of group g, in the units of the domain       | x_g    |
| psi    | (N_g, m_g) | features minus their mean over the grid                    | psi_g  |
| measured | (p, r)   | the questions                                              | Q      |
| offers | (N_g,)     | probabilities of the points of group g, adding up to 1     |        |
| places | (n, G)     | places of chosen points in the grids of the G groups       |        |

Notes
-----
*Length scales* of 1/4, 1/2, 1 and 2 times the kernel's are weighed by evidence with the prior
1 : 2 : 4 : 2, in features of the shortest that 250 features can show. Each has a thousandth of its
variance from the shortest, or a kernel that is not quite right becomes certain of corners that
were never visited.

*Each epoch is released alone* (`SeparateEpochs`), at growth 1.5. What releases say of the
coefficients adds up as information D'(rho^2 S + s_u^2)^-1 D. Sums over epochs that measured
different directions would drown single looks. Each person is in one release (parallel composition).

*Directions* s(x) may be any public function of x; water-filling over the eigenvectors of the
posterior covariance under the offers spends nothing on what is known or would drown.

*Additive kernels* keep one length scale and sums of all epochs (`GeometricEpochs`): their people
are shared and every epoch measures the same directions.

*Cost.* A cover of C cells with N people each costs C N times the mean gap, and noise of deviation
s_u needs N of about s_u / 0.15; no rule that finds a narrow optimum avoids that.

*Tried without gain:* the share of the wide level by Laplace's rule; growth 2 or 1.25; a first epoch
of six times the length; half whitening; a wide level of 3 or 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.codec import Coded, Range, Shape
from discreet.kernels import FeatureMap
from discreet.kernels.grid import DomainGrid, GridGroup, domain_grid
from discreet.learners.gp_ucb.calibration import KernelCalibration
from discreet.learners.gp_ucb.offers import OFFERS, Belief, rougher
from discreet.learners.gp_ucb.policy import (
    RESOLUTION,
    UNIT,
    Ahead,
    GPPolicy,
    Mode,
    NoisyRows,
    PointObservations,
    ReleasedSums,
    exact_product,
    rounded,
)
from discreet.learners.gp_ucb.posterior import (
    CENTRE,
    UNIFORM_VARIANCE,
    WIDE_LEVEL,
    Evidence,
    GaussianPosterior,
    NoisySums,
    ScaledPosterior,
    scaled_posterior,
)
from discreet.learners.messages import Actions, Reports
from discreet.learners.points import Visitors
from discreet.learners.public_randomness import public_uniforms
from discreet.people.domain import DecisionSets, PublicBox, PublicSet
from discreet.privacy import Budget, NoiseSource
from discreet.privacy.calibration import in_unit_ball
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.vectors import reward_noise
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray

# Prior variances of f, in units of that of a uniform number over the range of rewards.
PRIOR_LEVELS = np.array([1.0 / 16.0, 1.0 / 4.0, 1.0, WIDE_LEVEL, 4.0])
# Directions below this share of the largest one are rounding.
_JITTER = 1e-9
# So many points, those that most people are sent to, are moved to the best one of their cell.
_PEAKS = 16
# Directions with less than this share of a policy's largest variance are not whitened further.
_LEAST_SPREAD = 1e-6


def prior_roots(grid: DomainGrid) -> list[FloatArray]:
    """For each length scale (p, r) a root of the prior covariance: rewards spread over [0, 1]."""
    return [np.sqrt(UNIFORM_VARIANCE) * root for root in grid.roots]


def questions(moments: FloatArray, wide: FloatArray, people: float, noise: float) -> FloatArray:
    """(p, r) what a release asks: s(x) = questions' psi(x), scaled to norm 1.

    With E psi psi' = M under the offers and a belief of covariance C = K K', the eigenvectors of
    K'M K are functions g_i that vary independently by b_i under the offers. n people whose share
    a_i of the norm goes to g_i tell log(1 + a_i b_i n^2 / s_u^2) about them, which is largest where
    a_i = max(level - s_u^2 / (n^2 b_i), 0), adding up to 1 (water-filling: Cover and Thomas 2006,
    section 9.4). So little is spent on what would drown in noise, and nothing on what is known.

    Args:
        moments: (p, p) M.
        wide: (p, p) C.
        people: n.
        noise: s_u^2.
    """
    size = len(wide)
    factor = np.linalg.cholesky(wide + _JITTER * np.trace(wide) / size * np.eye(size))
    values, vectors = np.linalg.eigh(factor.T @ moments @ factor)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > _JITTER * values[0]
    values, vectors = values[kept], vectors[:, kept]
    # What is added to all of them changes no share; those that have none may overflow.
    with np.errstate(over="ignore"):
        drowned = noise / people**2 * (1.0 / values - 1.0 / values[0])
    levels = (1.0 + np.cumsum(drowned)) / np.arange(1, len(values) + 1)
    asked = int(np.flatnonzero(levels > drowned)[-1]) + 1
    shares = levels[asked - 1] - drowned[:asked]
    return np.asarray(factor @ vectors[:, :asked] * np.sqrt(shares / values[:asked]))


def steady_questions(grid: DomainGrid, offers: Sequence[FloatArray]) -> FloatArray:
    """(p, p) what a release asks that is added up with those before: s = (1, a_1, .., a_d) / norm.

    a_g are the features of group g, centred over what the policy offers, with the covariance S_g
    that they have there multiplied by S_g^(-1/4) (half of the whitening that would favour rough
    axes), and scaled to mean square 1. A symmetric power keeps the meaning of coordinates from
    policy to policy, so sums build up.
    """
    asked = np.zeros((grid.size, grid.size))
    asked[0, 0] = 1.0
    for group, shares, place in zip(grid.groups, offers, grid.places, strict=True):
        mean = shares @ group.psi
        centred = group.psi - mean
        values, vectors = np.linalg.eigh((centred * shares[:, None]).T @ centred)
        if not len(values) or values[-1] <= 0.0:
            continue
        powers = np.maximum(values, _LEAST_SPREAD * values[-1]) ** -0.25
        shown = (vectors * powers) @ vectors.T
        shown /= np.sqrt(float(shares @ np.sum((centred @ shown) ** 2, axis=1)))
        asked[place, place] = shown
        asked[0, place] = -mean @ shown
    return asked


def sent(psi: FloatArray, measured: FloatArray) -> FloatArray:
    """(n, p) s(x) in units of 2^-18, its norm 1 before rounding; places that are not asked are 0.

    Norms are cut to 1 once more, so that the sensitivity does not rest on the arithmetic of
    questions that were read from a file: squares of very small numbers are lost.

    Args:
        psi: (n, p) regressors.
        measured: (p, r) the questions of a policy.
    """
    shown = np.zeros_like(psi)
    with np.errstate(all="ignore"):
        asked = psi @ measured
        norms = np.linalg.norm(asked, axis=1, keepdims=True)
        shown[:, : asked.shape[1]] = asked / np.maximum(norms, 1e-300)
    return rounded(in_unit_ball(shown))


def sent_norm(size: int) -> float:
    """The largest ||s(x)||: how far u moves when a reward moves by 1."""
    # s(x) has norm 1 before it is rounded, which moves each entry by half a unit at most.
    return 1.0 + float(np.sqrt(size)) / (2.0 * RESOLUTION)


@dataclass(frozen=True, eq=False)
class OfferedGroup(Coded):
    """How often each point of one coordinate group is given (see the module's table).

    Attributes:
        columns: the columns of the domain that it sets.
    """

    columns: tuple[Annotated[int, Range(0)], ...]
    grid: Annotated[FloatArray, Shape("N", "d")]
    offers: Annotated[FloatArray, Shape("N"), Range(0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        total = float(self.offers.sum())
        if self.grid.shape[1] != len(self.columns) or abs(total - 1.0) > 1e-9:
            raise InvalidInput(
                f"a group of {len(self.columns)} columns had a grid of shape {self.grid.shape} and "
                f"offers that add up to {total}; each point needs one probability, and they must "
                "add up to 1."
            )

    @cached_property
    def steps(self) -> FloatArray:
        """(N_g,) sums of offers; no number in [0, 1) may end up behind the last point offered."""
        steps = np.cumsum(self.offers)
        steps[np.flatnonzero(self.offers)[-1] :] = 1.0
        return steps


@dataclass(frozen=True, eq=False)
class PublicPolicy(GPPolicy):
    """Chooses among points that are the same for everyone.

    Attributes:
        groups: for each coordinate group its points and their probabilities.
        measured: what the release of its people asks (`questions`).
    """

    kind: ClassVar[str] = "gp-public-policy"
    data = "the reward; points are chosen from earlier releases and public tickets"
    sensitivity_source = "the length of the reward bounds"
    report_size = 1

    groups: tuple[OfferedGroup, ...]
    measured: Annotated[FloatArray, Shape("size", "r")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be public points.")
        if self.local is not None:
            self.local.check(1.0)
        if self.measured.shape[1] > self.measured.shape[0]:
            raise InvalidInput(
                f"measured had the shape {self.measured.shape}; a release asks at most as many "
                "questions as there are coefficients. Send policies as their learner made them."
            )
        given = sorted(column for group in self.groups for column in group.columns)
        if given != list(range(self.domain.dimension)):
            raise InvalidInput(
                f"the groups of a policy set the columns {given}; they must set each of the "
                f"{self.domain.dimension} columns once."
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        return len(self.measured), *(len(group.grid) for group in self.groups)

    def sent(self) -> tuple[tuple[tuple[int, ...], FloatArray, FloatArray], ...]:
        """Where people are sent: for each group, which are drawn independently of each other, its
        columns, points (N_g, d_g) in the units of the domain, and their probabilities (N_g,)."""
        return tuple((group.columns, group.grid, group.offers) for group in self.groups)

    def places(self, tickets: TicketArray) -> IntArray:
        """(n, G) which point of each group the tickets draw."""
        places = np.empty((len(tickets), len(self.groups)), dtype=np.int64)
        for g, group in enumerate(self.groups):
            uniforms = public_uniforms(
                self.public_seed, self.version, tickets, np.full(len(tickets), g)
            )
            places[:, g] = np.searchsorted(group.steps, uniforms, side="right")
        return places

    def _draw(self, tickets: TicketArray) -> tuple[IntArray, FloatArray, FloatArray]:
        places = self.places(tickets)
        points = np.empty((len(tickets), self.domain.dimension))
        odds = np.ones(len(tickets))
        for g, group in enumerate(self.groups):
            points[:, list(group.columns)] = group.grid[places[:, g]]
            odds *= group.offers[places[:, g]]
        single = isinstance(self.offered, PublicSet)
        return places[:, 0] if single else np.full(len(tickets), -1), points, odds

    def _report(
        self, people: Visitors, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        if self.local is None:
            self.chosen(people, actions)
            return PointObservations(
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


class PublicPoints(Mode):
    """Everyone can be given the same points: only rewards are private."""

    record = "reward"
    data = PublicPolicy.data
    sensitivity_source = "norm of s(x), which is 1 for every public point"
    public = True
    reward_weight = 1.0
    squares = np.array([-1])

    def __init__(
        self,
        features: FeatureMap,
        space: PublicSet | PublicBox,
        calibration: KernelCalibration,
        budget: Budget,
        kernel: str | None = None,
    ) -> None:
        super().__init__(features, space, calibration)
        if budget.protects_reports:
            # A reward alone: on the scale [0, 1] two of them lie at most 1 apart.
            self.local = reward_noise(budget, 1.0)
        self.noiseless = not budget.protects_releases
        self.grid: DomainGrid = domain_grid(features, self.norm, space, kernel)
        self.coefficients = self.grid.size
        self.sizes = self.grid.size, *(len(group.grid) for group in self.grid.groups)
        self.size = self.grid.size + 1
        self.design_size = 3 * self.grid.size**2
        # Two rewards y, y' of one person at x move the row by |y - y'| sqrt(|s|^2 + g^2 (y + y')^2)
        # with |y|, |y'| <= 1/2: at g = 2 |s| no more than the |s| that y - y' = 1 gives.
        self.sensitivity = sent_norm(self.grid.size)
        self._square_weight = 2.0 * self.sensitivity

    @cached_property
    def places(self) -> float | None:  # type: ignore[override]
        """How many points differ from each other under the second shortest length scale; None for
        several groups, which ask of each other's people what they ask, again and again."""
        return self.distinct_points if len(self.grid.groups) == 1 else None

    @property
    def distinct_points(self) -> float:
        """How many points differ from each other, over all groups."""
        return sum(
            len(group.grid) / float(group.alike[min(1, len(group.alike) - 1)].max())
            for group in self.grid.groups
        )

    def sums(self, policy: GPPolicy, reports: Reports) -> tuple[NDArray[Any], FloatArray]:
        assert isinstance(policy, PublicPolicy)
        assert isinstance(reports, PointObservations | NoisyRows)
        columns = reports.rows.shape[1] if isinstance(reports, NoisyRows) else 1
        if reports.tickets.shape != (len(reports),) or len(reports) == 0 or columns != 1:
            raise InvalidInput(
                f"reports had tickets of shape {reports.tickets.shape} and rows of {columns} "
                f"numbers for {len(reports)} people; send one of each for each person."
            )
        psi = self.psi(policy, reports.tickets)
        # Without noise to come, the regressors themselves lose nothing.
        shown = rounded(psi) if self.noiseless else sent(psi, policy.measured)
        weight = shown * np.sqrt(UNIT)
        if isinstance(reports, NoisyRows):
            rewards = reports.rows[:, 0]
            squares = self._square_weight * (rewards @ rewards)
            values: NDArray[Any] = np.append(np.sqrt(UNIT) * (shown.T @ rewards), squares)
        else:
            rewards = rounded(reports.rewards - CENTRE)
            if reports.silent is not None:
                rewards[reports.silent] = 0
            values = exact_product(np.column_stack([shown, rewards]), rewards[:, None])[:, 0]
        return values, np.stack([weight.T @ psi, weight.T @ weight, psi.T @ psi]).ravel()

    def psi(self, policy: PublicPolicy, tickets: TicketArray) -> FloatArray:
        """(n, p) the regressors of the points that tickets draw."""
        places = policy.places(tickets)
        psi = self.grid.psi(places)
        for g, (group, offered) in enumerate(zip(self.grid.groups, policy.groups, strict=True)):
            moved = np.flatnonzero((offered.grid != group.grid).any(axis=1))
            if len(moved):
                regressors = group.psi.copy()
                regressors[moved] = group.regressors(offered.grid[moved])
                psi[:, self.grid.places[g]] = regressors[places[:, g]]
        return psi

    def row(self, counted: NDArray[Any]) -> FloatArray:
        if self.local is not None:
            return np.asarray(counted, dtype=np.float64)
        row: FloatArray = counted * UNIT
        row[-1] *= self._square_weight
        return row

    def evidence(self, before: Evidence, totals: ReleasedSums) -> Evidence:
        size = self.grid.size
        # Noise on each person's own reward spreads over u as the reward's own variance does.
        extra = 0.0 if self.local is None else self.local.variance
        noise = 0.0 if self.noiseless else totals.variance * totals.scale**2
        doubt = noise / self._square_weight**2 + 2.0 * extra**2 * totals.people
        squares = float(totals.values[-1]) / self._square_weight - extra * totals.people
        sums = NoisySums(totals.people, 0.0, noise, squares, doubt, totals.came)
        design = totals.design.reshape(3, size, size)
        return before.after(design, totals.values[:-1], sums, self.widest, extra)

    @property
    def widest(self) -> FloatArray:
        return prior_roots(self.grid)[0]

    def policy(
        self, header: dict[str, Any], totals: ReleasedSums | Evidence | None, ahead: Ahead
    ) -> GPPolicy:
        assert not isinstance(totals, ReleasedSums)
        evidence = totals or Evidence.none(self.grid.size)
        believed = scaled_posterior(evidence, prior_roots(self.grid), PRIOR_LEVELS)
        if evidence.came:
            rng = np.random.default_rng([header["public_seed"], header["version"]])
            choose = OFFERS[self.calibration.decision(True)]
            spread = self.calibration.confidence_multiplier
            offers = [
                choose(belief, spread, rng) for belief in self._groups(evidence, believed, ahead)
            ]
        else:
            offers = [np.full(len(group.grid), 1.0 / len(group.grid)) for group in self.grid.groups]
        turn = self.grid.to_features
        average = believed.average
        return PublicPolicy(
            **self.header(header, turn @ average.mean, turn @ average.root),
            groups=tuple(
                OfferedGroup(group.columns, _peaked(group, offered, average.mean[place]), offered)
                for group, offered, place in zip(
                    self.grid.groups, offers, self.grid.places, strict=True
                )
            ),
            measured=self._measured(offers, believed, ahead),
        )

    def _groups(
        self, evidence: Evidence, believed: ScaledPosterior, ahead: Ahead
    ) -> Iterator[Belief]:
        """What is believed of each group."""
        grid, average = self.grid, believed.average
        tops = [
            float((group.psi @ average.mean[place]).max())
            for group, place in zip(grid.groups, grid.places, strict=True)
        ]
        room = max(1.0 - CENTRE - float(average.mean[0]) - sum(tops), 0.0)
        for group, place in zip(grid.groups, grid.places, strict=True):
            yield Belief(
                group.psi,
                _part(average, place),
                tuple(_part(wide, place) for wide in believed.wide),
                believed.weights,
                believed.seen,
                np.array(group.alike),
                room,
                ahead.people,
                ahead.remaining,
                evidence.reward_variance,
                2.0 * evidence.release_variance,
                len(grid.groups) == 1,
            )

    def _measured(
        self, offers: Sequence[FloatArray], believed: ScaledPosterior, ahead: Ahead
    ) -> FloatArray:
        """What the next release asks; nothing where no noise is to be outweighed."""
        if self.noiseless:
            return np.zeros((self.grid.size, 0))
        if not ahead.separate:
            return steady_questions(self.grid, offers)
        weights = rougher(believed.weights, believed.seen)
        roots = [
            np.sqrt(weight) * wide.root for weight, wide in zip(weights, believed.wide, strict=True)
        ]
        wide = sum(root @ root.T for root in roots)
        moments = self.grid.moments(offers)
        return questions(moments, np.asarray(wide), ahead.people, ahead.noise)


def _peaked(group: GridGroup, offers: FloatArray, coefficients: FloatArray) -> FloatArray:
    """(N_g, d_g) the points that are given: those of the grid, and where most people are sent the
    best point of its cell, as far as that is known."""
    if not group.reach.any() or not coefficients.any():
        return group.grid
    grid = group.grid.copy()
    frequent = np.argsort(-offers, kind="stable")[:_PEAKS]
    grid[frequent] = group.summits(frequent, coefficients)
    return grid


def _part(posterior: GaussianPosterior, place: slice) -> GaussianPosterior:
    """What is believed of some of the coefficients."""
    return GaussianPosterior(posterior.mean[place], posterior.root[place])
