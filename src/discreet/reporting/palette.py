"""Colours and type sizes of all figures; the colours are those of Okabe and Ito, which people with
colour-blindness can tell apart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import TextToPath

from discreet.experiments import BEST_FIXED, ORACLE
from discreet.reporting.summary import UNIFORM, Line, Summary

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
VERMILLION, SKY, YELLOW, BLACK = "#D55E00", "#56B4E9", "#F0E442", "#000000"

INK = "#222222"
GREY = "#6B6B6B"
FAINT = "#D9D9D9"
UNDECIDED = "#BDBDBD"
BODY, SMALL = 9.0, 8.0  # points

_ARMS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW)
_FAMILIES = (BLUE, VERMILLION, GREEN, PURPLE)
_DOTTED, _DASH_DOT, _SOLID = (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, ())
_REFERENCES: dict[str, tuple[int, tuple[float, ...]]] = {
    UNIFORM: _DOTTED,
    BEST_FIXED: _DASH_DOT,
    ORACLE: _SOLID,
}
_OTHERS = ((0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))


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
    dashes: tuple[int, tuple[float, ...]] = (0, ())
    width: float = 1.8
    mark: str = ""
    size: float = 5.0
    hollow: bool = False


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


def strokes(summary: Summary) -> dict[str, Stroke]:
    """The stroke of each label.

    Learners share a hue over their budgets, darker for a larger epsilon and dashed without
    privacy; references that exist only without privacy are grey.
    """
    families = list(dict.fromkeys(line.family for line in summary.private))
    made: dict[str, Stroke] = {}
    for place, family in enumerate(families):
        made |= _family_strokes(
            [line for line in summary.lines if line.family == family],
            _FAMILIES[place % len(_FAMILIES)],
        )
    rest = [line for line in summary.lines if line.label not in made]
    for place, line in enumerate(rest):
        dashes = _REFERENCES.get(line.learner, _OTHERS[place % len(_OTHERS)])
        made[line.label] = Stroke("#6B6B6B", dashes, 1.4)
    return made


def _family_strokes(lines: Sequence[Line], hue: str) -> dict[str, Stroke]:
    private = sorted((line for line in lines if line.private), key=lambda line: line.epsilon or 0.0)
    strengths = np.linspace(0.5, 1.0, len(private)) if len(private) > 1 else np.ones(1)
    made = {
        line.label: Stroke(tint(hue, float(strength)))
        for line, strength in zip(private, strengths, strict=True)
    }
    free = {line.label: Stroke(shade(hue, 0.6), (0, (5, 2))) for line in lines if not line.private}
    return made | free


def literal(figure: Figure) -> Figure:
    """The figure with every text taken as it is: a dollar sign in a name starts no formula."""
    for text in figure.findobj(Text):
        if isinstance(text, Text):
            text.set_parse_math(False)
    return figure


def in_lines(text: str, width: float, size: float = SMALL) -> str:
    """A text broken at spaces, and within words that are wider than `width` inches.

    Words are broken after an underscore where they have one.
    """
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and text_inches(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
        while len(lines[-1]) > 1 and text_inches(lines[-1], size) > width:
            fits = _fitting(lines[-1], width, size)
            fits = 1 + lines[-1].rfind("_", 0, fits) or fits
            lines[-1:] = [lines[-1][:fits], lines[-1][fits:]]
    return "\n".join(lines)


def shortened(text: str, width: float, size: float = SMALL) -> str:
    """A text of at most `width` inches, which ends in an ellipsis where it was longer."""
    if text_inches(text, size) <= width:
        return text
    return text[: _fitting(text, width - text_inches("…", size), size)] + "…"


def _fitting(text: str, width: float, size: float) -> int:
    """How many characters of a text fit, at least one."""
    return (
        bisect_right(range(2, len(text) + 1), width, key=lambda n: text_inches(text[:n], size)) + 1
    )


def line_inches(size: float = SMALL) -> float:
    """How high a line of text is."""
    return 1.25 * size / 72.0


def text_inches(text: str, size: float = SMALL) -> float:
    """How wide a line of text is."""
    width, _, _ = TextToPath().get_text_width_height_descent(
        text, FontProperties(size=size), ismath=False
    )
    return float(width) / 72.0
