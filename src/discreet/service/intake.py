"""Reports that are private when they arrive: checked, known again, and kept until a release.

What is kept is what was sent, less the reports that had come before. Whoever sends a request again
gets the answer that it had.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, select, text

from discreet.codec import decode, encode
from discreet.learners.messages import Reports
from discreet.learners.stream import TARGET_NAME
from discreet.privacy import SecureNoise
from discreet.service.deployment import packed
from discreet.service.schema import batches
from discreet.service.store import Store
from discreet.validation import InvalidInput, whole_vector

MOST_REPORTS = 10_000
_MOST_TICKET = 2**63 - 1
# The release of a batch that is in none, as all of it had come before.
_IN_NONE = 0
_INSERTING = (
    "INSERT INTO tickets (study, stream, version, ticket) "
    "SELECT :study, :stream, :version, value FROM {} WHERE true "
    "ON CONFLICT DO NOTHING RETURNING ticket"
)
_INSERTING_SQLITE = text(_INSERTING.format("json_each(:numbers)"))
_INSERTING_POSTGRESQL = text(_INSERTING.format("unnest(cast(:numbers as bigint[])) as value"))


@dataclass(frozen=True)
class Receipt:
    """What became of reports that arrived together.

    Attributes:
        stored: how many were new; they are in the database.
        repeated: how many had been stored before.
        again: whether this answers a request that had been answered before, with its first answer.
    """

    stored: int
    repeated: int
    again: bool = field(default=False, compare=False)


class Intake:
    """Takes reports for the studies of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def add(
        self, name: str, texts: Sequence[str], ids: Sequence[int] | None, stream: str = TARGET_NAME
    ) -> Receipt:
        """Keep reports until a release has them.

        Args:
            name: of the study.
            texts: messages, each reports of one or several people, as `encode` made them.
            ids: a number for each report in turn, drawn by whoever made it and sent with it as
                often as it is sent; None where reports carry tickets.
            stream: the target, or the name of a source.

        Raises:
            InvalidInput: for reports that nobody made under a policy of this study. Then none is
                kept.
            Conflict, Gone: where the study takes none now.
        """
        served = self.store.study(name)
        served.check_stream(stream)
        if served.secret and stream == TARGET_NAME:
            raise InvalidInput(
                f"the study {name!r} has joint privacy, where nobody reports: ask for a decision, "
                "and send the reward by its id."
            )
        if not texts:
            raise InvalidInput("reports was empty; send at least one.")
        made = [decode(each, Reports) for each in texts]
        total = sum(map(len, made))
        if total > MOST_REPORTS:
            raise InvalidInput(
                f"there were {total} reports in one request; send at most {MOST_REPORTS}."
            )
        published = len(served.policies(stream))
        if any(each.policy_version >= published for each in made):
            served = self.store.study(name, fresh=True)
        for each in made:
            if each.noise != SecureNoise.name:
                raise InvalidInput(
                    f"the noise source of reports was {each.noise!r}; a service takes "
                    f"{SecureNoise.name!r} alone, because other noise protects nobody."
                )
            served.check_reports(stream, each)
        return self._keep(name, stream, made, _tickets(made, ids))

    def _keep(
        self, name: str, stream: str, made: Sequence[Reports], numbers: Sequence[list[int]]
    ) -> Receipt:
        whole = _body(made, numbers)
        digest = hashlib.sha256(whole.encode()).hexdigest()
        wanted = select(batches.c.stored, batches.c.repeated).where(
            batches.c.study == name, batches.c.stream == stream, batches.c.digest == digest
        )
        with self.store.database.writing() as connection:
            known = connection.execute(wanted).first()
            if known is not None:
                return Receipt(known.stored, known.repeated, again=True)
            self.store.check_running(connection, name)
            new = self._new_tickets(connection, name, stream, made, numbers)
            kept, kept_numbers = [], []
            for reports, tickets in zip(made, numbers, strict=True):
                mine = new[reports.policy_version]
                rows = [row for row, ticket in enumerate(tickets) if ticket in mine]
                mine.difference_update(tickets)  # another message may have it again
                if rows:
                    some = len(rows) < len(tickets)
                    kept.append(reports.of(np.array(rows)) if some else reports)
                    kept_numbers.append([tickets[row] for row in rows])
            stored = sum(map(len, kept_numbers))
            receipt = Receipt(stored, sum(map(len, numbers)) - stored)
            body = whole if receipt.repeated == 0 else _body(kept, kept_numbers)
            added = connection.execute(
                self.store.database.inserting(batches)
                .values(
                    study=name,
                    stream=stream,
                    digest=digest,
                    stored=receipt.stored,
                    repeated=receipt.repeated,
                    body=packed(body) if stored else None,
                    received=time.time(),
                    released=None if stored else _IN_NONE,
                )
                .on_conflict_do_nothing()
            )
            if added.rowcount != 1:
                # The same request came at the same time, and was first.
                known = connection.execute(wanted).one()
                return Receipt(known.stored, known.repeated)
        return receipt

    def _new_tickets(
        self,
        connection: Connection,
        name: str,
        stream: str,
        made: Sequence[Reports],
        numbers: Sequence[list[int]],
    ) -> dict[int, set[int]]:
        """Those tickets of each version that were not known yet, which they are now."""
        given: dict[int, set[int]] = {}
        for reports, tickets in zip(made, numbers, strict=True):
            given.setdefault(reports.policy_version, set()).update(tickets)
        sqlite = self.store.database.sqlite
        inserting = _INSERTING_SQLITE if sqlite else _INSERTING_POSTGRESQL
        new = {}
        # In one order for all writers, so that no two wait for each other.
        for version, some in sorted(given.items()):
            rows = json.dumps(sorted(some)) if sqlite else sorted(some)
            values = {"study": name, "stream": stream, "version": version, "numbers": rows}
            new[version] = set(connection.scalars(inserting, values))
        return new


def _tickets(made: Sequence[Reports], ids: Sequence[int] | None) -> list[list[int]]:
    """For each message the numbers by which its reports are known again."""
    numbers, given = [], None if ids is None else whole_vector(ids, "ids", 0, _MOST_TICKET)
    for each in made:
        own = getattr(each, "tickets", None)
        if own is not None and len(own) == len(each):
            numbers.append([int(ticket) for ticket in own])
            continue
        if given is None or len(given) < len(each):
            raise InvalidInput(
                f"reports of {each.kind} carry no tickets; send ids with them, a random whole "
                f"number from 0 to {_MOST_TICKET} for each, the same ones whenever they are sent."
            )
        numbers.append([int(number) for number in given[: len(each)]])
        given = given[len(each) :]
    if given is not None and len(given):
        raise InvalidInput(
            f"there were {len(given)} more ids than reports without tickets; send one for each."
        )
    for place, some in enumerate(numbers):
        if len(set(some)) < len(some):
            raise InvalidInput(
                f"message {place} of reports (the first is 0) had a ticket twice; send each report "
                "once."
            )
    return numbers


def _body(made: Sequence[Reports], numbers: Sequence[list[int]]) -> str:
    """Reports and their numbers as they are kept."""
    return json.dumps({"reports": [encode(each) for each in made], "ids": list(numbers)})
