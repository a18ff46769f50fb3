"""The bound for shuffled reports: against enumeration, reference values, and in its shape."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest
from scipy.stats import binom

from discreet.privacy import Adjacency, OnceEach, Release, Shuffled, derive_guarantee
from discreet.privacy.accounting import PureEvent, ShuffledEvent, composed_epsilon
from discreet.privacy.budget import usual_group
from discreet.privacy.guarantee import check_protects
from discreet.privacy.shuffling import (
    report_epsilon_of,
    shuffled_delta,
    shuffled_epsilon,
)
from discreet.validation import FloatArray, InvalidInput


def group_laws(channel: FloatArray, group: int) -> dict[tuple[int, ...], FloatArray]:
    """For every multiset of others the laws (inputs, multisets) of a group's counts of outputs."""
    inputs, outputs = channel.shape
    laws = {}
    for others in combinations_with_replacement(range(inputs), group - 1):
        each = []
        for own in range(inputs):
            law = {(0,) * outputs: 1.0}
            for person in (own, *others):
                longer: dict[tuple[int, ...], float] = {}
                for counts, chance in law.items():
                    for output in range(outputs):
                        more = tuple(n + (i == output) for i, n in enumerate(counts))
                        longer[more] = longer.get(more, 0.0) + chance * channel[person, output]
                law = longer
            each.append([law[key] for key in sorted(law)])
        laws[others] = np.array(each)
    return laws


def exact_delta(channel: FloatArray, group: int, epsilon: float) -> float:
    """The delta of the worst inputs of one person among the worst others."""
    worst = 0.0
    for laws in group_laws(channel, group).values():
        gaps = laws[:, None] - math.exp(epsilon) * laws[None]
        worst = max(worst, float(np.maximum(gaps, 0.0).sum(axis=2).max()))
    return worst


def kary(values: int, epsilon: float) -> FloatArray:
    p = math.exp(epsilon)
    return (np.ones((values, values)) + (p - 1.0) * np.eye(values)) / (p + values - 1.0)


@pytest.mark.parametrize(("group", "report"), [(2, 1.0), (3, 2.0), (6, 0.5), (6, 3.0)])
def test_one_bit_comes_close_to_the_bound(group: int, report: float) -> None:
    """Of two people exactly; of more what others hold tells a little less than the bound allows."""
    for share in (0.0, 0.2, 0.6, 0.9):
        exact = exact_delta(kary(2, report), group, share * report)
        ratio = exact / shuffled_delta(report, group, share * report)
        assert (1.0 - 2e-7 if group == 2 else 0.9) <= ratio <= 1.0


def test_no_random_channel_is_worse() -> None:
    """Rows of two levels, whose ratio is largest, and of any: extremal randomisers among them."""
    rng = np.random.default_rng(1)
    closest = 0.0
    for _ in range(400):
        report = rng.uniform(0.2, 3.0)
        inputs, outputs = rng.integers(2, 4), rng.integers(2, 5)
        levels = rng.random((inputs, outputs))
        if rng.random() < 0.7:
            levels = np.round(levels)
        channel = np.exp(report * levels) * rng.dirichlet(np.ones(outputs))
        channel /= channel.sum(axis=1, keepdims=True)
        held = float(np.log(channel.max(axis=0) / channel.min(axis=0)).max())
        group, epsilon = int(rng.integers(2, 5)), rng.uniform(0.0, 0.9) * held
        if held > 0.05:
            ratio = exact_delta(channel, group, epsilon) / shuffled_delta(held, group, epsilon)
            closest = max(closest, ratio)
    assert 0.9 < closest <= 1.0 + 1e-6


