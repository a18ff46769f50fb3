"""People who come more than once: who counts their contributions, and what becomes of those
beyond."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.audit.learners import _branches, _maker, _report, _spaces, _taught, _with_delta
from discreet.audit.replay import worst_neighbours
from discreet.audit.runs import JointRun, Maker
from discreet.codec import decode, encode
from discreet.lab.environments.base import People
from discreet.lab.environments.tables import TableProblem
from discreet.lab.experiments.simulation import Setting, check_setting, run_learner
from discreet.learners.base import Learner
from discreet.learners.contributions import (
    ContributionCounter,
    ContributionLedger,
    earlier_contributions,
    read_ids,
)
from discreet.learners.epochs.sums import EpochStatistics
from discreet.learners.gp_ucb.policy import GramStatistics
from discreet.learners.partition.learner import Partition
from discreet.learners.policy import Policy, Terms
from discreet.learners.registry import LEARNERS, learner_class, make_learner
from discreet.learners.saving import load, save, sealed
from discreet.papers.dubey2021.calibration import PublishedJoint, PublishedLocal
from discreet.papers.pavlovic2025.calibration import PublishedElimination
from discreet.people.domain import DecisionSets, PublicBox, RewardBounds, unit_cube
from discreet.privacy import Joint, Local, SimulatedNoise, Unprotected
from discreet.privacy.accounting import composed_epsilon
from discreet.privacy.calibration import in_unit_ball
from discreet.validation import FloatArray, InvalidInput

from .source_scene import at_once

VISITS = 3
SQUARE = unit_cube(2)


def makers(model: str) -> Iterator[Any]:
    for name in LEARNERS:
        kind = learner_class(name)
        for label, space in _spaces(kind.spaces) if model in kind.trust_models else ():
            yield pytest.param(_maker(name, model, space), id=f"{name} {label}")


def often(maker: Maker, max_contributions: int = VISITS) -> Maker:
    assert isinstance(maker.budget, Joint | Local)
    return replace(maker, budget=replace(maker.budget, max_contributions=max_contributions))


@pytest.mark.parametrize("maker", [*makers("local")])
def test_reports_of_a_person_cost_the_budget_together(maker: Maker) -> None:
    learner = often(_with_delta(maker)).make()
    policy = learner.policy()
    held, asked = learner.guarantee(), learner.budget
    assert held.epsilon <= asked.epsilon
    assert held.epsilon == pytest.approx(asked.epsilon, rel=1e-6)
    assert held.reports_per_person == VISITS
    assert f"{VISITS} reports by a person" in held.sentence
    assert decode(encode(policy), Policy).max_contributions == VISITS
    agreed = Terms(SQUARE, maker.space, asked.epsilon, maker.bounds, asked.delta, VISITS)
    agreed.check(policy)
    for other, message in (
        (replace(agreed, max_contributions=2), "contributions 3"),
        (replace(agreed, most_epsilon=0.99 * asked.epsilon), "promises epsilon"),
    ):
        with pytest.raises(InvalidInput, match=message):
            other.check(policy)
    # A policy made for one contribution costs more than was agreed for three.
    with pytest.raises(InvalidInput, match="promises epsilon"):
        agreed.check(replace(_with_delta(maker).make().policy(), max_contributions=VISITS))


def test_a_learner_that_sees_whoever_acts_takes_one_contribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Partition, "acts_silently", False)
    with pytest.raises(InvalidInput, match="max_contributions was 3"):
        often(_maker("partition", "local", 3)).make()


@pytest.mark.parametrize("name", ["kernel", "partition", "published_partition"])
def test_three_reports_lose_what_the_certificate_says(name: str) -> None:
    maker = often(_maker(name, "local", 3))
    for report in _branches(_report(_taught(maker, False, 600), maker, False, "taught")):
        some = tuple(next(iter(report.groups()))[:6])
        worst = worst_neighbours(replace(report, tried=some, bases=1))
        assert not worst.broken
        assert worst.epsilon == pytest.approx(worst.claim.epsilon, rel=1e-6)


@pytest.mark.parametrize("maker", [*makers("joint")])
def test_three_contributions_to_a_learner_that_is_trusted_cost_the_budget(maker: Maker) -> None:
    """And a fourth one, which is beyond, changes nothing that is drawn or shown."""
    run = JointRun(state="a run", maker=often(maker))
    crowd = next(iter(run.groups()))
    worst = worst_neighbours(replace(run, tried=tuple(crowd[:4])))
    assert not worst.fault
    assert not worst.broken
    once = worst_neighbours(replace(run, maker=maker, tried=tuple(crowd[:4])))
    assert worst.epsilon > 0.5 * once.epsilon
    if isinstance(maker.space, PublicBox):
        # All three are in the first epoch; sums are of multiples of 2^-18, which is left over.
        assert worst.epsilon == pytest.approx(worst.claim.epsilon, rel=1e-5)
        assert worst.epsilon == pytest.approx(once.epsilon, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "calibration", "model"),
    [
        ("gp_ucb", PublishedLocal.name, "local"),
        ("gp_ucb", PublishedJoint.name, "joint"),
        ("capri", PublishedElimination.name, "joint"),
    ],
)
def test_published_noise_covers_as_many_contributions(
    name: str, calibration: str, model: str
) -> None:
    """The formulas of papers are about people who come once; ten contributions have to cost as
    little."""
    rng, people, count, delta = np.random.default_rng(0), 40, 20, 1e-5
    sets = name == "gp_ucb"
    shape = (people, 3, 2) if sets else (people, 2)
    options: dict[str, Any] = {"horizon": people + count} if sets else {}
    options |= {"delta": delta} if model == "local" else {}
    held = []
    for visits in (1, 10):
        own = model == "joint"
        budget = (Joint if own else Local)(1.0, delta, max_contributions=visits)
        learner: Learner[Any, Any, Any] = make_learner(
            name,
            SQUARE,
            DecisionSets(3) if sets else 3,
            budget,
            options={"kernel": "DotProduct(sigma_0=1.0)", "calibration": calibration, **options},
            horizon=people + count,
            noise=SimulatedNoise(1) if own else None,
        )
        policy, contexts = learner.policy(), rng.random(shape)
        actions, _ = policy.act(contexts, rng)
        source = Unprotected() if own else SimulatedNoise(2)
        reports = policy.report(contexts, actions, np.full(people, 0.5), source)
        learner.update(reports, list(range(people)) if own else None)
        learner.policy()
        held.append(learner.guarantee().epsilon)
    assert 0.0 < held[1] <= held[0] * (1.0 + 1e-6) <= 1.0


def test_contributions_are_numbered_in_order() -> None:
    assert earlier_contributions(np.array([3, 1, 3, 3, 1, 0])).tolist() == [0, 0, 1, 2, 1, 0]
    visitors, ids = ContributionLedger({"1": 1}), ["3", "1", "3", "3", "1", "0"]
    beyond = visitors.beyond(ids, covered=2)
    assert beyond.tolist() == [False, False, False, True, True, False]
    assert visitors.came == 1
    visitors.add(ids)
    assert visitors.counts == {"1": 3, "3": 3, "0": 1}
    assert visitors.came == 7
    assert "3" not in repr(visitors)
    assert ContributionLedger.from_fields(visitors.to_fields()) == visitors


@pytest.mark.parametrize(
    ("people", "message"),
    [
        (["a", None], "contribution 1 .* is missing"),
        (["a", ""], "contribution 1 .* is missing"),
        ([float("nan"), 1], "contribution 0 .* is missing"),
        ([1, 2.5], "contribution 1 .* is 2.5"),
        ([1, True], "contribution 1 .* is True"),
        (["a", "b" * 201], "contribution 1"),
        ([1, -(10**199)], "contribution 1 .* is a longer number"),
        ([10**5000, 1], "contribution 0 .* is a longer number"),
        ([1], "1 ids for 2 contributions"),
        ("ab", "one id"),
        (np.zeros((2, 1)), "one id"),
        (7, "one id"),
    ],
)
def test_ids_that_are_none_are_refused(people: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_ids(people, 2)


def test_ids_are_texts_or_whole_numbers_that_can_be_saved() -> None:
    assert read_ids(np.array([7, 8]), 2) == read_ids(["7", " 8"], 2) == ["7", "8"]
    # NumPy drops zeros at the end of texts: the id of one person would silence another.
    ids = read_ids(["a\0", "a", "a\0"], 3)
    assert ContributionLedger().beyond(ids, covered=1).tolist() == [False, False, True]
    for given in (10**199, "b" * 200):
        visitors = ContributionLedger()
        visitors.add(read_ids([given], 1))
        assert ContributionLedger.from_fields(visitors.to_fields()) == visitors
    for given in (10**200, -(10**199), 10**5000):
        with pytest.raises(InvalidInput, match="contribution 0"):
            read_ids([given], 1)


def joint(
    name: str = "capri", max_contributions: int = 2, **options: Any
) -> Learner[Any, Any, Any]:
    space: Any = DecisionSets(3) if name == "gp_ucb" else 3
    return make_learner(
        name,
        SQUARE,
        space,
        Joint(1.0, 1e-6, max_contributions=max_contributions),
        options={"kernel": "RBF([1.0, 1.0])", "error": 0.1, **options},
        horizon=100,
        noise=SimulatedNoise(1),
        public_seed=5,
        identity="visited",
    )


@cache
def _reported(name: str, people: int) -> Any:
    learner, rng = joint(name), np.random.default_rng(4)
    policy = learner.policy()
    shape = (people, 3, 2) if name == "gp_ucb" else (people, 2)
    contexts = rng.random(shape)
    actions, _ = policy.act(contexts, rng)
    return policy.report(contexts, actions, rng.random(people), Unprotected())


@pytest.mark.parametrize("name", ["capri", "gp_ucb"])
def test_contributions_beyond_count_as_contributions_and_add_rows_of_zero(name: str) -> None:
    learner, reports = joint(name), _reported(name, 6)
    learner.policy()
    learner.update(reports, ["a", "b", "a", "a", "b", "c"])
    covered = np.array([0, 1, 2, 4, 5])
    alone = learner.statistics(
        replace(
            reports,
            **{k: v[covered] for k, v in vars(reports).items() if np.shape(v)[:1] == (6,)},
        )
    )
    whole = learner.statistics(reports)
    sums = learner._sums
    assert sums.reports == learner.people == 6
    if isinstance(sums, GramStatistics):
        assert np.array_equal(sums.row, alone.row)
        assert np.array_equal(sums.design, whole.design)
        assert not np.array_equal(sums.row, whole.row)
    else:
        assert isinstance(sums, EpochStatistics)
        assert sums.epochs[0].people == 6
        assert np.array_equal(sums.epochs[0].total, alone.epochs[0].total)
        assert not np.array_equal(sums.epochs[0].total, whole.epochs[0].total)
    # Whoever has used up their contributions may be all of a batch, and come in several.
    before = sums
    learner.update([reports, reports], [["a"] * 6, ["b"] * 6])
    assert learner.people == 18
    more = getattr(learner._sums, "row", None)
    if more is not None:
        assert np.array_equal(more, before.row)


@pytest.mark.parametrize("name", ["capri", "gp_ucb"])
def test_rows_of_zero_are_zero_however_batches_are_rounded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of matrices are rounded otherwise in a batch of one contribution."""

    def rounded(rows: FloatArray) -> FloatArray:
        return in_unit_ball(rows) * (1.0 - 1e-4 * (len(rows) == 1))

    place = "gp_ucb.sets.learner" if name == "gp_ucb" else "epochs.policy"
    monkeypatch.setattr(f"discreet.learners.{place}.in_unit_ball", rounded)
    two, four = (joint(name, visits) for visits in (2, 4))
    reports = _reported(name, 6)
    sums = []
    for learner in (two, four):
        learner.policy()
        learner.update(reports, ["b", "a", "a", "a", "b", "c"])
        made = learner._sums
        sums.append(made.row if isinstance(made, GramStatistics) else made.epochs[0].total)
    heard = four._statistics(four.policy(), reports.limited(np.arange(6) != 3))
    own = heard.row if isinstance(heard, GramStatistics) else heard.epochs[0].total
    assert np.array_equal(sums[0], sums[1] - own)


