"""A learner of one's own (docs/adding.md) is found by name and keeps the contract."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.lab.environments import catalog
from discreet.learners import registry
from discreet.learners.base import Learner
from discreet.learners.registry import learner_class, make_learner
from discreet.learners.saving import load, save
from discreet.privacy import Local
from discreet.validation import InvalidInput

from .contract import ARMS, BOUNDS, DOMAIN, LearnerContract, Row

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
CODE = (ROOT / "examples/greedy.py").read_text(encoding="utf-8")
PROBLEM, *_ = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
(STUDY,) = re.findall(r"^(    name = .*?)\n\n", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where discreet is started, with the file beside the study."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "greedy.py").write_text(CODE)
    (folder / "study.toml").write_text(dedent(STUDY))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        yield folder
        sys.modules.pop("greedy", None)


def own(identity: str | None = "own") -> Learner[Any, Any, Any]:
    return make_learner(
        "greedy:Greedy",
        DOMAIN,
        ARMS,
        Local(1.0),
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
    assert "greedy:Greedy" in done.output


def test_a_problem_of_ones_own_is_found_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its module in a study file; its code decides the digest."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "_ENTRIES", dict(catalog._ENTRIES))
    study = (
        'name = "own"\nlearners = [{ name = "uniform" }]\nrounds = 200\nreplicates = 2\n[problem]\n'
    )
    (tmp_path / "study.toml").write_text(study + 'name = "coin_page:coins"\ndimension = 3\n')
    digests = []
    for code in (PROBLEM, PROBLEM.replace("0.5)", "0.4)")):
        (tmp_path / "coin_page.py").write_text(code)
        invalidate_caches()
        done = CliRunner().invoke(app, ["run", "study.toml", "--jobs", "1", "--json", "a.jsonl"])
        sys.modules.pop("coin_page", None)
        assert done.exit_code == 0, done.output
        digests.append(json.loads((tmp_path / "a.jsonl").read_text().splitlines()[-1])["digest"])
    assert len(set(digests)) == 2
    for name, message in (
        ("coin_page:Coins", "not under @named; put it there"),
        ("coin_page:dice", "the problem 'coin_page:dice' cannot be imported"),
        ("dice", "or module:name for one of your own"),
    ):
        with pytest.raises(InvalidInput, match=message):
            catalog.find_entry(name)


def audited(*more: str) -> Any:
    return CliRunner().invoke(app, ["audit", "study.toml", "--trials", "0", "--jobs", "1", *more])


@pytest.mark.slow
def test_its_promise_is_replayed_in_the_audit_of_a_study() -> None:
    done = audited()
    assert done.exit_code == 0, done.output
    assert "greedy:Greedy, epsilon 1" in done.output
    assert "2 of 2 promises withstood their attack" in done.output


@pytest.mark.parametrize(
    ("honest", "broken"),
    [
        ("response(self.means.size, self.epsilon)", "response(self.means.size, 2 * self.epsilon)"),
        # The group goes along in the clear.
        (
            "        return self.reporter.hidden(",
            "        public_coins += places.astype(np.uint64) - public_coins % np.uint64(8)\n@",
        ),
    ],
)
def test_what_breaks_it_is_caught(
    honest: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert honest in CODE
    changed = CODE.replace(honest, broken.replace("@", honest))
    (tmp_path / "other_greedy.py").write_text(changed.replace("greedy-policy", "other-policy"))
    study = dedent(STUDY).replace("greedy:", "other_greedy:").replace("[1, 4]", "[1]")
    (tmp_path / "study.toml").write_text(study)
    monkeypatch.chdir(tmp_path)
    done = audited()
    sys.modules.pop("other_greedy", None)
    assert done.exit_code == 1, done.output
    assert "0 of 1 promises withstood their attack, 1 BROKEN" in done.output


def test_it_is_saved_by_the_name_by_which_it_is_found(tmp_path: Path) -> None:
    learner = own()
    learner.policy()
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert type(again) is type(learner) is import_module("greedy").Greedy
    assert again.secret_fields() == learner.secret_fields()


def test_installed_packages_announce_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("greedy", "greedy:Greedy", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    monkeypatch.setattr(registry, "announced", registry.announced.__wrapped__)  # not cached
    assert learner_class("greedy") is learner_class("greedy:Greedy")
    with pytest.raises(InvalidInput, match=r"known are .*greedy.*Did you mean 'greedy'"):
        learner_class("gredy")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody", "is unknown; known are"),
        ("nowhere_at_all:Greedy", "cannot be imported"),
        ("greedy:Generous", "cannot be imported"),
        ("greedy:GreedyPolicy", "must be a subclass of Learner"),
        (":", "cannot be imported"),
        ("..greedy:Greedy", "begins with a dot; name the module in full"),
    ],
)
def test_what_is_no_learner_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        learner_class(name)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("class (", "SyntaxError"),
        ("raise RuntimeError('[no] licence')", r"RuntimeError: \[no\] licence"),
    ],
)
def test_a_module_that_fails_is_named(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_learner.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInput, match=rf"'failing_learner:Mine'.*{message}.*mend it"):
        learner_class("failing_learner:Mine")
