"""From a scikit-learn kernel to a feature map with a stated error.

The kernel is read as a tree. Columns that an `Additive` kernel keeps apart get a map each, so that
the groups survive; everything else is built and rotated as one. Errors are shared out so that they
add up: |sum_i w_i e_i| <= sum_i w_i |e_i|.

| kernel                        | map                                                            |
|-------------------------------|----------------------------------------------------------------|
| RBF, Matern                   | quadrature or random Fourier features, rotated                 |
| ConstantKernel                | one constant feature; as a factor it scales                    |
| DotProduct, its whole powers  | exact polynomial features                                      |
| a + b                         | features side by side, rotated                                 |
| Additive(kernel, groups)      | one map for each group                                         |
| every other                   | its projection onto public points (`nystrom_features`)         |

The methods `finite` and `nystrom` need no such tree: they build every kernel without groups as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Kernel,
    Matern,
    Product,
    Sum,
)

from discreet.domain import Box
from discreet.kernels.additive import Additive
from discreet.kernels.base import FeatureMap, OutOfReach, sub_box
from discreet.kernels.compose import AdditiveFeatures, rotate, scaled, sum_features
from discreet.kernels.fourier import (
    constant_features,
    random_features,
    smallest_rule,
    stationary_parts,
    tensor_features,
    widths_in,
)
from discreet.kernels.linear import LinearFeatures
from discreet.kernels.nystrom import check_diagonal, finite_features, nystrom_features
from discreet.kernels.text import MOST_DEGREE
from discreet.validation import (
    FloatArray,
    InvalidInput,
    instance_of,
    one_of,
    positive_number,
    whole_number,
)

METHODS = ("quadrature", "random", "finite", "nystrom")
# Random features are drawn up to this many before they are rotated onto fewer.
_MOST_RANDOM = 8192
# Basis points of a Nystrom map that is rotated: the axes are taken from about as many points.
_MOST_BASIS = 1024
# The part of the error that a map may have before rotation. Accuracy costs little by quadrature,
# more by basis points, and much by random features.
_BEFORE_ROTATION = {"quadrature": 0.25, "nystrom": 0.5, "random": 0.85}


def feature_map(
    kernel: Kernel,
    domain: Box,
    *,
    error: float = 1e-3,
    most_features: int = 400,
    method: str = "quadrature",
    points: ArrayLike | None = None,
    seed: int = 0,
) -> FeatureMap:
    """The smallest map found whose `sup_error` for a scikit-learn kernel is at most `error`.

    For d > 1 the quadrature replaces a Matern kernel by the product of 1-d Matern kernels, which
    is *not* the isotropic Matern (`quadrature_features` says more); the kernel of the result shows
    it. The methods `random`, `finite` and `nystrom` keep the isotropic kernel.

    If k(x, x) exceeds 1, so does `norm_bound`: it is certified all the same.

    Args:
        kernel: stationary kernels, ConstantKernel, DotProduct, their sums, products and powers,
            and `Additive`. Hyperparameters are public constants; their bounds play no role.
        domain: the public box, in whose declared units the length scales are.
        error: the largest |k(x, z) - phi(x)'phi(z)| over a finite set of pairs; see `sup_error`.
        most_features: refuse to make more features than this.
        method: `quadrature`, `random` (random Fourier features), `finite` (exact on `points`), or
            `nystrom` (projection onto public points).
        points: (N, d) public points over which the error is measured and axes are taken; by
            default low-discrepancy points of the box. For `finite` the whole domain.
        seed: of public points and random frequencies; public.

    Raises:
        InvalidInput: for an unsupported kernel, or an error that `most_features` do not reach; the
            message says how many it takes, or which error is reached.
    """
    instance_of(domain, "the domain", Box, "a discreet.domain.Box")
    error = positive_number(error, "error")
    most = whole_number(most_features, "most_features", minimum=1)
    one_of(method, "method", METHODS)
    check_diagonal(kernel)
    if method == "finite" and points is None:
        raise InvalidInput("method 'finite' got no points; pass the finite public domain.")
    where = None
    if points is not None:
        domain.to_unit(points)
        where = np.unique(np.asarray(points, dtype=np.float64), axis=0)
    plan = _Plan(method, where, whole_number(seed, "seed"), most)
    reason = ""
    # Shares add up to the error over each part's own points; over the joint points they may exceed
    # it by a little, and then a smaller target is tried.
    for target in (error, 0.7 * error, 0.4 * error):
        try:
            built = plan.build(kernel, domain, target)
        except OutOfReach as refusal:
            reason = reason or str(refusal)
            break
        reached = built.sup_error(where, plan.seed)
        if built.features <= most and reached <= error:
            return built
        reason = reason or f"{built.features} features reach {reached:.2g}."
        if built.features > most:
            break
    raise InvalidInput(
        f"{kernel} was asked for a sup error of {error:g} with at most {most} features; {reason} "
        "Allow a larger error or more features, or choose a longer length scale, a smoother or an "
        "additive kernel."
    )


@dataclass(frozen=True)
class _Plan:
    """The options of `feature_map`, and the recursion over the kernel's tree."""

    method: str
    points: FloatArray | None
    seed: int
    most: int

    def build(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        """A map with about that error; `OutOfReach` where there is none."""
        if not _has_groups(kernel):
            if self.method == "finite":
                assert self.points is not None
                return finite_features(kernel, domain, self.points, error=error)
            if self.method == "nystrom":
                return self._rotated("nystrom", self._nystrom, kernel, domain, error)
        match kernel:
            case Additive():
                groups = kernel.resolve(domain.dimension)
                parts = [(c, self._on(c).build(k, sub_box(domain, c), error)) for c, k in groups]
                weight = 1.0 / len(groups)
                return AdditiveFeatures(domain, tuple((c, part, weight) for c, part in parts))
            case Sum() if _has_groups(kernel):
                # Rotating all features together would mix the groups of an additive term.
                return self._sum(kernel, domain, error)
            case Sum():
                return self._rotated(self.method, self._sum, kernel, domain, error)
            case ConstantKernel(constant_value=value):
                return constant_features(domain, value)
            case (
                Product(k1=ConstantKernel(constant_value=value), k2=other)
                | Product(k1=other, k2=ConstantKernel(constant_value=value))
            ):
                return scaled(self.build(other, domain, error / value), value)
            case RBF() if type(kernel) in (RBF, Matern):
                return self._rotated(self.method, self._stationary, kernel, domain, error)
            case DotProduct(sigma_0=offset):
                return LinearFeatures(domain, float(offset))
            case Exponentiation(kernel=DotProduct(sigma_0=offset), exponent=power) if (
                power == int(power) and power <= MOST_DEGREE
            ):
                return LinearFeatures(domain, float(offset), int(power))
        return self._rotated("nystrom", self._nystrom, kernel, domain, error)

    def _on(self, columns: tuple[int, ...]) -> _Plan:
        """The plan for some columns only."""
        if self.points is None:
            return self
        return replace(self, points=np.unique(self.points[:, list(columns)], axis=0))

    def _rotated(
        self,
        method: str,
        make: Callable[[Kernel, Box, float], FeatureMap],
        kernel: Kernel,
        domain: Box,
        error: float,
    ) -> FeatureMap:
        """What `make` builds for an error, rotated if that takes fewer features."""
        base = make(kernel, domain, _BEFORE_ROTATION[method] * error)
        turned = rotate(base, error, points=self.points, seed=self.seed)
        return turned if turned.features < base.features else base

    def _sum(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        terms = _terms(kernel)
        return sum_features([self.build(k, domain, error / len(terms)) for k in terms])

    def _stationary(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        if self.method == "random":
            return self._random(kernel, domain, error)
        nu, scales = stationary_parts(kernel, domain.dimension)
        ratios = widths_in(scales, domain)
        # The errors of the columns add up to at most d times the largest, and the largest error of
        # the product is often that of one column alone: try the cheap target first.
        for target in (0.85 * error, 0.85 * error / domain.dimension):
            rules = [smallest_rule(nu, ratio, target) for ratio in ratios]
            built = tensor_features(domain, kernel, rules, error / 20.0)
            if built.sup_error(self.points, self.seed) <= error:
                break
        return built

    def _random(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        count = 64
        while True:
            built = random_features(kernel, domain, count, self.seed)
            reached = built.sup_error(self.points, self.seed)
            if reached <= error:
                return built
            if count >= _MOST_RANDOM:
                raise OutOfReach(f"{count} random features reach {reached:.2g} for {kernel}.")
            count *= 2

    def _nystrom(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        most = max(self.most, _MOST_BASIS)
        return nystrom_features(
            kernel, domain, error=error, most_features=most, points=self.points, seed=self.seed
        )


def _has_groups(kernel: Any) -> bool:
    """Whether a map of this kernel has coordinate groups worth keeping apart."""
    match kernel:
        case Additive():
            return True
        case Product(k1=ConstantKernel(), k2=other) | Product(k1=other, k2=ConstantKernel()):
            return _has_groups(other)
    return isinstance(kernel, Sum) and any(map(_has_groups, _terms(kernel)))


def _terms(kernel: Any) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return _terms(kernel.k1) + _terms(kernel.k2)
    return [kernel]
