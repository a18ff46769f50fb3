"""`discreet audit` as its user meets it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.audit.checks import Check
from discreet.audit.replay import Claim, Exact
from discreet.cli import app
from discreet.lab.reporting.audit import audit_figure
from discreet.records import Finding

runner = CliRunner()

STUDY = """
name = "small"
rounds = 500

[problem]
name = "exponential"
arms = 3
dimension = 2

[[learners]]
name = "partition"
epsilon = [1.0, 4.0]
non_private = true

[[learners]]
name = "uniform"
"""


def invoke(*arguments: object) -> tuple[int, str, str]:
    """Exit code, and what was printed with line breaks taken out."""
    result = runner.invoke(app, ["audit", *map(str, arguments)])
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_known_broken_designs_are_caught_with_records_and_a_figure() -> None:
    code, shown, _ = invoke(
        *("known-broken", "--jobs", 1),
        *("--json", "a.jsonl", "--plot", "a.png", "--report", "a.html"),
    )
    assert code == 0
    assert "14 of 14 broken designs were caught." in shown
    records = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    assert {record["verdict"] for record in records} == {"caught"}
    assert all(record["fault"] or record["exact"] > record["epsilon"] for record in records)
    assert all(record["overall_confidence"] == 0.999 for record in records)
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    page = Path("a.html").read_text()
    assert "14 of 14 broken designs were caught." in page
    assert "is no proof" in page
    for record in records:
        assert record["name"] in page
        assert record["fault"] in page


@pytest.mark.chance(0)  # what is drawn is compared by its loss, whatever it is
def test_one_mechanism() -> None:
    code, shown, _ = invoke("laplace", "--jobs", 1)
    assert code == 0
    assert "laplace local 1 0" in shown
    assert "holds" in shown


@pytest.mark.slow
def test_whole_runs_are_tried_at_a_joint_confidence() -> None:
    code, shown, _ = invoke("usca, predictions", "--trials", 40, "--jobs", 1)
    assert code == 0
    assert "99.9% confidence" in shown
    assert "Bonferroni" in shown
    assert "40, each a whole run" in shown


@pytest.mark.slow
def test_what_a_study_would_deploy() -> None:
    Path("study.toml").write_text(STUDY)
    code, shown, _ = invoke("study.toml", "--jobs", 1)
    assert code == 0
    assert "partition, epsilon 1" in shown
    assert "partition, epsilon 4" in shown
    assert "2 of 2 promises withstood" in shown


def test_a_study_without_promises_is_refused() -> None:
    Path("study.toml").write_text(STUDY.replace("epsilon = [1.0, 4.0]\n", ""))
    code, _, errors = invoke("study.toml")
    assert code == 2
    assert "no private learner" in errors


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nobody",), "nobody"),
        (("missing.toml",), "missing.toml"),
        (("laplace", "--confidence", 1.5), "confidence"),
        (("laplace", "--json", "a.txt"), ".jsonl"),
        (("laplace", "--plot", "a.pdf"), ".png"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[object, ...], named: str) -> None:
    code, _, errors = invoke(*arguments)
    assert code == 2
    assert named in errors


def check(name: str, kind: str, epsilon: float) -> Check:
    return Check(name, kind, "local", lambda: Exact(Claim(1.0), epsilon, "all outcomes"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "epsilon", "code", "said"),
    [
        ("learner", 1.0, 0, "1 of 1 promises withstood their attack."),
        ("learner", 1.1, 1, "broken: BROKEN. Replayed: all outcomes."),
        ("known-broken", 1.1, 0, "1 of 1 broken designs were caught."),
        ("known-broken", 0.9, 1, "broken: NOT CAUGHT. Replayed: all outcomes."),
    ],
)
def test_the_exit_code_is_1_where_something_is_wrong(
    kind: str, epsilon: float, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = importlib.import_module("discreet.audit.runner")
    monkeypatch.setattr(runner, "checks_named", lambda name: [check("broken", kind, epsilon)])
    found, shown, _ = invoke("broken", "--jobs", 1)
    assert found == code
    assert said in shown


def test_what_was_not_audited_is_named_with_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = importlib.import_module("discreet.audit.runner")
    free = Check("free", "learner", "none")
    monkeypatch.setattr(runner, "checks_named", lambda name: [free])
    code, shown, _ = invoke("one", "--jobs", 1)
    assert code == 1
    assert "Nothing was audited; 1 prom" in shown


@pytest.mark.parametrize(
    ("epsilon", "code", "said"),
    [
        (1.0, 0, "1 of 1 promises withstood their attack."),
        (1.1, 1, "service, one: BROKEN. Replayed: all outcomes."),
    ],
)
def test_the_service_is_audited_by_its_name(
    epsilon: float, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    observers = importlib.import_module("discreet.audit.observers")
    checks = [check("service, one", "learner", epsilon)]
    monkeypatch.setattr(observers, "service_checks", lambda: checks)
    found, shown, _ = invoke("service", "--jobs", 1, "--json", "service.jsonl")
    assert found == code
    assert said in shown
    (record,) = map(json.loads, Path("service.jsonl").read_text().splitlines())
    assert (record["name"], record["verdict"]) == ("service, one", "BROKEN" if code else "holds")


def test_the_service_is_not_audited_without_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "discreet.service.server.database", None)
    code, _, errors = invoke("service", "--jobs", 1)
    assert code == 2
    assert 'pip install "discreet[service]"' in errors


@pytest.mark.slow
@pytest.mark.chance(0)  # what is drawn is compared by its loss, whatever it is
def test_what_others_see_of_the_service() -> None:
    code, shown, _ = invoke("service", "--jobs", 1)
    assert code == 0
    assert "service, gp_ucb" in shown
    assert "service, capri by name" in shown
    assert "2 of 2 promises withstood their attack." in shown


def test_the_figure_has_a_bar_and_a_dot_for_each_check() -> None:
    findings = [
        Finding("honest", "learner", "local", "holds", 2.0, 0.0, 1.5, "exact"),
        Finding("none", "learner", "none", "no promise"),
        Finding("broken", "known-broken", "joint", "caught", 1.0, 0.0, float("inf"), "exact"),
    ]
    axes = audit_figure(findings).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["honest", "broken"]
    bars = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "|"]
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert bars == [2.0, 1.0]
    assert dots[0] == 1.5
    assert axes.get_xlim()[1] > dots[1] > 2.0
