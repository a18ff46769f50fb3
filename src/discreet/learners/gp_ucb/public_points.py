"""Everyone can be given the same points: only rewards are private.

Points are chosen from earlier releases and public tickets. The policy is a table: for every
coordinate group the probability of each point of a public grid. The ticket draws one point in each
group; context and reward of the person play no part. The learner draws it again from the ticket,
so a report cannot smuggle another point in. What is released is sum s(x) y with

    s(x) = (1, a_1(x_1), .., a_d(x_d)) / ||..||,

a_g the features of group g, centred over what the policy offers, with the covariance S_g that they
have there multiplied by S_g^(-1/4) (half of the whitening that would favour rough axes), and scaled
to mean square 1. So no part of the budget is spent on d copies of a constant, everybody uses all
of it, and once a policy has narrowed down, it is the differences between the points left that are
measured. s may be any function of x and of what is public, because sum s(x) psi(x)' is known.

With f = constant + sum of one function a group, the best point is found group by group.

| array  | shape      | meaning                                                    | symbol |
|--------|------------|------------------------------------------------------------|--------|
| grid   | (N_g, d_g) | public points of group g, in the units of the domain       | x_g    |
| psi    | (N_g, m_g) | features minus their mean over the grid                    | psi_g  |
| offers | (N_g,)     | probabilities of the points of group g, adding up to 1     |        |
| places | (n, G)     | places of chosen points in the grids of the G groups       |        |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.action_space import DecisionSets, PublicBox, PublicSet
from discreet.codec import Coded, Range, Shape
from discreet.kernels import FeatureMap, public_points
from discreet.learners.gp_ucb.calibration import Decision, KernelCalibration
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
    GaussianPosterior,
    NoisySums,
    design_posterior,
)
from discreet.learners.messages import Actions, Reports
from discreet.learners.points import Visitors
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import Budget, NoiseSource
from discreet.privacy.calibration import AdditiveNoise
from discreet.privacy.noise import NO_NOISE
from discreet.validation import FloatArray, IntArray, InvalidInput, TicketArray

# Grid points of a group of one and of two columns; more columns share low-discrepancy points.
_POINTS = {1: 201, 2: 41 * 41}
_SCATTERED = 4096
# Directions with less than this share of a policy's largest variance are not whitened further.
_LEAST_SPREAD = 1e-6
# Prior standard deviations of f stand in ratios of 2; the middle one spans the reward range.
PRIOR_LEVELS = 4.0 ** np.arange(-3.0, 3.0)
# Draws of theta that a released Thompson policy averages over.
_DRAWS = 64
# How strongly points that look worse are avoided: offers go with Phi(3 q)^2.
_SHARPNESS = 3.0
# For this share of people offers go with Phi(q)^2, or unlucky runs would stay where they are.
_DOUBT = 0.1


@dataclass(frozen=True, eq=False)
class GridGroup:
    """One coordinate group (see the module's table).

    Attributes:
        columns: the columns of the domain that it reads.
        features: its features within the whole map.
        grid, psi: see the module's table.
        mean: (m_g,) the mean feature over the grid.
    """

    columns: tuple[int, ...]
    features: slice
    grid: FloatArray
    psi: FloatArray
    mean: FloatArray


@dataclass(frozen=True, eq=False)
class DomainGrid:
    """All groups of a feature map on a public domain.

    Attributes:
        groups: the groups.
        size: the number p of coefficients: one, and m_g for each group.
        features: the number of features m of the whole map.
    """

    groups: tuple[GridGroup, ...]
    features: int

    @property
    def size(self) -> int:
        return 1 + sum(int(group.psi.shape[1]) for group in self.groups)

    @cached_property
    def _places(self) -> tuple[slice, ...]:
        ends = np.cumsum([1, *(group.psi.shape[1] for group in self.groups)])
        return tuple(slice(a, b) for a, b in pairwise(ends.tolist()))

    @property
    def sensitivity(self) -> float:
        """The largest ||s(x)||: how far u moves when a reward moves by 1."""
        # s(x) has norm 1 before it is rounded, which moves each entry by half a unit at most.
        return 1.0 + float(np.sqrt(self.size)) / (2.0 * RESOLUTION)

    def sent(self, places: IntArray, offers: Sequence[FloatArray]) -> FloatArray:
        """(n, p) s(x) in units of 2^-18.

        Args:
            places: (n, groups) places of the points in the grids.
            offers: for each group (N_g,) the probabilities with which its points were offered.
        """
        parts = [
            _whitened(group.psi, offered)[places[:, g]]
            for g, (group, offered) in enumerate(zip(self.groups, offers, strict=True))
        ]
        joined = np.hstack([np.ones((len(places), 1)), *parts])
        return rounded(joined / np.linalg.norm(joined, axis=1, keepdims=True))

    def psi(self, places: IntArray) -> FloatArray:
        """(n, p) the regressors (1, psi_1, .., psi_d)."""
        parts = [group.psi[places[:, g]] for g, group in enumerate(self.groups)]
        return np.hstack([np.ones((len(places), 1)), *parts])

    @cached_property
    def prior_shape(self) -> FloatArray:
        """(p,) prior variances up to a factor: the groups share the spread of f equally."""
        shape = np.full(self.size, UNIFORM_VARIANCE / len(self.groups))
        shape[0] = UNIFORM_VARIANCE
        return shape

    def of_group(self, posterior: GaussianPosterior, group: int) -> GaussianPosterior:
        """What is believed of one group's coefficients."""
        place = self._places[group]
        return GaussianPosterior(posterior.mean[place], posterior.root[place])

    def in_features(self, posterior: GaussianPosterior) -> GaussianPosterior:
        """What is believed of theta (m + 1,) in f = 1/2 + (1, phi)' theta (posterior.py)."""
        turn = np.zeros((self.features + 1, self.size))
        turn[0, 0] = 1.0
        for group, place in zip(self.groups, self._places, strict=True):
            turn[1 + group.features.start : 1 + group.features.stop, place] = np.eye(
                len(group.mean)
            )
            turn[0, place] = -group.mean
        return GaussianPosterior(turn @ posterior.mean, turn @ posterior.root)


@lru_cache(maxsize=8)
def domain_grid(features: FeatureMap, norm: float, space: PublicSet | PublicBox) -> DomainGrid:
    """The grid of a feature map; kept, because several learners may share it."""
    if isinstance(space, PublicSet):
        everything = slice(0, features.features)
        columns = tuple(range(features.domain.dimension))
        parts = [(columns, everything, space.array, features.transform(space.array))]
    else:
        parts = [
            (group.columns, group.features, grid, group.map.transform(grid))
            for group in features.groups
            for grid in [_grid(group.map)]
        ]
        read = [column for columns, *_ in parts for column in columns]
        if sorted(read) != list(range(features.domain.dimension)):
            raise InvalidInput(
                f"the groups of the kernel read the columns {sorted(read)}; to search a box, every "
                f"one of its {features.domain.dimension} columns must be in exactly one group: use "
                "one kernel on all columns, or Additive(kernel, groups)."
            )
    groups = []
    for columns, place, grid, phi in parts:
        mean = phi.mean(axis=0) / norm
        groups.append(GridGroup(tuple(columns), place, grid, phi / norm - mean, mean))
    return DomainGrid(tuple(groups), features.features)


def _grid(features: FeatureMap) -> FloatArray:
    """A public grid of a group's box: equally spaced, with the levels of columns that have them."""
    domain = features.domain
    columns = domain.dimension
    if columns not in _POINTS:
        return public_points(domain, _SCATTERED)
    steps = round(_POINTS[columns] ** (1.0 / columns))
    axes = [np.linspace(0.0, 1.0, min(levels or steps, steps)) for levels in domain.levels]
    for axis, levels in enumerate(domain.levels):
        if levels is not None:
            axes[axis] = np.round(axes[axis] * (levels - 1)) / (levels - 1)
    mesh = np.meshgrid(*axes, indexing="ij")
    return domain.from_unit(np.stack(mesh, axis=-1).reshape(-1, columns))


def _whitened(psi: FloatArray, offers: FloatArray) -> FloatArray:
    """(N_g, m_g) a_g at the points of a group, from the probabilities of being offered."""
    centred = psi - offers @ psi
    values, vectors = np.linalg.eigh((centred * offers[:, None]).T @ centred)
    if not len(values) or values[-1] <= 0.0:
        return np.zeros_like(psi)
    # A symmetric power keeps the meaning of coordinates from policy to policy, so sums build up.
    powers = np.maximum(values, _LEAST_SPREAD * values[-1]) ** -0.25
    shown = centred @ (vectors * powers) @ vectors.T
    spread = float(offers @ np.sum(shown**2, axis=1))
    whitened: FloatArray = shown / np.sqrt(spread)
    return whitened


def matching(
    psi: FloatArray, posterior: GaussianPosterior, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) offers by q = (m(x) - m(x*)) / sd(f(x) - f(x*)), x* the greedy point.

    Nine people in ten get points in proportion to Phi(3 q)^2, the tenth to Phi(q)^2: a point that
    is as good as the greedy one for all that is known gets its share, one that is surely worse
    nothing, and one that may be better is not forgotten. Upper confidence bounds run to the
    boundary of a box, where little is known, and Thompson sampling spends too long on points that
    are hardly ever best.
    """
    mean = psi @ posterior.mean
    away = psi - psi[int(mean.argmax())]
    gap = mean - mean.max()
    spread = np.sqrt(np.maximum(np.sum((away @ posterior.root) ** 2, axis=1), 1e-300))
    q = gap / spread
    q[int(mean.argmax())] = 0.0
    offers = np.zeros(len(psi))
    for sharpness, share in ((_SHARPNESS, 1.0 - _DOUBT), (1.0, _DOUBT)):
        weight = ndtr(sharpness * q) ** 2
        offers += share * weight / weight.sum()
    return offers


def upper_bound(
    psi: FloatArray, posterior: GaussianPosterior, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) everything on the point with the largest mean plus `confidence` deviations."""
    spread = np.sqrt(np.sum((psi @ posterior.root) ** 2, axis=1))
    offers = np.zeros(len(psi))
    offers[int((psi @ posterior.mean + confidence * spread).argmax())] = 1.0
    return offers


def thompson(
    psi: FloatArray, posterior: GaussianPosterior, confidence: float, rng: np.random.Generator
) -> FloatArray:
    """(N,) how often each point is best under theta drawn from the posterior (public draws)."""
    normal = rng.standard_normal((_DRAWS, posterior.root.shape[1]))
    theta = posterior.mean + confidence * normal @ posterior.root.T
    best = (psi @ theta.T).argmax(axis=0)
    offers: FloatArray = np.bincount(best, minlength=len(psi)) / _DRAWS
    return offers


OFFERS: dict[Decision, Callable[..., FloatArray]] = {
    "ucb": upper_bound,
    "thompson": thompson,
    "matching": matching,
}


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
    """

    kind: ClassVar[str] = "gp-public-policy"
    data = "the reward; points are chosen from earlier releases and public tickets"
    sensitivity_source = "the length of the reward bounds"
    report_size = 1

    groups: tuple[OfferedGroup, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.offered, DecisionSets):
            raise InvalidInput(f"offered was {self.offered!r:.80}; it must be public points.")
        if self.local is not None:
            self.local.check(1.0)
        given = sorted(column for group in self.groups for column in group.columns)
        if given != list(range(self.domain.dimension)):
            raise InvalidInput(
                f"the groups of a policy set the columns {given}; they must set each of the "
                f"{self.domain.dimension} columns once."
            )

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
    ) -> None:
        super().__init__(features, space, calibration)
        if budget.protects_reports:
            # A reward alone: on the scale [0, 1] two of them lie at most 1 apart.
            self.local = (
                AdditiveNoise.laplace_for(budget.epsilon, 1.0, 1)
                if budget.delta == 0.0
                else AdditiveNoise.gaussian_for(budget.noise_multiplier, 1.0, 1)
            )
        self.noiseless = not budget.protects_releases
        self.grid: DomainGrid = domain_grid(features, self.norm, space)
        self.size = self.grid.size + 1
        self.design_size = 3 * self.grid.size**2
        # Two rewards y, y' of one person at x move the row by |y - y'| sqrt(|s|^2 + g^2 (y + y')^2)
        # with |y|, |y'| <= 1/2: at g = 2 |s| no more than the |s| that y - y' = 1 gives.
        self.sensitivity = self.grid.sensitivity
        self._square_weight = 2.0 * self.grid.sensitivity

    def sums(self, policy: GPPolicy, reports: Reports) -> tuple[NDArray[Any], FloatArray]:
        assert isinstance(policy, PublicPolicy)
        assert isinstance(reports, PointObservations | NoisyRows)
        columns = reports.rows.shape[1] if isinstance(reports, NoisyRows) else 1
        if reports.tickets.shape != (len(reports),) or len(reports) == 0 or columns != 1:
            raise InvalidInput(
                f"reports had tickets of shape {reports.tickets.shape} and rows of {columns} "
                f"numbers for {len(reports)} people; send one of each for each person."
            )
        places = policy.places(reports.tickets)
        psi = self.grid.psi(places)
        # Without noise to come, the regressors themselves lose nothing.
        offers = [group.offers for group in policy.groups]
        sent = rounded(psi) if self.noiseless else self.grid.sent(places, offers)
        weight = sent * np.sqrt(UNIT)
        if isinstance(reports, NoisyRows):
            rewards = reports.rows[:, 0]
            squares = self._square_weight * (rewards @ rewards)
            values: NDArray[Any] = np.append(np.sqrt(UNIT) * (sent.T @ rewards), squares)
        else:
            rewards = rounded(reports.rewards - CENTRE)
            values = exact_product(np.column_stack([sent, rewards]), rewards[:, None])[:, 0]
        return values, np.stack([weight.T @ psi, weight.T @ weight, psi.T @ psi]).ravel()

    def row(self, counted: NDArray[Any]) -> FloatArray:
        if self.local is not None:
            return np.asarray(counted, dtype=np.float64)
        row: FloatArray = counted * UNIT
        row[-1] *= self._square_weight
        return row

    def policy(self, header: dict[str, Any], totals: ReleasedSums | None, ahead: Ahead) -> GPPolicy:
        groups = self.grid.groups
        if totals is None or totals.came == 0:
            prior = np.diag(np.sqrt(self.grid.prior_shape))
            posterior = GaussianPosterior(np.zeros(self.grid.size), prior)
            offers = [np.full(len(group.grid), 1.0 / len(group.grid)) for group in groups]
        else:
            posterior = self._believed(totals)
            choose = OFFERS[self.calibration.decision(True)]
            rng = np.random.default_rng([header["public_seed"], header["version"]])
            spread = self.calibration.confidence_multiplier
            offers = [
                choose(group.psi, self.grid.of_group(posterior, number), spread, rng)
                for number, group in enumerate(groups)
            ]
        known = self.grid.in_features(posterior)
        return PublicPolicy(
            **self.header(header, known.mean, known.root),
            groups=tuple(
                OfferedGroup(group.columns, group.grid, offered)
                for group, offered in zip(groups, offers, strict=True)
            ),
        )

    def _believed(self, totals: ReleasedSums) -> GaussianPosterior:
        size = self.grid.size
        # Noise on each person's own reward spreads over u as the reward's own variance does.
        extra = 0.0 if self.local is None else self.local.variance
        noise = totals.variance * totals.scale**2
        doubt = noise / self._square_weight**2 + 2.0 * extra**2 * totals.people
        squares = float(totals.values[-1]) / self._square_weight - extra * totals.people
        sums = NoisySums(totals.people, 0.0, noise, squares, doubt)
        design, shape = totals.design.reshape(3, size, size), self.grid.prior_shape
        return design_posterior(design, totals.values[:-1], sums, shape, PRIOR_LEVELS, extra)
