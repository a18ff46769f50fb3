"""In which form a reproduction is shown: its table, what the columns mean, and its figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from rich.console import RenderableType

from discreet.reporting.averages import average_figure
from discreet.reporting.ratios import ratio_figure, ratio_note, ratio_table
from discreet.reporting.reproduction import (
    counted,
    regret_figure,
    regret_note,
    regret_table,
    sweep_figure,
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
from discreet.reproduction.ma2025.figures import TransferFigure
from discreet.reproduction.ma2025.settings import PROBE


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


def _sweep_note(what: TransferFigure, results: Results) -> str:
    return (
        f"Regret summed over the people of the target: mean of {counted(results.ends)}, ± its "
        f"standard error; columns: {what.axis_label}."
    )


FORMS = {
    "regret": Presentation(
        lambda _, results: regret_table(results),
        lambda _, results: regret_note(results),
        lambda _, results, log_scale: regret_figure(results, log_scale),
    ),
    "trade-off": Presentation(
        lambda _, results: regret_table(results),
        lambda _, results: regret_note(results),
        lambda _, results, log_scale: trade_off_figure(results),
    ),
    "sweep": Presentation(
        lambda what, results: sweep_table(results, what.axis),
        _sweep_note,
        lambda what, results, _: sweep_figure(results, what.axis, what.axis_label),
    ),
    "average": Presentation(
        lambda what, results: sweep_table(results, what.axis),
        _sweep_note,
        lambda what, results, _: average_figure(results, PROBE),
    ),
    "ratios": Presentation(
        lambda _, results: ratio_table(results),
        lambda _, results: ratio_note(results),
        lambda _, results, __: ratio_figure(results),
    ),
    "columns": Presentation(
        lambda _, results: search_table(results),
        lambda _, results: search_note(results),
        lambda _, results, log_scale: columns_figure(results, log_scale),
    ),
    "questions": Presentation(
        lambda _, results: search_table(results),
        lambda _, results: search_note(results),
        lambda _, results, log_scale: questions_figure(results, log_scale),
    ),
    "attacks": Presentation(
        lambda _, results: attack_table(results),
        lambda _, results: attack_note(results),
    ),
}
"""By `Reproduction.form`."""
