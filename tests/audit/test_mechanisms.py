"""Mechanisms: all of them are audited, attacks have power, and too little noise is noticed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

from discreet.audit import mechanisms, outsourced
from discreet.audit.catalog import all_checks, checks_named
from discreet.audit.games import Check, Exact, Game, Seed
from discreet.audit.mechanisms import mechanism_checks
from discreet.audit.outsourced import outsourced_checks
from discreet.audit.played import Additive, Stated
from discreet.audit.runner import Finding, audit
from discreet.privacy import SimulatedNoise
from discreet.privacy.frequency import SignedSubsetSelection, k_ary_response
from discreet.privacy.prefix_sums import MECHANISMS
from discreet.privacy.vectors import VECTOR_REPORTS
from discreet.validation import InvalidInput
from tests.chance import RARE

HONEST = [*mechanism_checks(), *outsourced_checks()]
FAST = [check for check in HONEST if "secure" not in check.name]


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    return {one.name: one for one in audit(FAST, 100_000) if isinstance(one, Finding)}


@pytest.mark.parametrize("name", [check.name for check in FAST])
def test_it_holds(findings: dict[str, Finding], name: str) -> None:
    assert findings[name].verdict == "holds"


@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "gaussian_vector",
        "laplace",
        "laplace_on_cells",
        "signed_subset_selection, 2 of 3",
        "signed_subset_selection, trials",
        "k_ary_response",
        "unary_encoding",
        "privunit",
        "privunit, one number",
        "l2_ball",
        "exponential, outcomes",
        "exponential, trials",
        "outsourced, rows",
        "outsourced, any row",
        "outsourced, answers",
        *(f"prefix_sums, {name}" for name in MECHANISMS),
    ],
)
def test_what_is_tight_is_nearly_reached(findings: dict[str, Finding], name: str) -> None:
    found = findings[name]
    assert found.claim is not None
    assert 0.8 * found.claim.epsilon < found.epsilon


SECURE = [check for check in HONEST if "secure" in check.name]


@pytest.mark.skipif(find_spec("opendp") is None, reason="the extra `secure` is not installed")
@pytest.mark.chance(RARE)
@pytest.mark.parametrize("check", SECURE, ids=lambda check: check.name)
def test_secure_forms_hold(check: Check) -> None:
    """At a confidence at which an honest one is called broken as rarely as the mark says."""
    (found,) = [one for one in audit([check], 4000, 1.0 - RARE) if isinstance(one, Finding)]
    assert found.verdict == "holds"


@pytest.mark.parametrize("check", SECURE, ids=lambda check: check.name)
def test_the_games_of_secure_forms_have_power(check: Check) -> None:
    """With another source, because its draws can be repeated."""
    assert isinstance(check.make, partial)
    *settings, source = check.make.args
    assert source is mechanisms._secure
    again = replace(check, make=partial(check.make.func, *settings, SimulatedNoise))
    (found,) = [one for one in audit([again], 4000) if isinstance(one, Finding)]
    assert found.verdict == "holds"
    assert found.epsilon > 0.3


def test_every_mechanism_is_audited() -> None:
    names = {check.name for check in HONEST}
    assert {f"prefix_sums, {name}" for name in MECHANISMS} <= names
    assert len(VECTOR_REPORTS) == 2  # PrivUnit (with l2_ball) and GaussianVector
    assert {"privunit", "l2_ball", "gaussian_vector"} <= names


def verdict(game: Game | Exact) -> str:
    check = Check("tampered", "mechanism", "local", lambda: game)
    (found,) = [one for one in audit([check], 100_000) if isinstance(one, Finding)]
    return found.verdict


def test_too_little_noise_is_noticed_in_additive_mechanisms() -> None:
    for name in ("gaussian", "laplace", "laplace_on_cells", "prefix_sums, buffered_toeplitz"):
        (check,) = [check for check in HONEST if check.name == name]
        game = check.make()
        assert isinstance(game, Additive)

        def quieter(run, first, trials, noise):  # type: ignore[no-untyped-def]
            class Quieter(type(noise)):  # type: ignore[misc]
                def _add(self, kind, values, scale):  # type: ignore[no-untyped-def]
                    return super()._add(kind, values, scale / 1.25)

            noise.__class__, before = Quieter, type(noise)
            run(first, trials, noise)
            noise.__class__ = before

        sides = tuple((words, partial(quieter, run)) for words, run in game.sides)
        tampered = Additive(game.claim, sides, game.trials_last, game.bound, game.threshold)
        assert verdict(game) == "holds", name
        assert verdict(tampered) == "BROKEN", name


def test_too_large_an_epsilon_is_noticed_in_finite_mechanisms() -> None:
    wrong = SignedSubsetSelection(16, 3, 1.2)
    game = mechanisms._subset(wrong, SimulatedNoise)  # type: ignore[arg-type]
    honest = Stated(mechanisms.Claim(1.3), game.statistic, game.words)
    tampered = Stated(mechanisms.Claim(1.0), game.statistic, game.words)
    assert verdict(honest) == "holds"
    assert verdict(tampered) == "BROKEN"
    exact = mechanisms._enumerated(k_ary_response(3, 1.1))
    assert exact.epsilon == pytest.approx(1.1)
    assert verdict(Exact(mechanisms.Claim(1.0), exact.epsilon, exact.attack)) == "BROKEN"


def test_neighbouring_rows_lie_in_the_box_and_as_far_apart_as_they_may() -> None:
    for reach in (0.5, float(np.linalg.norm(outsourced._EXTENT))):
        pairs = outsourced._neighbours(reach, None)
        for _, one, two in pairs:
            for row in (one, two):
                assert ((row >= 0.0) & (row <= outsourced._EXTENT)).all()
            assert np.linalg.norm(one - two) <= reach + 1e-9
        assert max(np.linalg.norm(one - two) for _, one, two in pairs) == pytest.approx(reach)


def test_additive_games_attack_the_neighbours_that_are_furthest_apart() -> None:
    def side(distance, first, trials, noise):  # type: ignore[no-untyped-def]
        noise.add_gaussian(np.full((trials, 1), distance * first), 1.0)

    sides = tuple((f"{distance}", partial(side, distance)) for distance in (0.5, 2.0, 1.0))
    game = Additive(mechanisms.Claim(9.0, 1e-5), sides).prepared(Seed(1))
    assert isinstance(game, Additive)
    assert game.chosen == "2.0"


def test_names() -> None:
    everything = [check.name for check in all_checks()]
    assert len(set(everything)) == len(everything)
    assert [check.name for check in checks_named("all")] == everything
    kinds = ("mechanisms", "learners", "specimens")
    assert sum(len(checks_named(kind)) for kind in kinds) == len(everything)
    assert {check.name for check in checks_named("prefix_sums")} == {
        f"prefix_sums, {name}" for name in MECHANISMS
    }
    assert [check.name for check in checks_named("usca, joint")] == ["usca, joint"]
    with pytest.raises(InvalidInput, match=r"'nobody'.*study file.*gp_ucb"):
        checks_named("nobody")
