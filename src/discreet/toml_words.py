"""What is wrong with a file of settings, in the words of TOML: line, section, key and value.

Files are checked by pydantic against models and dataclasses; `checked` turns what they refuse into
sentences that name no class of this program, all of them at once. A dataclass may refuse more with
`InvalidInput`, whose words then stand as they are.

A value `"?"` stands for what somebody has yet to state, as in a draft; what refuses it says so.

| name     | meaning                                                                  |
|----------|--------------------------------------------------------------------------|
| location | keys and, in lists, places from 0 on that lead to a value                |
| place    | where a section stands: the file, its lines and the section's location   |
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from discreet.people.columns import Number, Whole
from discreet.toml_lines import Location, value_lines
from discreet.validation import InvalidInput, nearest

Model = TypeVar("Model")

# Numbers within bounds, for the fields of what is read from a file.
One = Annotated[Whole, Field(ge=1)]
Two = Annotated[Whole, Field(ge=2)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]

UNSTATED = "?"
_MOST = 80

_KINDS = {
    "list_type": "a list in square brackets",
    "tuple_type": "a list in square brackets",
    "string_type": "a text in quotation marks",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "a table of keys and values",
}
_LIMITS = {
    "greater_than_equal": "{ge} or more",
    "greater_than": "above {gt}",
    "too_short": "a list with at least {min_length}",
    "too_long": "a list with at most {max_length}",
}


@dataclass(frozen=True)
class Place:
    """Where a section of settings stands.

    Attributes:
        name: the file, or what the settings are for, as messages begin.
        lines: for locations in the file the number of their line, from 1 on.
        section: the location of the section; () for a whole file.
    """

    name: str
    lines: Mapping[Location, int] = field(default_factory=dict)
    section: Location = ()

    @property
    def is_file(self) -> bool:
        """Whether this is a whole file, whose tables stand under headers."""
        return bool(self.lines) and not self.section

    @classmethod
    def of_file(cls, name: str, text: str) -> Place:
        """A whole TOML file with its text."""
        return cls(name, value_lines(text))

    def within(self, *location: str | int) -> Place:
        """A section of this one."""
        return Place(self.name, self.lines, (*self.section, *location))

    @contextmanager
    def at(self, *location: str | int) -> Iterator[None]:
        """What is refused in the block says where in the file it stands, unless it does so.

        A message that begins with a key there stands at that key, all others at the location.
        """
        try:
            yield
        except InvalidInput as error:
            if not self.lines and not any(isinstance(part, int) for part in self.section):
                raise
            texts = []
            for text in error.args:
                key = (*location, text.partition(" ")[0])
                at = key if (*self.section, *key) in self.lines else location
                said = self.parted(text)[0] if self.lines else text.startswith(f"{self.name}, ")
                texts.append(text if said else self.message(text, at))
            raise InvalidInput(*texts) from error

    def parted(self, message: str) -> tuple[int | None, str]:
        """A message of this file as the line that it names, if it does, and what it says."""
        match = re.match(rf"{re.escape(self.name)}(?:, line (\d+))?: ", message)
        if match is None:
            return None, message
        return None if match[1] is None else int(match[1]), message[match.end() :]

    def message(self, text: str, location: Location = ()) -> str:
        """A sentence about the value at a location of this section, with its line if known."""
        whole = (*self.section, *location)
        known = [whole[:size] for size in range(len(whole), 0, -1) if whole[:size] in self.lines]
        if self.lines:
            where = f", line {self.lines[known[0]]}" if known else ""
        else:  # which of several tables it is, where no line says so
            where = "".join(
                f", {table}, entry {entry + 1}"
                for table, entry in pairwise(self.section)
                if isinstance(entry, int)
            )
        return f"{self.name}{where}: {text}"


def read_toml(
    path: Path, kind: str, entries: Mapping[str, str] | None = None
) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and what it says.

    Args:
        path: the file.
        kind: what messages call it, such as `study file`.
        entries: what stands in double brackets, such as {"learner": "learners"}.

    Raises:
        InvalidInput: a file that cannot be read or is not TOML.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return text, tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the {kind} {path} cannot be read, because it is not UTF-8; save it as UTF-8."
        ) from error
    except OSError as error:
        raise InvalidInput(
            f"the {kind} {path} cannot be read ({error.strerror}); check the path, and that it is "
            "a file that you may read."
        ) from error
    except tomllib.TOMLDecodeError as error:
        # What mostly helps against a mistake in TOML's grammar.
        advice = " Correct that place: TOML has lines such as key = value under headers in [..]."
        if "overwrite" in str(error) or "twice" in str(error):
            advice = " A key stands only once under a header; keep one of the two."
        if "\\" in str(error):
            advice = " Write paths with / or in single quotation marks."
        if "Invalid value" in str(error):
            advice = " Put texts in quotation marks; truth values are true and false."
        for entry, section in (entries or {}).items():
            if re.search(rf"^\s*\[{section}\]", text, re.MULTILINE):
                advice = f" Each {entry} stands under [[{section}]] in double brackets."
        raise InvalidInput(f"the {kind} {path} is not TOML: {error}.{advice}") from error


def checked(model: type[Model], content: Any, place: Place) -> Model:
    """`content` as a model or dataclass; `InvalidInput` with a sentence for each value refused."""
    try:
        return cast(Model, _adapter(cast(Any, model)).validate_python(content))
    except ValidationError as error:
        wrong = _by_location(error, content)
        messages = _unstated(model, content, wrong, place)
        messages += [
            text
            for location, details in wrong.items()
            if not _is_unstated(location, details)
            for text in _sentences(model, content, location, details, place)
        ]
        raise InvalidInput(*dict.fromkeys(messages)) from error


@cache
def _adapter(model: type) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def toml_value(value: object) -> str:
    """A value as TOML writes it, cut where it is long."""
    text = toml_text(value)
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."


def toml_text(value: object) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_text(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _by_location(error: ValidationError, content: Any) -> dict[Location, list[Any]]:
    """What is wrong at each location; of alternatives the one that a value came closest to."""
    wrong: dict[Location, list[Any]] = {}
    alternatives = set()
    for detail in error.errors(include_url=False):
        location = _addressed(content, detail)
        wrong.setdefault(location, []).append(detail)
        if len(location) < len(detail["loc"]):
            alternatives.add(location)
    return {
        location: details
        for location, details in wrong.items()
        if not (location in alternatives and any(_inside(other, location) for other in wrong))
    }


def _is_unstated(location: Location, details: list[Any]) -> bool:
    # By its type first: a value from Python, such as pandas.NA, may refuse to be compared.
    stated = details[0]["input"]
    unstated = isinstance(stated, str) and stated == UNSTATED
    return bool(location) and isinstance(location[-1], str) and unstated


def _unstated(
    model: type, content: Any, wrong: Mapping[Location, list[Any]], place: Place
) -> list[str]:
    """A sentence for each table with values that nobody has stated yet.

    A class may say in `stated_from` where its values come from.
    """
    keys: dict[Location, list[str]] = {}
    for location, details in wrong.items():
        if _is_unstated(location, details):
            keys.setdefault(location[:-1], []).append(str(location[-1]))
    inside = f" in {_header(place.section)}" if place.section else ""
    messages = []
    for location, names in keys.items():
        *others, last = names
        named = ", ".join(part for part in (_path(content, location), ", ".join(others)) if part)
        named = f"{named} and {last}" if others else f"{named}, {last}" if named else last
        are, them = ("are", "them") if others else ("is", "it")
        sources = getattr(_table_at(model, location), "stated_from", "")
        wanted = [_wanted(each, model, (*location, last)) for each in wrong[*location, last]]
        advice = f" from {sources}" if sources else f": {', or '.join(dict.fromkeys(wanted))}"
        text = f'{named} {are} still "{UNSTATED}"{inside}; state {them}{advice}.'
        messages.append(place.message(text, (*location, names[0])))
    return messages


def _inside(location: Location, outer: Location) -> bool:
    return len(location) > len(outer) and location[: len(outer)] == outer


def _addressed(content: Any, detail: Any) -> Location:
    """The location without the names that pydantic gives to alternatives."""
    kept: list[str | int] = []
    value = content
    for part in detail["loc"]:
        if isinstance(value, Mapping) and (part in value or detail["type"] == "missing"):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            continue
        kept.append(part)
    return tuple(kept)


def _sentences(
    model: type, content: Any, location: Location, details: list[Any], place: Place
) -> Iterator[str]:
    own = [detail["ctx"]["error"] for detail in details if detail["type"] == "value_error"]
    texts = [text for error in own if isinstance(error, InvalidInput) for text in error.args]
    for text in texts or [_sentence(model, content, location, details, place)]:
        yield place.message(text, location)


def _sentence(
    model: type, content: Any, location: Location, details: list[Any], place: Place
) -> str:
    where, section = _path(content, location), place.section
    inside = f" in {_header(section)}" if section else ""
    header = _as_header(model, location) if place.is_file else None
    detail = details[0]
    if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = list(_keys(_table_at(model, location[:-1])))
        allowed = ", ".join(keys) or "none"
        question = nearest(str(location[-1]), keys)
        return f"{where} is not a key{inside}; keys here are: {allowed}.{question}"
    if detail["type"] == "missing":
        if header:
            return f"{header} is missing; add it."
        form = getattr(_table_at(model, location), "form", "")
        return f"{where} is missing{inside}; set it{form and f' to {form}'}."
    is_list = detail["type"] in ("list_type", "tuple_type")
    if is_list and len(details) == 1 and isinstance(detail["input"], Mapping):
        name = _dotted((*section, *location))
        wanted = f"a list of tables, each under [[{name}]] in double brackets"
    elif is_list and len(details) == 1:
        wanted = f"a list in square brackets, such as [{toml_value(detail['input'])}]"
    elif header is not None:
        wanted = f"a table of keys and values under {header}"
    else:
        wanted = ", or ".join(dict.fromkeys(_wanted(each, model, location) for each in details))
    return f"{where} was {toml_value(detail['input'])}{inside}; it must be {wanted}."


def _wanted(detail: Any, model: type, location: Location) -> str:
    """What a value must be."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    if kind == "value_error":
        return str(context["error"]).removeprefix("must be ")
    if kind in ("model_type", "model_attributes_type", "dataclass_type"):
        table = _table_at(model, location)
        return f"a table {_shape(table)}" if table else _KINDS["dict_type"]
    if kind in _LIMITS:
        return _LIMITS[kind].format(**context)
    return _KINDS.get(kind, str(detail["msg"]).removeprefix("Input should be "))


