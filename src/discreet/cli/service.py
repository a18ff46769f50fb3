"""`discreet serve`, `shuffle`, `keys`, `backup` and `restore`: a service and its database.

A server listens on the loopback by default, and answers no request without a key. Logs go to
standard error as JSON; a key is shown on a terminal, once, and never written to a log.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.table import Table

from discreet.cli import end_at_once, was_terminated
from discreet.cli.console import DataOption, err, out, reporting_errors
from discreet.lab.results.screen import plain
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    import socket

    from discreet.lab.experiments import Setting
    from discreet.lab.studies import Study
    from discreet.service.server.backup import Restored
    from discreet.service.server.database import Database
    from discreet.service.server.deployment import AnyLearner, Deployment
    from discreet.service.server.keys import Keys
    from discreet.service.server.service import Service

_JOIN_SECONDS = 0.2
# As many people show what the first releases of a learner hold.
_TRIED = 1_000
DATABASE, SHUFFLER_DATABASE = "sqlite:///discreet.db", "sqlite:///shuffler.db"
DatabaseOption = Annotated[
    str,
    typer.Option(help="sqlite:///FILE, or an address of PostgreSQL.", envvar="DISCREET_DATABASE"),
]


@contextmanager
def refusing_service() -> Iterator[None]:
    """As `reporting_errors`, for commands that need the service and its database."""
    with reporting_errors():
        try:
            from discreet.service.server.database import Unavailable
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"the package {error.name} is missing, which the service needs; install it with "
                'pip install "discreet[service]".'
            ) from error
        try:
            yield
        except Unavailable as error:
            raise InvalidInput(
                f"the database cannot be used now: {error}. Check its address, that it runs, and "
                "that its disk has room; nothing was changed."
            ) from error


def private_database(url: str) -> Database:
    """A database with its key from the environment; only its owner may read a file of SQLite."""
    from discreet.service.server.database import Database
    from discreet.service.server.encryption import Cipher

    return Database(url, Cipher.from_environment())


def existing_database(url: str) -> Database:
    """A database of any version; `InvalidInput` where there is no such file."""
    from sqlalchemy import make_url

    database = private_database(url)
    file = make_url(url).database
    if database.sqlite and file is not None and not Path(file).is_file():
        raise InvalidInput(
            f"there is no database {file}; name that of a service with --database, or start one "
            "with `discreet serve STUDY.toml`."
        )
    return database


def served_database(url: str) -> Database:
    """A database that `discreet serve` made.

    Raises:
        InvalidInput: where there is none, or its version is another.
    """
    from discreet.service.server.database import newest, version_of

    database = existing_database(url)
    with database.reading() as connection:
        version = version_of(connection)
    if version != newest():
        was = "was never served" if version is None else f"has version {version}, not {newest()}"
        raise InvalidInput(
            f"the database {was}; start `discreet serve` of this version on it once."
        )
    return database


# A server.

HostOption = Annotated[str, typer.Option(help="The address on which it listens.")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")]
HostNamesOption = Annotated[
    list[str] | None, typer.Option(help="A host name of this server in requests; may be repeated.")
]
OriginsOption = Annotated[
    list[str] | None, typer.Option(help="An origin whose pages may be devices; may be repeated.")
]
ProxiesOption = Annotated[
    str | None, typer.Option(help="Addresses of trusted proxies, separated by commas.")
]


def serve(
    studies: Annotated[
        list[Path] | None,
        typer.Argument(help="Study files; without any, those that the database knows."),
    ] = None,
    database: DatabaseOption = DATABASE,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    allow_host: HostNamesOption = None,
    allow_origin: OriginsOption = None,
    proxy: ProxiesOption = None,
    no_aggregator: Annotated[
        bool,
        typer.Option("--no-aggregator", help="Release nothing; another process on PostgreSQL may."),
    ] = False,
    only_aggregator: Annotated[
        bool, typer.Option("--only-aggregator", help="Release, and take no requests.")
    ] = False,
    confirm_clock: Annotated[
        bool,
        typer.Option(
            "--confirm-clock", help="This machine's clock is right, though it seems to have jumped."
        ),
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="A study of 2,000 simulated devices, and its dashboard.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Let --demo open no browser.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Serve studies over HTTP; --demo shows how that looks."""
    aggregator = not no_aggregator
    with refusing_service():
        _check_options(studies or [], aggregator, only_aggregator, demo)
        _check_proxies(proxy)
        _check_origins(allow_origin or [])
        if demo:
            # Before the imports of a server and its learner, which take seconds.
            _say_line("Starting a server on this machine, and 2,000 simulated devices ...")
            from discreet.service.server.demo import run_demo

            run_demo(host, port, not no_browser, say=_say_line)
            return
        with _ending_at_once():
            from discreet.service.server.app import listen

            listening = None if only_aggregator else listen(host, port)
            try:
                _serve(
                    studies or [],
                    database,
                    listening,
                    aggregator,
                    allow_host or [],
                    allow_origin or [],
                    proxy,
                    data,
                    confirm_clock,
                )
            finally:
                if listening is not None:
                    listening.close()


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """SIGTERM ends a starting server at once: whatever it has written is in whole transactions."""
    before = signal.signal(signal.SIGTERM, end_at_once)
    try:
        if was_terminated():
            end_at_once()
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_line(text: str) -> None:
    typer.echo(text)  # as it is: an address or a key that is broken into lines cannot be copied


