"""One database, SQLite or PostgreSQL: connections, transactions, what may go wrong with it.

`reading()` and `writing()` are transactions: what is written in one is there as a whole or not at
all. On SQLite writers take turns, and a transaction is on the disk when it ends; a file that is
served is locked against a second server.

`upgrade` gives new databases the tables, and migrates older ones. All steps are one transaction, so
a server that dies within it leaves the database as it was. Of several servers that start at once
one does the work, and the others wait.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any

from alembic.command import upgrade as run_migrations
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Row, Select, Table, create_engine, event, inspect, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.schema import metadata, server
from discreet.validation import InvalidInput

_SQLITE_WAIT = 30.0  # seconds a writer waits for another process
# Of libpq, unless the address says otherwise: a PostgreSQL whose machine is gone without a word is
# noticed within these seconds, in which every request would wait otherwise.
_NOTICE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
# Pages of 4 kB that wait to be written where they belong. Public coins are random, so each request
# writes as many pages as it has reports; together they take less.
_WAL_PAGES = 4_000
_CACHE_KILOBYTES = 16_000  # of a connection
# By which a database knows its key again.
_MARKED = b"the key of this database"
_NO_KEY = b""
# They change when a PostgreSQL database, or what it holds, is restored from a dump.
_PLACE = text(
    "SELECT system_identifier || '/' || oid || '/' || to_regclass('server')::oid "
    "FROM pg_control_system(), pg_database WHERE datname = current_database()"
)
# The place of a file of SQLite that has had more releases than it holds.
EARLIER = "an earlier state"
_HISTORY = text("SELECT (SELECT identity FROM server), (SELECT sum(number) FROM snapshots)")
# With which files of SQLite begin.
_HEAD = b"SQLite format 3\0"
# A machine that sleeps is no jump; other systems have no such clock.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# Corrections of a clock that are believed while a server runs, and stops, in seconds.
_CORRECTION, _STOP = 300.0, 86_400.0
_FOLDER = Path(__file__).parent / "migrations"
# A number that no other advisory lock of the PostgreSQL database has.
_LOCK = 4_715_928_301


class SteadyClock:
    """Seconds since 1970 (UTC), without jumps: the time that expiry counts.

    It is the machine's clock as long as this moves as a steady clock does. After a jump it goes on
    from where it was, so a wrong clock erases nothing early and keeps nothing longer. When a server
    starts, only the time that its database recorded last is known: a clock that is ahead of it by
    the length of a usual stop is believed, any other has to be confirmed.

    Args:
        wall: the machine's clock.
        steady: seconds that passed since some moment.

    Attributes:
        ahead: seconds by which the machine's clock is ahead of this one, negative where it is
            behind; 0 while it is believed.
    """

    def __init__(
        self,
        wall: Callable[[], float] = lambda: time.time(),
        steady: Callable[[], float] = lambda: time.clock_gettime(_STEADY),
    ) -> None:
        self._wall, self._steady = wall, steady
        self._lock = threading.Lock()
        self._base, self._at = wall(), steady()
        self.ahead = 0.0

    def begin(self, recorded: float | None) -> None:
        """Go on from the time that was recorded last; None believes the machine's clock."""
        with self._lock:
            wall, self._at = self._wall(), self._steady()
            if recorded is None or -_CORRECTION <= wall - recorded <= _STOP:
                recorded = wall
            self._base, self.ahead = recorded, wall - recorded

    def now(self) -> float:
        """The time; corrections of the machine's clock are followed, jumps are not."""
        with self._lock:
            wall, steady = self._wall(), self._steady()
            self._base, self._at = self._base + steady - self._at, steady
            self.ahead = wall - self._base
            if abs(self.ahead) <= _CORRECTION:
                self._base, self.ahead = wall, 0.0
            return self._base


class Unavailable(Exception):
    """The database cannot be reached or written now. Nothing has changed; try again."""


