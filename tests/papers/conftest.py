"""Reproductions on small problems."""

from __future__ import annotations

import pytest

from discreet.lab.environments.kernel_grid import KernelGridProblem
from discreet.papers.dubey2021 import figures
from discreet.papers.kharkovskii2020 import data_sets
from discreet.papers.pavlovic2025.figures import RewardFunctions


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids of 4 x 5 in place of 30 x 60, one function of Table 1, few rows for a likelihood."""

    def problem(self: RewardFunctions) -> KernelGridProblem:
        return KernelGridProblem(contexts=4, arms=5, smoothness=self.smoothness)

    first = [next(iter(figures.benchmarks()))]
    monkeypatch.setattr(RewardFunctions, "problem", problem)
    monkeypatch.setattr(figures, "benchmarks", lambda: first)
    monkeypatch.setattr(data_sets, "_SUBSET", 40)
