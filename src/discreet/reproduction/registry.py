"""All reproductions by name. A further paper adds its own tuple here."""

from __future__ import annotations

from discreet.reproduction.dubey2021.figures import REPRODUCTIONS as DUBEY_2021
from discreet.reproduction.pavlovic2025.figures import REPRODUCTIONS as PAVLOVIC_2025
from discreet.reproduction.runner import Reproduction
from discreet.validation import InvalidInput

REPRODUCTIONS: dict[str, Reproduction] = {one.name: one for one in (*DUBEY_2021, *PAVLOVIC_2025)}


def find_reproduction(name: str) -> Reproduction:
    """The reproduction called `name`; `InvalidInput` with the known names if there is none."""
    if name not in REPRODUCTIONS:
        raise InvalidInput(
            f"the reproduction {name!r} is unknown; known are {', '.join(REPRODUCTIONS)}."
        )
    return REPRODUCTIONS[name]