class Database:
    """A database of the service.

    Args:
        url: as SQLAlchemy takes it: `sqlite:///FILE`, `postgresql+psycopg://USER@HOST/NAME`.
        cipher: its key; None where nothing in it is secret.
        clock: tells the time; the machine's if left out.

    Attributes:
        sqlite: whether it is a file of SQLite.
        clock: the time that expiry counts.
    """

    def __init__(
        self, url: str, cipher: Cipher | None = None, clock: SteadyClock | None = None
    ) -> None:
        try:
            parsed = make_url(url)
            kind = parsed.get_backend_name()
            if kind not in ("sqlite", "postgresql"):
                raise ArgumentError("another database")
            self.sqlite = kind == "sqlite"
            # Unread rows of SQLite's threads are cheap; PostgreSQL has one connection a thread.
            # Who writes next has the connection whose pages are those of the last writer.
            options: dict[str, Any] = {"poolclass": QueuePool, "pool_use_lifo": True}
            if not self.sqlite:
                noticing = {name: it for name, it in _NOTICE.items() if name not in parsed.query}
                options = {"pool_size": 20, "max_overflow": 20, "connect_args": noticing}
            self.engine = create_engine(parsed, pool_pre_ping=not self.sqlite, **options)
            # What is read together is of one moment; SQLite has it so anyway.
            whole = {} if self.sqlite else {"isolation_level": "REPEATABLE READ"}
            self._reads = self.engine.execution_options(**whole)
            self._writes = self.engine.execution_options(discreet_writes=True)
            single = {"discreet_single": True} if self.sqlite else {"isolation_level": "AUTOCOMMIT"}
            self._single = self.engine.execution_options(**single)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
            # Without what it was given: it may hold a password.
            raise InvalidInput(
                f"the database was an address of {url.partition(':')[0]!r:.40} that cannot be "
                "used; give sqlite:///FILE, or postgresql+psycopg://USER:PASSWORD@HOST/NAME with "
                "the package psycopg."
            ) from error
        self.cipher, self.clock = cipher, clock or SteadyClock()
        self._file = parsed.database if self.sqlite else None
        if self.sqlite and (not self._file or self._file == ":memory:"):
            raise InvalidInput(
                f"the database was {url!r:.120}; give a file, as in sqlite:///discreet.db, because "
                "what is only in memory is lost when the server stops."
            )
        self._turn = threading.Lock()
        self._held: IO[str] | None = None
        if self.sqlite:
            event.listen(self.engine, "connect", _prepare)
            event.listen(self.engine, "begin", _begin)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with _telling(), self._reads.connect() as connection, connection.begin():
            yield connection

    def first(self, query: Select[Any], values: Mapping[str, Any]) -> Row[Any] | None:
        """The first row of a query, which is of one moment without a transaction around it."""
        with _telling(), self._single.connect() as connection:
            return connection.execute(query, values).first()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes; it is kept as a whole once the block ends, or not at all."""
        with (
            self._turn if self.sqlite else nullcontext(),
            _telling(),
            self._writes.connect() as connection,
            connection.begin(),
        ):
            yield connection

    def empty_log(self) -> None:
        """Leave nothing of deleted rows in SQLite's write-ahead log."""
        if self.sqlite:
            with _telling(), self._single.connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def inserting(self, table: Table) -> Any:
        """An INSERT that can say what to do where a row is there already."""
        return sqlite.insert(table) if self.sqlite else postgresql.insert(table)

    def hold(self) -> None:
        """Keep other servers from the same file until `close`; PostgreSQL takes many servers.

        Raises:
            InvalidInput: where another server has it, or where no file can be made.
        """
        if self._file is None or self._held is not None:
            return
        try:
            private_file(self._file)
            _check_kind(self._file)
            held = open(self._beside, "a")  # noqa: SIM115 - open as long as it is served
        except OSError as error:
            raise InvalidInput(
                f"the database was {self._file}, where no file can be made ({error.strerror}); "
                "give a file in a folder that this server may write to."
            ) from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held.close()
            raise InvalidInput(
                f"{self._file} is served by another process already; stop that one, or give this "
                "one another file. Several servers share a PostgreSQL database."
            ) from error
        self._held = held

    def close(self) -> None:
        """Give back connections and the file."""
        self.engine.dispose()
        if self._held is not None:
            self._held.close()
            self._held = None

    @property
    def _beside(self) -> str:
        """A file beside that of SQLite, by its own name, so that a link is no second file."""
        return f"{os.path.realpath(str(self._file))}.lock"

    def remember(self) -> None:
        """Note beside a file of SQLite how many releases it has had, if its disk has room."""
        if self._held is not None:
            with self.reading() as connection:
                identity, releases = connection.execute(_HISTORY).one()
            with suppress(OSError):
                os.write(self._held.fileno(), f"{identity} {releases}\n".encode())

    def place(self, connection: Connection) -> str:
        """Cluster and numbers of database and table, which differ in a copy.

        A file of SQLite has none of its own: `back_up` marks copies, and an earlier state in its
        place has had fewer releases than `remember` noted.
        """
        if not self.sqlite:
            return str(connection.scalar(_PLACE))
        identity, releases = connection.execute(_HISTORY).one()
        noted = Path(self._beside).read_text() if Path(self._beside).exists() else ""
        found = re.findall(rf"^{identity} (\d+)$", noted, re.MULTILINE)
        return EARLIER if (releases or 0) < max(map(int, found), default=0) else "file"

    def begin(self, confirmed: bool = False) -> str:
        """The identity of this database, which the first call gives it.

        Args:
            confirmed: whether the machine's clock is right, whatever was recorded.

        Raises:
            InvalidInput: where it was made with another key, or is a copy.
        """
        mark = _NO_KEY if self.cipher is None else self.cipher.mark(_MARKED)
        with self.writing() as connection:
            place = self.place(connection)
            # Of several servers that begin at once one is first.
            connection.execute(
                self.inserting(server)
                .values(id=1, identity=secrets.token_hex(16), key_mark=mark)
                .values(made=time.time(), place=place)
                .on_conflict_do_nothing()
            )
            row = connection.execute(select(server).with_for_update()).one()
            if row.place != place:
                raise InvalidInput(
                    "the database is a copy or an earlier state, whose original may have released "
                    "people who wait in it; make it another server's with `discreet restore`."
                )
            if row.key_mark not in (_NO_KEY, mark):
                raise InvalidInput(
                    f"the database was made with another key than {KEY_VARIABLE} holds"
                    f"{'' if self.cipher else ', which is not set'}; set it to that key."
                )
            if row.key_mark != mark:
                connection.execute(server.update().values(key_mark=mark))
            self.clock.begin(None if confirmed else row.clock)
            if confirmed:
                connection.execute(server.update().values(clock=self.clock.now()))
            return str(row.identity)


