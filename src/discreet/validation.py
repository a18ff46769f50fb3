"""Checks that every public entry makes before anything changes.

Each check returns the value in the form the library computes with (float64 arrays, plain ints) or
raises `InvalidInput`, whose message says what was given, what is allowed and what to do. The
checks run before any state is touched, so refused input leaves everything as it was.

| check                                                      | what passes                       |
|------------------------------------------------------------|-----------------------------------|
| finite_number, positive_number, probability, number_from   | one number                        |
| whole_number                                               | one whole number                  |
| one_of, instance_of, path_of                               | one of a few values, or of a kind |
| ordered, distinct                                          | values that fit together          |
| number_matrix, finite_matrix, number_vector, finite_vector | float64 arrays of a shape         |
| whole_vector, nearest_whole                                | int64 arrays of a shape           |

Where none of them fits, `raise invalid(value, name, requirement)`. What holds for several entries
of a file is collected by `ErrorCollector`, so one message lists everything that is wrong.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
SignArray = NDArray[np.int8]
CoinArray = NDArray[np.uint64]

_LEAST_ABOVE_0 = math.nextafter(0.0, 1.0)

Choice = TypeVar("Choice")
Kind = TypeVar("Kind")


class InvalidInput(ValueError):
    """Input that was refused. Nothing has changed; the message says what to do.

    `InvalidInput(first, second, ...)` has several messages, shown as a numbered list.
    """

    def __str__(self) -> str:
        if len(self.args) < 2:
            return super().__str__()
        lines = [f"{number}. {text}" for number, text in enumerate(self.args, start=1)]
        return "\n".join([f"{len(lines)} things are wrong.", *lines])


class ErrorCollector:
    """Collects errors, so one message lists everything that is wrong.

    refusals = ErrorCollector()
    for column in columns:
        with refusals.collected():
            check(column)
    refusals.raise_if_any()
    """

    def __init__(self) -> None:
        self._messages: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, *messages: str) -> None:
        """Add messages, without duplicates."""
        self._messages += [text for text in messages if text not in self._messages]

    @contextmanager
    def collected(self, prefix: str = "") -> Iterator[None]:
        """Keep the messages of an `InvalidInput` behind a prefix, and go on after the block."""
        try:
            yield
        except InvalidInput as error:
            self.add(*(f"{prefix}{text}" for text in error.args))

    def raise_if_any(self) -> None:
        """`InvalidInput` with all messages, if there are any."""
        if self._messages:
            raise InvalidInput(*self._messages)


def nearest(name: str, known: Iterable[str]) -> str:
    """A question to append to a message about an unknown name; empty where none is similar."""
    names = {each.casefold(): each for each in known}
    similar = difflib.get_close_matches(name.casefold(), list(names), n=1)
    return f" Did you mean {names[similar[0]]!r}?" if similar else ""


def check_options(owner: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse options that are not among those known."""
    if not isinstance(options, Mapping):
        raise InvalidInput(f"the options of {owner} were {options!r:.80}; give a dictionary.")
    refusals = ErrorCollector()
    for each in options:
        if each not in known:
            refusals.add(
                f"{owner} got the option {each!r}; its options are "
                f"{', '.join(known) or 'none'}.{nearest(str(each), known)}"
            )
    refusals.raise_if_any()


def invalid(value: object, name: str, requirement: str) -> InvalidInput:
    """The error for a value: what was given and what is allowed, such as `a number above 0`."""
    return InvalidInput(f"{name} was {value!r:.200}; it must be {requirement}.")


def finite_number(value: Any, name: str, requirement: str = "a finite number") -> float:
    """`value` as a float, or `InvalidInput` when it is not a finite real number."""
    return number_from(value, name, -math.inf, requirement=requirement)


def positive_number(value: Any, name: str) -> float:
    """`value` as a float above 0 and below infinity."""
    return number_from(value, name, _LEAST_ABOVE_0, requirement="a finite number above 0")


def probability(value: Any, name: str) -> float:
    """`value` as a float strictly between 0 and 1."""
    allowed = "a number strictly between 0 and 1"
    return number_from(value, name, _LEAST_ABOVE_0, math.nextafter(1.0, 0.0), allowed)


def number_from(
    value: Any, name: str, least: float, most: float = math.inf, requirement: str = ""
) -> float:
    """`value` as a finite float from `least` to `most`, both included.

    Args:
        value: any object.
        name: what messages call it.
        least, most: the bounds.
        requirement: what messages ask for; by default the bounds.
    """
    number = math.nan
    if not isinstance(value, bool) and isinstance(value, int | float | np.integer | np.floating):
        with suppress(OverflowError):
            number = float(value)
    if not (math.isfinite(number) and least <= number <= most):
        unbounded = f"a finite number of at least {least:g}"
        bounds = unbounded if math.isinf(most) else f"a number from {least:g} to {most:g}"
        raise invalid(value, name, requirement or bounds)
    return number


def whole_number(value: Any, name: str, minimum: int = 0, maximum: int | None = None) -> int:
    """`value` as an int between `minimum` and `maximum`, both included."""
    whole = not isinstance(value, bool) and isinstance(value, int | np.integer)
    if not whole or value < minimum or (maximum is not None and value > maximum):
        bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise invalid(value, name, f"a whole number {bounds}")
    return int(value)


def one_of(value: Any, name: str, allowed: Iterable[Choice]) -> Choice:
    """The choice that equals `value`, or `InvalidInput` that lists the choices."""
    choices = list(allowed)
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    similar = nearest(value, map(str, choices)) if isinstance(value, str) else ""
    listed = ", ".join(map(str, choices))
    raise InvalidInput(f"{name} was {value!r:.80}; it must be one of {listed}.{similar}")


