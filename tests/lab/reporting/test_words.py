"""The headline, the table and the promise of a study."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from discreet.lab.environments.base import Metric, Problem
from discreet.lab.environments.catalog import load_problem
from discreet.lab.experiments import Appraisal
from discreet.lab.reporting.numbers import ABSENT
from discreet.lab.reporting.summary import Summary, summarise
from discreet.lab.reporting.words import (
    StudyVerdict,
    appraisals,
    promise,
    promises,
    result_table,
    table_notes,
    table_rows,
    verdict,
)
from discreet.learners.values import Value

from .cases import ROUNDS, outcome, promised, setting

DRAWN = load_problem("exponential", {})
# Small differences between replicates, so that each learner has its interval.
NOISE = (0.0, 0.1, -0.1, 0.05)
Values = dict[tuple[str, float | None], float]
REST: Values = {("best_fixed", None): 45.0, ("uniform", None): 40.0, ("partition", None): 80.0}
LESS: Values = {who: 100.0 - value for who, value in REST.items()}
ONE, FOUR, OTHER = ("partition", 1.0), ("partition", 4.0), ("abse", 2.0)
SINGLE = "the best single choice"
WIDE_NOISE = (0.0, 8.0, -8.0, 4.0)


def summary_of(
    values: Values, metric: Metric = "reward", noise: Sequence[float] = NOISE
) -> Summary:
    """Learners by name and epsilon, of 100 people in each replicate."""
    # Noise is turned by one place from learner to learner, so that no difference is without it.
    made = [
        outcome(setting(*who), value + noise[(r + place) % len(noise)], r, metric)
        for place, (who, value) in enumerate(values.items())
        for r in range(len(noise))
    ]
    return summarise(made)


def judged(values: Values, problem: Problem = DRAWN, **options: Any) -> StudyVerdict:
    return verdict(summary_of(values, **options), problem)


@pytest.mark.parametrize(
    ("values", "options", "headline"),
    [
        (
            {**REST, ("partition", None): 42.0, ONE: 41.86},
            {},
            f"The private learner did significantly worse than {SINGLE}.",
        ),
        (
            {**REST, ONE: 50.0, FOUR: 78.0},
            {},
            f"Every private learner did significantly better than {SINGLE}.",
        ),
        (
            {**LESS, ONE: 50.0},
            {"metric": "regret"},
            f"The private learner did significantly better than {SINGLE}.",
        ),
        (
            {**REST, ONE: 46.0},
            {"noise": WIDE_NOISE},
            f"The private learner does not differ significantly from {SINGLE}.",
        ),
        (
            {("best_fixed", None): 45.0, ("uniform", None): 40.0, ONE: 46.0, FOUR: 45.5},
            {"noise": WIDE_NOISE},
            f"No private learner differs significantly from {SINGLE}.",
        ),
        (
            {**REST, ONE: 30.0, FOUR: 78.0, OTHER: 44.95},
            {},
            f"Significantly better than {SINGLE}: partition at epsilon = 4. Significantly worse "
            f"than {SINGLE}: partition at epsilon = 1. No significant difference: abse at epsilon "
            "= 2.",
        ),
        (
            {**REST, ONE: 50.0},
            {"noise": (0.0,)},
            f"One replicate cannot tell whether the private learners beat {SINGLE}: run more with "
            "--replicates.",
        ),
        (
            {**{who: value - 1000.0 for who, value in REST.items()}, ONE: -950.0},
            {},
            f"The private learner did significantly better than {SINGLE}.",
        ),
        (REST, {}, "No learner of this study is private."),
    ],
    ids=[
        "worse, though it kept 93% of the gain", "better", "regret", "wide intervals",
        "wide intervals of two", "mixed", "one replicate", "negative rewards", "no private learner",
    ],
)  # fmt: skip
def test_the_headline(values: Values, options: dict[str, Any], headline: str) -> None:
    assert judged(values, **options).headline == headline


def test_notes_say_how_settings_were_compared() -> None:
    assert judged({**REST, ONE: 50.0}).notes == (
        "Best single choice: best in hindsight; best_arm has to learn it under its budget.",
        "Settings are compared within each of 4 replicates, on the same people in the same order; "
        "intervals are 95% (Student's t).",
        "Significance is corrected for all 3 comparisons of private learners (Holm, 5%); an "
        "interval that excludes 0 may still not be significant.",
        "Each replicate draws new people.",
    )
    once = judged({**REST, ONE: 50.0}, noise=(0.0,))
    assert not any("interval" in note for note in once.notes)


def test_a_table_does_not_speak_for_other_people(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n")
    options = {
        "path": "t.csv",
        "columns": [{"name": "x", "lower": 0, "upper": 3}],
        "label": {"column": "y", "classes": ["a", "b"]},
    }
    table = load_problem("table", options, base=tmp_path)
    notes = judged({**REST, ("partition", 1.0): 50.0}, table).notes
    assert notes[-1].endswith("intervals do not generalise to other people.")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("camelback", "it is no comparison"), ("dose", "no single choice for everyone")],
)
def test_where_there_is_no_single_choice_to_beat(name: str, reason: str) -> None:
    problem = load_problem(name, {})
    values = {("uniform", None): 40.0, ("gp_ucb", 1.0): 50.0}
    better = "The private learner did significantly better than choosing at random."
    assert judged(values, problem).headline == better
    assert reason in judged(values, problem).notes[0]
    assert "over uniform" in " ".join(table_notes(summary_of(values)))
    # Even where the study asks for it.
    fixed = {**values, ("best_fixed", None): 60.0}
    if name == "camelback":
        assert judged(fixed, problem).headline == better
    alone = judged({("gp_ucb", 1.0): 50.0}, problem).headline
    assert alone == (
        "No learner was run that compares the private learners with choosing at random."
    )


def test_the_best_of_several_rules_is_the_rival() -> None:
    """The one that earned more, or lost less."""
    for metric, values in (("reward", (48.0, 40.0, 50.0)), ("regret", (52.0, 60.0, 50.0))):
        settings = (
            setting("highest", label="best liked"),
            setting("highest", label="most watched"),
            setting("gp_ucb", 1.0),
        )
        made = [
            outcome(each, value + NOISE[(r + place) % 4], r, metric)
            for place, (each, value) in enumerate(zip(settings, values, strict=True))
            for r in range(4)
        ]
        summary = summarise(made)
        assert summary.private[0].over["rule"].mean == pytest.approx(0.02, abs=0.002)
        spoken = verdict(summary, load_problem("dose", {}))
        assert "better than the best rule without learning" in spoken.headline
        assert spoken.notes[0] == "Best rule without learning: best liked."
        assert "over best rule" in " ".join(table_notes(summary))


def small(metric: Metric = "reward", private: bool = True, replicates: int = 2) -> Summary:
    values = {"partition": 80.0, "uniform": 40.0, "best_fixed": 45.0}
    made = [(setting(name), value) for name, value in values.items()]
    if private:
        made += [(setting("partition", 1.0), 50.0), (setting("partition", 4.0), 78.0)]
    sign = 1.0 if metric == "reward" else -1.0
    return summarise(
        [
            outcome(ran, 100.0 * (metric == "regret") + sign * value + r, r, metric)
            for ran, value in made
            for r in range(replicates)
        ]
    )


def printed(summary: Summary) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=80).print(result_table(summary))
    return out.getvalue().splitlines()


def row(lines: list[str], *starts: str) -> list[str]:
    return next(line.split() for line in lines if line.split()[: len(starts)] == list(starts))


def test_rows_hold_the_numbers() -> None:
    lines = printed(small())
    # Values 50 and 51: mean 50.5, standard error 0.5 and t = 12.706; 5 of 100 people over best
    # fixed in both replicates; share (50 - 40) / (80 - 40).
    assert row(lines, "partition", "1") == [
        *("partition", "1", "50.50", "6.4", "0.5050", "+0.0500*", "0.0000", "25%", "2")
    ]
    assert row(lines, "partition", "non-private")[2] == "80.50"
    assert row(lines, "uniform")[1] == ABSENT
    regret = printed(small("regret"))
    assert row(regret, "partition", "1")[5:8] == ["+0.0500*", "0.0000", "25%"]
    assert any("lower is better" in line for line in regret)
    # One replicate has no error.
    assert row(printed(small(replicates=1)), "partition", "1")[3] == ABSENT


def test_only_significant_differences_of_private_learners_have_a_star() -> None:
    stars = {each.label: each.over for each in table_rows(summary_of({**REST, OTHER: 44.95}))}
    assert not any("*" in text for text in stars.values())
    assert row(printed(small()), "uniform")[5] == "-0.0500"


def test_private_rows_come_first_and_are_set_apart() -> None:
    lines = printed(small())
    at = [index for index, line in enumerate(lines) if line.startswith("partition")]
    assert [lines[index].split()[1] for index in at] == ["1", "4", "non-private"]
    assert at[2] - at[1] == 2
    assert lines[at[1] + 1].strip(" ─") == ""


LONG = "a very long label of a learner " * 3


@pytest.mark.parametrize(
    ("label", "values", "shown"),
    [
        ("kernel", {"partition": 318.84, "uniform": 203.58, "best_fixed": 214.82}, "29,444"),
        ("[red]x[/red]", {}, "[red]x[/red]"),
        (LONG, {}, "29,444"),
        ("published_partition", {}, "published_partition "),
    ],
)
def test_any_study_fits_80_columns(label: str, values: dict[str, float], shown: str) -> None:
    """Whatever columns it has, and whatever a learner is called."""
    runs = [
        (setting("partition", 1.0, label), 294.44),
        *((setting(n), v) for n, v in values.items()),
    ]
    made = [outcome(ran, value * ROUNDS, r) for ran, value in runs for r in range(2)]
    lines = printed(summarise(made))
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert any(shown in line for line in lines)
    assert any("best" in line for line in lines) == bool(values)


def test_gain_kept_says_what_it_needs() -> None:
    private = [outcome(setting("partition", 1.0), 50.0 + r, r) for r in range(2)]
    uniform = [outcome(setting("uniform", label="chance"), 40.0 + r, r) for r in range(2)]
    free = [outcome(setting("partition"), 39.0 + 9 * r, r) for r in range(2)]
    for ran, needed in (
        (private, 'the learner "uniform"'),
        ([*private, *uniform], "non_private = true"),
        ([*private, *uniform, *free], "a clear gain"),
    ):
        assert table_notes(summarise(ran))[-1].startswith(f'"gain kept" needs {needed}')
    assert table_notes(small())[-1].startswith("gain kept: ")


def test_learners_estimate_their_recommendations_beside_the_truth() -> None:
    """Digits are those of the narrowest interval."""
    made = [
        outcome(setting("uniform"), 50.0),
        *(
            replace(
                outcome(setting("partition", epsilon), 70.0),
                appraisal=Appraisal(Value(mean, mean - half, mean + half, 0.95, "it"), truth),
            )
            for epsilon, mean, half, truth in ((4.0, 0.71, 0.012, 0.7054), (1.0, 0.62, 0.1, 0.66))
        ),
    ]
    texts = [(each.estimate, each.interval, each.truth) for each in appraisals(summarise(made))]
    assert texts == [("0.710", "0.698 to 0.722", "0.705"), ("0.620", "0.520 to 0.720", "0.660")]


def test_promises_that_differ_in_epsilon_share_a_line() -> None:
    text = promise(small())
    assert text.startswith(replace(promised(1.0), noise=()).sentence)
    assert " At epsilon = 4 the factor is 54." in text
    assert text.count("times as likely") == 1
    assert text.count("simulated") == 1
    assert text.endswith("it shows utility only.")


def test_a_brief_promise_keeps_whom_it_covers_and_warnings() -> None:
    brief = promises([promised(epsilon) for epsilon in (1.0, 4.0)], brief=True)
    assert brief.startswith(promised(1.0).sentence.split(". ")[0])
    assert "sure of either" not in brief
    assert "This holds for one report by a person. At epsilon = 4" in brief
    assert brief.endswith("this run protects no one: it shows utility only.")


def test_factors_are_those_of_the_sentences() -> None:
    for epsilon in (0.1, 2.0, 20.0):
        text = promise(summarise([outcome(setting("partition", e), 1.0) for e in (0.01, epsilon)]))
        numbers = re.search(r" At epsilon = (\S+) the factor is (\S+)\.(?: |$)", text)
        assert numbers is not None
        assert f"epsilon = {numbers[1]}" in promised(epsilon).sentence
        assert f"more than {numbers[2]} times" in promised(epsilon).sentence


@pytest.mark.parametrize("epsilons", [(1.0, 4.0, 4.0 - 1e-12), (4.0, 4.0 - 1e-12)])
def test_promise_says_epsilons_that_look_alike_once(epsilons: tuple[float, ...]) -> None:
    text = promises(promised(epsilon) for epsilon in epsilons)
    assert text.count("epsilon = 4") == 1
    assert (" At epsilon = 4 the factor is 54." in text) == (len(epsilons) == 3)
    assert " and 54." not in text


def test_promise_keeps_different_guarantees_apart() -> None:
    one = outcome(setting("partition", 1.0), 1.0)
    other = outcome(setting("partition", 2.0), 1.0, noise="SecureNoise")
    lines = promise(summarise([one, other])).splitlines()
    assert lines == [promised(1.0).sentence, promised(2.0, "SecureNoise").sentence]


def test_promise_without_private_learners() -> None:
    assert promise(small(private=False)).startswith("No learner shown here is private")
