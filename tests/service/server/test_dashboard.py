"""The dashboard: who sees it, who acts, what it shows, and what it must never show."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from typer.testing import CliRunner

from discreet import DecisionSets, PublicBox
from discreet.cli import app as cli
from discreet.learners.values import Value
from discreet.service.server.app import create_app
from discreet.service.server.dashboard import routes as pages
from discreet.service.server.dashboard.views import verdict
from discreet.service.server.database import SteadyClock
from discreet.service.server.findings import ReleaseSummary
from discreet.service.server.schema import decisions
from discreet.service.server.service import Service

from .dashes import (
    ADDRESS,
    MARKED_CONTEXT,
    MARKED_REWARD,
    application,
    csrf_of,
    joint_study,
    local_study,
    opened,
    points_study,
    sign_in,
    visitor,
)

# Digits of noise could be those of a mark.
pytestmark = pytest.mark.chance(1e-8)

PAGES = ["", "/live", "/ledger", "/certificate"]
VOID = {"meta", "link", "input", "br", "source", "img"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with opened(tmp_path_factory.mktemp("dashboard")) as served:
        local_study(served)
        joint_study(served)
        yield served


class Outline(HTMLParser):
    """Whether elements close in the order in which they open, and what they have."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def all_pages(client: TestClient) -> dict[str, str]:
    """Every page that an operator can see."""
    paths = ["/", "/login"]
    paths += [f"/studies/{name}{page}" for name in ("local", "joint") for page in PAGES]
    paths += ["/studies/local/state?to=finished", "/studies/local?column=smoker"]
    pages = {}
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.text)
        pages[path] = answer.text
    return pages


def test_a_page_is_whole_and_loads_nothing_from_elsewhere(service: Service) -> None:
    for path, page in all_pages(visitor(service)).items():
        outline = Outline(page)
        ids = [each["id"] for _, each in outline.seen if "id" in each]
        assert len(ids) == len(set(ids)), path
        for tag, each in outline.seen:
            assert "style" not in [tag, *each], path
            assert not any(name.startswith("on") for name in each), path
            for name in ("href", "src", "action", "srcset"):
                target = urlsplit(each.get(name, ""))
                assert (target.scheme, target.netloc) == ("", ""), (path, tag, each)
            if tag == "svg" and each.get("role") == "img":
                assert len(each["aria-label"]) > 20
        assert "<script>" not in page, path
        if not path.endswith("/live"):
            tags = [tag for tag, _ in outline.seen]
            assert (tags.count("h1"), tags.count("main")) == (1, 1), path


def test_pages_have_security_headers(service: Service) -> None:
    client = visitor(service)
    for path in ("/", "/login", "/studies/local", "/studies/none"):
        headers = client.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
    styles = client.get("/static/page.css")
    assert styles.status_code == 200
    assert not re.search("http|@import|url", styles.text)


def test_titles_are_escaped(service: Service) -> None:
    page = visitor(service).get("/studies/local").text
    assert "Who &lt;quits&gt; smoking?" in page
    assert "<quits>" not in page


def test_no_value_of_a_person_is_on_any_page(service: Service) -> None:
    """Contexts and rewards are the marks for everybody; ids of decisions are nobody's business."""
    ids = joint_study(service, "marked")
    client = visitor(service)
    pages = all_pages(client)
    pages |= {page: client.get(f"/studies/marked{page}").text for page in PAGES}
    pages["export"] = client.get("/studies/marked/export").text
    unit = (MARKED_CONTEXT - 18.0) / 72.0
    for path, page in pages.items():
        for mark in (MARKED_CONTEXT, MARKED_REWARD, unit):
            # Pages have fewer digits of their own, policies have more.
            assert f"{mark:.{11 if path == 'export' else 5}g}" not in page, path
        assert not any(identity in page for identity in ids), path


