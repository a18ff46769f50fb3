"""The device client in JavaScript: its own tests, and a real service."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from discreet import decode
from discreet.learners.messages import Reports
from discreet.privacy import SecureNoise
from discreet.service import client
from tests.service.client.conftest import JAVASCRIPT, node, served

CLIENT = Path(client.__file__).with_name("javascript")
MODULES = ("index.js", "device.js", "protocol.js", "noise.js", "storage.js")
# With short names these make 11,872 bytes (`esbuild index.js --bundle --format=esm |
# terser --module -c passes=3 -m | gzip -9`) of 16,091 here, and 13,556 of 18,467 with the module of
# shuffled studies.
MOST, MOST_SHUFFLED = 16_100, 18_480
pytestmark = pytest.mark.chance(0)


@pytest.mark.chance(1e-8)  # stated in protocol.test.mjs
def test_tests_of_the_client_pass() -> None:
    shown = node("--test", "--test-reporter=tap", *sorted(JAVASCRIPT.glob("*.test.mjs")))
    assert "# fail 0" in shown
    assert int(re.findall(r"^# pass (\d+)$", shown, re.MULTILINE)[0]) > 40


@pytest.mark.parametrize("source", [None, "clinic"])
def test_person_agrees_acts_and_reports_to_a_service(tmp_path: Path, source: str | None) -> None:
    with served(tmp_path) as running:
        learner = running.open_local()
        stream = learner.streams["target" if source is None else source]
        key = running.key("device", "study")
        text = node("person.mjs", running.url, "study", key, *([source] if source else []))
        seen = json.loads(text)
        assert seen["sha256"] == stream.terms().digest
        assert (seen["made"], seen["refreshed"]) == (True, False)
        (row,) = seen["ledger"]
        assert (row["state"], row["version"]) == ("accepted", 0)
        assert row["epsilon"] == stream.terms().most_epsilon
        body: dict[str, Any] = json.loads(row["body"])
        (report,) = body["reports"]
        decoded = decode(report, Reports)
        assert (decoded.source, decoded.noise) == (stream.stream_id, SecureNoise.name)
        waiting = running.service.aggregator.waiting
        assert waiting("study", source or "target") == 1
        if source is None:
            assert seen["choice"]["name"] in ("leaflet", "call", "visit")


def test_modules_are_small_and_reach_for_nothing_else() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    assert not {"dependencies", "devDependencies"} & package.keys()
    assert {path.name for path in CLIENT.glob("*.js")} == {*MODULES, "seal.js"}
    code = ""
    for name in (*MODULES, "seal.js"):
        text = (CLIENT / name).read_text()
        imported = re.findall(r'from "([^"]+)"', text)
        assert all(each.startswith("./") for each in imported)
        assert name == "seal.js" or "./seal.js" not in imported
        assert "Math.random" not in text
        code += re.sub(r"^\s*(?://.*|/\*\*(?s:.)*?\*/)\s*$|^\s+", "", text, flags=re.MULTILINE)
        size = len(gzip.compress(code.encode(), 9))
        assert size < (MOST_SHUFFLED if name == "seal.js" else MOST)
