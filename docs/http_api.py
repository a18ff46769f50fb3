"""Tables of the paths and messages of the service and of a shuffler, from their OpenAPI."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discreet.service.server.app import create_app
from discreet.service.server.routes import ALL
from discreet.service.server.service import Service
from discreet.service.shuffler import LearnerClient, Relay, shuffler_app

_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
_SECTIONS = {"Report": "reports", "Policy": "policies"}
_GROUPS = {
    "studies": "Studies",
    "control": "Operators and auditors",
    "tables": "Tables",
    "shuffler": "A shuffler, which also has the paths of keys",
}


def document() -> dict[str, Any]:
    """What `/v1/openapi.json` answers."""
    with TemporaryDirectory() as folder:
        service = Service.open(f"sqlite:///{Path(folder) / 'empty.db'}", {})
        try:
            return create_app(service).openapi()
        finally:
            service.stop()


def shuffler_document() -> dict[str, Any]:
    """The same of a shuffler."""
    learner = LearnerClient("http://127.0.0.1:8000", "study", key="none")
    with TemporaryDirectory() as folder:
        relay = Relay.open(f"sqlite:///{Path(folder) / 'empty.db'}", learner)
        try:
            return shuffler_app(relay).openapi()
        finally:
            relay.stop()


def http_tables() -> str:
    """The page's tables in Markdown: paths by group, then the fields of what they take and give."""
    described, other = document(), shuffler_document()
    schemas = other["components"]["schemas"] | described["components"]["schemas"]
    lines = ["## Paths"]
    for tag in (None, *_GROUPS):
        lines += ["", f"### {_GROUPS.get(tag, 'Open to everyone')}", ""]
        lines += [
            "| request | who may call | body | response | what it does |",
            "|---|---|---|---|---|",
        ]
        paths = other["paths"] if tag == "shuffler" else described["paths"]
        for path, methods in paths.items():
            for method, each in methods.items():
                if each.get("tags", [None])[0] == tag:
                    lines.append(_row(method, path, each))
    reports = [_name(each) for each in schemas["Report"]["anyOf"]]
    policies = [_name(each) for each in schemas["Policy"]["anyOf"]]
    rest = [name for name in schemas if name not in (*reports, *policies, "Report", "Policy")]
    for title, names in (("Reports", reports), ("Policies", policies), ("Other objects", rest)):
        lines += ["", f"## {title}"]
        for name in sorted(names):
            lines += _fields(name, schemas[name])
    return "\n".join(lines)


def _row(method: str, path: str, each: Mapping[str, Any]) -> str:
    body = each.get("requestBody", {}).get("content", {}).get("application/json", {})
    status, answer = next(
        (code, one) for code, one in each["responses"].items() if code.startswith("2")
    )
    content = next(iter(answer.get("content", {}).values()), {})
    cells = (
        f"`{method.upper()} {path}`",
        _callers(each.get("x-roles")),
        _type(body["schema"]) if body else "",
        f"{status} {_type(content['schema']) if content.get('schema') else ''}".strip(),
        each.get("description", "").partition("\n\n")[0].replace("\n", " "),
    )
    return f"| {' | '.join(cells)} |"


def _callers(roles: Sequence[str] | None) -> str:
    if roles is None:
        return "anyone"
    return "any key" if set(roles) == set(ALL) else ", ".join(roles)


def _fields(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    text = schema.get("description", "").partition("\n\n")[0].replace("\n", " ")
    yield from ("", f"### {name}", "", text)
    if "properties" not in schema:
        yield from ("", f"Type: {_type(schema)}")
        return
    needed = schema.get("required", ())
    yield from ("", "| field | type |", "|---|---|")
    for field, inner in schema["properties"].items():
        yield f"| `{field}`{'' if field in needed else ' (optional)'} | {_type(inner)} |"


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words, with links to named ones."""
    if "$ref" in schema:
        name = _name(schema)
        return f"[{name}](#{_SECTIONS.get(name, name.lower())})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    kind = schema.get("type", "any")
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    if kind == "array":
        parts = schema.get("prefixItems")
        return (
            f"list of {_type(schema.get('items', {}))}"
            if parts is None
            else ("list: " + ", ".join(map(_type, parts)))
        )
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    bounds = [f"{word} {schema[key]:,}" for key, word in _BOUNDS.items() if key in schema]
    return " ".join([kind, ", ".join(bounds)]).strip()


def _name(reference: Mapping[str, Any]) -> str:
    return reference["$ref"].rpartition("/")[2]
