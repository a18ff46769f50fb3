"""Numbers and arrays of messages: their bounds and shapes, and how they are written."""

from __future__ import annotations

import base64
import binascii
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.validation import FloatArray, InvalidInput, read_array

# Smaller arrays stay readable.
MOST_LISTED = 5_000
_LARGEST = sys.float_info.max


class Form(ABC):
    """How values of one annotation are checked, written and read."""

    @abstractmethod
    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        """The value in the form that is computed with, or `InvalidInput`."""

    @abstractmethod
    def write(self, value: Any) -> Any:
        """A checked value as JSON values."""

    @abstractmethod
    def read(self, value: Any, name: str, depth: int) -> Any:
        """A value from JSON values, which `check` sees next."""

    def matches(self, value: Any) -> bool:
        """Whether a Python value is of this kind, for unions."""
        return True


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
        """The least and the largest value allowed: a range is a closed interval of floats."""
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

    def holds(self, values: Any) -> Any:
        """Whether a number, or each number of an array, is within the bounds."""
        least, most = self.ends
        return (values >= least) & (values <= most)

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
        for (letter, path), given in zip(
            _wanted(cast(Any, type(owner)), self), shape, strict=False
        ):
            wanted = path if isinstance(path, int) else sizes.get(letter)
            if wanted is None and callable(path):
                wanted = int(path(owner))
            if wanted is not None:
                known[letter] = wanted
                fits = fits and wanted == given
            sizes[letter] = given
        if not fits:
            letters = [
                f"{size} = {number}" for size, number in known.items() if size != str(number)
            ]
            where = f" with {', '.join(letters)}" if letters else ""
            raise InvalidInput(f"{name} had shape {shape}; it must have shape {self}{where}.")


@cache
def _wanted(kind: type, shape: Shape) -> list[tuple[str, Any]]:
    """For each size of a shape what messages call it, and how an object of that class says what it
    is: the number, a function of the object, or None for a free letter."""
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


class Checked(Form):
    """Values that a check of one's own allows too."""

    def __init__(self, form: Form, function: Callable[[Any], Any]) -> None:
        self._form, self._function = form, function

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        return self._function(self._form.check(value, name, owner, sizes))

    def write(self, value: Any) -> Any:
        return self._form.write(value)

    def read(self, value: Any, name: str, depth: int) -> Any:
        return self._function(self._form.read(value, name, depth))

    def matches(self, value: Any) -> bool:
        return self._form.matches(value)


class Plain(Form):
    """bool, int, float or str."""

    def __init__(self, kind: type, bounds: Range | None) -> None:
        self._kind, self._bounds = kind, bounds or Range()
        self._least, self._most = self._bounds.ends
        self._infinite = kind is float and self._bounds.infinite
        whole = (int, np.integer)
        numbers = {int: whole, float: (*whole, float, np.floating), bool: (bool, np.bool_)}
        self._accepted: tuple[type, ...] = numbers.get(kind, (kind,))

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if type(value) is self._kind or self.matches(value):
            try:
                given = self._kind(value)
            except OverflowError:
                given = math.nan
            size = len(given) if self._kind is str else given
            if self._least <= size <= self._most:
                return given
        raise InvalidInput(f"{name} was {value!r:.80}; it must be {self._allowed}.")

    @property
    def _allowed(self) -> str:
        if self._kind is str:
            return f"text of {self._bounds} characters" if str(self._bounds) else "text"
        words = {bool: "true or false", int: "a whole number"}
        number = "a number" if self._infinite else "a finite number"
        return f"{words.get(self._kind, number)} {self._bounds}".strip()

    def write(self, value: Any) -> Any:
        return None if self._infinite and value == math.inf else value

    def read(self, value: Any, name: str, depth: int) -> Any:
        read = math.inf if self._infinite and value is None else value
        return self.check(read, name, None, {})

    def matches(self, value: Any) -> bool:
        truth = isinstance(value, bool) and self._kind is not bool
        return isinstance(value, self._accepted) and not truth


