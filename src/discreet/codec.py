"""Frozen dataclasses as JSON and back, from one declaration of what each field may hold.

    @dataclass(frozen=True, eq=False)
    class CellSums(Serializable):
        kind: ClassVar[str] = "cell-sums"

        arms: Annotated[int, Range(2)]
        times: Annotated[FloatArray, Shape("nodes"), Range(0.0)]
        chosen: Annotated[FloatArray, Shape("nodes", "arms")]

The constructor checks the fields and makes their arrays read-only; what is read from JSON goes
through the same constructor. A field can be

| annotation                          | JSON                                                       |
|-------------------------------------|------------------------------------------------------------|
| bool, int, float, str, Literal[..]  | the same; NaN and infinity are refused                     |
| float with Range(infinite=True)     | the same; infinity is null                                 |
| an array (NDArray) with a Shape     | nested lists; more than 5,000 floats are base64 text       |
| tuple[X, ...], tuple[X, Y]          | a list                                                     |
| Mapping[X, Y]                       | a list of pairs                                            |
| X with CheckedBy(function)          | X, as far as the function allows it                        |
| a dataclass                         | an object of its fields, and its `kind` where it has one   |
| X or None                           | X; null                                                    |
| X or Y, both dataclasses            | an object with `kind`: that of the class, else its name    |
| a class that was registered         | what its functions make of it (`register`)                 |
| a class with to_fields()            | what this makes of it, under the names of its fields       |

A field with `field(default=.., metadata=OPTIONAL_FIELD)` is left out of JSON where it has its
default.

Equal letters of a shape are equal numbers; a letter that names an attribute of the object has its
value: "arms" above, or "domain.dimension".

Base64 text is {"shape": .., "float64": ..}: little-endian numbers in C order, bit for bit the same.

Messages may be damaged or hostile: `decode` raises `InvalidInput` and nothing else, and takes no
more memory than a small multiple of the message.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from importlib import import_module
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray

from discreet.validation import InvalidInput, invalid, with_article

# Raised when a field is removed, changes its meaning, or is added without OPTIONAL_FIELD.
SCHEMA = 1
# That of a message that names none.
FIRST_SCHEMA = 1
OPTIONAL_FIELD: Mapping[str, bool] = types.MappingProxyType({"added": True})
# Objects lie in each other no deeper than this.
MOST_DEPTH = 32
# What a constructor raises for values that fit their types, but not each other.
_DAMAGE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
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
    """The text of each size of a shape, and how an object of that class gives its value:
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
    """A check by a function, which returns the value or raises `InvalidInput`."""

    function: Callable[[Any], Any]


class SchemaCollector(Protocol):
    """Collects the JSON Schemas of the classes that fields hold (service/server/openapi.py)."""

    def of_class(self, kind: type, tag: str | None = None) -> dict[str, Any]: ...
    def named(self, name: str, schema: dict[str, Any]) -> dict[str, Any]: ...


class FieldCodec:
    """Checks values of one annotation, and converts them to and from JSON values.

    This base class passes instances of its `kinds` as they are.
    """

    def __init__(self, kinds: tuple[type, ...], wanted: str) -> None:
        self.kinds, self.wanted = kinds, wanted

    def matches(self, value: Any) -> bool:
        """Whether a Python value is of this kind, for unions."""
        return isinstance(value, self.kinds)

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        """The value as constructors keep it, or `InvalidInput`."""
        if not self.matches(value):
            raise invalid(value, name, self.wanted)
        return value

    def write(self, value: Any) -> Any:
        """A checked value as JSON values."""
        return value

    def read(self, value: Any, name: str, depth: int) -> Any:
        """A value from JSON values, which `check` sees next."""
        return value

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
        """The JSON Schema of what `write` makes; `schemas` collects those of classes."""
        return {"description": self.wanted}


