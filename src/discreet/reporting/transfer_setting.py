"""Figures 4 and 5 of Ma et al. (2025): reward functions, and densities of sources' contexts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discreet.problems.synthetic import Centres, ExponentialMeans, symmetric_means
from discreet.reporting.end_labels import EndLabel, draw_end_labels, label_margin
from discreet.reporting.palette import (
    BODY,
    FAINT,
    INK,
    SMALL,
    Stroke,
    arm_colors,
    literal,
    text_inches,
)
from discreet.reporting.plots import plain
from discreet.validation import FloatArray

_WIDTH, _PANEL = 10.4, 2.4  # inches
_LEFT, _BOTTOM, _TOP, _BETWEEN, _GAP = 0.6, 0.5, 0.4, 0.85, 0.5
_HEIGHT = _BOTTOM + _TOP + 3 * _PANEL + 2 * _BETWEEN
_BAR = 0.15 + text_inches("0.00") + 0.2
_POINTS = 201
_TITLES: tuple[tuple[Centres, str], ...] = (
    ("paper", "exponential mean rewards, centres k / K (the paper's text)"),
    ("program", "exponential mean rewards, centres k / (K + 1) (its program)"),
)


def setting_figure(arms: int = 3, gammas: Sequence[float] = (0.2, 1.0, 2.0)) -> Figure:
    """Three rows: exponential mean rewards along the first column, symmetric ones on the square
    (supplement S.4.3), and the densities c ||x - 1/2||^gamma.

    Args:
        arms: K of the exponential rewards; the symmetric ones have two arms.
        gammas: one panel each.
    """
    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=200)
    FigureCanvasAgg(figure)
    _exponential(figure, arms)
    means = symmetric_means(_square()).T.reshape(2, _POINTS, _POINTS)
    titles = [f"symmetric mean rewards (supplement S.4.3), arm {k}" for k in (1, 2)]
    _maps(figure, 1, list(zip(titles, means, strict=True)), "Greens", 1.0)
    densities = [(f"density of contexts, gamma {gamma:g}", density(gamma)) for gamma in gammas]
    most = max(float(values.max()) for _, values in densities)
    _maps(figure, 2, densities, "Blues", most)
    return literal(figure)


def _exponential(figure: Figure, arms: int) -> None:
    right = label_margin([f"arm {k + 1}" for k in range(arms)])
    inside = (_WIDTH - _LEFT - 2 * right - _GAP) / 2
    x = np.linspace(0.0, 1.0, _POINTS)
    for column, (centres, title) in enumerate(_TITLES):
        axes = _panel(figure, 0, _LEFT + column * (inside + right + _GAP), inside)
        plain(axes)
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        means = ExponentialMeans(arms, centres)(x[:, None])
        axes.set_ylim(0.0, 1.05)
        axes.set_xlim(0.0, 1.0)
        ends = []
        for k, color in enumerate(arm_colors(arms)):
            axes.plot(x, means[:, k], color=color, linewidth=1.8)
            ends.append(EndLabel(f"arm {k + 1}", float(means[-1, k]), Stroke(color)))
        axes.set_title(title, loc="left", fontsize=BODY, color=INK)
        axes.set_xlabel("first column of the context", fontsize=BODY, color=INK)
        axes.tick_params(labelsize=SMALL)
        draw_end_labels(axes, ends, _PANEL, inside)


def _maps(
    figure: Figure, row: int, panels: Sequence[tuple[str, FloatArray]], colors: str, most: float
) -> None:
    """Values on the square (points, points) by title, on one scale from 0 to `most`."""
    side = (_WIDTH - _LEFT - _BAR - 0.2 - (len(panels) - 1) * _GAP) / len(panels)
    for place, (title, values) in enumerate(panels):
        left = _LEFT + place * (side + _GAP)
        axes = _panel(figure, row, left, side)
        image = axes.imshow(
            values, origin="lower", extent=(0, 1, 0, 1), cmap=colors, vmin=0.0, vmax=most,
            aspect="auto",
        )  # fmt: skip
        axes.set_title(title, loc="left", fontsize=BODY, color=INK)
        axes.set_xlabel("first column", fontsize=BODY, color=INK)
        if place == 0:
            axes.set_ylabel("second column", fontsize=BODY, color=INK)
        axes.tick_params(labelsize=SMALL)
        if place == len(panels) - 1:
            scale = _panel(figure, row, left + side + 0.15, 0.12)
            figure.colorbar(image, cax=scale)
            scale.tick_params(labelsize=SMALL)


def _panel(figure: Figure, row: int, left: float, width: float) -> Axes:
    """Axes in a row from the top; `left` and `width` in inches."""
    bottom = _BOTTOM + (2 - row) * (_PANEL + _BETWEEN)
    axes: Axes = figure.add_axes(
        (left / _WIDTH, bottom / _HEIGHT, width / _WIDTH, _PANEL / _HEIGHT)
    )
    return axes


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
