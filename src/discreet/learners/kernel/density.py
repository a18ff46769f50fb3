"""Where people are, learnt from the cells that they report.

The density of contexts over bins (features.py), relative to uniform, is 1 + phi' c with cosine
features of the bins and a Gaussian prior on their coefficients c; for a source, whose arms are as
private as contexts, the density of contexts and arms together. At density kappa a report of one of
the cells j of C partitions has

    P_cj = 2 b + (p - b) integral over the cell of kappa     its probability in partition c,
    F = (p - b)^2 / C sum w_cj w_cj' / P_cj                  its Fisher information of c,
    g = (p - b) w_cj / P_cj                                  its score,

with w_cj the integral of phi over the cell. So n reports add n F to the natural parameters J, and
sum g + n F c(kappa) to b (the step of an extended Kalman filter). The scores follow from where
reports located their people: a report of cell j came from bin z with probability

    kappa_z (2 b + (p - b) [share of z in j]) / P_cj / Z,

whose sums over reports, divided by kappa, are the sums of phi(z) that g asks for.

The posterior is averaged over levels of the prior's deviations. The least says uniform, and is the
likeliest at first. A bin has at least 5% of what it would have then. With one cell reports say
nothing.

| array     | shape  | meaning                                                        |
|-----------|--------|----------------------------------------------------------------|
| shares    | (Z,)   | the density of bins relative to uniform; their mean is 1       |
| located   | (Z,)   | sum over reports of the probability that x is in z             |
| phi       | (Z, m) | features of the bins, without the constant                     |
| precision | (m, m) | J                                                              |
| weighted  | (m,)   | b                                                              |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from scipy.sparse import csr_array

from discreet.codec import Range, Serializable, Shape
from discreet.gaussian import GaussianNaturalParameters, LevelPosteriors
from discreet.learners.kernel.design import reported_shares
from discreet.learners.kernel.features import CosineFeatures
from discreet.learners.kernel.marginals import cell_probabilities
from discreet.learners.kernel.policy import KernelPolicy
from discreet.validation import FloatArray

# At most so many features, of functions with this length scale.
_MOST_FEATURES, _LENGTH_SCALE = 100, 0.4
# Levels of the prior's deviations and, in nats, their weights. Few functions of the higher levels
# are nowhere negative, as densities are; and a few hundred noisy reports say nothing of the level.
_LEVELS, _LOG_WEIGHTS = np.array([0.03, 0.3, 1.0, 3.0]), np.array([0.0, -2.0, -4.0, -6.0])
_FLOOR = 0.05


@dataclass(frozen=True, eq=False)
class Density(Serializable):
    """The density of contexts, and what it was learnt from (see the module's table).

    Attributes:
        placed: the number of reports that locate their person.
    """

    shares: Annotated[FloatArray, Shape("Z"), Range(above=0.0)]
    located: Annotated[FloatArray, Shape("Z"), Range(0.0)]
    placed: Annotated[int, Range(0)]
    precision: Annotated[FloatArray, Shape("m", "m")]
    weighted: Annotated[FloatArray, Shape("m")]

    @classmethod
    def uniform(cls, shape: tuple[int, ...]) -> Density:
        """Before any report, for so many bins of each column."""
        bins, size = _basis(shape)[0].shape
        return cls(np.ones(bins), np.zeros(bins), 0, np.zeros((size, size)), np.zeros(size))

    def after(
        self, policy: KernelPolicy, shape: tuple[int, ...], located: FloatArray, placed: int
    ) -> Density:
        """Given the reports under a policy that came since, if any did.

        Args:
            policy: the last one; the few late reports under others are taken for its own.
            shape: the number of bins of each column.
            located, placed: of all reports so far.
        """
        people = placed - self.placed
        if people == 0:
            return self
        (phi, root), kappa = _basis(shape), policy.density
        fisher = people * _fisher_information(policy, phi)
        precision = self.precision + fisher
        weighted = self.weighted + phi.T @ ((located - self.located) / kappa)
        weighted += fisher @ (phi.T @ (kappa - 1.0)) / len(phi)
        known = LevelPosteriors.of(root, GaussianNaturalParameters(precision, weighted))
        evidence = known.log_evidence(_LEVELS) + _LOG_WEIGHTS
        likely = np.exp(evidence - evidence.max())
        found = 1.0 + phi @ known.average(_LEVELS, likely / likely.sum()).mean
        shares = np.maximum(found, _FLOOR)
        return Density(shares / shares.mean(), located, placed, precision, weighted)


def counted(located: FloatArray) -> FloatArray:
    """The density where it is known in which bin each person is, with root(Z) more everywhere."""
    bins = len(located)
    shares: FloatArray = (located + bins**-0.5) * (bins / (float(located.sum()) + bins**0.5))
    return shares


@lru_cache(maxsize=8)
def _basis(shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """(Z, m) phi, and the root (m, m) of the prior covariance at level 1."""
    features = CosineFeatures.of(shape, arms=1)
    used = np.arange(1, min(len(features), 1 + _MOST_FEATURES))
    places = np.array(list(np.ndindex(shape))) / np.maximum(np.array(shape) - 1, 1)
    phi = features(places, used)
    variances = features.variances((_LENGTH_SCALE,) * len(shape), 1.0)[used]
    root = np.diag(np.sqrt(variances))
    for array in (phi, root):
        array.flags.writeable = False
    return phi, root


def _fisher_information(policy: KernelPolicy, phi: FloatArray) -> FloatArray:
    """(m, m) of a report under a policy, about the coefficients of phi."""
    grid, count = policy.grid, policy.cells.count
    cells = policy.cells.locate_all(grid.points)
    shown = reported_shares(policy.mechanism, cells, grid.weights(policy.density))
    # The share of each bin that a cell holds, by the points in it.
    share = 1.0 / (len(phi) * np.bincount(grid.bins, minlength=len(phi))[grid.bins])
    partition = np.arange(len(cells))[:, None]
    place = (partition * count + cells).ravel(), np.broadcast_to(grid.bins, cells.shape).ravel()
    shares = np.broadcast_to(share, cells.shape).ravel()
    held = csr_array((shares, place), shape=(shown.size, len(phi)))
    _, gain = cell_probabilities(policy.mechanism)
    scores: FloatArray = (held @ phi) * (gain / np.sqrt(shown.ravel() * len(cells)))[:, None]
    information: FloatArray = scores.T @ scores
    return information
