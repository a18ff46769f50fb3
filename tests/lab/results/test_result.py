"""A result holds together: records, summary, texts, figures and page say the same numbers."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import discreet
import discreet.lab.results.run
from discreet.lab.experiments import simulate_all
from discreet.lab.reporting.layout import WIDE, figure_bytes
from discreet.lab.reporting.report import epsilon_figure, progress_figure
from discreet.lab.reporting.words import table_rows
from discreet.lab.results.result import StudyResult
from discreet.lab.results.run import Interrupted, run_study
from discreet.lab.studies import Study
from discreet.validation import InvalidInput
from tests.cli.cases import STUDY, invoke, write_study

FACTS: dict[str, Any] = {
    "name": "small",
    "title": "Small & <quick>",
    "rounds": 300,
    "replicates": 2,
    "problem": {"name": "exponential", "dimension": 1},
    "learners": [
        {"name": "partition", "epsilon": [1, 8], "non_private": True},
        {"name": "uniform"},
    ],
}


@pytest.fixture(scope="module")
def result() -> StudyResult:
    return run_study(FACTS, jobs=1, progress=False)


def test_records_are_those_of_the_command(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    records = tmp_path / "r.jsonl"
    assert invoke("run", study, "--jobs", 1, "--json", records)[0] == 0
    frame = run_study(study, jobs=1, progress=False).frame.drop(columns="seconds")
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    wanted = [{key: row[key] for key in frame.columns} for row in rows]
    given = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert given == wanted


def test_a_study_is_run_however_it_is_given(result: StudyResult) -> None:
    again = run_study(Study.from_dict(FACTS), jobs=1, progress=False)
    assert again.frame.drop(columns="seconds").equals(result.frame.drop(columns="seconds"))
    less = run_study(Study.from_dict(FACTS), rounds=200, replicates=1, jobs=1, progress=False)
    assert (len(less.frame), set(less.frame["rounds"])) == (4, {200})


def test_the_summary_has_a_row_for_each_line(result: StudyResult) -> None:
    summary = result.summary().set_index("label")
    assert list(summary.index) == [
        "partition, epsilon 1", "partition, epsilon 8", "partition (non-private)", "uniform",
        "best_fixed",
    ]  # fmt: skip
    frame = result.frame
    for label, values in frame.groupby("label")["value"]:
        row = summary.loc[label]
        assert row["mean"] == pytest.approx(values.mean())
        # Two values: the 97.5% quantile of Student's t with one degree of freedom is 12.706.
        assert row["half_width"] == pytest.approx(12.7062 * values.std() / math.sqrt(2), rel=1e-4)
        assert row["per_person"] == pytest.approx(values.mean() / 300)
    best, mine = summary.loc["best_fixed"], summary.loc["partition, epsilon 8"]
    assert mine["over_best_fixed"] == pytest.approx((best["mean"] - mine["mean"]) / 300)
    assert (mine["epsilon"], mine["delta"], mine["trust_model"]) == (8.0, 0.0, "local")
    assert (mine["held_epsilon"], mine["held_delta"]) == (8.0, 0.0)
    assert "epsilon = 8" in mine["promise"]
    assert best["promise"] == ""
    assert math.isnan(best["over_best_fixed"])
    assert summary.loc["uniform", "epsilon"] != summary.loc["uniform", "epsilon"]  # NaN
    numbers = summary.drop(columns=["learner", "trust_model", "protects", "metric", "promise"])
    assert all(kind.kind in "fi" for kind in numbers.dtypes)


def test_texts_say_the_numbers_of_the_table(result: StudyResult) -> None:
    rows = table_rows(result.numbers)
    for text in (str(result), result._repr_html_()):
        assert all(row.per_person in text for row in rows)
        assert result.answer.headline in " ".join(text.split())
    assert result.verdict == result.answer.headline
    assert result.notes[-1] == "Each replicate draws new people."
    assert max(len(line) for line in str(result).splitlines()) <= 80
    assert repr(result).splitlines() == [
        "StudyResult 'small': 4 settings, 2 x 300 people, regret",
        result.answer.headline,
    ]


def test_printed_it_is_what_the_command_shows(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    _, out, _ = invoke("run", study, "--jobs", 1)
    shown = str(run_study(study, jobs=1, progress=False))

    def letters(text: str) -> str:
        """All but the rows of the table, whose last column, seconds, differs from run to run, and
        but spaces: a long path is broken where a line ends."""
        rows = re.compile(r"─\n.*?(?=^\d+ people, )", re.MULTILINE | re.DOTALL)
        assert len(rows.findall(text)) == 1
        return "".join(rows.sub("", text).split())

    assert letters(shown) == letters(out)


def test_the_certificate_is_what_the_noise_holds(result: StudyResult) -> None:
    held = result.certificate.guarantees
    assert held["partition, epsilon 1"].epsilon == 1.0
    assert set(held) == {row.label for row in result.numbers.lines} - {"best_fixed"}
    assert "epsilon = 8" in str(result.certificate)
    assert repr(result.certificate) == str(result.certificate)
    assert "<p>Nothing that leaves" in result.certificate._repr_html_()


def test_html_takes_its_colours_from_the_notebook(result: StudyResult) -> None:
    page = result._repr_html_()
    assert "Small &amp; &lt;quick&gt;" in page
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb\(|background", page)  # in any theme
    assert page.count("<tr") == 1 + len(result.numbers.lines)
    assert '<div style="overflow-x: auto">\n<table' in page
    assert "<script" not in page


def test_figures_are_those_of_the_report(result: StudyResult) -> None:
    plot = result.plot
    assert figure_bytes(plot.progress(), "svg") == figure_bytes(
        progress_figure(result.compared, result.numbers), "svg"
    )
    assert figure_bytes(plot.epsilon(5.0), "svg") == figure_bytes(
        epsilon_figure(result.numbers, 5.0), "svg"
    )
    maps = plot.maps()
    assert list(maps) == [
        "partition, epsilon 1", "partition, epsilon 8", "partition (non-private)",
    ]  # fmt: skip
    largest = plot.map()
    assert figure_bytes(largest, "svg") == figure_bytes(maps["partition, epsilon 8"], "svg")
    assert largest.get_figwidth() == pytest.approx(WIDE)
    assert plot.progress(4.0).get_figwidth() == 4.0


def test_a_notebook_shows_a_figure(result: StudyResult) -> None:
    content, shown = result.plot.epsilon(4.0)._repr_png_()  # type: ignore[attr-defined]
    assert content.startswith(b"\x89PNG")
    assert shown == {"width": 384}


def test_figures_say_what_made_them_and_not_when(result: StudyResult) -> None:
    for format, head, inside in (
        ("svg", b"<?xml", b"<dc:title>discreet"),
        ("png", b"\x89PNG", b"Software\0discreet "),
    ):
        content, again = (figure_bytes(result.plot.epsilon(5.0), format) for _ in range(2))
        assert content.startswith(head)
        assert inside in content
        assert content == again  # no dates, no random names


def test_figures_that_cannot_be_are_refused(result: StudyResult) -> None:
    for wrong, message in (
        (lambda: result.plot.map("partition, epsilon 9"), "Did you mean 'partition, epsilon 8'"),
        (lambda: result.plot.progress(-1.0), "width was -1.0"),
    ):
        with pytest.raises(InvalidInput, match=message):
            wrong()
    public = FACTS | {"learners": [{"name": "uniform"}]}
    none = run_study(public, jobs=1, progress=False)
    assert none.summary()["epsilon"].dtype == float
    assert none.verdict == "No learner of this study is private."
    with pytest.raises(InvalidInput, match="no learner of this study is private"):
        none.plot.epsilon()
    with pytest.raises(InvalidInput, match="no policy of this study can be drawn"):
        none.plot.map()


@pytest.mark.usefixtures("unpainted")
def test_the_report_is_written(result: StudyResult, tmp_path: Path) -> None:
    path = result.report(tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    assert all(row.per_person in page for row in table_rows(result.numbers))
    with pytest.raises(InvalidInput, match="does not exist"):
        result.report(tmp_path / "no" / "report.html")
    with pytest.raises(InvalidInput, match=r"end it in \.html"):
        result.report(tmp_path / "people.csv")


def test_a_result_can_be_pickled_and_is_plain_text(
    result: StudyResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)
    assert "\x1b" not in str(again)
    assert [asdict(each.record) for each in again.outcomes] == [
        asdict(each.record) for each in result.outcomes
    ]


def stopped_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any, **keywords: Any) -> Iterator[Any]:
        yield from itertools.islice(simulate_all(*arguments, **keywords), count)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.lab.results.run, "simulate_all", stopped)


def test_a_run_that_is_stopped_has_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write_study(tmp_path)
    whole = run_study(study, jobs=1, progress=False)
    stopped_after(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt) as stop:
        run_study(study, jobs=1, progress=False)
    assert isinstance(stop.value, Interrupted)
    part = stop.value.result
    assert part is not None
    assert (len(part.frame), part.complete) == (3, False)
    for text in (str(part), repr(part), part._repr_html_()):
        assert "stopped early: 3 of 6 simulations" in " ".join(text.split())
    assert "run_study(.., resume=True) goes on" in str(stop.value)
    with pytest.raises(InvalidInput, match=r"stopped after 3 replicates\. Add resume=True"):
        run_study(study, jobs=1, progress=False)
    resumed = run_study(study, jobs=1, progress=False, resume=True)
    assert resumed.frame.drop(columns="seconds").equals(whole.frame.drop(columns="seconds"))
    assert list(tmp_path.glob(".small*")) == []
    stopped_after(0, monkeypatch)
    with pytest.raises(Interrupted) as none:
        run_study(FACTS, jobs=1, progress=False)
    assert none.value.result is None


def test_progress_is_shown_or_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = FACTS | {"learners": [{"name": "uniform"}], "replicates": 1}
    run_study(facts, jobs=1, progress=False)
    assert capsys.readouterr() == ("", "")
    run_study(facts, jobs=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("uniform  regret ")
    write_study(tmp_path, STUDY.replace('"a", "b"', '"a", "b", "c"'))
    run_study(tmp_path / "small.toml", rounds=50, replicates=1, jobs=1)
    assert "Warning: No row of the table has the y 'c'" in capsys.readouterr().err


def test_the_public_names_are_those_of_the_room() -> None:
    assert discreet.run_study is run_study
    assert discreet.StudyResult is StudyResult
    assert discreet.Study is Study
    assert issubclass(discreet.Interrupted, KeyboardInterrupt)
