"""What reports measure, and which queries are worth most to the people still to come.

**Measurement.** A person whose public coin picked the functions (A, g) and a partition with cells
C_j reports (j, t). Given j, the mean of t is

    a' theta,    a = (p - b) / P_j  integral over C_j of kappa(x) g(x) phi(x) on arm A(x),

with kappa the density of contexts, mu_j the mass of the cell and P_j = 2 b + (p - b) mu_j the
probability that j is reported, because wrong values are reported with either sign equally often.
Reports with the same functions, partition and cell share a. Where rewards are clipped to c about
the predicted p, with the gain v (prior_knowledge.py), a is multiplied by v / 2 c, and a' theta with
2 p - 1 in place of phi' theta is added to t. Without privacy t = 2 r - 1 and a = phi(x) on arm
A(x). For people of a source, whose arm is as private as the context, the integral goes over
contexts and arms, kappa is their joint density, and g depends on both (`Grid.with_arms`).

**Design.** A query is a pair of an *arm function*, by which people get their arms, and a *sign
function*, whose values their reports are about. Candidates are drawn, and those are used whose gain
exceeds their cost by most.

*Contrasts.* Where the arm that seems best leads a rival by a gap with mean D and deviation s, the
expected loss of choosing the former is s (phi(z) - z Phi(-z)), z = D / s. It falls with the
variance of the gap at the rate w = phi(z) / (2 s). R contrasts, pairs of a point and a rival, are
drawn evenly by w s^2 times the share of people there; with u_i = phi(x) (e_best - e_rival) each
stands for the same part T / R of the whole T = sum w s^2.

*Gain.* One report with the vector a lowers the variance of contrast i by (a' S u_i)^2, the share
r_i = (a' S u_i)^2 / s_i^2 of it. Everyone still to come loses less for that, unless exploitation
would have taught the same: if people who get the arm that seems best lower it by the share f_i a
report, exploring now makes a difference for the next

    h_i = left / (1 + left f_i)

people. The gain is T / R sum r_i h_i; with cells it is summed over them by how often each is
reported. The cost is the expected regret of the arm function.

*Candidates.* Arm functions are the mean plus posterior draws times a factor, or plus the likeliest
change with which the rival of a contrast wins by a margin. Sign functions are linear combinations
of S u_i: first random ones, drawn from N(0, S P S) for P = sum u_i u_i' / s_i^2, then twice the one
along which the gain of the report rises most, S sum u_i (a' S u_i) / s_i^2.

*Cells* hold equal weight. With more of them a report locates its measurement more precisely, and
is true more rarely. Their number is the one whose design is worth most.

| array       | shape     | meaning                                                             |
|-------------|-----------|---------------------------------------------------------------------|
| covariances | (K m, R)  | S u_i / s_i / sqrt(R)                                               |
| local       | (N, R)    | phi(x) e_k' covariances at each of N pairs of a point and an arm    |
| alignments  | (R, C)    | a' covariances of each candidate, so that r_i = R alignments_i^2    |

Notes
-----
*Why not posterior draws alone.* Draws with shrunken deviations never try an arm that the posterior
puts 1.3 deviations behind, which happens to one arm in ten; wider draws try every arm everywhere,
which costs more than it teaches. So the horizon enters through h_i.

*Why a pool.* A policy holds 32 pairs out of 96 candidates and 8 partitions, and the public coin
picks one of each, so a batch costs the same for any number of people.

*Bound.* A report at epsilon carries at most kappa^2 = ((e^epsilon - 1) / (e^epsilon + 1))^2 of the
information of an open report; at epsilon 1 that is 0.21.

*Tried without gain:* prior scales up to 8; one prior with the averaged spectrum; choosing the 32
sequentially with the covariance updated in between; random grid weights in place of evenly drawn
contrasts; arm functions that raise a rival everywhere; neighbouring numbers of cells from 300
people on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf
from scipy.sparse import csr_array

from discreet.codec import Range, Shape
from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.kernel.cells import BINS, MOST_CELLS, Cells
from discreet.learners.kernel.features import Coefficients, whole_coefficients
from discreet.learners.kernel.marginals import (
    LEAST_MASS,
    MARGINALS,
    REWARD_EDGES,
    cell_probabilities,
    reported_parts,
)
from discreet.learners.kernel.policy import KernelPolicy, OpenKernelPolicy
from discreet.learners.kernel.posterior import PosteriorMixture, resampled
from discreet.learners.messages import Observations, Statistics
from discreet.learners.signs import SignedReports
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, IntArray, InvalidInput

# Vectors are rounded to this grid, so sums over millions of reports are exact: they are the same in
# whatever order reports come and wherever they are added.
_GRID = 2.0**-12
_MOST_NATS = 16.0  # in a report of a part, more than log(1 / LEAST_MASS)


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelStatistics(Statistics):
    """What reports add up to: J, b, and where their people are likely to be.

    Each report, made under some policy, is one measurement t = a' theta + noise of unit variance,
    or of less where people report openly (measurement.py), so sums over any reports, of any
    policies and in any order, say all:

    | array     | shape      | sum of                                             |
    |-----------|------------|----------------------------------------------------|
    | precision | (K M, K M) | J: a a'                                            |
    | weighted  | (K M,)     | b: t a                                             |
    | located   | (Z,)       | probabilities that the person is in bin z          |
    | placed    |            | 1, for reports under policies with several cells   |
    | squares   |            | t^2                                                |
    | marginals | (d, H)     | log likelihood of marginals (marginals.py)         |
    | tails     | (E, 2)     | 1, and whether a report says yes, at its threshold |

    Features are functions of ranks, and rewards may be clipped. Re-estimating ranks, or clipping,
    starts a new stage and discards earlier reports: of sums of two stages the later ones stay, and
    of the tails all.
    """

    kind: ClassVar[str] = "local-kernel-statistics"

    precision: Annotated[FloatArray, Shape("c", "c")]
    weighted: Annotated[FloatArray, Shape("c")]
    located: Annotated[FloatArray, Shape("Z"), Range(0.0)]
    placed: Annotated[int, Range(0)]
    squares: Annotated[float, Range(0.0)]
    marginals: Annotated[FloatArray, Shape("d", len(MARGINALS))]
    tails: Annotated[FloatArray, Shape(len(REWARD_EDGES), 2), Range(0.0)]
    stage: Annotated[int, Range(0)]

    @classmethod
    def zeros(
        cls, coefficients: int, bins: int, dimension: int, stage: int = 0
    ) -> KernelStatistics:
        """No report at all."""
        return cls(
            precision=np.zeros((coefficients, coefficients)),
            weighted=np.zeros(coefficients),
            located=np.zeros(bins),
            placed=0,
            squares=0.0,
            marginals=np.zeros((dimension, len(MARGINALS))),
            tails=np.zeros((len(REWARD_EDGES), 2)),
            stage=stage,
            reports=0,
        )

    def __add__(self, other: Self) -> Self:
        if self.stage == other.stage:
            return replace(super().__add__(other), stage=self.stage)
        later = max(self, other, key=lambda sums: sums.stage)
        return replace(later, tails=self.tails + other.tails, **self.tally(other))

    @property
    def information(self) -> GaussianNaturalParameters:
        """J and b."""
        return GaussianNaturalParameters(self.precision, self.weighted)

    def discounted(self, share: float) -> Self:
        """J and b discounted; densities follow the latest reports themselves (density.py)."""
        discounted = self.information.scaled(share)
        return replace(self, precision=discounted.precision, weighted=discounted.weighted)

    def check(
        self, coefficients: int, bins: int, dimension: int, stage: int, radius: float = 0.5
    ) -> None:
        """Refuse sums that no reports to a learner of d columns add up to, at this stage, if
        clipping ranges have this radius or more.

        Raises:
            InvalidInput: for other shapes, or numbers beyond what these many reports can give.
        """
        shape = len(self.weighted), len(self.located), len(self.marginals)
        wanted = coefficients, bins, dimension
        if shape != wanted or self.stage > stage:
            raise InvalidInput(
                f"statistics had (coefficients, bins, columns) {shape} and stage {self.stage}; "
                f"this learner has {wanted}, and is at stage {stage}."
            )
        # |a_i| is at most the largest value of a feature over twice the radius, and |t| at most 1
        # more than 1 over that.
        most = 2.0**dimension * (1.0 + 1e-3) * self.reports / (2.0 * radius) ** 2
        most_weighted = most if radius == 0.5 else 2.0 * most
        diagonal = np.diagonal(self.precision)
        held = np.flatnonzero(diagonal)
        inner = self.precision[np.ix_(held, held)]
        proper = (
            bool((diagonal >= 0.0).all() and (diagonal <= most).all())
            and bool((np.abs(self.weighted) <= most_weighted).all())
            and np.array_equal(self.precision, self.precision.T)  # a sum of a a', up to rounding
            and np.count_nonzero(inner) == np.count_nonzero(self.precision)
            and not dpotrf(inner + (1e-9 * most + 1e-300) * np.eye(len(held)))[1]
            and self.placed <= self.reports
            and self.squares <= self.reports
            and bool((np.abs(self.marginals) <= _MOST_NATS * self.reports).all())
            and bool((self.tails[:, 1] <= self.tails[:, 0]).all())
            and float(self.tails[:, 0].sum()) <= self.reports
        )
        if not proper:
            raise InvalidInput(
                "statistics had sums that no reports add up to; send them as statistics() made "
                "them."
            )


def reported_shares(
    mechanism: SignedSubsetSelection, cells: IntArray, mass: FloatArray
) -> FloatArray:
    """(C, G) how often each cell is reported, for rows of the grid in cells (C, R) that stand for
    shares of people (R,)."""
    wrong, gain = cell_probabilities(mechanism)
    masses = np.stack([np.bincount(row, mass, minlength=mechanism.bins) for row in cells])
    return wrong + gain * np.maximum(masses, LEAST_MASS)


class Measurements:
    """The vectors a and probabilities P of one policy (see the module).

    | array   | shape  | meaning                                          |
    |---------|--------|--------------------------------------------------|
    | arms    | (R, F) | the arm of each row under every pair of functions|
    | signs   | (R, F) | its sign                                         |
    | cells   | (C, R) | its cell in every partition                      |
    | weights | (R,)   | the share of people that it stands for           |
    | shown   | (C, G) | P, how often each cell is reported               |

    Args:
        policy: of the reports.
        gain: v, where rewards are clipped about the predicted ones.
    """

    def __init__(self, policy: KernelPolicy, gain: float = 1.0) -> None:
        self._policy, self._grid = policy, policy.grid
        self._slope = 1.0 if policy.centres is None else 0.5 * gain / policy.radius
        bins = len(policy.density_bins)
        if len(policy.density) != bins:  # which a device does not look at
            raise InvalidInput(
                f"{policy.title} had a density of {len(policy.density)} bins; its learner has "
                f"{bins}. Load the learner as it was saved."
            )
        phi = self._grid.phi[:, policy.used]
        self._arms = policy.arms_of_rows(phi)
        self._signs = policy.signs_of_all(phi, self._arms)
        self._cells = policy.cells.locate_all(self._grid.points)
        self._weights = self._grid.weights(policy.density)
        self._wrong, self._gain = cell_probabilities(policy.mechanism)
        self.shown = reported_shares(policy.mechanism, self._cells, self._weights)

    def vectors(self, function: IntArray, partition: IntArray, cell: IntArray) -> FloatArray:
        """(U, K M) the vectors a of these combinations, by arm and then by feature."""
        arms, phi = self._policy.arms, self._grid.phi
        which, value, arm, point = self._shares_of(function, partition, cell)
        shape = (len(function) * arms, len(phi))
        integral = csr_array((value, (which * arms + arm, point)), shape=shape) @ phi
        return _rounded(integral).reshape(len(function), arms * phi.shape[1])

    def added(self, function: IntArray, partition: IntArray, cell: IntArray) -> FloatArray:
        """(U,) what is added to t, where rewards are clipped about the predicted ones."""
        if self._policy.centres is None:
            return np.zeros(len(function))
        which, value, arm, point = self._shares_of(function, partition, cell)
        predicted = self._policy.predicted(self._grid.phi[:, self._policy.used])[point, arm]
        added = np.zeros(len(function))
        np.add.at(added, which, value * predicted)
        return _rounded(added)

    def _shares_of(
        self, function: IntArray, partition: IntArray, cell: IntArray
    ) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
        """Of each row in the cells: its combination, signed share of people, arm and point."""
        which, row = np.nonzero(self._cells[partition] == cell[:, None])
        scale = self._slope * self._policy.mechanism.contrast / self.shown[partition, cell]
        value = self._weights[row] * self._signs[row, function[which]] * scale[which]
        return which, value, self._arms[row, function[which]], self._grid.point[row]

    def statistics(self, reports: SignedReports) -> KernelStatistics:
        """What checked reports of the policy add up to."""
        function, partition = self._policy.picked(reports.public_coins)
        cell, sign = reports.places[:, 0], reports.signs[:, 0].astype(np.float64)
        if self._policy.thresholds:
            return self._tails(np.array(self._policy.thresholds)[partition], sign)
        partitions, count = self.shown.shape
        if count == 1:  # all partitions are the same
            partition = np.zeros_like(partition)
        key = (function * partitions + partition) * count + cell
        kinds, place = np.unique(key, return_inverse=True)
        people = np.bincount(place).astype(np.float64)
        totals = np.bincount(place, sign)
        rest = kinds // count
        combined = rest // partitions, rest % partitions, kinds % count
        vectors, added = self.vectors(*combined), self.added(*combined)
        counts = np.zeros(self.shown.shape)
        np.add.at(counts, (partition, cell), 1.0)
        return KernelStatistics(
            precision=(vectors * people[:, None]).T @ vectors,
            weighted=(totals + people * added) @ vectors,
            located=self._located(counts),
            placed=len(reports) if count > 1 else 0,
            squares=float(len(reports)),
            marginals=self._marginals(counts),
            tails=np.zeros((len(REWARD_EDGES), 2)),
            stage=self._policy.stage,
            reports=len(reports),
        )

    def _tails(self, thresholds: FloatArray, sign: FloatArray) -> KernelStatistics:
        """What answers about thresholds (n,) add up to."""
        policy = self._policy
        edge = np.abs(thresholds[:, None] - REWARD_EDGES).argmin(axis=1)
        answers = np.stack([np.ones(len(sign)), sign > 0.0], axis=1)
        tails = np.zeros((len(REWARD_EDGES), 2))
        np.add.at(tails, edge, answers)
        size = policy.arms * len(policy.features), len(policy.density)
        empty = KernelStatistics.zeros(*size, policy.domain.dimension, policy.stage)
        return replace(empty, tails=tails, reports=len(sign))

    def _marginals(self, counts: FloatArray) -> FloatArray:
        """(d, H) the log likelihood of the marginals of columns that people are asked about, from
        how often each cell was reported (C, G)."""
        policy = self._policy
        marginals = np.zeros((policy.domain.dimension, len(MARGINALS)))
        if policy.ranks.asked.size:
            middles = (np.arange(BINS)[:, None] + 0.5) / BINS
            parts = policy.cells.locate_all(np.tile(middles, len(marginals)))
            log_shown = _rounded(np.log(reported_parts(parts, policy.mechanism)))
            marginals[policy.cells.axis[:, 0]] = np.einsum("chg,cg->ch", log_shown, counts)
        return marginals

    def _located(self, counts: FloatArray) -> FloatArray:
        """(Z,) how many of these people are likely to be in each bin (density.py)."""
        density, rows = self._policy.density, self._grid.bins
        bins = len(density)
        if self._policy.cells.count == 1:
            return np.zeros(bins)
        per_cell = counts / self.shown
        factor = self._wrong * per_cell.sum() + self._gain * np.take_along_axis(
            per_cell, self._cells, axis=1
        ).sum(axis=0)
        points = np.bincount(rows, minlength=bins)
        mean = np.bincount(rows, factor, minlength=bins) / np.maximum(points, 1)
        # Bins without a point this time stay what they were.
        located: FloatArray = density * np.where(points > 0, mean, counts.sum()) / bins
        located *= self._grid.volume
        return located


def open_statistics(policy: OpenKernelPolicy, observations: Observations) -> KernelStatistics:
    """What reports as they are add up to: t = 2 r - 1 measures phi(x) on the arm given."""
    ranks = policy.ranks(observations.contexts)
    phi = _rounded(policy.features(ranks))
    values = _rounded(2.0 * observations.rewards - 1.0)
    size = phi.shape[1]
    bins_of = policy.density_bins
    columns, stage = policy.domain.dimension, policy.ranks.stage
    sums = KernelStatistics.zeros(policy.arms * size, len(bins_of), columns, stage)
    for column in policy.ranks.asked:
        counts = np.histogram(ranks[:, column], BINS, (0.0, 1.0))[0]
        sums.marginals[column] = _rounded(np.log(MARGINALS)) @ counts
    for arm in range(policy.arms):
        given = observations.arms == arm
        block = slice(arm * size, (arm + 1) * size)
        sums.precision[block, block] = phi[given].T @ phi[given]
        sums.weighted[block] = values[given] @ phi[given]
    bins = bins_of.of(policy.features.placed(ranks))
    located = np.bincount(bins, minlength=len(sums.located)).astype(np.float64)
    people = len(observations)
    squares = float(values @ values)
    return replace(sums, located=located, placed=people, squares=squares, reports=people)


def _rounded(numbers: FloatArray) -> FloatArray:
    """On the grid on which sums are exact."""
    return np.round(numbers / _GRID) * _GRID


FUNCTIONS, PARTITIONS = 32, 8
# Candidates: FUNCTIONS times the mean, as many draws from the posterior with these factors in turn,
# and as many that let a rival win by these margins, in deviations.
_FACTORS, _MARGINS = (0.3, 0.6, 1.0, 1.5), (0.1, 0.5, 1.0)
_CANDIDATES, _CONTRASTS = 3 * FUNCTIONS, 96
_STEPS = 2
# Candidates are judged at the first points of a grid, which fill the domain evenly too.
_POINTS = 192
_IMPORTANCE = 0.9
# Largest absolute coefficient of a sign function, whose size says nothing.
_DIRECTION_SIZE = 4.0
CELL_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)

Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class QueryDesign:
    """Coefficients of functions, in units of 2^-20.

    Attributes:
        values: (F, K, m) of arm functions; for sources there are none.
        directions: (F, K, m) of sign functions.
        worth: mean gain less cost of a report.
    """

    values: Coefficients
    directions: Coefficients
    worth: float


@dataclass(frozen=True, eq=False)
class ResponseModel:
    """How reports are cut into cells and hidden.

    Attributes:
        cells: (P, Q) the cell of each point in every partition; for a source (P, Q K).
        weights: (P, G) contrast^2 / P_j, by which squares of integrals over cells count.
    """

    cells: IntArray
    weights: FloatArray

    @classmethod
    def of(
        cls, cells: Cells, mechanism: SignedSubsetSelection, points: FloatArray, mass: FloatArray
    ) -> ResponseModel:
        """For points (Q, c) with shares of people (Q,)."""
        located = cells.locate_all(points)
        shown = reported_shares(mechanism, located, mass)
        return cls(located, mechanism.contrast**2 / shown)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Candidate arm functions, of which the best are used.

    Attributes:
        values: (K m, C) coefficients.
        cost: (C,) expected regret.
        local: (N, R) of the pairs of a point and an arm that some candidate gives.
        given: (N, C) the share of people that has both, where a candidate gives that arm; else 0.
        point: (N,) the point of each pair.
        spread: (N,) the variance of 2 f - 1 there.
    """

    values: FloatArray
    cost: FloatArray
    local: Singles
    given: Singles
    point: IntArray
    spread: FloatArray

    def worth_most(self, gain: FloatArray) -> IntArray:
        """(F,) the candidates whose gain (C,) exceeds their cost by most."""
        return np.argsort(self.cost - gain, kind="stable")[:FUNCTIONS]


