"""What to do next follows from what was found."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from discreet.lab.experiments import Outcome
from discreet.lab.reporting.next_steps import Step, after_audit, after_plan, after_run, after_search
from discreet.lab.reporting.summary import summarise
from discreet.lab.studies import Study, load_study

from .cases import exponential, outcome, run_study, setting
from .test_audit import BROKEN, HONEST
from .test_plan_words import flat, plan


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("steps")
    run_study(folder, exponential(1), replicates=1)
    return load_study(folder / "study.toml")


PRIVATE = (setting("partition", 1.0), setting("partition", 4.0))
FIXED = setting("best_fixed")


def outcomes(values: tuple[float, float], fixed: float, replicates: int = 6) -> list[Outcome]:
    return [
        outcome(ran, value + 0.1 * replicate, replicate)
        for ran, value in (*zip(PRIVATE, values, strict=True), (FIXED, fixed))
        for replicate in range(replicates)
    ]


def steps(study: Study, made: list[Outcome], finished: int = 10**6) -> list[Step]:
    return after_run(study, summarise(made, (*PRIVATE, FIXED)), finished)


def test_the_smallest_epsilon_that_did_better_comes_first(study: Study) -> None:
    made = [
        replace(each, record=replace(each.record, value=each.record.value + place % 3 * 0.1))
        for place, each in enumerate(outcomes((50.0, 60.0), 40.0))
    ]
    first, *rest = steps(study, made)
    assert first.text.startswith("Look first at partition at epsilon = 1:")
    assert first.command == shlex.join(("discreet", "plan", str(study.path)))
    assert rest[-1].text.startswith("Before people depend on it, draw noise from a secure source")


def test_nothing_is_to_be_deployed_that_is_not_better(study: Study) -> None:
    worse = [
        replace(each, record=replace(each.record, value=each.record.value + place % 3 * 0.1))
        for place, each in enumerate(outcomes((30.0, 35.0), 40.0))
    ]
    assert steps(study, worse)[0].text.startswith("Deploy none of these: they did worse")
    once = steps(study, outcomes((50.0, 60.0), 40.0, replicates=1))
    assert once[0].text.startswith("Deploy none of these yet")
    assert once[1].text.startswith("Repeat the run more often than once")


def test_a_run_that_was_stopped_is_finished_first(study: Study) -> None:
    first = steps(study, outcomes((50.0, 60.0), 40.0), finished=1)[0]
    assert first.text.endswith("--resume at its end.")


def test_without_a_private_learner_one_is_added(study: Study) -> None:
    (only,) = after_run(study, summarise([outcome(FIXED, 40.0)], [FIXED]), 10**6)
    assert only.text.startswith("Add a private learner")


def test_commands_name_the_study_file_with_its_folder(study: Study) -> None:
    named = replace(study, path=Path("my studies/calls.toml"))
    for step in steps(named, outcomes((50.0, 60.0), 40.0)):
        assert not step.command or shlex.split(step.command)[2] == "my studies/calls.toml"


def test_after_a_plan() -> None:
    made = plan()
    assert made.recommendation.epsilon is None
    assert after_plan(made, made.recommendation)[0].text.startswith("Deploy nothing yet.")
    made = plan(lose_at_most=0.3)
    said = after_plan(made, made.recommendation)
    assert f"epsilon = {made.recommendation.epsilon:g}" in said[0].text
    assert [step.command.split()[1:2] for step in said] == [[], ["run"], ["audit"]]
    unclear = replace(flat(), path=Path("somewhere/calls.toml"))
    (only,) = after_plan(unclear, unclear.recommendation)
    assert only.text.startswith("Decide nothing yet. About 111 replicates")
    assert only.command == "discreet plan somewhere/calls.toml --replicates 111 --seconds 0"


def test_after_an_audit() -> None:
    assert after_audit("study.toml", [BROKEN, HONEST])[0].text.startswith("Stop whatever relies")
    weak = replace(HONEST, verdict="too weak to tell")
    commands = [step.command for step in after_audit("all", [weak])]
    assert commands == ["discreet audit all --trials 2000"]
    missing = replace(HONEST, verdict="not audited", fault="OpenDP is not installed.")
    (only,) = after_audit("all", [HONEST, missing])
    assert only.text.startswith("Repeat the audit where what was left out can be audited")
    assert not any("Stop" in step.text for step in after_audit("all", [HONEST, weak]))


@pytest.mark.parametrize(
    ("turn", "first"),
    [
        ({"done": False, "waiting": 1}, "Send the question to the curator"),
        ({"done": False, "waiting": 8}, "Send the 8 questions to the curator"),
        ({"done": False, "waiting": 0}, "Give the same command again"),
        ({"done": True, "waiting": 0}, "Ask the curator whether any row can be measured"),
        ({"done": True, "waiting": 0, "best": SimpleNamespace(row=7)}, "Give row 7 to the curator"),
    ],
)
def test_after_a_turn_of_a_search(turn: dict[str, Any], first: str) -> None:
    view: Any = SimpleNamespace(turn=SimpleNamespace(**({"best": None} | turn)))
    assert after_search(view)[0].text.startswith(first)
