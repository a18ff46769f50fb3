"""Figures 4 and 5 of Ma et al. (2025): reward functions, and densities of sources' contexts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discreet.problems.synthetic import Centres, ExponentialMeans
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
_POINTS = 201
_TITLES: tuple[tuple[Centres, str], ...] = (
    ("paper", "mean rewards, centres k / K (the paper's text)"),
    ("program", "mean rewards, centres k / (K + 1) (its program)"),
)


def setting_figure(arms: int = 3, gammas: Sequence[float] = (0.2, 1.0, 2.0)) -> Figure:
    """Mean rewards along the first column above; the densities c ||x - 1/2||^gamma below.

    Args:
        arms: K.
        gammas: one panel each.
    """
    height = _BOTTOM + _TOP + 2 * _PANEL + _BETWEEN
    figure = Figure(figsize=(_WIDTH, height), dpi=200)
    FigureCanvasAgg(figure)
    right = label_margin([f"arm {k + 1}" for k in range(arms)])
    inside = (_WIDTH - _LEFT - 2 * right - _GAP) / 2
    x = np.linspace(0.0, 1.0, _POINTS)
    for column, (centres, title) in enumerate(_TITLES):
        left = _LEFT + column * (inside + right + _GAP)
        shape = (
            left / _WIDTH,
            (_BOTTOM + _PANEL + _BETWEEN) / height,
            inside / _WIDTH,
            _PANEL / height,
        )
        axes = figure.add_axes(shape)
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
    densities = [density(gamma) for gamma in gammas]
    most = max(float(one.max()) for one in densities)
    bar = 0.15 + text_inches("0.00") + 0.2
    side = (_WIDTH - _LEFT - bar - 0.2 - (len(gammas) - 1) * _GAP) / len(gammas)
    for place, (gamma, values) in enumerate(zip(gammas, densities, strict=True)):
        left = _LEFT + place * (side + _GAP)
        shape = (left / _WIDTH, _BOTTOM / height, side / _WIDTH, _PANEL / height)
        axes = figure.add_axes(shape)
        image = axes.imshow(
            values, origin="lower", extent=(0, 1, 0, 1), cmap="Blues", vmin=0.0, vmax=most,
            aspect="auto",
        )  # fmt: skip
        axes.set_title(
            f"density of contexts, gamma {gamma:g}", loc="left", fontsize=BODY, color=INK
        )
        axes.set_xlabel("first column", fontsize=BODY, color=INK)
        if place == 0:
            axes.set_ylabel("second column", fontsize=BODY, color=INK)
        axes.tick_params(labelsize=SMALL)
        if place == len(gammas) - 1:
            edge = (left + side + 0.15) / _WIDTH
            scale = figure.add_axes((edge, _BOTTOM / height, 0.12 / _WIDTH, _PANEL / height))
            figure.colorbar(image, cax=scale)
            scale.tick_params(labelsize=SMALL)
    return literal(figure)


def density(gamma: float, points: int = _POINTS) -> FloatArray:
    """(points, points) of contexts in the square: (2 + gamma) / 2 (2 ||x - 1/2||_inf)^gamma.

    It integrates to 1. What section 4.1 prints as the normalising constant is the integral of
    ||x - 1/2||_inf^gamma, by which one divides.
    """
    at = np.abs((np.arange(points) + 0.5) / points - 0.5)
    norm = np.maximum(at[:, None], at[None, :])
    values: FloatArray = (2.0 + gamma) / 2.0 * (2.0 * norm) ** gamma
    return values
