"""Devices of people of an auxiliary source, for whom somebody else chose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discreet import InvalidInput, decode
from discreet.learners.messages import Reports
from discreet.service.client import Device, Refused, Unreachable
from tests.service.client.conftest import QUICK, Running, served

pytestmark = pytest.mark.chance(0)
PERSON = {"age": 40.0, "smoker": "no"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with the study, for people and devices of their own in each test."""
    with served(tmp_path_factory.mktemp("sources")) as made:
        made.open_local()
        yield made


def device_of(running: Running, folder: Path, **options: Any) -> Device:
    return Device(
        running.url,
        "study",
        key=running.key("device", "study"),
        store=folder / "device.db",
        **{"source": "clinic", "patience": QUICK, **options},
    )


def test_one_report_of_what_somebody_else_chose(running: Running, tmp_path: Path) -> None:
    learner = running.service.aggregator._learner("study")[1]
    waiting = running.service.aggregator.waiting
    before = waiting("study", "clinic"), waiting("study")
    with device_of(running, tmp_path) as device:
        terms = device.terms()
        assert terms == learner.streams["clinic"].terms()
        assert (terms.most_epsilon, terms.max_contributions) == (2.0, 1)
        device.agree(terms.digest)
        identity = device.observe(PERSON, "call")
        assert identity is not None
        assert device.report(identity, 1.0)
        assert device.report(identity, 0.0), "the same one"
        assert device.observe(PERSON, "call") is None, "one report each"
        (row,) = device.ledger()
        assert (row.study, row.epsilon, row.state) == ("study/sources/clinic", 2.0, "accepted")
        (text,) = json.loads(row.body or b"")["reports"]
        report = decode(text, Reports)
        assert report.source == learner.streams["clinic"].stream_id
    assert (waiting("study", "clinic"), waiting("study")) == (before[0] + 1, before[1])


def test_source_and_target_share_what_the_person_allows(running: Running, tmp_path: Path) -> None:
    with device_of(running, tmp_path) as clinic, device_of(running, tmp_path, source=None) as own:
        clinic.agree(clinic.terms().digest)
        own.agree(own.terms().digest)
        assert clinic.observe(PERSON, 1) is not None
        assert clinic.spending().epsilon == pytest.approx(2.0)
        # The source's 2 is all that the person allows until they say otherwise.
        assert own.act(PERSON).id is None
        own.allow(3.0)
        assert own.act(PERSON).id is not None
        assert own.spending().epsilon == pytest.approx(3.0)


def test_nothing_of_a_person_is_refused(running: Running, tmp_path: Path) -> None:
    """Silence would tell; what has another shape is a mistake of the app."""
    with device_of(running, tmp_path) as device:
        device.agree(device.terms().digest)
        with pytest.raises(InvalidInput, match="contexts"):
            device.observe([40.0], "call")
        identity = device.observe({"age": 400.0, "smoker": "no"}, "surgery")
        assert device.report(identity, float("nan"))
        assert [row.state for row in device.ledger()] == ["accepted"]


@pytest.mark.parametrize(
    ("context", "arm"),
    [({"age": float("nan"), "smoker": "no"}, "call"), (PERSON, 1.0), (PERSON, float("nan"))],
)
def test_what_is_missing_is_reported_too(
    context: Any, arm: Any, running: Running, tmp_path: Path
) -> None:
    """Fault once found: it was no report, or a lost one."""
    with device_of(running, tmp_path) as device:
        device.agree(device.terms().digest)
        with pytest.raises(InvalidInput, match="arm"):
            device.observe(PERSON, [0, 1])
        assert device.spending().epsilon == 0.0
        assert device.report(device.observe(context, arm), 1.0)
        assert [row.state for row in device.ledger()] == ["accepted"]


def test_a_source_does_not_choose_and_a_study_does(running: Running, tmp_path: Path) -> None:
    with device_of(running, tmp_path) as device:
        with pytest.raises(InvalidInput, match=r"act\(\) was called with source = 'clinic'.*obs"):
            device.act(PERSON)
        with pytest.raises(InvalidInput, match="has agreed to no terms"):
            device.observe(PERSON, "call")
    with (
        device_of(running, tmp_path, source=None) as device,
        pytest.raises(InvalidInput, match=r"observe\(\) was called with source = None.*act"),
    ):
        device.observe(PERSON, "call")
    for name in ("nowhere", "target"):
        with device_of(running, tmp_path, source=name) as device:
            with pytest.raises(Refused) as refusal:
                device.terms()
            assert refusal.value.status == 404


@pytest.mark.parametrize(
    ("source", "other"), [(None, "clinic"), ("clinic", "target")], ids=["study", "source"]
)
def test_a_policy_of_the_wrong_kind_is_not_kept(
    running: Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str | None,
    other: str,
) -> None:
    """One that chooses, for a person of a source; one that does not, for a person of the study."""
    store, wrong = running.service.store, running.service.store.policy("study", other)
    with device_of(running, tmp_path, source=source) as device:
        device.agree(device.terms().digest)
        with monkeypatch.context() as patched:
            patched.setattr(store, "policy", lambda *_: wrong)
            with pytest.raises(InvalidInput, match=r"sent a .*policy for source = .*not kept"):
                device.refresh()
            with pytest.raises(InvalidInput, match="not kept"):
                device.observe(PERSON, "call") if source else device.act(PERSON)
        assert device.ledger() == []
        assert device.refresh()
        identity = device.observe(PERSON, "call") if source else device.act(PERSON).id
        assert device.report(identity, 1.0)
        assert [row.state for row in device.ledger()] == ["accepted"]


def test_it_observes_with_the_policy_at_hand_and_reports_later(
    running: Running, tmp_path: Path
) -> None:
    with device_of(running, tmp_path) as device:
        device.agree(device.terms().digest)
        assert device.refresh()
        running.service.store.set_state("study", "paused")
        identity = device.observe(PERSON, "visit")
        assert device.report(identity, 1.0)
        with pytest.raises(Unreachable, match="paused"):
            device.send()
        running.service.store.set_state("study", "running")
        assert len(device.send()) == 1
