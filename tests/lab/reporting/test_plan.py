"""A plan in words, tables, figures and as a page, where its truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from discreet.lab.planning.forecast import Interval, PlanAnswer, RaceResult
from discreet.lab.reporting.layout import NARROW, WIDE
from discreet.lab.reporting.plan import (
    Plan,
    basis,
    epsilon_text,
    interval_text,
    loss_rows,
    loss_table,
    loss_text,
    odds_table,
    people_figure,
    people_rows,
    people_table,
    people_text,
    question_text,
    render_plan,
)
from discreet.validation import InvalidInput
from tests.lab.planning.cases import drawn, forecast, growing

from .cases import ORIGIN, lines_of, overlapping, words_of
from .test_report import parsed

FREE = growing(0.05, 0.5)


def plan(**facts: Any) -> Plan:
    private = {1.0: growing(5.0, 0.7), 2.0: growing(2.0, 0.7), 4.0: growing(1.0, 0.7)}
    gains = {
        epsilon: drawn(gain, 6, 0.002, place)
        for place, (epsilon, gain) in enumerate(private.items())
    }
    made: Plan = forecast(gains, drawn(FREE, 6, 0.002, 9), Plan, **facts)
    return made


def flat() -> Plan:
    nothing = drawn(np.zeros(5), 6, 0.01, 1)
    private = {1.0: drawn(np.full(5, -0.02), 6, 0.01, 2)}
    made: Plan = forecast(private, nothing, Plan, seconds_each=1.0)
    return made


def people(value: float | None, low: float = 3900.0, high: float = 7100.0) -> PlanAnswer:
    return PlanAnswer("people", value, low, high, 250.0, 16_000.0, 6000.0)


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(title="<b>Whom</b> to call", question=("loss", 2.0, 4000.0))


EXPECTED = {"lose_at_most": 0.3, "expected": 8000}
PLANS: dict[str, Callable[[], Plan]] = {
    "yes": lambda: plan(lose_at_most=0.3),
    "no": lambda: plan(lose_at_most=0.05),
    "too close": lambda: plan(lose_at_most=0.207),
    "fewer people than expected": lambda: plan(**EXPECTED),
    "far fewer people than expected": lambda: plan(lose_at_most=0.3, expected=900_000),
    "no gain": lambda: forecast({1.0: drawn(np.full(5, -0.02), 6, 0.001, 1)},
                                drawn(np.full(5, -0.02), 6, 0.001, 1), Plan),
    "no clear gain": lambda: flat(),
    "gain from the first people on": lambda: forecast(
        {4.0: drawn(np.full(5, 0.1), 6, 0.001, 1)}, drawn(np.full(5, 0.2), 6, 0.001, 2), Plan
    ),
    "people asked": lambda: plan(question=("people", 2.0, 0.5)),
    "epsilon asked": lambda: plan(question=("epsilon", 4000.0, 0.4)),
    "loss asked": lambda: plan(question=("loss", 2.0, 4000.0)),
    "loss asked beyond the limit": lambda: plan(question=("loss", 2.0, 99_000.0)),
}  # fmt: skip


def test_recommendations_and_answers(golden: Callable[[str, str], None]) -> None:
    texts = []
    for name, make in PLANS.items():
        made = make()
        chosen = made.recommendation
        assert str(chosen) == " ".join((chosen.headline, *chosen.details))
        texts += [
            f"## {name}",
            *([made.answer] if made.answer else (chosen.headline, *chosen.details)),
        ]
    golden("plan.words.txt", "\n".join(text for text in texts if text))


def test_a_verdict_has_its_epsilon() -> None:
    found = {name: make().recommendation for name, make in PLANS.items()}
    assert (found["yes"].word, found["yes"].epsilon, found["yes"].learner) == (
        "yes",
        4,
        "partition",
    )
    assert (found["no"].word, found["no"].epsilon) == ("no", None)
    assert (found["no gain"].word, found["no gain"].learner) == ("no", None)
    for name in ("too close", "fewer people than expected", "no clear gain"):
        assert (found[name].word, found[name].epsilon) == ("cannot tell yet", None)
    assert not question_text(plan())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (people(5412.0), "about 5,400 people (95% interval 3,900 to 7,100)"),
        (people(7412.0), "about 7,400 people (extrapolated; 95% interval 3,900 to 7,100)"),
        (people(250.0, 250.0, 250.0), "at most 250 people"),
        (people(250.0, 250.0, 400.0), "at most 250 people (95% interval 250 or fewer to 400)"),
        (people(math.inf, 9000.0, math.inf), "9,000 to more than 16,000"),
        (people(math.inf, math.inf, math.inf), "more than 16,000 people"),
        (people(None, math.nan, math.nan), "no gain to keep"),
    ],
)
def test_people_in_words(answer: PlanAnswer, text: str) -> None:
    assert people_text(answer).endswith(text) or text in people_text(answer)


def test_epsilons_and_losses_in_words() -> None:
    between = PlanAnswer("epsilon", 2.61, 2.4, math.inf, 0.5, 8.0, 8.0)
    assert epsilon_text(between) == "epsilon = 2.6 (95% interval 2.4 to more than 8)"
    assert "above 8" in epsilon_text(replace(between, value=math.inf))
    assert "0.5 at most" in epsilon_text(replace(between, value=0.5))
    assert "no gain" in epsilon_text(replace(between, value=None))
    lost = PlanAnswer("loss", 0.123, 0.081, 0.17, -math.inf, math.inf, math.inf)
    assert loss_text(lost) == "12% (95% interval 8.1% to 17%)"
    assert "extrapolated" in loss_text(replace(lost, simulated=-math.inf))
    assert "unbounded" in loss_text(replace(lost, high=math.inf))


def test_intervals_have_the_digits_of_their_width() -> None:
    assert interval_text(Interval(-0.1, -0.2, 0.0)) == "-0.10 (95% interval -0.20 to 0.00)"
    assert interval_text(Interval(0.14, 0.131, 0.149)) == ("0.1400 (95% interval 0.1310 to 0.1490)")
    assert interval_text(Interval(0.14, math.nan, math.nan)) == "0.140"


def test_what_the_numbers_rest_on() -> None:
    made = plan(left_out=("Left out: something, too much.",))
    text = " ".join(basis(made))
    assert "Left out: something, too much." in text
    assert "winner's curse" not in text  # there was no selection
    raced = tuple(replace(each, people=4000, replicates=8, mean=-0.1) for each in made.races)
    assert all(isinstance(each, RaceResult) for each in raced)
    text = " ".join(basis(replace(made, races=raced)))
    assert "winner's curse), so all numbers are from 6 fresh replicates" in text
    assert "at most 1%" in text


def test_tables_hold_every_line() -> None:
    made = plan()
    rows = loss_rows(made)
    assert [row.name for row in rows] == [
        *["partition"] * 3,
        "partition, no privacy",
        "one choice",
        "at random",
    ]
    assert [row.epsilon for row in rows[:3]] == ["1", "2", "4"]
    assert all(row.loss.endswith("%") for row in rows[:3])
    cells = {row.epsilon: row.cells for row in people_rows(made)}
    assert cells["4"][0][0] == "≤ 250"
    assert cells["1"][-1] == (">16,000", "")
    assert cells["4"][2][0].endswith("*")  # keeps 80%: extrapolated
    console = Console(width=80, record=True, file=StringIO())
    for table in (loss_table(made), people_table(made), odds_table(made)):
        console.print(table)
    lines = console.export_text().splitlines()
    text = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    assert "no answers beyond 16,000" in text
    assert "74" in text


def test_without_a_gain_no_loss_is_shown() -> None:
    assert {row.loss for row in loss_rows(flat())} == {"–"}  # noqa: RUF001
    assert all(cell == ("–", "") for row in people_rows(flat()) for cell in row.cells)  # noqa: RUF001


@pytest.mark.usefixtures("unpainted")
def test_the_page_word_by_word(golden: Callable[[str, str], None]) -> None:
    page = render_plan(plan(question=("loss", 2.0, 4000.0), provenance=ORIGIN))
    golden("plan.page.txt", lines_of(page))


def test_the_page_needs_nothing_else(made: Plan, tmp_path: Path) -> None:
    page = made.report(tmp_path / "plan.html").read_text(encoding="utf-8")
    loads = parsed(page)
    assert loads.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in loads.sources)
    assert "<b>Whom" not in page


@pytest.mark.usefixtures("unpainted")
def test_no_line_of_the_page_ends_within_an_option() -> None:
    page = render_plan(plan(data=("Plan on <b> (--table FILE) or (--synthetic).",)))
    assert "&lt;b&gt; (<code>--table FILE</code>) or (<code>--synthetic</code>)." in page
    assert ".alert code { white-space: nowrap; }" in page


@pytest.mark.usefixtures("unpainted")
def test_the_page_of_a_plan_without_a_gain() -> None:
    words = words_of(render_plan(flat()))
    assert "whether choosing by person gains anything" in words
    assert "No gain is clear even without privacy" in words
    assert "it is not a recommendation" in words


@pytest.mark.parametrize("width", [pytest.param(WIDE, marks=pytest.mark.slow), NARROW])
def test_figures_have_room_for_their_texts(made: Plan, width: float) -> None:
    for figure in (
        made.plot.loss(width),
        made.plot.people(width),
        made.plot.odds(width),
    ):
        assert not overlapping(figure)


def test_icons_count_what_they_say(made: Plan) -> None:
    figure = made.plot.odds()
    counts = [
        [len(line.get_xdata()) for line in axes.lines]  # type: ignore[arg-type]
        for axes in figure.axes
    ]
    assert counts == [[100, 50, 0], [100, 50, 24], [100, 50, 39], [100, 50, 49]]


def test_a_notebook_shows_words_and_numbers(made: Plan) -> None:
    html = made._repr_html_()
    assert "&lt;b&gt;Whom" in html
    assert html.count("<tr") == 1 + len(loss_rows(made)) < len(made.frame)
    assert repr(made).startswith("<Plan of 'made': No: with 4,000 people")
    printed = str(made).splitlines()
    assert printed[0].startswith("No: with 4,000 people")
    assert "epsilon" in str(made)
    assert len(printed) > len(loss_rows(made))


def test_a_folder_that_is_not_there_is_refused(made: Plan, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        made.report(tmp_path / "nowhere" / "plan.html")


def test_an_epsilon_that_is_not_there_is_refused(made: Plan) -> None:
    with pytest.raises(InvalidInput, match="epsilon was nan"):
        made.line(float("nan"))


def test_numbers_of_people_that_were_simulated_stand_along_the_axis(made: Plan) -> None:
    (axes,) = people_figure(made).axes
    ticks = axes.get_xticks().tolist()
    assert ticks[: len(made.horizons)] == list(made.horizons)
    assert all(tick > made.people for tick in ticks[len(made.horizons) :])