def test_terms_of_the_proof_in_exact_arithmetic() -> None:
    """The binary law is the largest in convex order: stop-loss transforms at every kink."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        p = 1 + Fraction(int(rng.integers(1, 60)), 8)
        e = 1 + (p - 1) * Fraction(int(rng.integers(0, 16)), 16)
        both, neither = (Fraction(int(rng.integers(0, 10)), 10) for _ in range(2))
        both, neither = both / (2 * p), (1 - both / 2) * neither
        one = (1 - p * both - neither) / (p + 1)
        atoms = {p - e: one, 1 - p * e: one}
        for value, mass in ((p * (1 - e), both), (1 - e, neither)):
            atoms[value] = atoms.get(value, Fraction(0)) + mass
        atoms[Fraction(0)] = atoms.get(Fraction(0), Fraction(0)) + 1 - sum(atoms.values())
        assert min(atoms.values()) >= 0
        least = 1 / (p + 1)
        binary = {p - e: least, 1 - p * e: least}
        binary[Fraction(0)] = binary.get(Fraction(0), Fraction(0)) + 1 - 2 * least
        for kink in {*atoms, *binary}:
            mine, largest = (
                sum(mass * max(value - kink, Fraction(0)) for value, mass in law.items())
                for law in (atoms, binary)
            )
            assert mine <= largest


@pytest.mark.parametrize(
    ("group", "epsilon", "honest", "report"),
    [
        (100, 0.25, 1.0, 0.569),
        (300, 1.0, 1.0, 2.273),
        (1000, 0.5, 1.0, 2.302),
        (1000, 1.0, 0.5, 2.675),
        (10_000, 1.0, 1.0, 5.470),
        (10_000, 2.0, 0.5, 5.633),
    ],
)
def test_reference_values(group: int, epsilon: float, honest: float, report: float) -> None:
    """Computed by another program, at delta = 1e-6."""
    found = report_epsilon_of(group, epsilon, 1e-6, honest)
    assert found == pytest.approx(report, abs=2e-3)
    assert shuffled_epsilon(found, group, 1e-6, honest) <= epsilon
    assert shuffled_epsilon(found + 2e-3, group, 1e-6, honest) > epsilon


@pytest.mark.parametrize(("report", "epsilon"), [(0.3, 0.13), (1.0, 0.5), (2.0, 1.2), (2.0, 0.1)])
def test_no_tail_is_left_out(report: float, epsilon: float) -> None:
    """The sum of the claim term by term, down to a delta of 10^-12."""
    group, p, e = 300, math.exp(report), math.exp(epsilon)
    clones = np.arange(group)[:, None]
    a = np.arange(-1, group + 1)
    ways = binom.pmf(a, clones, 0.5)
    moved = np.roll(ways, 1, axis=1)
    mine, other = (p * moved + ways) / (p + 1.0), (moved + p * ways) / (p + 1.0)
    gains = np.maximum(mine - e * other, 0.0).sum(axis=1)
    whole = float(binom.pmf(clones[:, 0], group - 1, 2.0 / (p + 1.0)) @ gains)
    found = shuffled_delta(report, group, epsilon)
    assert whole <= found <= whole * 1.001 + 2e-15


def test_shape_and_size() -> None:
    groups = (1, 2, 3, 10, 100, 1000, 10**4, 10**6)
    for report, epsilon in product((0.01, 1.0, 4.0, 12.0), (0.0, 0.5)):
        deltas = [shuffled_delta(report, group, epsilon * report) for group in groups]
        assert all(later <= earlier * (1 + 1e-6) for earlier, later in pairwise(deltas))
        p, e = math.exp(report), math.exp(epsilon * report)
        assert deltas[0] == pytest.approx((p - e) / (p + 1.0), rel=1e-6)  # nobody else
    reports = [shuffled_delta(report, 500, 0.5) for report in np.linspace(0.51, 8.0, 60)]
    assert (np.diff(reports) >= 0.0).all()
    epsilons = [shuffled_delta(3.0, 500, epsilon) for epsilon in np.linspace(0.0, 2.9, 60)]
    assert (np.diff(epsilons) <= 0.0).all()
    assert shuffled_delta(1.0, 500, 1.0) == 0.0
    assert shuffled_delta(1e-17, 20, 0.0) == 1e-17
    assert shuffled_epsilon(math.inf, 500, 1e-6) == math.inf
    assert report_epsilon_of(1, 1.0, 1e-6) == 1.0  # a group of one is a local report
    assert shuffled_delta(2.0, 101, 0.3, honest=0.5) == shuffled_delta(2.0, 51, 0.3)


def test_guarantee_has_both_promises() -> None:
    budget = Shuffled(1.0, 1e-6, 300)
    report = budget.contribution_epsilon
    people = OnceEach("one report", apart=True)

    def release(event: PureEvent) -> Release:
        return Release("signs", event, 1.0, "", report, people, "a cell", "SecureNoise")

    event = ShuffledEvent(report, 300)
    held = derive_guarantee([release(event)] * 3, "shuffled", Adjacency("a reward"), 1e-6)
    assert held.epsilon == pytest.approx(1.0, abs=1e-4)
    assert held.epsilon <= 1.0
    assert held.report_epsilon == report
    assert "in groups of 300," in held.sentence
    assert "If the shuffler or others in the group conspire with the observer" in held.sentence
    assert (held.group, held.honest) == (300, 1.0)
    assert held == type(held).from_json(held.to_json())
    twice = held.repeated(2)
    assert twice.epsilon == 2.0 * held.epsilon
    assert twice.delta == pytest.approx(1e-6 * (1.0 + math.exp(held.epsilon)))
    # The worst of groups that differ, and a report that nobody shuffled.
    small, dear = ShuffledEvent(report, 30), ShuffledEvent(report + 0.1, 300, 0.5)
    worst = derive_guarantee(
        [release(small), release(dear)], "shuffled", Adjacency("a reward"), 1e-6
    )
    assert worst.epsilon >= max(each.amplified(1e-6) for each in (small, dear))
    bare = derive_guarantee(
        [release(event), release(PureEvent(report))], "shuffled", Adjacency("a reward"), 1e-6
    )
    assert bare.epsilon == report


def test_composition() -> None:
    event = ShuffledEvent(2.0, 300)
    assert composed_epsilon([event], 0.0) == 2.0
    assert composed_epsilon([event], 1e-6) == event.amplified(1e-6)
    # Two reports may be in one group, where the bound does not hold for each of them apart.
    assert composed_epsilon([event, event], 2e-6) == composed_epsilon([PureEvent(2.0)] * 2, 2e-6)
    assert composed_epsilon([event, PureEvent(0.5)], 1e-6) >= 2.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": 101.0},
        {"epsilon": 0.0, "group": 0},
        {"epsilon": "1", "group": 0},
        {"epsilon": math.nan, "group": 0},
        {"epsilon": [1], "group": 0},
        {"epsilon": 10**400, "group": 0},
        {"delta": 0.0},
        {"delta": 1.0},
        {"group": -1},
        {"group": 2.5},
        {"group": 10**8},
        {"honest": 0.0},
        {"honest": 1.1},
        {"honest": math.nan},
    ],
)
def test_budgets_that_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        Shuffled(**{"epsilon": 1.0, "delta": 1e-6, "group": 300, **wrong})  # type: ignore[arg-type]


def test_budget() -> None:
    budget = Shuffled(1.0, 1e-6)
    assert budget.group == usual_group(1.0)
    assert budget.is_local
    assert not budget.is_central
    assert Shuffled(1.0, 1e-6, honest=0.5).contribution_epsilon < budget.contribution_epsilon
    assert budget.at(0.25).group == usual_group(0.25)
    assert Shuffled(1.0, 0.1, 1).contribution_epsilon == 1.0
    assert Shuffled(1.0, 1e-6, 77).at(0.25).group == 77
    check_protects(Shuffled(20.0, 1e-6, 1000))
    with pytest.raises(InvalidInput, match=r"epsilon was 31\.5"):
        check_protects(Shuffled(31.5, 1e-6, 1000))
    held = derive_guarantee([], "shuffled", Adjacency("a reward"), 1e-6)
    with pytest.raises(InvalidInput, match="epsilon was 31"):
        check_protects(replace(held, epsilon=1.0, report_epsilon=31.0))
