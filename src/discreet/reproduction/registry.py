"""All reproductions by name. A further paper adds its own tuple here.

`REPRODUCTIONS` are runs of learners; those of other kinds are only listed.
"""

from __future__ import annotations

from typing import Protocol

from discreet.reproduction.dubey2021.figures import REPRODUCTIONS as DUBEY_2021
from discreet.reproduction.kharkovskii2020.experiments import SEARCHES as KHARKOVSKII_2020
from discreet.reproduction.kharkovskii2020.findings import ATTACKS
from discreet.reproduction.ma2025.experiments import EXPERIMENTS as MA_2025
from discreet.reproduction.ma2025.experiments import FIGURES_4_5
from discreet.reproduction.ma2025.table import TABLE_2
from discreet.reproduction.pavlovic2025.figures import REPRODUCTIONS as PAVLOVIC_2025
from discreet.reproduction.runner import Reproduction
from discreet.validation import InvalidInput

REPRODUCTIONS: dict[str, Reproduction] = {one.name: one for one in (*DUBEY_2021, *PAVLOVIC_2025)}


class Listed(Protocol):
    """What a list of all figures and tables says of each."""

    @property
    def name(self) -> str:
        """How the command line calls it."""

    @property
    def title(self) -> str:
        """What it shows, and where it comes from."""

    @property
    def trials(self) -> int:
        """How often it is repeated."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """People, or questions, in a trial; empty where there are none."""


LISTED: tuple[Listed, ...] = (
    *REPRODUCTIONS.values(),
    *KHARKOVSKII_2020,
    ATTACKS,
    FIGURES_4_5,
    *MA_2025,
    TABLE_2,
)
"""Everything that `discreet reproduce` can do, with or without learners."""


def find_reproduction(name: str) -> Reproduction:
    """The reproduction called `name`; `InvalidInput` with the known names if there is none."""
    if name not in REPRODUCTIONS:
        raise InvalidInput(
            f"the reproduction {name!r} is unknown; known are {', '.join(REPRODUCTIONS)}."
        )
    return REPRODUCTIONS[name]
