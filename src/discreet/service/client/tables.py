"""Curator and modeler over a service, in place of files that they would mail to each other.

    curator = CuratorClient(URL, "homes", key=TOKEN, folder="key")    # of the curator's key
    curator.publish(certificate.release)
    curator.questions()                                            # the work list: rows to measure
    curator.answer(outcomes)                                       # Unmeasured says who is missing

    modeler = ModelerClient(URL, "homes", key=TOKEN, folder="search") # keeps release and state
    turn = modeler.step(rounds=50, batch=5)                        # take answers over, ask for more

What the two keep is what they keep without a service: the curator's key and the modeler's state are
on the disk before anything is sent, so every call can be repeated at any point. The service holds
nothing that is not public between them, and neither needs to trust it: rows are checked against
their certificate, answers against what was asked.
"""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from discreet.codec import padded
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.exchange import (
    CERTIFICATE,
    ReleasedTable,
    format_of,
    read_questions,
    write_answers,
    write_release,
)
from discreet.outsourcing.mechanisms import QUESTION_BYTES, Question
from discreet.outsourcing.modeler import RowSearch, SearchSettings, Turn
from discreet.service.client.transport import (
    AsyncClient,
    Client,
    Unreachable,
    body_of,
    fields_of,
    table_path,
)
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    import httpx2

_RELEASE, _STATE = "release", "search.sqlite"
# Questions and answers in one request.
_MOST = 1_000


class CuratorClient(Client):
    """The side that holds a table (discreet.outsourcing.curator).

    Args:
        url: of the service.
        table: under which name the release is published.
        key: a token for curators of this table.
        folder: of the curator's key, where its releases were drawn.
        options: as of `Client`: `patience`, `transport`, `allow_http`.
    """

    def __init__(
        self, url: str, table: str, *, key: str, folder: str | Path, **options: Any
    ) -> None:
        super().__init__(url, key=key, **options)
        self.table = table
        self.curator = Curator(folder)

    def publish(self, release: str) -> bool:
        """Publish a release that was drawn; again, if need be.

        Returns:
            Whether the service did not have it yet.

        Raises:
            Refused: where another release is published under this name.
        """
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / _RELEASE
            self.curator.publish(release, out)
            text = (out / CERTIFICATE).read_text(encoding="utf-8")
            file = Path(Certificate.from_json(text).file)
            rows = base64.b64encode((out / file).read_bytes()).decode()
        fields = {"certificate": text, "rows": rows, "format": format_of(file)}
        answer = self._ask("PUT", table_path(self.table), body_of(fields))
        return bool(_object(answer)["new"])

    def questions(self) -> list[Question]:
        """Rows that the modeler asked for and that have no answer yet."""
        path = f"{table_path(self.table, 'questions')}?open=true"
        return [
            Question(_whole(each, "question"), _whole(each, "row"))
            for each in _list(self._ask("GET", path))
        ]

    def answer(self, outcomes: pd.DataFrame | None = None) -> int:
        """Answer what is asked: drawn once and kept with the key, then sent.

        Args:
            outcomes: ids and outcomes of people who were measured meanwhile; an empty outcome says
                that a person cannot be measured.

        Returns:
            How many answers the service has now that it had not before.

        Raises:
            Unmeasured: with the ids of people who must be measured first; nothing was answered.
        """
        asked = self.questions()
        if not asked:
            return 0
        fields = _object(self._ask("GET", table_path(self.table)))
        release = Certificate.from_json(str(fields.get("certificate"))).release
        wanted = {each.number for each in asked}
        given = [
            each for each in self.curator.answer(release, asked, outcomes) if each.number in wanted
        ]
        new = 0
        rows = [{"question": each.number, "row": each.row, "answer": each.answer} for each in given]
        for body in _bodies("answers", rows):
            answer = self._ask("POST", table_path(self.table, "answers"), body)
            new += int(_object(answer)["new"])
        return new


