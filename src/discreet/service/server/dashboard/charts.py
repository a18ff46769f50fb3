"""Charts as SVG inside a page: a line with its band, and shares.

They take their colours from the page (`currentColor` and its classes), so they are right in the
dark and in print, and say in words what they show. A page holds each twice, wide and narrow, and
its style shows one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from discreet.lab.reporting.numbers import aligned_texts, thousands

MINUS = "\u2212"
WIDE, NARROW = 540, 340
_HEIGHT = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 22, 12, 42
# Classes of colours that the style has.
COLORS = 7


@dataclass(frozen=True)
class Mark:
    """A number of a chart.

    Attributes:
        at: where along the x axis.
        mean, lower, upper: the number and its band.
        other: of a second line; NaN for none.
    """

    at: float
    mean: float
    lower: float
    upper: float
    other: float = math.nan


def both(draw: Callable[[int], Markup]) -> Markup:
    """A chart for wide screens and for narrow ones."""
    return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(
        draw(WIDE), draw(NARROW)
    )


def line_chart(marks: Sequence[Mark], name: str, words: str, across: str) -> Markup:
    """A line with its band, and a dashed second line where marks have one.

    Args:
        marks: at least one, from left to right.
        name: what is shown, in a few words.
        words: what is seen, for readers who cannot see it.
        across: what the x axis is.
    """

    def draw(width: int) -> Markup:
        seen = [each for mark in marks for each in (mark.lower, mark.upper)]
        up, steps = _scale(min(seen), max(seen), _HEIGHT - _BOTTOM, _TOP, 5)
        along, places = _scale(0.0, max(marks[-1].at, 1.0), _LEFT, width - _RIGHT, width // 110)
        parts = _axes(width, up, steps, along, places, across)
        corners = [(along(m.at), up(m.upper)) for m in marks]
        corners += [(along(m.at), up(m.lower)) for m in reversed(marks)]
        parts.append(f'<polygon class="band" points="{_points(corners)}"/>')
        if len(marks) == 1:
            (x, top), (_, bottom) = corners
            parts.append(f'<path class="whisker" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
        second = [(along(m.at), up(m.other)) for m in marks if math.isfinite(m.other)]
        parts.append(f'<polyline class="second" points="{_points(second)}"/>')
        line = [(along(m.at), up(m.mean)) for m in marks]
        parts.append(f'<polyline class="line" points="{_points(line)}"/>')
        x, y = line[-1]
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
        return _svg(width, _HEIGHT, name, words, parts)

    return both(draw)


def share_bar(shares: Sequence[float]) -> Markup:
    """Shares that add up to 1 beside each other; a table beside it says them in numbers."""
    parts, left = [], 0.0
    for place, share in enumerate(shares):
        parts.append(
            f'<rect class="arm-{place % COLORS}" x="{100.0 * left:.2f}" y="0" '
            f'width="{100.0 * share:.2f}" height="10"/>'
        )
        left += share
    return Markup(
        '<svg class="shares" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _axes(
    width: int,
    up: Callable[[float], float],
    steps: Sequence[float],
    along: Callable[[float], float],
    places: Sequence[float],
    across: str,
) -> list[str]:
    parts = []
    for step, tick in zip(steps, aligned_texts(steps, 12), strict=True):
        y = up(step)
        parts.append(f'<path class="rule" d="M{_LEFT} {y:.1f}H{width - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, y + 4, tick.replace("-", MINUS), "end"))
    for place in places:
        parts.append(_text(along(place), _HEIGHT - _BOTTOM + 18, thousands(place), "middle"))
    parts.append(_text(0.5 * (width + _LEFT - _RIGHT), _HEIGHT - 5, across, "middle"))
    return parts


def _scale(
    low: float, high: float, first: float, last: float, most: int
) -> tuple[Callable[[float], float], list[float]]:
    """Where numbers from low to high stand between two places, and round ones on the way."""
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / max(most, 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough * (1.0 - 1e-9))
    low, high = min(low, math.floor(low / step) * step), max(high, math.ceil(high / step) * step)
    count = round((high - low) / step)
    ticks = [round((math.ceil(low / step) + k) * step, 12) for k in range(count + 1)]
    return lambda value: first + (last - first) * (value - low) / (high - low), ticks


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _text(x: float, y: float, content: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def _svg(width: int, height: int, name: str, words: str, parts: Sequence[str]) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(f"{name}. {words}")}"><title>{escape(name)}</title>'
        f"{''.join(parts)}</svg>"
    )
