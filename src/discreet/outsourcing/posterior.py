"""What a modeler assumes about the outcomes, and what it believes after answers.

**Prior.** f(x) ~ GP(mean, variance k), answers y = f(x) + N(0, noise). The modeler does not know
the rows x, only a normal belief x_i ~ N(m_i, diag s_i^2) about each, so what it models is the
outcome of row i, f(x_i), with f and x_i both unknown. For i != j its covariance is the expectation
of the kernel: with the squared exponential, length scales l_k and t_k^2 = l_k^2 + s_ik^2 + s_jk^2,

    cov(f(x_i), f(x_j)) = variance prod_k (l_k / t_k) exp(-(m_ik - m_jk)^2 / (2 t_k^2)),

and cov(f(x_i), f(x_i)) = variance, because a row is where it is. If all s_ik = s this is
c exp(-D^2 / (2 (l^2 + 2 s^2))) with c = (l^2 / (l^2 + 2 s^2))^(r/2), and 1 - c more on the
diagonal. An inner product of mean embeddings plus a non-negative diagonal is positive definite.

A Matern kernel is a mixture of squared exponentials whose squared length scale has a Gamma
distribution, k_nu(D) = E exp(-D^2 / (2 u)), u ~ Gamma(nu, rate nu / l^2): by Gauss-Laguerre
quadrature it becomes a sum of a few of the terms above.

**Posterior** over all rows, one question at a time (Rasmussen and Williams 2006, ch. 2). Kept is
V = L^-1 K(asked, all), L the Cholesky factor of K(asked, asked) + noise I. A further row of V costs
n t, and rows that were written never change, so n = 36,000 rows and 50 questions take about a
second. A question that waits for its answer already lowers the variance, which does not depend on
answers; its answer then only moves the mean.

**Learning.** Length scales, variances and the mean come from the log marginal likelihood of the
answers (eq. 5.8) under this covariance, which knows how uncertain the rows are, plus weak
log-normal beliefs about the parameters that keep a handful of answers from leading to absurd ones.
The gradient is exact; several starts guard against local optima. The mean is the generalised least
squares estimate.

| array    | shape    | meaning                                                  | symbol |
|----------|----------|----------------------------------------------------------|--------|
| table    | (T, n)   | whitened covariances with all rows                       | V      |
| white    | (T,)     | whitened answers, of those that came                     | w      |
| mean     | (n,)     | posterior mean of every row's outcome                    |        |
| variance | (n,)     | its posterior variance, questions included               |        |
| theta    | (p,)     | log length scales, log variance, log own noise           |        |
| gaps     | (t, t, r)| squared distances of asked rows, column by column        |        |
| unsure   | (t, t, r)| sums of their variances; 0 for a row with itself         |        |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Annotated, Literal

import numpy as np

from discreet.codec import Range, Serializable
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.validation import FloatArray, IntArray, InvalidInput

Family = Literal["rbf", "matern32", "matern52"]
SMOOTHNESS: dict[str, float] = {"matern32": 1.5, "matern52": 2.5}
FAMILIES: tuple[Family, ...] = ("rbf", "matern32", "matern52")
# The error of the mixture is below 0.01 at every distance (tests).
_MIXTURE = 12
# Shares of a mixture below this add nothing.
_NEGLIGIBLE = 1e-6
# Beliefs about log parameters, (centre, deviation): a length scale of half the spread of a column,
# a variance as that of the answers, of which a twentieth is noise.
_SCALE, _VARIANCE, _NOISE = (math.log(0.5), 1.0), (0.0, 1.0), (math.log(0.05), 2.0)
_STARTS = (0.0, -1.2, 1.0)
_LIMIT = 6.0
# With more columns than this one length scale is learnt for all: answers are few.
MOST_SEPARATE = 6
# The table grows by blocks of this many questions, so that growing copies nothing.
_BLOCK = 16


@cache
def mixture_of(family: Family) -> tuple[tuple[float, float], ...]:
    """(weight, factor) of the squared exponentials, with squared length scales factor l^2, of which
    a kernel is a mixture."""
    if family == "rbf":
        return ((1.0, 1.0),)
    from scipy.special import roots_genlaguerre

    nu = SMOOTHNESS[family]
    nodes, weights = roots_genlaguerre(_MIXTURE, nu - 1.0)
    shares = weights / weights.sum()
    kept = shares > _NEGLIGIBLE
    shares = shares[kept] / shares[kept].sum()
    return tuple(zip(shares.tolist(), (nodes[kept] / nu).tolist(), strict=True))


@dataclass(frozen=True)
class RowPrior(Serializable):
    """A Gaussian process over rows that are known up to noise (see the module).

    Attributes:
        length_scale: one for all columns, or one for each, in the units of the release.
        variance: of f at any row.
        noise: variance of an answer around f.
        mean: of f.
        family: `rbf` (squared exponential), `matern32` or `matern52`.
    """

    length_scale: Annotated[float | tuple[float, ...], Range(above=0.0)]
    variance: Annotated[float, Range(above=0.0)] = 1.0
    noise: Annotated[float, Range(above=0.0)] = 1e-5
    mean: float = 0.0
    family: Family = "rbf"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length_scale == ():
            raise InvalidInput("the length scales were empty; give one, or one for each column.")

    def scales(self, columns: int) -> FloatArray:
        """(columns,) length scales.

        Raises:
            InvalidInput: for another number of columns than length scales.
        """
        if isinstance(self.length_scale, float):
            return np.full(columns, self.length_scale)
        if len(self.length_scale) != columns:
            raise InvalidInput(
                f"there were {len(self.length_scale)} length scales for {columns} columns; give "
                "one for all, or one for each."
            )
        return np.array(self.length_scale)

    def covariance(self, row: int, beliefs: RowBeliefs) -> FloatArray:
        """(n,) covariances of the outcome of `row` with those of all rows."""
        squares = self.scales(beliefs.columns) ** 2
        mean, variance = beliefs.mean, beliefs.variance
        unsure = variance[0 if len(variance) == 1 else row]
        gaps = [np.square(mean[:, k] - mean[row, k]) for k in range(beliefs.columns)]
        covariance = np.zeros(len(mean))
        # Column by column: temporary arrays stay as small as one column.
        for weight, factor in mixture_of(self.family):
            distance, shrink = np.zeros(len(mean)), np.ones(len(variance))
            for k, gap in enumerate(gaps):
                spread = factor * squares[k] + unsure[k] + variance[:, k]
                shrink = shrink * (factor * squares[k] / spread)
                distance += gap / spread
            covariance += weight * np.sqrt(shrink) * np.exp(-0.5 * distance)
        covariance *= self.variance
        covariance[row] = self.variance
        return covariance

    def own_variance(self, beliefs: RowBeliefs) -> FloatArray:
        """(n,) or (1,) the part of a row's prior variance that no other row says anything about.

        Another row that is believed to be at the same place has covariance c with it, so 1 - c is
        the row's own: it is 0 for rows that are known.
        """
        squares = self.scales(beliefs.columns) ** 2
        common = np.zeros(len(beliefs.variance))
        for weight, factor in mixture_of(self.family):
            ratio = factor * squares / (factor * squares + 2.0 * beliefs.variance)
            common += weight * np.sqrt(np.prod(ratio, axis=1))
        return self.variance * (1.0 - np.minimum(common, 1.0))


class RowPosterior:
    """Means and variances of the outcomes of all rows.

    Args:
        beliefs: what is known of the rows.
        prior: of the outcomes.

    Raises:
        InvalidInput: for length scales that do not fit the columns.
    """

    def __init__(self, beliefs: RowBeliefs, prior: RowPrior) -> None:
        prior.scales(beliefs.columns)
        self.beliefs, self.prior = beliefs, prior
        self.asked: list[int] = []
        self.mean = np.full(beliefs.count, prior.mean)
        self.variance = np.full(beliefs.count, prior.variance)
        self._own = prior.own_variance(beliefs)
        self._blocks: list[FloatArray] = []
        self._corners: list[float] = []
        self._white: list[float] = []

    @property
    def answered(self) -> int:
        """How many questions have their answer."""
        return len(self._white)

    @property
    def deviation(self) -> FloatArray:
        """(n,) posterior standard deviations."""
        deviation: FloatArray = np.sqrt(self.variance)
        return deviation

    @property
    def shared_deviation(self) -> FloatArray:
        """(n,) standard deviations of what rows share with others: without each row's own part,
        unless it was asked for and its own part is being learnt."""
        deviation: FloatArray = np.sqrt(np.maximum(self.variance - self._own, 0.0))
        deviation[self.asked] = np.sqrt(self.variance[self.asked])
        return deviation

    def ask(self, row: int) -> None:
        """Count on an answer for `row`: variances become what they will be."""
        place = len(self.asked)
        line = self.prior.covariance(row, self.beliefs)
        for number, block in enumerate(self._blocks):
            used = block[: place - _BLOCK * number]
            line -= used[:, row] @ used
        corner = float(np.sqrt(self.variance[row] + self.prior.noise))
        line /= corner
        if place % _BLOCK == 0:
            self._blocks.append(np.empty((_BLOCK, len(line))))
        self._blocks[-1][place % _BLOCK] = line
        self._corners.append(corner)
        self.asked.append(int(row))
        self._lower(line)

    def tell(self, answer: float) -> None:
        """The answer to the oldest question that waits."""
        place = self.answered
        # The mean at its row is what the earlier answers made of it.
        white = (answer - float(self.mean[self.asked[place]])) / self._corners[place]
        self._white.append(white)
        self.mean += white * self._line(place)

    def forget_waiting(self) -> None:
        """Drop the questions without an answer."""
        kept = self.answered
        del self.asked[kept:], self._corners[kept:]
        del self._blocks[-(-kept // _BLOCK) :]
        self.variance[:] = self.prior.variance
        for place in range(kept):
            self._lower(self._line(place))

    def _lower(self, line: FloatArray) -> None:
        self.variance -= np.square(line)
        np.maximum(self.variance, 0.0, out=self.variance)

    def _line(self, place: int) -> FloatArray:
        line: FloatArray = self._blocks[place // _BLOCK][place % _BLOCK]
        return line


@dataclass(frozen=True, eq=False)
class _Data:
    gaps: FloatArray
    unsure: FloatArray
    same: FloatArray
    answers: FloatArray
    spread: FloatArray
    extra_noise: FloatArray


def learn_prior(
    beliefs: RowBeliefs,
    rows: IntArray,
    answers: FloatArray,
    family: Family = "rbf",
    known_noise: float = 0.0,
) -> RowPrior:
    """The most plausible prior after `answers` (t,) to questions about `rows` (t,), t >= 2.

    Args:
        beliefs: what is known of the rows.
        rows: which rows were asked for.
        answers: what came.
        family: of the kernel.
        known_noise: variance of noise that was added to answers on purpose; what is learnt is what
            comes on top.
    """
    from scipy.linalg import cho_factor, cho_solve

    centre, unit = float(answers.mean()), float(answers.std())
    if unit == 0.0:
        unit = max(math.sqrt(known_noise), 1.0)
    data = _data(beliefs, rows, (answers - centre) / unit, known_noise / unit**2)
    scales = beliefs.columns if beliefs.columns <= MOST_SEPARATE else 1
    theta = min((_descend(data, family, scales, start) for start in _STARTS), key=itemgetter(0))[1]
    covariance, _ = _covariance(theta, data, family, scales)
    factor = cho_factor(covariance, lower=True)
    ones = cho_solve(factor, np.ones(len(answers)))
    mean = float(ones @ data.answers) / float(ones.sum())
    lengths = np.exp(theta[:scales]) * data.spread
    return RowPrior(
        length_scale=tuple(np.broadcast_to(lengths, (beliefs.columns,)).tolist()),
        variance=unit**2 * math.exp(theta[scales]),
        noise=unit**2 * math.exp(theta[scales + 1]) + known_noise,
        mean=centre + unit * mean,
        family=family,
    )


def column_spread(beliefs: RowBeliefs) -> FloatArray:
    """(r,) how far the rows lie apart in each column: their standard deviation, noise taken off."""
    noise = beliefs.variance.mean(axis=0)
    spread: FloatArray = np.sqrt(np.maximum(beliefs.mean.var(axis=0), 1e-2 * noise + 1e-12))
    return spread


def first_prior(beliefs: RowBeliefs, family: Family = "rbf") -> RowPrior:
    """What is assumed before any answer came."""
    lengths = math.exp(_SCALE[0]) * column_spread(beliefs)
    return RowPrior(tuple(lengths.tolist()), 1.0, math.exp(_NOISE[0]), 0.0, family)


def _data(beliefs: RowBeliefs, rows: IntArray, answers: FloatArray, known: float) -> _Data:
    mean = beliefs.mean[rows]
    variance = np.broadcast_to(
        beliefs.variance if len(beliefs.variance) == 1 else beliefs.variance[rows], mean.shape
    )
    same = rows[:, None] == rows[None, :]
    unsure = np.where(same[:, :, None], 0.0, variance[:, None] + variance[None, :])
    gaps = np.square(mean[:, None] - mean[None, :])
    return _Data(gaps, unsure, same, answers, column_spread(beliefs), known * np.eye(len(rows)))


def _covariance(
    theta: FloatArray, data: _Data, family: Family, scales: int
) -> tuple[FloatArray, list[FloatArray]]:
    """(t, t) covariance of the answers, and its derivatives by theta."""
    squares = np.square(np.exp(theta[:scales]) * data.spread)
    kernel = np.zeros(data.same.shape)
    slopes = np.zeros((scales, *data.same.shape))
    for weight, factor in mixture_of(family):
        own = factor * squares
        spread = own + data.unsure
        ratio = own / spread
        term = weight * np.exp(
            0.5 * np.log(ratio).sum(axis=2) - 0.5 * (data.gaps / spread).sum(axis=2)
        )
        kernel += term
        slope = 1.0 - ratio + data.gaps * ratio / spread
        slopes += term * (np.moveaxis(slope, 2, 0) if scales > 1 else slope.sum(axis=2)[None])
    variance, noise = math.exp(theta[scales]), math.exp(theta[scales + 1])
    eye = np.eye(len(kernel))
    covariance = variance * kernel + noise * eye + data.extra_noise
    return covariance, [*(variance * slopes), variance * kernel, noise * eye]


def _objective(
    theta: FloatArray, data: _Data, family: Family, scales: int
) -> tuple[float, FloatArray]:
    """Minus the log posterior density of theta, and its gradient."""
    from scipy.linalg import cho_factor, cho_solve

    covariance, slopes = _covariance(theta, data, family, scales)
    covariance[np.diag_indices(len(covariance))] += 1e-8
    factor = cho_factor(covariance, lower=True)
    inverse = cho_solve(factor, np.eye(len(covariance)))
    ones = inverse.sum(axis=1)
    residual = data.answers - float(ones @ data.answers) / float(ones.sum())
    alpha = inverse @ residual
    value = 0.5 * float(residual @ alpha) + float(np.log(np.diag(factor[0])).sum())
    inner = inverse - np.outer(alpha, alpha)
    gradient = np.array([0.5 * float(np.einsum("ij,ij->", inner, slope)) for slope in slopes])
    centre, width = np.array([_SCALE] * scales + [_VARIANCE, _NOISE]).T
    pull = (theta - centre) / width
    return value + 0.5 * float(pull @ pull), gradient + pull / width


def _descend(data: _Data, family: Family, scales: int, start: float) -> tuple[float, FloatArray]:
    from scipy.optimize import minimize

    first = np.array([_SCALE[0] + start] * scales + [_VARIANCE[0], _NOISE[0]])
    result = minimize(
        _objective,
        first,
        args=(data, family, scales),
        jac=True,
        method="L-BFGS-B",
        bounds=[(at - _LIMIT, at + _LIMIT) for at in first],
        options={"maxiter": 100},
    )
    return float(result.fun), np.asarray(result.x)
