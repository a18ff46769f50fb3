"""The configuration of nginx in docs/service.md, run as it stands there but for TLS and ports."""

from __future__ import annotations

import resource
import shutil
import socket
import subprocess
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import httpx2

from discreet.service.server.app import create_app
from tests.service.server.web import listening, opened

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[3] / "docs" / "service.md"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
IDLE = 1_200


def documented(begins: str) -> str:
    """The indented block of the page that begins with these words."""
    lines = DOCS.read_text().splitlines()
    start = lines.index(f"    {begins}")
    end = next(i for i in range(start, len(lines)) if lines[i] and not lines[i].startswith("    "))
    return textwrap.dedent("\n".join(lines[start:end]))


def configuration(folder: Path, port: int, upstream: int) -> str:
    site = documented("server {").replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    site = "\n".join(line for line in site.splitlines() if "ssl_" not in line)
    site = site.replace("127.0.0.1:8000", f"127.0.0.1:{upstream}")
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"pid {folder}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{paths}{site}\n}}\n"


@contextmanager
def proxied(folder: Path) -> Iterator[tuple[int, int]]:
    """The ports of nginx in front of a service, and of the service."""
    if NGINX is None:
        pytest.skip("nginx is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    app = create_app(opened(folder), hosts=["calls.example.org"])
    with listening(app) as upstream:
        file = folder / "nginx.conf"
        file.write_text(configuration(folder, port, upstream))
        command = [NGINX, "-c", file, "-p", folder, "-e", folder / "error", "-g", "daemon off;"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            try:
                deadline = time.monotonic() + 20.0
                while not answers(port):
                    assert running.poll() is None, (folder / "error").read_text()
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                yield port, upstream
            finally:
                running.terminate()


def answers(port: int) -> bool:
    """Whether a request is answered now."""
    try:
        headers = {"Host": "calls.example.org"}
        answer = httpx2.get(f"http://127.0.0.1:{port}/health", headers=headers, timeout=5.0)
    except httpx2.TransportError:
        return False
    return answer.status_code == 200


@contextmanager
def idle_connections(port: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections of one address that send this and nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * IDLE
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        with ExitStack() as stack:
            lines = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), 10.0))
                for _ in range(IDLE)
            ]
            for line in lines:
                line.sendall(sent)
            yield lines
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\n"], ids=["silent", "begun"])
def test_idle_connections_of_one_address_lock_nobody_out(tmp_path: Path, sent: bytes) -> None:
    with proxied(tmp_path) as (port, upstream):
        with idle_connections(port, sent) as idle:
            assert all(answers(port) for _ in range(5))
            idle[-1].settimeout(30.0)
            assert idle[-1].recv(1) == b""  # closed by client_header_timeout
        with idle_connections(upstream, sent):
            assert not answers(upstream)  # without the proxy


def test_two_lengths_of_one_body_do_not_pass(tmp_path: Path) -> None:
    with proxied(tmp_path) as (port, _):
        with socket.create_connection(("127.0.0.1", port), 10.0) as line:
            line.sendall(
                b"POST /v1/studies HTTP/1.1\r\nHost: calls.example.org\r\nContent-Length: 5\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n"
            )
            answer = b"".join(iter(lambda: line.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1 ") == 1
