"""The frames that tables and figures are made of, and the means in them.

A trial gives a row for each metric: its `value` when all people were served and, where it was
traced, `along` (t,) how many people were served and `trace` (t,) its value by then. Means over
trials stand in two frames: `ends` has a row for each case and metric, when all people were served;
`curves` has a row for each case, metric and point on the way there.

| column                      | of     | meaning                                                  |
|-----------------------------|--------|----------------------------------------------------------|
| case                        | both   | number of the case; rows stand in its order              |
| panel                       | both   | of the figure; None: in all panels, "": in none          |
| label                       | both   | what the figure calls the case                           |
| method                      | both   | ours, published, non-private, uniform, ...               |
| epsilon, delta              | both   | asked for, or claimed; None for a reference              |
| true_epsilon                | ends   | held, at that delta; infinite for none                   |
| ...                         | ends   | what was varied (rounds, kernel, gamma, r, ...)          |
| metric                      | both   | what was measured                                        |
| main                        | ends   | whether it is what the figure shows                      |
| at                          | curves | people served, or questions asked, so far                |
| mean                        | both   | over trials                                              |
| standard_error              | ends   | of the mean; NaN for a single trial                      |
| half_width                  | both   | of the mean's 95% interval; 0 for a single trial         |
| trials                      | both   | how many                                                 |
| paper                       | ends   | the number that the paper prints; None for none          |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from discreet.intervals import half_width, mean_and_band, mean_and_error

if TYPE_CHECKING:
    import pandas as pd

MEANS = ("mean", "standard_error", "half_width", "trials")


def means(frame: pd.DataFrame, by: Sequence[str], value: str = "value") -> pd.DataFrame:
    """Means over trials with their standard errors and 95% intervals, a row for each group.

    Args:
        frame: tidy, with a row for each trial; groups come in the order of their first rows.
        by: the columns that make a group; None and NaN are values like others.
        value: the column that is averaged.
    """
    import pandas as pd

    rows = []
    for keys, values in frame.groupby(list(by), sort=False, dropna=False)[value]:
        mean, error = mean_and_error(values.to_numpy(dtype=float))
        half = half_width(error, len(values)) if len(values) > 1 else 0.0
        rows.append((*keys, mean, error, half, len(values)))
    return pd.DataFrame(rows, columns=[*by, *MEANS])


def mean_traces(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Means of traces over trials and the half widths of their intervals, a row for each point.

    Args:
        frame: with columns `along` and `trace`; rows without them are left out.
        by: the columns that make a group, whose traces were taken at the same points.
    """
    import pandas as pd

    curves = []
    for keys, rows in frame.dropna(subset="trace").groupby(list(by), sort=False):
        mean, half = mean_and_band(np.stack(list(rows["trace"])))
        curve = {"at": rows["along"].iloc[0], "mean": mean, "half_width": half}
        curves.append(pd.DataFrame({**dict(zip(by, keys, strict=True)), **curve}))
        curves[-1]["trials"] = len(rows)
    return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame()
