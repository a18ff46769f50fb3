"""How the fields of a dataclass are checked, written and read: the rows of the codec's table."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from discreet.codec.values import Array, Checked, CheckedBy, Form, Plain, Range, Shape
from discreet.validation import InvalidInput

# Objects lie in each other no deeper than this.
MOST_DEPTH = 32
# What a constructor raises for values that fit their types, but not each other.
_DAMAGE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)

T = TypeVar("T")

# In which module a kind is defined, for whoever reads a message before anything imported it: a
# device that decodes the policy of one learner loads what that policy needs, and nothing else.
_HOMES: dict[str, str] = {}


def announce(homes: Mapping[str, str]) -> None:
    """Say in which module each kind is defined."""
    _HOMES.update(homes)


def class_of(kind: object, expected: type[T], name: str) -> type[T]:
    """The class of that kind; `InvalidInput` if it is not a class `expected`, or none at all."""
    if isinstance(kind, str) and kind in _HOMES:
        try:
            import_module(_HOMES[kind])
        except ImportError as error:
            raise InvalidInput(
                f"{name} has kind {kind!r}, which cannot be read here ({error}); run pip install "
                "discreet, with its dependencies."
            ) from error
    for candidate in _descendants(expected):
        if isinstance(kind, str) and vars(candidate).get("kind") == kind:
            return candidate  # type: ignore[no-any-return]
    raise InvalidInput(
        f"{name} has kind {kind!r:.80}; expected here is {expected.__name__}. Send a message of "
        "that class as encode() made it, to the side that it is for."
    )


def _descendants(base: Any) -> list[Any]:
    """A class and everything derived from it."""
    return [base, *(kind for child in base.__subclasses__() for kind in _descendants(child))]


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
    _REGISTERED[kind] = _Registered(kind, write, read, title)
    for known in (form_of, _forms, _checks):
        known.cache_clear()


# Objects and their fields.


def check_fields(owner: Any) -> None:
    """Check every field of a dataclass, put it into the form that is computed with (float64
    arrays, plain ints, tuples), and make its arrays read-only.

    Raises:
        InvalidInput: for the first field that its annotation does not allow.
    """
    sizes: dict[str, int] = {}
    values = vars(owner)
    for name, check in _checks(cast(Any, type(owner))):
        value = values[name]
        checked = check(value, name, owner, sizes)
        if checked is not value:
            object.__setattr__(owner, name, checked)


def fields_to_json(owner: Any, kind: type | None = None) -> dict[str, Any]:
    """The fields of a dataclass, or those that it has from a base class, as JSON values."""
    forms = _forms(cast(Any, kind or type(owner)))
    return {name: form.write(getattr(owner, name)) for name, form in forms.items()}


def read_fields(fields: Mapping[str, Any], kind: type, depth: int = 0) -> dict[str, Any]:
    """The inverse of `fields_to_json`, as keyword arguments; other fields are left alone."""
    forms = _forms(cast(Any, kind))
    return {name: form.read(fields[name], name, depth + 1) for name, form in forms.items()}


def fields_from_json(fields: Mapping[str, Any], kind: type[T], name: str = "", depth: int = 0) -> T:
    """The dataclass whose fields these are; there must be exactly those."""
    wanted, name = _forms(cast(Any, kind)), name or _name_of(kind)
    if not isinstance(fields, dict):
        raise InvalidInput(f"{name} was {fields!r:.80}; it must be an object of its fields.")
    lacking = [field for field in wanted if field not in fields]
    if lacking:
        raise InvalidInput(f"{name} lacks the field {lacking[0]!r}; send it as it was made.")
    if len(fields) > len(wanted):
        raise InvalidInput(
            f"{name} had the fields {sorted(map(str, fields))!r:.200}; it must have exactly "
            f"{', '.join(wanted) or 'none'}. Send it as it was made."
        )
    values = read_fields(fields, kind, depth)
    try:
        owner = kind(**values)
        check_fields(owner)  # of classes whose constructor does not
    except InvalidInput:
        raise
    except _DAMAGE as error:
        raise InvalidInput(f"{name} is damaged ({error}); send it as it was made.") from error
    return owner


def _name_of(kind: type) -> str:
    return f"the {getattr(kind, 'kind', kind.__name__)}"


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of an object as JSON values, by its own method where it has one."""
    return value.to_fields() if hasattr(value, "to_fields") else fields_to_json(value)


def object_of(fields: Any, kind: type[T], name: str, depth: int) -> T:
    """The inverse of `fields_of`."""
    if depth > MOST_DEPTH:
        raise InvalidInput(f"{name} was nested more than {MOST_DEPTH} deep; send it as made.")
    return fields_from_json(fields, kind, name, depth)


