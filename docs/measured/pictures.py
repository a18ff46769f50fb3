"""Pictures that a command makes beside its numbers."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable

from measured.commands import Measured
from measured.markers import ROOT

IMAGES = ROOT / "docs" / "images"
# The first picture of a report of `discreet run`: as people are served.
_PROGRESS = re.compile(r'<img [^>]*src="data:image/svg\+xml;base64,(?P<svg>[^"]+)" alt="Line chart')


def of_report(report: str, name: str) -> Callable[[Measured], None]:
    """Saves how the learners of a study do as people are served, as the report shows it."""

    def save(measured: Measured) -> None:
        match = _PROGRESS.search((measured.folder / report).read_text(encoding="utf-8"))
        if match is None:
            raise LookupError(f"{report} has no line chart of people being served.")
        (IMAGES / name).write_bytes(base64.b64decode(match["svg"]))

    return save


def plotted(plot: str, name: str) -> Callable[[Measured], None]:
    """Saves the figure that a command wrote because of its option `--plot`."""

    def save(measured: Measured) -> None:
        shutil.copyfile(measured.folder / plot, IMAGES / name)

    return save
