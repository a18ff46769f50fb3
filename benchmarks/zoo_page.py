"""The page of the zoo: one map for each thing that is measured, problems down, settings across.

| map                       | meaning                                                     |
|---------------------------|-------------------------------------------------------------|
| mean over uniform         | what a setting lost, as a share of what uniform choice lost |
| worst run over uniform    | the same of its worst run                                   |
| share of runs stuck       | see zoo.py                                                  |
| mean over best fixed      | cut at 2; empty where the best fixed arm loses nothing      |

Cells with a flag have a cross. Where several kernels were tried, a problem has a row for each.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from zoo_cells import NO_PRIVACY, REFERENCES

from discreet.lab.reporting.figures import heat, ruler
from discreet.lab.reporting.layout import SMALL, entitle, finish, sheet

_MAPS = {
    "over uniform": ("mean over uniform", 1.0),
    "worst over uniform": ("worst run over uniform", 1.0),
    "stuck": ("share of runs stuck", 1.0),
    "over fixed": ("mean over best fixed", 2.0),
}
_SHORT = {
    "partition": "partition",
    "capri": "CAPRI",
    "gp_ucb": "GP-UCB",
}
_ROW = 0.15  # inches of a problem


def page(table: pd.DataFrame) -> Figure:
    """The figure of a table of `zoo.summary`."""
    table = table[~table["learner"].isin(REFERENCES) & (table["runs"] > 0)]
    named = table.assign(
        row=[_row(*each) for each in table[["problem", "people", "kernel"]].to_numpy()],
        column=[_column(*each) for each in table[["learner", "model", "epsilon"]].to_numpy()],
    )
    rows, columns = list(dict.fromkeys(named["row"])), sorted(dict.fromkeys(named["column"]))
    figure, grid = sheet(2, 2, width=13.0)
    for place, (value, (title, top)) in enumerate(_MAPS.items()):
        axes = grid.flat[place]
        shown = named.pivot_table(index="row", columns="column", values=value)
        shown = shown.reindex(index=rows[::-1], columns=columns)
        across, down = np.arange(len(columns)), np.arange(len(rows))
        values = shown.to_numpy(dtype=float).T
        colors = heat(axes, across, down, np.clip(values, 0.0, top), (0.0, top))
        axes.set_xticks(across, [name for _, _, name in columns], rotation=90, fontsize=SMALL - 2)
        names = [""] * len(rows) if place % 2 else rows[::-1]
        axes.set_yticks(down, names, fontsize=SMALL - 2)
        entitle(axes, title)
        ruler(figure, colors, [axes], extend="max")
        flagged = named[named["flags"] != ""]
        axes.plot(
            [columns.index(each) for each in flagged["column"]],
            [rows[::-1].index(each) for each in flagged["row"]],
            "x",
            color="#D55E00",
            markersize=4.0,
        )
    note = "cross: worse than uniform choice, or late worse than the best fixed arm"
    return finish(figure, _ROW * len(rows) + 0.4, note=note)


def _row(problem: str, people: int, kernel: str) -> str:
    return f"{problem}, {people:,}" + (f", {kernel}" if kernel else "")


def _column(learner: str, model: str, epsilon: float) -> tuple[str, float, str]:
    """What columns are sorted by, trust models together and privacy from little to much; then the
    name."""
    budget = "no privacy" if epsilon == NO_PRIVACY else f"{model} {epsilon:g}"
    short = _SHORT.get(learner, learner)
    return f"{['none', 'local', 'joint'].index(model)}{short}", -epsilon, f"{short}, {budget}"
