"""The report: one file, nothing loaded, nothing unescaped, whole or not at all."""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from discreet.lab.experiments import Appraisal
from discreet.lab.reporting.report import render_report, write_report
from discreet.lab.reporting.summary import summarise
from discreet.lab.reporting.words import verdict
from discreet.lab.results.result import StudyResult
from discreet.lab.studies import load_study
from discreet.learners.values import Value
from discreet.validation import InvalidInput

from .cases import (
    LEARNERS,
    ORIGIN,
    TABLE,
    exponential,
    lines_of,
    outcome,
    run_study,
    setting,
    words_of,
    write_table,
)

EXAMPLES = Path(__file__).parents[3] / "examples"


class Loads(HTMLParser):
    """Collects tags, and whatever a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []
        self.alts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "href"):
                self.sources.append(value or "")
            if name == "alt":
                self.alts.append(value or "")


def parsed(text: str) -> Loads:
    loads = Loads()
    loads.feed(text)
    return loads


@pytest.mark.usefixtures("unpainted")
def test_the_report_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path)
    study, outcomes = run_study(tmp_path, TABLE, LEARNERS.replace("non_private = true\n", ""))
    counts = SimpleNamespace(read=320, used=300, sentence="300 of 320 rows used; 20 lack age.")
    monkeypatch.setattr(study.problem, "rows", counts, raising=False)
    path = tmp_path / "report.html"
    write_report(study, outcomes, path)
    text = path.read_text(encoding="utf-8")
    loads = parsed(text)
    assert loads.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in loads.sources)
    assert not re.search(r"(src|srcset|href)\s*=\s*[\"']?\s*https?:", text)
    assert not {"script", "link"} & set(loads.tags)
    assert "@import" not in text
    assert "url(" not in text
    assert all(loads.alts)
    # Two charts, and the maps of epsilon 1 and 4.
    assert loads.tags.count("img") == len(loads.alts) == 2 + 2
    words = words_of(text)
    assert study.text in unescape(text)
    assert "Simulated noise." in words
    assert words.count("The certificate as JSON") == 2
    assert '"epsilon": 4.0' in words
    assert "higher is better" in words
    assert not list(tmp_path.glob("*.part"))
    # What a decision needs comes first.
    spoken = verdict(summarise(outcomes, study.settings), study.problem)
    parts = (
        spoken.headline,
        "Rows that take part. 300 of 320 rows used; 20 lack age.",
        "over best fixed",
        "Nothing that leaves a person's device",
        "What each epsilon costs",
        "Who is given what",
        "As people are served",
        *spoken.notes,
        "partition, epsilon 1: the certificate",
    )
    places = [words.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.usefixtures("unpainted")
def test_a_report_word_by_word(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    study, _ = run_study(tmp_path, exponential(1), replicates=4)
    values = {"best_fixed": 45.0, "uniform": 40.0, "partition": 30.0}
    ran = [(setting(name), value) for name, value in values.items()]
    ran += [(setting("partition", 1.0), 44.0), (setting("partition", 4.0), 34.0)]
    about = Value(0.62, 0.52, 0.72, 0.95, "the recommendation")
    outcomes = [
        replace(
            outcome(each, value + (0.0, 0.1, -0.1, 0.05)[(r + place) % 4], r, "regret"),
            appraisal=Appraisal(about, 0.66) if each.private and r == 0 else None,
        )
        for place, (each, value) in enumerate(ran)
        for r in range(4)
    ]
    golden("study.page.txt", lines_of(render_report(study, outcomes, ORIGIN)))
    result = StudyResult(study, tuple(outcomes))
    golden("study.run.txt", str(result))
    golden("study.notebook.txt", lines_of(result._repr_html_()))
    screen = Console(file=io.StringIO(), width=80)
    result.show(screen, details=True)
    golden("study.details.txt", cast(io.StringIO, screen.file).getvalue())


@pytest.mark.usefixtures("unpainted")
def test_everything_from_the_study_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script><img src=x>"
    learners = LEARNERS.replace('"partition"\n', f'"partition"\nlabel = "{evil}"\n')
    study, outcomes = run_study(tmp_path, exponential(1), learners, title=evil, replicates=1)
    text = render_report(study, outcomes)
    loads = parsed(text)
    assert "script" not in loads.tags
    assert "x" not in loads.sources
    assert "<script" not in text
    assert f"<h1>{evil.replace('<', '&lt;').replace('>', '&gt;')}</h1>" in text


@pytest.mark.usefixtures("unpainted")
def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    study, outcomes = run_study(tmp_path, exponential(2))
    assert "Incomplete." not in words_of(render_report(study, outcomes))
    words = words_of(render_report(study, outcomes[:6]))
    assert "6 of 10 simulations finished" in words
    render_report(study, [a for a in outcomes if a.record.replicate == 1])  # no policy, no map


@pytest.mark.usefixtures("unpainted")
def test_clipped_rewards_are_said(tmp_path: Path) -> None:
    study, outcomes = run_study(tmp_path, exponential(2))
    policy = SimpleNamespace(clipped_to=(40.0, 140.0))
    clipped = [replace(each, policy=cast(Any, policy)) for each in outcomes[:1]] + outcomes[1:]
    words = words_of(render_report(study, clipped))
    assert "those below 40 count as 40, those above 140 as 140." in words
    policy.clipped_to = None
    assert "clipped" not in words_of(render_report(study, clipped))


@pytest.mark.usefixtures("unpainted")
def test_what_leaves_the_chart_is_said_below_it(tmp_path: Path) -> None:
    study, outcomes = run_study(tmp_path, exponential(2))
    factors = {"uniform": 30.0, "best_fixed": 20.0}
    far = [
        replace(
            each,
            trace=factors.get(each.setting.learner, 1.0) * each.trace,
            record=replace(
                each.record, value=factors.get(each.setting.learner, 1.0) * each.record.value
            ),
        )
        for each in outcomes
    ]
    words = words_of(render_report(study, far))
    assert words.count("uniform lies above the chart; best_fixed lies above the chart.") == 2
    one = [each for each in far if each.record.replicate == 0]
    assert "One replicate, so no bands." in words_of(render_report(study, one))


@pytest.mark.usefixtures("unpainted")
def test_the_report_says_where_the_run_left_its_file(tmp_path: Path) -> None:
    study, outcomes = run_study(tmp_path, exponential(1))
    assert "instead of" not in render_report(study, outcomes)
    less = load_study(tmp_path / "study.toml", replicates=1)
    words = words_of(render_report(less, outcomes[:5]))
    assert "Rows that take part." not in words
    assert "This run had replicates = 1 instead of 2." in words


@pytest.mark.usefixtures("unpainted")
def test_a_study_of_references_only(tmp_path: Path) -> None:
    learners = "[[learners]]\nname = 'best_fixed'\n[[learners]]\nname = 'oracle'\n"
    study, outcomes = run_study(tmp_path, exponential(2), learners, replicates=1)
    text = render_report(study, outcomes)
    assert "Simulated noise." not in words_of(text)
    assert "What each epsilon costs" not in words_of(text)
    assert parsed(text).tags.count("img") == 1


@pytest.mark.usefixtures("unpainted")
def test_a_failure_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, outcomes = run_study(tmp_path, exponential(1), replicates=1)
    path = tmp_path / "report.html"
    path.write_text("old")

    def broken(source: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("discreet.atomic_files.os.replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write_report(study, outcomes, path)
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "study.toml"]
    with pytest.raises(InvalidInput, match="does not exist"):
        write_report(study, outcomes, tmp_path / "none" / "report.html")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_no_title_states_the_people_that_an_option_can_change(path: Path) -> None:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    assert not re.search(r"\d,\d{3}", content["title"])
