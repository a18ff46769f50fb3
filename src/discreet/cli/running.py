"""The simulation behind `discreet run`: cheap learners first, every replicate kept and shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from discreet.cli.console import err
from discreet.cli.journal import Journal
from discreet.cli.progress import StudyProgress
from discreet.cli.stopping import STOPPED, Stop, stop_of
from discreet.experiments import Outcome, expected_seconds, simulate_all
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
    waiting = [one for one in study.settings if counts[one.label] < study.replicates]
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
