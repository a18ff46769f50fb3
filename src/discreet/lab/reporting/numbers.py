"""How numbers are written, in tables, figures and pages: digits, thousands, shares, and lists."""

from __future__ import annotations

import math
from collections.abc import Sequence

ABSENT = "–"  # noqa: RUF001
_LARGE = 1e9  # from here on numbers are written with a power of ten


def thousands(value: float, position: int | None = None) -> str:
    """A tick of an axis: 20,000 or 0.35."""
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:g}"


def decimals(value: float, significant: int, most: int = 6) -> int:
    """Decimals that show this many digits of a value; none for 0 and infinity."""
    if value == 0.0 or not math.isfinite(value):
        return 0
    return min(most, max(0, significant - 1 - math.floor(math.log10(abs(value)))))


def number_text(value: float, digits: int = 6) -> str:
    """A number with this many significant digits: 12,300 or 0.0123."""
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= _LARGE:
        return f"{rounded:.{digits}g}"
    return unsigned_zero(f"{rounded:,.12g}")


def aligned_texts(values: Sequence[float], digits: int = 6) -> list[str]:
    """Numbers with this many significant digits, all with as many decimals as one of them needs."""
    texts = [number_text(value, digits) for value in values]
    if any("e" in text for text in texts):
        return texts
    places = max((len(text.partition(".")[2]) for text in texts), default=0)
    return [unsigned_zero(f"{value:,.{places}f}") for value in values]


def expected_text(mean: float, deviation: float) -> str:
    """203.5 ± 7.5: no more digits than the deviation has."""
    if not deviation > 0.0:
        return f"{number_text(mean, 4)} ± 0"
    return f"{mean:,.{decimals(deviation, 2, 12)}f} ± {number_text(deviation, 2)}"


def about_time(seconds: float) -> str:
    """How long something takes: about 5 s, about 12 min or about 3.5 h."""
    if seconds < 90.0:
        return f"about {max(1, round(seconds))} s"
    if seconds < 5400.0:
        return f"about {round(seconds / 60.0)} min"
    return f"about {seconds / 3600.0:.1f} h"


def share_text(share: float) -> str:
    """A share of a width in per cent: 0.34%, 3.4% or 34%."""
    return f"{number_text(100.0 * share, 2)}%"


def upward(value: float) -> str:
    """A few digits where they do not understate the value, otherwise all of them."""
    short = f"{value:g}"
    return short if float(short) >= value else repr(value)


def counted(count: int, noun: str) -> str:
    """1 row, 2,930 rows."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(items: Sequence[str]) -> str:
    """1, 2 and 4."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def unsigned_zero(text: str) -> str:
    """-0.00 as 0.00."""
    return text.removeprefix("-") if not text.strip("-0.,") else text
