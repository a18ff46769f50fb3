"""The run of a study: cheap learners first; every replicate is kept in the journal and shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from time import monotonic

from rich.progress import BarColumn, TextColumn

from discreet.lab.experiments import Outcome, expected_seconds, simulate_all
from discreet.lab.reporting.numbers import about_time
from discreet.lab.reporting.summary import summarise
from discreet.lab.reporting.words import table_rows
from discreet.lab.results.journal import Journal
from discreet.lab.results.progress import ShownProgress
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study

# How a run ends that is stopped from outside: Ctrl-C, or an exit that another signal asks for.
STOPPED = (KeyboardInterrupt, SystemExit)
MEASURING = "Measuring how long the learners take"


def simulate_study(
    study: Study, jobs: int, journal: Journal, screen: Screen
) -> tuple[list[Outcome], BaseException | None]:
    """Outcomes in the study's order, and the exception of `STOPPED` that ended the run, if any.

    Args:
        study: what to run.
        jobs: processes.
        journal: holds finished replicates and takes new ones.
        screen: shows the progress.
    """
    outcomes = list(journal.outcomes)
    if outcomes:
        total = len(study.settings) * study.replicates
        screen.print(f"Going on after {len(outcomes)} of {total} replicates.")
    done = [(outcome.record.label, outcome.record.replicate) for outcome in outcomes]
    counts = Counter(label for label, _ in done)
    missing = [each for each in study.settings if counts[each.label] < study.replicates]
    stop: BaseException | None = None
    try:
        with ShownProgress(screen=screen, task=MEASURING) as bar:
            bar.add_task(MEASURING, total=None)
            seconds = expected_seconds(study.problem, missing, study.rounds, study.seed, jobs)
        missing.sort(key=lambda setting: seconds[setting.label])
        with StudyProgress(study, jobs, seconds, screen, journal.outcomes) as shown:
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


class StudyProgress(ShownProgress):
    """The progress of a study, in seconds of work; prints each line of the result when complete.

    Args:
        study: what runs.
        jobs: processes that share the work.
        expected: by label, about how many seconds a replicate takes; infinity if unknown.
        screen: where it is shown.
        resumed: replicates of an interrupted run.
    """

    def __init__(
        self,
        study: Study,
        jobs: int,
        expected: Mapping[str, float],
        screen: Screen,
        resumed: Sequence[Outcome] = (),
    ) -> None:
        text = TextColumn("{task.description}", markup=False)
        super().__init__(TextColumn("Simulating"), BarColumn(), text, screen=screen)
        known = [each for each in expected.values() if 0.0 < each < math.inf]
        usual = fmean(known) if known else 1.0
        seconds = {each.label: expected.get(each.label, 0.0) for each in study.settings}
        self._work = {name: each if each < math.inf else usual for name, each in seconds.items()}
        self._timed = bool(known)
        self._jobs, self._replicates = jobs, study.replicates
        self._outcomes: dict[str, list[Outcome]] = {name: [] for name in self._work}
        self._width = max(map(len, self._work))
        self._total = study.replicates * sum(self._work.values())
        self._done = self._fresh = 0.0
        self._began = monotonic()
        self._bar = self.add_task("", total=self._total)
        for outcome in resumed:
            self.add(outcome, fresh=False)

    def add(self, outcome: Outcome, fresh: bool = True) -> None:
        """Count one more replicate; print the line of a setting with its last."""
        same = self._outcomes[outcome.setting.label]
        same.append(outcome)
        work = self._work[outcome.setting.label]
        self._done += work
        self._fresh += work if fresh else 0.0
        if len(same) == self._replicates:
            self._screen.say(self._line(same))
        self.update(self._bar, completed=self._done, description=self.words())

    def _line(self, outcomes: Sequence[Outcome]) -> str:
        row = table_rows(summarise(outcomes))[0]
        metric = outcomes[0].record.metric
        lines = len(self._outcomes)
        done = sum(len(each) == self._replicates for each in self._outcomes.values())
        text = (
            f"{outcomes[0].setting.label:<{self._width}}  {metric} {row.total:>9} "
            f"({row.per_person} a person)  line {done} of {lines}"
        )
        return text if done == lines else ", ".join(filter(None, (text, self.left())))

    def words(self) -> str:
        """The replicates and the share of the work that are done, and the time left."""
        runs = sum(len(each) for each in self._outcomes.values())
        total = len(self._outcomes) * self._replicates
        text = f"{runs} of {total} replicates done"
        if self._timed and self._total:
            text += f" (about {100.0 * self._done / self._total:.0f}% of the work)"
        return ", ".join(filter(None, (text, self.left())))

    def left(self) -> str:
        """The time left at the pace so far; "" if unknown."""
        work = self._total - self._done
        if self._fresh > 0.0:
            return f"{about_time((monotonic() - self._began) * work / self._fresh)} left"
        return f"{about_time(work / self._jobs)} left" if self._timed else ""
