"""What every feature map is: phi: R^d -> R^m with phi(x)'phi(z) close to a kernel k(x, z).

A private learner adds noise of a size fixed by the largest ||phi(x)||, so each map carries a bound
of that norm over its public box that is computed from its arrays, never taken on trust. Norms
hold up to the rounding of float64 (about 1e-15 relative).

| array | shape  | meaning                                                      | symbol |
|-------|--------|--------------------------------------------------------------|--------|
| X     | (n, d) | inputs in the declared units of the box                      | x      |
| phi   | (n, m) | features                                                     | Phi(x) |

Where the error of a map is measured and its axes are chosen, public points of the box are taken.
They depend on the declared box and a seed only, never on a person, so whatever is computed from
them is public. Errors of kernel approximations are largest between far-away points, so half of the
points lie on the boundary and the corners are included.

Maps travel to devices as arrays, never as a recipe: eigenvectors and quadrature nodes differ
between machines in their last digits and signs, and a statistic only makes sense in the features
it was made with. A map that was read gives bit-identical features on the same machine. Norm bounds
are not sent: a reader computes them anew from the arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import qmc
from sklearn.gaussian_process.kernels import Kernel

from discreet.codec import Serializable, described, fields_to_json, register
from discreet.kernels.text import kernel_from_text, kernel_to_text
from discreet.people.domain import Box
from discreet.validation import FloatArray, InvalidInput, distinct, whole_number

# All corners up to this many columns; a random 64 of them beyond.
ALL_CORNERS = 6

register(Kernel, kernel_to_text, kernel_from_text, "scikit-learn kernel")


class OutOfReach(InvalidInput):
    """The error asked for needs more nodes, frequencies or features than are allowed."""


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


class FeatureMap(Serializable, ABC):
    """A finite feature map on a public box.

    Subclasses are dataclasses of what travels; all else follows from that. Arrays are read-only.

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
    # Whether the features can be computed without the kernel, so that it may be lost on the way.
    spares_kernel: ClassVar[bool] = False

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What `_derive` keeps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # The same numbers in another order may be summed differently, and a map that travelled
        # must give bit-identical features.
        for name, value in tuple(vars(self).items()):
            if isinstance(value, np.ndarray):
                self._derive(**{name: np.ascontiguousarray(value)})

    def __repr__(self) -> str:
        return described(
            type(self).__name__,
            columns=list(self.domain.names),
            features=self.features,
            norm_bound=self.norm_bound,
            kernel=self.kernel,
        )

    @abstractmethod
    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803 - scikit-learn's name
        """`transform` without its checks, for inputs (n, d) of the box; it refuses none of them.

        The features of an input do not depend on what the others are. They are 0 for one that
        `check` refuses although it lies in the box.
        """

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        """`InvalidInput` for inputs (n, d) outside the box, or that the map has no features for."""
        self.domain.to_unit(X)

    def checked(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """Inputs (n, d) in the order of the box, after `check`."""
        self.check(X)
        return np.asarray(self.domain.in_order(X), dtype=np.float64)

    def transform(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """The features (n, m) of inputs (n, d) in the declared units.

        Raises:
            InvalidInput: for a wrong shape, NaN, or an input outside the box.
        """
        return self.compute(self.checked(X))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The coordinate groups of an additive map; one group with all columns otherwise."""
        return (Group(tuple(range(self.domain.dimension)), slice(0, self.features), self),)

    def error_range(self, points: ArrayLike | None = None, seed: int = 0) -> tuple[float, float]:
        """The least and largest k(x, z) - phi(x)'phi(z) over pairs of a public set; `sup_error`."""
        kernel = self._known_kernel()
        where = self.error_points(seed) if points is None else self.checked(points)
        phi = self.compute(where)
        error = np.asarray(kernel(where)) - phi @ phi.T
        return float(error.min()), float(error.max())

    def sup_error(self, points: ArrayLike | None = None, seed: int = 0) -> float:
        """The largest `|k(x, z) - phi(x)'phi(z)|` over all pairs of a finite public set.

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

    def error_points(self, seed: int = 0) -> FloatArray:
        """(N, d) the public points on which `sup_error` is taken where none are given."""
        return public_points(self.domain, seed=seed)

    def residual(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """(n,) what each input loses of its length: k(x, x) - ||phi(x)||^2, in units of k.

        Raises:
            InvalidInput: when the kernel is unknown, or as `transform`.
        """
        where = self.checked(X)
        phi = self.compute(where)
        left: FloatArray = self._known_kernel().diag(where) - np.einsum("ij,ij->i", phi, phi)
        return left

    def to_fields(self) -> dict[str, Any]:
        """The fields as JSON values; a kernel without a text is lost on the way where only
        `sup_error` needs it."""
        try:
            return fields_to_json(self)
        except InvalidInput:
            if not self.spares_kernel:
                raise
            return fields_to_json(replace(self, kernel=None))  # type: ignore[type-var]

    def _known_kernel(self) -> Any:
        if self.kernel is None:
            raise InvalidInput(
                f"this {type(self).__name__} does not know its kernel, so it has no error; pass "
                "`kernel` when you make it."
            )
        return self.kernel

    def _derive(self, **facts: Any) -> None:
        """Keep what follows from the fields; arrays are read-only."""
        for name, value in facts.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            setattr(self, name, value)


def public_points(domain: Box, count: int | None = None, seed: int = 0) -> FloatArray:
    """About `count` low-discrepancy points of a box: interior, boundary, corners and centre.

    Columns with levels take only the values of their levels, so a small discrete box may give
    fewer points.

    Args:
        domain: the public box.
        count: how many points to draw before repetitions are dropped, at least 8; by default 512
            for one column and 1024 for more.
        seed: of the scrambled Sobol sequence.

    Returns:
        (N, d) points in the units of the box.

    Raises:
        InvalidInput: for a count below 8 or a seed that is not a whole number.
    """
    d = domain.dimension
    if count is None:
        count = 512 if d == 1 else 1024
    count = whole_number(count, "count", minimum=8)
    seed = whole_number(seed, "seed")
    rng = np.random.default_rng(seed)
    half = count // 2
    power = int(np.ceil(np.log2(count)))
    sobol = qmc.Sobol(d, scramble=True, seed=rng).random_base2(power)[: 2 * half]
    if d > 1:
        # Each face takes a run of the second half: a run of a Sobol sequence covers the whole
        # face, where every k-th point of it would leave parts of the face empty.
        faces = np.arange(half) * (2 * d) // half
        sobol[half + np.arange(half), faces // 2] = faces % 2
    if d <= ALL_CORNERS:
        corners = np.array(list(product((0.0, 1.0), repeat=d)))
    else:
        corners = rng.integers(0, 2, size=(62, d)).astype(np.float64)
        corners = np.vstack([corners, np.zeros((1, d)), np.ones((1, d))])
    unit = np.vstack([corners, np.full((1, d), 0.5), sobol])
    for column, levels in enumerate(domain.levels):
        if levels is not None:
            unit[:, column] = np.round(unit[:, column] * (levels - 1)) / (levels - 1)
    return domain.from_unit(np.unique(unit, axis=0))


def sub_box(domain: Box, columns: Sequence[int]) -> Box:
    """The box of some columns only, in the order given.

    Raises:
        InvalidInput: for no columns, a repeated column, or one that the box does not have.
    """
    numbers = [whole_number(c, "a column", maximum=domain.dimension - 1) for c in columns]
    chosen = distinct(numbers, "the columns of a group")
    return Box(
        tuple(domain.lower[c] for c in chosen),
        tuple(domain.upper[c] for c in chosen),
        tuple(domain.names[c] for c in chosen),
        tuple(domain.levels[c] for c in chosen),
        tuple(domain.categories[c] for c in chosen),
    )
