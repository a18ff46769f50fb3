"""A learner of one's own (docs/design/0009-adding.md) is found by name and keeps the contract."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.learners import registry
from discreet.learners.base import Learner
from discreet.learners.registry import learner_class, make_learner
from discreet.learners.saving import load, save
from discreet.privacy import NonPrivate
from discreet.validation import InvalidInput

from .contract import ARMS, BOUNDS, DOMAIN, LearnerContract, Row

PAGE = (Path(__file__).parents[2] / "docs/design/0009-adding.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
(STUDY,) = re.findall(r"^(    name = .*?)\n\n", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where discreet is started, with the file beside the study."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "halves.py").write_text(CODE)
    (folder / "study.toml").write_text(dedent(STUDY))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        yield folder
        sys.modules.pop("halves", None)


def own(identity: str | None = "own") -> Learner[Any, Any, Any]:
    return make_learner(
        "halves:Halves",
        DOMAIN,
        ARMS,
        NonPrivate(),
        reward_bounds=BOUNDS,
        public_seed=11,
        identity=identity,
    )


class TestOwn(LearnerContract):
    @pytest.fixture
    def row(self) -> Row:
        return Row(own)


def test_it_runs_in_a_study() -> None:
    # Processes that earlier tests started stand in other folders.
    done = CliRunner().invoke(app, ["run", "study.toml", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "halves:Halves" in done.output


def test_it_is_saved_by_the_name_by_which_it_is_found(tmp_path: Path) -> None:
    learner = own()
    learner.policy()
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert type(again) is type(learner) is import_module("halves").Halves
    assert again.secret_fields() == learner.secret_fields()


def test_installed_packages_announce_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("halves", "halves:Halves", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    assert learner_class("halves") is learner_class("halves:Halves")
    with pytest.raises(InvalidInput, match=r"known are .*halves.*Did you mean 'halves'"):
        learner_class("halfes")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody", "is unknown; known are"),
        ("nowhere_at_all:Halves", "cannot be imported"),
        ("halves:Quarters", "cannot be imported"),
        ("halves:HalvesPolicy", "must be a subclass of Learner"),
        (":", "cannot be imported"),
    ],
)
def test_what_is_no_learner_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        learner_class(name)
