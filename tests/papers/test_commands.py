"""The commands on few people or questions: tables, figures, files, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from discreet.cli import app
from discreet.cli.reproduce import OPTIONS
from discreet.papers import reproduction
from discreet.papers.pavlovic2025.figures import FUNCTIONS, WRONG
from discreet.papers.registry import REPRODUCTIONS, presentations
from discreet.papers.report import printed, shortened
from discreet.records import REPRODUCED
from tests.papers.tables import write_search_tables, write_transfer_tables

pytestmark = pytest.mark.usefixtures("quick")
LOCAL = {"local_regret", *(f"share_of_arm_{k}" for k in (1, 2, 3))}


@dataclass(frozen=True)
class Small:
    """A command on little.

    Attributes:
        wish: options.
        words: in what it prints.
        says: all values of some keys of its records.
        held: between which shares of the epsilon asked for the published methods hold.
    """

    command: str
    wish: tuple[object, ...]
    words: tuple[str, ...]
    says: dict[str, set[Any]] = field(default_factory=dict)
    held: tuple[float, float] = (0.0, 2.0)


REGRET = ("promised", "held", "published", "uniform", "32 people")
LINES = ("ours", "published", "mean of 2 trials", "holds no epsilon")
KEPT = (1.0 - 1e-9, 1.0 + 1e-9)


def transfer(figure: str, *wish: object, **says: set[Any]) -> Small:
    """A figure of Ma et al. (2025)."""
    few = ("--method", "ours", "--method", "published")
    wish = ("--repetitions", 2, "--rounds", 40, *few, *wish)
    says = {"figure": {figure}, "metric": {"regret"}, "trials": {2}, **says}
    return Small(f"ldpmab-figure-{figure}", wish, LINES, says, KEPT)


SMALL = {
    "dubey-figure-1": Small(
        "dubey-figure-1", ("--trials", 1, "--rounds", 16), (*REGRET[:-1], "16 people")
    ),
    "dubey-figure-2": Small(
        "dubey-figure-2", ("--trials", 2, "--rounds", 32), REGRET, {"rounds": {32}, "trials": {2}}
    ),
    "dubey-table-1": Small("dubey-table-1", ("--trials", 1, "--rounds", 32), REGRET),
    "capri-regret": Small(
        "capri-regret",
        ("--trials", 1, "--rounds", 300, "--rounds", 400),
        ("300 people", "400 people", "Share wrong", "promised", "held", "published"),
        {
            "metric": {"regret", WRONG},
            "rounds": {300, 400},
            "function": {each.name for each in FUNCTIONS},
        },
        held=(1e-9, 0.1),
    ),
    "usca-error-rate": Small(
        "usca-error-rate",
        ("--trials", 2, "--rounds", 300),
        ("error rate", "Error rate, mean of 2"),
        {"metric": {"error rate"}},
        held=(0.4, 0.8),
    ),
    "6": transfer("6", "--auxiliary", 50, metric={"regret", *LOCAL}),
    "symmetric 7": transfer(
        "7", "--epsilon", 2, "--auxiliary", 60, "--sources", 1, "--rewards", "symmetric",
        "--method", "program", rewards={"symmetric"},
    ),
    "ldpmab-table-2": Small(
        "ldpmab-table-2",
        ("--repetitions", 2, "--rounds", 20, "--epsilon", 2, "--method", "published",
         "--method", "linear"),
        ("adult", "jobs stand-in", "taxi stand-in", "Wilcoxon", "other rows"),
        {
            "dataset": {"adult", "jobs stand-in", "taxi stand-in"},
            "auxiliary_data": {True, False},
            "epsilon_auxiliary": {None, 1.0, 4.0},
        },
        KEPT,
    ),
    "po-gp-ucb-tables": Small(
        "po-gp-ucb-tables",
        ("--runs", 2, "--rounds", 4, "--table", 1, "--table", 10),
        ("Table 1:", "Table 10:", "published (else)", "paper's branch (if)", "none", "own"),
        {"table": {1, 10}, "dataset": {"synthetic", "branin"}, "trials": {2}, "rounds": {4}},
    ),
    "po-gp-ucb-figures": Small(
        "po-gp-ucb-figures",
        ("--runs", 2, "--rounds", 4, "--only", "loans", "--only", "property", "--linear"),
        ("Figure 2b", "Figure 2c", "two public extracts joined", "above non-"),
        {"figure": {"Figure 2b", "Figure 2c"}},
    ),
    "po-gp-ucb-attack": Small(
        "po-gp-ucb-attack",
        ("--trials", 200),
        ("published (if)", "published (else)", "known rows", "1.000", "column space"),
    ),
}  # fmt: skip
DATA = {"ldpmab-table-2": write_transfer_tables, "po-gp-ucb-figures": write_search_tables}


# Others that are quicker run the same code.
_LONG = (
    "capri-regret",
    "dubey-table-1",
    "dubey-figure-2",
    "6",
)


def reproduce(name: str, *arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["reproduce", name, *map(str, arguments)])
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted run keeps its journal in the working directory."""
    monkeypatch.chdir(tmp_path)


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in ("made", "seconds")}


