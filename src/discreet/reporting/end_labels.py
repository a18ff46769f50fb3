"""Labels beside the ends of lines, moved apart where they would overlap.

Positions y_1 <= .. <= y_n become z with z_{i+1} - z_i >= gap and the least sum of squares
(z_i - y_i)^2: with t_i = z_i - i gap this is isotonic regression, solved by pooling neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import blended_transform_factory

from discreet.reporting.palette import INK, SMALL, Stroke, line_inches, text_inches
from discreet.validation import FloatArray

_LEADER = 0.16  # inches between the axes and the labels


@dataclass(frozen=True)
class EndLabel:
    """A text that belongs to the height `value` at the right border."""

    text: str
    value: float
    stroke: Stroke


def label_margin(texts: Sequence[str]) -> float:
    """Inches that labels need right of the axes."""
    lines = [line for text in texts for line in text.split("\n")]
    return _LEADER + 0.1 + max((text_inches(line) for line in lines), default=0.0)


def stacked_height(texts: Sequence[str]) -> float:
    """Inches that labels need on top of each other."""
    return sum(line_inches() * (1 + text.count("\n")) for text in texts)


def draw_end_labels(axes: Axes, labels: Sequence[EndLabel], height: float, width: float) -> None:
    """Write labels right of the axes, which are `height` by `width` inches on paper."""
    if not labels:
        return
    low, high = axes.get_ylim()
    ordered = sorted(labels, key=lambda label: label.value)
    at = np.clip([(label.value - low) / (high - low) for label in ordered], 0.0, 1.0)
    sizes = np.array([line_inches() * (1 + label.text.count("\n")) / height for label in ordered])
    places = spread(at, sizes)
    side = blended_transform_factory(axes.transAxes, axes.transAxes)
    leader = _LEADER / width
    for label, start, place in zip(ordered, at, places, strict=True):
        axes.plot(
            [1.0, 1.0 + 0.8 * leader],
            [start, place],
            transform=side,
            color=label.stroke.color,
            linewidth=1.0,
            clip_on=False,
        )
        axes.text(
            1.0 + leader,
            float(place),
            label.text,
            transform=side,
            color=INK,
            fontsize=SMALL,
            va="center",
            linespacing=1.05,
        )


def spread(at: FloatArray, sizes: FloatArray) -> FloatArray:
    """Places close to the increasing positions `at` in [0, 1] at which labels do not overlap.

    Args:
        at: (n,) wanted centres, increasing.
        sizes: (n,) the labels' heights in the same unit.

    Returns:
        (n,) centres; all labels lie within [0, 1] when they fit there.
    """
    gaps = 0.5 * (sizes[1:] + sizes[:-1])
    shift = np.concatenate([[0.0], np.cumsum(gaps)])
    blocks: list[tuple[float, int]] = []  # mean and length of each pool
    for value in at - shift:
        mean, length = float(value), 1
        while blocks and blocks[-1][0] > mean:
            earlier, count = blocks.pop()
            mean = (mean * length + earlier * count) / (length + count)
            length += count
        blocks.append((mean, length))
    pooled = np.concatenate([np.full(length, mean) for mean, length in blocks])
    low = 0.5 * float(sizes[0])
    high = max(1.0 - 0.5 * float(sizes[-1]) - float(shift[-1]), low)
    places: FloatArray = np.clip(pooled, low, high) + shift
    return places