class _Responses:
    """How reports of candidates, as in `_Candidates`, covary with the contrasts."""

    def __init__(
        self, local: Singles, given: Singles, response: ResponseModel, point: IntArray
    ) -> None:
        self._local, self._given = local, given
        partitions, self._count = response.weights.shape
        of_candidate = np.arange(given.shape[1]) % partitions
        self._weights = response.weights[of_candidate].astype(np.float32)  # (C, G)
        if self._count == 1:
            return
        # Which pairs a cell of a candidate holds, (C G, N), and where among `given` each is.
        row, candidate = np.nonzero(given)
        cell = response.cells[of_candidate[candidate], point[row]]
        place = row * given.shape[1] + candidate
        shape = (given.shape[1] * self._count, len(given))
        self._cells = csr_array((place, (candidate * self._count + cell, row)), shape=shape)

    def of(self, directions: Singles) -> tuple[Singles, Singles]:
        """Alignments of the sign functions covariances @ directions (R, C), and their expected
        squares summed over cells, both (R, C)."""
        signed = np.copysign(self._given, self._local @ directions)
        alignments = self._local.T @ signed
        if self._count == 1:
            return alignments, alignments**2 * self._weights[:, 0]
        held = self._cells
        of_cells = csr_array((signed.take(held.data), held.indices, held.indptr), held.shape)
        parts = (of_cells @ self._local).reshape(signed.shape[1], self._count, -1)
        return alignments, np.einsum("cgr,cg->rc", parts**2, self._weights)