def records_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in _LONG else []) for name in SMALL],
)
def test_tables_are_printed_and_files_written(name: str, tmp_path: Path) -> None:
    small = SMALL[name]
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    wish = [*small.wish, "--json", records]
    if name in DATA:
        wish += ["--data", DATA[name](tmp_path)]
    attack = name == "po-gp-ucb-attack"
    if not attack:
        wish += ["--jobs", 1, "--plot", plot, "--details"]
    code, out, err = reproduce(small.command, *wish)
    assert code == 0, err
    for word in small.words:
        assert word in out
    assert attack or plot.read_bytes().startswith(b"\x89PNG")
    lines = records_in(records)
    for key, values in small.says.items():
        assert {line.get(key) for line in lines} == values
    for line in lines:
        assert set(REPRODUCED) <= set(line)
        assert (line["study"], len(line["digest"])) == (small.command, 40)
        assert line["seed"] == REPRODUCTIONS[small.command].seed
        method, epsilon, held = line["method"], line["epsilon"], line["true_epsilon"]
        assert epsilon is not None or held is None
        assert line["trials"] > 1 or line["standard_error"] is None
        # What a paper printed is for its own number of rounds.
        assert line["paper"] is None
        if line.get("n_auxiliary") and "order" not in line and method != "program":
            assert line["true_epsilon_auxiliary"] == pytest.approx(line["epsilon_auxiliary"])
        if attack and line["metric"] == "empirical epsilon":
            assert (line["mean"] > epsilon) is (method == "published")
        if method in ("ours", "ours, local", "elimination") and not attack:
            assert held == pytest.approx(epsilon, rel=1e-6)
        elif method == "program" or (method == "published" and name.startswith("po-gp-ucb")):
            assert (held, line["trust_model"]) == (None, "none")
        elif method == "published":
            assert small.held[0] * epsilon <= held <= small.held[1] * epsilon


@pytest.mark.parametrize(
    ("error", "paper", "agrees", "shown"),
    [(1.0, 12.0, True, "12 ="), (1.0, 12.1, False, "12 ≠"), (1.0, 7.9, False, "8 ≠"),
     (None, 10.0, None, "10  "), (math.nan, 10.0, None, "10  "), (1.0, None, None, "")],
)  # fmt: skip
def test_a_paper_agrees_within_two_standard_errors(
    error: float | None, paper: float | None, agrees: bool | None, shown: str
) -> None:
    mean = {"metric": "regret", "mean": 10.0, "standard_error": error, "trials": 4}
    record = reproduction.record_of({}, "ours", mean, paper)
    assert record["agrees"] is agrees
    assert printed(record, ".0f") == shown


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_reproductions_are_commands_with_options_and_a_form(name: str) -> None:
    what = REPRODUCTIONS[name]
    assert name == what.name in reproduce("list")[1]
    assert what.title
    assert set(what.options) <= set(OPTIONS)
    assert what.form == "drawing" or what.form in presentations()
    parameters = [OPTIONS[option][0] for option in what.options]
    assert len(set(parameters)) == len(parameters)


# The smallest wish of each kind of reproduction.
QUICK: dict[str, dict[str, Any]] = {
    "dubey-figure-2": {"trials": 2, "rounds": [32], "method": ["ours", "uniform"]},
    "ldpmab-figure-9c": {
        "repetitions": 2,
        "rounds": [100],
        "auxiliary": [60],
        "epsilon": [2.0],
        "method": ["published"],
    },
    "po-gp-ucb-figures": {"runs": 2, "rounds": 3, "only": ["synthetic-5"], "method": ["random"]},
    "po-gp-ucb-attack": {"trials": 40},
}
IN_ENDS = {"case", "panel", "label", "half_width", "epsilon", "true_epsilon", *REPRODUCED}
IN_CURVES = {"case", "panel", "label", "method", "epsilon", "metric", "at", "mean", "half_width"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "dubey-figure-2" else [])
        for name in QUICK
    ],
)
def test_results_have_one_shape(name: str) -> None:
    plan = REPRODUCTIONS[name].plan(**QUICK[name])
    assert plan.total == len(plan.settings) * plan.trials
    assert len(plan.names) == len(plan.settings)
    results = plan.results()
    assert len(results.ends) == len(results.records)
    needed = IN_ENDS if len(results.curves) else {*REPRODUCED, "epsilon", "true_epsilon"}
    assert needed <= set(results.ends.columns)
    assert not len(results.curves) or set(results.curves.columns) >= IN_CURVES
    # Whatever was finished before an interruption has results, too.
    done = list(plan.run())
    assert len(plan.finish(done[:1]).records) >= 1


