"""Numbers, texts and arrays of messages: their bounds and shapes, and how they are written."""

from __future__ import annotations

import base64
import binascii
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.validation import InvalidInput, refused

if TYPE_CHECKING:
    from discreet.codec.schemas import Schemas

# Smaller arrays stay readable.
MOST_LISTED = 5_000
_LARGEST = sys.float_info.max
# No array has more dimensions.
_DEEPEST = 64


@dataclass(frozen=True)
class Range:
    """Bounds of a number, of every number of an array, or of the length of a text.

    NaN and infinity are outside.

    Attributes:
        low: the least value.
        high: the largest value.
        above: all values are larger than this.
        below: all values are smaller than this.
        infinite: whether infinity is allowed too.
    """

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    infinite: bool = False

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value allowed: any range is a closed interval of floats."""
        least, most = (-math.inf, math.inf) if self.infinite else (-_LARGEST, _LARGEST)
        if self.low is not None:
            least = self.low
        if self.above is not None:
            least = math.nextafter(self.above, math.inf)
        if self.high is not None:
            most = self.high
        if self.below is not None:
            most = math.nextafter(self.below, -math.inf)
        return least, most

    def keywords(self) -> dict[str, float]:
        """The bounds of a number as keywords of JSON Schema."""
        bounds = {
            "minimum": self.low,
            "maximum": self.high,
            "exclusiveMinimum": self.above,
            "exclusiveMaximum": self.below,
        }
        return {word: bound for word, bound in bounds.items() if bound is not None}

    def __str__(self) -> str:
        bounds = [
            (self.low, "at least"),
            (self.above, "above"),
            (self.high, "at most"),
            (self.below, "below"),
        ]
        if self.low is not None and self.high is not None:
            return f"from {self.low!r} to {self.high!r}"
        return " and ".join(f"{word} {bound!r}" for bound, word in bounds if bound is not None)


class Shape:
    """The shape of an array: numbers, letters, or attributes of the object that holds it."""

    def __init__(self, *sizes: int | str) -> None:
        self.sizes = sizes

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.sizes))}{',' if len(self.sizes) == 1 else ''})"

    def check(
        self, shape: tuple[int, ...], name: str, owner: object, sizes: dict[str, int]
    ) -> None:
        """`InvalidInput` unless `shape` fits; new letters enter `sizes`."""
        known: dict[str, int] = {}
        fits = len(shape) == len(self.sizes)
        letters = _wanted(cast(Any, type(owner)), self)
        for (letter, wanted), given in zip(letters, shape, strict=False):
            size = wanted if isinstance(wanted, int) else sizes.get(letter)
            if size is None and callable(wanted):
                size = int(wanted(owner))
            if size is not None:
                known[letter] = size
                fits = fits and size == given
            sizes[letter] = given
        if not fits:
            facts = [f"{letter} = {size}" for letter, size in known.items() if letter != str(size)]
            where = f" with {', '.join(facts)}" if facts else ""
            raise InvalidInput(f"{name} had shape {shape}; it must have shape {self}{where}.")


@cache
def _wanted(kind: type, shape: Shape) -> list[tuple[str, Any]]:
    """What messages call each size of a shape, and how an object of that class says what it is:
    the number, a function of the object, or None for a free letter."""
    wanted: list[tuple[str, Any]] = []
    for size in shape.sizes:
        first = str(size).partition(".")[0]
        own = hasattr(kind, first) or first in getattr(kind, "__dataclass_fields__", ())
        path = attrgetter(str(size)) if own else None
        wanted.append((str(size), size if isinstance(size, int) else path))
    return wanted


@dataclass(frozen=True)
class CheckedBy:
    """A check of one's own: a function that returns the value, or raises `InvalidInput`."""

    function: Callable[[Any], Any]


class Form:
    """How values of one annotation are checked, written as JSON values and read from them.

    This one passes the instances of some classes as they are.
    """

    def __init__(self, kinds: tuple[type, ...], wanted: str) -> None:
        self.kinds, self.wanted = kinds, wanted

    def matches(self, value: Any) -> bool:
        """Whether a Python value is of this kind, for unions."""
        return isinstance(value, self.kinds)

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        """The value in the form that is computed with, or `InvalidInput`."""
        if not self.matches(value):
            raise refused(value, name, self.wanted)
        return value

    def write(self, value: Any) -> Any:
        """A checked value as JSON values."""
        return value

    def read(self, value: Any, name: str, depth: int) -> Any:
        """A value from JSON values, which `check` sees next."""
        return value

    def schema(self, schemas: Schemas) -> dict[str, Any]:
        """The JSON Schema of what `write` makes; `schemas` collects those of classes."""
        return {"description": self.wanted}


class Checked(Form):
    """Values that a check of one's own allows too."""

    def __init__(self, form: Form, function: Callable[[Any], Any]) -> None:
        super().__init__(form.kinds, form.wanted)
        self._form, self._function = form, function
        self.matches, self.write, self.read = form.matches, form.write, form.read  # type: ignore[method-assign]
        self.schema = form.schema  # type: ignore[method-assign]

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        return self._function(self._form.check(value, name, owner, sizes))