class CheckedCodec(FieldCodec):
    """Values that a function checks too."""

    def __init__(self, codec: FieldCodec, function: Callable[[Any], Any]) -> None:
        super().__init__(codec.kinds, codec.wanted)
        self._codec, self._function = codec, function
        self.matches, self.write, self.read = codec.matches, codec.write, codec.read  # type: ignore[method-assign]
        self.schema = codec.schema  # type: ignore[method-assign]

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        return self._function(self._codec.check(value, name, owner, sizes))


class LiteralCodec(FieldCodec):
    """Literal[..]."""

    def __init__(self, words: tuple[Any, ...]) -> None:
        super().__init__((), " or ".join(map(repr, words)))
        self._words = words

    def matches(self, value: Any) -> bool:
        return any(type(value) is type(word) and value == word for word in self._words)

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
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


class Scalar(FieldCodec):
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
        raise invalid(value, name, self.wanted)

    def write(self, value: Any) -> Any:
        return None if self._infinite and value == math.inf else value

    def read(self, value: Any, name: str, depth: int) -> Any:
        return math.inf if self._infinite and value is None else value

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
        kind: Any = _JSON_TYPES[np.dtype(self._kind).kind]
        bounds = self._bounds.keywords()
        if self._kind is str:
            bounds = {f"{word[:3]}Length": bound for word, bound in bounds.items()}
        return {"type": [kind, "null"] if self._infinite else kind, **bounds}


class ArrayCodec(FieldCodec):
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
        """The dtype that an array is converted to."""
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
            raise InvalidInput(
                f"{name} had numbers that {dtype} does not hold; send the original message."
            )
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
                raise InvalidInput(f"{name} held text; send nested lists of numbers.")
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

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
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
        raise InvalidInput(
            f"{name} had rows of different lengths; send the original message."
        ) from error


_SIZES = ArrayCodec([np.int64], Shape("dimensions"), Range())


class MappingCodec(FieldCodec):
    """Mapping[X, Y], a list of pairs."""

    def __init__(self, key: FieldCodec, item: FieldCodec) -> None:
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
            raise invalid(value, name, "a list of pairs")
        table: dict[Any, Any] = {}
        for given, inner in value:
            key = self._key.check(given, f"a key of {name}", None, {})
            if key in table:
                raise InvalidInput(
                    f"{name} had the key {key!r:.80} twice; send the original message."
                )
            table[key] = self._item.read(inner, f"{name}[{key!r:.80}]", depth)
        return table

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
        pair = [self._key.schema(schemas), self._item.schema(schemas)]
        return _listed(_listed({}, 2) | {"prefixItems": pair, "items": False}, None)


T = TypeVar("T")


class Serializable:
    """A frozen dataclass whose constructor checks its fields (see the module).

    Attributes:
        facts: the public attributes that the repr shows, beside how many people it is about, in
            place of all fields; None for all fields.
    """

    kind: ClassVar[str]
    facts: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass writes a repr of all its fields, unless the class has one of its own.
        if cls.facts is not None and "__repr__" not in vars(cls):
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        if self.facts is None:
            return object.__repr__(self)
        shown: dict[str, Any] = {"n": len(self)} if isinstance(self, Sized) else {}
        for name in self.facts:
            value = getattr(self, name, None)
            shown[name] = short_id(value) if isinstance(value, str) else value
        return described(type(self).__name__, **shown)


# Text and back.


def encode(value: Any) -> str:
    """An object whose class has a kind, as one line of JSON."""
    return json.dumps({"kind": value.kind, "schema": SCHEMA, **fields_of(value)}, allow_nan=False)