def test_who_came_is_secret_and_is_kept(tmp_path: Path) -> None:
    learner, reports = joint(), _reported("capri", 6)
    learner.policy()
    names = [f"person {i % 4}" for i in range(6)]
    learner.update(reports, names)
    path = tmp_path / "learner.json"
    save(learner, path)
    assert "SECRET" in path.read_text()[:100]
    again = load(path, SimulatedNoise(2))
    again.update(reports, names)
    learner.update(reports, names)
    assert again.secret_fields() == learner.secret_fields()
    assert again._target._contributions.counts["person 0"] == 4
    assert "person 0" not in encode(learner.policy()) + repr(learner._target)
    assert not any("person 0" in repr(release) for release in learner.releases)

    content = json.loads(path.read_text())
    del content["sha256"]
    for change in ([["person 0", 1]], None):
        target = dict(content["state"]["target"])
        target["contributions"] = change
        if change is None:
            del target["contributions"]
        state = {**content["state"], "target": target}
        path.write_text(sealed({**content, "state": state}))
        with pytest.raises(InvalidInput, match="of which it is known who made"):
            load(path, SimulatedNoise(2))


def test_ids_are_given_for_all_reports_or_for_none() -> None:
    reports = _reported("capri", 6)
    learner = joint()
    learner.policy()
    before = learner.secret_fields()
    with pytest.raises(InvalidInput, match="without people"):
        learner.update(reports)
    with pytest.raises(InvalidInput, match="without people"):
        learner.merge(learner.statistics(reports))
    for people in (["a"] * 5, [["a"] * 6], ["a"] * 5 + [None]):
        with pytest.raises(InvalidInput):
            learner.update(reports, people)
    with pytest.raises(InvalidInput, match="2 batches"):
        learner.update([reports, reports], [["a"] * 6])
    # The second batch is refused, so nothing of the first is counted either.
    with pytest.raises(InvalidInput, match="5 ids for 6"):
        learner.update([reports, reports], [["a"] * 6, ["a"] * 5])
    assert learner.secret_fields() == before

    once = joint(max_contributions=1)
    once.policy()
    reports = replace(reports, source=once.identity)
    once.update(reports, np.arange(6))
    with pytest.raises(InvalidInput, match="since the first report"):
        once.update(reports)
    late = joint(max_contributions=1)
    late.policy()
    late.update(reports)
    with pytest.raises(InvalidInput, match="were added without ids"):
        late.update(reports, np.arange(6))


