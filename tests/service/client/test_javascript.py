"""The device client in JavaScript: its own tests, Python's test vectors, and a real service."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from discreet import decode
from discreet.audit.vectors import write_vectors
from discreet.learners.messages import Reports
from discreet.privacy import SecureNoise
from discreet.service import client
from tests.service.client.conftest import node_program, served

TESTS = Path(__file__).with_name("javascript")
CLIENT = Path(client.__file__).with_name("javascript")
MODULES = ("index.js", "device.js", "protocol.js", "noise.js", "storage.js")
pytestmark = pytest.mark.chance(0)


def node(*arguments: str | Path) -> str:
    """What a program of the client prints."""
    done = subprocess.run(
        [node_program(), *map(str, arguments)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    folder = tmp_path_factory.mktemp("vectors")
    return folder, write_vectors(folder, cases=300)


@pytest.mark.chance(1e-8)  # stated in protocol.test.mjs
def test_tests_of_the_client_pass() -> None:
    shown = node("--test", "--test-reporter=tap", *sorted(TESTS.glob("*.test.mjs")))
    assert "# fail 0" in shown
    assert int(re.findall(r"^# pass (\d+)$", shown, re.MULTILINE)[0]) > 40


def test_client_decides_and_reports_as_python_to_the_bit(
    vectors: tuple[Path, dict[str, int]],
) -> None:
    folder, counts = vectors
    shown = set(node("vectors.mjs", folder).splitlines())
    refused = counts["refusals"]
    cases = {f"{name}: {n} cases agree" for name, n in counts.items() if name != "refusals"}
    assert shown == {*cases, f"refusals: {refused} cases are refused"}


@pytest.mark.parametrize(
    ("name", "at", "message"),
    [
        ("partition", ("cases", 7, "report", "signs", 0, 0), "partition, case 7, report"),
        ("kernel", ("cases", 3, "propensity"), "kernel, case 3, propensity"),
        ("kernel_source", ("policies", 0, "sha256"), "kernel_source, policy 0, its SHA-256"),
        ("refusals", ("cases", 0, "policy"), "refusals, .* found .accepted"),
    ],
)
def test_runner_of_vectors_fails_at_a_difference(
    vectors: tuple[Path, dict[str, int]], tmp_path: Path, name: str, at: Any, message: str
) -> None:
    folder = shutil.copytree(vectors[0], tmp_path / "changed")
    path = folder / f"{name}.json"
    fields = part = json.loads(path.read_text())
    for key in at[:-1]:
        part = part[key]
    value = part[at[-1]]
    if name == "refusals":
        kept = json.loads((folder / "forged.json").read_text())["policies"][0]
        part |= {"policy": kept["policy"], "terms": kept["terms"]}
    else:
        part[at[-1]] = value[::-1] if isinstance(value, str) else value / 2 or 0.5
    path.write_text(json.dumps(fields))
    with pytest.raises(AssertionError, match=message):
        node("vectors.mjs", folder)


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
    code = ""
    for name in MODULES:
        text = (CLIENT / name).read_text()
        assert all(each.startswith("./") for each in re.findall(r'from "([^"]+)"', text))
        assert "Math.random" not in text
        code += re.sub(r"^\s*(?://.*|/\*\*(?s:.)*?\*/)\s*$|^\s+", "", text, flags=re.MULTILINE)
    assert len(gzip.compress(code.encode(), 9)) < 16_000