def padded(text: bytes, size: int) -> bytes:
    """JSON text with spaces after it, up to a multiple of `size` bytes; it reads the same."""
    return text.ljust(-(-len(text) // size) * size)


def canonical(value: Any) -> str:
    """The one text of an object that its SHA-256 stands for, which `decode` reads.

    Names are sorted, and nothing stands between them; a schema that is not named is the first.
    """
    fields = {"kind": value.kind, **fields_of(value)}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """JSON values as one text in every language: RFC 8785, for names in ASCII. Numbers are written
    as `JSON.stringify` of JavaScript writes them, 1.0 as 1 and 1e-06 as 0.000001."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)}:{canonical_json(value[key])}" for key in sorted(value))
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(canonical_json, value))}]"
    if not isinstance(value, float):
        return json.dumps(value, ensure_ascii=False)
    sign, figures, exponent = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, figures))
    count, point = len(digits), len(digits) + int(exponent)
    if not -6 < point <= 21:
        power, rest = point - 1, f".{digits[1:]}" if count > 1 else ""
        text = f"{digits[0]}{rest}e{power:+d}"
    elif point <= 0:
        text = f"0.{'0' * -point}{digits}"
    elif point < count:
        text = f"{digits[:point]}.{digits[point:]}"
    else:
        text = digits + "0" * (point - count)
    return f"-{text}" if sign and value else text


def decode(text: str | bytes, expected: type[T]) -> T:
    """The object of class `expected` in `text`: `Policy` on a device, `Reports` at a learner.

    The class is required, so a caller never gets an object of another kind.

    Raises:
        InvalidInput: text that is not JSON, of another kind or schema, or with fields that are
            missing or wrong.
    """
    try:
        fields = json.loads(text, parse_constant=_no_constant)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(
            f"the message is not JSON ({error}); send the original message."
        ) from error
    if not isinstance(fields, dict) or "kind" not in fields:
        raise InvalidInput("the message has no kind; send the text that encode() returned.")
    schema = fields.pop("schema", FIRST_SCHEMA)
    if type(schema) is not int or schema != SCHEMA:
        raise InvalidInput(
            f"the message has schema {schema!r:.80}; this version reads schema {SCHEMA}. Use the "
            "same version of discreet on both sides."
        )
    message: Any = class_of(fields.pop("kind"), expected, "the message")
    return cast(T, fields_from_json(fields, message, f"the {message.kind}"))


def _no_constant(name: str) -> None:
    raise ValueError(f"it held {name}")


def to_json(value: Any, annotation: Any = None) -> Any:
    """A value as JSON values; `annotation` where its type does not say all, as for a union."""
    return codec_of(cast(Any, type(value) if annotation is None else annotation)).write(value)


def from_json(values: Any, annotation: Any, name: str = "the value") -> Any:
    """The inverse of `to_json`; `name` is what messages call it."""
    codec = codec_of(annotation)
    return codec.check(codec.read(values, name, 0), name, None, {})


# The module that defines a kind, for reading a message before anything imported it: a
# device that decodes the policy of one learner loads what that policy needs, and nothing else.
_HOMES: dict[str, str] = {}


def register_lazy(homes: Mapping[str, str]) -> None:
    """Register the modules that define kinds, to be imported when a message needs them."""
    _HOMES.update(homes)


def homes() -> dict[str, str]:
    """The modules of all known kinds, those of installed packages among them."""
    return {**_installed(), **_HOMES}


@cache
def _installed() -> dict[str, str]:
    """The modules that installed packages announce in their metadata, by kind."""
    entries = import_module("importlib.metadata").entry_points(group="discreet.messages")
    return {entry.name: entry.value for entry in entries}


def class_of(kind: object, expected: type[T], name: str) -> type[T]:
    """The class of that kind; `InvalidInput` if it is not a class `expected`, or none at all."""
    home = isinstance(kind, str) and (_HOMES.get(kind) or _installed().get(kind))
    if home:
        try:
            import_module(home)
        except ImportError as error:
            raise InvalidInput(
                f"{name} has kind {kind!r}, which cannot be read here ({error}); run pip install "
                "discreet, with its dependencies."
            ) from error
    candidates: list[Any] = [expected]
    for candidate in candidates:
        if isinstance(kind, str) and vars(candidate).get("kind") == kind:
            return cast(type[T], candidate)
        candidates += candidate.__subclasses__()
    raise InvalidInput(
        f"{name} has kind {kind!r:.80}; expected here is {expected.__name__}. Send a message of "
        "that class."
    )


# Objects and their fields.


def check_fields(owner: Any) -> None:
    """Check every field of a dataclass, convert it to float64 arrays, plain ints and tuples, and
    make its arrays read-only.

    Raises:
        InvalidInput: for the first field that its annotation does not allow.
    """
    sizes: dict[str, int] = {}
    values = vars(owner)
    for name, codec in field_codecs(cast(Any, type(owner))).items():
        value = values[name]
        checked = codec.check(value, name, owner, sizes)
        if checked is not value:
            object.__setattr__(owner, name, checked)


def fields_to_json(owner: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON values."""
    codecs, added = field_codecs(cast(Any, type(owner))), optional_fields(cast(Any, type(owner)))
    values = {name: getattr(owner, name) for name in codecs}
    return {
        name: codecs[name].write(value)
        for name, value in values.items()
        # An array is compared with None alone, without its numbers.
        if name not in added or (value is not None if added[name] is None else value != added[name])
    }


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of an object as JSON values, by its own method where it has one."""
    return value.to_fields() if hasattr(value, "to_fields") else fields_to_json(value)


def fields_from_json(fields: Mapping[str, Any], kind: type[T], name: str = "", depth: int = 0) -> T:
    """The dataclass whose fields these are; there must be exactly those."""
    name = name or f"the {getattr(kind, 'kind', kind.__name__)}"
    if depth > MOST_DEPTH:
        raise InvalidInput(
            f"{name} was nested more than {MOST_DEPTH} deep; send the original message."
        )
    if not isinstance(fields, dict):
        raise invalid(fields, name, "an object of its fields")
    wanted, added = field_codecs(cast(Any, kind)), optional_fields(cast(Any, kind))
    lacking = [field for field in wanted if field not in fields and field not in added]
    if lacking:
        raise InvalidInput(f"{name} lacks the field {lacking[0]!r}; send the original message.")
    if not fields.keys() <= wanted.keys():
        raise InvalidInput(
            f"{name} had the fields {sorted(map(str, fields))!r:.200}; it must have exactly "
            f"{', '.join(wanted) or 'none'}. Send the original message."
        )
    values = {
        field: codec.read(fields[field], field, depth + 1) if field in fields else added[field]
        for field, codec in wanted.items()
    }
    try:
        # Fields are checked before a constructor computes with them.
        if getattr(kind, "__post_init__", None) is not Serializable.__post_init__:
            bare = object.__new__(kind)
            vars(bare).update(values)
            check_fields(bare)
            values = dict(vars(bare))
        return kind(**values)
    except InvalidInput:
        raise
    except _DAMAGE as error:
        raise InvalidInput(f"{name} is damaged ({error}); send the original message.") from error


@cache
def field_codecs(kind: Any) -> dict[str, FieldCodec]:
    """The codec of each field of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: codec_of(hints[field.name]) for field in dataclasses.fields(kind) if field.init
    }


@cache
def optional_fields(kind: Any) -> dict[str, Any]:
    """The optional fields of a dataclass, with their defaults."""
    return {
        field.name: field.default
        for field in dataclasses.fields(kind)
        if field.init and "added" in field.metadata
    }


# Classes, lists and unions.


class _TupleCodec(FieldCodec):
    """tuple[X, ...] with one item, or tuple[X, Y] with an item for each place."""

    def __init__(self, items: tuple[FieldCodec, ...], same: bool) -> None:
        super().__init__((list, tuple), "a list")
        self._items, self._same = items, same

    def _each(self, values: Any, name: str) -> list[tuple[FieldCodec, Any, str]]:
        if not self._same and len(values) != len(self._items):
            raise InvalidInput(
                f"{name} had {len(values)} entries; it must have {len(self._items)}."
            )
        items = self._items * len(values) if self._same else self._items
        return [
            (item, value, f"{name}[{place}]")
            for place, (item, value) in enumerate(zip(items, values, strict=True))
        ]

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        each = self._each(super().check(value, name, owner, sizes), name)
        return tuple(item.check(inner, inside, owner, sizes) for item, inner, inside in each)

    def write(self, value: Any) -> Any:
        return [item.write(inner) for item, inner, _ in self._each(value, "")]

    def read(self, value: Any, name: str, depth: int) -> Any:
        if not isinstance(value, list):
            raise invalid(value, name, self.wanted)
        return [item.read(inner, inside, depth) for item, inner, inside in self._each(value, name)]

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
        items = [item.schema(schemas) for item in self._items]
        if self._same:
            return {"type": "array", "items": items[0]}
        count = len(items)
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}


