"""Logs as one JSON object a line, with nothing in them that a request brought.

What went wrong is named by the kind of exception and the line of code; its message stays in the
process, because it may quote a person.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import IO

_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^([\w.]*(?:Error|Exception|Exit|Interrupt))(?::|$)", re.MULTILINE)
_LOGGERS = ("discreet", "uvicorn", "asyncio", "alembic")


class JsonLines(logging.Formatter):
    """One line for each record: time, level, logger, message, and the record's `facts`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _without_traceback(record.getMessage()),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["at"] = place_of(record.exc_info[1])
        return json.dumps(line, default=str)


def _without_traceback(message: str) -> str:
    """A message, or of one that is a traceback, as a server that is stopped twice writes it, the
    kind of the last exception."""
    if _TRACEBACK not in message:
        return message
    kinds = _RAISED.findall(message)
    return f"stopped by {kinds[-1]}" if kinds else "stopped"


def place_of(error: BaseException | None) -> str:
    """The line of code that raised an exception."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def log_as_json(stream: IO[str] | None = None, level: int = logging.INFO) -> logging.Handler:
    """Write the logs of a server to a stream, standard error if none is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name in _LOGGERS:
        each = logging.getLogger(name)
        each.handlers[:] = [handler]
        each.setLevel(level)
        each.propagate = False
    return handler
