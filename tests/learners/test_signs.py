"""Reports of a place and a sign, of both learners and their sources: the privacy of one report by
enumeration, that nothing else leaves, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.learners.messages import PUBLIC_COINS, Reports
from discreet.learners.signs import SignedReports
from discreet.privacy import SimulatedNoise
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, InvalidInput

from .kernel.scene import FOUR, THREE, all_contexts, random_policy
from .kernel.scene import source_policy as kernel_source
from .partition.scene import quarters

CORNERS = np.array([[0.2, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.8]])


def kernel(domain: Any, count: int) -> tuple[Callable[[float], Any], FloatArray]:
    return lambda epsilon: random_policy(domain, 3, epsilon, count), all_contexts(domain)


# What makes a policy with this epsilon, and contexts in all of its places.
ROWS: dict[str, tuple[Callable[[float], Any], FloatArray]] = {
    "partition": (quarters, CORNERS),
    **{f"kernel, {count} of 2 x 2": kernel(FOUR, count) for count in (1, 2, 3, 4)},
    "kernel, 3 levels": kernel(THREE, 3),
    "best_arm": (lambda epsilon: random_policy(FOUR, 3, epsilon, varies=False), all_contexts(FOUR)),
    "kernel, source": (
        lambda epsilon: kernel_source(FOUR, arms=2, epsilon=epsilon, count=4, version=3),
        all_contexts(FOUR),
    ),
}


@pytest.fixture(params=ROWS.values(), ids=ROWS.keys())
def row(request: pytest.FixtureRequest) -> tuple[Callable[[float], Any], FloatArray]:
    return request.param


class Hidden:
    """Watches what mechanisms are given and what they answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[int, int]] = []
        self.answers: list[Any] = []
        privatise = SignedSubsetSelection.privatise

        def watched(mechanism: Any, places: Any, signs: Any, noise: Any) -> Any:
            self.given += zip(places.tolist(), signs.tolist(), strict=True)
            self.answers.append(privatise(mechanism, places, signs, noise))
            return self.answers[-1]

        monkeypatch.setattr(SignedSubsetSelection, "privatise", watched)


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Hidden:
    return Hidden(monkeypatch)


def reports_of(policy: Any, contexts: FloatArray, reward: float, seed: int) -> list[SignedReports]:
    """One for each context, and each arm where people of a source could have been given it; all
    from the same public and private randomness."""
    reports = []
    for context in contexts:
        if policy.chooses:
            chosen = [policy.act(context[None], np.random.default_rng(seed))[0]]
        else:
            chosen = [[arm] for arm in range(policy.arms)]
        for arms in chosen:
            noise = SimulatedNoise(seed)
            reports.append(policy.report(context[None], arms, [reward], noise))
    return reports


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_no_report_is_more_than_e_epsilon_times_as_likely(
    row: tuple[Callable[[float], Any], FloatArray], epsilon: float, hidden: Hidden
) -> None:
    """Over all people with one public coin or question; the bound is reached."""
    make, contexts = row
    policy = make(epsilon)
    mechanism = policy.mechanism
    worst = 0.0
    for seed in range(4):
        hidden.given = []
        reports = [r for y in (0.0, 1.0) for r in reports_of(policy, contexts, y, seed)]
        assert len({int(r.public_coins[0]) for r in reports}) == 1
        people = set(hidden.given)
        assert len(people) > 1
        for places in combinations(range(mechanism.bins), mechanism.size):
            for signs in product((-1, 1), repeat=mechanism.size):
                report = np.array(places), np.array(signs, dtype=np.int8)
                logs = [mechanism.log_probability(*report, j, s) for j, s in people]
                worst = max(worst, max(logs) - min(logs))
    assert worst == pytest.approx(epsilon, rel=1e-9)
    release = policy.release("none")
    assert release.event.epsilon == epsilon
    assert f"{2 * mechanism.bins} values" in f"{release.mechanism} {release.sensitivity_source}"


def test_nothing_leaves_but_what_the_mechanism_answered(
    row: tuple[Callable[[float], Any], FloatArray], hidden: Hidden
) -> None:
    make, contexts = row
    policy, cases = make(1.0), product((0.0, 0.3, 1.0), range(5))
    reports = [report for y, seed in cases for report in reports_of(policy, contexts, y, seed)]
    for report, (places, signs) in zip(reports, hidden.answers, strict=True):
        assert np.array_equal(report.places, places)
        assert np.array_equal(report.signs, signs)
        assert set(json.loads(encode(report))) == {
            *("kind", "schema", "policy_version", "source", "noise"),
            *("public_coins", "places", "signs"),
        }


@pytest.fixture
def report(row: tuple[Callable[[float], Any], FloatArray]) -> tuple[Any, SignedReports]:
    make, contexts = row
    policy = make(8.0)
    reports = reports_of(policy, contexts[:1], 1.0, 0)[0]
    policy.reporter.check(policy, reports)
    return policy, reports


NOBODYS: list[tuple[dict[str, Any], str]] = [
    ({"places": [[99]]}, "outside 0 .."),
    ({"places": [[-1]]}, "outside 0 .."),
    ({"places": [[0, 1]], "signs": [[1, 1]]}, "shape"),
    ({"places": [[0], [0]]}, "shape"),
    ({"places": [0]}, "shape"),
    ({"signs": [[0]]}, "signs other than"),
    ({"signs": [[2]]}, "signs had 2"),
    ({"signs": [[-128]]}, "signs had -128"),
    ({"signs": [[1], [1]]}, "signs had shape"),
    (
        {"public_coins": [], "places": np.zeros((0, 1)), "signs": np.zeros((0, 1))},
        "at least one",
    ),
    ({"public_coins": [-1]}, "public_coins had -1"),
    ({"public_coins": [PUBLIC_COINS]}, "public_coins had"),
]


def test_reports_that_nobody_makes_are_refused(report: tuple[Any, SignedReports]) -> None:
    policy, good = report
    assert policy.mechanism.size == 1
    for change, message in NOBODYS:
        arrays = {name: np.array(values, dtype=np.int64) for name, values in change.items()}
        with pytest.raises(InvalidInput, match=message):
            policy.reporter.check(policy, replace(good, **arrays))


def test_questions_beyond_those_of_the_policy_are_refused() -> None:
    policy = kernel_source(FOUR, arms=2, epsilon=8.0, count=4)
    good = reports_of(policy, all_contexts(FOUR)[:1], 1.0, 0)[0]
    beyond = np.array([policy.questions], dtype=np.uint64)
    with pytest.raises(InvalidInput, match="questions outside 0"):
        policy.reporter.check(policy, replace(good, public_coins=beyond))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("public_coins", [0.5]),
        ("public_coins", "many"),
        ("public_coins", None),
        ("places", [[0.5]]),
        ("places", [["a"]]),
        ("signs", [[0.5]]),
        ("signs", [[True]]),
        ("signs", [[257]]),  # 1 modulo 256
        ("signs", [[-255]]),
        ("signs", [[2**40 + 1]]),
        ("noise", "loud"),
        ("policy_version", -1),
    ],
)
def test_damaged_reports_are_refused(name: str, value: Any) -> None:
    policy = quarters(8.0)
    fields = json.loads(encode(reports_of(policy, CORNERS[:1], 1.0, 0)[0]))
    policy.reporter.check(policy, decode(json.dumps(fields), Reports))
    with pytest.raises(InvalidInput):
        decode(json.dumps({**fields, name: value}), Reports)
