"""Noise from both sources, for laws that hold of either."""

from __future__ import annotations

import pytest

from discreet.privacy import NoiseSource, SecureNoise, SimulatedNoise


@pytest.fixture(params=["simulated", "secure"])
def noise(request: pytest.FixtureRequest) -> NoiseSource:
    if request.param == "simulated":
        return SimulatedNoise(20240607)
    pytest.importorskip("opendp")
    return SecureNoise()
