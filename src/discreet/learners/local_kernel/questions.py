"""What the next people are asked: that which teaches most for what it costs.

A question is a pair of an *arm function*, by which people get their arms, and a *sign function*,
whose values their reports are about. Candidates are drawn, and those are asked whose gain exceeds
their cost by most.

*Stakes.* Where the arm that seems best leads a rival by a gap with mean D and deviation s, the
expected loss of giving the former is s (phi(z) - z Phi(-z)), z = D / s. It falls with the variance
of the gap at the rate w = phi(z) / (2 s). R stakes, pairs of a point and a rival, are drawn evenly
by w s^2 times the share of people there; with the contrast u_i = phi(x) (e_best - e_rival) of stake
i each stands for the same part T / R of the whole T = sum w s^2.

*Gain.* One report with the vector a (measurement.py) lowers the variance of stake i by
(a' S u_i)^2, the share r_i = (a' S u_i)^2 / s_i^2 of it. Everyone who still comes loses less for
that, unless they would have learnt the same for nothing: if those who get the arm that seems best
lower it by the share f_i a report, what is learnt now makes a difference for the next

    h_i = left / (1 + left f_i)

people. The gain is T / R sum r_i h_i; with cells it is summed over them by how often each is
reported. The cost is the expected regret of the arm function.

*Candidates.* Arm functions are the mean plus draws from the posterior times a factor, or plus the
likeliest change with which the rival of a stake wins by a margin. Sign functions are linear
combinations of S u_i: first random ones, drawn from N(0, S P S) for P = sum u_i u_i' / s_i^2, then
twice the one along which the gain of the report rises most, S sum u_i (a' S u_i) / s_i^2.

*Cells* hold equal weight. With more of them a report says more precisely where something was seen,
and more rarely the truth. Their number is the one whose questions are worth most.

| array | shape     | meaning                                                             |
|-------|-----------|---------------------------------------------------------------------|
| known | (K m, R)  | S u_i / s_i / sqrt(R)                                               |
| tells | (N, R)    | phi(x) e_k' known at each of N pairs of a point and an arm           |
| aims  | (R, C)    | a' known for each candidate, so that r_i = R aims_i^2                |

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
stakes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet.learners.local_kernel.cells import MOST_CELLS, Cells
from discreet.learners.local_kernel.features import round_coefficients
from discreet.learners.local_kernel.measurement import reported_shares
from discreet.learners.local_kernel.policy import KernelOffer
from discreet.learners.local_kernel.posterior import MixedPosterior
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, IntArray

FUNCTIONS, PARTITIONS = 32, 8
# Candidates: FUNCTIONS times the mean, as many draws from the posterior with these factors in turn,
# and as many that let a rival win by these margins, in deviations.
_FACTORS, _MARGINS = (0.3, 0.6, 1.0, 1.5), (0.1, 0.5, 1.0)
_CANDIDATES, _STAKES = 3 * FUNCTIONS, 96
_STEPS = 2
# Candidates are judged at the first points of a grid, which fill the domain evenly too.
_POINTS = 192
_IMPORTANCE = 0.9
# Largest absolute coefficient of a sign function, whose size says nothing.
_DIRECTION_SIZE = 4.0
CELL_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)

Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Questions:
    """Coefficients of functions.

    Attributes:
        values: (F, K, m) of arm functions; for sources there are none.
        directions: (F, K, m) of sign functions.
        worth: mean gain less cost of a report.
    """

    values: FloatArray
    directions: FloatArray
    worth: float


@dataclass(frozen=True, eq=False)
class Hearing:
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
    ) -> Hearing:
        """For points (Q, c) with shares of people (Q,)."""
        located = cells.locate_all(points)
        shown = reported_shares(mechanism, located, mass)
        return cls(located, mechanism.contrast**2 / shown)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Arm functions among which those worth most are asked.

    Attributes:
        values: (K m, C) coefficients.
        cost: (C,) expected regret.
        tells: (N, R) of the pairs of a point and an arm that some candidate gives.
        given: (N, C) the share of people that has both, where a candidate gives that arm; else 0.
        point: (N,) the point of each pair.
        spread: (N,) the variance of 2 f - 1 there.
    """

    values: FloatArray
    cost: FloatArray
    tells: Singles
    given: Singles
    point: IntArray
    spread: FloatArray

    def worth_most(self, gain: FloatArray) -> IntArray:
        """(F,) the candidates whose gain (C,) exceeds their cost by most."""
        best: IntArray = np.argsort(self.cost - gain, kind="stable")[:FUNCTIONS]
        return best


