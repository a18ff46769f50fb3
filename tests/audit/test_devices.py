"""Devices, their files and counters keep what a person agreed to; what breaks them is caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from discreet.audit.devices import DeviceRun, Variant
from discreet.audit.exact import Exact, worst_neighbours
from discreet.audit.people import Person
from discreet.learners.visits import VisitCounter
from discreet.service.client import pending, person

_PEOPLE = tuple(
    Person((where,), reward)
    for where, reward in (((0.0, 0.0), 1.0), ((1.0, 0.5), 0.0), ((0.25, 0.75), float("nan")))
)


def exact(variant: Variant) -> Exact:
    return worst_neighbours(DeviceRun(state=variant, variant=variant, tried=_PEOPLE))


@pytest.mark.parametrize("variant", ["reports", "interrupted", "studies", "counter", "kinds"])
def test_an_honest_device_holds(variant: Variant) -> None:
    found = exact(variant)
    assert not found.broken, found.fault
    assert found.epsilon >= 0.5 * found.claim.epsilon


def test_a_report_more_than_agreed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    left = property(lambda counter: max(counter.terms.visits - counter.made + 1, 0))
    monkeypatch.setattr(VisitCounter, "left", left)
    assert exact("counter").broken


def test_reports_of_two_kinds_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VisitCounter, "_kind", lambda counter, policy: None)
    assert "the certificate says (2.33" in exact("kinds").fault


def test_silence_about_missing_rewards_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = pending.Pending.draw

    def silent(kept: Any, identity: str, reward: float) -> bool:
        return reward == reward and draw(kept, identity, reward)

    monkeypatch.setattr(pending.Pending, "draw", silent)
    assert exact("reports").broken


def test_a_second_study_beyond_what_is_allowed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    spending = person.spending
    nothing: Any = lambda *given: replace(spending(*given), epsilon=0.0)  # noqa: E731
    monkeypatch.setattr(person, "spending", nothing)
    assert exact("studies").broken


def test_a_ticket_from_the_context_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    act = pending.Pending.act

    def told(kept: Any, agreement: Any, policy: Any, context: Any, hold: float) -> Any:
        vars(pending)["np"].random.default_rng(abs(hash(str(context))))
        return act(kept, agreement, policy, context, hold)

    monkeypatch.setattr(pending.Pending, "act", told)
    assert "the seed of a ticket" in exact("reports").fault
