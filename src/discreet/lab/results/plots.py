"""The figures of a result: those of the report, as Matplotlib's own.

    result.plot.progress().savefig("progress.pdf")
    result.plot.save("figures", "svg")

Figures stand for themselves: they know nothing of `pyplot`, nothing shows or changes them later,
and a notebook shows the one that a cell ends with.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from discreet.lab.experiments import Outcome
from discreet.lab.reporting.layout import FORMATS, WIDE, save_figure
from discreet.lab.reporting.maps import PolicyMaps, maps_of
from discreet.lab.reporting.report import epsilon_figure, progress_figure
from discreet.lab.reporting.summary import Summary
from discreet.lab.studies import Study
from discreet.records import check_path
from discreet.validation import InvalidInput, nearest, one_of, positive_number


@dataclass(frozen=True)
class StudyPlots:
    """See the module; widths are in inches.

    Attributes:
        study: what was run.
        outcomes: of it, the best single choice for everyone among them.
        numbers: the lines of the result.
    """

    study: Study
    outcomes: tuple[Outcome, ...]
    numbers: Summary

    def progress(self, width: float = WIDE) -> Figure:
        """The metric as people are served: mean and 95% band over replicates."""
        return progress_figure(self.outcomes, self.numbers, positive_number(width, "width"))

    def epsilon(self, width: float = WIDE) -> Figure:
        """The metric against epsilon for each private learner, references as horizontal lines.

        Raises:
            InvalidInput: a study without a private learner.
        """
        if not self.numbers.private:
            raise InvalidInput(
                "there is nothing to draw over epsilon, as no learner of this study is private; "
                "give one an epsilon."
            )
        return epsilon_figure(self.numbers, positive_number(width, "width"))

    def map(self, label: str | None = None, width: float = WIDE) -> Figure:
        """What a learner's last policy of replicate 0 does with whom.

        Args:
            label: of a line of the result, such as "partition, epsilon 1"; the private one with
                the largest epsilon if left out.
            width: of the figure.

        Raises:
            InvalidInput: a label without a map; choices at random have none.
        """
        drawn = {each.label: each for each in self._maps}
        if not drawn:
            raise InvalidInput(
                "no policy of this study can be drawn: references and choices at random have no "
                "map, and a run that was stopped may not have come to replicate 0 of a learner."
            )
        if label is None:
            private = [line for line in self.numbers.private if line.label in drawn]
            best = max(private, key=lambda line: line.epsilon or 0.0, default=None)
            label = next(iter(drawn)) if best is None else best.label
        if label not in drawn:
            raise InvalidInput(
                f"label was {label!r:.80}; maps exist of {', '.join(map(repr, drawn))}."
                f"{nearest(str(label), drawn)}"
            )
        return drawn[label].figure(positive_number(width, "width"))

    def maps(self, width: float = WIDE) -> dict[str, Figure]:
        """The maps of all learners that have one, by label, as in the report."""
        return {each.label: each.figure(positive_number(width, "width")) for each in self._maps}

    @property
    def _maps(self) -> list[PolicyMaps]:
        return maps_of(self.study, self.outcomes, self.numbers)

    def save(self, folder: str | Path, format: str = "pdf", width: float = WIDE) -> list[Path]:
        """Write all figures to a folder, which is made if need be; those of the same names are
        replaced.

        Args:
            folder: where `progress.pdf`, `epsilon.pdf` and a `map-..` for each learner will be.
            format: pdf, svg or png.
            width: of the figures.

        Returns:
            The files.

        Raises:
            InvalidInput: another format, or a folder that cannot be written to, before anything is
                drawn.
        """
        one_of(format, "format", FORMATS)
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"folder was {str(place)!r}, which cannot be made ({error}); name another one."
            ) from error
        check_path(place / f"progress.{format}")
        figures = {"progress": self.progress(width)}
        if self.numbers.private:
            figures["epsilon"] = self.epsilon(width)
        for label, figure in self.maps(width).items():
            figures[_file_name(label, figures)] = figure
        files = [place / f"{name}.{format}" for name in figures]
        for figure, file in zip(figures.values(), files, strict=True):
            save_figure(figure, file)
        return files


def _file_name(label: str, taken: Collection[str]) -> str:
    """The name of a map's file, another than those that are taken."""
    name = "map-" + re.sub(r"[^\w.]+", "-", label).strip("-.")
    names = [name, *(f"{name}-{number}" for number in range(2, len(taken) + 2))]
    return next(each for each in names if each not in taken)
