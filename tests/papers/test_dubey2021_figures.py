"""The cases of the figures and the table, and the runner behind them."""

from __future__ import annotations

import math
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

from discreet.lab.environments.functions import BERNOULLI, camelback
from discreet.lab.experiments import Seed
from discreet.lab.experiments.engine import Row, frame_of
from discreet.lab.reporting.layout import save_figure
from discreet.papers.dubey2021.figures import (
    BEST_OF_BOX,
    BEST_OF_SET,
    FIGURE_1,
    FIGURE_2,
    TABLE_1,
    PrivateSets,
    ball_points,
    benchmarks,
    figure_1,
)
from discreet.papers.report import regret_figure
from discreet.papers.reproduction import Case, CaseRequest, RegretFigure, plan_of, serve
from discreet.privacy import Joint
from discreet.validation import InvalidInput
from tests.lab.reporting.cases import overlapping
from tests.papers.invented import invented_results


def test_ball_points_lie_in_the_ball_and_on_its_boundary() -> None:
    points = ball_points(200, 30)
    norms = np.linalg.norm(points, axis=1)
    assert points.shape == (230, 2)
    assert norms.max() <= 2.0
    assert np.isclose(norms, 2.0).sum() == 30
    # Evenly spread: half of the inner points in half of the area.
    assert (norms[:200] < math.sqrt(2.0)).mean() == pytest.approx(0.5, abs=0.02)


def test_the_papers_settings() -> None:
    assert (FIGURE_1.trials, FIGURE_1.rounds, FIGURE_1.delta) == (20, (1024,), 0.1)
    assert (TABLE_1.trials, TABLE_1.rounds) == (10, (10_000,))
    budgets = {(c.method, c.budget.epsilon) for c in FIGURE_1.planned() if c.budget.private}
    assert {e for m, e in budgets if m == "published"} == {10.0, 1.0, 0.5, 0.1}
    deltas = {case.budget.delta for case in FIGURE_2.planned() if case.budget.private}
    assert deltas == {0.01, 0.1, 0.5, 0.99}
    assert {case.problem.candidates for case in FIGURE_1.planned()} == {25}  # type: ignore[attr-defined]
    printed = {
        (case.setting["function"], case.budget.epsilon): next(iter(case.paper.values()))
        for case in TABLE_1.planned()
        if case.method in ("ours", "non-private")
    }
    assert printed[("camel", math.inf)] == 519.0
    assert printed[("styb", 10.0)] == 1667.0
    assert printed[("mw", 0.1)] == 5002.0
    assert [function.name for function in benchmarks()] == ["camel", "styb", "mw"]


def test_the_published_method_runs_on_private_sets_of_every_function() -> None:
    published = [case.setting for case in TABLE_1.planned(method=["published"])]
    assert {setting["function"] for setting in published} == {"camel", "styb", "mw"}
    assert {setting["points"] for setting in published} == {"private sets"}


def test_private_sets_count_regret_in_both_ways() -> None:
    problem = PrivateSets(camelback(), candidates=5)
    people = problem.sample(40, np.random.default_rng(0))
    assert people.contexts.shape == (40, 5, 2)
    assert people.means is not None
    assert np.allclose(people.means, [problem.function.function(s) for s in people.contexts])
    assert ((people.rewards >= 0.0) & (people.rewards <= 1.0)).all()
    values = people.value_of(np.zeros(40, dtype=np.int64))
    counted = problem.metrics(people, values)
    assert np.allclose(counted[BEST_OF_SET], people.means.max(axis=1) - people.means[:, 0])
    assert np.allclose(counted[BEST_OF_BOX], 1.0 - people.means[:, 0])
    with pytest.raises(InvalidInput, match="noise"):
        PrivateSets(camelback(noise=BERNOULLI))


def ends(rows: list[Row]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in rows}


def test_trials_are_repeatable_and_methods_meet_the_same_people() -> None:
    cases = list(figure_1(CaseRequest(64, 0.1)))
    ours = next(case for case in cases if case.method == "ours")
    first, second = (serve(Seed(5, 1), ours) for _ in range(2))
    assert [row["value"] for row in first] == [row["value"] for row in second]
    assert ends(serve(Seed(5, 2), ours)) != ends(first)
    assert first[0]["along"][-1] == 64
    assert first[0]["trace"][-1] == pytest.approx(ends(first)["regret"])
    uniform = [case for case in cases if case.method == "uniform"]
    plan = plan_of([ours, *uniform], 2, 5)
    serial = frame_of(plan.run())
    assert serial.query("case == 0 and trial == 1")["value"].iloc[0] == ends(first)["regret"]
    with joblib.parallel_config("threading"):
        shared = frame_of(plan.run(jobs=2))
    pd.testing.assert_frame_equal(serial.drop(columns="seconds"), shared.drop(columns="seconds"))


def test_results_average_trials_and_tell_what_is_held() -> None:
    cases = [case for case in figure_1(CaseRequest(32, 0.1)) if case.budget.epsilon == 10.0]
    plan = plan_of(cases, 3, 1)
    done = list(plan.run())
    results = plan.finish(done)
    found = {record["method"]: record for record in results.records}
    published = found["published"]
    totals = [ends(list(each.result))["regret"] for each in done if each.case == 0]
    assert published["mean"] == pytest.approx(np.mean(totals))
    assert published["standard_error"] == pytest.approx(np.std(totals, ddof=1) / math.sqrt(3.0))
    assert published["true_epsilon"] < 1.0
    assert published["epsilon"] == 10.0
    assert published["excess_noise"] > 5.0
    local = found["published, local"]
    assert local["excess_noise"] < 1.0
    assert local["true_epsilon"] == pytest.approx(11.92, abs=0.01)
    ours = found["ours"]
    assert ours["true_epsilon"] == pytest.approx(10.0)
    assert ours["excess_noise"] == pytest.approx(1.0)
    last = results.curves.query("case == 0").iloc[-1]
    assert (last["at"], last["mean"]) == (32, pytest.approx(published["mean"]))


def test_a_case_that_cannot_work_is_refused_before_anything_runs() -> None:
    case = Case("ours", camelback(), "partition", 32, Joint(1.0, 0.1))
    with pytest.raises(InvalidInput):
        plan_of([case], 1, 0)
    with pytest.raises(InvalidInput, match="trials"):
        plan_of([], 0, 0)


@pytest.mark.parametrize(
    ("what", "log_scale"),
    [
        pytest.param(FIGURE_1, False, marks=pytest.mark.slow),
        (FIGURE_1, True),
        pytest.param(FIGURE_2, True, marks=pytest.mark.slow),
        pytest.param(TABLE_1, False, marks=pytest.mark.slow),
    ],
)
def test_figures_have_a_panel_for_each_kind_and_labels_apart(
    what: RegretFigure, log_scale: bool, tmp_path: Path
) -> None:
    cases = what.planned([32])
    figure = regret_figure(None, invented_results(cases), log_scale)
    figure.canvas.draw()
    assert len(figure.axes) == len({case.panel for case in cases} - {None, ""})
    assert overlapping(figure) == []
    save_figure(figure, tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
