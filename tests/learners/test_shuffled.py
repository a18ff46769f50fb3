"""Shuffled reports: the shuffler, learners that see whole groups, and what a device agrees to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from discreet import (
    Box,
    DecisionSets,
    InvalidInput,
    KernelBandit,
    Local,
    Shuffled,
    Shuffler,
    SimulatedNoise,
    Terms,
    decode,
    encode,
    load,
    make_learner,
    save,
)
from discreet.learners.policy import Policy
from discreet.learners.signs import SignedReports
from tests.chance import check_counts

BUDGET = Shuffled(1.0, 1e-6, 50)
DOMAIN = Box((0.0, 0.0), (1.0, 1.0))
LEARNERS = [("kernel", 3), ("partition", 3), ("best_arm", 3), ("private_glm", DecisionSets(3))]


def taught(name: str, space: object, people: int):
    learner = make_learner(name, DOMAIN, space, BUDGET, horizon=1000)
    rng, noise = np.random.default_rng(1), SimulatedNoise(2)
    shuffler = Shuffler(BUDGET.group, np.random.default_rng(3))
    for _ in range(people // 10):
        policy = learner.policy()
        contexts = rng.random((10, 3, 2) if isinstance(space, DecisionSets) else (10, 2))
        actions, _ = policy.act(contexts, rng, learner.terms())
        reports = policy.report(contexts, actions, rng.random(10), noise, learner.terms())
        for group in shuffler.add(reports, policy.digest):
            learner.update(group)
    return learner, shuffler, reports


@pytest.mark.parametrize(("name", "space"), LEARNERS)
def test_learners_see_whole_groups(name: str, space: object, tmp_path: Path) -> None:
    learner, shuffler, reports = taught(name, space, 130)
    assert (learner.people, len(shuffler)) == (100, 30)
    assert learner.batch_of() % 50 == 0
    held = learner.guarantee()
    assert held.trust_model == "shuffled"
    assert held.report_epsilon == pytest.approx(BUDGET.contribution_epsilon)
    assert 0.99 < held.epsilon <= 1.0
    # Part of a group is refused, and changes nothing.
    learner.check_reports(reports)
    for give in (learner.update, learner.statistics):
        with pytest.raises(InvalidInput, match=r"10 reports came .* groups of 50"):
            give(reports)
    assert learner.people == 100
    with pytest.raises(InvalidInput, match="takes no ids"):
        learner.update(type(reports).joined([reports] * 5), people=np.arange(50))
    save(learner, tmp_path / "learner.json")
    again = load(tmp_path / "learner.json")
    assert (again.budget, again.guarantee(), again.policy().digest) == (
        learner.budget,
        held,
        learner.policy().digest,
    )


def test_merged_sums_are_of_whole_groups() -> None:
    learner, _, reports = taught("kernel", 3, 100)
    group = type(reports).joined([reports] * 5)
    sums = learner.statistics(group)
    learner.merge(sums)
    assert learner.people == 150
    part = type(sums)(**{**vars(sums), "reports": 49})
    with pytest.raises(InvalidInput, match="49 reports came"):
        learner.merge(part)


def test_without_a_group_it_is_the_local_learner() -> None:
    """A group of one is a local report: same policies, same reports, same promise."""
    made = []
    for budget in (Local(1.0), Shuffled(1.0, 1e-6, group=1)):
        learner = KernelBandit(DOMAIN, 3, budget, horizon=500, identity="same")
        rng, noise = np.random.default_rng(4), SimulatedNoise(5)
        for _ in range(3):
            policy = learner.policy()
            contexts = rng.random((learner.batch_of(), 2))
            actions, _ = policy.act(contexts, rng)
            learner.update(policy.report(contexts, actions, rng.random(len(contexts)), noise))
        made.append((learner.policy().digest, learner.guarantee().epsilon))
    assert made[0] == made[1]


def test_a_device_works_the_promise_out_itself() -> None:
    learner = KernelBandit(DOMAIN, 3, BUDGET, horizon=500)
    policy, terms = learner.policy(), learner.terms()
    assert Terms.from_fields(terms.to_fields()) == terms
    assert decode(encode(policy), Policy).digest == policy.digest
    terms.check(policy)
    dearer = KernelBandit(DOMAIN, 3, Shuffled(1.01, 1e-6, 50), horizon=500).policy()
    with pytest.raises(InvalidInput, match=r"promises epsilon = 1\.0"):
        terms.check(dearer)
    for other in (Shuffled(1.0, 1e-6, 60), Shuffled(1.0, 1e-6, 50, honest=0.9), Local(1.0)):
        offered = KernelBandit(DOMAIN, 3, other, horizon=500).policy()
        with pytest.raises(InvalidInput, match="but this side agreed to"):
            terms.check(offered)
    # Who trusts no shuffler takes no policy for groups, however little it costs there.
    with pytest.raises(InvalidInput, match="group_size 50, but this side agreed to 1"):
        Terms(DOMAIN, 3, 100.0).check(policy)


def numbered(first: int, count: int, version: int = 0) -> SignedReports:
    """Reports that can be told apart."""
    places = np.arange(first, first + count)[:, None]
    coins = np.zeros(count, dtype=np.uint64)
    return SignedReports(
        version, "a", SimulatedNoise.name, coins, places, np.ones_like(places, np.int8)
    )


@pytest.mark.chance(1e-9)
def test_every_order_is_equally_likely() -> None:
    """Of the system's randomness, and of a generator: 2,000 orders of three reports."""
    for rng in (None, np.random.default_rng(6)):
        counts = Counter(
            tuple(Shuffler(3, rng).add(numbered(0, 3), "a")[0].places[:, 0].tolist())
            for _ in range(2000)
        )
        assert set(counts) == set(permutations(range(3)))
        check_counts(list(counts.values()), np.ones(6), 5e-10)


