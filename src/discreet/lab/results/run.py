"""`run_study`: what `discreet run` does, from Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import joblib
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from discreet.lab.experiments import Outcome, expected_seconds, simulate_all
from discreet.lab.reporting.numbers import about_time
from discreet.lab.reporting.summary import summarise
from discreet.lab.reporting.words import table_rows
from discreet.lab.results.journal import Journal, open_journal
from discreet.lab.results.result import StudyResult
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study, load_study
from discreet.validation import ErrorCollector, InvalidInput, a_kind, whole_number

_RESUME = "resume=True"
# How a run ends that is stopped from outside: Ctrl-C, or an exit that another signal asks for.
STOPPED = (KeyboardInterrupt, SystemExit)
MEASURING = "Measuring how long the learners take"


class Interrupted(KeyboardInterrupt):
    """A run that was stopped by Ctrl-C, or by the stop button of a notebook.

    Attributes:
        result: what was finished; None where nothing was.
    """

    def __init__(self, message: str, result: StudyResult | None) -> None:
        super().__init__(message)
        self.result = result


def run_study(
    study: str | Path | Mapping[str, Any] | Study,
    *,
    rounds: int | None = None,
    replicates: int | None = None,
    jobs: int | None = None,
    progress: bool = True,
    resume: bool = False,
    data_dir: str | Path | None = None,
) -> StudyResult:
    """Simulate a study: what would each epsilon cost on these people?

    It is the run of `discreet run`, with the same numbers. Finished replicates of a study file are
    kept beside it until the run is over, so that a run that was stopped can be resumed.

    Args:
        study: a study file, a dictionary with the keys of one, or a `Study`.
        rounds, replicates: in place of those of the study.
        jobs: processes; all cores if left out.
        progress: whether lines, and a bar in terminals and notebooks, show how far the run is.
        resume: go on where an earlier run of this study file was stopped.
        data_dir: a folder with data that pip does not install.

    Raises:
        InvalidInput: everything that is wrong with the study, before anything runs.
        Interrupted: when it was stopped; its `result` has what was finished.
    """
    errors, count = ErrorCollector(), joblib.cpu_count()
    if jobs is not None:
        with errors.collected():
            count = whole_number(jobs, "jobs", minimum=1)
    with errors.collected():
        loaded = _loaded(study, rounds, replicates, data_dir)
    errors.raise_if_any()
    if resume and loaded.path is None:
        raise InvalidInput(
            "resume was True, but only a run of a study file keeps what was finished; write the "
            "study to a file (its text is study.text), or leave resume out."
        )
    screen = Screen(stderr=True, quiet=not progress)
    for warning in loaded.warnings:
        screen.say(f"Warning: {warning}")
    with open_journal(loaded, resume, screen, _RESUME) as journal:
        outcomes, stop = simulate_study(loaded, count, journal, screen)
        if stop is None:
            journal.finish()
    if stop is None:
        return StudyResult(loaded, tuple(outcomes))
    if not isinstance(stop, KeyboardInterrupt):
        raise stop
    again = f" run_study(.., {_RESUME}) goes on from there." if loaded.path and outcomes else ""
    raise Interrupted(
        f"the run was stopped after {len(outcomes)} of "
        f"{len(loaded.settings) * loaded.replicates} simulations; this exception has them as "
        f".result.{again}",
        StudyResult(loaded, tuple(outcomes)) if outcomes else None,
    ) from stop


def _loaded(
    study: object, rounds: int | None, replicates: int | None, data_dir: str | Path | None
) -> Study:
    """A study, however it was given."""
    if isinstance(study, Study):
        return study.resized(rounds, replicates)
    if isinstance(study, Mapping):
        return Study.from_dict(study, rounds=rounds, replicates=replicates, data_dir=data_dir)
    if isinstance(study, str | Path):
        return load_study(study, rounds, replicates, data_dir)
    raise InvalidInput(
        f"study was {a_kind(study)}; pass a study file, a dictionary with its keys, or a "
        "Study such as Study.from_frame(..) makes."
    )


def simulate_study(
    study: Study, jobs: int, journal: Journal, screen: Screen
) -> tuple[list[Outcome], BaseException | None]:
    """Outcomes in the study's order, and the exception of `STOPPED` that ended the run, if any.

    Cheap learners run first; each line of the result is printed when its replicates are complete.

    Args:
        study: what to run.
        jobs: processes.
        journal: holds finished replicates and takes new ones.
        screen: shows the progress.
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
        with screen.progress(task=MEASURING) as bar:
            bar.add_task(MEASURING, total=None)
            seconds = expected_seconds(study.problem, missing, study.rounds, study.seed, jobs)
        missing.sort(key=lambda setting: seconds[setting.label])
        known = [each for each in seconds.values() if 0.0 < each < math.inf]
        usual = fmean(known) if known else 1.0
        work = {label: each if each < math.inf else usual for label, each in seconds.items()}
        everything = sum(each * (study.replicates - counts[label]) for label, each in work.items())
        complete = sum(count == study.replicates for count in counts.values())
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with screen.progress(*columns) as bar:
            task = bar.add_task(f"{len(done)} of {total} replicates", total=everything)
            for setting in study.settings:
                if counts[setting.label] == study.replicates:
                    screen.say(_line(study, setting.label, outcomes))
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
                label = outcome.setting.label
                counts[label] += 1
                text = f"{len(outcomes)} of {total} replicates"
                bar.update(task, advance=work[label], description=text)
                if counts[label] == study.replicates:
                    complete += 1
                    # The first, cheap lines say little about the speed of the others.
                    soon = bar.tasks[0].percentage >= 10.0
                    left = bar.tasks[0].time_remaining if soon else None
                    end = f", {about_time(left)} left" if left else ""
                    line = _line(study, label, outcomes)
                    screen.say(f"{line}  line {complete} of {len(study.settings)}{end}")
    except STOPPED as error:
        stop = error
    order = {setting.label: place for place, setting in enumerate(study.settings)}
    outcomes.sort(key=lambda outcome: (order[outcome.setting.label], outcome.record.replicate))
    return outcomes, stop


def _line(study: Study, label: str, outcomes: list[Outcome]) -> str:
    """A complete line of the result, in text."""
    own = [outcome for outcome in outcomes if outcome.setting.label == label]
    row, width = table_rows(summarise(own))[0], max(len(each.label) for each in study.settings)
    metric = own[0].record.metric
    return f"{label:<{width}}  {metric} {row.total:>9} ({row.per_person} a person)"
