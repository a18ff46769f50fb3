"""Feature maps as JSON values: they travel to devices as arrays, never as a recipe.

Eigenvectors and quadrature nodes differ between machines in their last digits and signs, and a
statistic only makes sense in the features it was made with; so the arrays themselves are sent, and
a decoded map gives bit-identical features on the same machine. Norm bounds are not sent: whoever
decodes a map computes them anew from its arrays.

| kind     | fields besides `kind`                                        |
|----------|--------------------------------------------------------------|
| fourier  | domain, kernel, frequencies (q, d), weights (q,)             |
| finite   | domain, kernel, points (N, d), values (N, m)                 |
| nystrom  | domain, kernel, basis (b, d), coefficients (b, m)            |
| linear   | domain, sigma_0, degree                                      |
| additive | domain, parts: a list of {columns, map, weight}              |
| product  | maps: a list of maps                                         |
| scaled   | base: a map, factor                                          |
| rotated  | base: a map, axes (m, r), eigenvalues (r,) or null           |

`domain` is `Box.to_dict()`; `kernel` is text (`kernel_to_text`) or null; it serves `sup_error`, and
a Nystrom map cannot do without it. Arrays are as in arrays.py.
"""

from __future__ import annotations

from typing import Any

from discreet.codec import decode_array, encode_array
from discreet.domain import Box
from discreet.kernels.base import FeatureMap
from discreet.kernels.compose import AdditiveFeatures, ProductFeatures, ScaledFeatures
from discreet.kernels.finite import FiniteFeatures
from discreet.kernels.fourier import FourierFeatures
from discreet.kernels.linear import LinearFeatures
from discreet.kernels.nystrom import NystromFeatures
from discreet.kernels.rotated import RotatedFeatures
from discreet.kernels.text import kernel_from_text, kernel_to_text
from discreet.validation import InvalidInput, read_array

MOST_DEPTH = 20
_KINDS: dict[str, tuple[type[FeatureMap], tuple[str, ...]]] = {
    "fourier": (FourierFeatures, ("domain", "kernel", "frequencies", "weights")),
    "finite": (FiniteFeatures, ("domain", "kernel", "points", "values")),
    "nystrom": (NystromFeatures, ("domain", "kernel", "basis", "coefficients")),
    "linear": (LinearFeatures, ("domain", "sigma_0", "degree")),
    "additive": (AdditiveFeatures, ("domain", "parts")),
    "product": (ProductFeatures, ("maps",)),
    "scaled": (ScaledFeatures, ("base", "factor")),
    "rotated": (RotatedFeatures, ("base", "axes", "eigenvalues")),
}
_ARRAYS = {
    "frequencies": 2,
    "weights": 1,
    "points": 2,
    "values": 2,
    "basis": 2,
    "coefficients": 2,
    "axes": 2,
    "eigenvalues": 1,
}


def encode_map(given: FeatureMap) -> dict[str, Any]:
    """A feature map as JSON values.

    Raises:
        InvalidInput: for a map of another class than those of the module's table, or a Nystrom map
            of a kernel that has no text.
    """
    for kind, (owner, names) in _KINDS.items():
        if type(given) is owner:
            fields = {"kind": kind, **given.to_fields()}
            if "domain" in names:
                fields["domain"] = given.domain.to_dict()
            if "kernel" in names and "kernel" not in fields:
                fields["kernel"] = _text_of(given.kernel)
            return {
                name: encode_array(value) if name in _ARRAYS else _encoded(value)
                for name, value in fields.items()
            }
    raise InvalidInput(
        f"a {type(given).__name__} cannot be sent; the kinds of map are {', '.join(_KINDS)}."
    )


def decode_map(fields: dict[str, Any]) -> FeatureMap:
    """The inverse of `encode_map`.

    Raises:
        InvalidInput: for missing, unknown or damaged fields.
    """
    return _decoded(fields, 0)


def _encoded(value: Any) -> Any:
    if isinstance(value, FeatureMap):
        return encode_map(value)
    if isinstance(value, dict):
        return {name: _encoded(inner) for name, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], FeatureMap | dict):
        return [_encoded(inner) for inner in value]
    return value


def _text_of(kernel: Any) -> str | None:
    if kernel is None:
        return None
    try:
        return kernel_to_text(kernel)
    except InvalidInput:
        # A kernel without a text is lost on the way; only `sup_error` needs it (a Nystrom map,
        # which needs it for its features, writes it itself).
        return None


def _decoded(fields: Any, depth: int) -> FeatureMap:
    if depth > MOST_DEPTH:
        raise InvalidInput(
            f"a feature map was nested more than {MOST_DEPTH} deep; send it as made."
        )
    kind = fields.get("kind") if isinstance(fields, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(
            f"a feature map had the kind {kind!r}; it must be one of {', '.join(_KINDS)}."
        )
    owner, names = _KINDS[kind]
    if set(fields) != {"kind", *names}:
        raise InvalidInput(
            f"a {kind} map had the fields {sorted(map(str, fields))}; it must have exactly kind, "
            f"{', '.join(names)}."
        )
    try:
        return owner(**{name: _field(name, fields[name], depth) for name in names})
    except InvalidInput:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"a {kind} map was damaged ({error}); send it as made.") from error


def _field(name: str, value: Any, depth: int) -> Any:
    if name == "domain":
        return Box.from_dict(value)
    if name == "kernel":
        return None if value is None else kernel_from_text(value)
    if name == "base":
        return _decoded(value, depth + 1)
    if name in ("maps", "parts") and not (isinstance(value, list) and value):
        raise InvalidInput(f"the {name} of a feature map were {value!r}; send a list of maps.")
    if name == "maps":
        return tuple(_decoded(inner, depth + 1) for inner in value)
    if name == "parts":
        return tuple(_part(inner, depth) for inner in value)
    if name in _ARRAYS and not (name == "eigenvalues" and value is None):
        return decode_array(value, f"the {name} of a feature map", _ARRAYS[name])
    return value


def _part(value: Any, depth: int) -> tuple[tuple[int, ...], FeatureMap, float]:
    if not isinstance(value, dict) or set(value) != {"columns", "map", "weight"}:
        raise InvalidInput(
            "a part of an additive map must have exactly columns, map, weight; send it as made."
        )
    columns = read_array(value["columns"], "the columns of a part", "whole", 1)
    return tuple(int(c) for c in columns), _decoded(value["map"], depth + 1), value["weight"]
