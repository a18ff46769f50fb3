"""Maps made of maps: coordinate groups side by side, and fewer features by rotation.

Side by side:

    k(x, z) = sum_g w_g k_g(x_g, z_g),    phi = (sqrt(w_1) phi_1, sqrt(w_2) phi_2, ...),

so that ||phi||^2 is at most sum_g w_g norm_g^2. One group with all columns scales a kernel.

A map of 20 groups would spend nearly all of its time on calls, not on arithmetic. Small Fourier
maps of groups are therefore computed in one step: one cosine, one sine, one product with `blocks`.

Rotated: psi(x) = A'phi(x) with orthonormal columns A, the principal axes of phi over public points
alone. Projection never lengthens a vector, so ||psi(x)|| <= ||phi(x)|| everywhere, and the norm
bound stays certified. It saves time and noise coordinates; the kernel it stands for changes by at
most the stated error.

| array       | shape       | meaning                                                    | symbol |
|-------------|-------------|------------------------------------------------------------|--------|
| frequencies | (q, d)      | of all groups, 0 in the columns that a group does not read |        |
| blocks      | (2q - z, m) | each group's axes times the roots of weights (z: zeros)    |        |
| axes        | (m, r)      | orthonormal principal axes of phi over the public points   | A      |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import ConstantKernel

from discreet.codec import Range, Shape
from discreet.kernels.base import FeatureMap, Group, OutOfReach, public_points, sub_box
from discreet.kernels.fourier import FourierFeatures
from discreet.kernels.text import Additive
from discreet.people.domain import Box
from discreet.validation import FloatArray, InvalidInput, instance_of, positive_number

# A larger block matrix is mostly zeros, and then one group after the other is faster.
MOST_ENTRIES = 250_000

Part = tuple[tuple[int, ...], FeatureMap, Annotated[float, Range(above=0.0)]]


@dataclass(eq=False, repr=False)
class AdditiveFeatures(FeatureMap):
    """k(x, z) = sum_g w_g k_g(x_g, z_g) by the features of each group, side by side.

    Args:
        domain: the public box of all columns.
        parts: tuples (columns, map, weight): the columns of X that the map reads, in the order of
            the map's own columns, and a weight above 0. Groups may share columns.

    Raises:
        InvalidInput: for a map whose box is not that of its columns, or a bad weight.
    """

    kind: ClassVar[str] = "additive"

    domain: Box
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts:
            raise InvalidInput("an additive map got no parts; give at least one.")
        for columns, part, _ in self.parts:
            box = sub_box(self.domain, columns)
            if (box.lower, box.upper) != (part.domain.lower, part.domain.upper):
                raise InvalidInput(
                    f"the columns {columns} have the bounds {box.lower} to {box.upper}, their map "
                    f"has {part.domain.lower} to {part.domain.upper}; make the map on the box of "
                    "its columns (discreet.kernels.sub_box)."
                )
        self._derive(
            features=sum(part.features for _, part, _ in self.parts),
            norm_bound=self._norm(),
            kernel=self._sum_of_kernels(),
            _fused=_fused(self.domain, self.parts),
        )

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        super().check(X)
        points = np.asarray(self.domain.in_order(X))
        for columns, part, _ in self.parts:
            part.check(points[:, columns])

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        if self._fused is not None:
            fourier, blocks = self._fused
            return fourier.compute(X) @ blocks  # type: ignore[no-any-return]
        phi: FloatArray = np.empty((len(X), self.features))
        start = 0
        for columns, part, weight in self.parts:
            stop = start + part.features
            own = X if columns == self._all_columns else X[:, columns]
            np.multiply(part.compute(own), math.sqrt(weight), out=phi[:, start:stop])
            start = stop
        return phi

    @property
    def groups(self) -> tuple[Group, ...]:
        groups = []
        start = 0
        for columns, part, weight in self.parts:
            for group in part.groups:
                place = slice(start + group.features.start, start + group.features.stop)
                inside = tuple(columns[c] for c in group.columns)
                groups.append(Group(inside, place, scaled(group.map, weight)))
            start += part.features
        return tuple(groups)

    def error_range(self, points: ArrayLike | None = None, seed: int = 0) -> tuple[float, float]:
        """As `FeatureMap.error_range`; by default over the product of the groups' own point sets.

        Where no column is in two groups, each group takes its worst pair at the same time as the
        others, so the maximum over the product is the sum of the groups' maxima.
        """
        used = [c for columns, _, _ in self.parts for c in columns]
        alone = used == list(self._all_columns) and len(self.parts) == 1
        if self.kernel is None or not (alone or (points is None and len(set(used)) == len(used))):
            return super().error_range(points, seed)
        ranges = [(w, part.error_range(points, seed)) for _, part, w in self.parts]
        return sum(w * low for w, (low, _) in ranges), sum(w * high for w, (_, high) in ranges)

    @property
    def _all_columns(self) -> tuple[int, ...]:
        return tuple(range(self.domain.dimension))

    def _norm(self) -> float | None:
        """The root of the sum of squared norms; None where one is not certified.

        A sum that differs from 1 by rounding only is 1: twenty groups of weight 1/20 have norm 1.
        """
        bounds = [(part.norm_bound, weight) for _, part, weight in self.parts]
        known = [weight * bound**2 for bound, weight in bounds if bound is not None]
        if len(known) < len(bounds):
            return None
        norm = math.sqrt(math.fsum(known))
        return 1.0 if abs(norm - 1.0) <= 1e-12 else norm

    def _sum_of_kernels(self) -> Any:
        kernels = [part.kernel for _, part, _ in self.parts]
        if any(kernel is None for kernel in kernels):
            return None
        groups = tuple(columns for columns, _, _ in self.parts)
        weights = [weight for _, _, weight in self.parts]
        if all(columns == self._all_columns for columns in groups):
            terms = map(_times, weights, kernels)
            return sum(terms, start=next(terms))
        if len(set(weights)) == 1:
            shared = all(kernel == kernels[0] for kernel in kernels)
            return _times(math.fsum(weights), Additive(kernels[0] if shared else kernels, groups))
        shares = [len(weights) * weight for weight in weights]
        return Additive(list(map(_times, shares, kernels)), groups)


def _times(factor: float, kernel: Any) -> Any:
    return kernel if math.isclose(factor, 1.0) else ConstantKernel(factor) * kernel


def sum_features(maps: Sequence[FeatureMap]) -> FeatureMap:
    """The map of k_1 + k_2 + ... for maps on the same box: their features side by side."""
    columns = tuple(range(maps[0].domain.dimension))
    return AdditiveFeatures(maps[0].domain, tuple((columns, part, 1.0) for part in maps))


def scaled(base: FeatureMap, factor: float) -> FeatureMap:
    """The map of c k(x, z), sqrt(c) phi(x); the map itself for c = 1."""
    weight = positive_number(factor, "the factor of a kernel")
    columns = tuple(range(base.domain.dimension))
    return base if weight == 1.0 else AdditiveFeatures(base.domain, ((columns, base, weight),))


def _fused(domain: Box, parts: Sequence[Part]) -> tuple[FourierFeatures, FloatArray] | None:
    """All frequencies and the blocks, or None where a group is no Fourier map or they are large."""
    opened = [_open(part) for _, part, _ in parts]
    bases = [base for base, _ in filter(None, opened)]
    if len(bases) < len(parts) or len(parts) < 2:
        return None
    rows = sum(base.features for base in bases)
    columns = sum(part.features for _, part, _ in parts)
    if rows * columns > MOST_ENTRIES:
        return None
    count = sum(len(base.weights) for base in bases)
    frequencies = np.zeros((count, domain.dimension))
    blocks = np.zeros((rows, columns))
    cosine, sine, start = 0, count, 0
    for (where, part, weight), base, pair in zip(parts, bases, opened, strict=True):
        q, s = len(base.weights), int(base.sines.sum())
        frequencies[cosine : cosine + q, list(where)] = base.frequencies
        axes = np.eye(base.features) if pair is None or pair[1] is None else pair[1]
        block = axes * (base.scales * math.sqrt(weight))[:, None]
        blocks[cosine : cosine + q, start : start + part.features] = block[:q]
        blocks[sine : sine + s, start : start + part.features] = block[q:]
        cosine, sine, start = cosine + q, sine + s, start + part.features
    return FourierFeatures(domain, frequencies, np.ones(count)), blocks


def _open(part: FeatureMap) -> tuple[FourierFeatures, FloatArray | None] | None:
    """The Fourier map in a part, and the axes onto which it is rotated if it is."""
    if isinstance(part, FourierFeatures):
        return part, None
    if isinstance(part, RotatedFeatures) and isinstance(part.base, FourierFeatures):
        return part.base, part.axes
    return None


@dataclass(eq=False, repr=False)
class RotatedFeatures(FeatureMap):
    """Another map's features in fewer, orthonormal directions.

    Args:
        base: the map whose features are projected.
        axes: (m, r) orthonormal columns.

    Raises:
        InvalidInput: for axes of the wrong shape or not orthonormal to 1e-8.
    """

    kind: ClassVar[str] = "rotated"

    base: FeatureMap
    axes: Annotated[FloatArray, Shape("base.features", "r")]

    def __post_init__(self) -> None:
        super().__post_init__()
        with np.errstate(over="ignore", invalid="ignore"):  # NaN is refused too
            off = float(np.abs(self.axes.T @ self.axes - np.eye(self.axes.shape[1])).max())
        if not off <= 1e-8:
            raise InvalidInput(
                f"axes were not orthonormal (their inner products are off by {off:.1e}); use the "
                "axes that `rotate` made, unchanged."
            )
        # Rounding may leave the axes longer than 1 by 1e-16; the bound counts it beyond 1e-12.
        stretch = float(np.linalg.norm(self.axes, 2))
        stretch = 1.0 if abs(stretch - 1.0) <= 1e-12 else stretch
        bound = self.base.norm_bound
        self._derive(
            domain=self.base.domain,
            kernel=self.base.kernel,
            features=self.axes.shape[1],
            norm_bound=None if bound is None else bound * stretch,
        )

    def check(self, X: ArrayLike) -> None:  # noqa: N803
        self.base.check(X)

    def compute(self, X: FloatArray) -> FloatArray:  # noqa: N803
        return self.base.compute(X) @ self.axes


def principal_axes(base: FeatureMap, points: FloatArray) -> FloatArray:
    """(m, r) all principal axes of a map's features over public points (N, d), longest first."""
    phi = base.compute(points)
    if phi.shape[1] <= 2 * len(phi):
        _, singular, rows = np.linalg.svd(phi, full_matrices=False)
        values = singular**2 / len(points)
        kept = max(int((values > 1e-15 * values[0]).sum()), 1)
        return rows[:kept].T
    # With few points for many features the small matrix of inner products is much faster. Its
    # axes below 1e-12 of the first are rounding, and QR repairs the orthogonality of the rest.
    values, left = np.linalg.eigh(phi @ phi.T / len(points))
    kept = max(int((values > 1e-12 * values[-1]).sum()), 1)
    return np.linalg.qr(phi.T @ left[:, ::-1][:, :kept])[0]