def test_groups_are_whole_and_of_one_policy() -> None:
    shuffler, passed = Shuffler(4), []
    for start in range(0, 30, 3):
        for version in (0, 1):
            passed += shuffler.add(numbered(start, 3, version), "a")
    assert all(len(group) == 4 for group in passed)
    for version in (0, 1):
        groups = [group.places[:, 0] for group in passed if group.policy_version == version]
        # In the order in which they came, each in one group, and none twice.
        assert [sorted(group) for group in groups] == np.arange(28).reshape(7, 4).tolist()
    assert len(shuffler) == 4
    assert repr(shuffler) == "Shuffler(group=4, held=4)"
    with pytest.raises(InvalidInput, match="pass what policy"):
        shuffler.add([1, 2], "a")  # type: ignore[arg-type]
    assert len(shuffler) == 4


def test_other_digests_and_shapes_stand_apart() -> None:
    """Neither a policy shown to one person nor a report of another shape joins or blocks others."""
    shuffler = Shuffler(3)
    assert shuffler.add(numbered(0, 2), "a") == []
    assert shuffler.add(numbered(2, 1), "b") == []
    odd = numbered(0, 1)
    wide = SignedReports(
        0, "a", odd.noise, odd.public_coins, np.array([[1, 2]]), np.ones((1, 2), np.int8)
    )
    assert shuffler.add(wide, "a") == []
    (group,) = shuffler.add(numbered(3, 1), "a")
    assert sorted(group.places[:, 0].tolist()) == [0, 1, 3]
    assert len(shuffler) == 2


def test_policies_of_other_groups_are_not_taken(tmp_path: Path) -> None:
    """A certificate follows from policies, so theirs must be the budget's groups."""
    learner = KernelBandit(DOMAIN, 3, BUDGET, horizon=500, identity="same")
    policy = learner.policy()
    for changed in ({"group_size": 10_000_000}, {"group_size": 1}, {"honest": 0.5}):
        copy = KernelBandit(DOMAIN, 3, BUDGET, horizon=500, identity="same")
        with pytest.raises(InvalidInput, match="as this learner published them"):
            copy.register_policy(replace(policy, **changed))
    other = KernelBandit(DOMAIN, 3, Shuffled(1.0, 1e-6, 60), horizon=500, identity="same")
    with pytest.raises(InvalidInput, match="group 50, but the budget"):
        other.restore_fields(learner.secret_fields())
    with pytest.raises(InvalidInput, match="of a person one report is shuffled"):
        replace(policy, max_contributions=2)
    with pytest.raises(InvalidInput, match="of a person one report is shuffled"):
        Terms(DOMAIN, 3, 2.0, delta=1e-6, max_contributions=2, group_size=50)


def test_too_few_people_are_warned_of() -> None:
    learner = KernelBandit(DOMAIN, 3, BUDGET, horizon=70)
    assert "70 people fill 1 groups of 50" in learner.warnings[0]
    assert not KernelBandit(DOMAIN, 3, BUDGET, horizon=100).warnings
