"""Layering: each floor imports only from the floors under it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import discreet

ROOT = Path(discreet.__file__).parent

# From the ground up; a module may import from its own floor and from those before it.
FLOORS = [
    {
        "validation",
        "codec",
        "durable",
        "columns",
        "named_rows",
        "domain",
        "action_space",
        "showing",
    },
    {"privacy", "kernels", "problems", "records"},
    {"learners", "outsourcing"},
    {"experiments", "estimator", "search", "client"},
    {"audit", "aggregation"},
    {"studies", "reproduction"},
    {"planning"},
    {"reporting"},
    {"results"},
    {"service"},
    {"cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def modules() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imported(path: Path) -> set[str]:
    """The modules of discreet that a file imports, at any level of nesting."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "discreet":
            found |= {f"discreet.{name.name}" for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discreet"):
            found.add(node.module or "")
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.startswith("discreet")}
    return found


def test_no_import_runs_upward_or_sideways() -> None:
    for path in modules():
        room = room_of(path)
        for module in imported(path):
            other = module.split(".")[1]
            below = FLOOR[other] < FLOOR[room] or other == room
            same_ground = FLOOR[room] == FLOOR[other] == 0
            assert below or same_ground, f"{path.relative_to(ROOT)} imports {module}"


def test_there_is_no_circle() -> None:
    names = {
        "discreet." + ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in modules()
    }
    edges = {name: {m for m in imported(path) if m in names} for name, path in names.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail, name])
        if name not in done:
            for other in edges[name]:
                visit(other, (*trail, name))
            done.add(name)

    for name in names:
        visit(name, ())


def test_every_room_is_on_a_floor() -> None:
    for path in modules():
        assert room_of(path) in FLOOR, f"{path} is in no known room"
