"""Fourier features of stationary kernels: by quadrature, and by random frequencies.

phi(x) = [sqrt(a_i) cos(omega_i'(x - c)), sqrt(a_i) sin(omega_i'(x - c))], so that
phi(x)'phi(z) = sum_i a_i cos(omega_i'(x - z)) and ||phi(x)||^2 = sum_i a_i at every x of R^d. The
frequencies omega and -omega give the same features, so one of each pair is kept with both weights.

| array       | shape  | meaning                                                     | symbol |
|-------------|--------|-------------------------------------------------------------|--------|
| frequencies | (q, d) | radians per declared unit, none the negative of another     | omega  |
| weights     | (q,)   | positive; their sum is k(x, x)                              | a      |
| centre      | (d,)   | of the box; it changes no norm and no inner product         | c      |

The frequencies are a product of one-dimensional quadrature rules (rules.py), or random.

Sources: Rahimi and Recht 2007 (random), Mutny and Krause 2018 (quadrature), Dubey 2021 section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from discreet.codec import Range, Shape
from discreet.domain import Box
from discreet.kernels.additive import Additive
from discreet.kernels.base import FeatureMap, OutOfReach
from discreet.kernels.rules import Rule, hermite_rule, trapezoid_rule
from discreet.validation import FloatArray, InvalidInput, instance_of, positive_number, whole_number

# A tensor product larger than this is refused before any memory is taken, and one with more
# frequencies after pruning because every later step would take long.
MOST_NODES = 2_000_000
MOST_FREQUENCIES = 10_000


@dataclass(eq=False, repr=False)
class FourierFeatures(FeatureMap):
    """Cosines and sines of given frequencies; see the module's table.

    The m = 2q features (one fewer with the frequency 0) are all cosines, then all sines.

    Args:
        domain: the public box.
        frequencies: (q, d) radians per declared unit. The frequency 0 has a cosine only.
        weights: (q,) above 0.
        kernel: what it approximates, for `sup_error`.

    Attributes:
        sines: (q,) which frequencies have a sine.
        scales: (m,) the roots of the weights, of the cosines and then of the sines.

    Raises:
        InvalidInput: for wrong shapes, NaN, or weights that are not above 0.
    """

    kind: ClassVar[str] = "fourier"
    spares_kernel: ClassVar[bool] = True

    domain: Box
    frequencies: Annotated[FloatArray, Shape("q", "domain.dimension")]
    weights: Annotated[FloatArray, Shape("q"), Range(above=0.0)]
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        sines = (self.frequencies != 0.0).any(axis=1)
        scales = np.concatenate([np.sqrt(self.weights), np.sqrt(self.weights[sines])])
        low, high = np.asarray(self.domain.lower), np.asarray(self.domain.upper)
        self._derive(
            sines=sines,
            scales=scales,
            features=len(scales),
            norm_bound=math.sqrt(math.fsum(self.weights)),
            _centre=0.5 * (low + high),
            # The transpose as its own array, so that equal maps take the same path through BLAS.
            _columns=np.ascontiguousarray(self.frequencies.T),
        )

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        angle = (X - self._centre) @ self._columns
        q = len(self.weights)
        phi: FloatArray = np.empty((len(angle), self.features))
        np.cos(angle, out=phi[:, :q])
        np.sin(angle[:, self.sines], out=phi[:, q:])
        phi *= self.scales
        return phi


def quadrature_features(
    kernel: Kernel,
    domain: Box,
    nodes: int | Sequence[int],
    *,
    rule: str = "trapezoid",
    prune: float = 1e-12,
) -> FourierFeatures:
    """Fourier features of an RBF or Matern kernel on a tensor product of 1-d quadrature nodes.

    The weights sum to exactly 1, so ||phi(x)|| = 1 on all of R^d. For d columns and n nodes in
    each, m is about n^d.

    For d > 1 the Matern kernel is replaced by the product of 1-d Matern kernels, one for each
    column (the "modified Matern" of Mutny and Krause 2018), because its spectral density must be a
    product. That is *not* the isotropic Matern kernel of scikit-learn: it is smaller off the axes.
    `kernel` of the result is the product, and errors are measured against it. For the isotropic
    kernel use `random_features`.

    Args:
        kernel: RBF or Matern, with one length scale or one for each column.
        domain: the public box.
        nodes: nodes in each column, one number or d of them.
        rule: `trapezoid` (least error) or `hermite` (Gauss-Hermite, as published; RBF only).
        prune: frequencies are dropped, smallest weights first, while those dropped sum to at most
            this; the error grows by at most twice as much.

    Raises:
        InvalidInput: for another kernel or rule, or more than 10,000 frequencies.
    """
    d = instance_of(domain, "the domain", Box, "a discreet.domain.Box").dimension
    nu, scales = stationary_parts(kernel, d)
    counts = [nodes] * d if isinstance(nodes, int | np.integer) else list(nodes)
    if len(counts) != d:
        raise InvalidInput(f"nodes had {len(counts)} entries; give one number, or {d} of them.")
    counts = [whole_number(n, "nodes", minimum=1) for n in counts]
    if rule not in ("trapezoid", "hermite") or (rule == "hermite" and not math.isinf(nu)):
        raise InvalidInput(
            f"the rule was {rule!r} for {kernel}; use 'trapezoid', or 'hermite' for an RBF kernel."
        )
    widths = [high - low for low, high in zip(domain.lower, domain.upper, strict=True)]
    rules = [
        hermite_rule(n, scale) if rule == "hermite" else trapezoid_rule(n, nu, scale, width)
        for n, scale, width in zip(counts, scales, widths, strict=True)
    ]
    frequencies, weights = tensor_rule(rules, prune)
    return FourierFeatures(domain, frequencies, weights, product_form(kernel, d))


def tensor_rule(rules: Sequence[Rule], prune: float = 0.0) -> Rule:
    """The product of symmetric 1-d rules, with +-omega merged and the sum of weights exactly 1.

    Args:
        rules: d pairs of nodes, symmetric about 0, and weights.
        prune: see `quadrature_features`.

    Returns:
        frequencies (q, d) and weights (q,), largest weight first.

    Raises:
        OutOfReach: for more than 10,000 frequencies.
    """
    total = math.prod(len(nodes) for nodes, _ in rules)
    if total > MOST_NODES:
        raise _too_many(rules, total)
    # Merge by position, not by value: node i of n pairs with node n - 1 - i exactly.
    mesh = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")
    frequencies = np.stack([axis.ravel() for axis in mesh], axis=1)
    weights = np.ones(1)
    for _, a in rules:
        weights = np.outer(weights, a).ravel()
    half = total // 2
    frequencies = frequencies[total - half - total % 2 :]
    weights = 2.0 * weights[total - half - total % 2 :]
    if total % 2:
        frequencies[0], weights[0] = 0.0, weights[0] / 2.0
    order = np.argsort(-weights, kind="stable")
    frequencies, weights = frequencies[order], weights[order]
    left_over = np.cumsum(weights[::-1])[::-1]
    kept = max(int((left_over > prune).sum()), 1)
    if kept > MOST_FREQUENCIES:
        raise _too_many(rules, kept)
    frequencies, weights = frequencies[:kept], weights[:kept].copy()
    weights /= weights.sum()
    # The largest weight takes up the rounding, so that the exact sum rounds to 1.
    weights[0] = 1.0 - math.fsum(weights[1:])
    return frequencies, weights


def _too_many(rules: Sequence[Rule], count: int) -> OutOfReach:
    return OutOfReach(
        f"the tensor product of {' x '.join(str(len(n)) for n, _ in rules)} nodes has {count} "
        f"frequencies; at most {MOST_FREQUENCIES} are allowed. Use an additive kernel, "
        "method='random', or a finite set of points."
    )


def random_features(kernel: Kernel, domain: Box, features: int, seed: int = 0) -> FourierFeatures:
    """Random Fourier features of an RBF or (isotropic) Matern kernel; norm exactly 1.

    The frequencies are q = features/2 draws from the spectral density: normal, or multivariate
    Student t with 2 nu degrees of freedom; the error falls as 1/sqrt(features) only. The seed is
    public: it decides which kernel is approximated, not what is released.

    Args:
        kernel: RBF or Matern, with one length scale or one for each column.
        domain: the public box.
        features: an even number m of at least 2.
        seed: of the frequencies.

    Raises:
        InvalidInput: for another kernel, or an odd number of features.
    """
    nu, scales = stationary_parts(kernel, domain.dimension)
    q, odd = divmod(whole_number(features, "features", minimum=2), 2)
    if odd:
        raise InvalidInput(
            f"features was {features}; random Fourier features come in pairs of cosine and sine, "
            "so give an even number."
        )
    rng = np.random.default_rng(whole_number(seed, "seed"))
    omega = rng.standard_normal((q, domain.dimension)) / scales
    if not math.isinf(nu):
        omega *= np.sqrt(2.0 * nu / rng.chisquare(2.0 * nu, size=(q, 1)))
    weights = np.full(q, 1.0 / q)
    weights[0] = 1.0 - math.fsum(weights[1:])
    return FourierFeatures(domain, omega, weights, kernel)


def stationary_parts(kernel: Kernel, dimension: int) -> tuple[float, FloatArray]:
    """Smoothness nu (infinity for RBF) and the d length scales of an RBF or Matern kernel."""
    if not isinstance(kernel, RBF):  # Matern is a subclass of RBF
        raise InvalidInput(f"Fourier features got {kernel}; they exist for RBF and Matern kernels.")
    nu = float(kernel.nu) if isinstance(kernel, Matern) else math.inf
    scales = np.atleast_1d(np.asarray(kernel.length_scale, dtype=np.float64))
    if scales.shape not in ((1,), (dimension,)):
        raise InvalidInput(
            f"{kernel} has {scales.size} length scales for {dimension} columns; give one, or one "
            "for each column."
        )
    if not (np.isfinite(scales).all() and (scales > 0.0).all() and nu > 0.0):
        raise InvalidInput(f"{kernel} must have length scales and nu above 0, scales finite.")
    return nu, np.broadcast_to(scales, (dimension,))


def constant_features(domain: Box, value: float) -> FourierFeatures:
    """The one feature sqrt(c) of the constant kernel c: the frequency 0."""
    zero = np.zeros((1, domain.dimension))
    weight = positive_number(value, "the value of a ConstantKernel")
    return FourierFeatures(domain, zero, np.array([weight]), ConstantKernel(weight))


def product_form(kernel: Kernel, dimension: int) -> Kernel:
    """The kernel itself if its spectral density is a product, else the product of 1-d Materns."""
    nu, scales = stationary_parts(kernel, dimension)
    if math.isinf(nu) or dimension == 1:
        return kernel
    product = Additive(Matern(float(scales[0]), nu=nu), groups=((0,),))
    for column in range(1, dimension):
        product = product * Additive(Matern(float(scales[column]), nu=nu), groups=((column,),))
    return product
