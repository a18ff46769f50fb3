"""Colours and type sizes of all figures; the colours are those of Okabe and Ito, which people with
colour-blindness can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
VERMILLION, SKY, YELLOW, BLACK = "#D55E00", "#56B4E9", "#F0E442", "#000000"

INK = "#222222"
GREY = "#6B6B6B"
FAINT = "#D9D9D9"
UNDECIDED = "#BDBDBD"
BODY, SMALL = 9.0, 8.0  # points

_ARMS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW)
FAMILIES = (BLUE, VERMILLION, GREEN, PURPLE)

Dashes = tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Stroke:
    """How the line of one setting is drawn.

    Attributes:
        color: of everything.
        dashes: of the line.
        width: of the line; 0 for points alone.
        mark: Matplotlib's name of the points' mark; empty for none.
        size: of the marks, in points.
        hollow: whether the marks are white inside.
    """

    color: str
    dashes: Dashes = (0, ())
    width: float = 1.8
    mark: str = ""
    size: float = 5.0
    hollow: bool = False


CHANCE = Stroke(GREY, (0, (1, 1.5)), 1.4)  # choosing at random


def arm_colors(arms: int) -> tuple[str, ...]:
    """One colour for each arm; beyond seven arms they are spread over a colour map."""
    if arms <= len(_ARMS):
        return _ARMS[:arms]
    return tuple(to_hex(color) for color in colormaps["turbo"](np.linspace(0.05, 0.95, arms)))


def tint(color: str, strength: float) -> str:
    """`color` mixed with white; strength 1 is the colour itself."""
    red, green, blue = (1.0 - strength * (1.0 - part) for part in to_rgb(color))
    return to_hex((red, green, blue))


def shade(color: str, strength: float) -> str:
    """`color` mixed with black; strength 1 is the colour itself."""
    red, green, blue = (strength * part for part in to_rgb(color))
    return to_hex((red, green, blue))


def budget_strokes(names: Sequence[str], hue: str, lightest: float = 0.5) -> dict[str, Stroke]:
    """The strokes of one method over its budgets, darker from name to name."""
    strengths = np.linspace(lightest, 1.0, len(names)) if len(names) > 1 else np.ones(1)
    return {
        name: Stroke(tint(hue, float(strength)))
        for name, strength in zip(names, strengths, strict=True)
    }
