"""All reproductions by name. A further paper adds its own rows here."""

from __future__ import annotations

from discreet.papers.base import Reproduction
from discreet.papers.dubey2021.figures import DUBEY_2021
from discreet.papers.kharkovskii2020.attacks import ATTACKS
from discreet.papers.kharkovskii2020.searches import KHARKOVSKII_2020
from discreet.papers.ma2025.figures import MA_2025
from discreet.papers.ma2025.table import TABLE_2
from discreet.papers.pavlovic2025.figures import PAVLOVIC_2025

REPRODUCTIONS: dict[str, Reproduction] = {
    each.name: each
    for each in (*DUBEY_2021, *PAVLOVIC_2025, *KHARKOVSKII_2020, ATTACKS, *MA_2025, TABLE_2)
}
