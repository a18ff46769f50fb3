"""What Kharkovskii et al. (2020) ran (section 4 and appendix A), and the numbers that they printed.

Epsilon is given by its logarithm, as in the paper. Tables print S_T without a unit; the text gives
differences in units of sigma_y, the standard deviation of the Gaussian process (its signal).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

SYNTHETIC, SYNTHETIC_5 = "synthetic", "synthetic-5"
LOANS, PROPERTY, BRANIN = "loans", "property", "branin"
DATA_SETS = (SYNTHETIC_5, SYNTHETIC, LOANS, PROPERTY, BRANIN)
"""Names of the data sets; `synthetic-5` is not the paper's (see `data_sets`)."""

# Base of the runs' seeds; nothing was ever tuned on it.
SEED = 20250701

# delta' of Algorithm 2: half of the paper's delta_ucb = 0.05 (Theorem 3).
UCB_DELTA = 0.025
LARGEST_NORM = 25.0
"""What every table is scaled to."""

RUNS = 50


@dataclass(frozen=True)
class SearchSetting:
    """How a data set is searched.

    Attributes:
        name: of the data set.
        rounds: questions, the initial row included: T.
        delta: of every epsilon.
        columns: of the published release in figures: r.
    """

    name: str
    rounds: int
    delta: float
    columns: int


SETTINGS: Mapping[str, SearchSetting] = {
    setting.name: setting
    for setting in (
        SearchSetting(SYNTHETIC_5, rounds=50, delta=1e-5, columns=10),
        SearchSetting(SYNTHETIC, rounds=50, delta=1e-5, columns=10),
        SearchSetting(LOANS, rounds=50, delta=1e-5, columns=15),
        SearchSetting(PROPERTY, rounds=100, delta=1e-4, columns=15),
        SearchSetting(BRANIN, rounds=50, delta=1e-3, columns=10),
    )
}


@dataclass(frozen=True)
class PaperTable:
    """One of Tables 1 to 12: simple regret by r at one epsilon.

    Attributes:
        number: the paper's; None for a table that the paper does not have.
        data_set: its name.
        log_epsilon: the logarithm of epsilon.
        most_columns: the largest r for which the paper reports the branch "if" of Algorithm 1.
        regrets: what was printed, by r; NaN where nothing was.
    """

    number: int | None
    data_set: str
    log_epsilon: float
    most_columns: int
    regrets: Mapping[int, float]

    @property
    def epsilon(self) -> float:
        """Of the privacy that is asked for."""
        return math.exp(self.log_epsilon)

    @property
    def name(self) -> str:
        """In records and headings."""
        return "Not in the paper" if self.number is None else f"Table {self.number}"

    def printed(self, columns: int) -> float | None:
        """The paper's number for r = `columns`; None where there is none."""
        value = self.regrets.get(columns, math.nan)
        return None if math.isnan(value) else value


def _table(
    number: int, data_set: str, log_epsilon: float, most: int, *regrets: float
) -> PaperTable:
    lists = {10: (3, 6, 8, 10, 15, 20), 15: (3, 9, 12, 15, 20, 30), 20: (5, 10, 15, 20, 30, 50)}
    return PaperTable(
        number, data_set, log_epsilon, most, dict(zip(lists[most], regrets, strict=True))
    )


PAPER_TABLES = (
    _table(1, SYNTHETIC, 1.1, 10, 0.073, 0.038, 0.018, 0.014, 0.118, 0.137),
    _table(2, SYNTHETIC, 1.3, 15, 0.091, 0.009, 0.019, 0.008, 0.127, 0.134),
    _table(3, SYNTHETIC, 1.5, 20, 0.05, 0.021, 0.003, 0.002, 0.094, 0.142),
    _table(4, LOANS, 2.7, 10, 0.083, 0.088, 0.078, 0.069, 0.081, 0.076),
    _table(5, LOANS, 2.9, 15, 0.091, 0.076, 0.078, 0.077, 0.1, 0.096),
    _table(6, LOANS, 3.1, 20, 0.097, 0.091, 0.069, 0.084, 0.104, 0.127),
    _table(7, PROPERTY, 2.6, 10, 0.682, 0.516, 0.495, 0.485, 0.485, 0.493),
    _table(8, PROPERTY, 2.8, 15, 0.567, 0.553, 0.479, 0.453, 0.493, 0.52),
    _table(9, PROPERTY, 3.0, 20, 0.591, 0.523, 0.486, 0.482, 0.489, 0.488),
    _table(10, BRANIN, 2.3, 10, 0.53, 0.184, 0.038, 0.0, 0.005, 0.024),
    _table(11, BRANIN, 2.5, 15, 0.259, 0.001, 0.0, 0.0, 0.014, 0.026),
    _table(12, BRANIN, 2.7, 20, 0.152, 0.0, 0.0, 0.0, 0.005, 0.073),
)
"""Tables 1 to 12."""

OUR_TABLES = tuple(
    PaperTable(None, SYNTHETIC_5, log_epsilon, 10, {10: math.nan})
    for log_epsilon in (1.1, 2.0, 3.0)
)
"""The same at length scale 5, where 50 questions can cover the domain."""

TABLES = OUR_TABLES + PAPER_TABLES


@dataclass(frozen=True)
class PaperFigure:
    """Figure 2a, 2b, 2c or 3: simple regret against iteration, by epsilon.

    Attributes:
        name: the paper's.
        data_set: its name.
        projected_at: the logarithm of the epsilon for which the paper reports the branch "if" of
            Algorithm 1; for all smaller ones it reports "else".
        above: what the text says that the published method has more regret than the search without
            privacy after T questions, in units of sigma_y, by the logarithm of epsilon; NaN where
            it says nothing.
    """

    name: str
    data_set: str
    projected_at: float
    above: Mapping[float, float]

    @property
    def epsilons(self) -> dict[float, float]:
        """Epsilon by its logarithm, from the largest."""
        return {log_epsilon: math.exp(log_epsilon) for log_epsilon in self.above}

    def printed(self, log_epsilon: float) -> float | None:
        """The paper's difference; None where there is none."""
        value = self.above[log_epsilon]
        return None if math.isnan(value) else value


OUR_FIGURE = PaperFigure(
    "Not in the paper", SYNTHETIC_5, 1.1, {3.0: math.nan, 2.0: math.nan, 1.1: math.nan}
)
"""The same at length scale 5, where 50 questions can cover the domain."""

FIGURES = (
    OUR_FIGURE,
    PaperFigure("Figure 2a", SYNTHETIC, 1.1, {1.1: 0.011, 0.9: 0.069, 0.0: 0.099}),
    PaperFigure("Figure 2b", LOANS, 2.9, {2.9: 0.003, 2.0: 0.019, 1.0: 0.05}),
    PaperFigure("Figure 2c", PROPERTY, 2.8, {2.8: 0.051, 1.0: 0.017, 0.5: 0.082}),
    PaperFigure("Figure 3", BRANIN, 2.3, {2.3: 0.004, 2.0: 0.023, 1.8: 0.051}),
)
"""Figures 2 and 3, after that which is not in the paper."""