class Choice(Form):
    """Literal[..]."""

    def __init__(self, words: tuple[Any, ...]) -> None:
        super().__init__((), " or ".join(map(repr, words)))
        self._words = words

    def matches(self, value: Any) -> bool:
        return any(type(value) is type(word) and value == word for word in self._words)

    def schema(self, schemas: Schemas) -> dict[str, Any]:
        return {"enum": list(self._words)}


_WHOLE = (int, np.integer)
_PLAIN: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool, np.bool_), "true or false"),
    int: (_WHOLE, "a whole number"),
    float: ((*_WHOLE, float, np.floating), "a number"),
    str: ((str,), "text"),
}


# By the letters of NumPy's kinds.
_JSON_TYPES = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "U": "string"}


class Plain(Form):
    """bool, int, float or str."""

    def __init__(self, kind: type, bounds: Range) -> None:
        kinds, wanted = _PLAIN[kind]
        self._kind, self._infinite = kind, kind is float and bounds.infinite
        self._bounds = bounds
        self._least, self._most = bounds.ends
        if kind is str:
            wanted = f"text of {bounds} characters" if str(bounds) else wanted
        elif kind is float and not bounds.infinite:
            wanted = "a finite number"
        super().__init__(kinds, wanted if kind is str else f"{wanted} {bounds}".strip())

    def matches(self, value: Any) -> bool:
        truth = isinstance(value, bool) and self._kind is not bool
        return isinstance(value, self.kinds) and not truth

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if type(value) is self._kind or self.matches(value):
            try:
                given = self._kind(value)
            except OverflowError:
                given = math.nan
            size = len(given) if self._kind is str else given
            if self._least <= size <= self._most:
                return given
        raise refused(value, name, self.wanted)

    def write(self, value: Any) -> Any:
        return None if self._infinite and value == math.inf else value

    def read(self, value: Any, name: str, depth: int) -> Any:
        return math.inf if self._infinite and value is None else value

    def schema(self, schemas: Schemas) -> dict[str, Any]:
        kind: Any = _JSON_TYPES[np.dtype(self._kind).kind]
        bounds = self._bounds.keywords()
        if self._kind is str:
            bounds = {f"{word[:3]}Length": bound for word, bound in bounds.items()}
        return {"type": [kind, "null"] if self._infinite else kind, **bounds}


