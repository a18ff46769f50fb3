"""The run of a study: cheap learners first, every replicate kept and shown.

Each line of the result is said as soon as it is there, and how long the rest will take. In a
terminal or a notebook a bar stands below the lines; elsewhere a line says now and then how much is
done (pulse.py). Finished
replicates are kept in a journal (journal.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import fmean
from time import monotonic

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from discreet.lab.experiments import Outcome, expected_seconds, simulate_all
from discreet.lab.reporting.numbers import about_time
from discreet.lab.reporting.summary import summarise
from discreet.lab.reporting.words import table_rows
from discreet.lab.results.journal import Journal
from discreet.lab.results.pulse import Pulse
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study

# How a run ends that is stopped from outside: Ctrl-C, or an exit that another signal asks for.
STOPPED = (KeyboardInterrupt, SystemExit)
_MEASURING = "Measuring how long the learners take"


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
        with _measuring(screen), Pulse(screen, _MEASURING):
            seconds = expected_seconds(study.problem, missing, study.rounds, study.seed, jobs)
        missing.sort(key=lambda setting: seconds[setting.label])
        with StudyProgress(study, jobs, seconds, screen) as shown, Pulse(screen, words=shown.words):
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
    return screen.status(_MEASURING) if screen.shows_bars else nullcontext()


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
        self._since, self._share = monotonic(), 0.0
        self._bar = self.add_task("", total=len(study.settings) * study.replicates)

    def add(self, outcome: Outcome) -> None:
        """One more replicate; with the last of its setting comes the setting's line."""
        same = self._outcomes[outcome.setting.label]
        same.append(outcome)
        self._since = monotonic()
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

    def words(self) -> str:
        """How much is done, as a share of the work, and how long the rest will take."""
        runs = sum(len(each) for each in self._outcomes.values())
        total = len(self._outcomes) * self._replicates
        text = f"{runs} of {total} replicates done"
        work = self._work()
        if work is None:
            return text
        # Since the last outcome came, something was done on those that are still to come.
        done, left = work
        going_on = min(self._jobs * (monotonic() - self._since), left)
        share = (done + going_on) / (done + left) if done + left > 0.0 else 0.0
        # A learner that turns out slower makes more work, and undoes none.
        share = self._share = max(self._share, share)
        late = (
            "more than was expected"
            if going_on == left
            else about_time((left - going_on) / self._jobs)
        )
        return f"{text} (about {min(99.0, 100.0 * share):.0f}% of the work), {late} left"

    def left(self) -> str:
        """How long the rest will take, in words: what is missing, at the pace of what is there."""
        work = self._work()
        return "" if work is None else f"{about_time(work[1] / self._jobs)} left"

    def _work(self) -> tuple[float, float] | None:
        """Seconds of one process for what is there and for what is missing; None if unknown."""
        pace = {label: each for label, each in self._expected.items() if math.isfinite(each)}
        for label, outcomes in self._outcomes.items():
            if outcomes:
                pace[label] = fmean(outcome.record.seconds for outcome in outcomes)
        if not pace:
            return None
        usual = fmean(pace.values())
        done, left = 0.0, 0.0
        for label, outcomes in self._outcomes.items():
            done += len(outcomes) * pace.get(label, usual)
            left += (self._replicates - len(outcomes)) * pace.get(label, usual)
        return done, left
