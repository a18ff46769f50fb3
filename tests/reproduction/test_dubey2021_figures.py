"""The cases of the figures and the table, and the runner behind them."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import joblib
import numpy as np
import pytest

from discreet.privacy import Adjacency, Joint, derive_guarantee
from discreet.problems.functions import BERNOULLI, camelback
from discreet.reporting.reproduction import regret_figure, save_figure
from discreet.reproduction.cases import Case, Trial, lines_of
from discreet.reproduction.dubey2021.figures import FIGURE_1, FIGURE_2, TABLE_1, figure_1
from discreet.reproduction.dubey2021.settings import (
    BEST_OF_BOX,
    BEST_OF_SET,
    PrivateSets,
    ball_points,
    benchmarks,
)
from discreet.reproduction.registry import REPRODUCTIONS, find_reproduction
from discreet.reproduction.runner import Reproduction, Request, run_all, run_trial
from discreet.validation import InvalidInput


def test_ball_points_lie_in_the_ball_and_on_its_boundary() -> None:
    points = ball_points(200, 30)
    norms = np.linalg.norm(points, axis=1)
    assert points.shape == (230, 2)
    assert norms.max() <= 2.0
    assert np.isclose(norms, 2.0).sum() == 30
    # Evenly spread: half of the inner points in half of the area.
    assert (norms[:200] < math.sqrt(2.0)).mean() == pytest.approx(0.5, abs=0.02)


def test_the_papers_settings() -> None:
    assert (FIGURE_1.trials, FIGURE_1.rounds, FIGURE_1.delta) == (20, 1024, 0.1)
    assert (TABLE_1.trials, TABLE_1.rounds) == (10, 10_000)
    budgets = {(c.method, c.budget.epsilon) for c in FIGURE_1.plan() if c.private}
    assert {e for m, e in budgets if m == "published"} == {10.0, 1.0, 0.5, 0.1}
    deltas = {case.budget.delta for case in FIGURE_2.plan() if case.private}
    assert deltas == {0.01, 0.1, 0.5, 0.99}
    assert {case.problem.candidates for case in FIGURE_1.plan()} == {25}  # type: ignore[attr-defined]
    printed = {
        (case.setting["function"], case.budget.epsilon): next(iter(case.paper.values()))
        for case in TABLE_1.plan()
        if case.method in ("ours", "non-private")
    }
    assert printed[("camel", math.inf)] == 519.0
    assert printed[("styb", 10.0)] == 1667.0
    assert printed[("mw", 0.1)] == 5002.0


def test_slow_methods_run_only_on_request() -> None:
    def published(slow: bool) -> list[object]:
        cases = TABLE_1.plan(slow=slow)
        return [case.setting["function"] for case in cases if case.method == "published"]

    assert set(published(False)) == {"camel"}
    assert set(published(True)) == {"camel", "styb", "mw"}
    with pytest.raises(InvalidInput, match="leaves no method out"):
        FIGURE_1.plan(slow=True)


def test_a_figure_that_varies_delta_takes_none() -> None:
    with pytest.raises(InvalidInput, match="varies"):
        FIGURE_2.plan(delta=0.1)
    with pytest.raises(InvalidInput, match="delta"):
        FIGURE_1.plan(delta=1.5)
    with pytest.raises(InvalidInput, match="rounds"):
        FIGURE_1.plan(rounds=1)


def test_names_are_registered() -> None:
    assert {"dubey-figure-1", "dubey-figure-2", "dubey-table-1"} <= set(REPRODUCTIONS)
    assert find_reproduction("dubey-figure-1") is FIGURE_1
    with pytest.raises(InvalidInput, match="dubey-figure-1"):
        find_reproduction("figure-1")


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


def test_trials_are_repeatable_and_methods_meet_the_same_people() -> None:
    cases = figure_1(Request(64, 0.1))
    ours = next(case for case in cases if case.method == "ours")
    first, second = (run_trial(0, ours, 64, 5, 1) for _ in range(2))
    assert first.totals == second.totals
    assert (first.trace == second.trace).all()
    assert run_trial(0, ours, 64, 5, 2).totals != first.totals
    assert first.trace[-1] == pytest.approx(first.totals["regret"])
    uniform = [case for case in cases if case.method == "uniform"]
    serial = list(run_all([ours, *uniform], 2, 64, 5, jobs=1))
    assert serial[2].totals == first.totals
    with joblib.parallel_config(backend="threading"):
        shared = list(run_all([ours, *uniform], 2, 64, 5, jobs=2))
    parallel = sorted(shared, key=lambda trial: (trial.number, trial.case))
    assert [trial.totals for trial in parallel] == [trial.totals for trial in serial]


def test_lines_average_trials_and_tell_what_is_held() -> None:
    cases = [case for case in figure_1(Request(32, 0.1)) if case.budget.epsilon == 10.0]
    lines = lines_of(cases, list(run_all(cases, 3, 32, 1)))
    published = next(line for line in lines if line.case.method == "published")
    (record,) = published.records
    totals = [trial.totals["regret"] for trial in published.trials]
    assert record.mean == pytest.approx(np.mean(totals))
    assert record.standard_error == pytest.approx(np.std(totals, ddof=1) / math.sqrt(3.0))
    fields = record.to_dict()
    held = fields["true_epsilon"]
    assert isinstance(held, float)
    assert held < 1.0
    assert fields["epsilon"] == 10.0
    assert published.excess_noise is not None
    assert published.excess_noise > 5.0
    local = next(line for line in lines if line.case.method == "published, local")
    assert local.excess_noise is not None
    assert local.excess_noise < 1.0
    assert local.true_epsilon == pytest.approx(11.92, abs=0.01)
    ours = next(line for line in lines if line.case.method == "ours")
    assert ours.true_epsilon == pytest.approx(10.0)
    assert ours.excess_noise == pytest.approx(1.0)


def test_a_case_that_cannot_work_is_refused_before_anything_runs() -> None:
    case = Case("ours", camelback(), "partition", Joint(1.0, 0.1))
    with pytest.raises(InvalidInput):
        run_all([case], 1, 32, 0)
    with pytest.raises(InvalidInput, match="trials"):
        run_all([], 0, 32, 0)


@pytest.mark.parametrize("log_scale", [False, True])
@pytest.mark.parametrize("what", [FIGURE_1, FIGURE_2, TABLE_1])
def test_figures_have_a_panel_for_each_kind_and_labels_apart(
    what: Reproduction, log_scale: bool, tmp_path: Path
) -> None:
    cases = what.plan(rounds=32)
    at, rng = np.arange(1, 33), np.random.default_rng(0)
    promised = derive_guarantee([], "joint", Adjacency("reward"))
    trials = []
    for place, number in product(range(len(cases)), range(2)):
        trace = np.cumsum(rng.random(32)) * (1.0 + place % 7)
        totals = {"regret": float(trace[-1])}
        trials.append(Trial(place, number, totals, at, trace, 0.1, promised, None))
    figure = regret_figure(lines_of(cases, trials), log_scale)
    figure.canvas.draw()
    assert len(figure.axes) == len({case.panel for case in cases} - {None, ""})
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        for place, box in enumerate(boxes):
            assert box.x1 <= figure.bbox.x1
            assert not any(box.overlaps(other) for other in boxes[place + 1 :])
    save_figure(figure, tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_benchmarks_say_what_the_paper_printed() -> None:
    assert [one.name for one in benchmarks()] == ["camel", "styb", "mw"]
    assert all(len(one.paper) == 4 for one in benchmarks())
