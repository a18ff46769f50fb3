"""What curators and modelers ask for: a released table, questions about its rows, answers."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from discreet.outsourcing.answers import Question
from discreet.service.access import only, router
from discreet.service.bodies import Body
from discreet.service.service import Service
from discreet.service.tables import StoredTable, Tables
from discreet.validation import InvalidInput

Table = Annotated[str, Path(min_length=1, max_length=100)]
_Number = Annotated[int, Field(ge=1, lt=2**31)]
_Row = Annotated[int, Field(ge=0, lt=2**31)]
_MOST = 10_000


class TableBody(Body):
    """A release: the certificate as its file holds it, and the file of the rows in base64."""

    certificate: str
    rows: str
    format: Literal["csv", "parquet"]


class QuestionBody(Body):
    """One row that is asked for."""

    question: _Number
    row: _Row


class QuestionsBody(Body):
    """Rows that are asked for."""

    questions: Annotated[list[QuestionBody], Field(min_length=1, max_length=_MOST)]


class AnswerBody(QuestionBody):
    """What was measured; null where it cannot be."""

    answer: float | None


class AnswersBody(Body):
    """What was measured."""

    answers: Annotated[list[AnswerBody], Field(min_length=1, max_length=_MOST)]


def table_routes(service: Service) -> APIRouter:
    """The routes of outsourced tables."""
    routes = router()
    mailbox = Tables(service.database)

    @routes.put("/v1/tables/{table}", openapi_extra=only("curator"))
    def publish(table: Table, body: TableBody) -> dict[str, bool]:
        """Publish a release, once."""
        try:
            rows = base64.b64decode(body.rows, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidInput(
                "rows were no base64; send the file of the rows in base64."
            ) from None
        return {"new": mailbox.publish(table, StoredTable(body.certificate, rows, body.format))}

    @routes.get("/v1/tables/{table}", openapi_extra=only("modeler", "auditor", "curator"))
    def read(table: Table) -> dict[str, str]:
        """A release as it was published."""
        stored = mailbox.read(table)
        return {
            "certificate": stored.certificate,
            "rows": base64.b64encode(stored.rows).decode(),
            "format": stored.format,
        }

    @routes.post("/v1/tables/{table}/questions", status_code=202, openapi_extra=only("modeler"))
    def ask(table: Table, body: QuestionsBody) -> dict[str, int]:
        """Ask for rows."""
        asked = [Question(each.question, each.row) for each in body.questions]
        return {"new": mailbox.ask(table, asked)}

    @routes.get("/v1/tables/{table}/questions", openapi_extra=only("curator", "modeler"))
    def questions(
        table: Table, waiting: Annotated[bool, Query(alias="open")] = False
    ) -> list[dict[str, Any]]:
        """What was asked; with `open` what has no answer yet."""
        return [
            {"question": each.number, "row": each.row, "status": each.status}
            for each in mailbox.questions(table, waiting)
        ]

    @routes.post("/v1/tables/{table}/answers", status_code=202, openapi_extra=only("curator"))
    def answer(table: Table, body: AnswersBody) -> dict[str, int]:
        """Answer; an answer never changes."""
        given = [Question(each.question, each.row).answered(each.answer) for each in body.answers]
        return {"new": mailbox.answer(table, given)}

    @routes.get("/v1/tables/{table}/answers", openapi_extra=only("modeler"))
    def answers(
        table: Table, after: Annotated[int, Query(ge=0, lt=2**31)] = 0
    ) -> list[dict[str, Any]]:
        """Answers to questions of a larger number than `after`."""
        return [
            {"question": each.number, "row": each.row, "answer": each.answer}
            for each in mailbox.answers(table, after)
        ]

    return routes
