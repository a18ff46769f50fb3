"""What code draws from, by its source: what is not listed is found, and what is listed exists."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from discreet.audit.randomness import ALLOWED, library_randomness, library_uses, own_randomness
from discreet.learners.epochs.usca import Usca

from .broken import HalvedNoise, OwnRandomness


def test_the_library_draws_from_what_is_listed_and_nothing_is_listed_in_vain() -> None:
    assert library_randomness() == ""
    used = {(use.what, use.site) for use in library_uses()}
    assert {(what, site) for what, sites in ALLOWED.items() for site in sites} <= used


def test_a_learner_of_others_is_read_with_all_that_it_names() -> None:
    assert own_randomness(Usca) == own_randomness(HalvedNoise) == ""
    assert "OwnRandomness._drawn" in own_randomness(OwnRandomness)


@pytest.mark.parametrize(
    "source",
    [
        "from numpy.random import default_rng as fresh\n\ndef helper():\n    return fresh(0)\n",
        "import numpy\n\n_KEPT = numpy.random.default_rng(0)\n\ndef helper():\n    return _KEPT\n",
        "import random as luck\n\ndef helper():\n    return luck.gauss\n",
        "from discreet.privacy import SimulatedNoise as N\n\nhelper = lambda: N(3)\n",
        "import discreet.privacy as p\n\nclass helper(p.SimulatedNoise):\n    pass\n",
        "from discreet.learners import messages\n\nhelper = messages.public_uniforms\n",
        "from scipy import stats\n\ndef helper():\n    return stats.norm.rvs()\n",
    ],
)
@pytest.mark.parametrize("reached", [True, False])
def test_other_names_of_generators_are_known(
    source: str, reached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit follows what a class names, and leaves the rest of its file alone."""
    path = tmp_path / "plug_in.py"
    used = "helper" if reached else "None"
    path.write_text(f"{source}\nclass Learner:\n    def report(self):\n        return {used}\n")
    module = ModuleType("plug_in")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "plug_in", module)
    assert ("plug_in" in own_randomness(type("Learner", (), {"__module__": "plug_in"}))) is reached
