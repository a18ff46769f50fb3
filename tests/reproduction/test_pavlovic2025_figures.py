"""The two commands on small grids, their cases and their figure."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.experiments import Seed
from discreet.learners.epochs.capri import BernsteinElimination, Capri
from discreet.privacy import Joint, Local, SimulatedNoise
from discreet.problems.kernel_grid import KernelGridProblem
from discreet.reporting.reproduction import trade_off_figure
from discreet.reproduction.cases import Case, serve
from discreet.reproduction.pavlovic2025.calibration import PublishedElimination
from discreet.reproduction.pavlovic2025.figures import CAPRI_REGRET, USCA_ERROR_RATE
from discreet.reproduction.pavlovic2025.settings import (
    ERROR_RATE,
    SQUARED_EXPONENTIAL,
    SURFACES,
    WRONG,
    Surface,
    share_wrong,
)
from discreet.reproduction.registry import REPRODUCTIONS
from discreet.validation import InvalidInput
from tests.reporting.cases import overlapping

runner = CliRunner()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids of 4 x 5 in place of 30 x 60."""

    def problem(self: Surface) -> KernelGridProblem:
        return KernelGridProblem(contexts=4, arms=5, smoothness=self.smoothness)

    monkeypatch.setattr(Surface, "problem", problem)


def reproduce(name: str, *arguments: object) -> tuple[int, str, str]:
    words = ["reproduce", name, "--jobs", "1", *map(str, arguments)]
    result = runner.invoke(app, words)
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def test_the_settings() -> None:
    assert REPRODUCTIONS["capri-regret"] is CAPRI_REGRET
    assert REPRODUCTIONS["usca-error-rate"] is USCA_ERROR_RATE
    assert CAPRI_REGRET.sizes == (10_000, 100_000)
    assert USCA_ERROR_RATE.sizes == (1_000, 10_000, 100_000)
    assert SURFACES[0].setting(5)["function"] != SURFACES[1].setting(5)["function"]

    def budgets(method: str) -> set[object]:
        return {case.budget for case in CAPRI_REGRET.planned() if case.method == method}

    joint = {Joint(epsilon, 1e-5) for epsilon in (0.5, 1.0, 4.0)}
    assert budgets("published") == budgets("ours") == budgets("elimination") == joint
    assert budgets("ours, local") == {Local(1.0), Local(4.0)}
    published = [case for case in CAPRI_REGRET.planned() if case.method.startswith("published")]
    rules = [case.arguments["calibration"] for case in published]
    assert {rule.deviations for rule in rules} == {None, 3.0}
    assert all(isinstance(rule, PublishedElimination) for rule in rules)
    assert len({case.panel for case in CAPRI_REGRET.planned()}) == 4
    errors = USCA_ERROR_RATE.planned()
    assert {case.budget.epsilon for case in errors if case.private} == {0.1, 1.0, 10.0}
    assert {case.budget.delta for case in errors if case.private} == {0.0}


def test_rigorous_elimination_runs_when_it_is_named_or_wished() -> None:
    quick = {case.method for case in CAPRI_REGRET.planned()}
    assert "elimination, rigorous" not in quick
    assert {case.method for case in CAPRI_REGRET.planned(published=True)} - quick == {
        "elimination, rigorous"
    }
    named = CAPRI_REGRET.planned(rounds=[100], method=["elimination, rigorous", "uniform"])
    assert {case.method for case in named} == {"elimination, rigorous", "uniform"}
    rules = [case.arguments["calibration"] for case in named if case.private]
    assert {type(rule) for rule in rules} == {BernsteinElimination}
    assert all(case.panel == "" for case in named if case.private)


def test_every_number_of_rounds_has_its_own_cases() -> None:
    cases = CAPRI_REGRET.planned(rounds=(200, 300), method=["uniform"])
    assert [case.rounds for case in cases] == [200, 200, 300, 300]
    last = [serve(Seed(1, 0), case)[0]["along"][-1] for case in cases]
    assert last == [200, 200, 300, 300]
    # A longer trial begins with the same function.
    few, _, many, _ = (case.problem.sample(9, np.random.default_rng(0)) for case in cases)
    assert (few.function == many.function).all()  # type: ignore[attr-defined]