def test_what_no_release_has_changes_no_figure(service: Service) -> None:
    """Two services that differ in what waits for a release show the same but for counts."""
    client = visitor(service)
    before = client.get("/studies/joint/live").text
    decision = service.decisions.decide("joint", [20.0])
    service.decisions.reward("joint", decision.id, 0.0)
    client.app.state.watch.step()  # type: ignore[attr-defined]
    after = client.get("/studies/joint/live").text
    for section in ("reward", "gain", "given", "promise", "releases"):
        one, other = (
            re.findall(f'<section id="{section}".*?</section>', page, re.S)
            for page in (before, after)
        )
        assert one == other, section


def test_a_study_page_shows_its_figures(service: Service) -> None:
    client = visitor(service)
    page = client.get("/studies/local").text
    assert "300 reports in releases, 0 wait for the next one." in page
    assert re.search(r"No significant gain over|earns 0\.\d+ \(95%: ", page)
    assert page.count('<svg class="chart"') == 4  # two charts, wide and narrow
    assert "Who is given what, by smoker" in client.get("/studies/local?column=smoker").text
    refused = client.get("/studies/local?column=salary")
    assert refused.status_code == 400
    assert "age, smoker" in refused.text


def test_the_figures_are_those_of_the_learner(service: Service) -> None:
    """As the library says them of the learner with the same reports: the last snapshot."""
    client = visitor(service)
    seen = client.app.state.watch.seen("local")  # type: ignore[attr-defined]
    _, learner = service.aggregator._learner("local")
    last = seen.findings[-1]
    assert last.people == learner.people == 300
    assert last.reward == learner.value()
    best = ["leaflet", "call", "visit"].index(last.choice)
    assert last.gain == learner.value(against=best)
    assert max(learner.value(arm).mean for arm in range(3)) == learner.value(best).mean
    assert sum(last.shares) == pytest.approx(1.0)


def test_every_process_shows_the_same_whenever_it_began(service: Service) -> None:
    """What was said after each release is in the database, so a new server shows all of it."""
    pages = [
        visitor(service, app=create_app(service)).get("/studies/local/live").text for _ in range(2)
    ]
    assert pages[0] == pages[1]
    seen = visitor(service).app.state.watch.seen("local")  # type: ignore[attr-defined]
    assert [each.people for each in seen.findings] == [0, 100, 200, 300]
    assert all(each.reward is not None for each in seen.findings)
    assert "version 1, 100 reports" in pages[0]


def test_the_certificate_is_that_of_the_ledger(service: Service) -> None:
    client = visitor(service, "auditor")
    page = client.get("/studies/local/certificate").text
    token = service.keys.make("auditor")
    answer = client.get(
        "/v1/studies/local/certificate", headers={"Authorization": f"Bearer {token}"}
    ).json()
    text = page.replace("&#39;", "'")
    assert answer["sentence"] in text
    assert answer["ledger"] in text
    assert answer["server"] in text


def test_the_certificate_says_where_it_comes_from(service: Service) -> None:
    page = visitor(service, "auditor").get("/studies/local/certificate").text
    text = service.store.study("local").deployment.text
    for fact in (
        hashlib.sha256(text.encode()).hexdigest(),
        service.store.study("local").learner.name,
        f"discreet {version('discreet')}, numpy {version('numpy')}, opendp ",
    ):
        assert fact in page
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page)


def test_pages_need_a_session(service: Service) -> None:
    client = visitor(service, "")
    for path in ["/", *(f"/studies/local{page}" for page in PAGES), "/studies/none"]:
        answer = client.get(path)
        assert answer.status_code in (303, 401), path
        assert "quits" not in answer.text
    assert client.post("/studies/local/state", data={"state": "finished"}).status_code == 303
    assert service.store.row("local").state == "running"


@pytest.mark.parametrize("role", ["client", "device", "curator", "modeler"])
def test_other_roles_cannot_sign_in(service: Service, role: str) -> None:
    client = visitor(service, "")
    answer = sign_in(client, service.keys.make(role))
    assert answer.status_code == 403
    assert pages.COOKIE not in client.cookies
    assert client.get("/").status_code == 303


