"""The mailbox of a curator and a modeler: a released table, questions, answers; and its routes.

Its content is public between the two. A table is published once under a name, a question is known
by its number, and an answer never changes.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection, Row, insert, select, update

from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.exchange import format_of, sha256_of
from discreet.outsourcing.mechanisms import QUESTION_BYTES, Question, new_questions
from discreet.privacy import SecureNoise
from discreet.service.server.access import Named, PaddedResponse, only, router
from discreet.service.server.bodies import (
    AnswerBody,
    AnswersBody,
    Body,
    New,
    NewCount,
    QuestionFields,
    QuestionsBody,
    TableBody,
)
from discreet.service.server.database import Database
from discreet.service.server.errors import Conflict, NotFound
from discreet.service.server.schema import questions, server, studies, tables
from discreet.service.server.service import Service
from discreet.validation import InvalidInput

_LONGEST_NAME = 100


class Tables:
    """The outsourced tables of a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def publish(self, name: str, table: TableBody) -> bool:
        """Keep a release, once.

        Returns:
            Whether it is new; False where the same one was published before.

        Raises:
            InvalidInput: for a certificate that claims too much, rows that are not its own, or
                simulated noise, which does not protect people.
            Conflict: where another release, or a study, has the name.
        """
        if not 1 <= len(name) <= _LONGEST_NAME:
            raise InvalidInput(
                f"the name of a table had {len(name)} characters; it has 1 to {_LONGEST_NAME}."
            )
        rows = _checked_rows(table)
        with self.database.writing() as connection:
            known = connection.execute(
                select(tables).where(tables.c.name == name).with_for_update()
            ).one_or_none()
            if known is not None:
                if (known.certificate, known.rows) != (table.certificate, rows):
                    raise Conflict(
                        f"another release is published as {name!r}; a table is published once, so "
                        "give this one another name."
                    )
                return False
            # A key for one study or table is for that name.
            connection.execute(select(server.c.id).with_for_update())
            if connection.scalar(select(studies.c.name).where(studies.c.name == name)) is not None:
                raise Conflict(
                    f"a study is served as {name!r}, whose keys would open this table as well; "
                    "give the table another name."
                )
            connection.execute(
                insert(tables).values(
                    name=name,
                    certificate=table.certificate,
                    rows=rows,
                    format=table.format,
                    published=time.time(),
                    closed=False,
                )
            )
        return True

    def read(self, name: str) -> TableBody:
        """A release; `NotFound` where there is none."""
        with self.database.reading() as connection:
            row = _row(connection, name)
        rows = base64.b64encode(row.rows).decode()
        return TableBody(certificate=row.certificate, rows=rows, format=row.format)

    def ask(self, name: str, asked: Sequence[Question]) -> int:
        """Keep questions until they are answered.

        Returns:
            How many are new; the same number for the same row again is the same question.

        Raises:
            InvalidInput: for a row that the table does not have, or that is asked for too often.
            Conflict: for a number that stands for another row.
            Either way none is kept.
        """
        numbers = [each.number for each in asked]
        if not asked or len(set(numbers)) < len(numbers) or min(numbers) < 1:
            raise InvalidInput(
                f"there were {len(numbers)} questions with the numbers {numbers!r:.80}; send at "
                "least one, each with a number of its own from 1 on."
            )
        with self.database.writing() as connection:
            certificate = Certificate.from_json(_row(connection, name, lock=True).certificate)
            known = _asked(connection, name)
            rows = {each.number: each.row for each in known}
            for each in asked:
                if rows.get(each.number, each.row) != each.row:
                    raise Conflict(
                        f"question {each.number} is about row {rows[each.number]}, not {each.row}; "
                        "give new questions new numbers. Nothing was asked."
                    )
            new = new_questions(asked, known, certificate.rows, certificate.repeats)
            now = time.time()
            for each in new:
                connection.execute(
                    insert(questions).values(
                        table=name, question=each.number, row=each.row, asked=now
                    )
                )
        return len(new)

    def answer(self, name: str, answers: Sequence[Question]) -> int:
        """Keep answers, which never change.

        Returns:
            How many are new; an answer that was there already may come again.

        Raises:
            NotFound: for an unknown question.
            Conflict: for another answer, or another row, than is there. Either way none is kept.
        """
        if not answers:
            raise InvalidInput("answers was empty; send at least one.")
        with self.database.writing() as connection:
            _row(connection, name, lock=True)
            known = {each.number: each for each in _asked(connection, name)}
            new: dict[int, Question] = {}
            for each in answers:
                before = new.get(each.number) or known.get(each.number)
                if before is None:
                    raise NotFound(
                        f"there is no question {each.number} of {name!r}. Nothing was answered."
                    )
                if before.row != each.row or (
                    before.status != "waiting" and before.answer != each.answer
                ):
                    raise Conflict(
                        f"question {each.number} is about row {before.row} and has another answer "
                        "already, or is not about the row that this one is; an answer does not "
                        "change. Nothing was answered."
                    )
                if before.status == "waiting":
                    new[each.number] = each
            now = time.time()
            for each in new.values():
                connection.execute(
                    update(questions)
                    .where(questions.c.table == name, questions.c.question == each.number)
                    .values(answer=each.answer, answered=now)
                )
        return len(new)

    def questions(self, name: str, waiting: bool = False) -> list[Question]:
        """What was asked, by number; with `waiting` what has no answer yet: the curator's work."""
        with self.database.reading() as connection:
            _row(connection, name)
            known = _asked(connection, name)
        return [each for each in known if not waiting or each.status == "waiting"]

    def answers(self, name: str, after: int = 0) -> list[Question]:
        """Questions of a larger number than `after` that have their answer."""
        return [
            each
            for each in self.questions(name)
            if each.status != "waiting" and each.number > after
        ]