def rotate(
    base: FeatureMap, error: float = 1e-3, points: ArrayLike | None = None
) -> RotatedFeatures:
    """Rotate a map onto the fewest principal axes whose sup error is at most `error`.

    The number of axes is found by bisection on `sup_error` against the base's kernel (against the
    base itself where its kernel is unknown).

    Args:
        base: the map to rotate.
        error: the largest sup error allowed, of base and rotation together.
        points: (N, d) public points over which axes and error are taken; by default the axes come
            from one low-discrepancy set of the box and the error from that and a second one.

    Raises:
        InvalidInput: where the error cannot be reached; the message says which one can.
    """
    instance_of(base, "the map to rotate", FeatureMap, "a FeatureMap")
    error = positive_number(error, "error")
    if points is None:
        sets = [base.error_points(0), base.error_points(1)]
        axes = principal_axes(base, public_points(base.domain))
    else:
        sets = [base.checked(points)]
        axes = principal_axes(base, sets[0])
    pairs = []
    for where in sets:
        phi = base.compute(where)
        kernel = phi @ phi.T if base.kernel is None else np.asarray(base.kernel(where))
        pairs.append((kernel, phi @ axes))

    def errors(r: int) -> Iterator[float]:
        return (float(np.abs(k - c[:, :r] @ c[:, :r].T).max()) for k, c in pairs)

    low, high = 0, axes.shape[1]
    if (best := max(errors(high))) > error:
        raise OutOfReach(
            f"rotation was asked for a sup error of {error:g}; this map reaches {best:.2g} with "
            f"all its {high} axes. Ask for a larger error, or start from a finer map."
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if all(e <= error for e in errors(middle)) else (middle, high)
    return RotatedFeatures(base, axes[:, :high])
