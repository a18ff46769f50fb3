"""The simulation behind `discreet run`: cheap learners first, every replicate kept and shown.

It says each line of the result as soon as it is there, and how long the rest will take. On a
terminal a bar stands below the lines; elsewhere there are only the lines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from discreet.cli.console import err, plain
from discreet.cli.journal import Journal
from discreet.cli.stopping import STOPPED, Stop, stop_of
from discreet.experiments import Outcome, expected_seconds, simulate_all
from discreet.reporting.summary import summarise
from discreet.reporting.words import table_rows
from discreet.studies import Study

Replicate = tuple[str, int]  # a setting's label, and which replicate of it


def simulate_study(study: Study, jobs: int, journal: Journal) -> tuple[list[Outcome], Stop | None]:
    """Outcomes in the study's order, and how the run was stopped, if it was.

    Args:
        study: what to run.
        jobs: processes.
        journal: what an earlier run finished; it takes what this one finishes.
    """
    outcomes = list(journal.outcomes)
    total = len(study.settings) * study.replicates
    if outcomes:
        err.print(f"Going on after {len(outcomes)} of {total} replicates.")
    done = [(outcome.record.label, outcome.record.replicate) for outcome in outcomes]
    stop = None
    try:
        expected = _cheapest_first(study, done, jobs)
        with StudyProgress(study, jobs, expected) as shown:
            for outcome in journal.outcomes:
                shown.add(outcome)
            for outcome in _missing(study, expected, done, jobs, journal.digest):
                outcomes.append(outcome)
                journal.add(outcome)
                shown.add(outcome)
    except STOPPED as error:
        stop = stop_of(error)
    order = {setting.label: place for place, setting in enumerate(study.settings)}
    outcomes.sort(key=lambda outcome: (order[outcome.setting.label], outcome.record.replicate))
    return outcomes, stop


def _cheapest_first(study: Study, done: Sequence[Replicate], jobs: int) -> dict[str, float]:
    """About how many seconds a replicate of each setting takes that is not done, in that order."""
    counts = Counter(label for label, _ in done)
    waiting = [each for each in study.settings if counts[each.label] < study.replicates]
    with err.status("Measuring how long the learners take"):
        seconds = expected_seconds(study.problem, waiting, study.rounds, study.seed, jobs)
    return dict(sorted(seconds.items(), key=lambda item: item[1]))


def _missing(
    study: Study, order: Iterable[str], done: Sequence[Replicate], jobs: int, digest: str
) -> Iterator[Outcome]:
    """The replicates that are not done, in the order in which they finish."""
    settings = {setting.label: setting for setting in study.settings}
    return simulate_all(
        study.problem,
        [settings[label] for label in order],
        study.rounds,
        study.replicates,
        study.seed,
        jobs,
        study.name,
        digest,
        done,
    )


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
        self._outcomes: dict[str, list[Outcome]] = {setting.label: [] for setting in study.settings}
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
            label: fmean(outcome.record.seconds for outcome in mine)
            for label, mine in self._outcomes.items()
            if mine
        }
        known = {label: paid for label, paid in self._expected.items() if math.isfinite(paid)}
        pace = known | means
        if not pace:
            return None
        usual = fmean(pace.values())
        missing = {
            label: self._study.replicates - len(mine) for label, mine in self._outcomes.items()
        }
        work = sum(count * pace.get(label, usual) for label, count in missing.items())
        return work / self._jobs
