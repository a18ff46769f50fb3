"""All reproductions by name. A further paper adds its own rows here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.papers.dubey2021.figures import DUBEY_2021
from discreet.papers.kharkovskii2020.published import ATTACKS
from discreet.papers.kharkovskii2020.searches import KHARKOVSKII_2020
from discreet.papers.ma2025.figures import MA_2025, TABLE_2
from discreet.papers.pavlovic2025.figures import PAVLOVIC_2025
from discreet.papers.reproduction import Reproduction

if TYPE_CHECKING:
    from discreet.papers.report import Presentation

REPRODUCTIONS: dict[str, Reproduction] = {
    each.name: each
    for each in (*DUBEY_2021, *PAVLOVIC_2025, *KHARKOVSKII_2020, ATTACKS, *MA_2025, TABLE_2)
}


def presentations() -> dict[str, Presentation]:
    """How results are shown, by `Reproduction.form`; imports Matplotlib, which takes a second."""
    from discreet.papers import report
    from discreet.papers.kharkovskii2020 import report as searches
    from discreet.papers.ma2025 import report as ma2025

    return report.FORMS | ma2025.FORMS | searches.FORMS
