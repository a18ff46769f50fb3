"""The verdict in words: better, worse, too close to call, or nothing to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from discreet.problems.base import Metric, Problem
from discreet.problems.catalog import load_problem
from discreet.reporting.summary import summarise
from discreet.reporting.words import Verdict, verdict

from .cases import outcome, setting

DRAWN = load_problem("exponential", {})
# Small differences between replicates, so that each learner has its interval.
NOISE = (0.0, 0.1, -0.1, 0.05)


def said(
    values: dict[tuple[str, float | None], float],
    metric: Metric = "reward",
    noise: Sequence[float] = NOISE,
    problem: Problem = DRAWN,
) -> Verdict:
    """The verdict on learners by name and epsilon, of 100 people in each replicate."""
    # Noise is turned by one place from learner to learner, so that no difference is without it.
    made = [
        outcome(setting(*who), value + noise[(r + place) % len(noise)], r, metric)
        for place, (who, value) in enumerate(values.items())
        for r in range(len(noise))
    ]
    return verdict(summarise(made), problem)


REST: dict[tuple[str, float | None], float] = {
    ("best_fixed", None): 45.0,
    ("uniform", None): 40.0,
    ("partition", None): 80.0,
}


def test_worse_than_one_choice_for_everyone_is_said_first() -> None:
    """What once read: kept 93% of the gain."""
    values = {**REST, ("partition", None): 42.0, ("partition", 1.0): 41.86}
    spoken = said(values)
    assert spoken.headline == (
        "The private learner did worse than giving everyone the best single choice, by more than "
        "chance."
    )
    assert spoken.findings[0].startswith(
        "Compared with giving everyone the best single choice, partition earned, per person, "
        "0.0314 less at epsilon = 1 (95% interval 0.02"
    )


def test_better_and_what_privacy_cost() -> None:
    spoken = said({**REST, ("partition", 1.0): 50.0, ("partition", 4.0): 78.0})
    assert spoken.headline == (
        "Every private learner did better than giving everyone the best single choice, by more "
        "than chance."
    )
    over, cost = spoken.findings
    assert ", per person, 0.050" in over
    assert " more at epsilon = 1 (95% interval 0.04" in over
    assert " and 0.330" in over
    assert cost.startswith("The cost of privacy: compared with itself without privacy, partition")
    assert "less at epsilon = 1 (95% interval 0.2" in cost


def test_regret_is_better_where_there_is_less() -> None:
    flipped = {who: 100.0 - value for who, value in REST.items()}
    spoken = said({**flipped, ("partition", 1.0): 50.0}, "regret")
    assert spoken.headline.startswith("The private learner did better than")
    assert "less regret at epsilon = 1" in spoken.findings[0]
    assert "more regret at epsilon = 1" in spoken.findings[1]


def test_what_may_be_chance_is_not_called_a_gain() -> None:
    noise = (0.0, 8.0, -8.0, 4.0)
    spoken = said({**REST, ("partition", 1.0): 46.0}, noise=noise)
    assert spoken.headline == (
        "The private learner and giving everyone the best single choice are too close to call."
    )
    assert "less to" in spoken.findings[0]
    assert "more; may be chance)" in spoken.findings[0]
    assert "More replicates narrow the intervals." in spoken.basis


def test_mixed_results_name_each() -> None:
    values = {**REST, ("partition", 1.0): 30.0, ("partition", 4.0): 78.0, ("abse", 2.0): 44.95}
    spoken = said(values)
    assert spoken.headline == (
        "Better than giving everyone the best single choice, by more than chance: partition at "
        "epsilon = 4. Worse, by more than chance: partition at epsilon = 1. Too close to call: "
        "abse at epsilon = 2."
    )
    assert "Worse than choosing at random: partition at epsilon = 1." in spoken.findings


def test_one_repetition_tells_nothing() -> None:
    spoken = said({**REST, ("partition", 1.0): 50.0}, noise=(0.0,))
    assert spoken.headline.startswith(
        "One repetition cannot tell whether the private learners beat"
    )
    assert "0.0500 more at epsilon = 1." in spoken.findings[0]
    assert "no intervals" in spoken.basis
    assert "interval" not in " ".join(spoken.findings)


def test_negative_rewards() -> None:
    values = {who: value - 1000.0 for who, value in REST.items()}
    assert said({**values, ("partition", 1.0): -950.0}).headline.startswith(
        "The private learner did b"
    )


def test_the_basis_says_what_was_done() -> None:
    basis = said({**REST, ("partition", 1.0): 50.0}).basis
    assert "which nobody knew beforehand" in basis
    assert "within each of 4 repetitions" in basis
    assert "Student's t" in basis
    assert "all 3 comparisons" in basis
    assert "Holm" in basis
    assert "draws new people" in basis


def test_a_table_does_not_speak_for_other_people(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n")
    options = {
        "path": "t.csv",
        "columns": [{"name": "x", "lower": 0, "upper": 3}],
        "label": {"column": "y", "classes": ["a", "b"]},
    }
    table = load_problem("table", options, base=tmp_path)
    basis = said({**REST, ("partition", 1.0): 50.0}, problem=table).basis
    assert "do not say how people who are not in it would fare" in basis


@pytest.mark.parametrize(
    ("name", "reason"),
    [("camelback", "cannot be beaten"), ("dose", "no single choice for everyone")],
)
def test_where_there_is_no_single_choice_to_beat(name: str, reason: str) -> None:
    values = {("uniform", None): 40.0, ("gp_ucb", 1.0): 50.0}
    spoken = said(values, problem=load_problem(name, {}))
    assert (
        spoken.headline
        == "The private learner did better than choosing at random, by more than chance."
    )
    assert reason in spoken.basis


def test_without_anything_to_compare_with() -> None:
    spoken = said({("gp_ucb", 1.0): 50.0}, problem=load_problem("camelback", {}))
    assert spoken.headline == (
        "Nothing was run that says whether the private learners beat choosing at random."
    )
    assert spoken.findings == ()


def test_without_private_learners() -> None:
    assert "no private learner" in said(REST).headline
