"""What `discreet run` says as it goes: each line of the result, and how long the rest will take.

On a terminal a bar stands below the lines; elsewhere there are only the lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from discreet.cli.console import err, plain
from discreet.experiments import Outcome
from discreet.reporting.summary import summarise
from discreet.reporting.table import table_rows
from discreet.studies import Study


class StudyProgress:
    """Shows outcomes as they come, on the stream for errors.

    Args:
        study: what runs.
        jobs: processes that share the work.
        expected: by label, about how many seconds a replicate takes; infinity where it is not known
            (then as long as the others).
    """

    def __init__(self, study: Study, jobs: int, expected: Mapping[str, float]) -> None:
        self._study, self._jobs, self._expected = study, jobs, expected
        self._outcomes: dict[str, list[Outcome]] = {one.label: [] for one in study.settings}
        self._width = max(len(setting.label) for setting in study.settings)
        self._bar = Progress(
            TextColumn("Simulating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=err,
            transient=True,
            disable=not err.is_terminal,  # it would leave an empty line there
        )
        self._task = self._bar.add_task("", total=len(study.settings) * study.replicates)

    def __enter__(self) -> StudyProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def add(self, outcome: Outcome) -> None:
        """One more replicate; with the last of its setting comes the setting's line."""
        mine = self._outcomes[outcome.setting.label]
        mine.append(outcome)
        if len(mine) == self._study.replicates:
            err.print(plain(self._line(mine)))
        self._bar.update(self._task, advance=1, description=self.left())

    def left(self) -> str:
        """How long the rest will take, in words."""
        seconds = self._seconds_left()
        if seconds is None:
            return ""
        if seconds < 90.0:
            return f"about {max(1, round(seconds))} s left"
        if seconds < 5400.0:
            return f"about {round(seconds / 60.0)} min left"
        return f"about {seconds / 3600.0:.1f} h left"

    def _line(self, outcomes: Sequence[Outcome]) -> str:
        row = table_rows(summarise(outcomes))[0]
        metric = outcomes[0].record.metric
        lines = list(self._outcomes.values())
        done = sum(len(mine) == self._study.replicates for mine in lines)
        text = (
            f"{outcomes[0].setting.label:<{self._width}}  {metric} {row.total:>9} "
            f"({row.per_person} a person)  line {done} of {len(lines)}"
        )
        return text if done == len(lines) else f"{text}, {self.left()}"

    def _seconds_left(self) -> float | None:
        """Replicates that are missing, at the pace of those of their setting that are there."""
        means = {
            label: sum(one.record.seconds for one in mine) / len(mine)
            for label, mine in self._outcomes.items()
            if mine
        }
        pace = {label: one for label, one in self._expected.items() if math.isfinite(one)} | means
        if not pace:
            return None
        usual = sum(pace.values()) / len(pace)
        missing = {
            label: self._study.replicates - len(mine) for label, mine in self._outcomes.items()
        }
        work = sum(count * pace.get(label, usual) for label, count in missing.items())
        return work / self._jobs
