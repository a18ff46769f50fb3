"""In which form a reproduction is shown: its table, what the columns mean, and its figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from rich.console import RenderableType

from discreet.reporting.ma2025 import average_figure, ratio_figure, ratio_note, ratio_table
from discreet.reporting.reproduction import (
    regret_figure,
    regret_note,
    regret_table,
    sweep_figure,
    sweep_note,
    sweep_table,
    trade_off_figure,
)
from discreet.reporting.searches import (
    attack_note,
    attack_table,
    columns_figure,
    questions_figure,
    search_note,
    search_table,
)
from discreet.reproduction.base import Results


@dataclass(frozen=True)
class Presentation:
    """How results are shown; all three are given the reproduction and its results.

    Attributes:
        table: for the terminal.
        note: what its columns mean.
        figure: given also whether the vertical axis shall be logarithmic; None for no figure.
    """

    table: Callable[[Any, Results], RenderableType]
    note: Callable[[Any, Results], str]
    figure: Callable[[Any, Results, bool], Figure] | None = None


FORMS = {
    "regret": Presentation(regret_table, regret_note, regret_figure),
    "trade-off": Presentation(regret_table, regret_note, trade_off_figure),
    "sweep": Presentation(sweep_table, sweep_note, sweep_figure),
    "average": Presentation(sweep_table, sweep_note, average_figure),
    "ratios": Presentation(ratio_table, ratio_note, ratio_figure),
    "columns": Presentation(search_table, search_note, columns_figure),
    "questions": Presentation(search_table, search_note, questions_figure),
    "attacks": Presentation(attack_table, attack_note),
}
"""By `Reproduction.form`."""