def _keys(table: type | None) -> dict[str, tuple[Any, bool]]:
    """The keys of a table: for each what it holds, and whether it must be there."""
    if table is None:
        return {}
    if issubclass(table, BaseModel):
        known = table.model_fields.items()
        return {name: (each.annotation, each.is_required()) for name, each in known}
    hints = get_type_hints(table)
    return {
        each.name: (hints[each.name], each.default is each.default_factory is MISSING)
        for each in fields(cast(Any, table))
        if each.init
    }


def _shape(table: type) -> str:
    """The keys of a table; those with a question mark may be left out.

    A class whose keys exclude each other says in `form` how it is written.
    """
    if hasattr(table, "form"):
        return str(table.form)
    keys = (name if required else f"{name}?" for name, (_, required) in _keys(table).items())
    return "{ " + ", ".join(keys) + " } (keys with ? may be left out)"


def _table_at(model: type, location: Location) -> type | None:
    """The model or dataclass of the table at a location."""
    current: type | None = model
    for part in location:
        if isinstance(part, str):
            held, _ = _keys(current).get(part, (None, False))
            current = _table_in(held)
    return current


def _table_in(annotation: Any) -> type | None:
    if isinstance(annotation, type) and (
        is_dataclass(annotation) or issubclass(annotation, BaseModel)
    ):
        return annotation
    return next((table for part in get_args(annotation) if (table := _table_in(part))), None)


def _path(content: Any, location: Location) -> str:
    """Keys and entries that lead to a value; entries of lists by number, and by name if any."""
    parts: list[str] = []
    value = content
    for part in location:
        value = value[part] if isinstance(part, int) else value.get(part)
        if isinstance(part, int):
            name = value.get("name") if isinstance(value, Mapping) else None
            parts.append(f"entry {part + 1}" + (f' ("{name}")' if isinstance(name, str) else ""))
        else:
            parts.append(part)
    return ", ".join(parts)


def _header(section: Location) -> str:
    """A section as its header stands in the file."""
    return f"[[{_dotted(section)}]]" if isinstance(section[-1], int) else f"[{_dotted(section)}]"


def _dotted(location: Location) -> str:
    return ".".join(part for part in location if isinstance(part, str))


def _as_header(model: type, location: Location) -> str | None:
    """The header of a key of the file that holds a table, or a list of tables."""
    if len(location) != 1 or location[0] not in _keys(model):
        return None
    held, _ = _keys(model)[str(location[0])]
    if get_origin(held) in (list, tuple) and _table_in(held):
        return f"[[{location[0]}]]"
    return f"[{location[0]}]" if get_origin(held) is dict or _table_in(held) else None
