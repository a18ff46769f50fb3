"""The audit's game through HTTP: what others see does not depend on one person."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("opendp")

from discreet.audit.checks import Check
from discreet.audit.observers import service_checks
from discreet.service.server import routes
from discreet.service.server.decisions import DecisionStore

pytestmark = pytest.mark.chance(0)
CHECKS = service_checks()


@pytest.mark.parametrize(
    "check",
    [CHECKS[0], pytest.param(CHECKS[1], marks=pytest.mark.slow)],
    ids=[check.name for check in CHECKS],
)
def test_others_see_nothing_of_one_person(check: Check) -> None:
    """Whatever noise does not hide is equal, and noise hides what was promised."""
    assert check.exact is not None
    found = check.exact()
    assert found.fault == ""
    assert found.epsilon > 0.0
    assert not found.broken
    assert found.claim.delta == 1e-6
    assert found.claim.epsilon <= 1.0 + 1e-9


@pytest.mark.slow
def test_the_game_sees_a_service_that_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sealed without a common size would be found out by an operator."""
    for module in ("decisions", "store"):
        monkeypatch.setattr(
            f"discreet.service.server.{module}.encrypted",
            lambda cipher, content, secret, study, place, *_: cipher.encrypt(
                content, f"{place} of {study}"
            ),
        )
    for module in ("decisions", "store", "aggregator"):
        monkeypatch.setattr(
            f"discreet.service.server.{module}.decrypted",
            lambda cipher, kept, secret, study, place: cipher.decrypt(kept, f"{place} of {study}"),
        )
    assert CHECKS[0].exact is not None
    found = CHECKS[0].exact()
    assert found.broken
    assert "a row of the table" in found.fault
    assert "depends on the data" in found.fault


@pytest.mark.slow
def test_the_game_sees_a_client_that_does_not_pad(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network would tell contexts and rewards apart, TLS or not."""
    monkeypatch.setattr("discreet.service.client.decisions.padded", lambda body, size: body)
    assert CHECKS[0].exact is not None
    assert "the length of the person's request depends on the data" in CHECKS[0].exact().fault


@pytest.mark.slow
def test_the_game_sees_a_service_that_answers_others_by_one_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One whose export told the sum of rewards would be found out by whoever asks for it."""
    reward, counts = DecisionStore.reward, routes.counts

    def heard(self: Any, name: str, identity: str, value: float) -> bool:
        self.store.told = getattr(self.store, "told", 0.0) + value
        return reward(self, name, identity, value)

    def telling(service: Any, study: str) -> dict[str, Any]:
        return {**counts(service, study), "set_aside": round(1e6 * service.store.told)}

    monkeypatch.setattr(DecisionStore, "reward", heard)
    monkeypatch.setattr(routes, "counts", telling)
    assert CHECKS[0].exact is not None
    assert "/export depends on the data" in CHECKS[0].exact().fault