def test_a_learner_under_local_privacy_is_not_told_who_reports() -> None:
    learner = make_learner(
        "partition", SQUARE, 3, Local(1.0, max_contributions=2), identity="local"
    )
    policy = learner.policy()
    actions, _ = policy.act(np.full((2, 2), 0.5), np.random.default_rng(0))
    reports = policy.report(np.full((2, 2), 0.5), actions, [1.0, 0.0], SimulatedNoise(0))
    with pytest.raises(InvalidInput, match="takes no ids of people"):
        learner.update(reports, ["a", "b"])
    assert learner.people == 0


def test_pure_reports_of_several_contributions_may_use_a_delta() -> None:
    with pytest.raises(InvalidInput, match="pure"):
        make_learner("partition", SQUARE, 3, Local(1.0, 1e-6))
    learner = make_learner("partition", SQUARE, 3, Local(1.0, 1e-6, max_contributions=40))
    assert learner.policy().epsilon > 1.4 / 40
    held = learner.guarantee()
    assert (held.delta, held.reports_per_person) == (1e-6, 40)
    assert 1.0 - 1e-9 < held.epsilon <= 1.0


CONTEXT = np.full((1, 2), 0.3)


def reported(counter: ContributionCounter, policy: Policy[Any], noise: Any = None) -> Any:
    """What a device sends for one more contribution, None if it sends nothing."""
    actions, _ = policy.act(CONTEXT, np.random.default_rng(1))
    return counter.report(policy, CONTEXT, actions, [1.0], noise or SimulatedNoise(1))