def test_a_wrong_key_is_refused_and_not_repeated(service: Service) -> None:
    client = visitor(service, "")
    for key in ("", "dk_0000000000000000_" + "a" * 43, "<script>alert(1)</script>"):
        answer = sign_in(client, key)
        assert answer.status_code == 401
        assert not key or key not in answer.text


def test_guessed_keys_are_rate_limited(service: Service) -> None:
    client = visitor(service, "", app=create_app(service))  # which refuses this address later
    assert sign_in(client, f"dk_{0:016x}_{'a' * 43}").status_code == 401
    guesses = (sign_in(client, f"dk_{number:016x}_{'a' * 43}") for number in range(1, 200))
    assert any(answer.status_code == 429 for answer in guesses)
    assert client.get("/login").status_code == 200


def test_an_auditor_sees_the_same_and_cannot_act(service: Service) -> None:
    operator, auditor = visitor(service), visitor(service, "auditor")
    shown = [
        re.sub(
            r'<p class="actions">.*?</p>', "", client.get("/studies/local/live").text, flags=re.S
        )
        for client in (operator, auditor)
    ]
    assert "".join(shown[0].split()) == "".join(shown[1].split())
    page = auditor.get("/studies/local").text
    assert not re.search(r"/state\?to=|/export", page)
    assert "read-only" in page
    csrf = csrf_of(page)
    for answer in (
        auditor.get("/studies/local/state?to=paused"),
        auditor.get("/studies/local/export"),
        auditor.post("/studies/local/state", data={"csrf": csrf, "state": "paused"}),
    ):
        assert answer.status_code == 403
    assert service.store.row("local").state == "running"


def test_rows_set_aside_are_shown_to_operators_alone(tmp_path: Path) -> None:
    """On the page, in the export and in the metrics."""
    with opened(tmp_path) as served:
        ids = joint_study(served, people=5)
        before = visitor(served, "auditor").get("/studies/joint/live").text
        with served.database.writing() as connection:
            connection.execute(
                update(decisions).where(decisions.c.id == ids[0]).values(state="unreadable")
            )
        operator, auditor = visitor(served), visitor(served, "auditor")
        assert "1 stored row could not be read" in operator.get("/studies/joint/live").text
        assert auditor.get("/studies/joint/live").text == before
        assert operator.get("/studies/joint/export").json()["counts"]["set_aside"] == 1
        for role, line in (("operator", 'discreet_set_aside{study="joint"} 1.0'), ("auditor", "")):
            headers = {"authorization": f"Bearer {served.keys.make(role)}"}
            client = TestClient(application(served), base_url=ADDRESS, headers=headers)
            text = client.get("/metrics").text
            assert line in text
            assert ("set_aside" in text) == (role == "operator")
            exported = client.get("/v1/studies/joint/export")
            assert exported.status_code == (200 if role == "operator" else 403)


def test_a_key_of_one_study_shows_no_other(service: Service) -> None:
    client = visitor(service, "operator", "joint")
    assert "quits" not in client.get("/").text
    csrf = csrf_of(client.get("/").text)
    for page in [*PAGES, "/export", "/state?to=paused"]:
        assert client.get(f"/studies/local{page}").status_code == 404
    refused = client.post("/studies/local/state", data={"csrf": csrf, "state": "paused"})
    assert refused.status_code == 404


def test_every_form_needs_the_token_of_its_session(service: Service) -> None:
    client, other = visitor(service), visitor(service)
    foreign = csrf_of(other.get("/").text)
    for csrf in ("", "x", foreign):
        for path, form in (("/studies/local/state", {"state": "paused"}), ("/logout", {})):
            assert client.post(path, data={"csrf": csrf, **form}).status_code == 403
    assert service.store.row("local").state == "running"
    assert client.get("/").status_code == 200
    stranger = visitor(service, "")
    key = service.keys.make("operator")
    assert stranger.post("/login", data={"csrf": "", "key": key}).status_code == 403
    stranger.get("/login")
    assert stranger.post("/login", data={"csrf": foreign, "key": key}).status_code == 403