class _Answers:
    """What reports of candidates, as in `_Candidates`, have to do with the stakes."""

    def __init__(self, tells: Singles, given: Singles, hearing: Hearing, point: IntArray) -> None:
        self._tells, self._given = tells, given
        partitions, self._count = hearing.weights.shape
        of_candidate = np.arange(given.shape[1]) % partitions
        self._weights = hearing.weights[of_candidate].astype(np.float32)  # (C, G)
        if self._count == 1:
            return
        # Which pairs a cell of a candidate holds, (C G, N), and where among `given` each is.
        row, candidate = np.nonzero(given)
        cell = hearing.cells[of_candidate[candidate], point[row]]
        place = row * given.shape[1] + candidate
        shape = (given.shape[1] * self._count, len(given))
        self._cells = csr_array((place, (candidate * self._count + cell, row)), shape=shape)

    def of(self, directions: Singles) -> tuple[Singles, Singles]:
        """For sign functions known @ directions (R, C): what the whole report has to do with the
        stakes, and the expected squares summed over cells, both (R, C)."""
        signed = np.copysign(self._given, self._tells @ directions)
        aims = self._tells.T @ signed
        if self._count == 1:
            return aims, aims**2 * self._weights[:, 0]
        held = self._cells
        of_cells = csr_array((signed.take(held.data), held.indices, held.indptr), held.shape)
        parts = (of_cells @ self._tells).reshape(signed.shape[1], self._count, -1)
        return aims, np.einsum("cgr,cg->rc", parts**2, self._weights)