def _check_options(
    studies: list[Path], aggregator: bool, only_aggregator: bool, demo: bool
) -> None:
    if only_aggregator and not aggregator:
        raise InvalidInput("--no-aggregator and --only-aggregator were both given; leave one out.")
    if demo and (studies or only_aggregator or not aggregator):
        raise InvalidInput(
            "--demo was given with a study or the aggregator's options; it serves a study of its "
            "own, so leave those out."
        )


def _check_proxies(proxies: str | None) -> None:
    for given in [] if proxies is None else proxies.split(","):
        try:
            untrusted = ip_network(given.strip()).prefixlen == 0
        except ValueError:
            untrusted = True
        if untrusted:
            raise InvalidInput(
                f"--proxy had {given.strip()!r:.80}; give addresses or networks of proxies, such "
                "as 127.0.0.1 or 10.1.0.0/16. Client addresses in their headers are trusted."
            )


def _check_origins(origins: list[str]) -> None:
    for given in origins:
        try:
            parts = urlsplit(given)
            whole = f"{parts.scheme}://{parts.netloc}" == given.lower() and bool(parts.hostname)
        except ValueError:
            whole = False
        local = whole and parts.hostname in ("localhost", "127.0.0.1")
        if not whole or (parts.scheme != "https" and not (parts.scheme == "http" and local)):
            raise InvalidInput(
                f"--allow-origin had {given!r:.80}; give the origin of a page as its browser says "
                "it, in small letters and without a path, such as https://shop.example.org."
            )


def _serve(
    files: list[Path],
    database: str,
    listening: socket.socket | None,
    aggregator: bool,
    names: list[str],
    origins: list[str],
    proxy: str | None,
    data: Path | None,
    clock_confirmed: bool,
) -> None:
    from discreet.service.server.app import create_app, log_as_json
    from discreet.service.server.service import Service

    # Before there is a database, so that a refusal leaves none.
    begun = [(file, *_read(file, data)) for file in files]
    service = Service.open(database, releases=aggregator, clock_confirmed=clock_confirmed)
    try:
        _warn_of_clock(service)
        _check_shared(service, aggregator, listening)
        for file, deployment, learner in begun:
            if service.store.register(deployment, learner):
                name = repr(deployment.name)
                out.say(f"{file}: {name} is served from now on, and its guarantee is fixed.")
        _show_studies(service, database)
        if listening is not None:
            _show_key(service.keys, database)
            _warn(listening, names, proxy, " (dashboard: the same address)")
        log_as_json()
        if listening is None:
            _release(service)
        else:
            _run(lambda hosts: create_app(service, hosts, origins=origins), listening, names, proxy)
    finally:
        service.stop()
    err.say("Stopped. All accepted reports are in the database.")


def _check_shared(service: Service, aggregator: bool, listening: socket.socket | None) -> None:
    if service.database.sqlite and (listening is None or not aggregator):
        raise InvalidInput(
            "--no-aggregator or --only-aggregator was given with SQLite, where one process does "
            "everything; leave it out, or share a PostgreSQL database."
        )


