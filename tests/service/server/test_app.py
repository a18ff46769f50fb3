"""Where a server listens."""

from __future__ import annotations

import socket

import pytest

from discreet.service.server.app import address_of, listen
from discreet.validation import InvalidInput


def test_no_part_of_an_answer_waits_for_the_one_before() -> None:
    """What is accepted is sent at once, which the loop leaves to who made the socket."""
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_taken_port_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"port {port} is taken.*--port {port + 1}"):
            listen("127.0.0.1", port)


def test_a_host_of_another_machine_is_refused() -> None:
    # What Python attempted is said once.
    with pytest.raises(
        InvalidInput, match=r"nothing can listen on host '192\.0\.2\.1' and port 0 \([^()]*\); name"
    ):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1"),
        ("0.0.0.0", "http://127.0.0.1"),
        ("::1", "http://[::1]"),
        ("::", "http://[::1]"),
    ],
)
def test_the_address_for_this_machine(host: str, shown: str) -> None:
    if ":" in host:
        try:
            socket.create_server((host, 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("there is no IPv6 here")
    with listen(host, 0) as listening:
        assert address_of(listening) == f"{shown}:{listening.getsockname()[1]}"
