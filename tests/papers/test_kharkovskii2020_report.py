"""Figures of searches of tables: few methods, both scales, and labels that stay apart."""

from __future__ import annotations

import pytest

from discreet.papers.kharkovskii2020 import data_sets
from discreet.papers.kharkovskii2020.report import columns_figure, questions_figure
from discreet.papers.kharkovskii2020.searches import PO_GP_UCB_FIGURES, PO_GP_UCB_TABLES
from tests.lab.reporting.cases import overlapping


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_sets, "_SUBSET", 40)


@pytest.mark.parametrize("log_scale", [False, True])
@pytest.mark.parametrize("method", ["ours", "published"])
def test_figures_hold_for_few_methods(method: str, log_scale: bool) -> None:
    results = PO_GP_UCB_TABLES.plan(runs=1, rounds=3, table=[1], method=[method]).results()
    (axes,) = columns_figure(PO_GP_UCB_TABLES, results, log_scale).axes
    assert axes.get_yscale() == ("log" if log_scale else "linear")


def test_published_and_ours_share_their_axis_and_labels_stay_apart() -> None:
    results = PO_GP_UCB_FIGURES.plan(runs=2, rounds=4, only=["synthetic-5"]).results()
    figure = questions_figure(PO_GP_UCB_FIGURES, results)
    published, ours = figure.axes
    assert published.get_ylim() == ours.get_ylim()
    assert all(len(axes.texts) > 5 for axes in figure.axes)
    assert overlapping(figure) == []
