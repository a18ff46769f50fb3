"""What is shown beside learners: honest surfaces hold, and each leak is found."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet.audit.checks import Check
from discreet.audit.learners import _maker, checks_of, joint_states, learner_check
from discreet.audit.replay import worst_neighbours
from discreet.audit.runs import Person
from discreet.audit.surfaces import surface_checks
from discreet.estimator import PrivateBandit
from discreet.learners.contributions import ContributionCounter
from discreet.learners.epochs.usca import Usca
from discreet.learners.partition.policy import PartitionPolicy
from discreet.privacy.accounting import GaussianEvent
from discreet.search import Search
from discreet.service.client import device, person, transport

from .broken import BrokenMaker, finding

CHECKS = {check.name: check for check in surface_checks()}
# `discreet audit all` replays every one.
_QUICK = ("contribution counter", "estimator, joint", "decisions, requests")


@pytest.mark.chance(0)  # what is measured does not depend on what OpenDP draws
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(each, id=each.name, marks=[] if each.name in _QUICK else [pytest.mark.slow])
        for each in CHECKS.values()
    ],
)
def test_honest_surfaces_hold(check: Check) -> None:
    if check.name.startswith(("device", "decisions", "estimator")):
        pytest.importorskip("httpx2")
        pytest.importorskip("opendp")
    found = finding(check)
    assert found.verdict == "holds", found.fault
    if check.name not in (
        "decisions, requests",
        "estimator, joint",
    ):  # a log has wider bounds than people
        assert found.exact == pytest.approx(found.epsilon, abs=1e-3)


@pytest.mark.parametrize("model", ["joint", "local"])
def test_a_repr_that_shows_a_value_is_found(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tell, shown = Search.tell, Search.__repr__

    def kept(search: Any, trial: Any, value: float) -> None:
        tell(search, trial, value)
        search._last = value

    monkeypatch.setattr(Search, "tell", kept)
    monkeypatch.setattr(Search, "__repr__", lambda search: f"{shown(search)} {vars(search)}")
    found = finding(CHECKS[f"search, {model}"])
    assert found.verdict == "BROKEN"
    assert "what repr of the search shows depends on the data" in found.fault


@pytest.mark.chance(0)
def test_an_attribute_that_shows_rewards_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = PrivateBandit.partial_fit

    def kept(bandit: Any, decisions: Any, rewards: Any, *more: Any) -> Any:
        bandit.mean_reward_ = float(np.mean(rewards))
        return learnt(bandit, decisions, rewards, *more)

    monkeypatch.setattr(PrivateBandit, "partial_fit", kept)
    pytest.importorskip("opendp")
    assert "mean_reward_ of the estimator" in finding(CHECKS["estimator, joint"]).fault


@pytest.mark.chance(0)
def test_requests_and_logs_that_show_a_context_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx2")
    pytest.importorskip("opendp")
    drawn = device._drawn

    def logging_drawn(policy: Any, terms: Any, others: int, row: Any, reward: float) -> Any:
        logging.getLogger("discreet.service.client").debug("a report of %s", row["context"])
        return drawn(policy, terms, others, row, reward)

    with monkeypatch.context() as patched:
        patched.setattr(device, "_drawn", logging_drawn)
        assert "what is logged depends on the data" in finding(CHECKS["device, requests"]).fault
    headers = transport._headers
    with monkeypatch.context() as patched:
        shown: Any = lambda body, etag: {**headers(body, etag), "X-Body": str(body)}  # noqa: E731
        patched.setattr(transport, "_headers", shown)
        assert "a request depends on the data" in finding(CHECKS["decisions, requests"]).fault
    draw = device.Pending.draw

    def only_good(waiting: Any, identity: str, reward: float | None = None) -> bool:
        return reward != 0.0 and draw(waiting, identity, reward)

    monkeypatch.setattr(device.Pending, "draw", only_good)
    assert finding(CHECKS["device, requests"]).verdict == "BROKEN"


def free(*given: Any) -> Any:
    """What a person has paid, without its epsilon."""
    return replace(SPENDING(*given), epsilon=0.0)


def by_context(waiting: Any, agreement: Any, policy: Any, context: Any, hold: float) -> Any:
    """Makes a generator from the context before it acts."""
    np.random.default_rng(abs(hash(str(context))))
    return ACT(waiting, agreement, policy, context, hold)


def either_kind(counter: Any, policy: Any) -> bool:
    """Whether the policy's reports carry Gaussian noise, whatever came before."""
    return isinstance(policy.release("simulated").event, GaussianEvent)


