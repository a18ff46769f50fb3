"""The commands on a few people: tables, figures, files, and what is refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.reporting.reproduction import sweep_figure
from discreet.reproduction import base
from discreet.reproduction.ma2025.figures import FIGURE_7, FIGURE_9A, MA_2025
from tests.reporting.cases import overlapping
from tests.reproduction.transfer_tables import write_tables

runner = CliRunner()
FEW: dict[str, tuple[object, ...]] = {
    "6": ("--rounds", 100, "--auxiliary", 50),
    "7": ("--rounds", 100, "--rounds", 200, "--epsilon", 2, "--auxiliary", 60, "--sources", 1),
    "8": ("--rounds", 100, "--epsilon", 1, "--auxiliary", 60, "--gamma", 1, "--auxiliary-epsilon",
          4, "--auxiliary-epsilon", 8),
    "9a": ("--rounds", 100, "--auxiliary", 60, "--kappa", 0, "--kappa", 1),
    "9b": ("--rounds", 100, "--auxiliary", 60, "--gamma", 0, "--gamma", 2),
    "9c": ("--rounds", 100, "--auxiliary", 60, "--auxiliary", 90, "--epsilon", 2),
}  # fmt: skip


def reproduce(name: str, *arguments: object) -> tuple[int, str, str]:
    result = runner.invoke(app, ["reproduce", f"ldpmab-{name}", *map(str, arguments)])
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def records_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("figure", FEW)
def test_figures_print_and_write_files(figure: str, tmp_path: Path) -> None:
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    code, out, err = reproduce(
        f"figure-{figure}", "--jobs", 1, "--repetitions", 2, *FEW[figure],
        "--json", records, "--plot", plot,
    )  # fmt: skip
    assert code == 0, err
    for word in ("ours", "published", "mean of 2 trials", "does not keep its epsilon"):
        assert word in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = records_in(records)
    assert {line["figure"] for line in found} == {figure}
    local = {"local_regret", *(f"share_of_arm_{k}" for k in (1, 2, 3))} if figure == "6" else set()
    assert {line["metric"] for line in found} == {"regret", *local}
    for line in found:
        assert line["trials"] == 2
        if line["method"] in ("ours", "published"):
            assert line["true_epsilon"] == pytest.approx(line["epsilon"])
        if line.get("n_auxiliary") and figure != "9c":
            assert line["true_epsilon_auxiliary"] == pytest.approx(line["epsilon_auxiliary"])


@pytest.mark.parametrize("figure", ["7", "9c"])
def test_symmetric_rewards_on_request(figure: str, tmp_path: Path) -> None:
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    code, out, err = reproduce(
        f"figure-{figure}", "--jobs", 1, "--repetitions", 1, *FEW[figure],
        "--rewards", "symmetric", "--json", records, "--plot", plot,
    )  # fmt: skip
    assert code == 0, err
    assert "symmetric rewards" in out
    assert "exponential rewards" not in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert {line["rewards"] for line in records_in(records)} == {"symmetric"}


def test_figures_4_and_5_are_drawn(tmp_path: Path) -> None:
    code, _, err = reproduce("figure-4-5", "--plot", tmp_path / "f.png")
    assert code == 0, err
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    assert reproduce("figure-4-5")[0] == 2


def test_table_2_prints_and_writes_files(tmp_path: Path) -> None:
    data = write_tables(tmp_path)
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    code, out, err = reproduce(
        "table-2", "--data", data, "--jobs", 1, "--repetitions", 2, "--rounds", 40,
        "--epsilon", 2, "--json", records, "--plot", plot,
    )  # fmt: skip
    assert code == 0, err
    for word in ("adult", "jobs stand-in", "taxi stand-in", "Wilcoxon", "bounds fixed beforehand"):
        assert word in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = records_in(records)
    assert {line["dataset"] for line in found} == {"adult", "jobs stand-in", "taxi stand-in"}
    assert {line["auxiliary_data"] for line in found} == {True, False}
    assert {line["epsilon_auxiliary"] for line in found} == {1.0, 4.0}


def test_the_list_has_all() -> None:
    result = runner.invoke(app, ["reproduce", "list"])
    assert result.exit_code == 0
    for name in ("figure-4-5", *(one.name.removeprefix("ldpmab-") for one in MA_2025)):
        assert f"ldpmab-{name}" in result.stdout
    assert "ldpmab-table-2" in result.stdout


def test_bad_wishes_end_with_2_and_one_message(tmp_path: Path) -> None:
    wishes: list[tuple[str, tuple[object, ...], str]] = [
        ("figure-7", ("--kappa", 1), "does not vary it"),
        ("figure-7", ("--method", "theirs"), "the method was 'theirs'"),
        ("figure-9a", ("--kappa", 2), "kappa was 2.0"),
        ("figure-9b", ("--rewards", "linear"), "it must be one of exponential, symmetric"),
        ("figure-6", ("--rewards", "symmetric"), "it has those alone"),
        ("figure-8", ("--json", tmp_path / "r.csv"), "must end in .jsonl"),
        ("figure-8", ("--plot", tmp_path / "r.jpg"), "must end in .png"),
        ("figure-4-5", ("--plot", tmp_path / "r.jpg"), "must end in .png"),
        ("table-2", ("--data", tmp_path), "there is no file"),
        ("table-2", ("--data", tmp_path, "--only", "census"), "the data set was 'census'"),
        ("table-2", ("--data", tmp_path, "--method", "theirs"), "the method was 'theirs'"),
    ]
    for name, arguments, message in wishes:
        code, out, err = reproduce(name, *arguments)
        assert code == 2, arguments
        assert message in err
        assert err.startswith("Refused:")
        assert out == ""


def test_an_interrupted_run_keeps_what_is_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, count = base.run_trials, 3

    def interrupted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        yield from itertools.islice(real(*arguments, **keywords), count)
        raise KeyboardInterrupt

    monkeypatch.setattr(base, "run_trials", interrupted)
    arguments = ("--jobs", 1, "--repetitions", 2, *FEW["6"])
    code, out, err = reproduce("figure-6", *arguments, "--plot", tmp_path / "r.png")
    assert code == 130
    assert "(3 of 14" in err
    assert "effective" in out
    count = 0
    code, _, err = reproduce("figure-6", *arguments)
    assert code == 130
    assert "nothing was written" in err


def test_long_titles_take_two_lines() -> None:
    wish = {"rounds": [100], "auxiliary": [60], "epsilon": [1.0], "rewards": "symmetric"}
    figure = sweep_figure(FIGURE_7, FIGURE_7.plan(1, **wish).results())
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles[0] == "ours, no auxiliary data, symmetric rewards"
    assert titles[2] == "ours, 2 sources of 60, epsilon 8, symmetric\nrewards"
    assert overlapping(figure) == []


def test_labels_stay_apart() -> None:
    wish = {"rounds": [100], "auxiliary": [60], "kappa": [0.0, 1.0]}
    figure = sweep_figure(FIGURE_9A, FIGURE_9A.plan(2, **wish).results())
    assert [axes.get_title("left") for axes in figure.axes] == [
        "auxiliary epsilon 1, exponential rewards",
        "auxiliary epsilon 8, exponential rewards",
    ]
    assert all(len(axes.texts) == 6 for axes in figure.axes)
    assert overlapping(figure) == []
