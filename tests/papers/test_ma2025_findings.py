"""What the paper's Figure 9 asks of ours: order does not matter, and weak sources do no harm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp, wilcoxon

from discreet.lab.experiments import frame_of
from discreet.papers.ma2025.figures import FIGURE_9A, FIGURE_9C, TransferFigure


def regrets(what: TransferFigure, wish: dict[str, list[float]], trials: int) -> list[np.ndarray]:
    """(trials,) total regret of ours in each case, on the same people."""
    frame = frame_of(what.plan(trials, method=["ours"], **wish).run())
    totals = frame[frame["metric"] == "regret"]
    return [case["value"].to_numpy() for _, case in totals.groupby("case")]


WEAK = {"epsilon": [1.0], "gamma": [2.0], "kappa": [0.2], "auxiliary_epsilon": [1.0]}


@pytest.mark.slow
def test_order_matters_little_in_a_few_trials() -> None:
    wish = {"rounds": [2000], "epsilon": [2.0], "auxiliary": [1500]}
    high, low = regrets(FIGURE_9C, wish, 3)
    assert 0.5 < high.mean() / low.mean() < 2.0
    # Either way far less than uniform choice, 0.414 for each person.
    assert max(high.mean(), low.mean()) < 0.1 * 0.414 * 2000


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_order_does_not_matter(epsilon: float) -> None:
    """Figure 9c: no significant difference in 10 paired trials."""
    wish = {"rounds": [4000], "epsilon": [epsilon], "auxiliary": [4000]}
    high, low = regrets(FIGURE_9C, wish, 10)
    assert wilcoxon(high, low).pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_weak_sources_do_no_harm(epsilon: float) -> None:
    """With sources ours is not significantly worse than without, in 10 paired trials."""
    wish = {**WEAK, "epsilon": [epsilon], "rounds": [4000], "auxiliary": [1000]}
    without, given = regrets(FIGURE_9A, wish, 10)
    assert ttest_1samp(given - without, 0.0, alternative="greater").pvalue > 0.01