class ModelerClient(Client):
    """The side that searches (discreet.outsourcing.modeler).

    Args:
        url: of the service.
        table: the name of the release.
        key: a token for modelers of this table.
        folder: where the release and the state of the search are kept; made if need be.
        settings: what decides which rows are asked for; None for the usual ones, or those that the
            search was begun with.
        options: as of `Client`: `patience`, `transport`, `allow_http`.
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        key: str,
        folder: str | Path,
        settings: SearchSettings | None = None,
        **options: Any,
    ) -> None:
        super().__init__(url, key=key, **options)
        self.table = table
        self.folder = Path(folder)
        self.settings = settings
        self._search: RowSearch | None = None

    def release(self) -> ReleasedTable:
        """The release, fetched once and checked against its certificate."""
        place = self.folder / _RELEASE
        if not place.exists():
            fields = _object(self._ask("GET", table_path(self.table)))
            certificate = Certificate.from_json(str(fields.get("certificate")))
            try:
                rows = base64.b64decode(str(fields.get("rows")), validate=True)
            except (binascii.Error, ValueError) as error:
                raise InvalidInput(
                    "the rows of the release were no base64; fetch it again."
                ) from error
            self.folder.mkdir(parents=True, exist_ok=True)
            write_release(certificate, rows, place)
        return ReleasedTable.read(place)

    def step(self, rounds: int, batch: int = 1, least_gain: float | None = None) -> Turn:
        """One turn: take over the answers that came, and ask the next batch if none waits.

        Args:
            rounds: how many questions there may be in all.
            batch: how many are asked at a time.
            least_gain: stop when one more question promises less improvement than this.

        Raises:
            InvalidInput: for answers to what was not asked, or that changed.
        """
        if self._search is None:
            self._search = RowSearch(self.release(), self.folder / _STATE, self.settings)
        answers = _list(self._ask("GET", table_path(self.table, "answers")))
        given = [_answered(each) for each in answers]
        with tempfile.TemporaryDirectory() as folder:
            questions, file = Path(folder) / "ask.csv", Path(folder) / "answers.csv"
            if given:
                write_answers(self._search.release, given, file)
            turn = self._search.step(
                questions, file, rounds=rounds, batch=batch, least_gain=least_gain
            )
            waiting = read_questions(questions)[1] if questions.exists() else []
        # Those that waited before as well: the last turn may have been cut short here.
        rows = [{"question": each.number, "row": each.row} for each in waiting]
        for body in _bodies("questions", rows):
            self._ask("POST", table_path(self.table, "questions"), body)
        return turn


class AsyncCuratorClient(AsyncClient):
    """A `CuratorClient` whose methods are awaited."""

    blocking = CuratorClient


class AsyncModelerClient(AsyncClient):
    """A `ModelerClient` whose methods are awaited."""

    blocking = ModelerClient


def _bodies(name: str, every: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Requests that send rows, at lengths that follow from their number."""
    for start in range(0, len(every), _MOST):
        rows = every[start : start + _MOST]
        yield padded(body_of({name: rows}), QUESTION_BYTES * len(rows))


def _object(answer: httpx2.Response) -> Mapping[str, Any]:
    fields = fields_of(answer)
    if not isinstance(fields, Mapping):
        raise Unreachable("something else answered in place of the service; try again.")
    return fields


def _list(answer: httpx2.Response) -> Sequence[Mapping[str, Any]]:
    fields = fields_of(answer)
    if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
        raise Unreachable("something else answered in place of the service; try again.")
    return fields


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int):
        raise InvalidInput(f"the service sent the {name} {value!r:.80}; it must be a whole number.")
    return value


def _answered(fields: Mapping[str, Any]) -> Question:
    value = fields.get("answer")
    if value is not None and not isinstance(value, int | float):
        raise InvalidInput(f"the service sent the answer {value!r:.80}; it must be a number.")
    question = Question(_whole(fields, "question"), _whole(fields, "row"))
    return question.answered(None if value is None else float(value))