def test_figures_4_and_5_are_drawn(tmp_path: Path) -> None:
    code, _, err = reproduce("ldpmab-figure-4-5", "--plot", tmp_path / "f.png")
    assert code == 0, err
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    assert reproduce("ldpmab-figure-4-5")[0] == 2


def test_only_some_methods_and_the_same_again(tmp_path: Path) -> None:
    written = []
    for file in (tmp_path / "a.jsonl", tmp_path / "b.jsonl"):
        wish = ("--jobs", 1, "--method", "uniform", "--method", "ours, local", "--json", file)
        code, _, err = reproduce("dubey-figure-1", "--trials", 1, "--rounds", 16, *wish)
        assert code == 0, err
        lines = records_in(file)
        assert {line["method"] for line in lines} == {"uniform", "ours, local"}
        written.append([timeless(line) for line in lines])
    assert written[0] == written[1]


def test_without_data_the_rest_runs_and_it_is_said() -> None:
    wish = ("--jobs", 1, "--runs", 1, "--rounds", 2, "--table", 10, "--table", 4, "--table", 7)
    code, out, _ = reproduce("po-gp-ucb-tables", *wish)
    assert code == 0
    assert "left out: loans, property" in out
    assert "Table 10:" in out
    assert "Table 4:" not in out


def test_only_the_first_tables_are_printed_without_details() -> None:
    def table(rows: int) -> Table:
        made = Table("method")
        for _ in range(rows):
            made.add_row("ours")
        return made

    first, second = table(9), table(3)
    shown, more = shortened(Group(Text("a"), first, Text("b"), second, Text("c"), table(1)))
    assert isinstance(shown, Group)
    assert ([each for each in shown.renderables if isinstance(each, Table)], more) == (
        [first, second],
        1,
    )
    assert shortened(Group(Text("a"), table(40)))[1] == 0  # one is printed, however long
    assert shortened(first) == (first, 0)


@pytest.mark.parametrize(
    ("name", "count", "word"),
    [pytest.param("6", 3, "effective", marks=pytest.mark.slow),
     pytest.param("dubey-figure-2", 5, "published", marks=pytest.mark.slow),
     ("po-gp-ucb-tables", 5, "Table 1:")],
)  # fmt: skip
def test_an_interrupted_run_keeps_what_is_finished_and_resumes(
    name: str, count: int, word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, ran = reproduction.run_trials, []

    def interrupted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        yield from itertools.islice(real(*arguments, **keywords), count)
        raise KeyboardInterrupt

    def counted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        for each in real(*arguments, **keywords):
            ran.append(each)
            yield each

    records, command = tmp_path / "r.jsonl", (SMALL[name].command, *SMALL[name].wish, "--jobs", 1)
    monkeypatch.setattr(reproduction, "run_trials", counted)
    assert reproduce(*command, "--json", records)[0] == 0
    total, whole = len(ran), records_in(records)
    assert not list(tmp_path.glob(".*.sqlite"))
    monkeypatch.setattr(reproduction, "run_trials", interrupted)
    code, out, err = reproduce(*command, "--json", records)
    assert code == 130
    assert f"({count} of {total} runs)" in err
    assert word in out
    assert len(records_in(records)) >= count
    monkeypatch.setattr(reproduction, "run_trials", counted)
    code, _, err = reproduce(*command)
    assert code == 2
    assert "Add --resume" in err
    ran.clear()
    code, _, err = reproduce(*command, "--json", records, "--resume")
    assert code == 0, err
    assert len(ran) == total - count
    assert [timeless(row) for row in records_in(records)] == [timeless(row) for row in whole]
    assert not list(tmp_path.glob(".*.sqlite"))
    monkeypatch.setattr(reproduction, "run_trials", interrupted)
    count = 0
    code, _, err = reproduce(*command)
    assert code == 130
    assert "nothing was written" in err


def test_a_resumed_run_has_the_settings_of_the_interrupted_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = reproduction.run_trials

    def interrupted(*arguments, **keywords):  # type: ignore[no-untyped-def]
        yield next(real(*arguments, **keywords))
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "run_trials", interrupted)
    command = ("dubey-figure-2", "--method", "uniform", "--jobs", 1, "--trials", 2)
    assert reproduce(*command, "--rounds", 32)[0] == 130
    monkeypatch.setattr(reproduction, "run_trials", real)
    code, _, err = reproduce(*command, "--rounds", 33, "--resume")
    assert code == 2
    assert "had other settings" in err


