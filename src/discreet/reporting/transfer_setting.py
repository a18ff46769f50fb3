"""Figures 4 and 5 of Ma et al. (2025): reward functions, and densities of sources' contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from discreet.problems.synthetic import Centres, ExponentialMeans, symmetric_means
from discreet.reporting.figures import draw_lines, heat, ruler
from discreet.reporting.layout import finish, mosaic, wrapped
from discreet.reporting.palette import BODY, INK, Stroke, arm_colors
from discreet.validation import FloatArray

_HEIGHT = 2.4  # inches
_POINTS = 201
_CENTRES: dict[str, Centres] = {
    "exponential mean rewards, centres k / K (the paper's text)": "paper",
    "exponential mean rewards, centres k / (K + 1) (its program)": "program",
}


def setting_figure(arms: int = 3, gammas: Sequence[float] = (0.2, 1.0, 2.0)) -> Figure:
    """Three rows: exponential mean rewards along the first column, symmetric ones on the square
    (supplement S.4.3), and the densities c ||x - 1/2||^gamma.

    Args:
        arms: K of the exponential rewards; the symmetric ones have two arms.
        gammas: one panel each.
    """
    densities = {f"density of contexts, gamma {gamma:g}": density(gamma) for gamma in gammas}
    symmetric = symmetric_means(_square()).T.reshape(2, _POINTS, _POINTS)
    means = {
        f"symmetric mean rewards (supplement S.4.3), arm {k + 1}": symmetric[k] for k in range(2)
    }
    # As many cells in all rows.
    rows = [list(_CENTRES), list(means), list(densities)]
    cells = math.lcm(*map(len, rows))
    figure, panels = mosaic([np.repeat(row, cells // len(row)).tolist() for row in rows])
    for title, axes in panels.items():
        axes.set_title(wrapped(title, 4.2, BODY), loc="left", fontsize=BODY, color=INK)
        axes.set_xlabel("first column of the context", fontsize=BODY, color=INK)
    for title, centres in _CENTRES.items():
        _draw_exponential(panels[title], arms, centres)
    _draw_maps(figure, panels, means, "Greens", 1.0)
    most = max(float(values.max()) for values in densities.values())
    _draw_maps(figure, panels, densities, "Blues", most)
    return finish(figure, _HEIGHT)


def _draw_exponential(axes: Axes, arms: int, centres: Centres) -> None:
    x = np.linspace(0.0, 1.0, _POINTS)
    means = ExponentialMeans(arms, centres)(x[:, None])
    names = [f"arm {k + 1}" for k in range(arms)]
    frame = pd.DataFrame(
        {
            "name": np.repeat(names, _POINTS),
            "x": np.tile(x, arms),
            "mean": means.T.ravel(),
            "half_width": 0.0,
        }
    )
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.05)
    colors = arm_colors(arms)
    draw_lines(axes, frame, {name: Stroke(colors[k]) for k, name in enumerate(names)})


def _draw_maps(
    figure: Figure,
    panels: Mapping[str, Axes],
    maps: Mapping[str, FloatArray],
    colors: str,
    most: float,
) -> None:
    """Values on the square (points, points) by title, on one scale from 0 to `most`."""
    row = [panels[title] for title in maps]
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    for axes, values in zip(row, maps.values(), strict=True):
        shown = heat(axes, at, at, values.T, (0.0, most), colors)
    row[0].set_ylabel("second column", fontsize=BODY, color=INK)
    ruler(figure, shown, row)


def _square() -> FloatArray:
    """(points^2, 2) the middles of the cells of the square, row by row from the bottom."""
    at = (np.arange(_POINTS) + 0.5) / _POINTS
    second, first = np.meshgrid(at, at, indexing="ij")
    square: FloatArray = np.stack([first.ravel(), second.ravel()], axis=1)
    return square


def density(gamma: float, points: int = _POINTS) -> FloatArray:
    """(points, points) of contexts in the square: (2 + gamma) / 2 (2 ||x - 1/2||_inf)^gamma.

    It integrates to 1. What section 4.1 prints as the normalising constant is the integral of
    ||x - 1/2||_inf^gamma, by which one divides.
    """
    at = np.abs((np.arange(points) + 0.5) / points - 0.5)
    norm = np.maximum(at[:, None], at[None, :])
    values: FloatArray = (2.0 + gamma) / 2.0 * (2.0 * norm) ** gamma
    return values
