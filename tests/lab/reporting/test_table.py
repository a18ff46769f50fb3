"""What the terminal shows, and the promise in words."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from discreet.lab.environments.base import Metric
from discreet.lab.reporting.numbers import ABSENT
from discreet.lab.reporting.summary import Summary, summarise
from discreet.lab.reporting.words import promise, promises, result_table, table_note

from .cases import ROUNDS, outcome, promised, setting


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
        *("partition", "1", "50.50", "6.4", "0.5050", "+0.0500", "0.0000", "25%", "2")
    ]
    assert row(lines, "partition", "non-private")[2] == "80.50"
    assert row(lines, "uniform")[1] == ABSENT
    assert any("higher is better" in line for line in lines)
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_private_rows_come_first_and_are_set_apart() -> None:
    lines = printed(small())
    at = [index for index, line in enumerate(lines) if line.startswith("partition")]
    assert [lines[index].split()[1] for index in at] == ["1", "4", "non-private"]
    assert at[2] - at[1] == 2
    assert lines[at[1] + 1].strip(" ─") == ""


def test_regret_says_lower_is_better() -> None:
    lines = printed(small("regret"))
    assert any("lower is better" in line for line in lines)
    assert row(lines, "partition", "1")[5:8] == ["+0.0500", "0.0000", "25%"]
    assert any("how much less regret" in line for line in lines)
    # One replicate has no error.
    assert row(printed(small(replicates=1)), "partition", "1")[3] == ABSENT


def test_gain_kept_says_what_it_compares() -> None:
    assert "Gain kept compares a learner with itself only" in " ".join(table_note(small()).split())


LONG = "a very long label of a learner " * 3


@pytest.mark.parametrize(
    ("label", "values", "shown"),
    [
        ("local_kernel", {"partition": 318.84, "uniform": 203.58, "best_fixed": 214.82}, "29,444"),
        ("[red]x[/red]", {}, "[red]x[/red]"),
        (LONG, {}, "29,444"),
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


def test_the_name_of_a_learner_is_not_broken() -> None:
    made = summarise([outcome(setting("published_partition", 1.0), 50.0, r) for r in range(2)])
    lines = printed(made)
    assert any(line.startswith("published_partition ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_gain_kept_says_what_is_missing() -> None:
    private = [outcome(setting("partition", 1.0), 50.0 + r, r) for r in range(2)]
    free = [outcome(setting("partition"), 60.0 + r, r) for r in range(2)]
    uniform = [outcome(setting("uniform"), 40.0 + r, r) for r in range(2)]
    for ran, text in (
        ([*private, *free], 'Gain kept is missing: the study has no learner "uniform"'),
        ([*private, *uniform], "no private learner was run without privacy as well"),
    ):
        assert text in table_note(summarise(ran))


def test_promise_is_said_once_for_all_epsilons() -> None:
    text = promise(small())
    sentence = replace(promised(1.0), noise=()).sentence
    assert text.startswith(sentence)
    assert re.search(r" At epsilon = 4 the factor is 54\.", text)
    assert text.count("times as likely") == 1
    assert text.count("simulated") == 1
    assert text.endswith("it shows utility only.")


def test_promise_takes_its_numbers_from_the_sentences() -> None:
    for epsilon in (0.1, 2.0, 20.0):
        text = promise(summarise([outcome(setting("partition", e), 1.0) for e in (0.01, epsilon)]))
        said = promised(epsilon).sentence
        numbers = re.search(r" At epsilon = (\S+) the factor is (\S+), and the certainty ", text)
        assert numbers is not None
        assert f"epsilon = {numbers[1]}" in said
        assert f"more than {numbers[2]} times" in said


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
