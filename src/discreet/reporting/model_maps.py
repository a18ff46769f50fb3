"""The map of what a kernel learner released: where it expects the reward to be high, how surely.

Over two columns, the posterior mean as colours and the posterior standard deviation as contour
lines; over one, the mean with a band. The other columns stand where the study's `[report]` says.
Marks on it (map_marks.py) show where people are sent and where it is truly best.

| array     | shape  | meaning                                                      |
|-----------|--------|--------------------------------------------------------------|
| mean      | (N,)   | expected reward at the points of a grid                      |
| deviation | (N,)   | how far it may be off, one standard deviation                |
| possible  | (N,)   | whether anybody can be given the point; the rest stays blank |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from discreet.domain import Box
from discreet.learners.gp_ucb.mode import GPPolicy
from discreet.problems.base import Problem
from discreet.reporting.map_heads import head
from discreet.reporting.map_marks import Marks, can_be_given, marks_of, shown_ranges
from discreet.reporting.maps import MapPanel
from discreet.reporting.palette import BLUE, INK, SMALL, VERMILLION, literal, shortened
from discreet.validation import BoolArray, FloatArray, InvalidInput

_GRID = 61
_LEFT, _RIGHT, _BOTTOM = 0.62, 0.85, 0.48  # inches
COLORS = "cividis"  # even in lightness, and the same to colour-blind readers
_BLANK = "#EDEDED"
_FULL_DOT, _LEAST_DOT, _PERSON_DOT = 160.0, 2.0, 20.0  # square points
_OUTLINE = [withStroke(linewidth=2.6, foreground=INK)]
_THIN = [withStroke(linewidth=1.6, foreground=(0.13, 0.13, 0.13, 0.55))]


@runtime_checkable
class Predicts(Protocol):
    """A policy that says what it expects anywhere."""

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean and standard deviation at points (n, d)."""


@dataclass(frozen=True)
class ModelMap:
    """One cut through a released model (see the module's table).

    Attributes:
        panel: the cut.
        domain: the public bounds of its columns.
        places: for each shown column where the grid stands, in declared units.
        marks: what is marked.
    """

    panel: MapPanel
    domain: Box
    places: tuple[FloatArray, ...]
    mean: FloatArray
    deviation: FloatArray
    possible: BoolArray
    marks: Marks


def predictor(policy: object) -> Predicts | None:
    """What predicts for a policy; None for policies that do not."""
    if isinstance(policy, GPPolicy):
        return policy.model
    return policy if isinstance(policy, Predicts) else None


def model_map(
    model: Predicts, policy: object, problem: Problem, panel: MapPanel
) -> ModelMap | None:
    """The cut `panel` through what `policy` released, whose predictions are `model`'s.

    None where it predicts at a few points only (finite features) instead of everywhere.
    """
    domain = problem.domain
    steps = [np.linspace(*ends, _GRID) for ends in shown_ranges(problem, panel)]
    mesh = np.meshgrid(*steps, indexing="ij")
    unit = np.tile(panel.point, (mesh[0].size, 1))
    for column, values in zip(panel.axes, mesh, strict=True):
        unit[:, column] = values.ravel()
    points = domain.from_unit(unit)
    try:
        mean, deviation = model.predict(points)
    except InvalidInput:
        return None
    places = tuple(
        domain.lower[column] + part * (domain.upper[column] - domain.lower[column])
        for column, part in zip(panel.axes, steps, strict=True)
    )
    possible = can_be_given(problem, points)
    marks = marks_of(policy, problem, panel)
    return ModelMap(panel, domain, places, mean, deviation, possible, marks)


def shared_scale(maps: Sequence[ModelMap], problem: Problem) -> tuple[float, float]:
    """The expected rewards at the ends of the colours, the same for all maps of a report."""
    return scale_of(np.concatenate([one.mean[one.possible] for one in maps]), problem)


