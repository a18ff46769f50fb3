"""The curator's key: what stays at home, in a folder that only its owner can read.

    key/key.json            the table's fingerprint, the bounds, the releases so far
    key/people.csv          ids of the rows and, if the table had them, outcomes
    key/<release>/          a release as it was drawn, the secret order of its rows, and whether it
                            was written out for others
    key/answers.jsonl       every answer that was drawn, appended before anyone sees it
    key-simulated/          the same for simulated releases, which have a key of their own

A release counts from the moment `key.json` names it. What was drawn before that and lost in a crash
was seen by nobody; what it names can be written out again, however often, without drawing anything.
An answer counts once its line is complete. A folder in which `key.json` is gone or older than what
others have seen is refused: to start afresh there would hide a release.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet.durable import (
    append_durably,
    is_draft,
    sync_folder,
    write_bytes,
)
from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.certificate import DAMAGE, Certificate
from discreet.outsourcing.files import locked, read_numbers, sha256_of, table_bytes
from discreet.validation import FloatArray, IntArray, InvalidInput

SCHEMA = 1
NOTICE = (
    "SECRET: says which person each released row belongs to. Keep it; without it no question can "
    "be answered, and with it nothing is private."
)
CERTIFICATE = "certificate.json"
_KEY, _PEOPLE, _ORDER, _LOG = "key.json", "people.csv", "order.npy", "answers.jsonl"
_PUBLISHED = "published"
_SIMULATED = "-simulated"
_RELEASE = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Drawn:
    """One release of the table.

    Attributes:
        release: its name.
        asked: what it was asked to be, in full; the same wish gives the same release.
        seed: of simulated noise; None for secure noise.
    """

    release: str
    asked: dict[str, Any]
    seed: int | None


@dataclass(frozen=True)
class LoggedAnswer:
    """One answer that was drawn.

    Attributes:
        release: which release the question was about.
        question: its number.
        row: the released row.
        person: the row of the table.
        value: what was answered; None for a row that cannot be measured.
        drawn: whether it is an answer of its own, or an earlier one about the same person.
    """

    release: str
    question: int
    row: int
    person: int
    value: float | None
    drawn: bool


@dataclass(frozen=True, eq=False)
class Key:
    """What the key folder holds.

    Attributes:
        folder: where.
        fingerprint: of ids and coordinates.
        bounds: of the table.
        ids: (n,) names of people, sorted.
        outcomes: (n,) outcomes, NaN where there is none; None if the table had no such column.
        drawn: the releases so far.
    """

    folder: Path
    fingerprint: str
    bounds: PublicBounds
    ids: tuple[str, ...]
    outcomes: FloatArray | None
    drawn: tuple[Drawn, ...] = field(default=())

    @property
    def simulated(self) -> bool:
        """Whether all releases so far were simulated; real ones have a key of their own."""
        return bool(self.drawn) and all(one.seed is not None for one in self.drawn)

    def certificate(self, release: str) -> Certificate:
        """The certificate of one release."""
        try:
            text = (self.folder / release / CERTIFICATE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self._damaged(release, error) from error
        found = Certificate.from_json(text)
        if (found.release, found.rows) != (release, len(self.ids)):
            raise self._damaged(release, "its certificate belongs to another one")
        return found

    def order(self, release: str) -> IntArray:
        """(n,) which of the people each released row is."""
        try:
            order = np.load(self.folder / release / _ORDER, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(release, error) from error
        if not np.array_equal(np.sort(order), np.arange(len(self.ids))):
            raise self._damaged(release, "its order does not name everybody once")
        found: IntArray = order.astype(np.int64)
        return found

    def find(self, release: str) -> Drawn:
        """The release of that name.

        Raises:
            InvalidInput: for one that this key does not know.
        """
        for one in self.drawn:
            if one.release == release:
                return one
        raise InvalidInput(
            f"the release {release!r} is not one of the {len(self.drawn)} that the key in "
            f"{self.folder} belongs to; give the key that was made with it."
        )

    def was_published(self, release: str) -> bool:
        """Whether a release was written out for others."""
        return (self.folder / release / _PUBLISHED).exists()

    def mark_published(self, release: str) -> None:
        """Note that a release was written out for others."""
        if not self.was_published(release):
            write_bytes(self.folder / release / _PUBLISHED, b"", private=True)

    def answers(self) -> list[LoggedAnswer]:
        """All answers that were drawn."""
        path = self.folder / _LOG
        if not path.exists():
            return []
        content = path.read_bytes()
        try:
            whole = content[: content.rfind(b"\n") + 1].decode("utf-8")
            return [LoggedAnswer(**json.loads(line)) for line in whole.splitlines()]
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"the log of answers {path} is damaged ({error!r}); restore it, or answers would "
                "be drawn twice."
            ) from error

    def log(self, answers: list[LoggedAnswer]) -> None:
        """Note answers; they are on disk when this returns."""
        path = self.folder / _LOG
        if path.exists():
            # A line that a crash cut short was seen by nobody: take it off.
            content = path.read_bytes()
            end = content.rfind(b"\n") + 1
            if end < len(content):
                os.truncate(path, end)
        append_durably(path, "".join(json.dumps(asdict(one)) + "\n" for one in answers))

    def with_release(
        self, drawn: Drawn, certificate: Certificate, content: bytes, order: IntArray
    ) -> Key:
        """The key after one more release, which is on disk when this returns."""
        target = self.folder / drawn.release
        target.mkdir(mode=0o700)
        write_bytes(target / certificate.file, content, private=True)
        write_bytes(target / CERTIFICATE, certificate.to_json().encode("utf-8"), private=True)
        secret = io.BytesIO()
        np.save(secret, order)
        write_bytes(target / _ORDER, secret.getvalue(), private=True)
        more = replace(self, drawn=(*self.drawn, drawn))
        more._save()
        return more

    def _damaged(self, release: str, problem: object) -> InvalidInput:
        return InvalidInput(
            f"the release {release} in {self.folder} is damaged ({problem}); restore the key."
        )

    def _save(self) -> None:
        path = self.folder / _PEOPLE
        if not path.exists():
            people = pd.DataFrame({"id": list(self.ids)})
            if self.outcomes is not None:
                people["outcome"] = self.outcomes
            write_bytes(path, table_bytes(people, "csv"), private=True)
        content = {
            "notice": NOTICE,
            "kind": "curator key",
            "schema": SCHEMA,
            "fingerprint": self.fingerprint,
            "people": sha256_of(path.read_bytes()),
            "bounds": self.bounds.to_dict(),
            "id": self.bounds.id,
            "outcome": self.bounds.outcome,
            "releases": [asdict(one) for one in self.drawn],
        }
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        write_bytes(self.folder / _KEY, text.encode("utf-8"), private=True)


def simulated_key(folder: Path) -> Path:
    """Where the key of simulated releases is, beside the key of real ones."""
    if folder.name.endswith(_SIMULATED):
        return folder
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(named.name + _SIMULATED)


def key_of(release: str, folder: Path) -> Path:
    """The key of a release: that in the folder, or the key of simulated releases beside it."""
    beside = simulated_key(folder)
    if not (folder / _KEY).exists() and (beside / _KEY).exists():
        return beside
    simulated = _RELEASE.fullmatch(release) and (beside / release).exists()
    return beside if simulated and not (folder / release).exists() else folder


def fingerprint_of(ids: tuple[str, ...], coordinates: FloatArray) -> str:
    """By which a table is known: of its ids and the rows that would be released."""
    digest = hashlib.sha256(json.dumps(list(ids)).encode("utf-8"))
    digest.update(np.ascontiguousarray(coordinates, dtype="<f8").tobytes())
    return digest.hexdigest()


def check_folder(folder: Path) -> None:
    """Refuse a folder that a key cannot be in; nothing changes.

    Raises:
        InvalidInput: also where somebody saw what `key.json` does not know.
    """
    if not folder.exists():
        if not folder.parent.is_dir():
            raise InvalidInput(f"the folder of {folder} does not exist; make it first.")
        return
    if not folder.is_dir():
        raise InvalidInput(f"the key {folder} is a file; name a folder.")
    if not (folder / _KEY).exists() and _strangers(folder):
        raise InvalidInput(
            f"the folder {folder} holds other things and no key; name a new folder for the key."
        )
    unknown = _unknown(folder)
    seen = [one.name for one in unknown if (one / _PUBLISHED).exists()]
    if seen or (not (folder / _KEY).exists() and (folder / _LOG).exists()):
        what = f"the release {seen[0]} was given out" if seen else "answers were given"
        raise InvalidInput(
            f"{what} with the key in {folder}, but its {_KEY} does not know of it; restore that "
            "file. A new key would promise too much."
        )


@contextmanager
def open_folder(folder: Path) -> Iterator[None]:
    """The key folder, made if need be, for this process alone."""
    check_folder(folder)
    if not folder.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    with locked(folder):
        check_folder(folder)
        _sweep(folder)
        yield


def read_key(folder: Path) -> Key | None:
    """The key in a folder; None if nothing was released with it yet.

    Raises:
        InvalidInput: for a key that cannot be read or that is damaged.
    """
    path = folder / _KEY
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("kind") != "curator key" or content.get("schema") != SCHEMA:
            raise InvalidInput(
                f"{path} is not a key of schema {SCHEMA}; give the folder that `discreet "
                "curate` made."
            )
        bounds = PublicBounds.from_dict(content["bounds"], content["id"], content["outcome"])
        if sha256_of((folder / _PEOPLE).read_bytes()) != content["people"]:
            raise InvalidInput(f"{folder / _PEOPLE} was changed; restore the key.")
        people = read_numbers(folder / _PEOPLE, ("id",))
        ids = tuple(people["id"].astype(str).tolist())
        has_outcomes = "outcome" in people.columns
        return Key(
            folder=folder,
            fingerprint=content["fingerprint"],
            bounds=bounds,
            ids=ids,
            outcomes=people["outcome"].to_numpy(np.float64, na_value=math.nan)
            if has_outcomes
            else None,
            drawn=tuple(Drawn(**one) for one in content["releases"]),
        )
    except InvalidInput:
        raise
    except (OSError, *DAMAGE) as error:
        raise InvalidInput(f"the key in {folder} is damaged ({error!r}).") from error


def _strangers(folder: Path) -> bool:
    known = {".lock", _PEOPLE, _LOG}
    return not all(
        one.name in known or is_draft(one.name) or _RELEASE.fullmatch(one.name)
        for one in folder.iterdir()
    )


def _unknown(folder: Path) -> list[Path]:
    """Releases in the folder that `key.json` does not name; none where it cannot be read."""
    path = folder / _KEY
    known = set()
    if path.exists():
        try:
            known = {one["release"] for one in json.loads(path.read_text())["releases"]}
        except (OSError, ValueError, KeyError, TypeError):
            return []
    there = [one for one in folder.iterdir() if _RELEASE.fullmatch(one.name)]
    return [one for one in there if one.name not in known]


def _sweep(folder: Path) -> None:
    """Take away what a crash left of releases that were seen by nobody."""
    for one in _unknown(folder):
        shutil.rmtree(one)
    for one in folder.iterdir():
        if one.is_file() and is_draft(one.name):
            one.unlink()
    if not (folder / _KEY).exists():
        (folder / _PEOPLE).unlink(missing_ok=True)
