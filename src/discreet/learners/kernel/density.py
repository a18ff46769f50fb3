"""Where people are, learnt from the cells that they report.

The density kappa of contexts over bins (features.py), relative to uniform, is learnt in two steps;
for a source, whose arms are as private as contexts, it is the density of contexts and arms.

*Likelihood.* Write kappa as 1 + phi' c with cosine features of the bins (where numbers have
indicators, with the nearest functions that are orthonormal under the bins' volumes). A report of
one of the cells j of C partitions has

    P_cj = 2 b + (p - b) integral over the cell of kappa     its probability in partition c,
    F = (p - b)^2 / C sum w_cj w_cj' / P_cj                  its Fisher information of c,
    g = (p - b) w_cj / P_cj                                  its score,

with w_cj the integral of phi over the cell. So n reports add n F to the natural parameters J, and
sum g + n F c(kappa) to b (the step of an extended Kalman filter; P is linear in c, so the only bias
of linearisation is what the features do not span of kappa). The scores follow from where reports
located their people: a report of cell j came from bin z with probability

    kappa_z (2 b + (p - b) [share of z in j]) / P_cj / Z,

whose sums over reports, divided by kappa, are the sums of phi(z) that g asks for.

*Posterior.* A priori log kappa is a Gaussian process, normalised (Leonard 1978), with the same
features, so kappa is nowhere negative. It is a sum of terms: one of each column and, in models that
have all of these, one of their interactions. A model's mode under the Gaussian likelihood of J and
b is found by Gauss-Newton steps; its evidence is Laplace's. The density is averaged over models:
those that were likely last time and, each time that reports have grown by 30%, those that differ
from the likeliest in one term. With one cell reports say nothing.

| array        | shape  | meaning                                                        |
|--------------|--------|----------------------------------------------------------------|
| shares       | (Z,)   | the density of bins relative to uniform; its mean is 1         |
| located      | (Z,)   | sum over reports of the probability that x is in z             |
| phi          | (Z, m) | features of the bins, without the constant                     |
| precision    | (m, m) | J                                                              |
| weighted     | (m,)   | b                                                              |
| terms        | (H, T) | which terms each likely model has; the likeliest first         |
| coefficients | (H, m) | its mode                                                       |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from scipy.linalg import cho_solve
from scipy.sparse import csr_array

from discreet.codec import Range, Serializable, Shape
from discreet.gaussian import GaussianNaturalParameters
from discreet.learners.kernel.design import many_more, reported_shares
from discreet.learners.kernel.features import CosineFeatures, DensityBins
from discreet.learners.kernel.marginals import cell_probabilities
from discreet.learners.kernel.policy import KernelPolicy
from discreet.validation import BoolArray, FloatArray, IntArray

# The largest number of features, the length scale of the process, and the deviation of each term.
_MOST_FEATURES, _LENGTH_SCALE, _DEVIATION = 100, 0.4, 1.2
# The prior log odds of a term, and the share of the likeliest model's weight that others need.
_LOG_ODDS, _LEAST_WEIGHT = -4.0, 0.01
# The largest number of Gauss-Newton steps; they end once the expected gain, in nats, is less.
_MOST_STEPS, _LEAST_GAIN = 20, 1e-2
# The least density of a bin, relative to uniform.
_FLOOR = 0.01


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
    terms: Annotated[BoolArray, Shape("H", "T")]
    coefficients: Annotated[FloatArray, Shape("H", "m")]

    @classmethod
    def uniform(cls, bins: DensityBins) -> Density:
        """Before any report."""
        prior, count = _Prior.of(bins), len(bins)
        model = np.zeros((1, prior.terms), dtype=np.bool_), np.zeros((1, prior.phi.shape[1]))
        size = prior.phi.shape[1]
        known = np.zeros((size, size)), np.zeros(size)
        return cls(np.ones(count), np.zeros(count), 0, *known, *model)

    def after(self, policy: KernelPolicy, located: FloatArray, placed: int) -> Density:
        """Given the reports under a policy that came since, if any did.

        Args:
            policy: the last one; the few late reports under others are taken for its own.
            located, placed: of all reports so far.
        """
        people = placed - self.placed
        if people == 0:
            return self
        prior, kappa = _Prior.of(policy.density_bins), policy.density
        basis, volume = prior.basis, prior.volume
        fisher = people * _fisher_information(policy, basis)
        weighted = self.weighted + basis.T @ ((located - self.located) / kappa)
        weighted += fisher @ (basis.T @ ((kappa - 1.0) * volume)) / len(basis)
        known = GaussianNaturalParameters(self.precision + fisher, weighted)
        models = dict(zip(map(tuple, self.terms.tolist()), self.coefficients, strict=True))
        if many_more(self.placed, placed):
            for other in prior.neighbours(self.terms[0]):
                models.setdefault(other, self.coefficients[0])
        modes = [prior.mode(known, terms, start) for terms, start in models.items()]
        coefficients, densities, evidence = map(np.array, zip(*modes, strict=True))
        weights = np.exp(evidence - evidence.max())
        shares = np.maximum(weights @ densities / weights.sum(), _FLOOR)
        order = np.argsort(-weights, kind="stable")
        likely = order[weights[order] >= _LEAST_WEIGHT]
        return Density(
            shares=shares / (shares * volume).mean(),
            located=located,
            placed=placed,
            precision=known.precision,
            weighted=known.weighted,
            terms=np.array(list(models), dtype=np.bool_)[likely],
            coefficients=coefficients[likely],
        )


@dataclass(frozen=True, eq=False)
class _Prior:
    """The prior of the log density.

    Attributes:
        phi: (Z, m).
        basis: (Z, m).
        volume: (Z,).
        deviations: (m,) prior deviations of coefficients.
        term: (m,) which term each feature belongs to; interactions come last.
        terms: T, of columns with several bins, and of their interactions.
    """

    phi: FloatArray
    basis: FloatArray
    volume: FloatArray
    deviations: FloatArray
    term: IntArray
    terms: int

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, bins: DensityBins) -> _Prior:
        shape, volume = bins.shape, bins.volume
        features = CosineFeatures.of(shape, arms=1)
        used = np.arange(1, min(len(features), 1 + _MOST_FEATURES))
        places = np.array(list(np.ndindex(shape))) / np.maximum(np.array(shape) - 1, 1)
        phi = features(places, used)
        variances = features.variances((_LENGTH_SCALE,) * len(shape), 1.0)[used]
        along = features.index[used] > 0
        columns = np.where(along.sum(axis=1) == 1, along.argmax(axis=1), len(shape))
        labels, term = np.unique(columns, return_inverse=True)
        deviations = _DEVIATION * np.sqrt(variances / np.bincount(term, variances)[term])
        basis = _orthonormal(phi, volume) if bins.implied else phi
        for array in (phi, basis, deviations, term):
            array.flags.writeable = False
        return cls(phi, basis, volume, deviations, term, len(labels))

    def neighbours(self, terms: BoolArray) -> Iterator[tuple[bool, ...]]:
        """The models that differ in one term, and in those that follow from it."""
        for term in range(self.terms):
            other = terms.copy()
            other[term] = not terms[term]
            if other[-1] and not terms[-1]:
                other[:] = True
            elif not other.all():
                other[-1] = False
            yield tuple(other.tolist())

    def mode(
        self, known: GaussianNaturalParameters, terms: tuple[bool, ...], start: FloatArray
    ) -> tuple[FloatArray, FloatArray, float]:
        """Coefficients (m,), density (Z,) and log evidence of a model, searched from `start`."""
        used = np.array(terms, dtype=np.bool_)[self.term]
        phi, deviations, bins = self.phi[:, used], self.deviations[used], len(self.phi)
        basis, volume = self.basis, self.volume

        def at(whitened: FloatArray) -> tuple[FloatArray, FloatArray, float]:
            log_density = phi @ (deviations * whitened)
            shares = np.exp(log_density - log_density.max())
            shares *= bins / (shares * volume).sum()
            moments = basis.T @ (shares * volume) / bins  # the coefficients c of kappa
            fit = moments @ (known.weighted - 0.5 * (known.precision @ moments))
            return shares, moments, float(fit - 0.5 * (whitened @ whitened))

        here, log_volume = start[used] / deviations, 0.0
        shares, moments, value = at(here)
        for _ in range(_MOST_STEPS if used.any() else 0):
            # The derivative (m_used, m) of c by the whitened coefficients.
            mass = shares * volume
            jacobian = (phi * mass[:, None]).T @ basis / bins
            jacobian -= np.outer((self.phi.T @ mass / bins)[used], moments)
            jacobian *= deviations[:, None]
            gradient = jacobian @ (known.weighted - known.precision @ moments) - here
            root = np.linalg.cholesky(np.eye(len(here)) + jacobian @ known.precision @ jacobian.T)
            log_volume = float(np.log(np.diagonal(root)).sum())
            step, length = cho_solve((root, True), gradient), 1.0
            decrement = float(gradient @ step)  # Newton's, squared: twice the expected gain
            there = at(here + step)
            while there[2] < value + 0.25 * length * decrement and length > 1e-3:
                length *= 0.5
                there = at(here + length * step)
            if there[2] <= value:
                break
            here, (shares, moments, value) = here + length * step, there
            if decrement < 2.0 * _LEAST_GAIN:
                break
        coefficients = np.zeros(len(used))
        coefficients[used] = deviations * here
        return coefficients, shares, value - log_volume + _LOG_ODDS * sum(terms)


def counted(located: FloatArray, volume: FloatArray) -> FloatArray:
    """The density where it is known in which bin each person is, with root(Z) more everywhere."""
    bins = len(located)
    apart = np.where(volume > 0.0, located / np.where(volume > 0.0, volume, 1.0), 0.0)
    people = float((apart * volume).sum())
    shares: FloatArray = (apart + bins**-0.5) * (bins / (people + bins**0.5))
    return shares


def _orthonormal(phi: FloatArray, volume: FloatArray) -> FloatArray:
    """(Z, m) the functions nearest to phi that with the constant are orthonormal in bins of this
    volume, or a projection of such where phi spans less than m of them (the polar factor). An SVD's
    own basis would be another one on each machine."""
    root = np.sqrt(volume / len(volume))[:, None]
    apart = root * (phi - (volume @ phi) / len(volume))
    left, sizes, right = np.linalg.svd(apart, full_matrices=False)
    kept = sizes > 1e-9 * sizes.max(initial=0.0)
    spanned = left[:, kept] @ right[kept]
    basis: FloatArray = np.divide(spanned, root, out=np.zeros_like(spanned), where=root > 0.0)
    return basis


def _fisher_information(policy: KernelPolicy, basis: FloatArray) -> FloatArray:
    """(m, m) of a report under a policy, about the coefficients of the basis."""
    grid, count = policy.grid, policy.cells.count
    cells = policy.cells.locate_all(grid.points)
    shown = reported_shares(policy.mechanism, cells, grid.weights(policy.density))
    # The share of each bin that a cell holds, by the points in it.
    bins = len(basis)
    share = grid.volume[grid.bins] / (bins * np.bincount(grid.bins, minlength=bins)[grid.bins])
    partition = np.arange(len(cells))[:, None]
    place = (partition * count + cells).ravel(), np.broadcast_to(grid.bins, cells.shape).ravel()
    shares = np.broadcast_to(share, cells.shape).ravel()
    held = csr_array((shares, place), shape=(shown.size, bins))
    _, gain = cell_probabilities(policy.mechanism)
    scores: FloatArray = (held @ basis) * (gain / np.sqrt(shown.ravel() * len(cells)))[:, None]
    return scores.T @ scores
