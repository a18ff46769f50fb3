"""Where a server listens, and the address that others on this machine find it at."""

from __future__ import annotations

import errno
import socket

from discreet.validation import InvalidInput

ANY = ("", "0.0.0.0", "::")


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
    """The address of a server for whoever asks it from this machine."""
    host, port = listening.getsockname()[:2]
    if host in ANY:
        host = "::1" if listening.family == socket.AF_INET6 else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
