"""Frozen dataclasses as JSON and back, from one declaration of what each field may hold.

    @dataclass(frozen=True, eq=False)
    class CellSums(Coded):
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
| Mapping[str, X], Mapping[int, X]    | an object; a list of pairs                                 |
| X with CheckedBy(function)          | X, which a function of one's own allows                    |
| a dataclass                         | an object of its fields, and its `kind` where it has one   |
| X or None                           | X; null                                                    |
| X or Y, both dataclasses            | an object with `kind`: that of the class, else its name    |
| a class that was registered         | what its functions make of it (`register`)                 |
| a class with to_fields()            | what this makes of it, under the names of its fields       |

Equal letters of a shape are equal numbers. A letter that is an attribute of the object is that
attribute: "arms" above, or "domain.dimension".

Base64 text is {"shape": .., "float64": ..}: little-endian numbers in C order, bit for bit the same.

What arrives may be damaged or hostile: whatever it is, `decode` raises `InvalidInput` and nothing
else, and takes no more memory than a small multiple of what was sent.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, TypeVar, cast

from discreet.codec.fields import (
    announce,
    check_fields,
    class_of,
    fields_from_json,
    fields_of,
    fields_to_json,
    form_of,
    object_of,
    read_fields,
    register,
)
from discreet.codec.values import CheckedBy, Range, Shape, decode_array, encode_array
from discreet.validation import InvalidInput

__all__ = [
    "CheckedBy",
    "Coded",
    "Range",
    "Shape",
    "announce",
    "check_fields",
    "class_of",
    "decode",
    "decode_array",
    "encode",
    "encode_array",
    "fields_from_json",
    "fields_of",
    "fields_to_json",
    "from_json",
    "read_fields",
    "register",
    "to_json",
]

# A field is never given another meaning: whoever adds, removes or changes one raises this number.
SCHEMA = 1

T = TypeVar("T")


class Coded:
    """A frozen dataclass whose constructor checks its fields (see the module)."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)


# Text and back.


def encode(value: Any) -> str:
    """An object whose class has a kind, as one line of JSON."""
    return json.dumps({"kind": value.kind, "schema": SCHEMA, **fields_of(value)}, allow_nan=False)


def decode(text: str | bytes, expected: type[T]) -> T:
    """The object of class `expected` in `text`: `Policy` on a device, `Reports` at a learner.

    The class is asked for so that nobody is handed another kind of object than they can use.

    Raises:
        InvalidInput: text that is not JSON, of another kind or schema, or with fields that are
            missing or wrong.
    """
    try:
        fields = json.loads(text, parse_constant=_no_constant)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"the message is not JSON ({error}); send it as it was made.") from error
    if not isinstance(fields, dict) or "kind" not in fields:
        raise InvalidInput("the message has no kind; send it as encode() made it.")
    schema = fields.pop("schema", None)
    if type(schema) is not int or schema != SCHEMA:
        raise InvalidInput(
            f"the message has schema {schema!r:.80}; this version reads schema {SCHEMA}. Use the "
            "same version of discreet on both sides."
        )
    message = class_of(fields.pop("kind"), expected, "the message")
    return object_of(fields, message, f"the {message.kind}", 0)  # type: ignore[attr-defined]


def _no_constant(name: str) -> None:
    raise ValueError(f"it held {name}")


def to_json(value: Any, annotation: Any = None) -> Any:
    """A value as JSON values; `annotation` where its type does not say all, as for a union."""
    return form_of(cast(Any, type(value) if annotation is None else annotation)).write(value)


def from_json(values: Any, annotation: Any, name: str = "the value") -> Any:
    """The inverse of `to_json`; `name` is what messages call it."""
    form = form_of(annotation)
    return form.check(form.read(values, name, 0), name, None, {})