def test_an_operator_pauses_goes_on_and_finishes(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        local_study(service)
        client = visitor(service)
        for state, shown in (("paused", "Go on"), ("running", "Pause"), ("finished", "")):
            confirm = client.get(f"/studies/local/state?to={state}")
            assert confirm.status_code == 200
            assert service.store.row("local").state != state  # asking changes nothing
            form = {"csrf": csrf_of(confirm.text), "state": state}
            assert client.post("/studies/local/state", data=form).status_code == 303
            assert service.store.row("local").state == state
            assert (shown or "finished") in client.get("/studies/local").text
        form["state"] = "running"
        refused = client.post("/studies/local/state", data=form)
        assert refused.status_code == 409
        assert "cannot be undone" in refused.text
        assert client.get("/studies/local/state?to=exploded").status_code == 400
        assert "/state?to=" not in client.get("/studies/local").text


def test_a_session_ends(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    signed_out = visitor(service)
    cookie = signed_out.cookies[pages.COOKIE]
    csrf = csrf_of(signed_out.get("/").text)
    assert signed_out.post("/logout", data={"csrf": csrf}).status_code == 303
    signed_out.cookies.set(pages.COOKIE, cookie)
    assert signed_out.get("/").status_code == 303

    old = visitor(service)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + pages.SESSION_SECONDS + 1.0)
    assert old.get("/").status_code == 303
    monkeypatch.undo()

    revoked = visitor(service, "")
    key = service.keys.make("operator")
    assert sign_in(revoked, key).status_code == 303
    assert revoked.get("/").status_code == 200
    service.keys.revoke(key.split("_")[1])
    assert revoked.get("/").status_code == 303
    assert revoked.get("/studies/local/live").status_code == 401


def test_a_clock_that_is_set_back_revives_no_session(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, key = pages.Sessions(service.keys), service.keys.make("operator")
    passed = time.time() + 60.0
    monkeypatch.setattr(service.database, "clock", SteadyClock(lambda: passed, lambda: 0.0))
    before = made.open(key)
    monkeypatch.setattr(time, "time", lambda: passed - 3600.0)
    service.keys.sign_out(key.split("_")[1])
    monkeypatch.undo()
    assert made.find(before) is None


def test_every_process_knows_the_sessions_of_the_others(service: Service) -> None:
    one, other = visitor(service), visitor(service, "", app=create_app(service))
    other.cookies.update(one.cookies)
    csrf = csrf_of(one.get("/").text)
    assert csrf_of(other.get("/").text) == csrf
    assert other.post("/logout", data={"csrf": csrf}).status_code == 303
    assert one.get("/").status_code == 303


def test_a_session_cannot_be_made_from_the_database(service: Service) -> None:
    """It holds the hash of a token, which is no token."""
    victim = service.keys.make("operator")
    identity = victim.split("_")[1]
    made = pages.Sessions(service.keys)
    for token in (f"dk_{identity}_{'A' * 43}", f"dk_{identity}_"):
        client = visitor(service, "")
        client.cookies.set(pages.COOKIE, made.open(token))
        assert client.get("/").status_code == 303
    cookie = made.open(victim)
    assert victim.split("_", 2)[2] not in cookie
    other = service.keys.make("auditor").split("_")[1]
    for wrong in (cookie[:-4] + "AAA=", f"{other}.{cookie.partition('.')[2]}", "", ".", "é.é"):
        assert made.find(wrong) is None
    assert made.find(cookie) is not None


def test_the_cookie_is_for_this_site_alone(service: Service) -> None:
    client = visitor(service, "")
    answer = sign_in(client, service.keys.make("operator"))
    cookies = [each for each in answer.headers.get_list("set-cookie") if "session" in each]
    assert {"HttpOnly", "SameSite=strict"} <= set(cookies[0].split("; "))


def test_a_link_signs_in_for_ten_minutes(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    client = visitor(service, "")
    state: Any = client.app.state  # type: ignore[attr-defined]
    link = f"/login?code={state.sessions.link(service.keys.make('operator'))}"
    assert client.get(link).status_code == 303
    assert client.get("/").status_code == 200
    client.cookies.clear()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + pages.LINK_SECONDS + 1.0)
    assert client.get(link).status_code == 401
    assert client.get("/login?code=" + "x" * 43).status_code == 401
    monkeypatch.undo()
    # A link is no session, and a session no link.
    client.cookies.set(pages.COOKIE, link.partition("=")[2])
    assert client.get("/").status_code == 303
    signed_in = visitor(service).cookies[pages.COOKIE]
    client.cookies.clear()
    assert client.get(f"/login?code={signed_in}").status_code == 401


def test_a_form_is_short(service: Service) -> None:
    client = visitor(service)
    answer = client.post("/studies/local/state", content=b"csrf=" + b"a" * 10_000)
    assert answer.status_code == 413
    assert client.post("/studies/local/state", content=b"\xff\xfe").status_code == 400


def test_an_export_is_a_file_of_released_values(service: Service) -> None:
    answer = visitor(service).get("/studies/local/export")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert set(answer.json()) == {"study", "server", "policies", "former", "ledger", "counts"}


def test_pages_are_served_before_figures_are_ready(service: Service) -> None:
    client = visitor(service)
    client.app.state.watch._seen.clear()  # type: ignore[attr-defined]
    page = client.get("/studies/local")
    assert page.status_code == 200
    assert "being computed" in page.text


def test_a_study_without_reports_has_no_verdict(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        joint_study(service, people=3)
        page = visitor(service).get("/studies/joint").text
        assert "No report has entered a release yet" in page
        assert 'id="gain"' not in page


def test_points_are_shown_as_points(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        points_study(service, "points", PublicBox())
        page = visitor(service).get("/studies/points").text
        assert re.search(
            r"The best point so far is dose = [\d.]+ and hour = [\d.]+; it earns", page
        )
        assert 'id="given"' not in page
        assert 'id="gain"' not in page


def test_decision_sets_have_no_policy_value(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        points_study(service, "sets", DecisionSets(most=2))
        page = visitor(service).get("/studies/sets").text
        assert "s value is unknown: this learner" in page
        assert 'id="reward"' not in page
        assert 'class="chart"' not in page
        assert "Who is given what, by" not in page


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.1, 0.3, "Choosing for each person earns 0.20 (95%: 0.10 to 0.30) more per person than"),
        (-0.3, 0.1, "No significant gain over “call” for everyone yet: \N{MINUS SIGN}0.10 (95%:"),
        (0.0, 0.0, "So far the learner recommends “call” for everyone;"),
    ],
)
def test_the_verdict_is_a_sentence(low: float, high: float, said: str) -> None:
    gain = Value(0.5 * (low + high), low, high, 0.95, "")
    assert said in verdict(ReleaseSummary(3, 100, reward=gain, gain=gain, choice="call"))


def test_a_key_of_one_study_opens_its_page(service: Service) -> None:
    for study, place in ((None, "/"), ("local", "/studies/local")):
        client = visitor(service, "")
        answer = sign_in(client, service.keys.make("auditor", study))
        assert (answer.status_code, answer.headers["location"]) == (303, place)


def test_the_command_for_a_key_makes_one(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        page = visitor(service, "").get("/login").text
        (command,) = re.findall(r"<code>discreet ([^<]+)</code>", page)
    made = CliRunner().invoke(
        cli, [*command.split(), "--database", f"sqlite:///{tmp_path}/test.db"]
    )
    assert made.exit_code == 0, made.output
    assert "dk_" in made.stdout
