"""From games to verdicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from discreet.audit.games import Check, Claim, Exact, Game, Playable, Seed
from discreet.audit.runner import Finding, audit, steps, trials_of
from discreet.validation import FloatArray, InvalidInput


@dataclass(frozen=True)
class Shift(Game):
    """Two normal laws at a distance: mu-GDP exactly."""

    mu: float
    held: Claim
    threshold: float | None = None

    @property
    def claim(self) -> Claim:
        return self.held

    @property
    def attack(self) -> str:
        return "the number itself"

    def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
        return np.random.default_rng(seed).normal(self.mu if first else 0.0, 1.0, trials)


def shift(mu: float, epsilon: float) -> Playable:
    return Shift(mu, Claim(epsilon, 1e-5))


def refused() -> Playable:
    raise InvalidInput("this cannot be audited.")


# mu = 2: epsilon = 10.97 at delta = 1e-5.
HONEST = Check("honest", "mechanism", "joint", partial(shift, 2.0, 11.0))
WRONG = Check("wrong", "mechanism", "joint", partial(shift, 2.0, 1.0))


def findings(checks: list[Check], trials: int = 4000, **options: float) -> list[Finding]:
    return [one for one in audit(checks, trials, **options) if isinstance(one, Finding)]  # type: ignore[arg-type]


def test_verdicts() -> None:
    checks = [
        HONEST,
        WRONG,
        replace(WRONG, name="seen", kind="specimen"),
        replace(HONEST, name="missed", kind="specimen"),
        Check("refused", "learner", "local", refused),
        Check("tight", "mechanism", "local", lambda: Exact(Claim(1.0), 1.0 + 1e-12, "all")),
        Check("over", "mechanism", "local", lambda: Exact(Claim(1.0), 1.0 + 1e-6, "all")),
    ]
    found = findings(checks)
    assert [one.name for one in found] == [check.name for check in checks]
    assert [one.verdict for one in found] == [
        "holds",
        "BROKEN",
        "caught",
        "NOT CAUGHT",
        "not audited",
        "holds",
        "BROKEN",
    ]
    assert [one.failed for one in found] == [False, True, False, True, False, False, True]
    assert found[4].attack == "this cannot be audited."


def test_the_confidence_is_shared_among_the_checks_that_are_decided_by_trials() -> None:
    checks = [
        HONEST,
        replace(HONEST, name="another"),
        Check("exact", "mechanism", "local", lambda: Exact(Claim(1.0), 1.0, "all")),
        Check("refused", "learner", "local", refused),
    ]
    found = findings(checks, confidence=0.9)
    assert [one.confidence for one in found[:2]] == pytest.approx([0.95, 0.95])
    assert found[2].confidence == 1.0
    (alone,) = findings([HONEST], confidence=0.9)
    assert alone.confidence == pytest.approx(0.9)
    assert alone.epsilon > found[0].epsilon


def test_many_tight_promises_hold_together() -> None:
    """Forty bounds at 95% each would break two honest promises by chance."""
    checks = [
        Check(f"honest {number}", "mechanism", "local", partial(shift, 0.1, 0.02))
        for number in range(40)
    ]
    # Randomised response by the sign of a number that is 0.1 or 0: epsilon about 0.08 at most.
    assert sum(one.failed for one in findings(checks, 500)) == 0


def test_the_same_seed_gives_the_same_findings_whatever_the_processes() -> None:
    checks = [HONEST, replace(WRONG, cost=3)]
    one, two = findings(checks, jobs=1), findings(checks, jobs=2)
    assert one == two
    assert findings([HONEST], jobs=1)[0].true_positive_rate == one[0].true_positive_rate
    assert findings(checks, seed=5) != one


def test_the_threshold_is_chosen_on_other_trials() -> None:
    seen: list[tuple[tuple[int, ...], bool]] = []

    @dataclass(frozen=True)
    class Noted(Shift):
        def scores(self, first: bool, trials: int, seed: Seed) -> FloatArray:
            seen.append((tuple(seed.spawn_key), first))
            return super().scores(first, trials, seed)

    findings([Check("noted", "mechanism", "joint", lambda: Noted(2.0, Claim(11.0, 1e-5)))], 60_000)
    assert len(seen) == len(set(seen)) == 8
    seen.clear()
    known = Noted(2.0, Claim(11.0, 1e-5), threshold=1.0)
    findings([Check("known", "mechanism", "joint", lambda: known)], 100)
    assert len(seen) == 2


def test_dear_checks_get_fewer_trials() -> None:
    assert trials_of(replace(HONEST, cost=200), 100_000) == 500
    assert trials_of(replace(HONEST, cost=200), 1000) == 40
    assert trials_of(replace(HONEST, cost=200), 7) == 7
    (found,) = findings([replace(HONEST, cost=10)], 4000)
    assert found.trials == 400


def test_progress_comes_before_findings_and_never_beyond_its_number() -> None:
    checks = [HONEST, WRONG]
    given = list(audit(checks, 30_000))
    words = [one for one in given if isinstance(one, str)]
    assert given[: len(words)] == words
    assert 0 < len(words) <= steps(checks, 30_000)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"trials": 0}, "trials"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0.0}, "confidence"),
        ({"seed": -1}, "seed"),
        ({"jobs": 0}, "jobs"),
    ],
)
def test_bad_input_is_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        audit([HONEST], **options)  # type: ignore[arg-type]


def test_claims_are_checked() -> None:
    for epsilon, delta in ((-1.0, 0.0), (float("nan"), 0.0), (1.0, 1.0), (1.0, -0.1)):
        with pytest.raises(InvalidInput, match="claim"):
            Claim(epsilon, delta)
