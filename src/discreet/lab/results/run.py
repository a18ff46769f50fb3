"""`run_study`: what `discreet run` does, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib

from discreet.lab.results.journal import open_journal
from discreet.lab.results.result import StudyResult
from discreet.lab.results.running import simulate_study
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study, load_study
from discreet.validation import ErrorCollector, InvalidInput, a_kind, whole_number

_RESUME = "resume=True"


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
