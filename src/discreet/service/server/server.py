"""uvicorn with this service's limits, and the sockets it listens on."""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
import sys
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from discreet.validation import InvalidInput

ANY = ("", "0.0.0.0", "::")
_HEADER_SECONDS = 10.0
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


class Impatient(H11Protocol):
    """Closes connections whose request line and headers do not arrive in time."""

    header_seconds = _HEADER_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Run the timer while the head of a request is awaited."""
        if self.conn.their_state is not h11.IDLE:
            self._unwatch()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.header_seconds, self._late)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


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
        http=Impatient,
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
