"""Length scales, variances and the mean of a prior, learnt from answers.

The log marginal likelihood of the answers (Rasmussen and Williams 2006, eq. 5.8) under the
covariance of prior.py, which knows how uncertain the rows are, plus weak log-normal beliefs about
the parameters that keep a handful of answers from leading to absurd ones. The gradient is exact;
several starts guard against local optima. The mean is the generalised least squares estimate.

| array   | shape    | meaning                                                   |
|---------|----------|-----------------------------------------------------------|
| theta   | (p,)     | log length scales, log variance, log own noise            |
| gaps    | (t, t, r)| squared distances of asked rows, column by column         |
| unsure  | (t, t, r)| sums of their variances; 0 for a row with itself          |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.prior import Family, RowPrior
from discreet.validation import FloatArray, IntArray

# Beliefs about log parameters, (centre, deviation): a length scale of half the spread of a column,
# a variance as that of the answers, of which a twentieth is noise.
_SCALE, _VARIANCE, _NOISE = (math.log(0.5), 1.0), (0.0, 1.0), (math.log(0.05), 2.0)
_STARTS = (0.0, -1.2, 1.0)
_LIMIT = 6.0
# With more columns than this one length scale is learnt for all: answers are few.
MOST_SEPARATE = 6


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
    separate: bool = True,
) -> RowPrior:
    """The most plausible prior after `answers` (t,) to questions about `rows` (t,), t >= 2.

    Args:
        beliefs: what is known of the rows.
        rows: which rows were asked for.
        answers: what came.
        family: of the kernel.
        known_noise: variance of noise that was added to answers on purpose; what is learnt is what
            comes on top.
        separate: whether each column has a length scale of its own.
    """
    centre, unit = float(answers.mean()), float(answers.std())
    if unit == 0.0:
        unit = max(math.sqrt(known_noise), 1.0)
    data = _data(beliefs, rows, (answers - centre) / unit, known_noise / unit**2)
    separate = separate and beliefs.columns <= MOST_SEPARATE
    scales = beliefs.columns if separate else 1
    found = min(
        (_descend(data, family, scales, start) for start in _STARTS), key=lambda one: one[0]
    )[1]
    covariance, _ = _covariance(found, data, family, scales)
    factor = cho_factor(covariance, lower=True)
    ones = cho_solve(factor, np.ones(len(answers)))
    mean = float(ones @ data.answers) / float(ones.sum())
    lengths = np.exp(found[:scales]) * data.spread
    return RowPrior(
        length_scale=tuple(np.broadcast_to(lengths, (beliefs.columns,)).tolist()),
        variance=unit**2 * math.exp(found[scales]),
        noise=unit**2 * math.exp(found[scales + 1]) + known_noise,
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
    for weight, factor in RowPrior(1.0, family=family).mixture:
        own = factor * squares
        spread = own + data.unsure
        ratio = own / spread
        term = weight * np.exp(
            0.5 * np.log(ratio).sum(axis=2) - 0.5 * (data.gaps / spread).sum(axis=2)
        )
        kernel += term
        slope = 1.0 - ratio + data.gaps * ratio / spread
        slopes += term * (
            np.moveaxis(slope, 2, 0) if scales > 1 else slope.sum(axis=2, keepdims=False)[None]
        )
    variance, noise = math.exp(theta[scales]), math.exp(theta[scales + 1])
    eye = np.eye(len(kernel))
    covariance = variance * kernel + noise * eye + data.extra_noise
    return covariance, [*(variance * slopes), variance * kernel, noise * eye]


def _objective(
    theta: FloatArray, data: _Data, family: Family, scales: int
) -> tuple[float, FloatArray]:
    """Minus the log posterior density of theta, and its gradient."""
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
    centre = np.array([_SCALE[0]] * scales + [_VARIANCE[0], _NOISE[0]])
    width = np.array([_SCALE[1]] * scales + [_VARIANCE[1], _NOISE[1]])
    pull = (theta - centre) / width
    return value + 0.5 * float(pull @ pull), gradient + pull / width


def _descend(data: _Data, family: Family, scales: int, start: float) -> tuple[float, FloatArray]:
    first = np.array([_SCALE[0] + start] * scales + [_VARIANCE[0], _NOISE[0]])
    found = minimize(
        _objective,
        first,
        args=(data, family, scales),
        jac=True,
        method="L-BFGS-B",
        bounds=[(at - _LIMIT, at + _LIMIT) for at in first],
        options={"maxiter": 100},
    )
    return float(found.fun), np.asarray(found.x)
