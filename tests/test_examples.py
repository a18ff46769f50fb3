"""The scripts beside the study files run."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_device_and_server(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opendp")
    runpy.run_path(str(EXAMPLES / "device_and_server.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "epsilon = 2;" in out
    assert "protects nobody" not in out


def test_the_examples_in_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opendp")
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    local, joint = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    exec(compile(local, "README.md", "exec"), {})
    assert "epsilon = 1;" in capsys.readouterr().out
    exec(compile(joint, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "joint differential privacy" in shown
    assert "epsilon = 1, delta = 1e-06" in shown
