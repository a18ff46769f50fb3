"""From a scikit-learn kernel to a feature map with a stated error.

The kernel is read as a tree. Columns that an `Additive` kernel keeps apart get a map each, so that
the groups survive; everything else is built and rotated as one. Errors are shared out so that they
add up: |sum_i w_i e_i| <= sum_i w_i |e_i|.

| kernel                        | map                                                            |
|-------------------------------|----------------------------------------------------------------|
| RBF, Matern                   | Fourier features by quadrature, rotated                        |
| ConstantKernel                | one constant feature; as a factor it scales                    |
| DotProduct, its whole powers  | exact polynomial features                                      |
| a + b                         | features side by side, rotated                                 |
| Additive(kernel, groups)      | one map for each group                                         |
| every other                   | its projection onto public points, rotated                     |
"""

from __future__ import annotations

from collections.abc import Callable
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

from discreet.kernels.base import FeatureMap, OutOfReach, sub_box
from discreet.kernels.compose import AdditiveFeatures, rotate, scaled, sum_features
from discreet.kernels.fourier import (
    constant_features,
    smallest_rule,
    stationary_parts,
    tensor_features,
    widths_in,
)
from discreet.kernels.linear import LinearFeatures
from discreet.kernels.nystrom import check_diagonal, nystrom_features
from discreet.kernels.text import MOST_DEGREE, Additive
from discreet.people.domain import Box
from discreet.validation import FloatArray, InvalidInput, instance_of, positive_number, whole_number

# Basis points of a Nystrom map that is rotated: the axes are taken from about as many points.
_MOST_BASIS = 1024
# The part of the error that a map may have before rotation: accuracy costs little by quadrature,
# more by basis points.
_QUADRATURE, _BASIS = 0.25, 0.5


def feature_map(
    kernel: Kernel,
    domain: Box,
    *,
    error: float = 1e-3,
    most_features: int = 400,
    points: ArrayLike | None = None,
) -> FeatureMap:
    """The smallest map found whose `sup_error` for a scikit-learn kernel is at most `error`.

    For d > 1 the quadrature replaces a Matern kernel by the product of 1-d Matern kernels, which
    is *not* the isotropic Matern (fourier.py); the kernel of the result shows it. `finite_features`
    and `nystrom_features` keep the isotropic kernel.

    If k(x, x) exceeds 1, so does `norm_bound`: it is certified all the same.

    Args:
        kernel: stationary kernels, ConstantKernel, DotProduct, their sums, products and powers,
            and `Additive`. Hyperparameters are public constants; their bounds play no role.
        domain: the public box, in whose declared units the length scales are.
        error: the largest `|k(x, z) - phi(x)'phi(z)|` over a finite set of pairs; see `sup_error`.
        most_features: refuse to make more features than this.
        points: (N, d) public points over which the error is measured and axes are taken; by
            default low-discrepancy points of the box.

    Raises:
        InvalidInput: for an unsupported kernel, or an error that `most_features` do not reach; the
            message says how many reach which error.
    """
    instance_of(domain, "the domain", Box, "a discreet.people.domain.Box")
    error = positive_number(error, "error")
    most = whole_number(most_features, "most_features", minimum=1)
    check_diagonal(kernel)
    where = None
    if points is not None:
        domain.to_unit(points)
        where = np.unique(np.asarray(points, dtype=np.float64), axis=0)
    reason = ""
    # Shares add up to the error over each part's own points; over the joint points they may exceed
    # it by a little, and then a smaller target is tried.
    for target in (error, 0.7 * error, 0.4 * error):
        try:
            built = _built(kernel, domain, target, where)
        except OutOfReach as refusal:
            reason = reason or str(refusal)
            break
        reached = built.sup_error(where)
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


def _built(kernel: Kernel, domain: Box, error: float, points: FloatArray | None) -> FeatureMap:
    """A map with about that error on the points; `OutOfReach` where there is none."""
    match kernel:
        case Additive():
            groups = kernel.resolve(domain.dimension)
            parts = []
            for columns, part in groups:
                own = None if points is None else np.unique(points[:, list(columns)], axis=0)
                built = _built(part, sub_box(domain, columns), error, own)
                parts.append((columns, built, 1.0 / len(groups)))
            return AdditiveFeatures(domain, tuple(parts))
        case Sum() if _has_groups(kernel):
            # Rotating all features together would mix the groups of an additive term.
            return _sum(kernel, domain, error, points)
        case Sum():
            return _rotated(_sum, _QUADRATURE, kernel, domain, error, points)
        case ConstantKernel(constant_value=value):
            return constant_features(domain, value)
        case (
            Product(k1=ConstantKernel(constant_value=value), k2=other)
            | Product(k1=other, k2=ConstantKernel(constant_value=value))
        ):
            return scaled(_built(other, domain, error / value, points), value)
        case RBF() if type(kernel) in (RBF, Matern):
            return _rotated(_stationary, _QUADRATURE, kernel, domain, error, points)
        case DotProduct(sigma_0=offset):
            return LinearFeatures(domain, float(offset))
        case Exponentiation(kernel=DotProduct(sigma_0=offset), exponent=power) if (
            power == int(power) and power <= MOST_DEGREE
        ):
            return LinearFeatures(domain, float(offset), int(power))
    return _rotated(_projection, _BASIS, kernel, domain, error, points)


def _rotated(
    make: Callable[[Kernel, Box, float, FloatArray | None], FeatureMap],
    share: float,
    kernel: Kernel,
    domain: Box,
    error: float,
    points: FloatArray | None,
) -> FeatureMap:
    """What `make` builds for a share of the error, rotated if that takes fewer features."""
    base = make(kernel, domain, share * error, points)
    turned = rotate(base, error, points=points)
    return turned if turned.features < base.features else base


def _sum(kernel: Kernel, domain: Box, error: float, points: FloatArray | None) -> FeatureMap:
    terms = _terms(kernel)
    return sum_features([_built(k, domain, error / len(terms), points) for k in terms])


def _stationary(kernel: Kernel, domain: Box, error: float, points: FloatArray | None) -> FeatureMap:
    nu, scales = stationary_parts(kernel, domain.dimension)
    # The errors of the columns add up to at most d times the largest, and the largest error of
    # the product is often that of one column alone: try the cheap target first.
    for target in (0.85 * error, 0.85 * error / domain.dimension):
        rules = [smallest_rule(nu, ratio, target) for ratio in widths_in(scales, domain)]
        built = tensor_features(domain, kernel, rules, error / 20.0)
        if built.sup_error(points) <= error:
            break
    return built


def _projection(kernel: Kernel, domain: Box, error: float, points: FloatArray | None) -> FeatureMap:
    return nystrom_features(kernel, domain, error=error, most_features=_MOST_BASIS, points=points)


def _has_groups(kernel: Any) -> bool:
    """Whether a map of this kernel has coordinate groups."""
    match kernel:
        case Product(k1=ConstantKernel(), k2=other) | Product(k1=other, k2=ConstantKernel()):
            return _has_groups(other)
        case Sum():
            return any(map(_has_groups, _terms(kernel)))
    return isinstance(kernel, Additive)


def _terms(kernel: Any) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return _terms(kernel.k1) + _terms(kernel.k2)
    return [kernel]
