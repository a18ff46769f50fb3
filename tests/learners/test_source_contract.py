"""What every learner owes that hears from auxiliary sources (discreet.learners.sources).

A new one is a row here. Who the people of a source are is in source_scene.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.learners.messages import Reports
from discreet.learners.policy import TARGET_NAME, Policy, Terms
from discreet.learners.registry import LEARNERS, make_learner
from discreet.learners.saving import load, save
from discreet.people.domain import Box, RewardBounds
from discreet.privacy import Budget, Joint, Local, NonPrivate, SimulatedNoise, Unprotected
from discreet.validation import InvalidInput

from .contract import ARMS, BOUNDS, DOMAIN, Row, arrays, described, state, visit
from .source_scene import (
    SCENE,
    SourceRow,
    at_once,
    known,
    people_of,
    serve,
    slowly,
    teach,
    told,
)

GENEROUS = Terms(DOMAIN, ARMS, 100.0, BOUNDS)


def maker(name: str, budget: Budget, **options: Any) -> Callable[[int], Any]:
    """Makes a learner with that public seed."""

    def fresh(seed: int) -> Any:
        noise = SimulatedNoise(seed) if budget.is_central and budget.private else None
        make = partial(make_learner, name, DOMAIN, ARMS, budget, reward_bounds=BOUNDS, noise=noise)
        return make(options=options, public_seed=seed, horizon=4000, identity=f"sources {seed}")

    return fresh


ROWS = {
    "kernel": SourceRow(maker("kernel", Local(1.0))),
    "kernel, non-private": SourceRow(maker("kernel", NonPrivate())),
    "kernel, joint": SourceRow(maker("kernel", Joint(1.0, 1e-6), first=100)),
    "best_arm": SourceRow(maker("best_arm", Local(1.0))),
    "best_arm, joint": SourceRow(maker("best_arm", Joint(1.0, 1e-6), first=100)),
    "published_partition": SourceRow(maker("published_partition", Local(4.0), batch_size=50)),
    "private_linear": SourceRow(maker("private_linear", Local(1.0), batch=100)),
    "private_linear, non-private": SourceRow(maker("private_linear", NonPrivate(), batch=100)),
    "private_linear, privunit": SourceRow(
        maker("private_linear", Local(4.0), batch=100, mechanism="privunit")
    ),
    "private_neural": SourceRow(maker("private_neural", Local(1.0), batch=100, hidden=4)),
}


# Takes seconds, and is held to the same in the contract of all learners; its other half, what is
# open, is that of the other rows without privacy.
SLOW = ("kernel, non-private",)
PARAMETERS = [
    pytest.param(row, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
    for name, row in ROWS.items()
]


def test_every_learner_that_hears_from_sources_has_a_row() -> None:
    hearing = {name for name, kind in LEARNERS.items() if kind.takes_sources}
    assert {label.split(",")[0] for label in ROWS} == hearing


@pytest.mark.parametrize("row", PARAMETERS)
class TestSourceContract:
    def test_names_and_epsilons_are_checked(self, row: SourceRow) -> None:
        learner = row.fresh(bank=1.0)
        before = state(learner)
        for name in ("bank", "", "  ", TARGET_NAME, 3, None, "x" * 201):
            with pytest.raises(InvalidInput, match="source"):
                learner.open_source(name, 1.0)
        for epsilon in (0.0, -1.0, np.nan, np.inf, True, "1", None):
            with pytest.raises(InvalidInput, match="epsilon"):
                learner.open_source("other", epsilon)
        for call in (learner.policy, learner.batch_of):
            with pytest.raises(InvalidInput, match="not open"):
                call("shop")
        assert learner.sources == ("bank",)
        assert state(learner) == before

    def test_a_policy_lasts_until_a_batch_has_come(self, row: SourceRow) -> None:
        learner = row.fresh(bank=2.0)
        for version in range(3):
            policy = learner.policy("bank")
            assert policy.version == version
            batch = learner.batch_of("bank")
            learner.update(told(policy, batch - 1, version))
            assert learner.policy("bank") is policy
            learner.update(told(policy, 1, 50 + version))
        assert learner.policy("bank").version == 3

    def test_policies_are_messages_that_cannot_be_changed(self, row: SourceRow) -> None:
        learner = row.fresh(bank=2.0, shop=3.0)
        first = learner.policy("bank")
        assert (first.stream, first.epsilon, first.arms) == ("bank", 2.0, ARMS)
        assert (first.domain, first.reward_bounds) == (DOMAIN, BOUNDS)
        teach(learner, "bank")
        policy, other = learner.policy("bank"), learner.policy("shop")
        assert (policy.stream_id, policy.group) == (first.stream_id, first.group)
        assert other.stream_id != policy.stream_id
        assert other.group != policy.group
        assert row.make(12).identity not in policy.stream_id
        with pytest.raises(AttributeError):
            policy.version = 9
        for array in arrays(policy):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0

        copy = decode(encode(policy), Policy)
        described(Policy).validate(json.loads(encode(policy)))
        assert type(copy) is type(policy)
        assert encode(copy) == encode(policy)
        assert encode(told(copy, 60, 9)) == encode(told(policy, 60, 9))

    def test_reports_add_in_any_order_and_as_messages(self, row: SourceRow) -> None:
        one, two = row.fresh(bank=2.0, shop=6.0), row.fresh(bank=2.0, shop=6.0)
        batches = [
            told(one.policy(name), count, seed)
            for seed, (name, count) in enumerate([("bank", 5), ("shop", 60), ("bank", 17)])
        ]
        for name in ("bank", "shop"):
            two.policy(name)
        one.update(batches)
        for batch in reversed(batches):
            received = decode(encode(batch), Reports)
            assert type(received) is type(batch)
            assert encode(received) == encode(batch)
            two.update(received)
        assert (one.streams["bank"].people, one.streams["shop"].people) == (22, 60)
        assert (two.streams["bank"].people, two.streams["shop"].people) == (22, 60)
        assert np.allclose(known(one), known(two), rtol=1e-9, atol=1e-9)

    def test_late_reports_are_used_and_are_not_of_the_target(self, row: SourceRow) -> None:
        plain, learner = row.make(11), row.fresh(bank=2.0, shop=1.0)
        target, first = learner.policy(), learner.policy("bank")
        alone = plain.policy()
        if hasattr(alone, "ranks"):  # an open source ends their estimate
            alone = replace(alone, ranks=alone.ranks.settled())
        assert encode(target) == encode(alone), "a source without reports"
        assert learner.streams["bank"].people == learner.streams["shop"].people == 0
        teach(learner, "bank")
        before, people = known(learner), learner.streams["bank"].people
        learner.update(told(first, 30, 99))
        assert learner.streams["bank"].people == people + 30
        assert known(learner) != before
        assert learner.people == 0
        assert learner.policy() is target, "a policy of the target lasts as well"

    def test_an_arm_that_never_occurs(self, row: SourceRow) -> None:
        learner = row.fresh(bank=4.0)
        for seed in range(3):
            policy = learner.policy("bank")
            learner.update(told(policy, min(learner.batch_of("bank"), 400), seed, arm=1))
        chances = learner.policy().probabilities(SCENE.contexts(50, 1))
        assert np.allclose(chances.sum(axis=1), 1.0)
        assert (chances >= 0.0).all()

    def test_guarantees_are_listed_apart(self, row: SourceRow) -> None:
        plain, learner = row.make(11), row.fresh(bank=2.0, shop=6.0)
        assert learner.sources == ("bank", "shop")
        unused = [learner.streams[name].guarantee() for name in learner.sources]
        assert all(one.releases == 0 and one.epsilon == 0.0 for one in unused)
        teach(learner, "bank")
        teach(learner, "shop", 2)
        for name, asked in (("bank", 2.0), ("shop", 6.0)):
            found = learner.streams[name].guarantee()
            assert found.trust_model == "local"
            assert asked * (1.0 - 1e-6) <= found.epsilon <= asked * (1.0 + 1e-12)
            assert found.delta == 0.0
            assert found.adjacency.record in found.sentence
            assert "simulated" in found.sentence
            releases = [learner.policy(name).release("none")]
            assert all(release.event.epsilon <= found.epsilon for release in releases)
        plain.policy()
        learner.policy()
        assert learner.guarantee() == plain.guarantee()

    def test_saved_learners_go_on_where_they_stopped(self, row: SourceRow, tmp_path: Path) -> None:
        learner = row.fresh(bank=2.0, shop=6.0, silent=1.0)
        teach(learner, "bank")
        learner.policy()
        learner.update(told(learner.policy("shop"), 7, 3))
        path = tmp_path / "learner.json"
        save(learner, path)
        # Noise goes on where the old source of noise stopped.
        again = load(path, copy.deepcopy(learner.noise))
        assert state(again) == state(learner)
        assert again.sources == learner.sources
        for name in learner.streams:
            assert again.streams[name].guarantee() == learner.streams[name].guarantee()
        assert [again.streams[name].people for name in again.sources] == [
            learner.streams[name].people for name in learner.sources
        ]
        for one in (learner, again):
            teach(one, "shop", 2)
            teach(one, "silent", 1)
            serve(one, 5)
        assert encode(again.policy()) == encode(learner.policy())
        assert state(again) == state(learner)
        with pytest.raises(InvalidInput, match="open already"):
            again.open_source("bank", 2.0)

    def test_bad_input_of_people_is_refused(self, row: SourceRow) -> None:
        learner = row.fresh(bank=2.0)
        policy = learner.policy("bank")
        good = dict(zip(("contexts", "actions", "rewards"), people_of(1, 0), strict=True))
        outside = SCENE.bad_values & set(SCENE.bad_contexts)
        shapes = [value for name, value in SCENE.bad_contexts.items() if name not in outside]
        bad = [
            *(("contexts", value) for value in shapes),
            *(("actions", value) for value in ([0.0], [0, 1], [[0]], ["a"])),
            *(("rewards", value) for value in ([0.0, 0.0], [[0.0]], ["a"])),
        ]
        for name, value in bad:
            with pytest.raises(InvalidInput, match=name):
                policy.report(**{**good, name: value}, noise=SimulatedNoise(0))
        # What a value is never decides whether a report leaves.
        for name, value in [
            *(("contexts", SCENE.bad_contexts[name]) for name in outside),
            *(("actions", value) for value in ([-1], [ARMS], [2**63], [2**70], [None])),
            *(("rewards", value) for value in ([9.0], [np.nan], [-np.inf])),
        ]:
            reports = policy.report(**{**good, name: value}, noise=SimulatedNoise(0))
            learner.update(reports)

    def test_noise_and_terms_are_checked(self, row: SourceRow) -> None:
        policy = row.fresh(bank=2.0).policy("bank")
        people = people_of(3, 0)
        for noise in (Unprotected(), np.random.default_rng(0)):
            with pytest.raises(InvalidInput, match="SecureNoise"):
                policy.report(*people, noise)
        policy.report(*people, SimulatedNoise(0), GENEROUS)
        for terms in (
            replace(GENEROUS, most_epsilon=1.9),
            replace(GENEROUS, arms=ARMS + 1),
            replace(GENEROUS, domain=Box((0.0, 0.0), (1.0, 1.0))),
            replace(GENEROUS, reward_bounds=RewardBounds()),
        ):
            with pytest.raises(InvalidInput, match="agreed"):
                policy.report(*people, SimulatedNoise(0), terms)

        class Secure(SimulatedNoise):
            secure = True

        with pytest.raises(InvalidInput, match="terms"):
            policy.report(*people, Secure(0))

    def test_threads_that_ask_at_once_get_one_policy(self, row: SourceRow) -> None:
        learner = row.fresh(bank=2.0)
        first = learner.policy("bank")
        learner.update(told(first, learner.batch_of("bank"), 1))
        slowly(learner, "_publish_source")
        seen = at_once([lambda: learner.policy("bank")] * 4)
        assert [policy.version for policy in seen] == [1] * 4
        assert len({id(policy) for policy in seen}) == 1

    def test_threads_may_open_ask_and_report_at_once(self, row: SourceRow) -> None:
        learner, alone = row.fresh(bank=2.0, shop=3.0), row.fresh(bank=2.0, shop=3.0)
        batches = [
            told(learner.policy(name), 2, seed) for seed, name in enumerate(("bank", "shop") * 4)
        ]
        for name in ("bank", "shop"):
            alone.policy(name)
        visits = visit(Row(lambda: learner), learner.policy(), 3, 1)
        alone.policy()
        inside = slowly(learner, "_publish", "_check_sums", "_publish_source", "_statistics")
        calls: list[Callable[[], object]] = [
            *(partial(learner.update, batch) for batch in batches),
            *(partial(learner.open_source, f"place {k}", 1.0) for k in range(3)),
            *(partial(learner.policy, name) for name in ("bank", "shop")),
            partial(learner.update, visits),
            learner.policy,
            learner.guarantee,
        ]
        at_once(calls)
        assert max(inside) == 1, "what changes a learner happens one at a time"
        assert (learner.streams["bank"].people, learner.streams["shop"].people) == (8, 8)
        assert learner.people == 3
        assert len(learner.sources) == 5
        for batch in batches:
            alone.update(batch)
        alone.update(visits)
        for name in learner.sources[2:]:
            alone.open_source(name, 1.0)
        assert np.allclose(known(learner), known(alone), rtol=1e-9, atol=1e-9)

    def test_refused_reports_change_nothing(self, row: SourceRow) -> None:
        learner = row.fresh(bank=2.0)
        teach(learner, "bank")
        target = visit(Row(lambda: learner), learner.policy(), 4, 1)
        good = told(learner.policy("bank"), 10, 1)
        before = state(learner)
        strangers = row.make(12)
        strangers.open_source("bank", 2.0)
        other = row.make(13)
        other.open_source("bank", 2.5)
        foreign = told(strangers.policy("bank"), 5, 1)
        unknown = replace(good, policy_version=10**6)
        for bad, message in [
            (foreign, "for the learner"),
            (told(other.policy("bank"), 5, 1), "for the learner"),
            (unknown, "version"),
            ([good, unknown], "version"),
            ([good, foreign], "for the learner"),
            ([], "empty"),
            (["a report"], "type str"),
            (None, "reports was None"),
        ]:
            with pytest.raises(InvalidInput, match=message):
                learner.update(bad)
        for change in self.cut(good):
            with pytest.raises(InvalidInput):
                learner.update(replace(good, **change))
        for given, stream in ((good, "target"), (target, "bank")):
            with pytest.raises(InvalidInput, match="came as reports of"):
                learner.check_reports(given, stream)
        assert state(learner) == before

    @staticmethod
    def cut(good: Reports) -> list[dict[str, np.ndarray]]:
        """Arrays with nobody in them, or with too few numbers for each person."""
        held = {f.name: getattr(good, f.name) for f in fields(good)}
        every = {name: value for name, value in held.items() if isinstance(value, np.ndarray)}
        nobody = {name: value[:0] for name, value in every.items()}
        return [nobody, *({name: value[..., :-1]} for name, value in every.items())]
