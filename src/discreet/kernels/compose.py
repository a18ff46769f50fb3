"""Maps made of maps: sums over coordinate groups, products, and scaling.

| kernel                       | features                          | squared norm        |
|------------------------------|-----------------------------------|---------------------|
| sum_g w_g k_g(x_g, z_g)      | sqrt(w_g) phi_g, side by side     | sum_g w_g norm_g^2  |
| k_1(x, z) k_2(x, z) ...      | Kronecker product phi_1 x phi_2   | product of norm^2   |
| c k(x, z)                    | sqrt(c) phi                       | c norm^2            |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import ConstantKernel

from discreet.domain import Box
from discreet.kernels.additive import Additive
from discreet.kernels.base import FeatureMap, Group, check_domain, check_map
from discreet.kernels.fused import fuse
from discreet.kernels.points import sub_box
from discreet.validation import FloatArray, InvalidInput, positive_number

# The Kronecker product of small arrays can be huge; more features than this are refused.
MOST_FEATURES = 100_000

Part = tuple[Sequence[int], FeatureMap, float]


class AdditiveFeatures(FeatureMap):
    """k(x, z) = sum_g w_g k_g(x_g, z_g) by the features of each group, side by side.

    Args:
        domain: the public box of all columns.
        parts: tuples (columns, map, weight): the columns of X that the map reads, in the order of
            the map's own columns, and a weight above 0. Groups may share columns.

    Raises:
        InvalidInput: for a map whose box is not that of its columns, or a bad weight.
    """

    def __init__(self, domain: Box, parts: Sequence[Part]) -> None:
        self.domain = check_domain(domain)
        self.parts = parts
        if len(parts) == 0:
            raise InvalidInput("an additive map got no parts; give at least one.")
        checked = []
        for columns, given, weight in parts:
            part = check_map(given, "a part of an additive map")
            box = sub_box(domain, columns)
            if (box.lower, box.upper) != (part.domain.lower, part.domain.upper):
                raise InvalidInput(
                    f"the columns {tuple(columns)} have the bounds {box.lower} to {box.upper}, "
                    f"their map has {part.domain.lower} to {part.domain.upper}; make the map on "
                    "the box of its columns (discreet.kernels.sub_box)."
                )
            checked.append(
                (tuple(int(c) for c in columns), part, positive_number(weight, "weight"))
            )
        self._parts = checked
        self.features = sum(part.features for _, part, _ in checked)
        self.norm_bound = _norm(
            [None if p.norm_bound is None else w * p.norm_bound**2 for _, p, w in checked]
        )
        self.kernel = self._sum_of_kernels()
        self._fused = fuse(domain, checked)

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        super().check(X)
        points = np.asarray(self.domain.in_order(X))
        for columns, part, _ in self._parts:
            part.check(points[:, columns])

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        if self._fused is not None:
            return self._fused.compute(X)
        phi: FloatArray = np.empty((len(X), self.features))
        start = 0
        for columns, part, weight in self._parts:
            stop = start + part.features
            np.multiply(part.compute(X[:, columns]), math.sqrt(weight), out=phi[:, start:stop])
            start = stop
        return phi

    @property
    def groups(self) -> tuple[Group, ...]:
        found = []
        start = 0
        for columns, part, weight in self._parts:
            for group in part.groups:
                place = slice(start + group.features.start, start + group.features.stop)
                inside = tuple(columns[c] for c in group.columns)
                found.append(Group(inside, place, scaled(group.map, weight)))
            start += part.features
        return tuple(found)

    def error_range(self, points: ArrayLike | None = None, seed: int = 0) -> tuple[float, float]:
        """As `FeatureMap.error_range`; by default over the product of the groups' own point sets.

        Where no column is in two groups, each group takes its worst pair at the same time as the
        others, so the maximum over the product is the sum of the groups' maxima.
        """
        used = [c for columns, _, _ in self._parts for c in columns]
        if points is not None or len(set(used)) < len(used) or self.kernel is None:
            return super().error_range(points, seed)
        ranges = [(w, part.error_range(seed=seed)) for _, part, w in self._parts]
        return sum(w * low for w, (low, _) in ranges), sum(w * high for w, (_, high) in ranges)

    def to_fields(self) -> dict[str, Any]:
        return {
            "parts": [
                {"columns": list(columns), "map": part, "weight": weight}
                for columns, part, weight in self._parts
            ]
        }

    def _sum_of_kernels(self) -> Any:
        kernels = [part.kernel for _, part, _ in self._parts]
        if any(kernel is None for kernel in kernels):
            return None
        everything = tuple(range(self.domain.dimension))
        groups = tuple(columns for columns, _, _ in self._parts)
        weights = [weight for _, _, weight in self._parts]
        if len(set(weights)) == 1 and groups != (everything,) * len(groups):
            # Equal weights are the mean of `Additive`, times their sum.
            shared = all(kernel == kernels[0] for kernel in kernels[1:])
            mean = Additive(kernels[0] if shared else kernels, groups)
            total = math.fsum(weights)
            return mean if math.isclose(total, 1.0) else ConstantKernel(total) * mean
        terms = []
        for columns, kernel, weight in zip(groups, kernels, weights, strict=True):
            placed = kernel if columns == everything else Additive(kernel, (columns,))
            terms.append(placed if weight == 1.0 else ConstantKernel(weight) * placed)
        return sum(terms[1:], start=terms[0])


def sum_features(maps: Sequence[FeatureMap]) -> FeatureMap:
    """The map of k_1 + k_2 + ... for maps on the same box: their features side by side."""
    first, *others = [check_map(given, "a map to add") for given in maps]
    if not others:
        return first
    columns = tuple(range(first.domain.dimension))
    return AdditiveFeatures(first.domain, tuple((columns, part, 1.0) for part in maps))


class ProductFeatures(FeatureMap):
    """k(x, z) = prod_i k_i(x, z) by Kronecker products of features; norms multiply.

    Args:
        maps: two or more maps on the same box.

    Raises:
        InvalidInput: for maps on different boxes, or more than 100,000 features.
    """

    def __init__(self, maps: Sequence[FeatureMap]) -> None:
        self.maps = maps
        if len(maps) == 0:
            raise InvalidInput("a product of maps got no maps; give at least one.")
        parts = [check_map(given, "a factor") for given in maps]
        self._parts = parts
        self.domain = parts[0].domain
        if any(part.domain != self.domain for part in parts):
            raise InvalidInput("the factors of a product had different boxes; use one box.")
        self.features = math.prod(part.features for part in parts)
        if self.features > MOST_FEATURES:
            raise InvalidInput(
                f"a product of maps had {self.features} features; at most {MOST_FEATURES} are "
                "allowed. Rotate the factors first, or allow a larger error."
            )
        bounds = [part.norm_bound for part in parts]
        self.norm_bound = (
            math.prod(b for b in bounds if b is not None) if None not in bounds else None
        )
        kernels = [part.kernel for part in parts]
        self.kernel = None
        if all(kernel is not None for kernel in kernels):
            self.kernel = kernels[0]
            for kernel in kernels[1:]:
                self.kernel = self.kernel * kernel

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        for part in self._parts:
            part.check(X)

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        phi = self._parts[0].compute(X)
        for part in self._parts[1:]:
            phi = (phi[:, :, None] * part.compute(X)[:, None, :]).reshape(len(X), -1)
        return phi

    def to_fields(self) -> dict[str, Any]:
        return {"maps": list(self._parts)}


class ScaledFeatures(FeatureMap):
    """c k(x, z) by sqrt(c) phi(x).

    Args:
        base: the map of k.
        factor: c, above 0.
    """

    def __init__(self, base: FeatureMap, factor: float) -> None:
        self.base = check_map(base, "the map to scale")
        self.factor = factor
        self._factor = positive_number(factor, "the factor of a kernel")
        self.domain, self.features = base.domain, base.features
        self.norm_bound = _norm([base.norm_bound and self._factor * base.norm_bound**2])
        self.kernel = None if base.kernel is None else ConstantKernel(self._factor) * base.kernel

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        self.base.check(X)

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        return self.base.compute(X) * math.sqrt(self._factor)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(
            Group(group.columns, group.features, scaled(group.map, self._factor))
            for group in self.base.groups
        )

    def error_range(self, points: ArrayLike | None = None, seed: int = 0) -> tuple[float, float]:
        low, high = self.base.error_range(points, seed)
        return self._factor * low, self._factor * high

    def to_fields(self) -> dict[str, Any]:
        return {"base": self.base, "factor": self._factor}


def scaled(base: FeatureMap, factor: float) -> FeatureMap:
    """The map of c k(x, z); the map itself for c = 1, and factors of factors multiply."""
    if factor == 1.0:
        return base
    if isinstance(base, ScaledFeatures):
        return scaled(base.base, factor * base._factor)
    return ScaledFeatures(base, factor)


def _norm(squares: Sequence[float | None]) -> float | None:
    """The square root of a sum of squared norms; None where one is not certified.

    A sum that differs from 1 by rounding only is 1: twenty groups of weight 1/20 have norm 1.
    """
    known = [square for square in squares if square is not None]
    if len(known) < len(squares):
        return None
    norm = math.sqrt(math.fsum(known))
    return 1.0 if abs(norm - 1.0) <= 1e-12 else norm