def _checked_rows(table: TableBody) -> bytes:
    """The file of the rows of a release whose certificate is theirs."""
    try:
        rows = base64.b64decode(table.rows, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("rows were no base64; send the file of the rows in base64.") from None
    certificate = Certificate.from_json(table.certificate)
    if certificate.mechanism.noise != SecureNoise.name or certificate.simulated:
        raise InvalidInput(
            f"the noise of this release was {certificate.mechanism.noise}; a service takes "
            f"{SecureNoise.name} alone, because other noise does not protect people."
        )
    if sha256_of(rows) != certificate.sha256:
        raise InvalidInput(
            "the rows are not those that the certificate was made for; send both from one release."
        )
    if format_of(Path(certificate.file)) != table.format:
        raise InvalidInput(
            f"the format was {table.format!r:.20}, but the certificate is about "
            f"{certificate.file}; send that format."
        )
    return rows


def _row(connection: Connection, name: str, lock: bool = False) -> Row[tuple[object, ...]]:
    wanted = select(tables).where(tables.c.name == name)
    row = connection.execute(wanted.with_for_update() if lock else wanted).one_or_none()
    if row is None:
        raise NotFound(f"no table was published as {name!r:.80}.")
    return row


def _asked(connection: Connection, name: str) -> list[Question]:
    rows = connection.execute(
        select(questions).where(questions.c.table == name).order_by(questions.c.question)
    )
    known = []
    for row in rows:
        question = Question(row.question, row.row)
        known.append(question if row.answered is None else question.answered(row.answer))
    return known


def table_routes(service: Service) -> APIRouter:
    """The routes of outsourced tables."""
    routes = router("tables")
    mailbox = Tables(service.database)

    @routes.put("/v1/tables/{table}", openapi_extra=only("curator"))
    def publish(table: Named, body: TableBody) -> New:
        """Publish a release, once."""
        return New(new=mailbox.publish(table, body))

    @routes.get("/v1/tables/{table}", openapi_extra=only("modeler", "auditor", "curator"))
    def read(table: Named) -> TableBody:
        """A release as it was published."""
        return mailbox.read(table)

    @routes.post("/v1/tables/{table}/questions", status_code=202, openapi_extra=only("modeler"))
    def ask(table: Named, body: QuestionsBody) -> NewCount:
        """Ask for rows."""
        asked = [Question(each.question, each.row) for each in body.questions]
        return NewCount(new=mailbox.ask(table, asked))

    @routes.get(
        "/v1/tables/{table}/questions",
        response_model=list[QuestionFields],
        openapi_extra=only("curator", "modeler"),
    )
    def questions(table: Named, waiting: Annotated[bool, Query(alias="open")] = False) -> Response:
        """What was asked; with `open` what has no answer yet."""
        return _padded(
            [
                QuestionFields(question=each.number, row=each.row, status=each.status)
                for each in mailbox.questions(table, waiting)
            ]
        )

    @routes.post("/v1/tables/{table}/answers", status_code=202, openapi_extra=only("curator"))
    def answer(table: Named, body: AnswersBody) -> NewCount:
        """Answer; an answer never changes."""
        given = [Question(each.question, each.row).answered(each.answer) for each in body.answers]
        return NewCount(new=mailbox.answer(table, given))

    @routes.get(
        "/v1/tables/{table}/answers",
        response_model=list[AnswerBody],
        openapi_extra=only("modeler"),
    )
    def answers(table: Named, after: Annotated[int, Query(ge=0, lt=2**31)] = 0) -> Response:
        """Answers to questions of a larger number than `after`."""
        return _padded(
            [
                AnswerBody(question=each.number, row=each.row, answer=each.answer)
                for each in mailbox.answers(table, after)
            ]
        )

    return routes


def _padded(rows: Sequence[Body]) -> Response:
    """Rows at a length that follows from their number."""
    content = [row.model_dump() for row in rows]
    return PaddedResponse(content, 200, QUESTION_BYTES * max(len(rows), 1))