@dataclass(frozen=True, eq=False)
class Stakes:
    """What is at stake, and where (see the module).

    Attributes:
        posterior: the belief it follows from.
        phi: (Q, m) features of points.
        mass: (Q,) shares of people.
        weights: (Q,) how much each point matters; they add up to 1.
        drawn: (K m, C) deviations of functions from the mean, drawn from the posterior.
        gaps: (K, Q) how far each arm is behind the best mean, of 2 f - 1.
        spread: (K, Q) the variance of 2 f - 1.
        margin: (R,) z of each stake.
        known: (K m, R) (see the module's table).
        total: T.
    """

    posterior: MixedPosterior
    phi: Singles
    mass: FloatArray
    weights: FloatArray
    drawn: Singles
    gaps: FloatArray
    spread: FloatArray
    margin: FloatArray
    known: Singles
    total: float

    @classmethod
    def of(
        cls,
        posterior: MixedPosterior,
        phi: FloatArray,
        mass: FloatArray,
        rng: np.random.Generator,
    ) -> Stakes:
        """For points with features (Q, m) and shares of people (Q,)."""
        arms, size = posterior.mean.shape
        points = np.arange(len(phi))
        singles = phi.astype(np.float32)
        drawn = posterior.draws(_CANDIDATES, rng).astype(np.float32)
        fields = singles @ drawn.reshape(arms, size, -1)  # (K, Q, C)
        spread = np.einsum("kqc,kqc->kq", fields, fields, dtype=np.float64) / _CANDIDATES
        means = posterior.mean @ phi.T
        best = means.argmax(axis=0)
        gaps = means[best, points] - means
        fields = fields[best, points] - fields
        variance = np.einsum("kqc,kqc->kq", fields, fields, dtype=np.float64) / _CANDIDATES
        deviation = np.sqrt(np.maximum(variance, 1e-18))
        # w s^2, with a floor under which nothing is at stake anywhere.
        stake = mass * deviation * np.maximum(np.exp(-0.5 * (gaps / deviation) ** 2), 1e-200)
        stake[best, points] = 0.0
        ends = np.cumsum(stake)
        at = np.searchsorted(ends, (np.arange(_STAKES) + rng.random()) * (ends[-1] / _STAKES))
        rival, point = np.divmod(np.minimum(at, stake.size - 1), len(phi))
        scale = 1.0 / (deviation[rival, point] * math.sqrt(_STAKES))
        contrasts = np.zeros((_STAKES, arms, size))
        contrasts[np.arange(_STAKES), best[point]] = phi[point] * scale[:, None]
        contrasts[np.arange(_STAKES), rival] -= phi[point] * scale[:, None]
        known = posterior.covariance_times(contrasts.reshape(_STAKES, -1).T)
        importance = stake.sum(axis=0) / ends[-1]
        return cls(
            posterior=posterior,
            phi=singles,
            mass=mass,
            weights=_IMPORTANCE * importance + (1.0 - _IMPORTANCE) * mass,
            drawn=drawn,
            gaps=gaps,
            spread=spread,
            margin=gaps[rival, point] / deviation[rival, point],
            known=known.astype(np.float32),
            # Of f, which is half of 2 f - 1.
            total=0.5 * float(ends[-1]) / math.sqrt(8.0 * math.pi),
        )

    def _candidates(self, rng: np.random.Generator) -> Singles:
        """Deviations of arm functions from the mean (K m, C); the first F are none."""
        moved = np.zeros_like(self.drawn)
        draws = slice(FUNCTIONS, 2 * FUNCTIONS)
        moved[:, draws] = self.drawn[:, draws] * np.resize(_FACTORS, FUNCTIONS).astype(np.float32)
        stakes = rng.integers(_STAKES, size=FUNCTIONS)
        # The likeliest change with which the gap of stake i falls by y s_i is - S u_i y / s_i.
        wins = (self.margin[stakes] + np.resize(_MARGINS, FUNCTIONS)) * math.sqrt(_STAKES)
        moved[:, 2 * FUNCTIONS :] = self.known[:, stakes] * -wins.astype(np.float32)
        return moved

    def questions(self, hearing: Hearing, left: float, rng: np.random.Generator) -> Questions:
        """The pairs of functions that are worth most when so many people still come."""
        arms, size = self.posterior.mean.shape
        tried = self._tried(rng)
        answers = _Answers(tried.tells, tried.given, hearing, tried.point)
        squares, directions = self._directions(answers, rng)
        gain = self._gain(squares, left)
        best = tried.worth_most(gain)
        return Questions(
            values=round_coefficients(tried.values[:, best].T.reshape(FUNCTIONS, arms, size)),
            directions=self._coefficients(directions[:, best]),
            worth=float((gain - tried.cost)[best].mean()),
        )

    def open_functions(self, noise: float, left: float, rng: np.random.Generator) -> FloatArray:
        """(F, K, m) the arm functions worth most where people report openly, with this variance of
        t given the context: then a report lowers the variance of stake i by the share
        (a' S u_i)^2 / s_i^2 / (noise + a' S a)."""
        arms, size = self.posterior.mean.shape
        tried = self._tried(rng)
        squares = (tried.tells**2 / (noise + tried.spread[:, None])).T @ tried.given
        best = tried.worth_most(self._gain(squares, left))
        return round_coefficients(tried.values[:, best].T.reshape(FUNCTIONS, arms, size))

    def _tried(self, rng: np.random.Generator) -> _Candidates:
        """The candidates at the first points."""
        arms, size = self.posterior.mean.shape
        values = self.posterior.mean.reshape(-1, 1) + self._candidates(rng)
        phi = self.phi[:_POINTS]
        share = self.mass[: len(phi)] / self.mass[: len(phi)].sum()
        chosen = (phi @ values.astype(np.float32).reshape(arms, size, -1)).argmax(axis=0)
        given = np.equal(chosen, np.arange(arms)[:, None, None]) * share[:, None].astype(np.float32)
        cost = 0.5 * np.einsum("kqc,kq->c", given, self.gaps[:, : len(phi)])
        tells = (phi @ self.known.reshape(arms, size, -1)).reshape(-1, _STAKES)
        given = given.reshape(-1, _CANDIDATES)
        rows = np.flatnonzero(given.any(axis=1))
        spread = self.spread[:, : len(phi)].reshape(-1)
        return _Candidates(values, cost, tells[rows], given[rows], rows % len(phi), spread[rows])

    def _gain(self, squares: Singles | FloatArray, left: float) -> FloatArray:
        """(C,) what a report of each candidate is worth (see the module), from its r / R (R, C)."""
        free = _STAKES * squares[:, :FUNCTIONS].mean(axis=1)
        gain: FloatArray = self.total * ((left / (1.0 + left * free)) @ squares)
        return gain

    def source_questions(
        self, hearing: Hearing, shares: FloatArray, rng: np.random.Generator
    ) -> Questions:
        """Sign functions for people whose arm was chosen before, with shares (Q, K)."""
        arms, size = self.posterior.mean.shape
        tells = self.phi @ self.known.reshape(arms, size, -1)  # (K, Q, R)
        tells = tells.transpose(1, 0, 2).reshape(-1, _STAKES)
        given = np.repeat(shares.reshape(-1, 1).astype(np.float32), FUNCTIONS, axis=1)
        answers = _Answers(tells, given, hearing, np.arange(len(tells)))
        directions = rng.standard_normal((_STAKES, FUNCTIONS), dtype=np.float32)
        _, squares = answers.of(directions)
        return Questions(
            values=np.zeros((0, arms, size)),
            directions=self._coefficients(directions),
            worth=self.total * float(squares.sum(axis=0).mean()),
        )

    def _directions(self, answers: _Answers, rng: np.random.Generator) -> tuple[Singles, Singles]:
        """Expected squares and sign functions of candidates, both (R, C)."""
        directions = rng.standard_normal((_STAKES, _CANDIDATES), dtype=np.float32)
        aims, squares = answers.of(directions)
        for _ in range(_STEPS):
            other_aims, other_squares = answers.of(aims)
            better = other_squares.sum(axis=0) > squares.sum(axis=0)
            directions = np.where(better, aims, directions)
            aims = np.where(better, other_aims, aims)
            squares = np.where(better, other_squares, squares)
        return squares, directions

    def _coefficients(self, directions: Singles) -> FloatArray:
        """(F, K, m) of the sign functions known @ directions."""
        arms, size = self.posterior.mean.shape
        delta = (self.known @ directions).T.astype(np.float64)
        largest = np.maximum(np.abs(delta).max(axis=1, keepdims=True), 1e-300)
        scaled = round_coefficients(delta * (_DIRECTION_SIZE / largest))
        return scaled.reshape(-1, arms, size)


