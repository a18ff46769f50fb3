"""Prior knowledge: a kernel over contexts and arms, and a bound on the noise of rewards.

**Kernel.** 2 f - 1 ~ GP(0, s (k_l + 1)) over contexts and arms, with k_l the kernel divided by its
mean k(x, x) and its length scales multiplied by l, and 1 a constant that all arms share. Where arms
have no points, k is of contexts and their functions have a correlation of 0.5. With Phi the
features at public points and G G' = k_l there, by pivoted Cholesky,

    theta = L z,   z ~ N(0, s I),   L = Phi^+ G,

so there are as many unknowns as G has columns, and the posterior costs little (gaussian.py). It is
averaged over l and s. Columns are measured as declared and never in ranks, because the length
scales of the kernel are in declared units.

**Noise bound.** A reward on [0, 1] lies within w of its mean, so a residual from the predicted
reward is rarely longer than w plus the posterior deviation. Rewards are clipped to the predicted
reward and a radius on either side,

    c = w + root(mean posterior variance of f where people are),

and noise is in proportion to c. A clipped reward varies with its mean by the gain P(|Z| <= c)
(Bussgang 1952), Z uniform noise plus a Gaussian of that deviation. With c of 1/2 or more no reward
is clipped.

| array | shape     | meaning                                           | symbol |
|-------|-----------|---------------------------------------------------|--------|
| root  | (K, m, r) | a root of the prior covariance of theta for s = 1 | L      |
| half  | (K, m, r) | a root of the posterior covariance                |        |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from discreet.gaussian import GaussianNaturalParameters, LevelPosteriors
from discreet.kernels import kernel_from_text, kernel_to_text
from discreet.kernels.grid import stretched
from discreet.kernels.nystrom import pivoted_cholesky
from discreet.learners.epochs.contribution import cut
from discreet.learners.epochs.features import checked_kernel, likely_arms
from discreet.learners.kernel.features import CosineFeatures, on_levels, sobol_points
from discreet.learners.kernel.posterior import (
    HyperparameterPosterior,
    Hyperparameters,
    coefficient_places,
)
from discreet.people.domain import ArmPoints, Box
from discreet.validation import FloatArray, IntArray

# Factors of length scales and scales of the variance, with their prior probabilities.
_STRETCHES = {1.0: 0.5, 2.0: 0.2, 0.5: 0.2, 0.25: 0.1}
_SCALES = {0.2: 0.5, 0.05: 0.25, 0.8: 0.25}
_LIKENESS = 0.5
# Public points, at least, at most, and pairs of a point and an arm; columns of G.
_FEWEST_POINTS, _MOST_POINTS, _PAIRS, _MOST_DIRECTIONS = 512, 2048, 2**15, 400
# Parts of k(x, x), and of the largest variance of a direction or a feature, that are left out.
_ERROR, _LEAST_DIRECTION, _LEAST_FEATURE = 1e-6, 1e-6, 1e-6
# The ridge of Phi^+, as a share of the mean square of a feature.
_RIDGE = 1e-6
# Hyperparameters less likely than this share of the likeliest are left out.
_LEAST_CHANCE = 1e-3
# The smallest bound, as a share of the range of rewards: with shorter radii sums of vectors over
# many people would not be exact.
_LEAST_NOISE = 2.0**-6


@dataclass(frozen=True, eq=False)
class LowRankPosterior:
    """The posterior under the prior of a kernel; see `MixturePart`.

    Attributes:
        used: (m,) the features that are used.
        mean: (K, m) of theta.
        half: (K m, r) a root of its covariance.
        evidence: log evidence, up to a constant.
        degrees_of_freedom: effective number of coefficients that reports determine.
    """

    used: IntArray
    mean: FloatArray
    half: FloatArray
    evidence: float
    degrees_of_freedom: float

    def draws(self, normals: FloatArray) -> FloatArray:
        """Deviations from the mean (K m, F), from as many normals, of which r rows are used."""
        drawn: FloatArray = self.half @ normals[: self.half.shape[1]]
        return drawn

    def covariance_times(self, vectors: FloatArray) -> FloatArray:
        """S V for the posterior covariance S and V (K m, F)."""
        product: FloatArray = self.half @ (self.half.T @ vectors)
        return product

    def deviations(self, phi: FloatArray) -> FloatArray:
        """(n, K) posterior standard deviations of 2 f - 1 at contexts with features (n, m)."""
        halves = self.half.reshape(*self.mean.shape, -1)
        squares = (((phi @ (half @ half.T)) * phi).sum(axis=1) for half in halves)
        return np.stack([np.sqrt(np.maximum(square, 0.0)) for square in squares], axis=1)


@dataclass(frozen=True)
class KernelPrior:
    """A kernel over contexts, and arm points where arms have them (see the module).

    Attributes:
        text: of the kernel, in the units of the columns.
        domain: the box of contexts.
        arms: their number, or `ArmPoints`.
        features: of the learner.
    """

    text: str
    domain: Box
    arms: int | ArmPoints
    features: CosineFeatures

    @classmethod
    def of(
        cls, kernel: Kernel | str, domain: Box, arms: int | ArmPoints, features: CosineFeatures
    ) -> KernelPrior:
        """From a kernel or its text; `InvalidInput` where it does not fit the columns."""
        text = kernel_to_text(checked_kernel(kernel, domain, arms))
        return cls(text, domain, arms, features)

    @cached_property
    def prior(self) -> HyperparameterPosterior:
        """All hyperparameters, whose length scales are factors of the kernel's."""
        columns = self.domain.dimension
        chances = {
            Hyperparameters((stretch,) * columns, scale): chance * other
            for stretch, chance in _STRETCHES.items()
            for scale, other in _SCALES.items()
        }
        every = tuple(chances)
        return HyperparameterPosterior(
            every[0], every, tuple(chances.values()), (0.0,) * len(every)
        )

    @property
    def left_out(self) -> float:
        """The share of the kernel's variance that features do not show."""
        _, root = _prior_root(self, 1.0)
        return max(2.0 - float((root**2).sum()) / len(root), 0.0)

    def learnt(self, information: GaussianNaturalParameters) -> HyperparameterPosterior:
        """The posterior of the hyperparameters given J and b."""
        evidence = np.zeros((len(_STRETCHES), len(_SCALES)))
        for row, stretch in zip(evidence, _STRETCHES, strict=True):
            levels = self._levels(stretch, information)[2]
            row[:] = levels.log_evidence(np.sqrt(list(_SCALES)))
        prior, found = self.prior, evidence.ravel()
        chances = np.array(prior.weights) * np.exp(found - found.max())
        order = np.argsort(-chances, kind="stable")
        likely = order[chances[order] > _LEAST_CHANCE * chances.max()]
        candidates = tuple(prior.candidates[place] for place in likely)
        weights = chances[likely] / chances[likely].sum()
        return HyperparameterPosterior(
            candidates[0], candidates, tuple(weights.tolist()), tuple(found[likely].tolist())
        )

    def posterior(
        self, hyperparameters: Hyperparameters, information: GaussianNaturalParameters
    ) -> LowRankPosterior:
        """The posterior of theta given J and b."""
        used, arms, levels = self._levels(hyperparameters.length_scales[0], information)
        level = math.sqrt(hyperparameters.output_scale)
        found = levels.at(level)
        return LowRankPosterior(
            used=used,
            mean=found.mean.reshape(arms, -1),
            half=found.root,
            evidence=float(levels.log_evidence(np.array([level]))[0]),
            degrees_of_freedom=float((levels.values / (levels.values + level**-2)).sum()),
        )

    def _levels(
        self, stretch: float, information: GaussianNaturalParameters
    ) -> tuple[IntArray, int, LevelPosteriors]:
        """Used features, K, and posteriors under every scale; the latest J and b are cached."""
        # The cache is read and replaced as a whole, because threads may predict at once.
        latest = self.__dict__.get("_latest")
        if latest is None or latest[0] is not information:
            latest = self.__dict__["_latest"] = information, {}
        kept: dict[float, tuple[IntArray, int, LevelPosteriors]] = latest[1]
        if stretch not in kept:
            used, root = _prior_root(self, stretch)
            at = coefficient_places(used, len(root), len(self.features))
            precision = information.precision[np.ix_(at, at)]
            inner = GaussianNaturalParameters(precision, information.weighted[at])
            kept[stretch] = used, len(root), LevelPosteriors.of(root.reshape(len(at), -1), inner)
        return kept[stretch]