def instance_of(value: Any, name: str, kind: type[Kind], wanted: str) -> Kind:
    """`value` if it is an instance of `kind`; messages ask for `wanted`, such as `a Box`."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} was {a_kind(value)}; give {wanted}.")
    return value


def path_of(value: Any, name: str, wanted: str) -> Path:
    """`value` as a path, if it is one or a text; messages ask for `wanted`."""
    if not isinstance(value, str | PathLike):
        raise InvalidInput(f"{name} was {a_kind(value)}; give {wanted}.")
    return Path(value)


def a_kind(value: object) -> str:
    """The type of a value with its article: `an int`, `a DataFrame`, `None`."""
    return "None" if value is None else with_article(type(value).__name__)


def with_article(name: str) -> str:
    """The name of a class as sentences have it: `an int`, `a Usca`."""
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def ordered(lower: float, upper: float, subject: str) -> None:
    """Refuse bounds that are not in order, or further apart than float64 can tell.

    `subject` is how the message begins, such as `reward bounds were`.
    """
    if not (lower < upper and math.isfinite(upper - lower)):
        raise InvalidInput(
            f"{subject} [{lower}, {upper}]; the lower must be below the upper bound."
        )


def distinct(values: Iterable[Choice], name: str, least: int = 1) -> tuple[Choice, ...]:
    """`values` as a tuple if there are at least `least` and each occurs once."""
    given = tuple(values)
    if len(given) < least or len(set(given)) < len(given):
        number = {1: "one", 2: "two"}.get(least, str(least))
        raise InvalidInput(f"{name} were {list(given)!r:.200}; give at least {number}, each once.")
    return given


def number_matrix(values: ArrayLike, name: str, columns: int) -> FloatArray:
    """`values` as a float64 array of shape (n, columns) with n >= 1."""
    array = _as_float(values, name)
    if array.ndim != 2 or array.shape[1] != columns:
        raise InvalidInput(
            f"{name} had shape {array.shape}; it must have shape (people, {columns}), "
            "one row for each person (for one person, pass a list with one row)."
        )
    if array.shape[0] == 0:
        raise InvalidInput(f"{name} was empty; pass at least one row.")
    return array


def finite_matrix(values: ArrayLike, name: str, columns: int) -> FloatArray:
    """`values` as a float64 array of shape (n, columns) with n >= 1 and no NaN or infinity."""
    return _finite(number_matrix(values, name, columns), name)


def number_vector(values: ArrayLike, name: str, length: int) -> FloatArray:
    """`values` as a float64 array of shape (length,)."""
    array = _as_float(values, name)
    if array.shape != (length,):
        raise InvalidInput(f"{name} had shape {array.shape}; it must have shape ({length},).")
    return array


def finite_vector(values: ArrayLike, name: str, length: int) -> FloatArray:
    """`values` as a float64 array of shape (length,) with no NaN or infinity."""
    return _finite(number_vector(values, name, length), name)


def _finite(array: FloatArray, name: str) -> FloatArray:
    finite = np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    if not finite.all():
        raise InvalidInput(
            f"{name} had NaN or infinity in {int((~finite).sum())} of {len(array)} rows, first in "
            f"row {int(np.argmin(finite))}; drop or impute those rows by a rule that is public."
        )
    return array


def whole_vector(
    values: ArrayLike,
    name: str,
    minimum: int = -(2**63),
    maximum: int = 2**63 - 1,
    length: int | None = None,
) -> IntArray:
    """`values` as an int64 array of shape (length,), every entry from `minimum` to `maximum`."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} had entries of different lengths; pass one vector.") from error
    if array.ndim != 1 or (length is not None and array.shape != (length,)):
        wanted = "(people,)" if length is None else f"({length},)"
        raise InvalidInput(f"{name} had shape {array.shape}; it must have shape {wanted}.")
    if array.size and array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} had type {array.dtype}; it must hold whole numbers.")
    if array.size and (array.min() < minimum or array.max() > maximum):
        bad = (array < minimum) | (array > maximum)
        first = int(np.argmax(bad))
        raise InvalidInput(
            f"{name} was {array[first]} at position {first}; every entry must be a whole number "
            f"from {minimum} to {maximum}."
        )
    return array.astype(np.int64)


def nearest_whole(values: ArrayLike, name: str, least: int, most: int, length: int) -> IntArray:
    """`values` as int64 (length,), each moved to the nearest from `least` to `most`.

    Refuses shapes and types only; what is missing counts as `least`. See `Box.nearest_unit`.
    """
    numbers = number_vector(values, name, length)
    kind = np.asarray(values).dtype
    if kind.kind not in "iuO":
        raise InvalidInput(f"{name} had type {kind}; it must hold whole numbers.")
    return np.clip(np.where(np.isnan(numbers), least, numbers), least, most).astype(np.int64)


def freeze_arrays(owner: object) -> None:
    """Make every array that a dataclass holds read-only, so that frozen means frozen."""
    for value in vars(owner).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)


def _as_float(values: ArrayLike, name: str) -> FloatArray:
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US":
            raise TypeError("it held text")
        if array.dtype.kind not in "biufO" or np.ma.isMaskedArray(values):
            raise TypeError(f"its type was {array.dtype}, or it was masked")
        if array.dtype.kind == "O":
            array = np.array([number_of(value) for value in array.flat]).reshape(array.shape)
        if array.dtype.itemsize <= 8:
            return array.astype(np.float64)
        with np.errstate(over="ignore"):  # beyond float64 is infinity
            return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} could not be read as numbers ({error}); give numbers only."
        ) from error


def number_of(value: Any) -> float:
    """A Python object as a float: what no float reaches as infinity, what is missing as NaN."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        if isinstance(value, str | bytes):
            raise
        return math.nan