def most_cells(epsilon: float) -> int:
    """Beyond 1.5 times the number with the largest mutual information, more never pay."""
    usual = 0.5 * math.exp(min(epsilon, 20.0))
    return min(MOST_CELLS, max(1, int(1.5 * max(1.0, math.floor(usual)))))


# Cells are cut anew for every so many policies, into a number that is chosen whenever people are
# more by this factor. Beyond so many people it changes by a step at a time.
CELLS_EVERY, _MORE = 4, 1.3
_LATER = 3000


def many_more(before: int, now: int) -> bool:
    """Whether the number of people passed a power of 1.3 in between: what follows from all reports
    and takes long is worked out anew then, however small batches are."""
    return now > 0 and (before == 0 or _power_below(before) < _power_below(now))


def _power_below(people: int) -> int:
    return math.floor(math.log(people) / math.log(_MORE))


def next_cells(
    before: Sequence[KernelOffer],
    people: tuple[int, int],
    counts: Sequence[int],
    cut: Callable[[int], Cells],
    ask: Callable[[Cells], Questions],
) -> Cells:
    """The cells of the next policy, those of the last one most of the time.

    When it is time, cells in the number whose questions are worth most.

    Args:
        before: the policies so far.
        people: how many had reported when the last of them was made, and how many have by now.
        counts: the numbers of cells that are allowed, increasing.
        cut: makes so many cells.
        ask: makes the questions of the next policy, with the cells that it is given.
    """
    if before and not many_more(*people):
        return before[-1].cells if len(before) % CELLS_EVERY else cut(before[-1].cells.count)
    if before and people[1] > _LATER and before[-1].cells.count in counts:
        at = counts.index(before[-1].cells.count)
        counts = counts[max(at - 1, 0) : at + 2]  # the neighbours of the present number
    if len(counts) == 1:
        return cut(counts[0])
    worth = [ask(cut(count)).worth for count in counts]
    # Cut anew: the very cells that looked best did so by chance.
    return cut(counts[int(np.argmax(worth))])
