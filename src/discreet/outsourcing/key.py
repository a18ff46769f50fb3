"""The curator's key: what stays at home, in a folder that only its owner can read.

    key/key.sqlite          everything: people, outcomes, releases as they were drawn, answers
    key/SECRET.txt          says so, from the first release on
    key/RELEASE.published   empty; for each release that others may have seen
    key-simulated/          the same for simulated releases, which have a key of their own

| table      | a row is                                                                         |
|------------|----------------------------------------------------------------------------------|
| source     | the one table that is released: its fingerprint, bounds, ids and outcomes        |
| releases   | a release as it was drawn, the secret order of its rows, whether others saw it   |
| draws      | noise that was drawn for a person's outcome: at most once for each of their turns |
| answers    | a question that was asked, and the draw that answered it                         |

Drawing and keeping are one transaction: what was drawn counts from the moment it is on disk, and
only then is it shown. A draw that a crash rolled back was never shown; a stored one can be written
out again, however often, without drawing anything. A folder from which `key.sqlite` is gone
is refused: to start afresh there would hide a release.

An older copy of `key.sqlite` would hide one too. So before a release is shown, an empty file with
its name is put on disk, and never taken away; a `key.sqlite` that does not name all of these is
refused. The release was stored before that, so a run stopped in between is not refused. A copy
that lacks only answers, or a whole older folder, cannot be distinguished from the latest one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

import numpy as np
import pandas as pd

from discreet.atomic_files import PRIVATE_FILE, StateFile, sweep_drafts, sync_folder, write_bytes
from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.certificate import DAMAGE, Certificate
from discreet.outsourcing.mechanisms import GivenAnswer
from discreet.validation import ErrorCollector, FloatArray, IntArray, InvalidInput

NOTICE = (
    "SECRET: key.sqlite says which person each released row belongs to. Keep it; without it no "
    "question can be answered, and with it nothing is private.\n"
)
_FILE, _NOTICE = "key.sqlite", "SECRET.txt"
_SIMULATED = "-simulated"
_PUBLISHED = re.compile(r"([0-9a-f]{32})\.published")
_APPLICATION = 0x6B657933
_SCHEMA = (
    """CREATE TABLE source (
        fingerprint TEXT NOT NULL, bounds TEXT NOT NULL, id TEXT NOT NULL, outcome TEXT,
        ids TEXT NOT NULL, outcomes BLOB NOT NULL)""",
    """CREATE TABLE releases (
        number INTEGER PRIMARY KEY, release TEXT NOT NULL UNIQUE, seed TEXT,
        certificate TEXT NOT NULL, rows BLOB NOT NULL, people BLOB NOT NULL,
        published INTEGER NOT NULL DEFAULT 0)""",
    """CREATE TABLE draws (
        person INTEGER NOT NULL, turn INTEGER NOT NULL, outcome, value,
        PRIMARY KEY (person, turn))""",
    """CREATE TABLE answers (
        release TEXT NOT NULL REFERENCES releases (release), question INTEGER NOT NULL,
        row INTEGER NOT NULL, person INTEGER NOT NULL, turn INTEGER NOT NULL,
        PRIMARY KEY (release, question), FOREIGN KEY (person, turn) REFERENCES draws)""",
)


@dataclass(frozen=True, eq=False)
class Roster:
    """The people of a table, sorted by id.

    Attributes:
        ids: (n,) their names.
        outcomes: (n,) what was measured, NaN where nothing was.
        fingerprint: of ids and coordinates, by which a table is known.
    """

    ids: tuple[str, ...]
    outcomes: FloatArray
    fingerprint: str

    @classmethod
    def of(cls, frame: pd.DataFrame, bounds: PublicBounds) -> tuple[Roster, FloatArray]:
        """The people of a table, and their rows as points (n, d).

        Raises:
            InvalidInput: for everything that does not fit the bounds, at once.
        """
        errors = ErrorCollector()
        with errors.collected():
            ids = bounds.ids_of(frame)
        with errors.collected():
            coordinates = bounds.coordinates(frame)
        outcomes = np.full(len(frame), np.nan)
        if bounds.outcome is not None:
            with errors.collected():
                outcomes = bounds.outcomes_of(frame)
        errors.raise_if_any()
        by_id = sorted(range(len(ids)), key=ids.__getitem__)
        names = tuple(ids[place] for place in by_id)
        coordinates = coordinates[by_id]
        # By these a table is known, so they stay as they are until they are drawn.
        coordinates.setflags(write=False)
        digest = hashlib.sha256(json.dumps(names).encode("utf-8"))
        digest.update(np.ascontiguousarray(coordinates, dtype="<f8").tobytes())
        return cls(names, outcomes[by_id], digest.hexdigest()), coordinates


@dataclass(frozen=True, eq=False)
class Drawn:
    """One release of the table.

    Attributes:
        certificate: what it promises.
        order: (n,) which of the people each released row is; secret.
        seed: of simulated noise; None for secure noise.
        published: whether it was written out for others.
    """

    certificate: Certificate
    order: IntArray
    seed: int | None
    published: bool = False


@dataclass(frozen=True, eq=False)
class Key:
    """The content of a key folder.

    Attributes:
        folder: where.
        bounds: of the table.
        roster: the people in it.
        drawn: the releases so far.
        answers: the answers so far, in the order in which they were given.
    """

    folder: Path
    bounds: PublicBounds
    roster: Roster
    drawn: tuple[Drawn, ...]
    answers: tuple[GivenAnswer, ...]

    @property
    def simulated(self) -> bool:
        """Whether all releases so far were simulated; real ones have a key of their own."""
        return bool(self.drawn) and all(each.seed is not None for each in self.drawn)

    def find(self, release: str) -> Drawn:
        """The release of that name; `InvalidInput` for one that this key does not know."""
        for drawn in self.drawn:
            if drawn.certificate.release == release:
                return drawn
        raise InvalidInput(
            f"the release {release!r} is not one of the {len(self.drawn)} that the key in "
            f"{self.folder} belongs to; give the key that was made with it."
        )


# Reading.


def state_of(folder: Path) -> StateFile:
    """The file with everything in it."""
    return StateFile(folder / _FILE, "a key", _SCHEMA, _APPLICATION)


def read_key(folder: Path) -> Key | None:
    """The key in a folder; None if nothing was released with it yet. Nothing is written.

    Raises:
        InvalidInput: for a key that cannot be read or that is damaged.
    """
    with state_of(folder).reading() as state:
        return None if state is None else _key_in(state, folder)


def _key_in(state: Connection, folder: Path) -> Key | None:
    """The key as its tables have it.

    Raises:
        InvalidInput: for one that is damaged, or older than what others have seen.
    """
    # In this order: while `state` is open no release is added, and only those in it are published.
    unknown = _seen(folder) - _names(state)
    if unknown:
        raise InvalidInput(
            f"the release {min(unknown)} was published with the key in {folder}, but its {_FILE} "
            "does not know of it, so it is an older copy; restore the latest one. With this one "
            "too much would be promised."
        )
    source = state.execute(
        "SELECT bounds, id, outcome, ids, outcomes, fingerprint FROM source"
    ).fetchone()
    if source is None:
        return None
    try:
        bounds, id, outcome, ids, outcomes, fingerprint = source
        releases = state.execute(
            "SELECT certificate, people, seed, published FROM releases ORDER BY number"
        )
        answers = state.execute(
            "SELECT release, question, row, person, turn, outcome, value "
            "FROM answers JOIN draws USING (person, turn) ORDER BY answers.rowid"
        )
        key = Key(
            folder,
            PublicBounds.from_fields(json.loads(bounds), id, outcome),
            Roster(tuple(json.loads(ids)), np.frombuffer(outcomes, "<f8"), fingerprint),
            tuple(
                Drawn(
                    Certificate.from_json(text),
                    np.frombuffer(order, "<i8"),
                    None if seed is None else int(seed),
                    bool(published),
                )
                for text, order, seed, published in releases
            ),
            tuple(GivenAnswer(*fields) for fields in answers),
        )
    except DAMAGE as error:
        raise InvalidInput(f"the key in {folder} is damaged ({error!r}); restore it.") from error
    for drawn in key.drawn:
        if not np.array_equal(np.sort(drawn.order), np.arange(len(key.roster.ids))):
            raise InvalidInput(
                f"the release {drawn.certificate.release} in {folder} is damaged (its order does "
                "not name everybody once); restore the key."
            )
    return key


def _names(state: Connection) -> set[str]:
    """Names of the releases so far."""
    return {name for (name,) in state.execute("SELECT release FROM releases")}


def _seen(folder: Path) -> set[str]:
    """Names of the releases that were announced."""
    names = (_PUBLISHED.fullmatch(path.name) for path in folder.glob("*.published"))
    return {match[1] for match in names if match}


def released_rows(state: Connection, release: str) -> bytes:
    """The file of the rows as it was drawn."""
    (rows,) = state.execute("SELECT rows FROM releases WHERE release = ?", (release,)).fetchone()
    return bytes(rows)


# Keeping.


@contextmanager
def changing_key(folder: Path) -> Iterator[tuple[Connection, Key | None]]:
    """The key and its state, made if need be, for this process alone: one transaction.

    Raises:
        InvalidInput: also as from `check_folder`.
    """
    check_folder(folder)
    if not folder.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    with state_of(folder).changing() as state:
        yield state, _key_in(state, folder)
    # It says what the folder holds, and that there is a key to be missed.
    sweep_drafts(folder, _NOTICE)
    if not (folder / _NOTICE).exists():
        write_bytes(folder / _NOTICE, NOTICE.encode(), private=True)


def check_folder(folder: Path) -> None:
    """Refuse a folder that a key cannot be in; nothing changes.

    Raises:
        InvalidInput: also where a key was that is not there any more.
    """
    if not folder.exists():
        if not folder.parent.is_dir():
            raise InvalidInput(f"the folder of {folder} does not exist; make it first.")
        return
    if not folder.is_dir():
        raise InvalidInput(f"the key {folder} is a file; name a folder.")
    if ((folder / _NOTICE).exists() or _seen(folder)) and not _releases(folder):
        raise InvalidInput(
            f"a release was drawn with the key in {folder}, but its {_FILE} is gone or empty; "
            "restore that file. A new key would promise too much."
        )
    if not (folder / _FILE).exists() and any(folder.iterdir()):
        raise InvalidInput(
            f"the folder {folder} holds other things and no key; name a new folder for the key."
        )


def _releases(folder: Path) -> set[str] | None:
    """Names of the releases so far; None without a key."""
    with state_of(folder).reading() as state:
        return None if state is None else _names(state)


def keep_source(state: Connection, roster: Roster, bounds: PublicBounds) -> None:
    """The table that is released, once and for all."""
    fields = json.dumps(bounds.to_fields())
    ids, outcomes = json.dumps(roster.ids), roster.outcomes.astype("<f8").tobytes()
    state.execute(
        "INSERT INTO source VALUES (?, ?, ?, ?, ?, ?)",
        (roster.fingerprint, fields, bounds.id, bounds.outcome, ids, outcomes),
    )


def keep_release(state: Connection, drawn: Drawn, rows: bytes) -> None:
    """One more release, with the file of its rows."""
    certificate, order = drawn.certificate, drawn.order.astype("<i8").tobytes()
    seed = None if drawn.seed is None else str(drawn.seed)
    state.execute(
        "INSERT INTO releases (release, seed, certificate, rows, people) VALUES (?, ?, ?, ?, ?)",
        (certificate.release, seed, certificate.to_json(), rows, order),
    )


def announce(folder: Path, release: str) -> None:
    """Note, outside of `key.sqlite` and for good, that a release is about to be seen by others.

    It is on disk in `key.sqlite` by now, not only in this transaction.
    """
    handle = os.open(folder / f"{release}.published", os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    # Also if it was there: the run that made it may have been stopped before this.
    sync_folder(folder)


def mark_published(state: Connection, release: str) -> None:
    """Note that a release was written out for others."""
    state.execute(
        "UPDATE releases SET published = 1 WHERE release = ? AND NOT published", (release,)
    )


def keep_answers(state: Connection, answers: Sequence[GivenAnswer]) -> None:
    """More answers. A second, different draw for a turn of a person breaks the table's key."""
    for each in answers:
        state.execute(
            "INSERT INTO draws SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS "
            "(SELECT 1 FROM draws WHERE (person, turn) = (?1, ?2) AND value IS ?4)",
            (each.person, each.turn, each.outcome, each.value),
        )
        state.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?)",
            (each.release, each.question, each.row, each.person, each.turn),
        )


# Simulated and real.


def simulated_key(folder: Path) -> Path:
    """The folder of the simulated key, beside the real one."""
    if folder.name.endswith(_SIMULATED):
        return folder
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(named.name + _SIMULATED)


def key_of(release: str, folder: Path) -> Path:
    """The key of a release: that in the folder, or the key of simulated releases beside it."""
    beside = simulated_key(folder)
    real = _releases(folder)
    if real is not None and release in real:
        return folder
    simulated = _releases(beside)
    if simulated is None:
        return folder
    return beside if real is None or release in simulated else folder
