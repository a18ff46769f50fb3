"""The figure of a search: answers against questions, the best so far, and the simple regret.

Regret has a panel of its own under the answers where the optimum is known. Sizes are in inches.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from discreet.reporting.column_units import number_text
from discreet.reporting.end_labels import EndLabel, draw_end_labels, label_margin
from discreet.reporting.palette import BLUE, BODY, FAINT, INK, VERMILLION, Stroke, literal
from discreet.reporting.plots import plain
from discreet.reporting.row_axes import EvenTicks, roomy, tick_width
from discreet.reporting.search_view import SearchView
from discreet.validation import FloatArray

_BOTTOM, _TOP, _BETWEEN = 0.5, 0.32, 0.5
_ANSWERS, _REGRET = 2.6, 1.3
_TICKS, _FEW = 5, 3
_ROOMY = 4.5  # from here on there is room for more ticks and words
_GREY, _BAND = "#8A8A8A", "#F1F1F3"
_BEST, _KNOWN = Stroke(BLUE, width=1.9), Stroke("#3A3A3A", (0, (5, 2)), 1.2)
_LOST = Stroke(VERMILLION, width=1.9)
# More dots than this are drawn as pixels.
_MANY = 400


def answers_figure(view: SearchView, width: float) -> Figure:
    """Answers by question and, with a known optimum, the regret of the best so far.

    Args:
        view: a search with at least one answer.
        width: of the figure.
    """
    with_regret = view.optimum is not None
    ends = _ends(view)
    lost = _lost(view) if with_regret else []
    left, right = _left(view), label_margin([end.text for end in [*ends, *lost]])
    inside = width - left - right
    height = _BOTTOM + _ANSWERS + _TOP + with_regret * (_REGRET + _BETWEEN)
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    panels = [(height - _TOP - _ANSWERS, _ANSWERS)] + [(_BOTTOM, _REGRET)] * with_regret
    made = [
        figure.add_axes((left / width, bottom / height, inside / width, tall / height))
        for bottom, tall in panels
    ]
    for axes in made:
        _prepare(axes, view, inside)
    _draw_answers(made[0], view)
    draw_end_labels(made[0], ends, _ANSWERS, inside)
    if with_regret:
        made[0].tick_params(axis="x", labelbottom=False)
        _draw_regret(made[1], view, inside)
        draw_end_labels(made[1], lost, _REGRET, inside)
    made[-1].set_xlabel("question", fontsize=BODY, color=INK)
    return literal(figure)


def _prepare(axes: Axes, view: SearchView, inside: float) -> None:
    plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    last = _last(view)
    axes.set_xlim(0.5, last + 0.5)
    if view.warm_up:
        axes.axvspan(0.5, view.warm_up + 0.5, color=_BAND, linewidth=0, zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(8 if inside > _ROOMY else 4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(_TICKS))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(EvenTicks())


def _draw_answers(axes: Axes, view: SearchView) -> None:
    """A dot for each answer, a step line for the best so far, crosses for what cannot be."""
    many = len(view.answers) > _MANY
    if view.answer_noise:
        axes.errorbar(
            view.questions,
            view.answers,
            yerr=view.answer_noise,
            fmt="none",
            ecolor="#C9C9CE",
            elinewidth=0.9,
            rasterized=many,
        )
    axes.scatter(
        view.questions, view.answers, s=16, c=_GREY, linewidths=0, zorder=3, rasterized=many
    )
    at, best = _steps(view, view.so_far)
    axes.plot(at, best, drawstyle="steps-post", color=_BEST.color, linewidth=_BEST.width, zorder=4)
    place = view.best_place
    axes.scatter(
        view.questions[place],
        view.answers[place],
        s=110,
        marker="*",
        c="white",
        edgecolors=INK,
        linewidths=0.9,
        zorder=5,
    )
    if view.optimum is not None:
        axes.axhline(
            view.optimum, color=_KNOWN.color, linestyle=_KNOWN.dashes, linewidth=_KNOWN.width
        )
    low, high = _limits(view)
    axes.set_ylim(low, high)
    failed = [one.question.number for one in view.turn.asked if one.status == "impossible"]
    axes.scatter(
        failed,
        np.full(len(failed), low + 0.02 * (high - low)),
        marker="x",
        s=22,
        c=VERMILLION,
        linewidths=1.2,
        zorder=3,
        clip_on=False,
        rasterized=len(failed) > _MANY,
    )
    best_word = "lowest" if view.minimize else "highest"
    axes.set_title(f"answers and the {best_word} so far", loc="left", fontsize=BODY, color=INK)


def _draw_regret(axes: Axes, view: SearchView, inside: float) -> None:
    regret = view.regret(view.so_far)
    at, steps = _steps(view, regret)
    axes.plot(at, steps, drawstyle="steps-post", color=_LOST.color, linewidth=_LOST.width)
    axes.set_ylim(*_regret_limits(view))
    axes.yaxis.set_major_locator(MaxNLocator(_FEW))
    meaning = ": how far the best so far is from the optimum" if inside > _ROOMY else ""
    axes.set_title(f"simple regret{meaning}", loc="left", fontsize=BODY, color=INK)


def _limits(view: SearchView) -> tuple[float, float]:
    """The ends of the axis of answers."""
    seen = [view.answers - view.answer_noise, view.answers + view.answer_noise]
    if view.optimum is not None:
        seen.append(np.array([view.optimum]))
    return roomy(np.concatenate(seen), 0.07)


def _regret_limits(view: SearchView) -> tuple[float, float]:
    """The ends of the axis of regret, which shows 0."""
    regret = view.regret(view.so_far)
    low, high = float(min(regret.min(), 0.0)), float(max(regret.max(), 0.0))
    if high == low:
        high = low + 1.0
    return low - 0.04 * (high - low), high + 0.06 * (high - low)


def _left(view: SearchView) -> float:
    """Inches for the ticks left of the panels."""
    ticks = [MaxNLocator(_TICKS).tick_values(*_limits(view))[1:-1]]
    if view.optimum is not None:
        ticks.append(MaxNLocator(_FEW).tick_values(*_regret_limits(view))[1:-1])
    return max(0.4, 0.15 + max(tick_width([float(value) for value in one]) for one in ticks))


def _ends(view: SearchView) -> list[EndLabel]:
    """What the lines of the answers are, at their right ends."""
    best = float(view.so_far[-1])
    ends = [EndLabel(f"best so far\n{number_text(best)}", best, _BEST)]
    if view.optimum is not None:
        ends.append(EndLabel(f"optimum\n{number_text(view.optimum)}", view.optimum, _KNOWN))
    return ends


def _lost(view: SearchView) -> list[EndLabel]:
    regret = float(view.regret(view.so_far)[-1])
    return [EndLabel(f"regret\n{number_text(regret, 4)}", regret, _LOST)]


def _last(view: SearchView) -> int:
    """The last question that is settled."""
    settled = [one.question.number for one in view.turn.asked if one.status != "waiting"]
    return max(settled)


def _steps(view: SearchView, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A line that goes on to the right border."""
    at = np.append(view.questions, _last(view) + 0.5).astype(np.float64)
    return at, np.append(values, values[-1])
