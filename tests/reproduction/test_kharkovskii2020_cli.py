"""The three commands on small searches: tables, figures, files, and what is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.reporting.searches import columns_figure, questions_figure
from discreet.reproduction import base
from discreet.reproduction.base import Results
from discreet.reproduction.kharkovskii2020 import data_sets
from discreet.reproduction.kharkovskii2020.data_sets import synthetic
from discreet.reproduction.kharkovskii2020.searches import (
    PO_GP_UCB_FIGURES,
    PO_GP_UCB_TABLES,
    Searches,
    plan_of,
)
from tests.reporting.cases import overlapping
from tests.reproduction.outsourced_tables import write_tables

runner = CliRunner()
QUICK = ("--jobs", 1, "--runs", 2, "--rounds", 4)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_sets, "_SUBSET", 40)


def reproduce(name: str, *arguments: object) -> tuple[int, str, str]:
    result = runner.invoke(app, ["reproduce", f"po-gp-ucb-{name}", *map(str, arguments)])
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def records_in(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_tables_print_and_write_files(tmp_path: Path) -> None:
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    code, out, err = reproduce(
        "tables", *QUICK, "--table", 1, "--table", 10, "--json", records, "--plot", plot
    )
    assert code == 0, err
    for word in ("Table 1:", "Table 10:", "published (else)", "paper's branch (if)", "none", "own"):
        assert word in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = records_in(records)
    assert {line["table"] for line in found} == {1, 10}
    assert {line["dataset"] for line in found} == {"synthetic", "branin"}
    for line in found:
        assert line["trials"] == 2
        assert line["rounds"] == 4
        if str(line["method"]).startswith("published"):
            assert line["true_epsilon"] is None
            assert line["trust_model"] == "none"
            assert line["r"] is not None
        if line["method"] == "ours":
            assert line["true_epsilon"] == pytest.approx(line["epsilon"])


def test_figures_print_and_write_files(tmp_path: Path) -> None:
    data = write_tables(tmp_path)
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    code, out, err = reproduce(
        "figures", *QUICK, "--data", data, "--only", "loans", "--only", "property",
        "--json", records, "--plot", plot, "--linear",
    )  # fmt: skip
    assert code == 0, err
    for word in ("Figure 2b", "Figure 2c", "two public extracts joined", "above non-"):
        assert word in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert {line["figure"] for line in records_in(records)} == {"Figure 2b", "Figure 2c"}


def test_without_data_the_rest_runs_and_it_is_said() -> None:
    code, out, err = reproduce("tables", *QUICK, "--table", 1, "--table", 4, "--table", 7)
    assert code == 0
    assert "left out: loans, property" in err
    assert "Table 1:" in out
    assert "Table 4:" not in out


def test_attack_prints_and_writes_records(tmp_path: Path) -> None:
    records = tmp_path / "r.jsonl"
    code, out, err = reproduce("attack", "--trials", 200, "--json", records)
    assert code == 0, err
    for word in ("published (if)", "published (else)", "known rows", "1.000", "column space"):
        assert word in out
    found = records_in(records)
    bounds = [line for line in found if line["metric"] == "empirical epsilon"]
    for line in bounds:
        mean, epsilon = line["mean"], line["epsilon"]
        assert isinstance(mean, float)
        assert isinstance(epsilon, float)
        assert (mean > epsilon) is (line["method"] == "published")


def test_the_list_has_all_three() -> None:
    result = runner.invoke(app, ["reproduce", "list"])
    assert result.exit_code == 0
    for name in ("tables", "figures", "attack"):
        assert f"po-gp-ucb-{name}" in result.stdout
    assert "dubey-figure-1" in result.stdout


def test_bad_wishes_end_with_2_and_one_message(tmp_path: Path) -> None:
    wishes: list[tuple[str, tuple[object, ...], str]] = [
        ("tables", ("--table", 13), "the table was 13"),
        ("tables", ("--only", "adult"), "the data set was 'adult'"),
        ("tables", ("--only", "loans"), "name their folder with --data"),
        ("tables", ("--only", "loans", "--data", tmp_path), "there is no file"),
        ("tables", ("--only", "loans", "--table", 1), "no table is left"),
        ("tables", ("--only", "synthetic", "--rounds", 10_001), "has 10000 rows"),
        ("figures", ("--only", "synthetic", "--method", "theirs"), "the method was 'theirs'"),
        ("figures", ("--json", tmp_path / "r.csv"), "must end in .jsonl"),
        ("figures", ("--plot", tmp_path / "r.jpg"), "must end in .png"),
        ("attack", ("--json", tmp_path / "no" / "r.jsonl"), "does not exist"),
    ]
    for name, arguments, message in wishes:
        code, out, err = reproduce(name, *arguments)
        assert code == 2, arguments
        assert message in err
        assert err.startswith("Refused:")
        assert out == ""
    assert reproduce("tables", "--runs", 0)[0] == 2
    assert reproduce("attack", "--trials", 1)[0] == 2


def test_an_interrupted_run_keeps_what_is_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, count = base.run_trials, 5

    def interrupted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        yield from itertools.islice(real(*arguments, **keywords), count)
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "run_trials", interrupted)
    records = tmp_path / "r.jsonl"
    code, out, err = reproduce("tables", *QUICK, "--table", 1, "--json", records)
    assert code == 130
    assert "(5 of 30 runs)" in err
    assert "Table 1:" in out
    assert len(records_in(records)) == 10
    count = 0
    code, _, err = reproduce("tables", *QUICK, "--table", 1)
    assert code == 130
    assert "nothing was written" in err


def test_figures_hold_for_few_methods_and_keep_labels_apart() -> None:
    data = {"synthetic-5": synthetic(5.0)}

    def results(what: Searches, methods: Sequence[str] = (), runs: int = 1) -> Results:
        parts = what.chosen(["synthetic-5"], ())
        return plan_of(what.entries(parts, data, methods), data, runs, 5, 5).results()

    for methods, log_scale in (((), False), (("ours",), True), (("published",), True)):
        for what, draw in (
            (PO_GP_UCB_FIGURES, questions_figure),
            (PO_GP_UCB_TABLES, columns_figure),
        ):
            assert draw(what, results(what, methods), log_scale).axes
    figure = questions_figure(PO_GP_UCB_FIGURES, results(PO_GP_UCB_FIGURES, runs=2))
    published, ours = figure.axes
    assert published.get_ylim() == ours.get_ylim()
    assert all(len(axes.texts) > 5 for axes in figure.axes)
    assert overlapping(figure) == []
