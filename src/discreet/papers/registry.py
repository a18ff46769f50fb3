"""All reproductions by name, and all figures and tables of the papers (manifest.toml).

A further paper adds its own rows to both.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
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


@dataclass(frozen=True)
class PaperCommand:
    """A command that reproduces an item at full size.

    Attributes:
        run: what follows `discreet reproduce`; DIR stands for a folder of tables.
        sample: further options, which make it small enough to measure its cost.
    """

    run: str
    sample: str = ""


@dataclass(frozen=True, kw_only=True)
class PaperItem:
    """A figure or table of a paper, or several with one command (manifest.toml).

    Attributes:
        paper: its name.
        title: of the paper.
        numbers: the paper's, such as Figure 2a; () for a comparison that the paper lacks.
        shows: its content.
        settings: as stated.
        reading: what the text leaves open or contradicts, and how it was read.
        commands: () where there is none.
        reason: why there is no command.
    """

    paper: str
    title: str
    numbers: tuple[str, ...] = ()
    shows: str
    settings: str = ""
    reading: str = ""
    commands: tuple[PaperCommand, ...] = ()
    reason: str = ""

    @property
    def place(self) -> str:
        """Its numbers in a line: Table 1, 2, 3."""
        first, *others = self.numbers or ("not in it",)
        return ", ".join([first, *(number.split()[-1] for number in others)])

    @property
    def without(self) -> str:
        """A sentence where there is no command."""
        return f"No command: {self.reason}." if self.reason else ""


@cache
def paper_items() -> tuple[PaperItem, ...]:
    """All figures and tables of the papers, in the order of their texts."""
    read = tomllib.loads(files("discreet.papers").joinpath("manifest.toml").read_text("utf-8"))
    return tuple(
        PaperItem(
            paper=paper["name"],
            title=paper["title"],
            **{
                **item,
                "numbers": tuple(item.get("numbers", ())),
                "commands": tuple(PaperCommand(**each) for each in item.get("commands", ())),
            },
        )
        for paper in read["papers"]
        for item in paper["items"]
    )