@functools.cache
def _forms(kind: Any) -> dict[str, Form]:
    """How each field of a dataclass is checked, written and read."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: form_of(hints[field.name]) for field in dataclasses.fields(kind) if field.init
    }


@functools.cache
def _checks(kind: Any) -> list[tuple[str, Callable[..., Any]]]:
    """The check of each field of a dataclass."""
    return [(name, form.check) for name, form in _forms(kind).items()]


# One class for each row of the codec's table; numbers and arrays are in values.py.


class _Literal(Form):
    """Literal[..]."""

    def __init__(self, words: tuple[Any, ...]) -> None:
        self._words = words

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if not self.matches(value):
            allowed = " or ".join(map(repr, self._words))
            raise InvalidInput(f"{name} was {value!r:.80}; it must be {allowed}.")
        return value

    def write(self, value: Any) -> Any:
        return value

    def read(self, value: Any, name: str, depth: int) -> Any:
        return self.check(value, name, None, {})

    def matches(self, value: Any) -> bool:
        return any(type(value) is type(word) and value == word for word in self._words)


class _List(Form):
    """tuple[X, ...] with one item, or tuple[X, Y] with an item for each place."""

    def __init__(self, items: tuple[Form, ...], same: bool) -> None:
        self._items, self._same = items, same

    def _each(self, values: Any, name: str) -> list[tuple[Form, Any, str]]:
        if not isinstance(values, list | tuple):
            raise InvalidInput(f"{name} was {values!r:.80}; it must be a list.")
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
        each = self._each(value, name)
        return tuple(item.check(inner, inside, owner, sizes) for item, inner, inside in each)

    def write(self, value: Any) -> Any:
        return [item.write(inner) for item, inner, _ in self._each(value, "")]

    def read(self, value: Any, name: str, depth: int) -> Any:
        if not isinstance(value, list):
            raise InvalidInput(f"{name} was {value!r:.80}; it must be a list.")
        each = self._each(value, name)
        return tuple(item.read(inner, inside, depth) for item, inner, inside in each)

    def matches(self, value: Any) -> bool:
        return isinstance(value, list | tuple)


class _Table(Form):
    """Mapping[str, X] or Mapping[int, X]."""

    def __init__(self, key: Form, item: Form, words: bool) -> None:
        self._key, self._item, self._words = key, item, words

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name} was {value!r:.80}; it must be a table.")
        return {
            self._key.check(key, f"a key of {name}", owner, {}): self._item.check(
                inner, f"{name}[{key!r:.80}]", owner, sizes
            )
            for key, inner in value.items()
        }

    def write(self, value: Any) -> Any:
        pairs = [(key, self._item.write(inner)) for key, inner in value.items()]
        return dict(pairs) if self._words else [list(pair) for pair in pairs]

    def read(self, value: Any, name: str, depth: int) -> Any:
        pairs = value
        if self._words:
            pairs = list(value.items()) if isinstance(value, dict) else None
        if not isinstance(pairs, list) or any(
            not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs
        ):
            form = "an object" if self._words else "a list of pairs"
            raise InvalidInput(f"{name} was {value!r:.80}; it must be {form}.")
        keys = [self._key.read(key, f"a key of {name}", depth) for key, _ in pairs]
        if len(set(keys)) < len(keys):
            raise InvalidInput(f"{name} had a key twice; send it as it was made.")
        items = [self._item.read(inner, f"{name}[{key!r:.80}]", depth) for key, inner in pairs]
        return dict(zip(keys, items, strict=True))

    def matches(self, value: Any) -> bool:
        return isinstance(value, Mapping)


class _Object(Form):
    """A dataclass; by its kind where it, or a class derived from it, has one."""

    def __init__(self, kind: type, tag: str | None = None) -> None:
        self._kind, self._tag = kind, tag

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if not isinstance(value, self._kind):
            raise InvalidInput(f"{name} was {value!r:.80}; it must be a {self._kind.__name__}.")
        return value

    def write(self, value: Any) -> Any:
        tag = self._tag or getattr(type(value), "kind", None)
        return {**({} if tag is None else {"kind": tag}), **fields_of(value)}

    def read(self, value: Any, name: str, depth: int) -> Any:
        if not isinstance(value, dict):
            raise InvalidInput(f"{name} was {value!r:.80}; it must be an object of its fields.")
        if self._tag is not None:
            fields = {key: inner for key, inner in value.items() if key != "kind"}
            return object_of(fields, self._kind, name, depth)
        if not any("kind" in vars(kind) for kind in _descendants(self._kind)):
            return object_of(value, self._kind, name, depth)
        fields = dict(value)
        message: Any = class_of(fields.pop("kind", None), self._kind, name)
        return object_of(fields, message, name, depth)

    def matches(self, value: Any) -> bool:
        return isinstance(value, self._kind)


class _Registered(Form):
    """A class with two functions of its own."""

    def __init__(
        self, kind: type, write: Callable[[Any], Any], read: Callable[[Any], Any], title: str
    ) -> None:
        self._kind, self._write, self._read, self._title = kind, write, read, title

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if not isinstance(value, self._kind):
            raise InvalidInput(f"{name} was {value!r:.80}; it must be a {self._title}.")
        return value

    def write(self, value: Any) -> Any:
        return self._write(value)

    def read(self, value: Any, name: str, depth: int) -> Any:
        try:
            return self._read(value)
        except InvalidInput:
            raise
        except _DAMAGE as error:
            raise InvalidInput(f"{name} is damaged ({error}); send it as it was made.") from error

    def matches(self, value: Any) -> bool:
        return isinstance(value, self._kind)


class _Union(Form):
    """X | Y; None is null, and of several classes `kind` says which."""

    def __init__(self, items: dict[str, Form], optional: bool) -> None:
        self._items, self._optional = items, optional

    def _of(self, value: Any, name: str) -> Form:
        for item in self._items.values():
            if item.matches(value):
                return item
        allowed = " or ".join([*self._items, *(["none"] if self._optional else [])])
        raise InvalidInput(f"{name} was {value!r:.80}; it must be {allowed}.")

    def check(self, value: Any, name: str, owner: object, sizes: dict[str, int]) -> Any:
        if value is None and self._optional:
            return None
        return self._of(value, name).check(value, name, owner, sizes)

    def write(self, value: Any) -> Any:
        return None if value is None else self._of(value, "the value").write(value)

    def read(self, value: Any, name: str, depth: int) -> Any:
        if value is None and self._optional:
            return None
        if len(self._items) == 1:
            return next(iter(self._items.values())).read(value, name, depth)
        if isinstance(value, dict):
            kind = value.get("kind")
            item = self._items.get(kind) if isinstance(kind, str) else None
            if item is not None:
                return item.read(value, name, depth)
        others = [item for item in self._items.values() if not isinstance(item, _Object)]
        for item in others:
            if item.matches(value):
                return item.read(value, name, depth)
        raise InvalidInput(
            f"{name} was {value!r:.80}; it must be one of {', '.join(self._items)}. Send it as it "
            "was made."
        )

    def matches(self, value: Any) -> bool:
        return (self._optional and value is None) or any(
            item.matches(value) for item in self._items.values()
        )


_REGISTERED: dict[type, _Registered] = {}


@functools.cache
def form_of(annotation: Any) -> Form:
    """How values with that annotation are checked, written and read."""
    shape, bounds = None, None
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        for place, extra in enumerate(extras):
            if isinstance(extra, CheckedBy):
                rest = [annotation, *extras[:place], *extras[place + 1 :]]
                return Checked(form_of(_with(*rest)), extra.function)
            shape = extra if isinstance(extra, Shape) else shape
            bounds = extra if isinstance(extra, Range) else bounds
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (bool, int, float, str):
        return Plain(annotation, bounds)
    if origin is Literal:
        return _Literal(arguments)
    if origin is np.ndarray:
        return Array((_scalar(annotation),), shape, bounds)
    if origin in (Union, types.UnionType):
        return _union(arguments, shape, bounds)
    if origin is tuple:
        same = len(arguments) == 2 and arguments[1] is Ellipsis
        items = arguments[:1] if same else arguments
        return _List(tuple(form_of(_with(item, shape, bounds)) for item in items), same)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _Table(form_of(arguments[0]), form_of(arguments[1]), arguments[0] is str)
    kind = origin or annotation
    for base in getattr(kind, "__mro__", ()):
        if base in _REGISTERED:
            return _REGISTERED[base]
    if kind.__module__ != "builtins":
        return _Object(kind)
    raise TypeError(f"{annotation!r} is no field of a message; see the table of discreet.codec")


def _union(arguments: tuple[Any, ...], shape: Shape | None, bounds: Range | None) -> Form:
    kinds = [kind for kind in arguments if kind is not types.NoneType]
    optional = len(kinds) < len(arguments)
    if all(get_origin(kind) is np.ndarray for kind in kinds):
        array = Array(tuple(_scalar(kind) for kind in kinds), shape, bounds)
        return _Union({"an array": array}, optional) if optional else array
    items: dict[str, Form] = {}
    for kind in kinds:
        form = form_of(_with(kind, shape, bounds))
        tag = str(getattr(kind, "kind", None) or getattr(kind, "__name__", kind))
        several = len(kinds) > 1 and isinstance(form, _Object)
        items[tag] = _Object(get_origin(kind) or kind, tag) if several else form
    return _Union(items, optional)


def _with(kind: Any, *extras: Any) -> Any:
    """An annotation with what was said about the whole of which it is a part."""
    known = [extra for extra in extras if extra is not None]
    return Annotated[kind, *known] if known else kind


def _scalar(annotation: Any) -> Any:
    """The type of the numbers of an NDArray annotation."""
    return get_args(get_args(annotation)[1])[0]