@dataclass(frozen=True, eq=False)
class DecisionContrasts:
    """Contrasts of arms at points where the decision is uncertain (see the module).

    Attributes:
        posterior: of the coefficients.
        phi: (Q, m) features of points.
        mass: (Q,) shares of people.
        weights: (Q,) how much each point matters; they add up to 1.
        drawn: (K m, C) deviations of functions from the mean, drawn from the posterior.
        gaps: (K, Q) how far each arm is behind the best mean, of 2 f - 1.
        spread: (K, Q) the variance of 2 f - 1.
        margin: (R,) z of each contrast.
        covariances: (K m, R) (see the module's table).
        total: T.
    """

    posterior: PosteriorMixture
    phi: Singles
    mass: FloatArray
    weights: FloatArray
    drawn: Singles
    gaps: FloatArray
    spread: FloatArray
    margin: FloatArray
    covariances: Singles
    total: float

    @classmethod
    def of(
        cls,
        posterior: PosteriorMixture,
        phi: FloatArray,
        mass: FloatArray,
        rng: np.random.Generator,
    ) -> DecisionContrasts:
        """For points with features (Q, m) and shares of people (Q,)."""
        arms, size = posterior.mean.shape
        points = np.arange(len(phi))
        singles = phi.astype(np.float32)
        drawn = posterior.draws(_CANDIDATES, rng).astype(np.float32)
        fields = singles @ drawn.reshape(arms, size, -1)  # (K, Q, C)
        spread = np.einsum("kqc,kqc->kq", fields, fields).astype(np.float64) / _CANDIDATES
        means = posterior.mean @ phi.T
        best = means.argmax(axis=0)
        gaps = means[best, points] - means
        fields = fields[best, points] - fields
        variance = np.einsum("kqc,kqc->kq", fields, fields).astype(np.float64) / _CANDIDATES
        deviation = np.sqrt(np.maximum(variance, 1e-18))
        # w s^2, with a floor under which nothing is at stake anywhere.
        stake = mass * deviation * np.maximum(np.exp(-0.5 * (gaps / deviation) ** 2), 1e-200)
        stake[best, points] = 0.0
        whole = float(np.cumsum(stake)[-1])
        rival, point = np.divmod(resampled(stake, _CONTRASTS, rng), len(phi))
        scale = 1.0 / (deviation[rival, point] * math.sqrt(_CONTRASTS))
        vectors = np.zeros((arms, size, _CONTRASTS))
        vectors[best[point], :, np.arange(_CONTRASTS)] = phi[point] * scale[:, None]
        vectors[rival, :, np.arange(_CONTRASTS)] -= phi[point] * scale[:, None]
        covariances = posterior.covariance_times(vectors.reshape(-1, _CONTRASTS))
        importance = stake.sum(axis=0) / whole
        return cls(
            posterior=posterior,
            phi=singles,
            mass=mass,
            weights=_IMPORTANCE * importance + (1.0 - _IMPORTANCE) * mass,
            drawn=drawn,
            gaps=gaps,
            spread=spread,
            margin=gaps[rival, point] / deviation[rival, point],
            covariances=covariances.astype(np.float32),
            # Of f, which is half of 2 f - 1.
            total=0.5 * whole / math.sqrt(8.0 * math.pi),
        )

    @cached_property
    def deviation(self) -> float:
        """The root mean square deviation of 2 f - 1 where people are, on the arms that are best in
        draws from the posterior."""
        arms, size = self.posterior.mean.shape
        drawn = self.phi @ self.drawn.reshape(arms, size, -1) - self.gaps[..., None]
        best, points = drawn.argmax(axis=0), np.arange(len(self.phi))
        variance = self.spread[best, points[:, None]].mean(axis=1)
        return math.sqrt(float(self.mass @ variance) / float(self.mass.sum()))

    def _candidates(self, rng: np.random.Generator) -> Singles:
        """Deviations of arm functions from the mean (K m, C); the first F are none."""
        moved = np.zeros_like(self.drawn)
        draws = slice(FUNCTIONS, 2 * FUNCTIONS)
        moved[:, draws] = self.drawn[:, draws] * np.resize(_FACTORS, FUNCTIONS).astype(np.float32)
        contrasts = rng.integers(_CONTRASTS, size=FUNCTIONS)
        # The likeliest change with which the gap of contrast i falls by y s_i is - S u_i y / s_i.
        wins = (self.margin[contrasts] + np.resize(_MARGINS, FUNCTIONS)) * math.sqrt(_CONTRASTS)
        moved[:, 2 * FUNCTIONS :] = self.covariances[:, contrasts] * -wins.astype(np.float32)
        return moved

    def design(self, response: ResponseModel, left: float, rng: np.random.Generator) -> QueryDesign:
        """The pairs of functions that are worth most when `left` people are still to come."""
        arms, size = self.posterior.mean.shape
        tried = self.tried(rng)
        responses = _Responses(tried.local, tried.given, response, tried.point)
        squares, directions = self._directions(responses, rng)
        gain = self._gain(squares, left)
        best = tried.worth_most(gain)
        return QueryDesign(
            values=whole_coefficients(tried.values[:, best].T.reshape(FUNCTIONS, arms, size)),
            directions=self._coefficients(directions[:, best]),
            worth=float((gain - tried.cost)[best].mean()),
        )

    def open_functions(self, noise: float, left: float, rng: np.random.Generator) -> Coefficients:
        """(F, K, m) the arm functions worth most where people report openly, with this variance of
        t given the context: then a report lowers the variance of contrast i by the share
        (a' S u_i)^2 / s_i^2 / (noise + a' S a)."""
        arms, size = self.posterior.mean.shape
        tried = self.tried(rng)
        squares = (tried.local**2 / (noise + tried.spread[:, None])).T @ tried.given
        best = tried.worth_most(self._gain(squares, left))
        return whole_coefficients(tried.values[:, best].T.reshape(FUNCTIONS, arms, size))

    def tried(self, rng: np.random.Generator) -> _Candidates:
        """The candidates at the first points."""
        arms, size = self.posterior.mean.shape
        values = self.posterior.mean.reshape(-1, 1) + self._candidates(rng)
        phi = self.phi[:_POINTS]
        share = self.mass[: len(phi)] / self.mass[: len(phi)].sum()
        chosen = (phi @ values.astype(np.float32).reshape(arms, size, -1)).argmax(axis=0)
        given = np.equal(chosen, np.arange(arms)[:, None, None]) * share[:, None].astype(np.float32)
        cost = 0.5 * np.einsum("kqc,kq->c", given, self.gaps[:, : len(phi)])
        local = (phi @ self.covariances.reshape(arms, size, -1)).reshape(-1, _CONTRASTS)
        given = given.reshape(-1, _CANDIDATES)
        rows = np.flatnonzero(given.any(axis=1))
        spread = self.spread[:, : len(phi)].reshape(-1)
        return _Candidates(values, cost, local[rows], given[rows], rows % len(phi), spread[rows])

    def _gain(self, squares: Singles | FloatArray, left: float) -> FloatArray:
        """(C,) what a report of each candidate is worth (see the module), from its r / R (R, C)."""
        free = _CONTRASTS * squares[:, :FUNCTIONS].mean(axis=1)
        gain: FloatArray = self.total * ((left / (1.0 + left * free)) @ squares)
        return gain

    def source_design(
        self, response: ResponseModel, shares: FloatArray, rng: np.random.Generator
    ) -> QueryDesign:
        """Sign functions for people whose arm was chosen before, with shares (Q, K)."""
        arms, size = self.posterior.mean.shape
        local = self.phi @ self.covariances.reshape(arms, size, -1)  # (K, Q, R)
        local = local.transpose(1, 0, 2).reshape(-1, _CONTRASTS)
        given = np.repeat(shares.reshape(-1, 1).astype(np.float32), FUNCTIONS, axis=1)
        responses = _Responses(local, given, response, np.arange(len(local)))
        directions = rng.standard_normal((_CONTRASTS, FUNCTIONS), dtype=np.float32)
        _, squares = responses.of(directions)
        return QueryDesign(
            values=np.zeros((0, arms, size), dtype=np.int32),
            directions=self._coefficients(directions),
            worth=self.total * float(squares.sum(axis=0).mean()),
        )

    def _directions(
        self, responses: _Responses, rng: np.random.Generator
    ) -> tuple[Singles, Singles]:
        """Expected squares and sign functions of candidates, both (R, C)."""
        directions = rng.standard_normal((_CONTRASTS, _CANDIDATES), dtype=np.float32)
        alignments, squares = responses.of(directions)
        for _ in range(_STEPS):
            other_alignments, other_squares = responses.of(alignments)
            better = other_squares.sum(axis=0) > squares.sum(axis=0)
            directions = np.where(better, alignments, directions)
            alignments = np.where(better, other_alignments, alignments)
            squares = np.where(better, other_squares, squares)
        return squares, directions

    def _coefficients(self, directions: Singles) -> Coefficients:
        """(F, K, m) of the sign functions covariances @ directions."""
        arms, size = self.posterior.mean.shape
        delta = (self.covariances @ directions).T.astype(np.float64)
        largest = np.maximum(np.abs(delta).max(axis=1, keepdims=True), 1e-300)
        scaled = whole_coefficients(delta * (_DIRECTION_SIZE / largest))
        return scaled.reshape(-1, arms, size)