class Array(Form):
    """An array; of floats or whole numbers where the annotation allows both."""

    def __init__(self, dtypes: tuple[Any, ...], shape: Shape | None, bounds: Range | None) -> None:
        self._dtypes: dict[str, np.dtype[Any]] = {
            np.dtype(dtype).kind: np.dtype(dtype) for dtype in dtypes
        }
        self._exact = set(self._dtypes.values())
        self._shape, self._bounds = shape, bounds or Range()
        self._least, self._most = self._bounds.ends
        # Kinds of numbers that can be outside: whole ones are finite.
        self._bounded = "iuf" if self._bounds != Range() else "f"
        if shape is None:
            raise TypeError("an array needs a Shape: Annotated[FloatArray, Shape('n', 'd')]")

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        assert self._shape is not None
        array = np.asarray(value)
        dtype = array.dtype
        if dtype not in self._exact:
            dtype = self._dtype(array, name)
        self._shape.check(array.shape, name, owner, sizes)
        if array.size and dtype.kind in self._bounded and not self._within(array.ravel()):
            inside = np.asarray(self._bounds.holds(array))
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

    def _cast(self, array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
        """The array as that type; `InvalidInput` for numbers that it does not hold."""
        with np.errstate(over="ignore"):
            cast = array.astype(dtype)
        if not self._kept(cast, array):
            raise InvalidInput(f"{name} had numbers that {dtype} does not hold; send it as made.")
        return cast

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
            raise InvalidInput(
                f"{name} had type {array.dtype}; it must be an array of "
                f"{' or '.join(str(kind) for kind in self._dtypes.values())}."
            )
        return dtype

    @staticmethod
    def _kept(cast: NDArray[Any], array: NDArray[Any]) -> bool:
        if cast.dtype.kind == "f":
            return bool(np.isfinite(cast).all() or not np.isfinite(array).all())
        return bool((cast == array).all() and ((cast < 0) == (array < 0)).all())

    def write(self, value: Any) -> Any:
        return encode_array(value) if value.dtype.kind == "f" else value.tolist()

    def read(self, value: Any, name: str, depth: int) -> Any:
        assert self._shape is not None
        dimensions = len(self._shape.sizes)
        if "f" in self._dtypes and isinstance(value, dict):
            return decode_array(value, name, dimensions)
        words = {"b": "truth", "i": "whole", "u": "whole", "f": "number"}
        if len(self._dtypes) == 1:
            return read_array(value, name, words[next(iter(self._dtypes))], dimensions)
        numbers = read_array(value, name, "number", dimensions)
        whole = np.asarray(value).dtype.kind in "iu"
        return read_array(value, name, "whole", dimensions) if whole else numbers

    def matches(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)


def encode_array(values: ArrayLike) -> Any:
    """An array of floats as JSON values (see the module)."""
    array = np.asarray(values, dtype=np.float64)
    # No rows would be an empty list, whatever columns they have.
    no_rows = array.ndim > 1 and len(array) == 0
    if array.size <= MOST_LISTED and not no_rows:
        return array.tolist()
    numbers = base64.b64encode(array.astype("<f8").tobytes()).decode("ascii")
    return {"shape": list(array.shape), "float64": numbers}


def decode_array(value: Any, name: str, dimensions: int) -> FloatArray:
    """The inverse of `encode_array`; only the numbers that were sent take memory.

    Raises:
        InvalidInput: for another form, a wrong number of dimensions, NaN or infinity.
    """
    if not isinstance(value, dict):
        return read_array(value, name, "number", dimensions)
    if set(value) != {"shape", "float64"} or not isinstance(value["float64"], str):
        raise InvalidInput(
            f"{name} had the fields {sorted(map(str, value))!r:.200}; send nested lists, or "
            "exactly shape and float64, the base64 text of the numbers."
        )
    shape = [int(n) for n in read_array(value["shape"], f"the shape of {name}", "whole", 1)]
    try:
        numbers = base64.b64decode(value["float64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{name} was not base64 ({error}); send it as made.") from error
    if min(shape, default=0) < 0 or len(numbers) != 8 * math.prod(shape):
        raise InvalidInput(
            f"{name} had the shape {shape} and {len(numbers)} bytes; each number takes 8 bytes. "
            "Send it as made."
        )
    try:
        array = np.frombuffer(numbers, dtype="<f8").reshape(shape)
    except ValueError as error:  # an empty array of more rows than can be counted
        raise InvalidInput(f"{name} is damaged ({error}); send it as it was made.") from error
    return read_array(array, name, "number", dimensions)
