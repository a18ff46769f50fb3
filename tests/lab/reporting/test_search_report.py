"""The report of a search: one file that loads nothing, says what was found and what is promised."""

from __future__ import annotations

import json
import re
from html import escape, unescape
from importlib.metadata import version
from pathlib import Path

import pytest

from discreet.lab.reporting.search_report import render_search_report, write_search_report
from discreet.outsourcing.mechanisms import AnswerRules
from discreet.outsourcing.modeler import SearchSettings
from discreet.outsourcing.posterior import RowPrior
from discreet.privacy import SecureNoise
from discreet.validation import InvalidInput

from .cases import words_of as plain
from .search_cases import EVIL, FOUR, ONE, PLAIN, Played, play
from .test_report import parsed

PROTECTED = AnswerRules(repeats=2, epsilon=3.0, delta=1e-5, bounds=(60.0, 150.0))


@pytest.fixture(scope="module")
def plain_search(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("plain") / "search")


def report(played: Played, optimum: float | None = None) -> str:
    return render_search_report(played.search, played.turn, played.rounds, optimum)


def words(text: str) -> str:
    body = text.partition("<body>")[2]
    return re.sub(r"\s+", " ", plain(body))


def test_one_file_with_two_figures(tmp_path: Path, plain_search: Played) -> None:
    played, path = plain_search, tmp_path / "run.html"
    write_search_report(played.search, played.turn, played.rounds, path, 140.0)
    text = path.read_text(encoding="utf-8")
    loads = parsed(text)
    assert all(source.startswith("data:image/svg+xml;base64,") for source in loads.sources)
    assert loads.tags.count("img") == len(loads.alts) == 2
    assert all(loads.alts)
    assert str(tmp_path) not in text


def test_it_says_where_it_comes_from(plain_search: Played) -> None:
    text = report(plain_search)
    certificate = plain_search.search.table.certificate
    versions = f"discreet {version('discreet')}, numpy {version('numpy')}, opendp "
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)
    for fact in (certificate.release, certificate.sha256, versions, "signature", "role"):
        assert fact in words(text)
    assert "guess" not in words(text), "the digest of released rows is public"


@pytest.mark.usefixtures("unpainted")
def test_it_says_what_was_found_and_what_is_promised(plain_search: Played) -> None:
    played = plain_search
    text = report(played)
    said = words(text)
    best = played.turn.best
    assert best is not None
    assert f"After 12 questions, the highest answer is {best.answer:.6g}, of row {best.row}" in said
    assert "The search is over: all 12 questions have been asked and settled." in said
    certificate = played.search.table.certificate
    for sentence in certificate.sentences:
        assert sentence in said
    assert "Simulated noise." in said
    assert "radius 0.2 units of distance" in said
    assert "not protected: they are given as they are" in said
    assert "SimulatedNoise (NumPy, for simulation only)" in said
    assert certificate.release in said
    told = re.search(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)
    assert told is not None
    assert json.loads(unescape(told[1])) == json.loads(certificate.to_json())


@pytest.mark.usefixtures("unpainted")
def test_the_table_shows_the_best_answers_where_they_lie(tmp_path: Path) -> None:
    played = play(tmp_path / "search", rounds=14)
    body = report(played).partition("The best answers")[2].partition("</table>")[0]
    rows = re.findall(r"<tr><td>(\d+)</td><td>([\d.]+)</td>", body)
    told = {one.row: one.answer for one in played.turn.asked}
    answers = sorted((answer for answer in told.values() if answer is not None), reverse=True)
    assert len(rows) == 10
    assert [float(answer) for _, answer in rows] == pytest.approx(answers[:10], rel=1e-4)
    assert [told[int(row)] for row, _ in rows] == answers[:10]
    beliefs, column = played.search.beliefs, played.search.table.certificate.bounds.columns[0]
    place = re.findall(r"<td>([-\d.,]+)</td>", body)[4]
    assert float(place) == pytest.approx(column.value_at(beliefs.mean[int(rows[0][0]), 0]), abs=0.5)


@pytest.mark.usefixtures("unpainted")
def test_before_the_first_answer(tmp_path: Path) -> None:
    text = report(play(tmp_path / "search", turns=1))
    said = words(text)
    assert "No outcome is known yet." in said
    assert "4 questions wait for an answer and 8 more may be asked." in said
    assert "Nothing has been learnt about outcomes of other rows yet." in said
    assert "The best answers" not in said
    assert parsed(text).tags.count("img") == 1


@pytest.mark.usefixtures("unpainted")
def test_before_anything_can_be_learnt_nothing_is_expected(tmp_path: Path) -> None:
    played = play(tmp_path / "search", turns=2)
    assert played.turn.answered == 4
    said = words(report(played))
    assert "Not learnt yet." in said
    assert "Where the rows are" in said
    assert "promises an improvement" not in said