SPENDING, ACT = person.spending, device.Pending.act
ONE_MORE = property(lambda counter: max(counter.terms.max_contributions - counter.made + 1, 0))


@pytest.mark.chance(0)
@pytest.mark.parametrize(
    ("check", "owner", "name", "instead", "fault"),
    [
        ("contribution counter", ContributionCounter, "left", ONE_MORE, ""),
        (
            "contribution counter",
            ContributionCounter,
            "_kind",
            either_kind,
            "the certificate says (2.33",
        ),
        ("device, requests", person, "spending", free, ""),
        ("device, requests", device.Pending, "act", by_context, "makes a generator"),
    ],
)
def test_what_costs_more_than_was_agreed_is_found(
    check: str, owner: Any, name: str, instead: Any, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opendp")
    monkeypatch.setattr(owner, name, instead)
    found = finding(CHECKS[check])
    assert found.verdict == "BROKEN"
    assert fault in found.fault


def test_a_counter_that_skips_bad_rewards_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    report = ContributionCounter.report

    def choosy(
        counter: Any, policy: Any, contexts: Any, actions: Any, rewards: Any, noise: Any
    ) -> Any:
        if not 0.0 <= rewards[0] <= 1.0:
            return None
        return report(counter, policy, contexts, actions, rewards, noise)

    monkeypatch.setattr(ContributionCounter, "report", choosy)
    assert "whether there is a report" in finding(CHECKS["contribution counter"]).fault


def test_what_happens_rarely_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that fails for large rewards, under one public coin in 16."""
    report = PartitionPolicy._report

    def failing(policy: Any, people: Any, actions: Any, rewards: Any, noise: Any) -> Any:
        there = (actions.public_coins % 16 == 3).any()
        if there and len(rewards) < 9 and rewards.max() > 0.9:
            raise ZeroDivisionError
        return report(policy, people, actions, rewards, noise)

    monkeypatch.setattr(PartitionPolicy, "_report", failing)
    check = next(each for each in checks_of("partition") if each.name == "partition, local")
    found = finding(check)
    assert found.verdict == "BROKEN"
    assert "refused depends on the data" in found.fault


def test_predictions_that_a_restart_forgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = Usca.restore_fields

    def forgetful(learner: Any, saved: Any) -> None:
        restored(learner, saved)
        learner._drawn_by = {}

    maker = _maker("usca", "joint", 3, {"predictions": 3}, delta=0.0)
    saved = next(run for run in joint_states(maker, 3) if run.variant == "saved")
    saved = replace(saved, tried=tuple(Person(((0.0, 1.0),), reward) for reward in (1.0, 0.0)))
    assert not worst_neighbours(saved).broken
    monkeypatch.setattr(Usca, "restore_fields", forgetful)
    assert "more predictions are made than were promised" in worst_neighbours(saved).fault


class Talking(Usca):
    """Logs what people report."""

    def update(self, reports: Any, people: Any = None) -> None:
        super().update(reports, people)
        logging.getLogger("discreet.talking").debug("%s", [vars(each) for each in reports])


def test_a_log_of_what_people_reported_is_found() -> None:
    maker = BrokenMaker(**vars(_maker("usca", "joint", 3)), kind=Talking)
    assert "what is logged depends on the data" in finding(learner_check("usca", maker)).fault
