"""The dashboard in a real browser: small, dark, by keyboard, on paper, and while it moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from discreet import SecureNoise
from discreet.codec import decode, encode
from discreet.learners.policy import ArmPolicy, Policy
from discreet.service.server.app import create_app, server_of
from discreet.service.server.service import Service

from .chromium import Tab, browser, found
from .dashes import local_study, opened

pytestmark = [
    pytest.mark.skipif(found() is None, reason="there is no Chromium on this machine"),
    pytest.mark.chance(1e-8),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str, str]]:
    """A service, its address, and a link that signs an operator in."""
    with opened(tmp_path_factory.mktemp("browser")) as service:
        local_study(service, people=400)
        app = create_app(service)
        app.state.watch.step()
        server = server_of(app, port=0)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}"
        code = app.state.sessions.link(service.keys.make("operator"))
        yield service, address, f"{address}/login?code={code}"
        server.should_exit = True
        thread.join(30.0)


@pytest.fixture(scope="module")
def tab(
    served: tuple[Service, str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        page.screen(1200)
        page.visit(served[2])
        assert page.ask("location.pathname") == "/studies/local"  # the only one
        yield page


def test_it_fits_a_phone(served: tuple[Service, str, str], tab: Tab) -> None:
    for path in ("/", "/studies/local", "/studies/local/ledger", "/studies/local/certificate"):
        tab.screen(390)
        tab.visit(served[1] + path)
        assert tab.ask("document.documentElement.scrollWidth") <= 390, path
        assert tab.ask("innerWidth") == 390
    tab.visit(served[1] + "/studies/local")
    seen = (
        "[...document.querySelectorAll('svg.chart')].filter(e => e.getBoundingClientRect().width)"
    )
    assert tab.ask(f"{seen}.every(e => e.viewBox.baseVal.width === 340)")
    small = tab.ask(
        "[...document.querySelectorAll('button, .button, select')]"
        ".filter(e => e.offsetParent && e.getBoundingClientRect().height < 40).length"
    )
    assert small == 0


def test_it_is_dark_in_the_dark(served: tuple[Service, str, str], tab: Tab) -> None:
    """Text and lines stand out from what is behind them: 4.5 to 1, and 3 to 1 (WCAG AA)."""
    for dark in (False, True):
        tab.screen(1200, dark=dark)
        tab.visit(f"{served[1]}/studies/local")
        style = "getComputedStyle(document.querySelector('{}')).{}"
        behind = light(tab.ask(style.format(".card", "backgroundColor")))
        assert (behind < 0.1) == dark
        for part, what, least in [
            ("body", "color", 4.5),
            ("dt", "color", 4.5),
            (".chart text", "fill", 4.5),
            ("a.button", "color", 4.5),
            (".danger", "color", 4.5),
            (".chart .line", "stroke", 3.0),
            (".chart .second", "stroke", 3.0),
        ]:
            shown = light(tab.ask(style.format(part, what)))
            contrast = (max(shown, behind) + 0.05) / (min(shown, behind) + 0.05)
            assert contrast >= least, (dark, part, contrast)


def light(color: str) -> float:
    """The relative luminance of a colour of CSS."""
    parts = np.array([float(each) for each in color.split("(")[1].rstrip(")").split(",")[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_the_keyboard_reaches_everything(served: tuple[Service, str, str], tab: Tab) -> None:
    tab.screen(1200)
    tab.visit(f"{served[1]}/studies/local")
    tab.ask("document.getElementById('refresh').click()")  # as it stands
    tab.ask("document.activeElement.blur()")
    wanted = tab.ask(
        "[...document.querySelectorAll('a, button, select, summary, [tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility() && !e.hidden).length"
    )
    reached = []
    for _ in range(wanted + 1):
        tab.press("Tab", 9)
        reached.append(
            tab.ask(
                "((e) => [e.tagName, e.textContent.trim().slice(0, 20), e.id,"
                " getComputedStyle(e).outlineStyle].join('|'))(document.activeElement)"
            )
        )
    around = [each for each in reached if not each.startswith("BODY")]
    assert len(set(around)) == wanted, around
    assert all(each.endswith("|solid") for each in around), around


def test_it_is_printed_without_what_is_for_screens(
    served: tuple[Service, str, str], tab: Tab
) -> None:
    tab.visit(f"{served[1]}/studies/local/certificate")
    assert tab.printed().startswith(b"%PDF")
    tab.screen(1200, dark=True, media="print")
    shown = "document.querySelector('{}').checkVisibility()"
    assert tab.ask(shown.format(".promise"))
    assert not tab.ask(shown.format("header"))
    assert not tab.ask(shown.format(".no-print"))
    assert light(tab.ask("getComputedStyle(document.body).backgroundColor")) == 1.0


@pytest.mark.slow
def test_it_follows_releases_and_can_be_paused(served: tuple[Service, str, str], tab: Tab) -> None:
    service, address, _ = served
    tab.screen(1200)
    tab.visit(f"{address}/studies/local")
    released = "document.querySelector('#verdict').textContent.match(/([\\d,]+) reports in/)[1]"
    assert tab.ask(released) == "300"
    tab.ask("document.querySelector('#reward-numbers').open = true")
    tab.ask("document.querySelector('#verdict a.button').focus()")
    report(service, 100)
    until(tab, f"{released} === '400'")
    assert tab.ask("document.querySelector('#reward-numbers').open")
    assert tab.ask("document.activeElement.textContent") == "Pause"
    tab.ask("document.getElementById('refresh').click()")
    service.store.set_state("local", "paused")
    time.sleep(4.0)
    assert tab.ask("document.querySelector('#verdict .badge').textContent") == "running"
    tab.ask("document.getElementById('refresh').click()")
    until(tab, "document.querySelector('#verdict .badge').textContent === 'paused'")
    service.store.set_state("local", "running")


def test_nothing_is_refused_or_asked_of_others(served: tuple[Service, str, str], tab: Tab) -> None:
    tab.visit(f"{served[1]}/studies/local")
    tab.ask("new Promise(done => setTimeout(done, 3500))")
    events = [each for each in tab.events if each["method"] in ("Log.entryAdded",)]
    assert not events
    asked = [
        each["params"]["request"]["url"]
        for each in tab.events
        if each["method"] == "Network.requestWillBeSent"
    ]
    assert len(asked) > 3
    assert all(url.startswith(served[1]) for url in asked), asked


def report(service: Service, people: int) -> None:
    """People report, and what they say is released."""
    policy = decode(service.store.policy("local").text, Policy)
    assert isinstance(policy, ArmPolicy)
    rng = np.random.default_rng(1)
    contexts = np.column_stack([rng.uniform(18, 90, people), rng.integers(0, 2, people)])
    actions, _ = policy.act(contexts, rng)
    rewards = (contexts[:, 0] > 50).astype(float)
    terms = service.store.study("local").terms
    made = policy.report(contexts, actions, rewards, SecureNoise(), terms)
    service.ingest.add("local", [encode(made)], None)


def until(tab: Tab, wanted: str, seconds: float = 30.0) -> None:
    """Wait until a page is so."""
    end = time.monotonic() + seconds
    while not tab.ask(wanted):
        assert time.monotonic() < end, wanted
        time.sleep(0.2)


def test_forms_are_sent_from_their_pages(served: tuple[Service, str, str], tab: Tab) -> None:
    service, address, _ = served
    tab.screen(390)
    for state, button in (("paused", "Pause"), ("running", "Go on")):
        tab.visit(f"{address}/studies/local")
        link = f"document.querySelector('#verdict a.button[href$=\"to={state}\"]')"
        assert tab.ask(f"{link}.textContent") == button
        click(tab, link)
        click(tab, "document.querySelector('main form button')")
        assert tab.ask("location.pathname") == "/studies/local"
        assert service.store.row("local").state == state
    tab.visit(f"{address}/studies/local/certificate")
    click(tab, "document.querySelector('header form button')")
    assert tab.ask("location.pathname") == "/login"
    key = service.keys.make("auditor")
    tab.ask(f"document.querySelector('#key').value = '{key}'")
    click(tab, "document.querySelector('main form button')")
    assert tab.ask("location.pathname") == "/studies/local"
    assert "read-only" in tab.ask("document.querySelector('header').textContent")


def click(tab: Tab, part: str) -> None:
    """Press something that opens another page, and wait for it."""
    tab.events.clear()
    tab.ask(f"{part}.click()")
    tab.loaded()
