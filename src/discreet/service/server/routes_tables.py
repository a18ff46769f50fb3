"""What curators and modelers ask for: a released table, questions about its rows, answers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from discreet.outsourcing.answers import QUESTION_BYTES, Question
from discreet.service.server.access import only, router
from discreet.service.server.answers import PaddedResponse
from discreet.service.server.bodies import (
    AnswerFields,
    AnswersBody,
    Body,
    New,
    NewCount,
    QuestionFields,
    QuestionsBody,
    TableBody,
)
from discreet.service.server.service import Service
from discreet.service.server.tables import StoredTable, Tables
from discreet.validation import InvalidInput

Table = Annotated[str, Path(min_length=1, max_length=100)]


def table_routes(service: Service) -> APIRouter:
    """The routes of outsourced tables."""
    routes = router("tables")
    mailbox = Tables(service.database)

    @routes.put("/v1/tables/{table}", openapi_extra=only("curator"))
    def publish(table: Table, body: TableBody) -> New:
        """Publish a release, once."""
        try:
            rows = base64.b64decode(body.rows, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(
                "rows were no base64; send the file of the rows in base64."
            ) from None
        stored = StoredTable(body.certificate, rows, body.format)
        return New(new=mailbox.publish(table, stored))

    @routes.get("/v1/tables/{table}", openapi_extra=only("modeler", "auditor", "curator"))
    def read(table: Table) -> TableBody:
        """A release as it was published."""
        stored = mailbox.read(table)
        rows = base64.b64encode(stored.rows).decode()
        return TableBody.model_validate(
            {"certificate": stored.certificate, "rows": rows, "format": stored.format}
        )

    @routes.post("/v1/tables/{table}/questions", status_code=202, openapi_extra=only("modeler"))
    def ask(table: Table, body: QuestionsBody) -> NewCount:
        """Ask for rows."""
        asked = [Question(each.question, each.row) for each in body.questions]
        return NewCount(new=mailbox.ask(table, asked))

    @routes.get(
        "/v1/tables/{table}/questions",
        response_model=list[QuestionFields],
        openapi_extra=only("curator", "modeler"),
    )
    def questions(table: Table, waiting: Annotated[bool, Query(alias="open")] = False) -> Response:
        """What was asked; with `open` what has no answer yet."""
        return _padded(
            [
                QuestionFields(question=each.number, row=each.row, status=each.status)
                for each in mailbox.questions(table, waiting)
            ]
        )

    @routes.post("/v1/tables/{table}/answers", status_code=202, openapi_extra=only("curator"))
    def answer(table: Table, body: AnswersBody) -> NewCount:
        """Answer; an answer never changes."""
        given = [Question(each.question, each.row).answered(each.answer) for each in body.answers]
        return NewCount(new=mailbox.answer(table, given))

    @routes.get(
        "/v1/tables/{table}/answers",
        response_model=list[AnswerFields],
        openapi_extra=only("modeler"),
    )
    def answers(table: Table, after: Annotated[int, Query(ge=0, lt=2**31)] = 0) -> Response:
        """Answers to questions of a larger number than `after`."""
        return _padded(
            [
                AnswerFields(question=each.number, row=each.row, answer=each.answer)
                for each in mailbox.answers(table, after)
            ]
        )

    return routes


def _padded(rows: Sequence[Body]) -> Response:
    """Rows at a length that follows from their number."""
    content = [row.model_dump() for row in rows]
    return PaddedResponse(content, 200, QUESTION_BYTES * max(len(rows), 1))