@pytest.mark.usefixtures("unpainted")
def test_the_lowest_outcome_and_its_regret(tmp_path: Path) -> None:
    played = play(tmp_path / "search", settings=SearchSettings(minimize=True))
    best = played.turn.best
    assert best is not None
    said = words(report(played, best.answer - 2.5))
    assert "Search for the lowest outcome" in said
    assert "is better by 2.5 (the simple regret)" in said
    assert "that is the optimum" in words(report(played, best.answer))
    assert "which therefore cannot be right" in words(report(played, best.answer + 1.0))


@pytest.mark.usefixtures("unpainted")
def test_protected_answers_are_shown_with_their_noise(tmp_path: Path) -> None:
    played = play(tmp_path / "search", answers=PROTECTED)
    said = words(report(played, 140.0))
    assert "protected: cut to 60 to 150, with normal noise" in said
    assert "a row may be asked for 2 times" in said
    assert "with noise on it:" in said
    assert "of the noise that the curator added to each answer" in said
    assert "Answers carry noise of their own" in said


@pytest.mark.usefixtures("unpainted")
def test_rows_that_cannot_be_measured(tmp_path: Path) -> None:
    said = words(report(play(tmp_path / "search", turns=3, impossible=3)))
    assert "12 asked of at most 12; 5 answered; 3 cannot be measured; 4 are waiting" in said
    assert "Cross: the row cannot be measured." in said
    said = words(report(play(tmp_path / "none", turns=2, impossible=4)))
    assert "No outcome is known yet: the 4 rows that came back cannot be measured." in said


@pytest.mark.usefixtures("unpainted")
@pytest.mark.chance(0)
def test_secure_noise_raises_no_alarm(tmp_path: Path) -> None:
    text = report(play(tmp_path / "search", noise=SecureNoise()))
    assert "Simulated noise." not in words(text)


@pytest.mark.usefixtures("unpainted")
def test_a_prior_that_was_given(tmp_path: Path) -> None:
    settings = SearchSettings(prior=RowPrior((1.5, 0.25), 900.0, 1.0, 100.0))
    said = words(report(play(tmp_path / "search", settings=settings)))
    assert "What was assumed" in said
    assert "east 1.5 3 15%" in said
    assert "standard deviation 30 (variance 900)" in said
    assert "drawn at random, before" not in said


@pytest.mark.usefixtures("unpainted")
def test_four_columns_in_their_own_units(tmp_path: Path) -> None:
    played = play(tmp_path / "search", FOUR, count=120, rounds=20, batch=5)
    text = report(played)
    said = words(text)
    assert "not shown:" in said
    assert "income ($) 1,000 1,000,000 a factor 7.39 up to a factor 1.49" in said
    assert "<b>" not in text
    assert "smoker no yes 1 label" in said
    assert "<b>north</b> west" in unescape(re.sub(r"</?td>", " ", text)).replace("  ", " ")


@pytest.mark.usefixtures("unpainted")
def test_projected_rows_have_no_place(tmp_path: Path) -> None:
    said = words(report(play(tmp_path / "search", FOUR, projected=2)))
    assert "4 columns to 2 numbers" in said
    assert "Places are" not in said
    assert "z1" in said


@pytest.mark.usefixtures("unpainted")
def test_names_are_escaped(tmp_path: Path) -> None:
    bounds = PLAIN.replace("columns.north", f'columns."{EVIL}"')
    text = report(play(tmp_path / "search", bounds))
    assert "<script" not in text
    assert text.count(escape(EVIL)) >= 3


@pytest.mark.usefixtures("unpainted")
def test_one_column_before_the_first_answer(tmp_path: Path) -> None:
    said = words(report(play(tmp_path / "search", ONE, turns=1)))
    assert "Marks along the bottom: where rows are believed to be." in said
    assert "Curve and band" not in said


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("count", [5, 8])
@pytest.mark.parametrize("bounds", [ONE, PLAIN])
def test_a_table_of_which_every_row_was_asked_for(tmp_path: Path, bounds: str, count: int) -> None:
    played = play(tmp_path / "search", bounds, count, rounds=40)
    assert "every row has been asked for" in words(report(played))


@pytest.mark.parametrize("bounds", [ONE, pytest.param(PLAIN, marks=pytest.mark.slow)])
def test_many_rows_make_no_large_file(tmp_path: Path, bounds: str) -> None:
    text = report(play(tmp_path / "search", bounds, 30_000))
    assert len(text) < 700_000
    assert ("Shades of grey" if bounds == ONE else "Cells with rows in them") in words(text)


def test_what_is_refused(tmp_path: Path) -> None:
    played = play(tmp_path / "search", turns=2)
    with pytest.raises(InvalidInput, match="does not exist"):
        write_search_report(played.search, played.turn, 12, tmp_path / "none" / "run.html")
    with pytest.raises(InvalidInput, match="optimum"):
        write_search_report(played.search, played.turn, 12, tmp_path / "run.html", float("nan"))
    assert not (tmp_path / "run.html").exists()