def private_file(path: str | Path) -> None:
    """Make a file that its owner alone may read, if it is not there yet."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _check_kind(path: str) -> None:
    """`InvalidInput` for a file that holds something else."""
    with open(path, "rb") as file:
        head = file.read(len(_HEAD))
    if head not in (b"", _HEAD):
        raise InvalidInput(
            f"the database was {path}, which is a file of another kind; name one that discreet "
            "made, or one that is not there yet."
        )


def _prepare(raw: sqlite3.Connection, _: object) -> None:
    """How a connection of SQLite is set up."""
    raw.isolation_level = None  # SQLAlchemy begins transactions (_begin)
    raw.execute(f"PRAGMA busy_timeout = {int(1000 * _SQLITE_WAIT)}")
    # SQLite gives up at once while another connection does the same with a new file.
    until = time.monotonic() + _SQLITE_WAIT
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
    raw.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("PRAGMA foreign_keys = ON")
    raw.execute("PRAGMA secure_delete = ON")
    raw.execute(f"PRAGMA cache_size = {-_CACHE_KILOBYTES}")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("discreet_single", False):
        return
    writes = options.get("discreet_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _telling() -> Iterator[None]:
    """What the database reports as one kind of exception, without what was being written."""
    try:
        yield
    except DBAPIError as error:
        # PostgreSQL's details quote values; its first line and SQLite's messages do not.
        reason = getattr(getattr(error.orig, "diag", None), "message_primary", None) or ""
        if isinstance(error.orig, sqlite3.Error):
            reason = str(error.orig)
        # What has no such line comes from the connection, of which psycopg names the address.
        if not reason:
            raise Unavailable("the database cannot be reached") from None
        what = f"answered {type(error.orig).__name__}: {reason:.200}"
        raise Unavailable(f"the database {what}") from None
    except SQLAlchemyError as error:
        raise Unavailable(f"the database answered {type(error).__name__}") from None


def newest() -> str:
    """The version that this program works with."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def version_of(connection: Connection) -> str | None:
    """The version of a database; None for one without tables.

    Raises:
        InvalidInput: for a database with other tables.
    """
    version = MigrationContext.configure(connection).get_current_revision()
    if version is None and (found := inspect(connection).get_table_names()):
        raise InvalidInput(
            f"the database holds tables that discreet did not make ({', '.join(found[:3])}); name "
            "an empty database, or one that discreet made."
        )
    return version


def upgrade(database: Database) -> bool:
    """Bring a database to this version; an empty one gets its tables.

    Returns:
        Whether anything was changed.

    Raises:
        InvalidInput: for a database of a newer version, or with other tables.
        Unavailable: for one that cannot be reached.
    """
    config = _config()
    scripts = ScriptDirectory.from_config(config)
    with database.writing() as connection:
        if not database.sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        version = version_of(connection)
        if version == newest():
            return False
        if version is None:
            metadata.create_all(connection)
            MigrationContext.configure(connection).stamp(scripts, "head")
            return True
        if version not in {script.revision for script in scripts.walk_revisions()}:
            raise InvalidInput(
                f"the database has version {version}, and this program knows {newest()}: a newer "
                "discreet made it. Install that one; a database does not go back."
            )
        config.attributes["connection"] = connection
        run_migrations(config, "head")
        return True


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
