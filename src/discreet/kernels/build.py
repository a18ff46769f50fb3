"""From a scikit-learn kernel to a feature map with a stated error.

The kernel is read as a tree. Columns that an `Additive` kernel keeps apart get a map each, so that
the groups survive; everything else is built and rotated as one. Errors are shared out so that they
add up: |sum_i w_i e_i| <= sum_i w_i |e_i|.

| kernel                        | map                                                            |
|-------------------------------|----------------------------------------------------------------|
| RBF, Matern                   | quadrature or random Fourier features, rotated                 |
| ConstantKernel                | one constant feature; as a factor it scales                    |
| RBF * RBF, RBF ** p           | an RBF: exp(-r^2/2a^2) exp(-r^2/2b^2) has 1/a^2 + 1/b^2        |
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
from discreet.kernels.base import FeatureMap, OutOfReach, public_points, sub_box
from discreet.kernels.compose import AdditiveFeatures, rotate, scaled, sum_features
from discreet.kernels.finite import finite_features
from discreet.kernels.fourier import (
    FourierFeatures,
    constant_features,
    product_form,
    random_features,
    smallest_rule,
    stationary_parts,
    tensor_rule,
)
from discreet.kernels.linear import LinearFeatures
from discreet.kernels.nystrom import check_diagonal, nystrom_features
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
MOST_RANDOM = 8192
# Basis points of a Nystrom map that is rotated: the axes are taken from about as many points.
MOST_BASIS = 1024
# The part of the error that a map may have before rotation. Accuracy costs little by quadrature,
# more by basis points, and much by random features.
BEFORE_ROTATION = {"quadrature": 0.25, "nystrom": 0.5, "random": 0.85}


def feature_map(
    kernel: Kernel,
    domain: Box,
    *,
    error: float = 1e-3,
    most_features: int = 400,
    method: str = "quadrature",
    rotated: bool = True,
    points: ArrayLike | None = None,
    features: int | None = None,
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
        rotated: keep principal axes only (see `rotate`).
        points: (N, d) public points over which the error is measured and axes are taken; by
            default low-discrepancy points of the box. For `finite` the whole domain.
        features: for `random`: this many features for each RBF or Matern, unrotated and without
            regard to `error`.
        seed: of public points and random frequencies; public.

    Raises:
        InvalidInput: for an unsupported kernel, or an error that `most_features` do not reach; the
            message says which one they do.
    """
    instance_of(domain, "the domain", Box, "a discreet.domain.Box")
    error = positive_number(error, "error")
    most = whole_number(most_features, "most_features", minimum=1)
    one_of(method, "method", METHODS)
    check_diagonal(kernel)
    if method == "finite" and points is None:
        raise InvalidInput("method 'finite' got no points; pass the finite public domain.")
    if features is not None and method != "random":
        raise InvalidInput(
            f"features was {features} for method {method!r}; it goes with 'random'. Set `error`, "
            "or rotate a finer map with rotate(map, features=...)."
        )
    where = None
    if points is not None:
        domain.to_unit(points)
        where = np.unique(np.asarray(points, dtype=np.float64), axis=0)
    plan = _Plan(method, rotated, where, features, whole_number(seed, "seed"), most)
    if features is not None:
        return plan.build(kernel, domain, error)
    try:
        return plan.fit(kernel, domain, error)
    except OutOfReach as reason:
        raise InvalidInput(_what_is_reached(plan, kernel, domain, error, reason)) from reason