def test_capri_regret_prints_a_table_and_writes_files(tmp_path: Path) -> None:
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    code, out, err = reproduce(
        "capri-regret", "--trials", 1, "--rounds", 300, "--rounds", 400,
        "--json", records, "--plot", plot,
    )  # fmt: skip
    assert code == 0, err
    for word in ("300 people", "400 people", "Share wrong", "promised", "held", "published"):
        assert word in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert {line["metric"] for line in lines} == {"regret", WRONG}
    assert {(line["rounds"], line["function"]) for line in lines} == {
        (rounds, surface.name) for rounds in (300, 400) for surface in SURFACES
    }
    for line in lines:
        if line["metric"] == WRONG:
            assert 0.0 <= line["mean"] <= 1.0
        if line["method"] == "published":
            assert 0.0 < line["true_epsilon"] < 0.1 * line["epsilon"]
            assert line["excess_noise"] > 5.0
        if line["method"] == "elimination":
            assert line["true_epsilon"] == pytest.approx(line["epsilon"], rel=1e-6)
        assert line["method"] != "uniform" or line["metric"] == "regret"


def test_usca_error_rate_prints_a_table_and_writes_files(tmp_path: Path) -> None:
    records, plot = tmp_path / "r.jsonl", tmp_path / "r.png"
    code, out, err = reproduce(
        "usca-error-rate", "--trials", 2, "--rounds", 300, "--json", records, "--plot", plot
    )
    assert code == 0, err
    assert "error rate" in out
    assert "Error rate of 300 people" not in out
    assert plot.read_bytes().startswith(b"\x89PNG")
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert {line["metric"] for line in lines} == {ERROR_RATE}
    means = {(line["method"], line["epsilon"]): line for line in lines}
    for epsilon in (0.1, 1.0, 10.0):
        assert means["ours", epsilon]["true_epsilon"] == pytest.approx(epsilon)
        held = means["published", epsilon]["true_epsilon"]
        assert 0.4 * epsilon < held < 0.8 * epsilon
        assert means["ours", epsilon]["mean"] < means["random choice", None]["mean"]
    assert means["ours", 10.0]["mean"] < means["ours", 0.1]["mean"]
    assert means["non-private", None]["mean"] < means["published", 0.1]["mean"]


def test_the_share_of_wrong_contexts_counts_arms_that_are_left() -> None:
    problem = SQUARED_EXPONENTIAL.problem()
    case = Case("elimination", problem, "capri", 4000, Joint(50.0, 1e-5), measure=share_wrong)
    (wrong,) = [row for row in serve(Seed(1, 1), case) if row["metric"] == WRONG]
    assert (wrong["value"], wrong["final"]) == (0.0, True)
    people = problem.sample(400, np.random.default_rng(0))
    learner = Capri(
        problem.domain, problem.space, Joint(1.0, 1e-5), horizon=400,
        reward_bounds=problem.reward_bounds, noise=SimulatedNoise(0),
    )  # fmt: skip
    # Nothing is known yet, so the first arm counts as the best; it is wrong in most contexts.
    worst = people.function.max(axis=1) - people.function[:, 0] > 0.05
    assert share_wrong(learner, people) == {WRONG: pytest.approx(worst.mean())}


def test_panels_share_their_axes_by_row_and_labels_stay_apart() -> None:
    wish = {"rounds": (60, 600), "method": ["ours", "elimination", "uniform"]}
    results = CAPRI_REGRET.plan(1, **wish).results()
    figure = trade_off_figure(None, results)
    assert overlapping(figure) == []
    assert [axes.get_title("left") for axes in figure.axes] == list(
        dict.fromkeys(results.ends["panel"])
    )
    first, second, third, _ = figure.axes
    assert first.get_ylim() == second.get_ylim() != third.get_ylim()
    for axes in figure.axes:
        low, high = axes.get_ylim()
        for line in axes.lines:
            if line.get_transform() == axes.transData:
                assert ((low < line.get_ydata()) & (line.get_ydata() < high)).all()
        assert len(axes.texts) == 3


def test_bad_wishes_are_refused() -> None:
    code, _, err = reproduce("usca-error-rate", "--delta", 1e-5)
    assert code == 2
    assert "needs none" in err
    code, _, err = reproduce("capri-regret", "--method", "theirs")
    assert code == 2
    assert "'elimination, rigorous'" in err
    assert reproduce("capri-regret", "--rounds", 100, "--rounds", 1)[0] == 2
    assert reproduce("usca-error-rate", "--published")[0] == 2
    # The first epoch of a learner takes more people than these.
    code, _, err = reproduce("capri-regret", "--rounds", 2)
    assert code == 2
    assert "horizon" in err
    with pytest.raises(InvalidInput, match="rounds"):
        CAPRI_REGRET.planned(rounds=[100, 1])
