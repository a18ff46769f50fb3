"""Length scales and variances by maximum likelihood, and inputs of equal length scale.

| array         | shape  | meaning                                                          |
|---------------|--------|------------------------------------------------------------------|
| columns       | (n, d) | inputs in their own units                                        |
| outcome       | (n,)   | what is maximised, in its own unit                               |
| length_scales | (d,)   | one for each column, in its unit                                 |
| rows          | (n, d) | columns over their length scales, centred, largest norm 25       |

The paper learns hyperparameters from the data and scales by the data's largest norm, neither of it
under privacy. A private release can use such numbers only as public facts that were agreed on
before anybody looked at the table; here they are taken to be such, and their cost is not counted.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from discreet.reproduction.kharkovskii2020.settings import LARGEST_NORM
from discreet.validation import FloatArray

# The likelihood of this many random rows takes some seconds to maximise.
_SUBSET = 1000
_SUBSET_SEED = 0
# In standard deviations of a column: beyond the second it says nothing, below the first no row has
# neighbours.
_LENGTHS = (0.1, 10.0)
# In variances of the outcome; the smallest noise is that of the paper's synthetic functions.
_SIGNAL, _NOISE = (1e-2, 1e2), (1e-5, 1e1)


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Of a Gaussian process with a squared exponential kernel.

    Attributes:
        length_scales: (d,) in the units of the columns.
        mean: of the outcome.
        deviation: sigma_y, the standard deviation of the process, in the unit of the outcome.
        noise: the variance of the noise over sigma_y^2.
    """

    length_scales: FloatArray
    mean: float
    deviation: float
    noise: float


@dataclass(frozen=True, eq=False)
class Isotropic:
    """Inputs whose length scales are all the same.

    Attributes:
        rows: (n, d), centred, of norm at most 25.
        length_scale: of every column.
    """

    rows: FloatArray
    length_scale: float


def fit(columns: FloatArray, outcome: FloatArray) -> Hyperparameters:
    """The most likely hyperparameters of 1,000 random rows (all, if there are fewer)."""
    subset = np.random.default_rng(_SUBSET_SEED).permutation(len(columns))[:_SUBSET]
    spread = columns[subset].std(axis=0)
    centre, unit = float(outcome[subset].mean()), float(outcome[subset].std())
    kernel = ConstantKernel(1.0, _SIGNAL) * RBF(np.ones(columns.shape[1]), _LENGTHS)
    process = GaussianProcessRegressor(kernel + WhiteKernel(0.1, _NOISE))
    with warnings.catch_warnings():
        # A length scale at its bound is an answer: the column says nothing.
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(columns[subset] / spread, (outcome[subset] - centre) / unit)
    found = process.kernel_
    signal = float(found.k1.k1.constant_value)
    return Hyperparameters(
        length_scales=np.atleast_1d(found.k1.k2.length_scale) * spread,
        mean=centre,
        deviation=unit * math.sqrt(signal),
        noise=float(found.k2.noise_level) / signal,
    )


def isotropic(columns: FloatArray, length_scales: FloatArray) -> Isotropic:
    """Columns (n, d) over their length scales (d,), centred and scaled to a largest norm of 25."""
    scaled = columns / length_scales
    scaled = scaled - scaled.mean(axis=0)
    factor = LARGEST_NORM / float(np.linalg.norm(scaled, axis=1).max())
    return Isotropic(factor * scaled, factor)