def _warn_of_clock(service: Service) -> None:
    days = service.database.clock.ahead / 86_400.0
    if days:
        err.say(
            f"Warning: this machine's clock is {abs(days):.1f} days "
            f"{'after' if days > 0 else 'before'} the time at which this database was last served. "
            "Expiry and retention go on from that time. If the clock is right, start once with "
            "--confirm-clock."
        )


def _read(file: Path, data: Path | None) -> tuple[Deployment, AnyLearner]:
    """The deployment of a study file; refused where it needs the database's key."""
    from discreet.lab.studies import load_study
    from discreet.service.server.encryption import Cipher, needed

    deployment, learner = deployment_of(load_study(file, data_dir=data))
    if learner.secret or learner.budget.trust_model == "shuffled":
        needed(Cipher.from_environment(), deployment.name)
    return deployment, learner


def deployment_of(study: Study) -> tuple[Deployment, AnyLearner]:
    """How a study is served, and a new learner for it.

    Noise is `SecureNoise`: where people trust the service, the learner draws it; elsewhere reports
    that carry other noise are refused.

    Raises:
        InvalidInput: where several lines could be served, or none; for a line without privacy or
            whose epsilon protects no one; for a learner whose releases hold less than
            requested.
    """
    from discreet.lab.studies import serving
    from discreet.lab.studies.settings import ServeTable
    from discreet.service.server.deployment import Deployment, noise_for
    from discreet.toml_files import Place

    serving.check_served_name(study.name)
    table = study.serve or ServeTable()
    serving.check_serving(table, study.settings, study.problem, Place(f"the study {study.name!r}"))
    setting = serving.served_setting(study.settings, table)
    _check_holds(study, setting)
    noise = noise_for(setting.budget.trust_model == "joint")
    learner = serving.served_learner(study, setting, table, noise)
    deployment = Deployment(
        name=study.name,
        title=study.title,
        default_arm=table.default_arm,
        expires_days=table.expires_days,
        retention_days=table.retention_days,
        sources=tuple(table.sources.items()),
        text=study.text,
    )
    return deployment, learner


def _check_holds(study: Study, setting: Setting) -> None:
    """Refuse a calibration that promises more than its noise holds, such as some published ones.

    Every release is held to its promise when it is made (ledger.py). This says so before there
    are people, from a short simulation on the study's own.
    """
    from joblib import delayed

    from discreet.lab.experiments import simulate
    from discreet.parallel import in_parallel
    from discreet.service.server.ledger import millionths

    people, asked = min(study.rounds, _TRIED), setting.budget
    err.say(f"Checking that the noise holds what {study.name!r} promises ...")
    task = delayed(simulate)(study.problem, setting, people, study.seed, 0)
    held = next(in_parallel([task])).guarantee
    assert held is not None
    if millionths(held.epsilon) > millionths(asked.epsilon) or held.delta > asked.delta:
        raise InvalidInput(
            f"{setting.label} holds epsilon = {held.epsilon:.4g} and delta = "
            f"{held.delta:.3g} where {asked!r} was asked for; a service promises "
            "what is held. Serve another learner, or leave its calibration out."
        )


def _show_studies(service: Service, database: str) -> None:
    names = service.store.names()
    if not names:
        err.say(
            f"{_without_password(database)} has no study, so only curators' tables are served. If "
            "it should have one, check --database; to serve one, name its file, too."
        )
    for name in names:
        served = service.store.study(name)
        budget = served.learner.budget
        out.say(
            f"{name}: {served.learner.name} at epsilon = {budget.epsilon:g}, {budget.trust_model} "
            f"privacy; {service.store.row(name).state}"
        )
        if budget.trust_model == "shuffled":
            out.say(f"Terms of {name}, for its shuffler and its devices: {served.terms.digest}")


def _show_key(keys: Keys, database: str) -> None:
    """Show the operator's first key on a terminal, once."""
    from discreet.service.server.keys import opens

    if any(each["role"] == "operator" and opens(each) for each in keys.list()):
        return
    if not sys.stdout.isatty():
        err.say(
            "There is no operator's key yet, and it is shown on a terminal only. Make one: "
            f"discreet keys make --role operator --database {_without_password(database)}"
        )
        return
    out.say("The operator's key, shown this once; keep it where you keep passwords:")
    _say_line(keys.make("operator", label="first start"))