class TestTheCounterOnADevice:
    @staticmethod
    def scene() -> tuple[Policy[Any], Terms]:
        learner = make_learner("kernel", SQUARE, 3, Local(1.0, max_contributions=2))
        return learner.policy(), Terms(SQUARE, 3, 1.0, max_contributions=2)

    def test_reports_end_with_the_contributions_that_were_agreed(self) -> None:
        policy, terms = self.scene()
        counter = ContributionCounter(terms)
        sent = [reported(counter, policy) for _ in range(4)]
        assert [report is not None for report in sent] == [True, True, False, False]
        assert (counter.made, counter.left) == (2, 0)
        assert ContributionCounter(terms, made=1).left == 1
        with pytest.raises(InvalidInput, match="made was -1"):
            ContributionCounter(terms, made=-1)

    def test_one_contribution_at_a_time_is_counted_before_it_is_drawn(self) -> None:
        policy, terms = self.scene()
        counter = ContributionCounter(terms)
        with pytest.raises(InvalidInput):
            reported(counter, policy, noise="none")
        assert counter.made == 1
        two = np.full((2, 2), 0.3)
        actions, _ = policy.act(two, np.random.default_rng(1))
        with pytest.raises(InvalidInput, match="one contribution"):
            ContributionCounter(terms).report(policy, two, actions, [1.0, 1.0], SimulatedNoise(1))

    @staticmethod
    def kinds(terms: Terms) -> tuple[Policy[Any], Policy[Any]]:
        """Of a pure and a Gaussian report, each of which keeps the terms by itself."""
        budget = Local(1.0, 1e-6, max_contributions=2)
        options = {"kernel": "RBF([1.0, 1.0])", "error": 0.1}
        made = (
            make_learner("kernel", SQUARE, 3, budget).policy(),
            make_learner(
                "capri",
                SQUARE,
                3,
                budget,
                horizon=200,
                options={**options, "mechanism": "gaussian"},
            ).policy(),
        )
        for policy in made:
            terms.check(policy, SimulatedNoise.name)
        return made

    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("first", [0, 1])
    def test_reports_of_two_kinds_would_cost_more_than_was_agreed(
        self, first: int, restarted: bool
    ) -> None:
        terms = Terms(SQUARE, 3, 1.0, delta=1e-6, max_contributions=2)
        policies = self.kinds(terms)
        events = [policy.release(SimulatedNoise.name).event for policy in policies]  # type: ignore[union-attr]
        assert composed_epsilon(events, terms.delta) > 1.15 * terms.most_epsilon
        counter, policy, other = ContributionCounter(terms), policies[first], policies[1 - first]
        assert reported(counter, policy) is not None
        assert counter.gaussian is bool(first)
        if restarted:
            counter = ContributionCounter(terms, counter.made, counter.gaussian)
        with pytest.raises(InvalidInput, match="one kind"):
            reported(counter, other)
        assert counter.made == 1
        assert reported(counter, policy) is not None
        # A counter that goes on is told of which kind reports were.
        with pytest.raises(InvalidInput, match="gaussian was None"):
            ContributionCounter(terms, made=1)
        assert ContributionCounter(terms, made=1, gaussian=False).left == 1

    def test_threads_make_no_more_reports_than_were_agreed(self) -> None:
        policy, terms = self.scene()

        class Slow(ContributionCounter):
            """All threads have seen that reports are left before one of them counts."""

            @property
            def left(self) -> int:
                seen = super().left
                time.sleep(0.02)
                return seen

        counter = Slow(terms)

        sent = at_once([partial(reported, counter, policy)] * 5)
        assert sum(report is not None for report in sent) == terms.max_contributions


