"""`discreet serve`: studies for real people, over HTTP.

It listens on the loopback unless told otherwise, and answers nobody without a key. Logs go to
standard error as JSON; a key is shown on a terminal, once, and never written to a log.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli import end_at_once, was_terminated
from discreet.cli.console import DataOption, err, out
from discreet.cli.database import DATABASE, DatabaseOption, refusing_service
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    import socket

    from discreet.service.server.deployment import AnyLearner, Deployment
    from discreet.service.server.service import Service

_JOIN_SECONDS = 0.2


def serve(
    studies: Annotated[
        list[Path] | None,
        typer.Argument(help="Study files; without any, those that the database knows."),
    ] = None,
    database: DatabaseOption = DATABASE,
    host: Annotated[
        str, typer.Option(help="Where it listens: the loopback unless told otherwise.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which others ask for this server; may be repeated."),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(help="Addresses of proxies that say who asks, with commas."),
    ] = None,
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
    """Serve studies to people over HTTP, or show how that looks with --demo."""
    aggregator = not no_aggregator
    with refusing_service():
        _check_options(studies or [], aggregator, only_aggregator, demo)
        _check_proxies(proxy)
        if demo:
            # Before the imports of a server and its learner, which take seconds.
            _say_line("Starting a server on this machine, and 2,000 simulated devices ...")
            from discreet.service.server.demo import run_demo

            run_demo(host, port, not no_browser, say=_say_line)
            return
        from discreet.service.server.server import listen

        with _ending_at_once():
            listening = None if only_aggregator else listen(host, port)
            try:
                _serve(
                    studies or [],
                    database,
                    listening,
                    aggregator,
                    allow_host or [],
                    proxy,
                    data,
                    confirm_clock,
                )
            finally:
                if listening is not None:
                    listening.close()


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """SIGTERM ends a server that starts at once: all it has written is in whole transactions.

    What serves afterwards has a handler of its own.
    """
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
        raise InvalidInput(
            "--no-aggregator and --only-aggregator were both given, which leaves nothing to do; "
            "leave one out."
        )
    if demo and (studies or only_aggregator or not aggregator):
        raise InvalidInput(
            "--demo was given with a study or the aggregator's options; it serves a study of its "
            "own, so leave those out."
        )


def _check_proxies(proxies: str | None) -> None:
    for given in [] if proxies is None else proxies.split(","):
        try:
            everybody = ip_network(given.strip()).prefixlen == 0
        except ValueError:
            everybody = True
        if everybody:
            raise InvalidInput(
                f"--proxy had {given.strip()!r:.80}; give addresses or networks of proxies, as in "
                "127.0.0.1 or 10.1.0.0/16: who comes from there is believed when they say who asks."
            )


def _serve(
    files: list[Path],
    database: str,
    listening: socket.socket | None,
    aggregator: bool,
    names: list[str],
    proxy: str | None,
    data: Path | None,
    clock_confirmed: bool,
) -> None:
    from discreet.service.server.logs import log_as_json
    from discreet.service.server.service import Service

    # Before there is a database, so that what is refused leaves none.
    begun = [(file, *_read(file, data)) for file in files]
    service = Service.open(database, releases=aggregator, clock_confirmed=clock_confirmed)
    try:
        _warn_of_clock(service)
        _check_shared(service, aggregator, listening)
        for file, deployment, learner in begun:
            if service.store.register(deployment, learner):
                out.say(
                    f"{file}: {deployment.name!r} is served from now on, and its promise is fixed."
                )
        _show_studies(service)
        if listening is not None:
            _show_key(service, database)
            _warn(listening, names, proxy)
        log_as_json()
        if listening is None:
            _release(service)
        else:
            _run(service, listening, names, proxy)
    finally:
        service.stop()
    err.say("Stopped. What was accepted is in the database.")


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
    """The study of a file as it is served; refused where the database's key is missing."""
    from discreet.lab.studies import load_study
    from discreet.service.server.encryption import Cipher, needed
    from discreet.service.server.served import deployment_of

    deployment, learner = deployment_of(load_study(file, data_dir=data))
    if learner.secret:
        needed(Cipher.from_environment(), deployment.name)
    return deployment, learner


def _show_studies(service: Service) -> None:
    names = service.store.names()
    if not names:
        err.say(
            "No study is served, only tables of curators. To serve one: discreet serve STUDY.toml"
        )
    for name in names:
        served = service.store.study(name)
        budget = served.learner.budget
        out.say(
            f"{name}: {served.learner.name} at epsilon = {budget.epsilon:g}, {budget.trust_model} "
            f"privacy; {service.store.row(name).state}"
        )


def _show_key(service: Service, database: str) -> None:
    """The operator's first key: on a terminal, once."""
    from discreet.service.server.keys import opens

    if any(each["role"] == "operator" and opens(each) for each in service.keys.list()):
        return
    if not sys.stdout.isatty():
        err.say(
            "There is no operator's key yet, and this is no terminal, where it would be seen by "
            "you alone. Make one: discreet keys make --role operator --database "
            f"{_without_password(database)}"
        )
        return
    out.say("The operator's key, shown this once; keep it where you keep passwords:")
    _say_line(service.keys.make("operator", label="first start"))


def _without_password(database: str) -> str:
    from sqlalchemy import make_url

    return make_url(database).render_as_string(hide_password=True)


def _warn(listening: socket.socket, names: list[str], proxy: str | None) -> None:
    """Where it listens, and what to do where others can reach it."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    out.say(f"Listening on http://{shown}:{port} (dashboard: the same address). Ctrl-C stops it.")
    if ip_address(host).is_loopback:
        return
    err.say(
        f"Warning: {host} can be reached from other machines, and HTTP carries keys in the clear. "
        "Put a proxy with TLS in front (docs/service.md has the lines for nginx and Caddy), let it "
        f"alone reach this port{'' if proxy else ', and name it with --proxy'}."
    )
    if not names:
        err.say(
            "Warning: requests to any other name than localhost are refused; say by which names "
            "this server is asked for with --allow-host."
        )


def _run(service: Service, listening: socket.socket, names: list[str], proxy: str | None) -> None:
    """Answer requests until told to stop, then end those that were begun."""
    from discreet.service.server.app import create_app
    from discreet.service.server.server import ANY, run

    host = listening.getsockname()[0]
    hosts = names if host in ANY else [*names, host]
    with suppress(KeyboardInterrupt):  # uvicorn raises it once the server has stopped
        if not run(create_app(service, hosts), listening, proxy):
            raise InvalidInput("the server could not start; its log says why.")


def _release(service: Service) -> None:
    """Release what is due until told to stop."""
    service.start()
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.append(number))
    while service.releasing and not asked:
        service.wait(_JOIN_SECONDS)