@lru_cache(maxsize=16)
def _prior_root(given: KernelPrior, stretch: float) -> tuple[IntArray, FloatArray]:
    """The features that are used (m,), and L (K, m, r)."""
    domain, arms, features = given.domain, given.arms, given.features
    count = arms if isinstance(arms, int) else len(arms)
    most = min(max(_PAIRS // count, _FEWEST_POINTS), _MOST_POINTS)
    unit = on_levels(sobol_points(domain.dimension)[:most], domain.levels)
    unit, times = np.unique(unit, axis=0, return_counts=True)
    where = domain.from_unit(unit)
    # Phi^+, by weighted least squares.
    phi = features(unit)
    weighted = phi * (times / times.sum())[:, None]
    moment = weighted.T @ phi + _RIDGE * np.eye(len(features))
    inverse = np.linalg.solve(moment, weighted.T)
    kernel = kernel_from_text(given.text)
    kernel = stretched(kernel, stretch) or kernel
    if isinstance(arms, ArmPoints):
        where = np.hstack([np.repeat(where, count, axis=0), np.tile(arms.array, (len(where), 1))])
    diagonal = np.asarray(kernel.diag(where), dtype=np.float64)
    size = float(diagonal.mean())
    columns, _, _ = pivoted_cholesky(kernel, where, diagonal, _ERROR * size, _MOST_DIRECTIONS)
    if isinstance(arms, ArmPoints):
        root = np.einsum("mn,nkr->kmr", inverse, columns.reshape(len(unit), count, -1))
    else:
        codes = np.linalg.cholesky(likely_arms(count, _LIKENESS))
        # The same covariance by no more columns than features.
        short = np.linalg.qr((inverse @ columns).T).R.T
        root = np.einsum("mr,ks->kmrs", short, codes).reshape(count, len(features), -1)
    constant = np.zeros((count, len(features), 1))
    constant[:, 0] = 1.0
    root = np.concatenate([root / math.sqrt(size), constant], axis=2)
    shares = (root**2).sum(axis=(0, 2))
    used = np.flatnonzero(shares > _LEAST_FEATURE * shares.sum())
    # The same covariance by its largest directions, of which there are K m at most.
    flat = root[:, used].reshape(count * len(used), -1)
    values, axes = np.linalg.eigh(flat.T @ flat)
    flat = flat @ axes[:, values > _LEAST_DIRECTION * values[-1]]
    root = np.ascontiguousarray(flat.reshape(count, len(used), -1))
    for made in (used, root):
        made.setflags(write=False)
    return used, root


@dataclass(frozen=True)
class NoiseBound:
    """A bound w on how far a reward on [0, 1] lies from its mean (see the module)."""

    bound: float

    @classmethod
    def of(cls, reward_noise: float, width: float) -> NoiseBound | None:
        """From a bound in the units of rewards, whose range has this width; None for half the width
        or more, where nothing is clipped."""
        bound = max(reward_noise / width, _LEAST_NOISE)
        return cls(bound) if bound < 0.5 else None

    def radius(self, deviation: float) -> float | None:
        """c, for a posterior deviation of 2 f - 1; None where nothing is clipped."""
        radius = self.bound + 0.5 * deviation
        return radius if radius < 0.5 else None

    def clipped(self, radius: float) -> tuple[float, float]:
        """The gain, and the mean square of a clipped 2 r - 1 about the predicted one."""
        allowed, most = np.array([2.0 * radius]), np.array([2.0])
        deviation = np.maximum(allowed - 2.0 * self.bound, 0.0)
        gain, square = cut(allowed, deviation, 2.0 * self.bound, most)
        return float(gain[0]), float(square[0])
