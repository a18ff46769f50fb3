"""benchmarks/mutations.toml keeps up with the source; what it is for is said there."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = tomllib.loads((ROOT / "benchmarks" / "mutations.toml").read_text(encoding="utf-8"))


def test_every_mutation_can_be_made() -> None:
    stale = [
        f"{one['name']}: {one['file']} must have exactly once: {one['old']}"
        for one in TABLE["mutation"]
        if (ROOT / "src/discreet" / one["file"]).read_text(encoding="utf-8").count(one["old"]) != 1
    ]
    assert not stale, "\n".join(stale)


def test_every_mutation_names_itself_and_its_tests() -> None:
    names = [one["name"] for one in TABLE["mutation"]]
    assert len(set(names)) == len(names)
    for one in TABLE["mutation"]:
        assert one["tests"]
        assert all((ROOT / "tests" / name).exists() for name in one["tests"]), one["name"]
        assert one["old"] != one["new"]
