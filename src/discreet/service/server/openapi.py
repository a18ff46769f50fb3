"""The OpenAPI document: how keys are sent, the codec's messages as schemas, and examples.

Messages are described by the annotations that check them, as JSON Schema (2020-12). A schema says
less than the check: that letters of a shape are equal, and what constructors and `CheckedBy` ask
for, is checked alone. Examples are made by a learner of an example study.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from inspect import getdoc, isabstract
from typing import Any, cast

import numpy as np
from fastapi import FastAPI

from discreet.codec import (
    SCHEMA,
    codec_of,
    field_codecs,
    fields_of,
    homes,
    optional_fields,
    to_json,
)
from discreet.learners.messages import Reports
from discreet.learners.partition.learner import Partition
from discreet.learners.policy import Policy
from discreet.people.domain import ActionSpace, Box, RewardBounds
from discreet.privacy import Guarantee, Local, Release, SecureNoise, SimulatedNoise
from discreet.service.server.access import SCHEME
from discreet.service.server.bodies import MESSAGE

# Observations as they are, which no device sends.
_UNPROTECTED = ("plain-observations", "point-observations")
_SCHEMAS: Mapping[str, Callable[[Schemas], dict[str, Any]]] = {
    "Report": lambda schemas: schemas.of_message(Reports, without=_UNPROTECTED),
    "Policy": lambda schemas: schemas.of_message(Policy),
    "Guarantee": lambda schemas: schemas.of_message(Guarantee),
    "Domain": lambda schemas: schemas.of(Box),
    "ActionSpace": lambda schemas: schemas.of(ActionSpace),
    "RewardBounds": lambda schemas: schemas.of(RewardBounds),
    "RepeatedMechanism": lambda schemas: {
        "description": "A mechanism, after the number of its uses in a row.",
        "type": "array",
        "prefixItems": [{"type": "integer", "minimum": 1}, schemas.of(Release)],
        "minItems": 2,
        "maxItems": 2,
    },
}


def describe(app: FastAPI) -> None:
    """Complete the OpenAPI document of an application, when it is asked for first."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(described())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = Schemas()
    messages = {name: make(schemas) for name, make in _SCHEMAS.items()}
    # One class alone keeps its own name: generators refuse two names for one schema.
    names = {name: _name(schema) if "$ref" in schema else name for name, schema in messages.items()}
    messages = {name: schema for name, schema in messages.items() if "$ref" not in schema}
    components = document.setdefault("components", {})
    known = components.setdefault("schemas", {})
    if doubled := known.keys() & (messages.keys() | schemas.named_schemas.keys()):
        raise TypeError(f"two classes are called {sorted(doubled)} in the OpenAPI document.")
    known |= messages | schemas.named_schemas
    reports = {
        _name(reference): _report_like(reference, known)
        for reference in messages["Report"]["anyOf"]
    }
    for name, example in (reports | examples()).items():
        name = names.get(name, name)
        if name in known:
            known[name] = {**known[name], "examples": [example]}
    components["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
    completed: dict[str, Any] = _referred(document, names)
    return completed


def _name(reference: dict[str, Any]) -> str:
    """The name of the schema that a reference is to."""
    return str(reference["$ref"]).rpartition("/")[2]


def _referred(value: Any, names: Mapping[str, str]) -> Any:
    """JSON values with references in place of the names of messages."""
    if isinstance(value, dict):
        if MESSAGE in value:
            return {"$ref": f"#/components/schemas/{names[value[MESSAGE]]}"}
        return {key: _referred(inner, names) for key, inner in value.items()}
    return [_referred(inner, names) for inner in value] if isinstance(value, list) else value


def _report_like(schema: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A report of one person with the least value of every field."""
    report: dict[str, Any] = _least(schema, known)
    return {**report, "source": "0" * 31 + "1", "noise": SecureNoise.name}


def _least(schema: dict[str, Any], known: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _least(known[_name(schema)], known)
    if "anyOf" in schema:
        return _least(schema["anyOf"][0], known)
    if "const" in schema:
        return schema["const"]
    if schema["type"] == "object":
        return {name: _least(inner, known) for name, inner in schema["properties"].items()}
    if schema["type"] == "array":
        return [_least(schema["items"], known)]
    return schema.get("minimum", {"string": "", "boolean": False}.get(schema["type"], 0))


def _message(value: Any) -> dict[str, Any]:
    return {"kind": value.kind, "schema": SCHEMA, **fields_of(value)}


@cache
def examples() -> dict[str, Any]:
    """Examples of messages and requests, by the name of their schema."""
    domain = Box.of({"age": (18, 90), "smoker": ["no", "yes"]})
    learner = Partition(
        domain, ["leaflet", "call"], Local(1.0), horizon=20_000, identity="0" * 31 + "1"
    )
    policy, terms = learner.policy(), learner.terms()
    context = [[40.0, 1.0]]
    actions, _ = policy.act(context, np.random.default_rng(0))
    report = policy.report(context, actions, [1.0], SimulatedNoise(0), terms)
    reported = _message(replace(report, noise=SecureNoise.name))
    return {
        "Report": reported,
        "Policy": _message(policy),
        "Guarantee": _message(learner.guarantee()),
        "Domain": to_json(domain),
        "ActionSpace": 2,
        "RewardBounds": to_json(RewardBounds()),
        "RepeatedMechanism": [1, to_json(policy.release(SecureNoise.name))],
        "Refusal": {"error": "there is no study 'calls' here."},
        "TermsFields": terms.to_fields(),
        "ReportsBody": {"reports": [reported]},
        "GroupBody": {"id": "0" * 32, "policy": policy.digest, "ciphertexts": ["eHk="] * 2},
        "CiphertextBody": {"policy": policy.digest, "ciphertext": "eHk="},
        "DecisionBody": {"context": {"age": 40, "smoker": "yes"}},
        "RewardBody": {"reward": 1.0},
        "KeyBody": {"role": "device", "study": "calls", "label": "app 3", "days": 90.0},
        "TableBody": {"certificate": "{}", "rows": "eCx5CjEsMgo=", "format": "csv"},
    }


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
