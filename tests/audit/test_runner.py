"""From games to verdicts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from discreet.audit.exact import Claim, Exact, NotAudited
from discreet.audit.games import Check, Game, Seed
from discreet.audit.lower_bound import Bound
from discreet.audit.runner import audit, steps, trials_of
from discreet.records import Finding
from discreet.validation import FloatArray, InvalidInput


def drawn(mu: float, first: bool, trials: int, seed: Seed) -> FloatArray:
    """Two normal laws at a distance: mu-GDP exactly."""
    return np.random.default_rng(seed).normal(0.5 * mu if first else -0.5 * mu, 1.0, trials)


def shift(mu: float, epsilon: float, exact: Exact | None, seed: Seed) -> Game:
    claim = Claim(epsilon, 1e-5)
    return Game(claim, "the number itself", partial(drawn, mu), "gaussian")


def check_of(game: Game, name: str = "a game") -> Check:
    return Check(name, "mechanism", "joint", None, lambda exact, seed: game)


def exactly(epsilon: float, fault: str = "", name: str = "exact") -> Check:
    return Check(
        name, "learner", "local", lambda: Exact(Claim(1.0), epsilon, "all", fault), about="a test"
    )


def failing(error: Exception) -> Check:
    def fail() -> Exact:
        raise error

    return Check("failing", "learner", "local", fail)


# mu = 2: epsilon = 10.97 at delta = 1e-5.
HONEST = Check("honest", "mechanism", "joint", None, partial(shift, 2.0, 11.0))
WRONG = Check("wrong", "mechanism", "joint", None, partial(shift, 2.0, 1.0))


def findings(checks: list[Check], trials: int = 4000, **options: float) -> list[Finding]:
    return [each for each in audit(checks, trials, **options) if isinstance(each, Finding)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "verdict", "failed", "fault"),
    [
        (HONEST, "holds", False, ""),
        (WRONG, "BROKEN", True, ""),
        (replace(WRONG, kind="specimen"), "caught", False, ""),
        (replace(HONEST, kind="specimen"), "NOT CAUGHT", True, ""),
        (failing(InvalidInput("it cannot.")), "FAILED", True, "it cannot."),
        (failing(NotAudited("no such noise.")), "not audited", True, "no such noise."),
        (failing(ZeroDivisionError("by zero")), "FAILED", True, "ZeroDivisionError: by zero"),
        (exactly(1.0 + 1e-12), "holds", False, ""),
        (exactly(1.0 + 1e-6), "BROKEN", True, ""),
        (exactly(0.5, "it leaks"), "BROKEN", True, "it leaks"),
    ],
)
def test_verdicts(check: Check, verdict: str, failed: bool, fault: str) -> None:
    (found,) = findings([check])
    assert (found.name, found.verdict) == (check.name, verdict)
    assert (found.failed, found.fault, found.about) == (failed, fault, check.about)


def test_trials_that_prove_little_are_too_weak_to_tell() -> None:
    (few,) = findings([HONEST], 5)
    assert few.verdict == "too weak to tell"
    assert few.weak
    assert few.failed
    exact = replace(HONEST, exact=lambda: Exact(Claim(11.0, 1e-5), 10.97, "all"))
    (known,) = findings([exact], 5)
    assert known.verdict == "holds"
    assert known.weak


def test_trials_that_break_are_a_failure_of_their_check_alone() -> None:
    def breaking(first: bool, trials: int, seed: Seed) -> FloatArray:
        raise ZeroDivisionError("by zero")

    one, two = findings([check_of(Game(Claim(1.0), "", breaking)), HONEST], 4000)
    assert (one.verdict, two.verdict) == ("FAILED", "holds")
    assert "trials failed" in one.fault


def test_without_trials_what_exact_replay_cannot_tell_is_not_audited() -> None:
    alone, exact = findings([HONEST, exactly(1.0)], 0)
    assert (alone.name, alone.verdict, alone.failed) == ("honest", "not audited", True)
    assert "leave out --trials 0" in alone.fault
    assert (exact.name, exact.trials, exact.verdict) == ("exact", 0, "holds")


def test_a_check_without_a_promise_is_no_failure() -> None:
    (found,) = findings([Check("free", "learner", "none", promises_nothing=True)], 0)
    assert (found.verdict, found.failed) == ("no promise", False)


def test_states_that_are_left_out_are_named_beside_what_was_measured() -> None:
    left_out = "not audited under SecureNoise: OpenDP is not installed."
    exact = Exact(Claim(1.0), 0.5, "all", unaudited=left_out)
    (found,) = findings([replace(exactly(1.0), exact=lambda: exact)], 0)
    assert (found.verdict, found.failed, found.fault) == ("not audited", True, left_out)
    assert found.exact == 0.5
    (found,) = findings([replace(exactly(1.0), exact=lambda: replace(exact, epsilon=2.0))], 0)
    assert found.verdict == "BROKEN"


def test_the_confidence_is_shared_among_the_checks_that_are_decided_by_trials() -> None:
    checks = [HONEST, replace(HONEST, name="another"), exactly(1.0), failing(InvalidInput("no."))]
    found = findings(checks, confidence=0.9)
    assert [each.confidence for each in found[:2]] == pytest.approx([0.95, 0.95])
    assert np.isnan(found[2].confidence)
    (alone,) = findings([HONEST], confidence=0.9)
    assert alone.confidence == pytest.approx(0.9)
    assert alone.lower_bound > found[0].lower_bound


@pytest.mark.parametrize(("bound", "delta"), [("counts", 0.0), ("gaussian", 1e-5)])
def test_where_nothing_leaks_little_is_claimed_at_most_as_often_as_it_may(
    bound: Bound, delta: float
) -> None:
    """120 runs at 95%: at most 6 claims are expected, and more than 21 with a probability below
    3e-7 (binomial), whatever the law of the scores; the seeds are fixed besides. Half of the runs
    have scores of two values."""
    claimed = 0
    for run in range(120):

        def scores(first: bool, trials: int, seed: Seed, coarse: bool = run % 2 == 0) -> FloatArray:
            null = drawn(0.0, first, trials, seed)
            return np.sign(null) if coarse else null

        check = check_of(Game(Claim(1.0, delta), "", scores, bound), f"null {run}")
        (found,) = findings([check], 300, confidence=0.95, seed=run)
        claimed += found.lower_bound > 0.0
    assert claimed <= 21


def test_many_tight_promises_hold_together() -> None:
    """Forty bounds at 95% each would break two honest promises by chance."""
    checks = [
        Check(f"honest {number}", "mechanism", "local", None, partial(shift, 0.1, 0.02))
        for number in range(40)
    ]
    # Randomised response by the sign of a number that is 0.1 or 0: epsilon about 0.08 at most.
    assert {one.verdict for one in findings(checks, 500)} == {"too weak to tell"}


def test_the_same_seed_gives_the_same_findings_whatever_the_processes() -> None:
    checks = [HONEST, replace(WRONG, cost=3)]
    one, two = findings(checks, jobs=1), findings(checks, jobs=2)
    assert one == two
    assert findings([HONEST], jobs=1)[0].true_positive_rate == one[0].true_positive_rate
    assert findings(checks, seed=5) != one


def test_the_threshold_is_chosen_on_other_trials() -> None:
    seen: list[tuple[tuple[int, ...], bool]] = []

    def noted(first: bool, trials: int, seed: Seed) -> FloatArray:
        seen.append((tuple(seed.spawn_key), first))
        return drawn(2.0, first, trials, seed)

    game = Game(Claim(11.0, 1e-5), "", noted)
    findings([check_of(game)], 60_000)
    assert len(seen) == len(set(seen)) == 8
    seen.clear()
    findings([check_of(replace(game, bound="gaussian"))], 100)
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
