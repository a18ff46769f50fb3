"""TOML files checked by pydantic; messages name the file, line, section, key and value.

`checked` validates a mapping against a model or dataclass and reports every error at once, in the
terms of TOML. A dataclass may raise `InvalidInput` with a message of its own. The value `"?"` marks
what a scaffolded file leaves to the user.

| location                 | value                                                  |
|--------------------------|--------------------------------------------------------|
| ("seed",)                | the key seed                                           |
| ("learners", 1)          | the second [[learners]], or the second entry of a list |
| ("problem", "path")      | the key path under [problem], or problem.path          |
| ("columns", 0, "lower")  | the key lower of the first table in the list columns   |
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from discreet.people.columns import Number, Whole
from discreet.validation import InvalidInput, nearest

Location = tuple[str | int, ...]
Model = TypeVar("Model")

# Numbers within bounds, for the fields of settings.
One = Annotated[Whole, Field(ge=1)]
Two = Annotated[Whole, Field(ge=2)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]

UNSTATED = "?"
_MOST = 80

# Requirements by pydantic's types of errors; others are worded by pydantic.
_REQUIREMENTS = {
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
    "greater_than_equal": "{ge} or more",
    "greater_than": "above {gt}",
    "too_short": "a list with at least {min_length}",
    "too_long": "a list with at most {max_length}",
}

# Of one line: a header, a key with its value, and a text or comment.
_HEADER = re.compile(r"\s*(\[\[?)(.+?)\]")
_PAIR = re.compile(r"\s*((?:\"[^\"]*\"|'[^']*'|[\w-]+|\s*\.\s*)+?)\s*=(?!=)\s*(.*)")
_TEXT = re.compile(r"\"\"|''|\"(?:[^\"\\]|\\.)*\"|'[^']*'|#.*")


def value_lines(text: str) -> dict[Location, int]:
    """The line, from 1, of each header, of each key that begins a line, and of each table in a list
    over several lines.

    Keys within an inline table have the line of that table. Texts over several lines are skipped.
    """
    lines: dict[Location, int] = {}
    tables: Counter[Location] = Counter()
    section: Location = ()
    opened: Location = ()  # the list that is open
    depth, within_text = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if within_text:
            within_text = "" if within_text in line else within_text
            continue
        plain = _TEXT.sub('""', line)
        if depth > 0:
            if plain.lstrip().startswith("{"):
                lines[*opened, tables[opened]] = number
            tables[opened] += len(re.findall(r"(?:^\s*|,\s*)\{", plain))
            depth += plain.count("[") - plain.count("]")
        elif header := _HEADER.match(line):
            section = ()
            *outer, last = _parts(header[2])
            for part in outer:
                section = _last_table((*section, part), tables)
                lines.setdefault(section, number)
            section = (*section, last)
            lines.setdefault(section, number)
            tables[section] += header[1] == "[["
            section = _last_table(section, tables)
            lines.setdefault(section, number)
        elif pair := _PAIR.match(line):
            opened = section
            for part in _parts(pair[1]):
                opened = (*opened, part)
                lines.setdefault(opened, number)
            value = _TEXT.sub('""', pair[2])
            depth = value.count("[") - value.count("]")
            if depth > 0:
                tables[opened] = value.count("{")
            quotes = pair[2][:3]
            if quotes in ('"""', "'''") and quotes not in pair[2][3:]:
                within_text = quotes
    return lines


def _parts(key: str) -> list[str]:
    """The parts of a dotted key."""
    value, parts = tomllib.loads(f"{key} = 0"), []
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return parts


def _last_table(location: Location, tables: Mapping[Location, int]) -> Location:
    """The table at a location; of an array of tables the last so far."""
    return (*location, tables[location] - 1) if tables.get(location) else location