def _without_password(database: str) -> str:
    from sqlalchemy import make_url

    return make_url(database).render_as_string(hide_password=True)


def _warn(listening: socket.socket, names: list[str], proxy: str | None, more: str = "") -> None:
    """Show the address, and how to protect one that others can reach."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    out.say(f"Listening on http://{shown}:{port}{more}. Ctrl-C stops it.")
    if ip_address(host).is_loopback:
        return
    err.say(
        f"Warning: {host} can be reached from other machines, and HTTP carries keys in the clear. "
        "Put a proxy with TLS in front (docs/service.md has the lines for nginx and Caddy), let it "
        f"alone reach this port{'' if proxy else ', and name it with --proxy'}."
    )
    if not names:
        err.say(
            "Warning: requests to any other name than localhost are refused; give the host names "
            "of this server with --allow-host."
        )


def _run(
    make_app: Callable[[list[str]], Any],
    listening: socket.socket,
    names: list[str],
    proxy: str | None,
) -> None:
    """Answer requests until stopped, then finish those that were begun."""
    from discreet.service.server.app import ANY, run

    host = listening.getsockname()[0]
    hosts = names if host in ANY else [*names, host]
    with suppress(KeyboardInterrupt):  # uvicorn raises it once the server has stopped
        if not run(make_app(hosts), listening, proxy):
            raise InvalidInput("the server could not start; its log says why.")


def _release(service: Service) -> None:
    """Make due releases until stopped."""
    service.start()
    stops: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stops.append(number))
    while service.releasing and not stops:
        service.wait(_JOIN_SECONDS)


# A shuffler.


def shuffle(
    learner: Annotated[str, typer.Option(help="The address of the learner's service.")],
    study: Annotated[str, typer.Option(help="The study, as the learner serves it.")],
    database: DatabaseOption = SHUFFLER_DATABASE,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8001,
    allow_host: HostNamesOption = None,
    allow_origin: OriginsOption = None,
    proxy: ProxiesOption = None,
    seconds: Annotated[
        float, typer.Option(min=0.01, help="Between two requests to the learner.")
    ] = 1.0,
    allow_http: Annotated[
        bool, typer.Option("--allow-http", help="The learner is in a private network without TLS.")
    ] = False,
) -> None:
    """Shuffle encrypted reports for the learner of another operator.

    DISCREET_SHUFFLER_KEY holds the key that the learner's operator made for the role shuffler.
    """
    names, origins = allow_host or [], allow_origin or []
    with refusing_service():
        _check_proxies(proxy)
        _check_origins(origins)
        with _ending_at_once():
            from discreet.service.server.app import listen, log_as_json
            from discreet.service.shuffler import LearnerClient, Relay, shuffler_app, token_from

            client = LearnerClient(learner, study, key=token_from(), allow_http=allow_http)
            listening = listen(host, port)
            relay = None
            try:
                relay = Relay.open(database, client, seconds)
                _show_key(relay.keys, database)
                _warn(listening, names, proxy)
                log_as_json()
                _run(lambda hosts: shuffler_app(relay, hosts, origins), listening, names, proxy)
            finally:
                listening.close()
                if relay is not None:
                    relay.stop()
        err.say("Stopped. All accepted reports are in the database.")


# Keys.

keys_app = typer.Typer(help="Keys to a service, and the key of its database.", no_args_is_help=True)


@keys_app.command("make")
def make(
    role: Annotated[
        str, typer.Option(help="operator, client, device, shuffler, auditor, curator or modeler.")
    ],
    study: Annotated[
        str | None, typer.Option(help="Its one study or table; all if left out.")
    ] = None,
    label: Annotated[str, typer.Option(help="Its holder, in words.")] = "",
    days: Annotated[float | None, typer.Option(help="Until it expires; never if left out.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests a second of each server process; else the server's limit."),
    ] = None,
    database: DatabaseOption = DATABASE,
) -> None:
    """Make a key. Its token is printed this once; the database keeps a hash."""
    with refusing_service():
        from discreet.service.server.keys import Keys

        opened = served_database(database)
        token = Keys(opened).make(role, study, label, days=days, rate=rate)
        typer.echo(token)
        if study is not None and not _is_known(opened, study):
            err.say(f"Warning: there is no study or table {study!r} here yet; check its name.")
        err.say("Shown this once: keep it where you keep passwords.")


def _is_known(database: Database, name: str) -> bool:
    from sqlalchemy import select

    from discreet.service.server.schema import relays, studies, tables

    wanted = select(studies.c.name).where(studies.c.name == name)
    with database.reading() as connection:
        known = wanted.union(
            select(tables.c.name).where(tables.c.name == name),
            select(relays.c.study).where(relays.c.study == name),
        )
        return connection.execute(known).first() is not None


@keys_app.command("list")
def list_keys(database: DatabaseOption = DATABASE) -> None:
    """All keys: role, study, holder, dates and whether they are revoked."""
    with refusing_service():
        from discreet.service.server.keys import Keys

        names = ("id", "role", "study", "label", "made", "expires", "rate", "revoked")
        table = Table(*names, box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.columns[0].min_width = 16  # `keys revoke` takes a whole id
        for key in Keys(served_database(database)).list():
            table.add_row(
                key["id"],
                key["role"],
                plain(key["study"] or "all"),
                plain(key["label"]),
                _time(key["made"])[:10],
                "never" if key["expires"] is None else _time(key["expires"])[:10],
                "" if key["rate"] is None else f"{key['rate']:g}",
                "" if key["revoked"] is None else _time(key["revoked"])[:10],
            )
        out.print(table)


@keys_app.command("revoke")
def revoke(
    identity: Annotated[str, typer.Argument(help="The id that `discreet keys list` shows.")],
    discard: Annotated[
        bool, typer.Option("--discard", help="Also erase its reports that no release has.")
    ] = False,
    database: DatabaseOption = DATABASE,
) -> None:
    """Revoke a key in every process."""
    with refusing_service():
        from discreet.service.server.keys import Keys

        keys = Keys(served_database(database))
        new = keys.revoke(identity)
        out.say(f"{identity} {'is revoked' if new else 'was revoked before'}.")
        if discard:
            count = keys.discard(identity)
            out.say(f"Erased {count} unreleased reports and decisions.")


@keys_app.command("database")
def database_key() -> None:
    """A new key for a database, to be set as DISCREET_DATABASE_KEY; nothing is changed."""
    with refusing_service():
        from discreet.service.server.encryption import Cipher

        typer.echo(Cipher.new_key())


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


# Backups.


def backup(
    file: Annotated[Path, typer.Argument(help="The backup, which must not exist.")],
    database: DatabaseOption = DATABASE,
) -> None:
    """Copy a served SQLite database, without its observations.

    PostgreSQL is copied by pg_dump.
    """
    with refusing_service():
        from discreet.service.server.backup import back_up

        back_up(served_database(database), file)
        out.say(f"Backup: {file}")


def restore(
    database: DatabaseOption = DATABASE,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved", help="The original stopped before it was copied, and never starts again."
        ),
    ] = False,
) -> None:
    """Make a copied database another server's.

    Restore each backup once. Servers restored from one backup do not know each other: under joint
    privacy a person in two of them pays both budgets, and neither certificate counts the other.
    """
    with refusing_service():
        from discreet.service.server.backup import confirm_move
        from discreet.service.server.backup import restore as restored

        target = existing_database(database)
        try:
            target.hold()
            if moved:
                confirm_move(target)
                out.say("The database is served as before. Delete the original.")
            else:
                _show_restored(restored(target))
        finally:
            target.close()


def _show_restored(outcome: Restored) -> None:
    out.say(
        f"This is another server, {outcome.identity}, restored from a copy of {outcome.previous}. "
        "Devices fetch policies again; reports made under the old ones are refused."
    )
    if outcome.kept:
        out.say(f"{outcome.kept:,} waiting private reports are kept.")
    if outcome.anew:
        out.say(
            f"Under joint privacy these begin anew: {', '.join(outcome.anew)}; "
            f"{outcome.dropped:,} waiting decisions are dropped, because the old server may have "
            "released them. The certificates include the previous servers."
        )
        err.say(
            "Warning: restore this backup once. Servers restored from one backup do not know each "
            "other: a person in two of them pays both, and neither certificate counts the other."
        )
    if outcome.keys:
        err.say(
            f"Warning: {outcome.keys:,} keys open this server as they did the old one when it was "
            "copied. Revoke again those revoked since: discreet keys list"
        )
    err.say("Do not start the old server again.")
