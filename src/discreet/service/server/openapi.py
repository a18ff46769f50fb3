"""The OpenAPI document: how keys are sent, the codec's messages as schemas, and examples.

Examples are made by a learner of an example study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from fastapi import FastAPI

from discreet.codec import SCHEMA, fields_of, to_json
from discreet.learners.messages import Reports
from discreet.learners.partition.learner import Partition
from discreet.learners.policy import Policy
from discreet.people.domain import ActionSpace, Box, RewardBounds
from discreet.privacy import Guarantee, Local, Release, SecureNoise, SimulatedNoise
from discreet.schemas import Schemas
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
