"""Kernels as text, for study files and messages: `1.0 * RBF(length_scale=0.3) + Matern(nu=2.5)`.

The text is read with a parser of its own that knows the names below and arithmetic, and never runs
anything. Bounds of hyperparameters are not written: a kernel here is a public constant.

| name           | parameters                                              |
|----------------|---------------------------------------------------------|
| RBF            | length_scale: a number or a list                        |
| Matern         | length_scale: a number or a list; nu: a number or inf   |
| ConstantKernel | constant_value: a number                                |
| DotProduct     | sigma_0: a number                                       |
| Additive       | kernel: a kernel or a list; groups: lists of columns    |

`Additive` is a scikit-learn kernel on groups of columns, which scikit-learn itself lacks:

    k(x, z) = (1/G) sum_g k_g(x_g, z_g),

where x_g are the columns of group g. The mean keeps k(x, x) = 1 for kernels with k_g(x, x) = 1,
whatever the number of groups (Mutny and Krause 2018, section 5, up to that factor).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
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


MOST_DEGREE = 10
_MOST_CHARACTERS = 20_000
_MOST_DEPTH = 200
_ALLOWED = (
    "RBF(length_scale), Matern(length_scale, nu), ConstantKernel(constant_value), "
    "DotProduct(sigma_0), Additive(kernel, groups), numbers, lists, +, * and ** with a whole power "
    f"from 1 to {MOST_DEGREE}"
)
_PARAMETERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "RBF": (RBF, ("length_scale",)),
    "Matern": (Matern, ("length_scale", "nu")),
    "ConstantKernel": (ConstantKernel, ("constant_value",)),
    "DotProduct": (DotProduct, ("sigma_0",)),
    "Additive": (Additive, ("kernel", "groups")),
}


def read_kernel(given: Any) -> Kernel:
    """A kernel as users give it: a scikit-learn kernel, or its text."""
    kernel = kernel_from_text(given) if isinstance(given, str) else given
    if not isinstance(kernel, Kernel):
        raise InvalidInput(
            f"kernel was {kernel!r:.80}; pass a scikit-learn kernel, or its text such as "
            '"RBF(length_scale=0.3)".'
        )
    return kernel


def kernel_from_text(text: str) -> Kernel:
    """The scikit-learn kernel that a text describes.

    Args:
        text: such as `0.5 * RBF(0.3) + 0.5 * Additive(Matern(nu=2.5), groups=[[0], [1, 2]])`.

    Raises:
        InvalidInput: for anything else than the names, numbers, lists and operators of the
            module's table; the message lists them.
    """
    try:
        if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
            raise ValueError(f"it must be text of at most {_MOST_CHARACTERS} characters")
        return _kernel(_value(ast.parse(text.strip(), mode="eval").body, 0))
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise InvalidInput(
            f"the kernel {str(text)[:120]!r} could not be read: "
            f"{error or type(error).__name__}. Use {_ALLOWED}."
        ) from error


def _value(node: ast.expr, depth: int) -> Any:
    """The value of a node: a kernel, a number, or a list of them; `ValueError` for all else."""
    if depth > _MOST_DEPTH:
        raise ValueError(f"it is nested more than {_MOST_DEPTH} deep")
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return node.value
        case ast.Name(id="inf"):
            return math.inf
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, depth + 1) for item in items]
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            one, two = _kernel(_value(left, depth + 1)), _kernel(_value(right, depth + 1))
            return one + two if isinstance(node.op, ast.Add) else one * two
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
            if isinstance(power, bool) or not 1 <= power <= MOST_DEGREE:
                raise ValueError(f"the power was {power!r}")
            return _kernel(_value(left, depth + 1)) ** power
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _PARAMETERS:
            kind, names = _PARAMETERS[name]
            given = [*zip(names, args, strict=False), *((k.arg, k.value) for k in keywords)]
            values = {key: _value(value, depth + 1) for key, value in given if key in names}
            if len(values) < len(args) + len(keywords):
                raise ValueError(f"{name} takes the parameters {', '.join(names)}, each once")
            if kind is Additive:
                return _additive(**values)
            return kind(**{key: _parameter(key, value) for key, value in values.items()})
    raise ValueError(f"{ast.unparse(node)[:60]!r} is not allowed")


def _kernel(value: Any) -> Kernel:
    if isinstance(value, list):
        raise ValueError("a list stood where a kernel belongs")
    return value if isinstance(value, Kernel) else ConstantKernel(_positive(value, "a constant"))


def _additive(kernel: Any = None, groups: Any = None) -> Additive:
    parts = kernel if isinstance(kernel, list) else [kernel]
    if not parts or not all(isinstance(part, Kernel) for part in parts):
        raise ValueError("Additive takes a kernel or a list of kernels first")
    if groups is None:
        return Additive(kernel)
    lists = isinstance(groups, list) and all(isinstance(group, list) for group in groups)
    if not lists or not groups or not all(g and all(type(c) is int for c in g) for g in groups):
        raise ValueError("groups is a list of lists of column numbers, such as [[0], [1, 2]]")
    return Additive(kernel, tuple(tuple(group) for group in groups))


def _parameter(name: str, value: Any) -> Any:
    if name == "length_scale" and isinstance(value, list) and value:
        return [_positive(item, name) for item in value]
    if (name, value) in (("nu", math.inf), ("sigma_0", 0)):
        return float(value)
    return _positive(value, name)


def _positive(value: Any, name: str) -> float:
    if not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} was {value!r}; it must be a finite number above 0")
    return float(value)


def kernel_to_text(kernel: Kernel) -> str:
    """The text of a kernel with every number in full; `kernel_from_text` reads it back.

    Raises:
        InvalidInput: for a kernel that the text has no name for.
    """
    kind = type(kernel)
    if kind is Sum:
        return f"{kernel_to_text(kernel.k1)} + {_bracketed(kernel.k2, (Sum,))}"
    if kind is Product:
        return f"{_bracketed(kernel.k1, (Sum,))} * {_bracketed(kernel.k2, (Sum, Product))}"
    if kind is Exponentiation:
        power = kernel.exponent
        whole = int(power) if power == int(power) else power
        return f"{_bracketed(kernel.kernel, (Sum, Product, Exponentiation))} ** {whole!r}"
    if kind is Additive:
        parts = [kernel_to_text(part) for part in kernel.kernels]
        inside = f"[{', '.join(parts)}]" if isinstance(kernel.kernel, list | tuple) else parts[0]
        if kernel.groups is None:
            return f"Additive({inside})"
        return f"Additive({inside}, groups={[[int(c) for c in group] for group in kernel.groups]})"
    if kind in (RBF, Matern, ConstantKernel, DotProduct):
        _, names = _PARAMETERS[kind.__name__]
        given = ", ".join(f"{name}={_number(getattr(kernel, name))}" for name in names)
        return f"{kind.__name__}({given})"
    raise InvalidInput(f"{kernel!r} of type {kind.__name__} has no text; allowed: {_ALLOWED}.")


def _bracketed(kernel: Kernel, loose: tuple[type, ...]) -> str:
    text = kernel_to_text(kernel)
    return f"({text})" if type(kernel) in loose else text


def _number(value: Any) -> str:
    return repr([float(v) for v in value] if np.ndim(value) else float(value))