class _ObjectCodec(FieldCodec):
    """A dataclass; by its kind where it, or a class derived from it, has one.

    In a union of several it is written with a tag that says which.
    """

    def __init__(self, kind: type, tag: str | None = None) -> None:
        super().__init__((kind,), with_article(kind.__name__))
        self.kind, self._tag = kind, tag

    def write(self, value: Any) -> Any:
        tag = self._tag or getattr(type(value), "kind", None)
        return {**({} if tag is None else {"kind": tag}), **fields_of(value)}

    def read(self, value: Any, name: str, depth: int) -> Any:
        kind, fields = self.kind, value
        if isinstance(value, dict) and ("kind" in value or not dataclasses.is_dataclass(kind)):
            fields = {key: inner for key, inner in value.items() if key != "kind"}
            kind = kind if self._tag else class_of(value.get("kind"), kind, name)
        return fields_from_json(fields, kind, name, depth)

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
        return schemas.of_class(self.kind, self._tag)


class _RegisteredCodec(FieldCodec):
    """A class with two functions of its own."""

    def __init__(
        self, kind: type, write: Callable[[Any], Any], read: Callable[[Any], Any], title: str
    ) -> None:
        super().__init__((kind,), f"a {title}")
        self.write, self._read = write, read  # type: ignore[method-assign, assignment]

    def read(self, value: Any, name: str, depth: int) -> Any:
        try:
            return self._read(value)
        except InvalidInput:
            raise
        except _DAMAGE as error:
            raise InvalidInput(
                f"{name} is damaged ({error}); send the original message."
            ) from error


