"""Private GP-UCB on points that everyone can be given: only rewards are private.

    probabilities of points, and directions Q           `_policy`        from earlier releases
    x_t drawn by a public coin, one point a group       `PublicPolicy`   the learner draws it again
    u += y_t s(x_t),  D += s psi',  S += s s'           `_statistics`    Algorithm 1, lines 15-18
    u + noise is released when the epoch ends           `_public_sums`   Algorithm 2
    information += D' (rho^2 S + s_u^2 I)^-1 D          `_evidence_with`
    posterior, averaged over length scales and levels   `scaled_posterior`

Algorithm numbers are those of Dubey (2021), whose Gram matrix needs noise because decision sets are
private; here D and S are public, and noise is on u alone. What is released is sum s(x) y with

    s(x) = Q' psi(x) / ||Q' psi(x)||,    psi = (1, psi_1, .., psi_d).

s may be any function of x and of what is public, because sum s(x) psi(x)' is known. A report cannot
smuggle another point in, because the learner draws the point again from the coin.

With f = constant + sum of one function a group, the best point is found group by group.

| array    | shape      | meaning                                                    | symbol |
|----------|------------|------------------------------------------------------------|--------|
| grid     | (N_g, d_g) | public points of group g, in the units of the domain       | x_g    |
| psi      | (N_g, m_g) | features minus their mean over the grid                    | psi_g  |
| measured | (p, r)     | directions that a release measures                         | Q      |
| places   | (n, G)     | places of chosen points in the grids of the G groups       |        |

Notes
-----
*Length scales* of 1/4, 1/2, 1 and 2 times the kernel's are weighed by evidence with the prior
1 : 2 : 4 : 2, in features of the shortest that 250 features can show. Each has a thousandth of its
variance from the shortest, or a kernel that is not quite right becomes certain of corners that were
never visited.

*Each epoch is released alone* (`SeparateEpochs`), at growth 1.5, and measures directions of its
own: once a policy has narrowed down, the differences between the points left. Sums over epochs that
measured different directions would drown single looks. Each person is in one release (parallel
composition).

*Directions* s(x) may be any public function of x; water-filling over the eigenvectors of the
posterior covariance under the probabilities spends nothing on directions that are known or would
drown.

*Additive kernels* keep one length scale and sums of all epochs (`GeometricEpochs`): their people
are shared and every epoch measures the same directions.

*Cost.* A cover of C cells with N people each costs C N times the mean gap, and noise of deviation
s_u needs N of about s_u / 0.15; no rule that finds a narrow optimum avoids that.

*Tried without gain:* the share of the wide level by Laplace's rule; growth 2 or 1.25; a first epoch
of six times the length; half whitening; a wide level of 3 or 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from discreet.gaussian import Posterior
from discreet.kernels import FeatureMap, kernel_from_text, kernel_to_text
from discreet.kernels.grid import DomainGrid, GridGroup, domain_grid, stretched
from discreet.learners.gp_ucb.learner import GPUCBLearner, KernelOptions, kernel_features
from discreet.learners.gp_ucb.policy import (
    RESOLUTION,
    UNIT,
    GramStatistics,
    KernelModel,
    NoisyRows,
    PointObservations,
    ReleasedSums,
    RemainingHorizon,
    exact_product,
    rounded,
)
from discreet.learners.gp_ucb.posterior import CENTRE, UNIFORM_VARIANCE, NoisyStatistics
from discreet.learners.gp_ucb.public.decision import RULES, GroupPosterior, rougher
from discreet.learners.gp_ucb.public.evidence import (
    WIDE_LEVEL,
    Evidence,
    ScaledPosterior,
    scaled_posterior,
)
from discreet.learners.gp_ucb.public.policy import OfferedGroup, PublicPolicy
from discreet.learners.gp_ucb.values import MODEL_ERROR_AVERAGE
from discreet.learners.messages import Reports
from discreet.learners.values import BIAS_FRACTION, RECOMMENDATION, PolicyShares, ValuePosterior
from discreet.people.domain import Box, PublicBox, PublicSet
from discreet.privacy import Joint, Local, NonPrivate
from discreet.privacy.calibration import in_unit_ball
from discreet.privacy.prefix_sums import LinearStream
from discreet.privacy.vectors import reward_noise
from discreet.validation import CoinArray, FloatArray, InvalidInput

# Prior variances of f, in units of that of a uniform number over the range of rewards.
PRIOR_LEVELS = np.array([1.0 / 16.0, 1.0 / 4.0, 1.0, WIDE_LEVEL, 4.0])
# Directions below this share of the largest one are rounding.
_JITTER = 1e-9
# The most frequent points, this many, are moved to the best point of their cell.
_PEAKS = 16
# Directions with less than this share of a policy's largest variance are not whitened further.
_LEAST_SPREAD = 1e-6
# Shorter length scales that are weighed by evidence, as shares of the kernel's; the error of
# their maps, which only need to resolve them; and the most features of such a map.
_SHORTER = (0.25, 0.5)
_COARSE_ERROR = 1e-2
_MOST_FEATURES = 250


class PublicGPUCB(GPUCBLearner[PublicPolicy]):
    """Private GP-UCB where everyone can be given the same points; see `GPUCB`.

    Attributes:
        grid: the public points and their features, group by group.
    """

    spaces: ClassVar[tuple[type[Any], ...]] = (PublicSet, PublicBox)
    record = "reward"
    data = PublicPolicy.data
    sensitivity_source = "norm of s(x), which is 1 for every public point"
    learns_length_scales = True
    reward_weight = 1.0
    non_negative = np.array([-1])
    saved = (*GPUCBLearner.saved, "_evidence")
    _evidence: Evidence  # from releases of single epochs

    def __init__(
        self,
        domain: Box,
        space: PublicSet | PublicBox,
        budget: Joint | Local | NonPrivate,
        **options: Unpack[KernelOptions],
    ) -> None:
        super().__init__(domain, space, budget, **options)
        if budget.is_local:
            # A reward alone: on the scale [0, 1] two of them lie at most 1 apart.
            self.local = reward_noise(budget, 1.0)
        self.grid: DomainGrid = domain_grid(self.features, self.norm, space, self.kernel)
        self._evidence = Evidence.none(self.grid.size)
        self.sizes = self.grid.size, *(len(group.grid) for group in self.grid.groups)
        # Two rewards y, y' of one person at x move the row by |y - y'| sqrt(|s|^2 + g^2 (y + y')^2)
        # with |y|, |y'| <= 1/2: at g = 2 |s| no more than the |s| that y - y' = 1 gives.
        self.sensitivity = unit_direction_norm(self.grid.size)
        self._square_weight = 2.0 * self.sensitivity
        # Groups measure the same directions in every epoch.
        self.places = self.distinct_points if len(self.grid.groups) == 1 else None
        self._open(self.grid.size + 1, 3 * self.grid.size**2)

    @property
    def distinct_points(self) -> float:
        """How many points differ under the second shortest length scale, over all groups."""
        return sum(
            len(group.grid) / float(group.alike[min(1, len(group.alike) - 1)].max())
            for group in self.grid.groups
        )

    def _make_features(self, kernel: str, error: float) -> FeatureMap:
        return finest_map(kernel, self.domain, error, self._points)

    # From reports to evidence.

    def _statistics(self, policy: PublicPolicy, reports: Reports) -> GramStatistics:
        taken: PointObservations | NoisyRows = (
            self._taken(reports, PointObservations)
            if self.local is None
            else self._taken(reports, NoisyRows)
        )
        columns = taken.rows.shape[1] if isinstance(taken, NoisyRows) else 1
        if taken.public_coins.shape != (len(taken),) or len(taken) == 0 or columns != 1:
            raise InvalidInput(
                f"reports had public coins of shape {taken.public_coins.shape} and rows of "
                f"{columns} numbers for {len(taken)} people; send one of each for each person."
            )
        psi = self._regressors(policy, taken.public_coins)
        # Without noise to come, the regressors themselves lose nothing.
        noiseless = not self.budget.is_central
        shown = rounded(psi) if noiseless else unit_directions(psi, policy.measured)
        weight = shown * np.sqrt(UNIT)
        if isinstance(taken, NoisyRows):
            rewards = taken.rows[:, 0]
            squares = self._square_weight * (rewards @ rewards)
            row: NDArray[Any] = np.append(np.sqrt(UNIT) * (shown.T @ rewards), squares)
        else:
            rewards = rounded(taken.rewards - CENTRE)
            if taken.over_limit is not None:
                rewards[taken.over_limit] = 0
            row = exact_product(np.column_stack([shown, rewards]), rewards[:, None])[:, 0]
        design = np.stack([weight.T @ psi, weight.T @ weight, psi.T @ psi]).ravel()
        return GramStatistics(reports=len(taken), row=row, design=design)

    def _regressors(self, policy: PublicPolicy, public_coins: CoinArray) -> FloatArray:
        """(n, p) psi of the points that the coins draw."""
        places = policy.places(public_coins)
        psi = self.grid.psi(places)
        for g, (group, offered) in enumerate(zip(self.grid.groups, policy.groups, strict=True)):
            moved = np.flatnonzero((offered.grid != group.grid).any(axis=1))
            if len(moved):
                regressors = group.psi.copy()
                regressors[moved] = group.regressors(offered.grid[moved])
                psi[:, self.grid.places[g]] = regressors[places[:, g]]
        return psi

    def _row(self, counted: NDArray[Any]) -> FloatArray:
        if self.local is not None:
            return np.asarray(counted, dtype=np.float64)
        row: FloatArray = counted * UNIT
        row[-1] *= self._square_weight
        return row

    def _note_release(self, stream: LinearStream) -> None:
        if self._separate and self._evidence.came < self._released:
            last = self._latest(stream, self._counts[-1])
            self._evidence = self._evidence_with(self._evidence, last)

    def _evidence_with(self, before: Evidence, totals: ReleasedSums) -> Evidence:
        """The evidence with one more release."""
        size = self.grid.size
        noiseless = not self.budget.is_central
        # Noise on each person's own reward spreads over u as the reward's own variance does.
        extra = 0.0 if self.local is None else self.local.variance
        noise = 0.0 if noiseless else totals.variance * totals.scale**2
        doubt = noise / self._square_weight**2 + 2.0 * extra**2 * totals.people
        squares = float(totals.values[-1]) / self._square_weight - extra * totals.people
        sums = NoisyStatistics(totals.people, 0.0, noise, squares, doubt, totals.came)
        design = totals.design.reshape(3, size, size)
        return before.after(design, totals.values[:-1], sums, self._widest, extra)

    @property
    def _widest(self) -> FloatArray:
        """(p, r) a root of the widest prior."""
        return prior_roots(self.grid)[0]

    # From evidence to a policy.

    def _publish(self) -> PublicPolicy:
        totals = self._public_sums()
        if totals is None:
            return self._policy(Evidence.none(self.grid.size))
        if self._separate:
            return self._policy(self._evidence)
        return self._policy(self._evidence_with(Evidence.none(self.grid.size), totals))

    def _policy(self, evidence: Evidence) -> PublicPolicy:
        """The policy that follows from evidence."""
        header, ahead, grid = self.policy_header(), self._remaining(), self.grid
        believed = scaled_posterior(evidence, prior_roots(grid), PRIOR_LEVELS)
        if evidence.came:
            rng = np.random.default_rng([header["public_seed"], header["version"]])
            rule = RULES[self.calibration.decision(True)]
            spread = self.calibration.confidence_multiplier
            probabilities = [
                rule(each, spread, rng) for each in self._groups(evidence, believed, ahead)
            ]
        else:
            probabilities = [
                np.full(len(group.grid), 1.0 / len(group.grid)) for group in grid.groups
            ]
        average = believed.average
        return PublicPolicy(
            **self._policy_fields(grid.to_features @ average.mean, grid.to_features @ average.root),
            groups=tuple(
                OfferedGroup(group.columns, _peaked(group, offered, average.mean[place]), offered)
                for group, offered, place in zip(
                    grid.groups, probabilities, grid.places, strict=True
                )
            ),
            measured=self._measured(probabilities, believed, ahead),
        )

    def _groups(
        self, evidence: Evidence, believed: ScaledPosterior, ahead: RemainingHorizon
    ) -> Iterator[GroupPosterior]:
        """The posterior of each group."""
        grid, average = self.grid, believed.average
        tops = [
            float((group.psi @ average.mean[place]).max())
            for group, place in zip(grid.groups, grid.places, strict=True)
        ]
        room = max(1.0 - CENTRE - float(average.mean[0]) - sum(tops), 0.0)
        for group, place in zip(grid.groups, grid.places, strict=True):
            yield GroupPosterior(
                group.psi,
                _marginal(average, place),
                tuple(_marginal(wide, place) for wide in believed.wide),
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
        self,
        probabilities: Sequence[FloatArray],
        believed: ScaledPosterior,
        ahead: RemainingHorizon,
    ) -> FloatArray:
        """(p, r) the directions of the next release; none where it has no noise."""
        if not self.budget.is_central:
            return np.zeros((self.grid.size, 0))
        if not ahead.separate:
            return steady_directions(self.grid, probabilities)
        weights = rougher(believed.weights, believed.seen)
        roots = [
            np.sqrt(weight) * wide.root for weight, wide in zip(weights, believed.wide, strict=True)
        ]
        wide = sum(root @ root.T for root in roots)
        moments = self.grid.moments(probabilities)
        return informative_directions(moments, np.asarray(wide), ahead.people, ahead.noise)

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        """f(x) = 1/2 + (1, phi(x))' theta; a policy is a point, or several equally often."""
        policy, model = self._latest_policy, self._latest_policy.model

        def variance(weights: FloatArray) -> float:
            along = weights[0] @ model.root
            return float(along @ along)

        return PointValues(
            model=model,
            contexts=None,
            weights=np.ones(1),
            where="everybody, who can be given the same points",
            expected=model.mean[None] + CENTRE * np.eye(1, len(model.mean)),
            recommended=best_point(policy),
            variance=variance,
            deviations=lambda places: np.sqrt((model.root**2).sum(axis=1))[None],
            model_error_average=MODEL_ERROR_AVERAGE,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PointValues(ValuePosterior):
    """The posterior of the values of public points.

    Attributes:
        model: the released model; weights are those of its coefficients.
    """

    model: KernelModel

    def choice(self, policy: Any, given: bool, name: str) -> PolicyShares:
        if given:
            raise InvalidInput(
                "contexts was given, but there are none here; leave it out, and give points as the "
                f"{name}."
            )
        chosen = self.recommended if policy is None else policy
        whose = RECOMMENDATION if policy is None else "the points given"
        features = self.model.features.transform(np.atleast_2d(chosen))
        phi = features / self.model.norm
        return PolicyShares(np.append(1.0, phi.mean(axis=0))[None], whose, away=0.0, rule=False)

    def bias(self, weights: FloatArray) -> float:
        return BIAS_FRACTION * math.sqrt(self.variance(weights))


@lru_cache(maxsize=8)  # policies are equal to themselves alone
def best_point(policy: PublicPolicy) -> FloatArray:
    """(d,) the public point with the largest mean, found group by group."""
    domain = policy.domain
    best = domain.from_unit(np.full((1, domain.dimension), 0.5))[0]
    for columns, points, _ in policy.sent():
        tried = np.tile(best, (len(points), 1))
        tried[:, list(columns)] = points
        best = tried[policy.model.predict(tried)[0].argmax()]
    return np.asarray(best)


def prior_roots(grid: DomainGrid) -> list[FloatArray]:
    """For each length scale (p, r) a root of the prior covariance: rewards spread over [0, 1]."""
    return [np.sqrt(UNIFORM_VARIANCE) * root for root in grid.roots]


def informative_directions(
    moments: FloatArray, wide: FloatArray, people: float, noise: float
) -> FloatArray:
    """(p, r) the directions Q whose release is most informative: s(x) = Q' psi(x), normalised.

    With E psi psi' = M under the probabilities and a posterior covariance C = K K', the
    eigenvectors of K'M K are functions g_i that vary independently by b_i under the probabilities.
    n people whose share a_i of the norm goes to g_i give log(1 + a_i b_i n^2 / s_u^2) about them,
    which is largest where a_i = max(level - s_u^2 / (n^2 b_i), 0), adding up to 1 (water-filling:
    Cover and Thomas 2006, section 9.4). So little is spent on directions that would drown in noise
    or are known.

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
    # A term common to all of them changes no share; those without any may overflow.
    with np.errstate(over="ignore"):
        drowned = noise / people**2 * (1.0 / values - 1.0 / values[0])
    levels = (1.0 + np.cumsum(drowned)) / np.arange(1, len(values) + 1)
    asked = int(np.flatnonzero(levels > drowned)[-1]) + 1
    shares = levels[asked - 1] - drowned[:asked]
    return np.asarray(factor @ vectors[:, :asked] * np.sqrt(shares / values[:asked]))


def steady_directions(grid: DomainGrid, probabilities: Sequence[FloatArray]) -> FloatArray:
    """(p, p) directions of releases that add up: s = (1, a_1, .., a_d) / norm.

    a_g are the features of group g, centred over the probabilities, with the covariance S_g that
    they have there multiplied by S_g^(-1/4) (half of the whitening that would favour rough axes),
    and scaled to mean square 1. A symmetric power keeps the meaning of coordinates from policy to
    policy, so sums build up.
    """
    asked = np.zeros((grid.size, grid.size))
    asked[0, 0] = 1.0
    for group, shares, place in zip(grid.groups, probabilities, grid.places, strict=True):
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


def unit_directions(psi: FloatArray, measured: FloatArray) -> FloatArray:
    """(n, p) s(x) in units of 2^-18, of norm 1 before rounding; 0 in places beyond r.

    Norms are cut to 1 once more, so that the sensitivity does not rest on the arithmetic of
    directions that were read from a file: squares of very small numbers are lost.

    Args:
        psi: (n, p) regressors.
        measured: (p, r) the directions of a policy.
    """
    shown = np.zeros_like(psi)
    with np.errstate(all="ignore"):
        asked = psi @ measured
        norms = np.linalg.norm(asked, axis=1, keepdims=True)
        shown[:, : asked.shape[1]] = asked / np.maximum(norms, 1e-300)
    return rounded(in_unit_ball(shown))


def unit_direction_norm(size: int) -> float:
    """The largest ||s(x)||: how far u moves when a reward moves by 1."""
    # s(x) has norm 1 before it is rounded, which moves each entry by half a unit at most.
    return 1.0 + float(np.sqrt(size)) / (2.0 * RESOLUTION)


def _peaked(group: GridGroup, probabilities: FloatArray, coefficients: FloatArray) -> FloatArray:
    """(N_g, d_g) the grid, its most frequent points moved to the posterior's best in their cell."""
    if not group.reach.any() or not coefficients.any():
        return group.grid
    grid = group.grid.copy()
    frequent = np.argsort(-probabilities, kind="stable")[:_PEAKS]
    grid[frequent] = group.summits(frequent, coefficients)
    return grid


def _marginal(posterior: Posterior, place: slice) -> Posterior:
    """The posterior of some of the coefficients."""
    return Posterior(posterior.mean[place], posterior.root[place])


# Kernels whose maps take too many features are found by making them, so failures are cached too.
@lru_cache(maxsize=16)
def finest_map(kernel: str, domain: Box, error: float, points: PublicSet | None) -> FeatureMap:
    """A map that shows length scales down to a quarter of the kernel's.

    Down to a half, or the kernel's alone, if that takes too many features. Each of several groups
    keeps its own length scale.
    """
    usual = kernel_features(kernel, domain, error, points)
    for share in _SHORTER:
        if len(usual.groups) > 1:
            break
        if (shorter := stretched(kernel_from_text(kernel), share)) is None:
            break
        try:
            text = kernel_to_text(shorter)
            features = kernel_features(text, domain, max(error, _COARSE_ERROR), points)
        except InvalidInput:  # It takes too many features.
            continue
        if features.features <= _MOST_FEATURES:
            return features
    return usual