def scale_of(seen: FloatArray, problem: Problem) -> tuple[float, float]:
    """The ends of a scale for the expected rewards (n,) that were seen.

    It reaches no further than the bounds of a reward: a model may expect more, in error.
    """
    bounds = problem.reward_bounds
    if not len(seen):
        return bounds.lower, bounds.upper
    low, high = np.clip([seen.min(), seen.max()], bounds.lower, bounds.upper)
    if high - low < 1e-3 * (bounds.upper - bounds.lower):
        return bounds.lower, bounds.upper
    return float(low), float(high)


def model_figure(shown: ModelMap, scale: tuple[float, float], title: str, width: float) -> Figure:
    """The figure of one map, `width` inches wide, in the colours of `scale`."""
    panel, names = shown.panel, shown.domain.names
    single = len(panel.axes) == 1
    right = 0.15 if single else _RIGHT
    inside = width - _LEFT - right
    height = min(0.5 * inside, 1.8) if single else min(0.72 * inside, 2.6)
    above = head(title, panel.title, _legend(shown), _LEFT - 0.02, width)
    whole = above.height + 0.06 + height + _BOTTOM
    figure = Figure(figsize=(width, whole))
    FigureCanvasAgg(figure)
    axes = figure.add_axes(
        (_LEFT / width, _BOTTOM / whole, inside / width, height / whole), facecolor=_BLANK
    )
    if single:
        _draw_curve(axes, shown)
        axes.set_ylabel("expected reward", fontsize=SMALL, color=INK, labelpad=2)
    else:
        bar = figure.add_axes(
            ((width - right + 0.12) / width, _BOTTOM / whole, 0.1 / width, height / whole)
        )
        _draw_map(figure, axes, bar, shown, scale)
        axes.set_ylabel(
            shortened(names[panel.axes[1]], height), fontsize=SMALL, color=INK, labelpad=2
        )
    axes.set_xlabel(shortened(names[panel.axes[0]], inside), fontsize=SMALL, color=INK, labelpad=2)
    _quiet(axes, shown)
    above.draw(figure)
    return literal(figure)


def _quiet(axes: Axes, shown: ModelMap) -> None:
    """Few ticks, categories by their names, no box."""
    axes.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.5, width=0.6)
    for axis, column in zip((axes.xaxis, axes.yaxis), shown.panel.axes, strict=False):
        labels, levels = shown.domain.categories[column], shown.domain.levels[column]
        if labels:
            low, high = shown.domain.lower[column], shown.domain.upper[column]
            axis.set_ticks(np.linspace(low, high, len(labels)), labels)
        else:
            axis.set_major_locator(MaxNLocator(5, integer=levels is not None))
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_curve(axes: Axes, shown: ModelMap) -> None:
    """One column: the mean with a band, people along the lower border, best points as stars."""
    x = shown.places[0]
    mean = np.where(shown.possible, shown.mean, np.nan)
    low, high = mean - shown.deviation, mean + shown.deviation
    axes.set_facecolor("white")
    axes.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(x, mean, color=BLUE, linewidth=1.8)
    axes.set_xlim(x[0], x[-1])
    bottom, top = (np.nanmin(low), np.nanmax(high)) if shown.possible.any() else (0.0, 1.0)
    pad = 0.08 * (top - bottom) + 1e-9
    axes.set_ylim(bottom - 1.5 * pad, top + pad)
    marks, border = shown.marks, bottom - 0.7 * pad
    sent = np.column_stack([marks.sent, np.full(len(marks.sent), border)])
    best = marks.best[:, 0]
    stars = np.column_stack([best, np.interp(best, x, shown.mean)])
    _draw_marks(axes, Marks(sent, marks.shares, stars))


