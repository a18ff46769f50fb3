"""The run of a study: cheap learners first, every replicate kept and shown.

Each line of the result is said as soon as it is there, and how long the rest will take. In a
terminal or a notebook a bar stands below the lines; elsewhere there are only the lines. Finished
replicates are kept in a journal (journal.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import fmean

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from discreet.experiments import Outcome, expected_seconds, simulate_all
from discreet.reporting.numbers import about_time
from discreet.reporting.summary import summarise
from discreet.reporting.words import table_rows
from discreet.results.journal import Journal
from discreet.results.screen import Screen
from discreet.studies import Study

# How a run ends that is stopped from outside: Ctrl-C, or an exit that another signal asks for.
STOPPED = (KeyboardInterrupt, SystemExit)


def simulate_study(
    study: Study, jobs: int, journal: Journal, screen: Screen
) -> tuple[list[Outcome], BaseException | None]:
    """Outcomes in the study's order, and what stopped the run, one of `STOPPED`, if anything did.

    Args:
        study: what to run.
        jobs: processes.
        journal: what an earlier run finished; it takes what this one finishes.
        screen: shows how far the run is.
    """
    outcomes = list(journal.outcomes)
    total = len(study.settings) * study.replicates
    if outcomes:
        screen.print(f"Going on after {len(outcomes)} of {total} replicates.")
    done = [(outcome.record.label, outcome.record.replicate) for outcome in outcomes]
    counts = Counter(label for label, _ in done)
    missing = [each for each in study.settings if counts[each.label] < study.replicates]
    stop: BaseException | None = None
    try:
        with _measuring(screen):
            seconds = expected_seconds(study.problem, missing, study.rounds, study.seed, jobs)
        missing.sort(key=lambda setting: seconds[setting.label])
        with StudyProgress(study, jobs, seconds, screen) as shown:
            for outcome in journal.outcomes:
                shown.add(outcome)
            for outcome in simulate_all(
                study.problem,
                missing,
                study.rounds,
                study.replicates,
                study.seed,
                jobs,
                study.name,
                journal.digest,
                done,
            ):
                outcomes.append(outcome)
                journal.add(outcome)
                shown.add(outcome)
    except STOPPED as error:
        stop = error
    order = {setting.label: place for place, setting in enumerate(study.settings)}
    outcomes.sort(key=lambda outcome: (order[outcome.setting.label], outcome.record.replicate))
    return outcomes, stop


def _measuring(screen: Screen) -> AbstractContextManager[object]:
    """What is shown while the learners' pace is measured."""
    text = "Measuring how long the learners take"
    return screen.status(text) if screen.shows_bars else nullcontext()


class StudyProgress(Progress):
    """Shows outcomes as they come.

    Args:
        study: what runs.
        jobs: processes that share the work.
        expected: by label, about how many seconds a replicate takes; infinity where it is not known
            (then as long as the others).
        screen: where they are shown.
    """

    def __init__(
        self, study: Study, jobs: int, expected: Mapping[str, float], screen: Screen
    ) -> None:
        super().__init__(
            TextColumn("Simulating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=screen,
            transient=True,
            disable=not screen.shows_bars,
        )
        self._screen = screen
        self._replicates, self._jobs, self._expected = study.replicates, jobs, expected
        self._outcomes: dict[str, list[Outcome]] = {setting.label: [] for setting in study.settings}
        self._width = max(len(setting.label) for setting in study.settings)
        self._bar = self.add_task("", total=len(study.settings) * study.replicates)

    def add(self, outcome: Outcome) -> None:
        """One more replicate; with the last of its setting comes the setting's line."""
        same = self._outcomes[outcome.setting.label]
        same.append(outcome)
        if len(same) == self._replicates:
            self._screen.say(self._line(same))
        self.update(self._bar, advance=1, description=self.left())

    def _line(self, outcomes: Sequence[Outcome]) -> str:
        row = table_rows(summarise(outcomes))[0]
        metric = outcomes[0].record.metric
        lines = len(self._outcomes)
        done = sum(len(each) == self._replicates for each in self._outcomes.values())
        text = (
            f"{outcomes[0].setting.label:<{self._width}}  {metric} {row.total:>9} "
            f"({row.per_person} a person)  line {done} of {lines}"
        )
        return text if done == lines else f"{text}, {self.left()}"

    def left(self) -> str:
        """How long the rest will take, in words: what is missing, at the pace of what is there."""
        pace = {label: each for label, each in self._expected.items() if math.isfinite(each)}
        for label, outcomes in self._outcomes.items():
            if outcomes:
                pace[label] = fmean(outcome.record.seconds for outcome in outcomes)
        if not pace:
            return ""
        usual = fmean(pace.values())
        work = sum(
            (self._replicates - len(outcomes)) * pace.get(label, usual)
            for label, outcomes in self._outcomes.items()
        )
        return f"{about_time(work / self._jobs)} left"
