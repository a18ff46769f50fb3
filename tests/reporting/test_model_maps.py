"""Maps of released models, and the words around choices that are points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from discreet.domain import Box
from discreet.learners.baselines.exact_gp_ucb import ExactGPUCB
from discreet.learners.baselines.uniform import Uniform
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.privacy import NonPrivate
from discreet.problems.catalog import load_problem
from discreet.reporting.html import render_report
from discreet.reporting.model_maps import model_figure, predictor
from discreet.simulation import simulate_all
from discreet.studies import ReportEntry, load_study

STUDY = """
name = "points"
rounds = 60
replicates = 1
[problem]
name = "{problem}"
[[learners]]
name = "gp_ucb"
epsilon = 2.0
delta = 1e-5
non_private = true
[learners.options]
error = 0.1
[[learners]]
name = "uniform"
"""


def test_what_predicts() -> None:
    bumps = load_problem("bumps")
    made = [kind(bumps.domain, bumps.space, NonPrivate()) for kind in (GPUCB, ExactGPUCB, Uniform)]
    known = [predictor(learner.policy()) is not None for learner in made]
    assert known == [True, True, False]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_maps_of_one_two_and_more_columns(columns: int) -> None:
    class Known:
        def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
            asked.append(X)
            return X[:, 0], 0.1 + 0.01 * X[:, -1]

    asked: list[np.ndarray] = []
    domain = Box((0.0,) * columns, (10.0,) * columns)
    figure = model_figure(Known(), domain, ReportEntry(axes=["x1"][: columns == 1]), "a map", 4.5)
    figure.canvas.draw()
    (points,) = asked
    assert points.min() == 0.0
    assert points.max() == 10.0
    assert (points[:, 2:] == 5.0).all()
    assert figure.texts[0].get_text() == "a map"
    for text in figure.findobj(lambda one: hasattr(one, "get_window_extent")):
        assert text is not None
    assert len(figure.axes) == (1 if columns == 1 else 2)


@pytest.mark.parametrize(
    ("problem", "offered"),
    [("bumps", "up to 25 points of their own"), ("camelback", "any point of a box")],
)
def test_reports_of_points(problem: str, offered: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(problem=problem))
    study = load_study(path)
    outcomes = list(simulate_all(study.problem, study.settings, 60, 1, 3))
    text = render_report(study, outcomes)
    assert offered in text
    assert "What is expected where" in text
    assert text.count("of the reward that gp_ucb") == 2
    assert "joint: the learner sees the data" in text
    record = "decision set and reward" if problem == "bumps" else "reward"
    assert f"one person&#39;s {record} becomes any other" in text
