"""Accounting of several releases against their exact loss; streams that are run wrongly."""

from __future__ import annotations

import pytest

from discreet.audit.games import Check
from discreet.audit.releases import composition_checks
from discreet.privacy import guarantee


@pytest.mark.parametrize("check", composition_checks(), ids=lambda check: check.name)
def test_certificates_of_several_releases_cover_their_loss(check: Check) -> None:
    assert check.exact is not None
    found = check.exact()
    assert not found.broken, found.fault
    assert found.epsilon > 0.85 * found.claim.epsilon


def test_a_sentence_that_says_less_than_its_numbers_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarantee, "rounded_up", lambda value: f"{0.9 * value:.4g}")
    (check,) = [one for one in composition_checks() if one.name == "composition, rounds"]
    assert check.exact is not None
    assert "sentence says less" in check.exact().fault
