"""Where large dense matrices are worked out: NumPy, or an array library of one's own.

    import torch
    from discreet.kernels import matrices_on

    with matrices_on(torch, device="cuda"):
        policy = learner.policy()

Everything is NumPy's and SciPy's unless a program says otherwise. Within the block two things are
done by another library of the array API standard (through `array-api-compat`, which the extra
`arrays` installs), where they take more than `least` multiplications:

* the posterior of `local_kernel`, a matrix with a row for each coefficient of every arm;
* sums over all pairs of a context and an arm, of learners in epochs.

What comes out is NumPy's again. It differs in its last digits, so the policies of two libraries
may differ as those of two machines may. Promises do not depend on it: noise is never drawn there.
docs/design/0024 says at what sizes it pays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from discreet.validation import FloatArray, IntArray, InvalidInput, whole_number

# Multiplications under which sending matrices elsewhere costs more than it saves.
_LEAST = 10**9


class Host:
    """NumPy and SciPy.

    Attributes:
        least: how many multiplications a matrix must take to be worked out there.
        xp: the namespace of its arrays.
    """

    least: int = 0
    xp: Any = np

    def sent(self, array: Any) -> Any:
        """An array of NumPy's, there."""
        return array

    def submatrix(self, matrix: FloatArray, at: IntArray) -> Any:
        """The rows and columns `at` (k,) of a matrix (n, n), there."""
        return matrix[np.ix_(at, at)]

    def transposed(self, matrix: Any) -> Any:
        """(n, n) from and to there."""
        return np.ascontiguousarray(matrix.T)

    def root(self, matrix: Any) -> Any:
        """R (n, n), upper triangular, with R'R = I + A for a matrix A, which is overwritten."""
        matrix[np.diag_indices_from(matrix)] += 1.0
        root, _ = cho_factor(matrix, lower=False, overwrite_a=True, check_finite=False)
        return root

    def log_det(self, root: Any) -> float:
        """log det R."""
        return float(np.log(np.diagonal(root)).sum())

    def solved(self, root: Any, right: FloatArray, transposed: bool = False) -> FloatArray:
        """R^-1 B, or R'^-1 B, for B (n, f) or (n,) and from there."""
        trans = 1 if transposed else 0
        solved: FloatArray = solve_triangular(root, right, trans=trans, check_finite=False)
        return solved

    def second_moment(self, turned: FloatArray, weights: FloatArray) -> FloatArray:
        """(d, d) X' diag(w) X for X (n, d) and w (n,)."""
        moment: FloatArray = (turned * weights[:, None]).T @ turned
        return moment

    def leverages(self, phi: FloatArray, covariance: FloatArray) -> FloatArray:
        """(n,) the diagonal of X C^-1 X' for X (n, m), at least 0."""
        turned = np.linalg.solve(covariance, phi.T).T
        leverages: FloatArray = np.maximum((turned * phi).sum(axis=1), 0.0)
        return leverages


class Elsewhere(Host):
    """A library of the array API standard, on one of its devices."""

    def __init__(self, namespace: Any, device: Any, least: int) -> None:
        try:
            from array_api_compat import array_namespace
        except ImportError:
            raise InvalidInput(
                f"namespace was {_name(namespace)}, but the package array-api-compat is not "
                "installed; install discreet with the extra arrays."
            ) from None
        try:
            self.xp = array_namespace(namespace.asarray([0.0], device=device))
        except (AttributeError, TypeError) as reason:
            raise InvalidInput(
                f"namespace was {_name(namespace)} ({reason}); pass the module of an array "
                "library of the array API standard, such as torch."
            ) from None
        self.device, self.least = device, whole_number(least, "least", minimum=0)
        # One matrix is asked about under many priors.
        self._last: tuple[FloatArray, Any] | None = None

    def sent(self, array: Any) -> Any:
        return self.xp.asarray(np.ascontiguousarray(array), device=self.device, copy=True)

    def _plain(self, array: Any) -> FloatArray:
        from array_api_compat import is_cupy_array, is_torch_array, to_device

        on_device = is_torch_array(array) or is_cupy_array(array)
        here = to_device(array, "cpu") if on_device else array
        # PyTorch's own conversion does not know all that NumPy asks of it.
        return np.array(np.from_dlpack(here), dtype=np.float64)

    def submatrix(self, matrix: FloatArray, at: IntArray) -> Any:
        if self._last is None or self._last[0] is not matrix:
            self._last = matrix, self.sent(matrix)
        there = self.sent(at)
        return self.xp.take(self.xp.take(self._last[1], there, axis=0), there, axis=1)

    def transposed(self, matrix: Any) -> Any:
        return matrix.T

    def root(self, matrix: Any) -> Any:
        more = self.xp.eye(matrix.shape[0], dtype=matrix.dtype, device=self.device)
        return self.xp.linalg.cholesky(matrix + more, upper=True)

    def log_det(self, root: Any) -> float:
        return float(self.xp.sum(self.xp.log(self.xp.linalg.diagonal(root))))

    def solved(self, root: Any, right: FloatArray, transposed: bool = False) -> FloatArray:
        there = self.sent(right.reshape(len(right), -1))
        matrix, linalg = root.T if transposed else root, self.xp.linalg
        # The standard knows nothing of triangles; libraries that do have a name for it.
        if hasattr(linalg, "solve_triangular"):
            solved = linalg.solve_triangular(matrix, there, upper=not transposed)
        else:
            solved = linalg.solve(matrix, there)
        return self._plain(solved).reshape(right.shape)

    def second_moment(self, turned: FloatArray, weights: FloatArray) -> FloatArray:
        there = self.sent(turned)
        return self._plain((there * self.sent(weights[:, None])).T @ there)

    def leverages(self, phi: FloatArray, covariance: FloatArray) -> FloatArray:
        there = self.sent(phi)
        turned = self.xp.linalg.solve(self.sent(covariance), there.T).T
        leverages = self._plain(self.xp.sum(turned * there, axis=1))
        return np.maximum(leverages, 0.0)


HOST = Host()
_PLACE: ContextVar[Host] = ContextVar("place", default=HOST)


@contextmanager
def matrices_on(namespace: Any, device: Any = None, least: int = _LEAST) -> Iterator[None]:
    """Large matrices are worked out by another array library within the block (see the module).

    Args:
        namespace: its module, such as `torch` or `array_api_strict`.
        device: one of its devices, such as "cuda"; by default its usual one.
        least: how many multiplications a matrix must take to be sent there.

    Raises:
        InvalidInput: for what is no such module, or without `array-api-compat`.
    """
    before = _PLACE.set(Elsewhere(namespace, device, least))
    try:
        yield
    finally:
        _PLACE.reset(before)


def place_for(multiplications: float) -> Host:
    """Where a matrix that takes so many multiplications is worked out."""
    place = _PLACE.get()
    return place if multiplications >= place.least else HOST


def _name(namespace: Any) -> str:
    return f"{getattr(namespace, '__name__', namespace)!r:.80}"
