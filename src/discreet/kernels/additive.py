"""A scikit-learn kernel on groups of columns; scikit-learn itself has none on column subsets.

k(x, z) = (1/G) sum_g k_g(x_g, z_g), where x_g are the columns of group g. The mean keeps
k(x, x) = 1 for kernels with k_g(x, x) = 1, whatever the number of groups (Mutny and Krause 2018,
section 5, up to that factor).

| array | shape        | meaning                                       |
|-------|--------------|-----------------------------------------------|
| X     | (n, d)       | inputs                                        |
| K     | (n, n')      | kernel matrix                                 |
| dK    | (n, n, p)    | its gradient in the p log hyperparameters     |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from discreet.validation import FloatArray, InvalidInput


class Additive(Kernel):  # type: ignore[misc]
    """The mean over coordinate groups of a kernel applied to the columns of the group.

    Args:
        kernel: one scikit-learn kernel used in every group, or a list with one for each group.
        groups: tuples of column numbers; None makes each column a group of its own.

    Raises:
        InvalidInput: on evaluation, when the groups do not fit the columns or the kernels.
    """

    def __init__(
        self, kernel: Kernel | list[Kernel], groups: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.kernel = kernel
        self.groups = groups

    @property
    def kernels(self) -> list[Kernel]:
        """The distinct kernels: one, or one for each group."""
        given = self.kernel
        kernels = list(given) if isinstance(given, list | tuple) else [given]
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            raise InvalidInput(
                f"Additive got {given!r}; give a scikit-learn kernel, or a list of them."
            )
        return kernels

    def resolve(self, columns: int) -> list[tuple[tuple[int, ...], Kernel]]:
        """The columns and the kernel of each group, for inputs with `columns` columns."""
        groups = [(c,) for c in range(columns)] if self.groups is None else self.groups
        kernels = self.kernels
        shared = not isinstance(self.kernel, list | tuple)
        if len(groups) == 0 or not (shared or len(kernels) == len(groups)):
            raise InvalidInput(
                f"Additive got {len(kernels)} kernels for {len(groups)} groups; give one kernel, "
                "or one for each group, and at least one group."
            )
        resolved = []
        for number, group in enumerate(groups):
            # A single group may be given as a plain list of columns in a study file.
            chosen = tuple(group) if isinstance(group, Sequence) else (group,)
            whole = all(isinstance(c, int | np.integer) and 0 <= c < columns for c in chosen)
            if not whole or not chosen or len(set(chosen)) < len(chosen):
                raise InvalidInput(
                    f"group {number} of Additive was {group!r}; each group is a list of different "
                    f"column numbers from 0 to {columns - 1}."
                )
            resolved.append((tuple(int(c) for c in chosen), kernels[0 if shared else number]))
        return resolved

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:  # noqa: N803
        X = np.atleast_2d(np.asarray(X))  # noqa: N806
        parts = self.resolve(X.shape[1])
        if not eval_gradient:
            other = None if Y is None else np.atleast_2d(np.asarray(Y))
            total = sum(
                kernel(X[:, list(c)], None if other is None else other[:, list(c)])
                for c, kernel in parts
            )
            return total / len(parts)
        if Y is not None:
            raise InvalidInput("the gradient of a kernel exists for Y=None only; leave Y out.")
        pairs = [kernel(X[:, list(c)], eval_gradient=True) for c, kernel in parts]
        values = sum(value for value, _ in pairs) / len(parts)
        gradients = [gradient / len(parts) for _, gradient in pairs]
        shared = not isinstance(self.kernel, list | tuple)
        return values, sum(gradients) if shared else np.concatenate(gradients, axis=2)

    def diag(self, X: Any) -> FloatArray:  # noqa: N803
        """(n,) the values k(x, x)."""
        X = np.atleast_2d(np.asarray(X))  # noqa: N806
        parts = self.resolve(X.shape[1])
        total = sum(kernel.diag(X[:, list(c)]) for c, kernel in parts)
        return np.asarray(total / len(parts))

    def is_stationary(self) -> bool:
        """Whether every part is."""
        return all(kernel.is_stationary() for kernel in self.kernels)

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Those of the parts, named after them."""
        return [
            Hyperparameter(f"kernel{i}__{h.name}", h.value_type, h.bounds, h.n_elements)
            for i, kernel in enumerate(self.kernels)
            for h in kernel.hyperparameters
        ]

    @property
    def theta(self) -> FloatArray:
        """The log hyperparameters of the parts, one after the other."""
        return np.concatenate([kernel.theta for kernel in self.kernels])

    @theta.setter
    def theta(self, theta: FloatArray) -> None:
        start = 0
        for kernel in self.kernels:
            kernel.theta = theta[start : start + kernel.n_dims]
            start += kernel.n_dims

    @property
    def n_dims(self) -> int:
        """The number of free hyperparameters."""
        return sum(kernel.n_dims for kernel in self.kernels)

    @property
    def bounds(self) -> FloatArray:
        """Log bounds of the hyperparameters."""
        bounds = [kernel.bounds for kernel in self.kernels if kernel.n_dims]
        return np.vstack(bounds) if bounds else np.empty((0, 2))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Additive)
            and self.kernel == other.kernel
            and _plain(self.groups) == _plain(other.groups)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        groups = "" if self.groups is None else f", groups={_plain(self.groups)}"
        return f"Additive({self.kernel!r}{groups})"


def _plain(groups: Sequence[Sequence[int]] | None) -> Any:
    if groups is None:
        return None
    return [[int(c) for c in group] for group in groups]