def test_whoever_shows_something_by_acting_does_not_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A learner to which acting shows something costs a person also on a contribution without a
    report, which no certificate says."""
    monkeypatch.setattr(Partition, "acts_silently", False)
    learner = make_learner("partition", SQUARE, 3, Local(2.0))
    rng = np.random.default_rng(0)
    contexts, rewards, ids = rng.random((3, 2)), rng.random((3, 3)), np.array([0, 1, 0])
    crowd = People(contexts, rewards, ids=ids)
    with pytest.raises(InvalidInput, match="partition reveals"):
        run_learner(learner, crowd, rng, SimulatedNoise(1))
    assert learner.people == 0
    table = TableProblem(contexts, rewards, SQUARE, ("a", "b", "c"), RewardBounds(), "", ids=ids)
    setting = Setting("partition", "shown", Local(2.0))
    with pytest.raises(InvalidInput, match="1 visits come after the first one"):
        check_setting(table, setting, 3)
    assert not check_setting(table, replace(setting, budget=Local(2.0, protects="contribution")), 3)
    for budget, who in ((Local(2.0), np.arange(3)), (Local(2.0, protects="contribution"), ids)):
        learner = make_learner("partition", SQUARE, 3, budget)
        run_learner(learner, People(contexts, rewards, ids=who), rng, SimulatedNoise(1))
        assert learner.people == 3


@pytest.mark.parametrize(
    ("budget", "reports"),
    [
        (Local(2.0), 40),
        (Local(2.0, max_contributions=3), 120),
        (Local(2.0, max_contributions=9), 200),
        (Local(2.0, protects="contribution"), 200),
        (Joint(2.0, 1e-5, max_contributions=3), 200),
    ],
)
def test_people_who_are_served_report_as_often_as_is_covered(budget: Any, reports: int) -> None:
    """40 people come 5 times each; a learner that is trusted counts for itself."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(40), 5))
    crowd = People(rng.random((200, 2)), rng.random((200, 3)), ids=ids)
    name = "partition" if isinstance(budget, Local) else "capri"
    noise = SimulatedNoise(1)
    options = {} if isinstance(budget, Local) else {"kernel": "RBF([1.0, 1.0])", "error": 0.1}
    own = noise if isinstance(budget, Joint) else None
    learner = make_learner(name, SQUARE, 3, budget, horizon=200, noise=own, options=options)
    values = run_learner(learner, crowd, np.random.default_rng(2), noise)
    assert len(values) == 200
    assert learner.people == reports
    assert learner.guarantee().epsilon <= budget.epsilon
    visitors = learner._target._contributions.counts
    assert set(visitors.values()) == ({5} if isinstance(budget, Joint) else set())