def _draw_map(
    figure: Figure, axes: Axes, bar: Axes, shown: ModelMap, scale: tuple[float, float]
) -> None:
    """Colours for the mean, lines for the deviation, and the scale of the colours beside."""
    x, shape = shown.places, (_GRID, _GRID)
    mean, possible = shown.mean.reshape(shape), shown.possible.reshape(shape)
    deviation = np.where(possible, shown.deviation.reshape(shape), np.nan)
    colors = axes.pcolormesh(
        x[0], x[1], mean.T, cmap=COLORS, norm=Normalize(*scale), shading="gouraud", rasterized=True
    )
    if not possible.all():
        axes.contourf(x[0], x[1], possible.T.astype(float), levels=[-0.5, 0.5], colors=[_BLANK])
    if possible.any() and np.nanmax(deviation) - np.nanmin(deviation) > 1e-9:
        lines = axes.contour(x[0], x[1], deviation.T, levels=4, colors="white", linewidths=0.8)
        lines.set(path_effects=_THIN)
        for text in axes.clabel(lines, fontsize=SMALL - 1.5, fmt="±%.2g"):
            text.set(path_effects=_THIN)
    axes.set_xlim(x[0][0], x[0][-1])
    axes.set_ylim(x[1][0], x[1][-1])
    _draw_marks(axes, shown.marks)
    seen = shown.mean[shown.possible]
    width = 1e-9 + 1e-6 * (scale[1] - scale[0])
    below, above = bool((seen < scale[0] - width).any()), bool((seen > scale[1] + width).any())
    extend = (("neither", "max"), ("min", "both"))[below][above]
    ruler = figure.colorbar(colors, cax=bar, extend=extend)
    ruler.outline.set_visible(False)
    ruler.locator = MaxNLocator(5)
    ruler.update_ticks()
    bar.tick_params(labelsize=SMALL - 0.5, colors="#444444", length=2.0, width=0.6)
    bar.set_ylabel("expected reward", fontsize=SMALL, color=INK, labelpad=3)


def _draw_marks(axes: Axes, marks: Marks) -> None:
    """Dots where people are sent, a star or a curve where it is best; a border cuts off none."""
    if marks.joined:
        axes.plot(*marks.best.T, color="white", linewidth=1.3, path_effects=_OUTLINE, zorder=4)
        sizes = np.full(len(marks.sent), _PERSON_DOT)
    else:
        sizes = np.maximum(_FULL_DOT * marks.shares, _LEAST_DOT)
    many = len(sizes) > 200
    axes.scatter(
        marks.sent[:, 0],
        marks.sent[:, 1],
        s=sizes,
        c=VERMILLION,
        edgecolors="white",
        linewidths=np.where(sizes > 6.0, 0.8, 0.0).tolist(),
        zorder=5,
        clip_on=many,
        rasterized=many,
    )
    if not marks.joined:
        axes.scatter(
            marks.best[:, 0],
            marks.best[:, 1],
            s=95,
            marker="*",
            c="white",
            edgecolors=INK,
            linewidths=0.9,
            zorder=6,
            clip_on=False,
        )


def _legend(shown: ModelMap) -> list[Artist]:
    """What the marks mean."""
    marks, handles = shown.marks, list[Artist]()
    dot: dict[str, Any] = {"linestyle": "", "markeredgecolor": "white", "color": VERMILLION}
    if len(marks.sent):
        text = "given" if marks.joined else "where people are sent"
        handles.append(Line2D([], [], marker="o", markersize=6, label=text, **dot))
    if marks.joined:
        line = Line2D(
            [], [], color="white", linewidth=1.3, path_effects=_OUTLINE, label="truly best"
        )
        handles.append(line)
    elif len(marks.best):
        text = "true optimum" + (" of this cut" if shown.panel.title else "")
        star: dict[str, Any] = {"linestyle": "", "color": "white", "markeredgecolor": INK}
        handles.append(Line2D([], [], marker="*", markersize=10, label=text, **star))
    if not shown.possible.all():
        handles.append(Patch(facecolor=_BLANK, label="nobody can be given this"))
    return handles