class _UnionCodec(FieldCodec):
    """X | Y; None is null, and of several classes `kind` says which."""

    def __init__(self, items: dict[str, FieldCodec], optional: bool) -> None:
        super().__init__((), " or ".join([*items, *(["none"] if optional else [])]))
        self._items, self._optional = items, optional

    def _of(self, value: Any) -> FieldCodec | None:
        return next((item for item in self._items.values() if item.matches(value)), None)

    def matches(self, value: Any) -> bool:
        return (self._optional and value is None) or self._of(value) is not None

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if value is None and self._optional:
            return None
        item = self._of(value)
        if item is None:
            raise invalid(value, name, self.wanted)
        return item.check(value, name, owner, sizes)

    def write(self, value: Any) -> Any:
        item = self._of(value)
        return None if item is None else item.write(value)

    def read(self, value: Any, name: str, depth: int) -> Any:
        if value is None and self._optional:
            return None
        item = self._of(value)
        if len(self._items) == 1:
            (item,) = self._items.values()
        elif isinstance(value, dict):
            item = self._items.get(str(value.get("kind")))
        if item is None:
            raise invalid(value, name, f"one of {', '.join(self._items)}")
        return item.read(value, name, depth)

    def schema(self, schemas: SchemaCollector) -> dict[str, Any]:
        items = [item.schema(schemas) for item in self._items.values()]
        return {"anyOf": [*items, *([{"type": "null"}] if self._optional else [])]}


_REGISTERED: dict[type, _RegisteredCodec] = {}


