"""A scikit-learn kernel on groups of columns; scikit-learn itself has none on column subsets.

k(x, z) = (1/G) sum_g k_g(x_g, z_g), where x_g are the columns of group g. The mean keeps
k(x, x) = 1 for kernels with k_g(x, x) = 1, whatever the number of groups (Mutny and Krause 2018,
section 5, up to that factor).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from discreet.validation import FloatArray, InvalidInput


class Additive(Kernel):  # type: ignore[misc]
    """The mean over coordinate groups of a kernel applied to the columns of the group.

    Its parameters are public constants, none of which `GaussianProcessRegressor` fits.

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
        kernels = list(self.kernel) if isinstance(self.kernel, list | tuple) else [self.kernel]
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            raise InvalidInput(
                f"Additive got {self.kernel!r}; give a scikit-learn kernel, or a list of them."
            )
        return kernels

    def resolve(self, columns: int) -> list[tuple[tuple[int, ...], Kernel]]:
        """The columns and the kernel of each group, for inputs with `columns` columns."""
        groups = [(c,) for c in range(columns)] if self.groups is None else self.groups
        kernels = self.kernels
        if not isinstance(self.kernel, list | tuple):
            kernels = kernels * len(groups)
        if len(groups) == 0 or len(kernels) != len(groups):
            raise InvalidInput(
                f"Additive got {len(kernels)} kernels for {len(groups)} groups; give one kernel, "
                "or one for each group, and at least one group."
            )
        resolved = []
        for number, (group, kernel) in enumerate(zip(groups, kernels, strict=True)):
            # A single column may be given as a plain number in a study file.
            chosen = tuple(group) if isinstance(group, Sequence) else (group,)
            whole = all(isinstance(c, int | np.integer) and 0 <= c < columns for c in chosen)
            if not whole or not chosen or len(set(chosen)) < len(chosen):
                raise InvalidInput(
                    f"group {number} of Additive was {group!r}; each group is a list of different "
                    f"column numbers from 0 to {columns - 1}."
                )
            resolved.append((tuple(int(c) for c in chosen), kernel))
        return resolved

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:  # noqa: N803
        X = np.atleast_2d(np.asarray(X))  # noqa: N806
        other = None if Y is None else np.atleast_2d(np.asarray(Y))
        parts = self.resolve(X.shape[1])
        total = sum(
            kernel(X[:, list(c)], None if other is None else other[:, list(c)])
            for c, kernel in parts
        )
        values = np.asarray(total / len(parts))
        return (values, np.empty((*values.shape, 0))) if eval_gradient else values

    def diag(self, X: Any) -> FloatArray:  # noqa: N803
        """(n,) the values k(x, x)."""
        X = np.atleast_2d(np.asarray(X))  # noqa: N806
        parts = self.resolve(X.shape[1])
        total = sum(kernel.diag(X[:, list(c)]) for c, kernel in parts)
        return np.asarray(total / len(parts))

    def is_stationary(self) -> bool:
        """Whether every part is."""
        return all(kernel.is_stationary() for kernel in self.kernels)

    def __repr__(self) -> str:
        columns = None if self.groups is None else [[int(c) for c in g] for g in self.groups]
        groups = "" if columns is None else f", groups={columns}"
        return f"Additive({self.kernel!r}{groups})"
