"""From checks to verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from discreet.audit.checks import Check
from discreet.audit.replay import (
    Claim,
    Exact,
    NotAudited,
    Promise,
    Subject,
    Transcript,
    worst_neighbours,
)
from discreet.audit.runner import audit, steps
from discreet.audit.tape import hand
from discreet.privacy import SimulatedNoise
from discreet.records import Finding
from discreet.validation import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Shift(Subject):
    """A number with Gaussian noise: mu = 2 between -1 and 1, epsilon = 10.97 at delta = 1e-5."""

    claim: Claim
    seed: int = 0

    def groups(self) -> Iterable[Sequence[float]]:
        return [[-1.0, 1.0]]

    def run(self, person: float, transcript: Transcript) -> Promise:
        noise = hand(SimulatedNoise(self.seed))
        transcript.add("a number", noise.add_gaussian(np.array([person]), 1.0))
        return Promise(self.claim, self.claim)


def shifted(epsilon: float, name: str = "honest") -> Check:
    subject = Shift(claim=Claim(epsilon, 1e-5))
    return Check(
        name, "mechanism", "joint", lambda: worst_neighbours(subject), "a test", "gaussian"
    )


def exactly(epsilon: float, fault: str = "") -> Check:
    return Check(
        "exact", "learner", "local", lambda: Exact(Claim(1.0), epsilon, "all", fault), "a test"
    )


def failing(error: Exception) -> Check:
    def fail() -> Exact:
        raise error

    return Check("failing", "learner", "local", fail)


HONEST, WRONG = shifted(11.0), shifted(1.0, "wrong")


def quietly(check: Check) -> Check:
    """The check, whose exact replay finds nothing."""
    assert check.exact is not None
    return replace(check, exact=lambda: replace(check.exact(), epsilon=0.0))  # type: ignore[misc]


def findings(checks: list[Check], trials: int = 0, **options: float) -> list[Finding]:
    return [each for each in audit(checks, trials, **options) if isinstance(each, Finding)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "verdict", "failed", "fault"),
    [
        (HONEST, "holds", False, ""),
        (WRONG, "BROKEN", True, ""),
        (replace(WRONG, kind="known-broken"), "caught", False, ""),
        (replace(HONEST, kind="known-broken"), "NOT CAUGHT", True, ""),
        (failing(InvalidInput("it cannot.")), "FAILED", True, "it cannot."),
        (failing(NotAudited("no such noise.")), "not audited", True, "no such noise."),
        (failing(ZeroDivisionError("by zero")), "FAILED", True, "ZeroDivisionError: by zero"),
        (exactly(1.0 + 1e-12), "holds", False, ""),
        (exactly(1.0 + 1e-6), "BROKEN", True, ""),
        (exactly(0.5, "it leaks"), "BROKEN", True, "it leaks"),
        (Check("free", "learner", "none"), "no promise", False, "it promises nothing."),
    ],
)
@pytest.mark.parametrize("trials", [0, 20])
def test_verdicts(check: Check, trials: int, verdict: str, failed: bool, fault: str) -> None:
    (found,) = findings([check], trials)
    assert (found.name, found.verdict) == (check.name, verdict)
    assert (found.failed, found.fault, found.about) == (failed, fault, check.about)


def test_trials_break_a_promise_that_exact_replay_did_not() -> None:
    (found,) = findings([quietly(WRONG)], 400)
    assert (found.verdict, found.exact, found.trials, found.bound) == (
        "BROKEN",
        0.0,
        400,
        "gaussian",
    )
    assert 0.7 * 10.97 < found.lower_bound < 10.97
    (few,) = findings([HONEST], 5)
    assert (few.verdict, few.weak) == ("holds", True)


def test_a_failure_of_trials_is_a_failure_of_their_check_alone() -> None:
    assert HONEST.exact is not None
    without = replace(HONEST, exact=lambda: replace(HONEST.exact(), subject=None))  # type: ignore[misc]
    one, two = findings([without, HONEST], 60)
    assert (one.verdict, two.verdict) == ("FAILED", "holds")
    assert "trials failed" in one.fault


def test_states_that_are_left_out_are_named_beside_what_was_measured() -> None:
    left_out = "not audited under SecureNoise: OpenDP is not installed."
    exact = Exact(Claim(1.0), 0.5, "all", unaudited=left_out)
    (found,) = findings([replace(exactly(1.0), exact=lambda: exact)])
    assert (found.verdict, found.failed, found.fault) == ("not audited", True, left_out)
    assert found.exact == 0.5
    (found,) = findings([replace(exactly(1.0), exact=lambda: replace(exact, epsilon=2.0))])
    assert found.verdict == "BROKEN"


def test_the_confidence_is_shared_among_the_checks_that_are_tried() -> None:
    checks = [HONEST, shifted(11.0, "another"), exactly(1.0), failing(InvalidInput("no."))]
    found = findings(checks, 100, confidence=0.9)
    assert [each.confidence for each in found[:2]] == pytest.approx([0.95, 0.95])
    assert np.isnan(found[2].confidence)
    (alone,) = findings([HONEST], 100, confidence=0.9)
    assert alone.confidence == pytest.approx(0.9)
    assert alone.lower_bound > found[0].lower_bound


@pytest.mark.slow
def test_the_same_seed_gives_the_same_findings_whatever_the_processes() -> None:
    checks = [HONEST, quietly(WRONG)]
    one, two = findings(checks, 120, jobs=1), findings(checks, 120, jobs=2)
    assert one == two
    assert findings([HONEST], 120)[0].true_positive_rate == one[0].true_positive_rate
    assert findings(checks, 120, seed=5) != one


def test_progress_comes_before_findings_and_never_beyond_its_number() -> None:
    checks = [HONEST, WRONG, exactly(1.0)]
    given = list(audit(checks, 120))
    words = [one for one in given if isinstance(one, str)]
    assert given[: len(words)] == words
    assert len(words) == steps(checks, 120) == 3 + 2 * 6


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"trials": -1}, "trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"seed": -1}, "seed"),
        ({"jobs": 0}, "jobs"),
    ],
)
def test_bad_input_is_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        audit([HONEST], **options)  # type: ignore[arg-type]