def register(
    kind: type[T], write: Callable[[T], Any], read: Callable[[Any], T], title: str
) -> None:
    """Objects of a class, and of those derived from it, are written and read by two functions.

    Args:
        kind: the class.
        write: makes JSON values of one.
        read: the inverse; `InvalidInput` for anything else.
        title: what messages call one.
    """
    _REGISTERED[kind] = _RegisteredCodec(kind, write, read, title)
    codec_of.cache_clear()
    field_codecs.cache_clear()


@cache
def codec_of(annotation: Any) -> FieldCodec:
    """The codec of an annotation."""
    extras: tuple[Any, ...] = ()
    if get_origin(annotation) is Annotated:
        annotation, *rest = get_args(annotation)
        extras = tuple(rest)
        for check in extras:
            if isinstance(check, CheckedBy):
                others = tuple(extra for extra in extras if extra is not check)
                return CheckedCodec(codec_of(_with(annotation, others)), check.function)
    shape = next((extra for extra in extras if isinstance(extra, Shape)), None)
    bounds = next((extra for extra in extras if isinstance(extra, Range)), Range())
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (bool, int, float, str):
        return Scalar(annotation, bounds)
    if origin is Literal:
        return LiteralCodec(arguments)
    if origin is np.ndarray:
        return ArrayCodec([_scalar(annotation)], shape, bounds)
    if origin in (Union, types.UnionType):
        return _union(arguments, extras, shape, bounds)
    if origin is tuple:
        same = len(arguments) == 2 and arguments[1] is Ellipsis
        items = arguments[:1] if same else arguments
        return _TupleCodec(tuple(codec_of(_with(item, extras)) for item in items), same)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MappingCodec(codec_of(arguments[0]), codec_of(arguments[1]))
    kind = origin or annotation
    for base in getattr(kind, "__mro__", ()):
        if base in _REGISTERED:
            return _REGISTERED[base]
    if kind.__module__ != "builtins":
        return _ObjectCodec(kind)
    raise TypeError(f"{annotation!r} is no field of a message; see the table of discreet.codec")


def _union(
    arguments: tuple[Any, ...], extras: tuple[Any, ...], shape: Shape | None, bounds: Range
) -> FieldCodec:
    kinds = [kind for kind in arguments if kind is not types.NoneType]
    optional = len(kinds) < len(arguments)
    if all(get_origin(kind) is np.ndarray for kind in kinds):
        array = ArrayCodec([_scalar(kind) for kind in kinds], shape, bounds)
        return _UnionCodec({"an array": array}, optional) if optional else array
    items: dict[str, FieldCodec] = {}
    for kind in kinds:
        codec = codec_of(_with(kind, extras))
        if len(kinds) > 1 and isinstance(codec, _ObjectCodec):
            tag = getattr(codec.kind, "kind", codec.kind.__name__)
            items[tag] = _ObjectCodec(codec.kind, tag)
        else:
            items[codec.wanted] = codec
    return _UnionCodec(items, optional)


def _with(kind: Any, extras: tuple[Any, ...]) -> Any:
    """An annotation with the constraints of the annotation that contains it."""
    return Annotated[(kind, *extras)] if extras else kind


def _scalar(annotation: Any) -> Any:
    """The type of the numbers of an NDArray annotation."""
    return get_args(get_args(annotation)[1])[0]


# Reprs and the log show public facts only: never a context, an action, a reward or a sum of them,
# nor reports or anything else that was computed from data without noise.

_MOST_NAMES = 6
_MOST_CHARACTERS = 120


def short_id(identity: str) -> str:
    """The beginning of a long random identity; a name in words stays as it is."""
    return f"{identity[:8]}.." if len(identity) > 12 and " " not in identity else identity


def described(name: str, **facts: object) -> str:
    """`Name(fact=value, ..)`, for reprs; facts that are None are left out."""
    shown = (f"{key}={_brief(value)}" for key, value in facts.items() if value is not None)
    return f"{name}({', '.join(shown)})"


def _brief(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > _MOST_NAMES:
        return f"[{', '.join(map(repr, value[:_MOST_NAMES]))}, .. {len(value)} in all]"
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 2] + ".."
