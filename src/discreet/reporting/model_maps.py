"""The map of what a kernel learner released: where it expects the reward to be high, how surely.

Over two columns, the posterior mean as colours and the posterior standard deviation as contour
lines; over one, the mean with a band. The other columns stand where the study's `[report]` says.

| array     | shape  | meaning                                        |
|-----------|--------|------------------------------------------------|
| mean      | (N,)   | expected reward at the points of a grid        |
| deviation | (N,)   | how far it may be off, one standard deviation  |
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from discreet.domain import Box
from discreet.learners.gp_ucb.policy import GPPolicy
from discreet.reporting.maps import MapPanel, map_panels
from discreet.reporting.palette import BLUE, BODY, INK, SMALL, literal
from discreet.studies import ReportEntry
from discreet.validation import FloatArray

_GRID = 61
_LEFT, _RIGHT, _BOTTOM, _TOP = 0.62, 0.85, 0.48, 0.52  # inches
_COLORS = "cividis"  # even in lightness, and the same to colour-blind readers


@runtime_checkable
class Predicts(Protocol):
    """A policy that says what it expects anywhere."""

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean and standard deviation at points (n, d)."""


def predictor(policy: object) -> Predicts | None:
    """What predicts for a policy; None for policies that do not."""
    if isinstance(policy, GPPolicy):
        return policy.model
    return policy if isinstance(policy, Predicts) else None


def model_figure(
    model: Predicts, domain: Box, report: ReportEntry, title: str, width: float
) -> Figure:
    """The map of one released model, `width` inches wide."""
    panel = map_panels(domain, report)[0]
    single = len(panel.axes) == 1
    right = 0.15 if single else _RIGHT
    inside = width - _LEFT - right
    height = min(0.5 * inside, 1.8) if single else min(0.72 * inside, 2.6)
    whole = _TOP + height + _BOTTOM
    figure = Figure(figsize=(width, whole))
    FigureCanvasAgg(figure)
    axes = figure.add_axes(
        (_LEFT / width, _BOTTOM / whole, inside / width, height / whole), facecolor="white"
    )
    x, mean, deviation = _over(model, domain, panel)
    if single:
        _draw_curve(axes, x[0], mean, deviation)
        axes.set_ylabel("expected reward", fontsize=SMALL, color=INK, labelpad=2)
    else:
        shape = (_GRID, _GRID)
        bar = figure.add_axes(
            ((width - right + 0.12) / width, _BOTTOM / whole, 0.1 / width, height / whole)
        )
        _draw_map(figure, axes, bar, x, mean.reshape(shape), deviation.reshape(shape))
        axes.set_ylabel(domain.names[panel.axes[1]], fontsize=SMALL, color=INK, labelpad=2)
    axes.set_xlabel(domain.names[panel.axes[0]], fontsize=SMALL, color=INK, labelpad=2)
    axes.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.5, width=0.6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    for spine in axes.spines.values():
        spine.set_visible(False)
    start = (_LEFT - 0.02) / width
    figure.text(start, 1.0 - 0.06 / whole, title, fontsize=BODY, weight="bold", color=INK, va="top")
    figure.text(start, 1.0 - 0.29 / whole, panel.title, fontsize=SMALL, color=INK, va="top")
    return literal(figure)


def _over(
    model: Predicts, domain: Box, panel: MapPanel
) -> tuple[list[FloatArray], FloatArray, FloatArray]:
    """Places along each shown column in declared units, and the predictions on their grid."""
    steps = np.linspace(0.0, 1.0, _GRID)
    mesh = np.meshgrid(*[steps] * len(panel.axes), indexing="ij")
    unit = np.tile(panel.point, (mesh[0].size, 1))
    for column, values in zip(panel.axes, mesh, strict=True):
        unit[:, column] = values.ravel()
    mean, deviation = model.predict(domain.from_unit(unit))
    places = [
        domain.lower[column] + steps * (domain.upper[column] - domain.lower[column])
        for column in panel.axes
    ]
    return places, mean, deviation


def _draw_curve(axes: Axes, x: FloatArray, mean: FloatArray, deviation: FloatArray) -> None:
    axes.fill_between(x, mean - deviation, mean + deviation, color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(x, mean, color=BLUE, linewidth=1.8)
    axes.set_xlim(x[0], x[-1])


def _draw_map(
    figure: Figure,
    axes: Axes,
    bar: Axes,
    x: list[FloatArray],
    mean: FloatArray,
    deviation: FloatArray,
) -> None:
    """Colours for the mean, lines for the deviation, and the scale of the colours beside."""
    colors = Normalize(float(mean.min()), float(mean.max()) + 1e-12)
    shown = axes.pcolormesh(
        x[0], x[1], mean.T, cmap=_COLORS, norm=colors, shading="gouraud", rasterized=True
    )
    if np.ptp(deviation) > 1e-9:
        lines = axes.contour(x[0], x[1], deviation.T, levels=4, colors="white", linewidths=0.8)
        axes.clabel(lines, fontsize=SMALL - 1.5, fmt="±%.2g")
    scale = figure.colorbar(shown, cax=bar)
    scale.outline.set_visible(False)
    scale.locator = MaxNLocator(5)
    scale.update_ticks()
    bar.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.0, width=0.6)
    bar.set_ylabel("expected reward", fontsize=SMALL, color=INK, labelpad=3)