WISHES: list[tuple[str, tuple[object, ...], str]] = [
    ("dubey-figure-1", ("--delta", 1.5), "delta was 1.5"),
    ("dubey-figure-2", ("--delta", 0.1), "varies it"),
    ("dubey-figure-1", ("--method", "theirs"), "the method was 'theirs'; it must be one of 'publ"),
    ("usca-error-rate", ("--delta", 1e-5), "needs none"),
    ("capri-regret", ("--method", "theirs"), "'proved widths'"),
    # The first epoch of a learner takes more people than these.
    ("capri-regret", ("--rounds", 2), "horizon"),
    ("ldpmab-figure-7", ("--kappa", 1), "--kappa was given, but this figure does not vary it"),
    ("ldpmab-figure-7", ("--epsilon", 0), "epsilon was 0.0"),
    ("ldpmab-figure-7", ("--auxiliary", 0), "auxiliary was 0"),
    ("ldpmab-figure-7", ("--auxiliary-epsilon", -1), "epsilon was -1.0"),
    ("ldpmab-figure-7", ("--sources", 0), "sources was 0"),
    ("ldpmab-figure-7", ("--rounds", 1), "rounds was 1"),
    ("ldpmab-figure-7", ("--method", "theirs"), "the method was 'theirs'"),
    ("ldpmab-figure-9a", ("--kappa", 1.2), "kappa was 1.2"),
    ("ldpmab-figure-9b", ("--gamma", -0.1), "gamma was -0.1"),
    ("ldpmab-figure-9b", ("--rewards", "linear"), "it must be one of exponential, symmetric"),
    ("ldpmab-figure-6", ("--rewards", "symmetric"), "it has those alone"),
    ("ldpmab-figure-8", ("--json", "r.csv"), "must end in .jsonl"),
    ("ldpmab-figure-8", ("--plot", "r.jpg"), "must end in .png"),
    ("ldpmab-figure-4-5", ("--plot", "r.jpg"), "must end in .png"),
    ("ldpmab-table-2", ("--data", "no"), "there is no file"),
    ("ldpmab-table-2", ("--data", "no", "--only", "jobs stand-in"), "not a file"),
    ("ldpmab-table-2", ("--data", "no", "--only", "taxi stand-in"), "not a file"),
    ("ldpmab-table-2", ("--data", "no", "--only", "census"), "the data set was 'census'"),
    ("ldpmab-table-2", ("--data", "no", "--method", "theirs"), "the method was 'theirs'"),
    ("ldpmab-table-2", ("--data", "no", "--epsilon", 0), "epsilon was 0"),
    ("po-gp-ucb-tables", ("--table", 13), "the table was 13"),
    ("po-gp-ucb-tables", ("--only", "adult"), "the data set was 'adult'"),
    ("po-gp-ucb-tables", ("--only", "loans"), "name their folder with --data"),
    ("po-gp-ucb-tables", ("--only", "loans", "--data", "no"), "there is no file"),
    ("po-gp-ucb-tables", ("--only", "loans", "--table", 1), "no table is left"),
    ("po-gp-ucb-tables", ("--only", "synthetic", "--rounds", 10_001), "has 10000 rows"),
    ("po-gp-ucb-figures", ("--only", "synthetic", "--method", "theirs"), "method was 'theirs'"),
    ("po-gp-ucb-attack", ("--json", "no/r.jsonl"), "does not exist"),
]


@pytest.mark.parametrize(("name", "wish", "message"), WISHES)
def test_bad_wishes_end_with_2_and_one_message(
    name: str, wish: tuple[object, ...], message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = reproduce(name, *wish)
    assert code == 2
    assert message in err
    assert err.startswith("Refused:")
    assert out == ""


@pytest.mark.parametrize(
    "wish",
    ["dubey-figure-1 --rounds 1", "po-gp-ucb-tables --runs 0", "po-gp-ucb-attack --trials 1",
     "po-gp-ucb-tables --rounds 0", "ldpmab-table-2 --data . --rounds 4", "figure-9"],
)  # fmt: skip
def test_numbers_out_of_range_and_unknown_commands_end_with_2(wish: str) -> None:
    assert reproduce(*wish.split())[0] == 2
