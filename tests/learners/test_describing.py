"""What learners, policies, reports and statistics say of themselves, and what the log says: public
facts, and no value of a person, nor a sum of them, under any trust model."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from discreet import Box, Joint, Local, NonPrivate, SimulatedNoise, Unprotected, make_learner
from discreet.learners.base import LOCAL_RECORD, Learner
from discreet.learners.messages import Totals
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.learners.stream import Stream
from discreet.people.domain import RewardBounds, unit_cube
from discreet.validation import InvalidInput

from .contract import BOUNDS, DOMAIN, Row
from .test_contract import ROWS

DRIVEN = (
    "kernel",
    "partition",
    "published_partition",
    "gp_ucb, joint sets",
    "gp_ucb, local sets",
    "gp_ucb, joint set",
    "private_glm",
    "capri, joint arms",
    "capri, local arms",
    "capri, non-private arms",
    "capri, joint posterior",
    "usca, joint",
    "exact_gp_ucb, sets",
    "abse",
    "private_linear",
    "uniform, arms",
)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
DIGITS = 5  # a number with fewer is a count or was rounded, and may be alike by chance


def numbers_in(text: str) -> set[str]:
    """The numbers of a text that have enough digits to be recognised, each in one way."""
    long = (n for n in NUMBER.findall(text) if len(n.split("e")[0].replace(".", "")) >= DIGITS)
    return {f"{float(number):.{DIGITS}g}" for number in long}


def shown(values: Any) -> set[str]:
    """Numbers as `numbers_in` would find them."""
    flat = np.abs(np.asarray(values, dtype=np.float64).ravel())
    return {f"{value:.{DIGITS}g}" for value in flat[np.isfinite(flat)]}


def values_in(value: Any) -> Iterator[np.ndarray]:
    """Every array and number of statistics."""
    if isinstance(value, np.ndarray):
        yield value
        yield value / 2.0**30  # whole multiples of that, where sums are exact
    elif isinstance(value, float):
        yield np.array([value])
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from values_in(inner)
    elif isinstance(value, dict):
        yield from values_in(list(value.values()))
    elif is_dataclass(value):
        for each in fields(value):
            yield from values_in(getattr(value, each.name))


def private_numbers(contexts: Any, rewards: np.ndarray) -> set[str]:
    """Contexts and rewards of some people in any unit, and their sums."""
    rows = contexts if isinstance(contexts, list) else [np.atleast_2d(contexts)]
    points = np.concatenate(rows) if np.ndim(rows[0]) == 2 else np.zeros((0, 2))
    given = [points, rewards, (rewards - BOUNDS.lower) / 5.0]
    if points.shape[1] == DOMAIN.dimension and len(points):
        given.append(DOMAIN.to_unit(points))
    return set().union(*(shown(each) | shown(each.sum(axis=0)) for each in given))


def driven(row: Row, said: list[str]) -> set[str]:
    """Let a learner learn, note what everything says of itself, and return what is private."""
    learner, private = row.fresh(), set()
    said.append(repr(learner))
    for seed in range(4):
        policy = learner.policy()
        people = min(learner.batch_size, 60)
        contexts = row.scene.contexts(people, seed)
        actions, _ = policy.act(contexts, np.random.default_rng(seed))
        rewards = row.scene.rewards(contexts, actions, seed)
        reports = policy.report(contexts, actions, rewards, SimulatedNoise(seed))
        if not isinstance(contexts, int):
            private |= private_numbers(contexts, rewards)
        private |= shown(rewards)
        learner.update(reports)
        with pytest.raises(InvalidInput):
            learner.update([reports, 3])  # type: ignore[list-item]
        statistics = learner.statistics(reports)
        said += map(repr, (learner, policy, actions, reports, statistics, learner._target))
        if learner.secret:
            private |= set().union(*(shown(each) for each in values_in(learner._sums)))
    learner.policy()
    said += [repr(learner), repr(learner.guarantee()), learner.guarantee()._repr_html_()]
    return private


@pytest.mark.parametrize(
    "row", [next(row for name, row in ROWS.items() if name.startswith(k)) for k in DRIVEN],
    ids=DRIVEN,
)  # fmt: skip
def test_nothing_private_is_said_or_logged(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="discreet")
    said: list[str] = []
    private = driven(row, said)
    text = "\n".join([*said, *(record.getMessage() for record in caplog.records)])
    assert len(private) > 100
    assert not numbers_in(text) & private
    assert "published" in caplog.text
    assert "refused" in caplog.text


def test_the_search_finds_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="discreet")
    contexts, rewards = ROWS["usca, joint arms"].scene.contexts(9, 1), np.linspace(0.11, 0.97, 9)
    private = private_numbers(contexts, rewards)
    for leak in (contexts[3], DOMAIN.to_unit(contexts)[2], rewards.sum(), rewards[1] / 5.0 + 0.4):
        caplog.clear()
        logging.getLogger("discreet.learners").debug("a row was %s", np.asarray(leak).tolist())
        assert numbers_in(caplog.text) & private


DOMAIN_OF_TWO = Box((18, 0), (90, 1), ("age", "smoker"), (None, 2))


def taught(learner: Learner[Any, Any, Any], people: int = 40) -> Learner[Any, Any, Any]:
    rng = np.random.default_rng(3)
    for _ in range(2):
        policy = learner.policy()
        contexts = np.column_stack([rng.uniform(18, 90, people), rng.integers(0, 2, people)])
        actions, _ = policy.act(contexts, rng)
        private = policy.reports_are_private
        noise = SimulatedNoise(1) if private else Unprotected()
        learner.update(policy.report(contexts, actions, rng.random(people), noise))
    return learner


def test_a_learner_says_what_it_is_and_how_far() -> None:
    learner = make_learner("kernel", DOMAIN_OF_TWO, 3, Local(1.0))
    first = "LocalKernel(arms=3, columns=['age', 'smoker'], budget=Local(epsilon=1.0, delta=0.0))"
    assert repr(learner).splitlines() == [first, "no policy published yet"]
    taught(learner)
    assert repr(learner).splitlines() == [
        first,
        "80 reports so far, policy 1; epsilon = 1; local differential privacy, replace-one, "
        "with simulated noise",
    ]
    free = taught(make_learner("partition", DOMAIN_OF_TWO, 3, NonPrivate()))
    assert repr(free).endswith("\n80 reports so far, policy 1; no privacy")
    joint = make_learner(
        "capri",
        DOMAIN_OF_TWO,
        3,
        Joint(1.0, 1e-6),
        noise=SimulatedNoise(0),
        horizon=100,
    )
    assert "budget=Joint(epsilon=1.0, delta=1e-06)" in repr(joint)
    assert "delta = 1e-06; joint differential privacy" in repr(taught(joint))


def test_a_learner_that_was_not_made_can_be_shown() -> None:
    """As in a traceback from its constructor."""
    learner = Learner.__new__(type(make_learner("uniform", DOMAIN_OF_TWO, 3, NonPrivate())))
    assert repr(learner) == "Uniform(..)"


def test_a_stream_that_is_printed_holds_no_sums() -> None:
    sums = Totals(values=np.array([12345.0]), reports=1)
    stream: Stream[Policy[Any], Totals] = Stream(
        TARGET_NAME,
        "some learner",
        Joint(1.0, 1e-6),
        LOCAL_RECORD,
        domain=unit_cube(1),
        arms=2,
        reward_bounds=RewardBounds(),
        _sums=sums,
    )
    assert "12345" not in repr(stream)
    assert "12345" not in f"{stream}"


def test_messages_say_public_facts_only() -> None:
    learner = make_learner("partition", DOMAIN_OF_TWO, 3, Local(4.0), identity="clinic of the year")
    policy = learner.policy()
    assert repr(policy) == (
        "PartitionPolicy(version=0, learner_id='clinic of the year', arms=3, "
        "column_names=['age', 'smoker'], epsilon=4, max_contributions=1)"
    )
    people = [[40, 1], [50, 0]]
    actions, _ = policy.act(people, np.random.default_rng(1))
    reports = policy.report(people, actions, [0.25, 1.0], SimulatedNoise(1))
    assert repr(actions) == "Actions(n=2)"
    assert repr(reports) == (
        "SignedReports(n=2, policy_version=0, source='clinic of the year', "
        "noise='SimulatedNoise (NumPy, for simulation only)')"
    )
    assert repr(learner.statistics(reports)).startswith("PartitionStatistics(reports=2, noise=(")


def test_refused_reports_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    learner = taught(make_learner("partition", DOMAIN_OF_TWO, 3, Local(4.0), identity="mine"))
    other = make_learner("partition", DOMAIN_OF_TWO, 3, Local(4.0), identity="other")
    policy = other.policy()
    people = [[40, 1], [50, 0]]
    actions, _ = policy.act(people, np.random.default_rng(1))
    reports = policy.report(people, actions, [0.25, 1.0], SimulatedNoise(1))
    before = learner.people
    for given, count in (([reports, reports], 4), (reports, 2), ("nonsense", 0)):
        caplog.clear()
        with pytest.raises(InvalidInput):
            learner.update(given)  # type: ignore[arg-type]
        [record] = [each for each in caplog.records if each.levelno == logging.WARNING]
        assert record.getMessage() == f"refused {count} reports to the target of mine"
        assert record.name == "discreet.learners.stream"
    assert learner.people == before


def test_releases_are_logged_with_their_scale(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="discreet")
    budget, noise = Joint(1.0, 1e-6), SimulatedNoise(0)
    learner = make_learner("capri", DOMAIN_OF_TWO, 3, budget, noise=noise, horizon=100)
    taught(learner).policy()
    [*_, last] = learner.releases
    assert f"Gaussian noise, scale {last.scale:g}, noise {noise.name}" in caplog.text
    lines = [each for each in caplog.records if each.getMessage().startswith("released ")]
    assert len(lines) == len(learner.releases)
    assert {each.name for each in lines} == {"discreet.privacy.prefix_sums.system"}


def test_what_is_learnt_without_privacy_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="discreet")
    taught(make_learner("partition", DOMAIN_OF_TWO, 3, NonPrivate()))
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    caplog.clear()
    taught(make_learner("partition", DOMAIN_OF_TWO, 3, Local(8.0)))
    assert "partition: number of bins now" in caplog.text
    assert "signed subset selection" in caplog.text


def test_nothing_learnt_from_a_central_draw_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Of two processes that draw for the same release a service publishes one and drops one."""
    caplog.set_level(logging.DEBUG, logger="discreet")
    budget, noise = Joint(8.0, 1e-6), SimulatedNoise(0)
    learner = make_learner("kernel", DOMAIN_OF_TWO, 3, budget, noise=noise, first=10)
    taught(learner).policy()
    assert len(learner.releases) == 2
    assert " now " not in caplog.text
