"""The verdict in words: better, worse, too close to call, or nothing to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from discreet.lab.environments.base import Metric, Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.experiments import Appraisal
from discreet.lab.reporting.summary import summarise
from discreet.lab.reporting.words import Verdict, verdict
from discreet.learners.values import Value
from discreet.privacy import Joint

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


Values = dict[tuple[str, float | None], float]
REST: Values = {("best_fixed", None): 45.0, ("uniform", None): 40.0, ("partition", None): 80.0}
LESS: Values = {who: 100.0 - value for who, value in REST.items()}
ONE, FOUR, OTHER = ("partition", 1.0), ("partition", 4.0), ("abse", 2.0)
SINGLE = "giving everyone the best single choice"


@pytest.mark.parametrize(
    ("values", "options", "headline", "findings"),
    [
        pytest.param(
            {**REST, ("partition", None): 42.0, ONE: 41.86},
            {},
            f"The private learner did worse than {SINGLE}, by more than chance.",
            (
                f"Compared with {SINGLE}, partition earned, per person, 0.0314 less at epsilon = 1 "
                "(95% interval 0.02",
            ),
            id="worse than one choice for everyone, though it kept 93% of the gain",
        ),
        pytest.param(
            {**REST, ONE: 50.0, FOUR: 78.0},
            {},
            f"Every private learner did better than {SINGLE}, by more than chance.",
            (
                ", per person, 0.050",
                " more at epsilon = 1 (95% interval 0.04",
                " and 0.330",
                "The cost of privacy: compared with itself without privacy, partition",
                "less at epsilon = 1 (95% interval 0.2",
            ),
            id="better, and what privacy cost",
        ),
        pytest.param(
            {**LESS, ONE: 50.0},
            {"metric": "regret"},
            f"The private learner did better than {SINGLE}, by more than chance.",
            ("less regret at epsilon = 1", "more regret at epsilon = 1"),
            id="regret is better where there is less",
        ),
        pytest.param(
            {**REST, ONE: 46.0},
            {"noise": (0.0, 8.0, -8.0, 4.0)},
            f"The private learner and {SINGLE} are too close to call.",
            ("less to", "more; may be chance)"),
            id="what may be chance is no gain",
        ),
        pytest.param(
            {**REST, ONE: 30.0, FOUR: 78.0, OTHER: 44.95},
            {},
            f"Better than {SINGLE}, by more than chance: partition at epsilon = 4. Worse, by more "
            "than chance: partition at epsilon = 1. Too close to call: abse at epsilon = 2.",
            ("Worse than choosing at random: partition at epsilon = 1.",),
            id="mixed results name each",
        ),
        pytest.param(
            {**REST, ONE: 50.0},
            {"noise": (0.0,)},
            f"One repetition cannot tell whether the private learners beat {SINGLE}: what follows "
            "may be chance.",
            ("0.0500 more at epsilon = 1.",),
            id="one repetition tells nothing",
        ),
        pytest.param(
            {**{who: value - 1000.0 for who, value in REST.items()}, ONE: -950.0},
            {},
            f"The private learner did better than {SINGLE}, by more than chance.",
            (),
            id="negative rewards",
        ),
        pytest.param(
            REST,
            {},
            "This study has no private learner: it says how well the people could be served "
            "without privacy.",
            (),
            id="no private learner",
        ),
    ],
)
def test_the_verdict(
    values: Values, options: dict[str, Any], headline: str, findings: tuple[str, ...]
) -> None:
    spoken = said(values, **options)
    assert spoken.headline == headline
    for text in findings:
        assert text in " ".join(spoken.findings)


def test_the_basis_says_what_was_done() -> None:
    basis = said({**REST, ONE: 50.0}).basis
    for words in (
        "which nobody knew beforehand",
        "within each of 4 repetitions",
        "Student's t",
        "all 3 comparisons",
        "Holm",
        "draws new people",
    ):
        assert words in basis
    close = said({**REST, ONE: 46.0}, noise=(0.0, 8.0, -8.0, 4.0)).basis
    assert "More replicates narrow the intervals." in close
    once = said({**REST, ONE: 50.0}, noise=(0.0,))
    assert "no intervals" in once.basis
    assert "interval" not in " ".join(once.findings)


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


def test_the_best_of_several_rules_is_the_rival() -> None:
    """The one that earned more, or lost less."""
    for metric, values in (("reward", (48.0, 40.0, 50.0)), ("regret", (52.0, 60.0, 50.0))):
        made = [
            outcome(each, value + NOISE[(r + place) % 4], r, metric)
            for place, (each, value) in enumerate(
                zip(
                    (
                        setting("highest", label="best liked"),
                        setting("highest", label="most watched"),
                        setting("gp_ucb", 1.0),
                    ),
                    values,
                    strict=True,
                )
            )
            for r in range(4)
        ]
        summary = summarise(made)
        assert summary.private[0].over["rule"].mean == pytest.approx(0.02, abs=0.002)
        spoken = verdict(summary, load_problem("dose", {}))
        assert "did better than the best rule that learns nothing" in spoken.headline
        assert "The best rule that learns nothing is best liked here." in spoken.basis


def test_without_anything_to_compare_with() -> None:
    spoken = said({("gp_ucb", 1.0): 50.0}, problem=load_problem("camelback", {}))
    assert spoken.headline == (
        "Nothing was run that says whether the private learners beat choosing at random."
    )
    assert spoken.findings == ()


def test_learners_say_what_they_recommend_earns_beside_the_truth() -> None:
    """Each family once, smallest epsilon first; digits are those of the narrowest interval."""

    def said(mean: float, half: float, truth: float, about: str) -> Appraisal:
        value = Value(mean, mean - half, mean + half, 0.95, f"the recommendation, averaged {about}")
        return Appraisal(value, truth)

    people = "over people as their reports say they are spread"
    outcomes = [
        outcome(setting("uniform"), 50.0),
        replace(
            outcome(setting("partition", 4.0), 70.0),
            appraisal=said(0.71, 0.012, 0.7054, people),
        ),
        replace(
            outcome(setting("partition", 1.0), 60.0),
            appraisal=said(0.62, 0.1, 0.66, people),
        ),
        outcome(setting("local_kernel", 1.0), 61.0),
        replace(
            outcome(replace(setting("released_thompson", 1.0), budget=Joint(1.0, 1e-6)), 65.0),
            appraisal=said(0.7, 0.03, 0.68, "over the declared sample of contexts"),
        ),
    ]
    findings = verdict(summarise(outcomes), load_problem("exponential", {})).findings
    assert findings[-2:] == (
        "From its private reports alone, partition estimates that what it recommends at the end of "
        "the first repetition earns, per person, 0.620 at epsilon = 1 (95% interval 0.520 to "
        "0.720; the simulation knows that it is 0.660) and 0.710 at epsilon = 4 (0.698 to 0.722; "
        "it is 0.705): averages over people as their reports say they are spread.",
        "From what it released alone, released_thompson estimates that what it recommends at the "
        "end of the first repetition earns, per person, 0.700 at epsilon = 1 (95% interval 0.670 "
        "to 0.730; the simulation knows that it is 0.680): averages over the declared sample of "
        "contexts.",
    )
    assert not any("local_kernel estimates" in finding for finding in findings)
