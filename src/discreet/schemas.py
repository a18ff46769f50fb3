"""JSON Schemas (2020-12) of messages, from the annotations that check them.

A schema says less than the check: that letters of a shape are equal, and what constructors and
`CheckedBy` ask for, is checked alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import getdoc, isabstract
from typing import Any, cast

from discreet.codec import SCHEMA, codec_of, field_codecs, homes, optional_fields


class Schemas:
    """The schemas of classes, each under a name of its own.

    Args:
        prefix: of the address of a named schema.

    Attributes:
        named_schemas: by name.
    """

    def __init__(self, prefix: str = "#/components/schemas/") -> None:
        self._prefix = prefix
        self._names: dict[Any, str] = {}
        self.named_schemas: dict[str, dict[str, Any]] = {}
        for module in sorted(set(homes().values())):
            import_module(module)

    def of(self, annotation: Any) -> dict[str, Any]:
        """The schema of what `to_json` makes of a value with this annotation."""
        return codec_of(annotation).schema(self)

    def of_message(self, kind: type, without: Sequence[str] = ()) -> dict[str, Any]:
        """The schema of what `encode` makes of an object of this class.

        Args:
            kind: the class; those derived from it have schemas of their own.
            without: kinds that are left out.
        """
        chosen = [each for each in _concrete(kind) if each.kind not in without]
        return _any_of([self._fields(each, each.kind, True) for each in chosen])

    def of_class(self, kind: type, tag: str | None = None) -> dict[str, Any]:
        """The schema of a dataclass, or of one derived from it; with a tag of this one alone."""
        chosen = [kind] if tag else _concrete(kind)
        return _any_of(
            [self._fields(each, tag or getattr(each, "kind", None), False) for each in chosen]
        )

    def named(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """A reference to a schema under this name."""
        if self.named_schemas.setdefault(name, schema) is not schema:
            raise TypeError(f"two classes of messages are called {name}; rename one.")
        return {"$ref": f"{self._prefix}{name}"}

    def _fields(self, kind: Any, tag: str | None, message: bool) -> dict[str, Any]:
        key = kind, tag, message
        if key in self._names:
            name = self._names[key]
            return self.named(name, self.named_schemas[name])
        name = f"{kind.__name__.lstrip('_')}Message" if message else kind.__name__.lstrip("_")
        self._names[key] = name
        # Named before its fields, which may hold one of the same class.
        schema: dict[str, Any] = {"type": "object", "title": name}
        reference, added = self.named(name, schema), optional_fields(kind)
        heads: dict[str, Any] = {} if tag is None else {"kind": {"type": "string", "const": tag}}
        if message:
            heads["schema"] = {"type": "integer", "const": SCHEMA}
        codecs = field_codecs(kind)
        schema |= {
            "description": (getdoc(kind) or "").partition("\n\n")[0].replace("\n", " "),
            "properties": heads | {name: codec.schema(self) for name, codec in codecs.items()},
            "required": [
                *(name for name in heads if name != "schema"),
                *(name for name in codecs if name not in added),
            ],
            "additionalProperties": False,
        }
        return reference


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _concrete(kind: type) -> list[Any]:
    """A class and those derived from it, as far as there can be messages of them."""
    found = [cast(Any, kind)]
    for each in found:
        found += [derived for derived in each.__subclasses__() if derived not in found]
    made = [
        each
        for each in found
        if not isabstract(each) and (each is kind or ("kind" in vars(each) and _stands(each)))
    ]
    return sorted(made, key=lambda each: str(getattr(each, "kind", "")))


def _stands(kind: type) -> bool:
    """Whether its module still has this class under its name, so it is no older import."""
    return getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