@dataclass(frozen=True)
class _Plan:
    """The options of `feature_map`, and the recursion over the kernel's tree."""

    method: str
    rotated: bool
    points: FloatArray | None
    features: int | None
    seed: int
    most: int

    def fit(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        """A map within the error and the number of features, or `OutOfReach`."""
        # Shares add up to the error over each part's own points; over the joint points they may
        # exceed it by a little, and then a smaller target is tried.
        for target in (error, 0.7 * error, 0.4 * error):
            built = self.build(kernel, domain, target)
            if built.features > self.most:
                raise OutOfReach(f"that needs {built.features} features")
            if built.sup_error(self.points, self.seed) <= error:
                return built
        raise OutOfReach("the parts of the kernel add up to a larger error")

    def build(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        kind = type(kernel)
        if self.method == "finite" and not _has_groups(kernel):
            assert self.points is not None
            return finite_features(kernel, domain, self.points, error=error)
        if self.method == "nystrom" and not _has_groups(kernel):
            return self._rotated("nystrom", self._nystrom, kernel, domain, error)
        if kind is Additive:
            return self._additive(kernel, domain, error)
        if kind is Sum:
            # Rotating all features together would mix the groups of an additive term.
            if _has_groups(kernel):
                return self._sum(kernel, domain, error)
            return self._rotated(self.method, self._sum, kernel, domain, error)
        constant, others = _merged(_factors(kernel))
        if not others:
            return constant_features(domain, constant)
        if kind in (Product, Exponentiation) and len(others) == 1 and others[0] is not kernel:
            return scaled(self.build(others[0], domain, error / constant), constant)
        if kind in (RBF, Matern):
            return self._rotated(self.method, self._stationary, kernel, domain, error)
        if kind is DotProduct:
            return LinearFeatures(domain, float(kernel.sigma_0))
        if kind is Exponentiation and type(kernel.kernel) is DotProduct and _is_whole(kernel):
            return LinearFeatures(domain, float(kernel.kernel.sigma_0), int(kernel.exponent))
        if self.features is not None:
            raise InvalidInput(
                f"features was {self.features}, but {kernel} is not an RBF or Matern kernel, of "
                "which random features are made; set `error` instead."
            )
        return self._rotated("nystrom", self._nystrom, kernel, domain, error)

    def _additive(self, kernel: Additive, domain: Box, error: float) -> FeatureMap:
        groups = kernel.resolve(domain.dimension)
        weight = 1.0 / len(groups)
        parts = [
            (c, self._on(c).build(part, sub_box(domain, c), error), weight) for c, part in groups
        ]
        return AdditiveFeatures(domain, tuple(parts))

    def _sum(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        terms = _flatten(kernel, Sum)
        return sum_features([self.build(k, domain, error / len(terms)) for k in terms])

    def _rotated(
        self,
        method: str,
        make: Callable[[Kernel, Box, float], FeatureMap],
        kernel: Kernel,
        domain: Box,
        error: float,
    ) -> FeatureMap:
        """What `make` builds for an error, rotated if that is wanted and takes fewer features."""
        if not self.rotated or self.features is not None:
            return make(kernel, domain, error)
        base = make(kernel, domain, BEFORE_ROTATION[method] * error)
        turned = rotate(base, error, points=self.points, seed=self.seed)
        return turned if turned.features < base.features else base

    def _stationary(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        if self.method == "random":
            return self._random(kernel, domain, error)
        nu, scales = stationary_parts(kernel, domain.dimension)
        widths = np.subtract(domain.upper, domain.lower)
        form = product_form(kernel, domain.dimension)
        # The errors of the columns add up to at most d times the largest, and the largest error of
        # the product is often that of one column alone: try the cheap target first.
        for target in (0.85 * error, 0.85 * error / domain.dimension):
            rules = [smallest_rule(nu, s, w, target) for s, w in zip(scales, widths, strict=True)]
            built = FourierFeatures(domain, *tensor_rule(rules, error / 20.0), form)
            if built.sup_error(self.points, self.seed) <= error:
                break
        return built

    def _random(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        if self.features is not None:
            return random_features(kernel, domain, self.features, self.seed)
        most = MOST_RANDOM if self.rotated else max(self.most - self.most % 2, 2)
        count = min(64, most)
        while True:
            built = random_features(kernel, domain, count, self.seed)
            reached = built.sup_error(self.points, self.seed)
            if reached <= error:
                return built
            if count == most:
                raise OutOfReach(f"{count} random features reach {reached:.2g} for {kernel}")
            count = min(2 * count, most)

    def _nystrom(self, kernel: Kernel, domain: Box, error: float) -> FeatureMap:
        most = max(self.most, MOST_BASIS) if self.rotated else self.most
        return nystrom_features(
            kernel, domain, error=error, most_features=most, points=self.points, seed=self.seed
        )

    def _on(self, columns: tuple[int, ...]) -> _Plan:
        if self.points is None:
            return self
        return replace(self, points=np.unique(self.points[:, list(columns)], axis=0))


def _what_is_reached(
    plan: _Plan, kernel: Kernel, domain: Box, error: float, reason: OutOfReach
) -> str:
    asked = f"{kernel} was asked for a sup error of {error:g} with at most {plan.most} features"
    largest = float(np.max(kernel.diag(public_points(domain, 64))))
    # A coarse search: each step builds a map, and the answer need only be true, not sharp.
    target = 4.0 * error
    while target < largest:
        try:
            built = plan.fit(kernel, domain, target)
        except OutOfReach:
            target *= 4.0
            continue
        reached = built.sup_error(plan.points, plan.seed)
        return (
            f"{asked}; {built.features} features reach {reached:.2g}. Allow a larger error or more "
            "features, or choose a longer length scale, a smoother or an additive kernel."
        )
    return (
        f"{asked}; no error below {largest:g} is reached ({reason}). Choose an additive kernel, a "
        "longer length scale, a smoother kernel, or more features."
    )


def _has_groups(kernel: Any) -> bool:
    """Whether a map of this kernel has coordinate groups worth keeping apart."""
    if type(kernel) is Additive:
        return True
    if type(kernel) is Product:
        _, others = _merged(_factors(kernel))
        return len(others) == 1 and _has_groups(others[0])
    return type(kernel) is Sum and any(map(_has_groups, _flatten(kernel, Sum)))


def _flatten(kernel: Any, kind: Any) -> list[Kernel]:
    if type(kernel) is kind:
        return _flatten(kernel.k1, kind) + _flatten(kernel.k2, kind)
    return [kernel]


def _factors(kernel: Kernel) -> list[Kernel]:
    """The factors of products and of whole powers of RBF kernels and constants."""
    if type(kernel) is Product:
        return _factors(kernel.k1) + _factors(kernel.k2)
    if type(kernel) is Exponentiation and type(kernel.kernel) in (RBF, ConstantKernel):
        return [kernel.kernel] * int(kernel.exponent) if _is_whole(kernel) else [kernel]
    return [kernel]


def _is_whole(power: Exponentiation) -> bool:
    """Whether the exponent is a whole number from 1 to the largest degree."""
    return bool(power.exponent == int(power.exponent) and 1 <= power.exponent <= MOST_DEGREE)


def _merged(factors: list[Kernel]) -> tuple[float, list[Kernel]]:
    """The product of the constants, and the other factors with all RBF kernels made one."""
    constant = 1.0
    others: list[Kernel] = []
    precision: Any = None
    for kernel in factors:
        if type(kernel) is ConstantKernel:
            constant *= positive_number(kernel.constant_value, "the value of a ConstantKernel")
        elif type(kernel) is RBF:
            added = 1.0 / np.asarray(kernel.length_scale, dtype=np.float64) ** 2
            precision = added if precision is None else precision + added
        else:
            others.append(kernel)
    if precision is not None:
        others.insert(0, RBF(1.0 / np.sqrt(precision)))
    return constant, others