class Array(Form):
    """An array; of floats or whole numbers where the annotation allows both."""

    def __init__(self, dtypes: list[Any], shape: Shape | None, bounds: Range) -> None:
        super().__init__((np.ndarray,), "an array")
        if shape is None:
            raise TypeError("an array needs a Shape: Annotated[FloatArray, Shape('n', 'd')]")
        self._dtypes: dict[str, np.dtype[Any]] = {d.kind: d for d in map(np.dtype, dtypes)}
        self._exact = set(self._dtypes.values())
        self._shape, self._bounds = shape, bounds
        self._least, self._most = bounds.ends
        # Kinds of numbers that can be outside: whole ones are finite.
        self._bounded = "iuf" if bounds != Range() else "f"

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        array = _as_array(value, name)
        dtype = array.dtype if array.dtype in self._exact else self._dtype(array, name)
        self._shape.check(array.shape, name, owner, sizes)
        if array.size and dtype.kind in self._bounded and not self._within(array.ravel()):
            inside = (array >= self._least) & (array <= self._most)
            worst = np.unravel_index(int(np.argmin(inside)), array.shape)
            place = ", ".join(map(str, worst))
            raise InvalidInput(
                f"{name} had {array[worst]} at [{place}]; every entry must be "
                f"{'finite' if dtype.kind == 'f' else 'whole'}"
                f"{f', {self._bounds}' if str(self._bounds) else ''}."
            )
        kept = array if array.dtype == dtype else self._cast(array, dtype, name)
        kept.setflags(write=False)
        return kept

    def _within(self, numbers: NDArray[Any]) -> bool:
        """Whether all numbers are within the bounds; NaN is its own least and largest."""
        if not np.minimum.reduce(numbers).item() >= self._least:
            return False
        unbounded = numbers.dtype.kind != "f" and self._most == _LARGEST
        return unbounded or bool(np.maximum.reduce(numbers).item() <= self._most)

    def _dtype(self, array: NDArray[Any], name: str) -> np.dtype[Any]:
        """Which of the types that are allowed an array gets."""
        kind = array.dtype.kind
        dtype = self._dtypes.get(kind)
        if dtype is None and kind in "iu":  # whole numbers are numbers
            other = {"i": "u", "u": "i"}[kind]
            dtype = self._dtypes.get(other, self._dtypes.get("f"))
        elif dtype is None and array.size == 0:
            dtype = next(iter(self._dtypes.values()))
        if dtype is None:
            allowed = " or ".join(map(str, self._dtypes.values()))
            raise InvalidInput(f"{name} had type {array.dtype}; it must be an array of {allowed}.")
        return dtype

    def _cast(self, array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
        """The array as that type; `InvalidInput` for numbers that it does not hold."""
        with np.errstate(over="ignore"):
            kept = array.astype(dtype)
        if dtype.kind == "f":
            same = np.isfinite(kept).all() or not np.isfinite(array).all()
        else:
            same = (kept == array).all() and ((kept < 0) == (array < 0)).all()
        if not same:
            raise InvalidInput(f"{name} had numbers that {dtype} does not hold; send it as made.")
        return kept

    def write(self, value: NDArray[Any]) -> Any:
        # No rows would be an empty list, whatever columns they have.
        no_rows = value.ndim > 1 and len(value) == 0
        if value.dtype.kind != "f" or (value.size <= MOST_LISTED and not no_rows):
            return value.tolist()
        numbers = base64.b64encode(value.astype("<f8").tobytes()).decode("ascii")
        return {"shape": list(value.shape), "float64": numbers}

    def read(self, value: Any, name: str, depth: int) -> Any:
        """Nested lists or base64 text as an array; only numbers that were sent take memory."""
        if not isinstance(value, dict) or "f" not in self._dtypes:
            # NumPy gives every entry of a list with text in it the room of the longest one.
            if _holds_text(value, 0):
                raise InvalidInput(f"{name} held text; send nested lists of numbers, as made.")
            return _as_array(value, name)
        if set(value) != {"shape", "float64"} or not isinstance(value["float64"], str):
            raise InvalidInput(
                f"{name} had the fields {sorted(map(str, value))!r:.200}; send nested lists, or "
                "exactly shape and float64, the base64 text of the numbers."
            )
        shape = _SIZES.check(value["shape"], f"the shape of {name}", None, {}).tolist()
        try:
            numbers = base64.b64decode(value["float64"], validate=True)
            if min(shape, default=0) < 0 or len(numbers) != 8 * math.prod(shape):
                raise ValueError(f"{len(numbers)} bytes for {shape}; each number takes 8 bytes")
            return np.frombuffer(numbers, dtype="<f8").reshape(shape).astype(np.float64)
        except (binascii.Error, ValueError) as error:
            raise InvalidInput(
                f"{name} is damaged, no base64 text of its numbers ({error}); send it as it was "
                "made."
            ) from error

    def schema(self, schemas: Schemas) -> dict[str, Any]:
        kind = "f" if "f" in self._dtypes else next(iter(self._dtypes))
        nested: dict[str, Any] = {"type": _JSON_TYPES[kind], **self._bounds.keywords()}
        for size in reversed(self._shape.sizes):
            nested = _listed(nested, size if isinstance(size, int) else None)
        nested["description"] = f"Shape {self._shape}."
        return (
            {"anyOf": [nested, schemas.named("Float64Array", _BASE64)]} if kind == "f" else nested
        )


def _listed(item: dict[str, Any], size: int | None) -> dict[str, Any]:
    """The JSON Schema of a list; of that many items where their number is known."""
    sizes = {} if size is None else {"minItems": size, "maxItems": size}
    return {"type": "array", "items": item, **sizes}


_BASE64 = {
    "type": "object",
    "description": "The same numbers as little-endian float64 in C order, in base64.",
    "properties": {
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "float64": {"type": "string", "contentEncoding": "base64"},
    },
    "required": ["shape", "float64"],
    "additionalProperties": False,
}


def _holds_text(value: Any, depth: int) -> bool:
    """Whether there is text in nested lists; NumPy itself refuses deeper ones."""
    if not isinstance(value, list) or depth > _DEEPEST:
        return isinstance(value, str)
    kinds = set(map(type, value))
    return str in kinds or (list in kinds and any(_holds_text(inner, depth + 1) for inner in value))


def _as_array(value: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InvalidInput(f"{name} had rows of different lengths; send it as made.") from error


_SIZES = Array([np.int64], Shape("dimensions"), Range())


class Table(Form):
    """Mapping[X, Y], a list of pairs."""

    def __init__(self, key: Form, item: Form) -> None:
        super().__init__((Mapping,), "a table")
        self._key, self._item = key, item

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        return {
            self._key.check(key, f"a key of {name}", owner, {}): self._item.check(
                inner, f"{name}[{key!r:.80}]", owner, sizes
            )
            for key, inner in super().check(value, name, owner, sizes).items()
        }

    def write(self, value: Any) -> Any:
        return [[key, self._item.write(inner)] for key, inner in value.items()]

    def read(self, value: Any, name: str, depth: int) -> Any:
        if not isinstance(value, list) or any(
            not isinstance(pair, list) or len(pair) != 2 for pair in value
        ):
            raise refused(value, name, "a list of pairs")
        table: dict[Any, Any] = {}
        for given, inner in value:
            key = self._key.check(given, f"a key of {name}", None, {})
            if key in table:
                raise InvalidInput(f"{name} had the key {key!r:.80} twice; send it as it was made.")
            table[key] = self._item.read(inner, f"{name}[{key!r:.80}]", depth)
        return table

    def schema(self, schemas: Schemas) -> dict[str, Any]:
        pair = [self._key.schema(schemas), self._item.schema(schemas)]
        return _listed(_listed({}, 2) | {"prefixItems": pair, "items": False}, None)
