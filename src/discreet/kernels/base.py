"""What every feature map is: phi: R^d -> R^m with phi(x)'phi(z) close to a kernel k(x, z).

A private learner adds noise of a size fixed by the largest ||phi(x)||, so each map carries a bound
of that norm over its public box that is computed from its arrays, never taken on trust. Norms
hold up to the rounding of float64 (about 1e-15 relative).

| array | shape  | meaning                                                      | symbol |
|-------|--------|--------------------------------------------------------------|--------|
| X     | (n, d) | inputs in the declared units of the box                      | x      |
| phi   | (n, m) | features                                                     | Phi(x) |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin

from discreet.domain import Box
from discreet.kernels.points import public_points
from discreet.validation import FloatArray, InvalidInput, finite_matrix


@dataclass(frozen=True)
class Group:
    """One coordinate group of an additive map.

    Attributes:
        columns: the columns of X that the group reads.
        features: the features that depend on those columns only.
        map: the group alone: `map.transform(X[:, columns])` equals `transform(X)[:, features]`.
    """

    columns: tuple[int, ...]
    features: slice
    map: FeatureMap


class FeatureMap(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A finite feature map on a public box; a scikit-learn transformer that learns nothing.

    Attributes:
        domain: the public box of inputs.
        features: the number of features m.
        norm_bound: an upper bound of ||phi(x)|| for every x in the box, or None if there is none.
        kernel: the scikit-learn kernel that phi(x)'phi(z) approximates, or None if unknown.
    """

    domain: Box
    features: int
    norm_bound: float | None
    kernel: Any

    @abstractmethod
    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803 - scikit-learn's name
        """`transform` without its checks, for inputs (n, d) of the box; it refuses none of them.

        The features of an input do not depend on what the others are. They are 0 for one that
        `check` refuses although it lies in the box.
        """

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        """`InvalidInput` for inputs (n, d) outside the box, or that the map has no features for."""
        self.domain.to_unit(X)

    def transform(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """The features (n, m) of inputs (n, d) in the declared units.

        Raises:
            InvalidInput: for a wrong shape, NaN, or an input outside the box.
        """
        return self.compute(self._checked(X))

    def fit(self, X: ArrayLike | None = None, y: Any = None) -> Self:  # noqa: N803
        """Check the inputs and return the map unchanged: nothing is learned from them."""
        if X is not None:
            self._checked(X)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """(m,) names such as `fourierfeatures0`."""
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(self.features)], dtype=object)

    def set_params(self, **params: Any) -> Self:
        """Build the map anew with some parameters replaced, so that they are checked again."""
        known = self.get_params(deep=False)
        unknown = set(params) - set(known)
        if unknown:
            raise InvalidInput(
                f"{type(self).__name__} got the parameters {sorted(unknown)}; it has "
                f"{sorted(known)}."
            )
        type(self).__init__(self, **{**known, **params})
        return self

    @property
    def n_features_in_(self) -> int:
        """The number of columns d (scikit-learn's name)."""
        return self.domain.dimension

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def groups(self) -> tuple[Group, ...]:
        """The coordinate groups of an additive map; one group with all columns otherwise."""
        return (Group(tuple(range(self.domain.dimension)), slice(0, self.features), self),)

    def error_range(self, points: ArrayLike | None = None, seed: int = 0) -> tuple[float, float]:
        """The least and largest k(x, z) - phi(x)'phi(z) over pairs of a public set; `sup_error`."""
        kernel = self._known_kernel()
        where = self._error_points(seed) if points is None else self._checked(points)
        phi = self.compute(where)
        error = np.asarray(kernel(where)) - phi @ phi.T
        return float(error.min()), float(error.max())

    def sup_error(self, points: ArrayLike | None = None, seed: int = 0) -> float:
        """The largest |k(x, z) - phi(x)'phi(z)| over all pairs of a finite public set.

        This is a maximum over finitely many pairs, not a proof about the whole box.

        Args:
            points: (N, d) the set; by default about 1000 low-discrepancy points of the box with
                its corners and boundary (`public_points`).
            seed: of the default points.

        Raises:
            InvalidInput: when the kernel is unknown, or for points outside the box.
        """
        low, high = self.error_range(points, seed)
        return max(-low, high, 0.0)

    def residual(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """(n,) what each input loses of its length: k(x, x) - ||phi(x)||^2, in units of k.

        Raises:
            InvalidInput: when the kernel is unknown, or as `transform`.
        """
        where = self._checked(X)
        phi = self.compute(where)
        left: FloatArray = self._known_kernel().diag(where) - np.einsum("ij,ij->i", phi, phi)
        return left

    @abstractmethod
    def to_fields(self) -> dict[str, Any]:
        """The arrays of the map as JSON values; `wire.encode_map` adds its kind."""

    def _known_kernel(self) -> Any:
        if self.kernel is None:
            raise InvalidInput(
                f"this {type(self).__name__} does not know its kernel, so it has no error; pass "
                "`kernel` when you make it."
            )
        return self.kernel

    def _error_points(self, seed: int) -> FloatArray:
        return public_points(self.domain, seed=seed)

    def _checked(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        self.check(X)
        return np.asarray(self.domain.in_order(X), dtype=np.float64)


def check_domain(domain: Any) -> Box:
    """`domain` if it is a Box, `InvalidInput` otherwise."""
    if not isinstance(domain, Box):
        raise InvalidInput(
            f"the domain was a {type(domain).__name__}; give a discreet.domain.Box with the "
            "public bounds of each column."
        )
    return domain


def check_map(given: Any, name: str) -> FeatureMap:
    """`given` if it is a feature map, `InvalidInput` otherwise."""
    if not isinstance(given, FeatureMap):
        raise InvalidInput(f"{name} was a {type(given).__name__}; give a FeatureMap.")
    return given


def own_matrix(values: ArrayLike, name: str, columns: int | None = None) -> FloatArray:
    """A read-only C-ordered copy of a matrix.

    The order matters: the same numbers in another order may be summed differently, and a map that
    travelled must give bit-identical features.
    """
    if columns is None:
        shape = np.shape(values)
        columns = shape[1] if len(shape) == 2 else 1
    array = np.array(finite_matrix(values, name, columns), order="C", copy=True)
    array.setflags(write=False)
    return array
