"""One process of the service: its database, what takes requests, and the thread that releases."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from sqlalchemy import literal, select

from discreet.service.server.aggregator import Aggregator
from discreet.service.server.database import Database, Unavailable, upgrade
from discreet.service.server.decisions import DecisionStore
from discreet.service.server.encryption import Cipher
from discreet.service.server.ingest import Ingest
from discreet.service.server.keys import Keys
from discreet.service.server.ledger import keep_rows
from discreet.service.server.schema import relays
from discreet.service.server.store import Store
from discreet.validation import InvalidInput

# So long a server that stops waits for a release that is being drawn.
_STOP_SECONDS = 30.0


@dataclass
class Service:
    """What the application serves.

    Attributes:
        database: with everything that is kept.
        identity: of that database.
        store, ingest, decisions, keys: what requests come to.
        aggregator: releases what is due, in a thread between `start` and `stop`.
        releases: whether this process does; others on the same database may.
    """

    database: Database
    identity: str
    store: Store
    ingest: Ingest
    decisions: DecisionStore
    keys: Keys
    aggregator: Aggregator
    releases: bool = True
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @classmethod
    def open(
        cls,
        url: str,
        environment: Mapping[str, str] = os.environ,
        releases: bool = True,
        clock_confirmed: bool = False,
    ) -> Self:
        """A service on a database, which is made or brought up to date.

        Args:
            url: of the database, as `Database` takes it.
            environment: where its key is.
            releases: whether this process releases what is due.
            clock_confirmed: whether the machine's clock is right, however far it is from the time
                that the database recorded.

        Raises:
            InvalidInput: where another server has the file, or the key is another one.
            Unavailable: where the database cannot be reached.
        """
        database = Database(url, Cipher.from_environment(environment))
        try:
            database.hold()
            upgrade(database)
            keep_rows(database)
            identity = database.begin(clock_confirmed)
            database.remember()
            with database.reading() as connection:
                if connection.execute(select(relays.c.study)).first() is not None:
                    raise InvalidInput(
                        "the database is that of a shuffler, which no learner may read; name "
                        "another one."
                    )
        except BaseException:
            database.close()
            raise
        store = Store(database)
        return cls(
            database,
            identity,
            store,
            Ingest(store),
            DecisionStore(store),
            Keys(database),
            Aggregator(store),
            releases,
        )

    def start(self) -> None:
        """Begin to release what is due."""
        if not self.releases:
            return
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self.aggregator.run, args=(self._stopping,), name="aggregator", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop between two releases, and give the database back."""
        self._stopping.set()
        self.wait(_STOP_SECONDS)
        self.database.close()

    def wait(self, seconds: float) -> None:
        """Wait for the aggregator to stop, for so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def releasing(self) -> bool:
        """Whether the aggregator works."""
        return self._thread is not None and self._thread.is_alive()

    def missing(self) -> str:
        """What keeps this process from serving, in words; empty where nothing does."""
        try:
            with self.database.reading() as connection:
                connection.execute(select(literal(1)))
        except Unavailable:
            return "the database cannot be reached"
        return "" if self.releasing or not self.releases else "the aggregator has stopped"
