"""The compose files start what there is: their commands, ports, files and variables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from discreet.cli import app
from discreet.service.server.encryption import KEY_VARIABLE
from discreet.service.shuffler import KEY_VARIABLE as SHUFFLER_VARIABLE

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)\}")
_KNOWN = {"DISCREET_DATABASE", KEY_VARIABLE, SHUFFLER_VARIABLE}


@pytest.mark.parametrize("name", ["compose.yaml", "compose-shuffled.yaml"])
def test_compose_files(name: str) -> None:
    text = (ROOT / name).read_text()
    services: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    commands: Any = typer.main.get_command(app)
    named = {found for found, *_ in _VARIABLE.findall(text)}
    head = text[: text.index("x-discreet")]
    assert named <= set(re.findall(r"\b[A-Z_]{4,}\b", head))  # each is explained
    ours = [each for each in services.values() if "build" in each]
    assert len(ours) == 2
    for service in ours:
        assert (ROOT / service["build"]["dockerfile"]).is_file()
        words = [
            _VARIABLE.sub(lambda found: found[2] or "127.0.0.1", each)
            for each in service["command"]
        ]
        asked = commands.commands[words[0]].make_context(words[0], words[1:]).params
        assert set(service["environment"]) <= _KNOWN
        if "ports" in service:
            assert asked["host"] == "0.0.0.0"
            assert service["ports"][0].split(":")[-1] == str(asked["port"])
        else:
            assert asked["only_aggregator"]
        if "learner" in asked:
            host, port = re.match(r"http://(\w+):(\d+)$", asked["learner"]).groups()  # type: ignore[union-attr]
            there = services[host]
            assert f"--allow-host={host}" in there["command"]
            assert there["ports"][0].endswith(f":{port}")
            assert set(service["networks"]) & set(there["networks"])
    image = (ROOT / "Containerfile").read_text()
    assert 'ENTRYPOINT ["discreet"]' in image
    kept = re.search(r"DISCREET_DATABASE=sqlite:///(\S+)/", image)
    assert kept is not None
    assert f"VOLUME {kept[1]}" in image