@dataclass(frozen=True)
class Place:
    """The place of a section of settings in its file.

    Attributes:
        name: the file, or what the settings are for; messages begin with it.
        lines: the line, from 1, by location in the file.
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
        """Prefix messages of `InvalidInput` in the block with file and line, unless they have them.

        A message that begins with a key there gets the line of that key, others of the location.
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
                has = self.parted(text)[0] if self.lines else text.startswith(f"{self.name}, ")
                texts.append(text if has else self.message(text, at))
            raise InvalidInput(*texts) from error

    def parted(self, message: str) -> tuple[int | None, str]:
        """The line that a message of this file names, or None, and the rest of the message."""
        match = re.match(rf"{re.escape(self.name)}(?:, line (\d+))?: ", message)
        if match is None:
            return None, message
        return None if match[1] is None else int(match[1]), message[match.end() :]

    def message(self, text: str, location: Location = ()) -> str:
        """A sentence about the value at a location of this section, with its line if known."""
        whole = (*self.section, *location)
        known = [whole[:size] for size in range(len(whole), 0, -1) if whole[:size] in self.lines]
        where = f", line {self.lines[known[0]]}" if known else ""
        if not self.lines:  # without lines, the number of the table
            where = "".join(
                f", {table}, entry {entry + 1}"
                for table, entry in pairwise(self.section)
                if isinstance(entry, int)
            )
        return f"{self.name}{where}: {text}"


def read_toml(
    path: Path, kind: str, entries: Mapping[str, str] | None = None
) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and its content.

    Args:
        path: the file.
        kind: what messages call it, such as `study file`.
        entries: arrays of tables, such as {"learner": "learners"}.

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
        advice = " Correct that place: TOML has lines such as key = value under headers in [..]."
        for part, better in _GRAMMAR.items():
            advice = better if part in str(error) else advice
        if path.suffix in (".csv", ".tsv", ".gz", ".parquet", ".pq"):
            advice = f" To draft a study file from a table: discreet init {path}"
        for entry, section in (entries or {}).items():
            if re.search(rf"^\s*\[{section}\]", text, re.MULTILINE):
                advice = f" Each {entry} stands under [[{section}]] in double brackets."
        raise InvalidInput(f"the {kind} {path} is not TOML: {error}.{advice}") from error


# Advice by a part of tomllib's message.
_GRAMMAR = {
    "overwrite": " A key stands only once under a header; keep one of the two.",
    "twice": " A key stands only once under a header; keep one of the two.",
    "\\": " Write paths with / or in single quotation marks.",
    "Invalid value": " Put texts in quotation marks; truth values are true and false.",
}


