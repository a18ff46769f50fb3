"""The application, and uvicorn with this service's limits, sockets and logs.

Logs are one JSON object a line, with nothing in them that a request brought. What went wrong is
named by the kind of exception and the line of code; its message stays in the process, because it
may quote a person.
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import IO, Any, Protocol

import uvicorn
from anyio import to_thread
from fastapi import FastAPI, Response

from discreet.service.server.access import REFUSALS, add_answers
from discreet.service.server.bodies import Health
from discreet.service.server.dashboard.routes import add_dashboard
from discreet.service.server.errors import place_of
from discreet.service.server.keys import Keys
from discreet.service.server.metrics import Metrics
from discreet.service.server.middleware import LOOPBACK, Limits, Middleware
from discreet.service.server.openapi import describe
from discreet.service.server.routes import control_routes, key_routes, study_routes
from discreet.service.server.service import Service
from discreet.service.server.tables import table_routes
from discreet.validation import InvalidInput

ANY = ("", "0.0.0.0", "::")
_KEEP_ALIVE_SECONDS = 15
_STOP_SECONDS = 30
_MOST_CONNECTIONS = 1_000
_MOST_HEADER_BYTES = 2**15
# New objects after which Python looks for garbage among them. At its 700, half of the time of
# reading a large body went into such looks.
_GARBAGE = 50_000
# After so long a thread that reads a body gives Python's lock to the event loop, which takes it
# several times for each request.
_SWITCH_SECONDS = 0.0005
_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^([\w.]*(?:Error|Exception|Exit|Interrupt))(?::|$)", re.MULTILINE)
_LOGGERS = ("discreet", "uvicorn", "asyncio", "alembic")


def create_app(
    service: Service,
    hosts: Collection[str] = (),
    limits: Limits | None = None,
    origins: Collection[str] = (),
) -> FastAPI:
    """The application of a service; it starts and stops with it.

    Args:
        service: what it serves.
        hosts: names of this server beside those of the loopback, as they are in requests.
        limits: what it takes.
        origins: of pages on other servers whose browsers may be its devices.
    """
    metrics, limits = Metrics(service), limits or Limits()
    app = bare_app(service)
    app.state.service = service
    app.include_router(study_routes(service, metrics, limits))
    app.include_router(control_routes(service, metrics))
    app.include_router(key_routes(service.keys, service.database))
    app.include_router(table_routes(service))
    describe(app)
    add_dashboard(app, service)
    guard(app, service.keys, hosts, limits, metrics, origins)
    return app


class Process(Protocol):
    """What an application starts and stops with."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def missing(self) -> str: ...


def bare_app(process: Process) -> FastAPI:
    """An application that starts and stops with a process, and says whether it is ready."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        process.start()
        try:
            yield
        finally:
            await to_thread.run_sync(process.stop)

    app = FastAPI(
        title="discreet",
        version=version("discreet"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
        # Generated clients name their functions after the routes.
        generate_unique_id_function=lambda route: route.name,
    )

    @app.get("/health", responses=REFUSALS)
    def health() -> Health:
        """Whether the process answers."""
        return Health(status="ok")

    @app.get("/ready", responses={**REFUSALS, "503": {"model": Health}})
    def ready(response: Response) -> Health:
        """Whether it can serve."""
        missing = process.missing()
        response.status_code = 503 if missing else 200
        return Health(status=missing or "ok")

    return app


def guard(
    app: FastAPI,
    keys: Keys,
    hosts: Collection[str],
    limits: Limits,
    metrics: Metrics | None,
    origins: Collection[str] = (),
) -> None:
    """Put an application behind keys and limits, as `Middleware` has them."""
    add_answers(app)
    app.add_middleware(
        Middleware,
        keys=keys,
        hosts=(*LOOPBACK, *hosts),
        origins=origins,
        limits=limits,
        metrics=metrics,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        InvalidInput: for a port that is taken, or where nothing can listen.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(
                f"port {port} is taken: something listens on {host} there already; stop that, or "
                f"choose another with --port {port + 1 if port < 65535 else 8000}."
            ) from error
        # Python adds what it attempted.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise InvalidInput(
            f"nothing can listen on host {host!r} and port {port} ({reason}); "
            "name an address of this machine, and a port above 1023."
        ) from error
    # What is accepted here has it too; asyncio sets it only on sockets that it made. Without it the
    # body of an answer waits for its head to be acknowledged, which takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    """The address of a server for clients on this machine."""
    host, port = listening.getsockname()[:2]
    if host in ANY:
        host = "::1" if listening.family == socket.AF_INET6 else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server_of(
    app: Any, host: str = "127.0.0.1", port: int = 8000, proxies: str | None = None
) -> uvicorn.Server:
    """A server for an application.

    Args:
        app: what it serves.
        host, port: where it listens.
        proxies: comma-separated addresses of proxies whose X-Forwarded headers are trusted.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=proxies is not None,
        forwarded_allow_ips=proxies,
        limit_concurrency=_MOST_CONNECTIONS,
        backlog=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
    )
    return uvicorn.Server(config)


def run(app: Any, listening: socket.socket, proxies: str | None = None) -> bool:
    """Serve an application in this process until a signal stops it.

    Args:
        app: what it serves.
        listening: the socket at which it does.
        proxies: see `server_of`.

    Returns:
        Whether it could start.
    """
    host, port = listening.getsockname()[:2]
    server = server_of(app, host, port, proxies)
    # From here on, not only once its loop runs, SIGTERM asks the server itself to stop.
    signal.signal(signal.SIGTERM, server.handle_exit)
    # What was made so far stays. To look for garbage among it takes a tenth of a second, now and
    # then, in which no request is answered.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE, 10, 10)
    sys.setswitchinterval(_SWITCH_SECONDS)
    server.run(sockets=[listening])
    return server.started


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