def most_cells(epsilon: float) -> int:
    """Beyond 1.5 times the number with the largest mutual information, more never pay."""
    usual = 0.5 * math.exp(min(epsilon, 20.0))
    return min(MOST_CELLS, max(1, int(1.5 * max(1.0, math.floor(usual)))))


# Cells are cut anew once in this many policies; their number is chosen when people have grown by
# this factor. Beyond `_LATER` people it changes by one step at a time.
CELLS_EVERY, _MORE = 4, 1.3
_LATER = 3000


def many_more(before: int, now: int) -> bool:
    """Whether the number of people passed a power of 1.3 in between.

    Slow computations from all reports are repeated then, however small batches are.
    """
    return now > 0 and (before == 0 or _power_below(before) < _power_below(now))


def _power_below(people: int) -> int:
    return math.floor(math.log(people) / math.log(_MORE))


def next_cells(
    before: Sequence[KernelPolicy],
    people: tuple[int, int],
    counts: Sequence[int],
    cut: Callable[[int], Cells],
    design: Callable[[Cells], QueryDesign],
) -> Cells:
    """The cells of the next policy, mostly those of the last one.

    When it is time, cells in the number whose design is worth most.

    Args:
        before: the policies so far.
        people: the number of reports when the last of them was made, and now.
        counts: the numbers of cells that are allowed, increasing.
        cut: makes a number of cells.
        design: the query design of the next policy with given cells.
    """
    if before and not many_more(*people):
        return before[-1].cells if len(before) % CELLS_EVERY else cut(before[-1].cells.count)
    if before and people[1] > _LATER and before[-1].cells.count in counts:
        at = counts.index(before[-1].cells.count)
        counts = counts[max(at - 1, 0) : at + 2]  # the neighbours of the present number
    if len(counts) == 1:
        return cut(counts[0])
    worth = [design(cut(count)).worth for count in counts]
    # Cut anew: the very cells that looked best did so by chance.
    return cut(counts[int(np.argmax(worth))])
