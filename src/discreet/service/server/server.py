"""uvicorn, as this service runs it: patient with networks, not with those who keep it waiting."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEADER_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 15
_STOP_SECONDS = 30
_MOST_CONNECTIONS = 1_000
_MOST_HEADER_BYTES = 2**15
# New objects after which Python looks for garbage among them. At its 700, half of the time of
# reading a large body went into such looks.
_GARBAGE = 50_000


class Impatient(H11Protocol):
    """Closes connections whose request has not begun in time, however slowly it drips in."""

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
        """A clock runs as long as the head of a request is awaited."""
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
        host, port: where it listens; the loopback unless told otherwise.
        proxies: addresses of proxies, with commas, that are believed when they say who asks.
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
    """Serve an application in this process until it is told to stop.

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
    # then, in which nobody is answered.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE, 10, 10)
    server.run(sockets=[listening])
    return server.started
