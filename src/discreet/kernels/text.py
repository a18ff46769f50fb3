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
"""

from __future__ import annotations

import ast
import math
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

from discreet.kernels.additive import Additive
from discreet.validation import InvalidInput

MOST_DEGREE = 10
MOST_CHARACTERS = 20_000
MOST_DEPTH = 200
ALLOWED = (
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


def kernel_from_text(text: str) -> Kernel:
    """The scikit-learn kernel that a text describes.

    Args:
        text: such as `0.5 * RBF(0.3) + 0.5 * Additive(Matern(nu=2.5), groups=[[0], [1, 2]])`.

    Raises:
        InvalidInput: for anything else than the names, numbers, lists and operators of the
            module's table; the message lists them.
    """
    if not isinstance(text, str) or not 0 < len(text) <= MOST_CHARACTERS:
        raise InvalidInput(f"a kernel was {str(text)[:80]!r}; it must be text. Allowed: {ALLOWED}.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        value = _read(tree.body, text, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise _refused(text, str(error) or type(error).__name__) from error
    if isinstance(value, float | int):
        value = ConstantKernel(_positive(value, "a constant", text))
    if not isinstance(value, Kernel):
        raise _refused(text, "it is a list, not a kernel")
    return value


def read_kernel(given: Any) -> Kernel:
    """A kernel as users give it: a scikit-learn kernel, or its text."""
    kernel = kernel_from_text(given) if isinstance(given, str) else given
    if not isinstance(kernel, Kernel):
        raise InvalidInput(
            f"kernel was {kernel!r:.80}; pass a scikit-learn kernel, or its text such as "
            '"RBF(length_scale=0.3)".'
        )
    return kernel


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
    if kind in (RBF, Matern, ConstantKernel, DotProduct):
        _, parameters = _PARAMETERS[kind.__name__]
        given = ", ".join(f"{name}={_number(getattr(kernel, name))}" for name in parameters)
        return f"{kind.__name__}({given})"
    if kind is Additive:
        parts = [kernel_to_text(part) for part in kernel.kernels]
        shared = not isinstance(kernel.kernel, list | tuple)
        inside = parts[0] if shared else f"[{', '.join(parts)}]"
        groups = kernel.groups
        if groups is None:
            return f"Additive({inside})"
        return f"Additive({inside}, groups={[[int(c) for c in group] for group in groups]})"
    raise InvalidInput(f"{kernel!r} of type {kind.__name__} has no text; allowed: {ALLOWED}.")


def _bracketed(kernel: Kernel, loose: tuple[type, ...]) -> str:
    text = kernel_to_text(kernel)
    return f"({text})" if type(kernel) in loose else text


def _number(value: Any) -> str:
    if np.ndim(value):
        return f"[{', '.join(repr(float(v)) for v in value)}]"
    return repr(float(value))


def _read(node: ast.expr, text: str, depth: int) -> Any:
    """The value of a node: a kernel, a number, or a list of them."""
    if depth > MOST_DEPTH:
        raise _refused(text, f"it is nested more than {MOST_DEPTH} deep")
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return node.value
        case ast.Name(id="inf"):
            return math.inf
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_read(item, text, depth + 1) for item in items]
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Pow() as operator, right=right):
            sides = _read(left, text, depth + 1), _read(right, text, depth + 1)
            return _operation(operator, *sides, text)
        case ast.Call(func=ast.Name(id=name)) if name in _PARAMETERS:
            return _call(name, node, text, depth)
        case ast.Call(func=function):
            raise _refused(text, f"{ast.unparse(function)[:60]!r} is not a known kernel")
    raise _refused(text, f"{ast.unparse(node)[:60]!r} is not allowed")


def _operation(operator: ast.operator, left: Any, right: Any, text: str) -> Any:
    if isinstance(operator, ast.Pow):
        if not isinstance(left, Kernel):
            raise _refused(text, "only a kernel can be raised to a power")
        if type(right) is not int or not 1 <= right <= MOST_DEGREE:
            raise _refused(text, f"the power was {right!r}")
        return left**right
    kernels = []
    for side in (left, right):
        if isinstance(side, list):
            raise _refused(text, "a list stood where a kernel belongs")
        number = isinstance(side, int | float)
        kernels.append(ConstantKernel(_positive(side, "a constant", text)) if number else side)
    return kernels[0] + kernels[1] if isinstance(operator, ast.Add) else kernels[0] * kernels[1]


def _call(name: str, node: ast.Call, text: str, depth: int) -> Any:
    kind, parameters = _PARAMETERS[name]
    if len(node.args) > len(parameters):
        raise _refused(text, f"{name} takes {len(parameters)} parameters")
    given = dict(zip(parameters, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in parameters or keyword.arg in given:
            raise _refused(text, f"{name} got the parameter {keyword.arg!r} twice or has none such")
        given[keyword.arg] = keyword.value
    values = {key: _read(value, text, depth + 1) for key, value in given.items()}
    if name == "Additive":
        return _additive(text, **values)
    return kind(**{key: _parameter(key, value, text) for key, value in values.items()})


def _additive(text: str, kernel: Any = None, groups: Any = None) -> Additive:
    parts = kernel if isinstance(kernel, list) else [kernel]
    if not parts or not all(isinstance(part, Kernel) for part in parts):
        raise _refused(text, "Additive takes a kernel or a list of kernels first")
    if groups is None:
        return Additive(kernel)
    proper = isinstance(groups, list) and all(
        isinstance(group, list) and group and all(type(c) is int for c in group) for group in groups
    )
    if not proper or not groups:
        raise _refused(text, "groups is a list of lists of column numbers, such as [[0], [1, 2]]")
    return Additive(kernel, tuple(tuple(group) for group in groups))


def _parameter(name: str, value: Any, text: str) -> Any:
    if name == "length_scale" and isinstance(value, list) and value:
        return [_positive(item, name, text) for item in value]
    if (name, value) in (("nu", math.inf), ("sigma_0", 0)):
        return float(value)
    return _positive(value, name, text)


def _positive(value: Any, name: str, text: str) -> float:
    if not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise _refused(text, f"{name} was {value!r}; it must be a finite number above 0")
    return float(value)


def _refused(text: str, reason: str) -> InvalidInput:
    return InvalidInput(f"the kernel {text[:120]!r} could not be read: {reason}. Use {ALLOWED}.")