def checked(model: type[Model], content: Any, place: Place) -> Model:
    """`content` as a model or dataclass; `InvalidInput` with a sentence for each error."""
    try:
        return cast(Model, _adapter(cast(Any, model)).validate_python(content))
    except ValidationError as error:
        wrong = _by_location(error, content)
        # By its type first: a value from Python, such as pandas.NA, may refuse to be compared.
        unstated = {
            location: details
            for location, details in wrong.items()
            if isinstance(details[0]["input"], str) and details[0]["input"] == UNSTATED and location
        }
        messages = _unstated(model, content, unstated, place)
        messages += [
            place.message(text, location)
            for location, details in wrong.items()
            if location not in unstated
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
        entries = ", ".join(f"{toml_key(key)} = {toml_text(each)}" for key, each in value.items())
        return f"{{ {entries} }}" if entries else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    if isinstance(value, str | bool):
        # TOML's texts are JSON's, but for one character that is written as its number.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def toml_key(key: str) -> str:
    """A key as TOML writes it, in quotation marks where it needs them."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else toml_text(key)


def _by_location(error: ValidationError, content: Any) -> dict[Location, list[Any]]:
    """Errors by location; of alternatives the one that a value came closest to."""
    wrong: dict[Location, list[Any]] = {}
    alternatives = set()
    for detail in error.errors(include_url=False):
        # Without the names that pydantic gives to alternatives.
        location: Location = ()
        value = content
        for part in detail["loc"]:
            if isinstance(value, Mapping) and (part in value or detail["type"] == "missing"):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int):
                value = value[part]
            else:
                continue
            location = (*location, part)
        wrong.setdefault(location, []).append(detail)
        if len(location) < len(detail["loc"]):
            alternatives.add(location)
    return {
        location: details
        for location, details in wrong.items()
        if location not in alternatives
        or not any(
            len(other) > len(location) and other[: len(location)] == location for other in wrong
        )
    }


def _unstated(
    model: type, content: Any, wrong: Mapping[Location, list[Any]], place: Place
) -> list[str]:
    """A sentence for each table with values that the user has yet to state.

    A class may say in `stated_from` where its values come from.
    """
    keys: dict[Location, list[str]] = {}
    for location in wrong:
        keys.setdefault(location[:-1], []).append(_path(content, location))
    inside = f" in {_header(place.section)}" if place.section else ""
    messages = []
    for table, paths in keys.items():
        first, *others = paths
        names = [first, *(path.rpartition(", ")[2] for path in others)]
        named = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        at = next(each for each in wrong if each[:-1] == table)
        sources = getattr(_table_at(model, table), "stated_from", "")
        source = f" from {sources}" if sources else f": {_wanted(wrong[at], model, at)}"
        text = f'{named} {"are" if others else "is"} still "{UNSTATED}"{inside}; '
        text += f"state {'them' if others else 'it'}{source}."
        messages.append(place.message(text, at))
    return messages


def _sentences(
    model: type, content: Any, location: Location, details: list[Any], place: Place
) -> list[str]:
    """The errors of the value at a location, as sentences."""
    where, section, detail = _path(content, location), place.section, details[0]
    inside = f" in {_header(section)}" if section else ""
    value, kind, table = detail["input"], detail["type"], _table_at(model, location)
    own = [each["ctx"]["error"] for each in details if each["type"] == "value_error"]
    texts = [text for error in own if isinstance(error, InvalidInput) for text in error.args]
    if texts:
        return texts
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = list(_keys(_table_at(model, location[:-1])))
        question = nearest(str(location[-1]), keys)
        return [
            f"{where} is not a key{inside}; keys here are: {', '.join(keys) or 'none'}." + question
        ]
    header = _as_header(model, location) if place.is_file else None
    if kind == "missing":
        form = getattr(table, "form", "")
        to = f" to {form}" if form else ""
        return [
            f"{header} is missing; add it."
            if header
            else f"{where} is missing{inside}; set it{to}."
        ]
    wanted = _wanted(details, model, location)
    if wanted == _REQUIREMENTS["list_type"]:
        wanted += f", such as [{toml_value(value)}]"
        if isinstance(value, Mapping):
            name = _dotted((*section, *location))
            wanted = f"a list of tables, each under [[{name}]] in double brackets"
    elif header is not None:
        wanted = f"a table of keys and values under {header}"
    return [f"{where} was {toml_value(value)}{inside}; it must be {wanted}."]


def _wanted(details: list[Any], model: type, location: Location) -> str:
    """The requirement on a value, with its alternatives."""
    table = _table_at(model, location)
    return ", or ".join(dict.fromkeys(_requirement(detail, table) for detail in details))


def _requirement(detail: Any, table: type | None) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    if kind == "value_error":
        return str(context["error"]).removeprefix("must be ")
    if kind in ("model_type", "model_attributes_type", "dataclass_type"):
        return f"a table {_shape(table)}" if table else _REQUIREMENTS["dict_type"]
    wording = _REQUIREMENTS.get(kind, str(detail["msg"]).removeprefix("Input should be "))
    return wording.format(**context) if kind in _REQUIREMENTS else wording


def _keys(table: type | None) -> dict[str, tuple[Any, bool]]:
    """The keys of a table: the annotation of each, and whether it is required."""
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
    """The keys of a table; a class whose keys exclude each other has a `form` of its own."""
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
    """The header of a key of the file that holds a table, or an array of tables."""
    if len(location) != 1 or location[0] not in _keys(model):
        return None
    held, _ = _keys(model)[str(location[0])]
    if get_origin(held) in (list, tuple) and _table_in(held):
        return f"[[{location[0]}]]"
    return f"[{location[0]}]" if get_origin(held) is dict or _table_in(held) else None
