"""What every storage owes to reports: each is kept, once, whoever sends it how often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from discreet.codec import decode, encode
from discreet.learners.policy import Policy
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.database import Database
from discreet.service.server.errors import NotFound
from discreet.service.server.ingest import MOST_REPORTS, Ingest, ReadReports, Receipt
from discreet.service.server.schema import batches, ledger, policies, public_coins
from discreet.service.server.store import Store
from discreet.validation import InvalidInput
from tests.service.server.scene import (
    at_once,
    count,
    deployment,
    in_database,
    kernel,
    private_glm,
    reported,
)


@pytest.fixture
def store(database: Database) -> Store:
    made = Store(database)
    assert made.register(deployment(), kernel())
    return made


def stored(database: Database) -> int:
    """How many reports wait, by what their batches hold."""
    with database.reading() as connection:
        rows = connection.execute(batches.select()).all()
    assert sum(row.stored for row in rows) == count(database, public_coins)
    return sum(row.stored for row in rows)


def test_a_study_is_registered_once_and_never_changes(store: Store, database: Database) -> None:
    before = in_database(database)
    assert not store.register(deployment(), kernel())
    with pytest.raises(InvalidInput, match="another study is served as 's'"):
        store.register(deployment(title="another"), kernel())
    assert in_database(database) == before
    assert store.names() == ["s"]
    with pytest.raises(NotFound, match="no study 't'"):
        store.study("t")
    learnt = kernel()
    learnt.policy()
    learnt.update(reported(store, learnt, 5, 0).reports)
    with pytest.raises(InvalidInput, match="5 reports"):
        store.register(deployment("t"), learnt)


def test_servers_that_start_at_once_agree(connect: Callable[..., Database]) -> None:
    identities: list[str] = []
    new: list[bool] = []

    def start(database: Database) -> None:
        identities.append(database.begin())
        learner = replace_identity(kernel(), str(id(database)))
        new.append(Store(database).register(deployment(), learner))

    at_once([partial(start, connect()) for _ in range(4)])
    assert len(set(identities)) == 1
    assert sorted(new) == [False] * 3 + [True]
    assert count(connect(), policies) == count(connect(), ledger) == 1


def test_policies_by_version(store: Store, database: Database) -> None:
    current = store.policy("s")
    assert current == store.policy("s", version=0)
    policy = decode(current.text, Policy)
    assert (
        (policy.version, policy.digest) == (current.version, current.digest) == (0, policy.digest)
    )
    with pytest.raises(NotFound, match="no policy 1"):
        store.policy("s", version=1)
    with pytest.raises(NotFound, match="no source 'clinic'"):
        store.policy("s", "clinic")


@pytest.mark.parametrize("make", [kernel, private_glm])
def test_reports_count_once(database: Database, make: Callable[[], Any]) -> None:
    store = Store(database)
    store.register(deployment(), make())
    ingest, came = Ingest(store), reported(store, make(), 9, 1)
    for again in (False, True):
        receipt = came.of([0, 1, 2]).send(ingest)
        assert (receipt, receipt.again) == (Receipt(3, 0), again), "the answer that it had"
    assert came.of([2, 1, 0]).send(ingest) == Receipt(0, 3), "another request"
    assert came.of([1, 3, 4]).send(ingest) == Receipt(2, 1), "in part"
    assert came.of([1, 3, 4]).send(ingest) == Receipt(2, 1)
    assert stored(database) == 5
    assert came.send(ingest) == Receipt(4, 5)
    assert stored(database) == 9


def test_a_request_with_a_report_twice(store: Store, database: Database) -> None:
    ingest, came = Ingest(store), reported(store, kernel(), 4, 1)
    texts = [encode(came.of(rows).reports) for rows in ([0, 1], [1, 2], [1], [3])]
    assert ingest.add("s", texts, None) == Receipt(4, 2)
    assert stored(database) == 4
    twice = encode(came.of([0, 0]).reports)
    with pytest.raises(InvalidInput, match="a public coin twice"):
        ingest.add("s", [twice], None)
    Aggregator(store).step()
    assert Aggregator(store).waiting("s") == 4


def test_concurrent_writers_count_reports_once(
    store: Store, connect: Callable[..., Database]
) -> None:
    """Each of six sends every report, in batches of its own, some of them those of others."""
    learner = kernel()
    came = reported(store, learner, 60, 2)
    receipts: list[Receipt] = []

    def send(writer: int) -> None:
        ingest = Ingest(Store(connect()))
        order = np.random.default_rng(writer // 2).permutation(60)
        for rows in np.split(order, 12):
            receipts.append(came.of(rows.tolist()).send(ingest))

    at_once([lambda writer=writer: send(writer) for writer in range(6)])
    database = connect()
    assert stored(database) == count(database, public_coins) == 60
    assert sum(receipt.stored for receipt in receipts) >= 60
    gathered = Aggregator(Store(database))._gathered("s", "target", learner, 100)
    numbers = np.concatenate([each.public_coins for each in gathered.reports])  # type: ignore[attr-defined]
    assert sorted(numbers.tolist()) == sorted(came.numbers)


def test_concurrent_repeats_get_one_answer(store: Store, connect: Callable[..., Database]) -> None:
    came, receipts = reported(store, kernel(), 50, 3), []
    senders = [Ingest(Store(connect())) for _ in range(4)]
    at_once([lambda each=each: receipts.append(came.send(each)) for each in senders])
    assert receipts == [Receipt(50, 0)] * 4
    assert count(connect(), batches) == 1


def test_refused_reports_change_nothing(store: Store, database: Database) -> None:
    ingest, came = Ingest(store), reported(store, kernel(), 3, 1)
    reports, before = came.reports, in_database(database)
    good = encode(reports)
    for texts, ids, said in (
        ([], None, "empty"),
        (["{}"], None, "message"),
        (["no JSON"], None, "JSON"),
        ([good], [1, 2, 3], "3 more ids"),
        ([good, encode(replace(reports, policy_version=1))], None, "version 1"),
        ([encode(replace(reports, source="another"))], None, "another"),
        ([encode(replace(reports, noise=SimulatedNoise.name))], None, "noise"),
        ([good.replace(SecureNoise.name, "none")], None, "noise"),
        ([good] * (MOST_REPORTS // 3 + 1), None, f"at most {MOST_REPORTS}"),
    ):
        with pytest.raises(InvalidInput, match=said):
            ingest.add("s", texts, ids)
        assert in_database(database) == before
    with pytest.raises(NotFound):
        ingest.add("t", [good], None)
    with pytest.raises(NotFound, match="clinic"):
        ingest.add("s", [good], None, "clinic")


def test_reports_without_public_coins_need_numbers(database: Database) -> None:
    """Those of a learner whose reports have none are known by numbers that come with them."""
    from discreet.service.server.ingest import _public_coins

    store = Store(database)
    store.register(deployment(), private_glm())
    reports = reported(store, private_glm(), 3, 1).reports
    bare: Any = [_Bare(reports), _Bare(reports)]
    bare = [ReadReports(bare[0], [0, 2], [2, 1]), ReadReports(bare[1], [1], [3])]
    assert _public_coins(bare, [5, 6, 7, 8, 9, 10], True) == [[5, 6], [7, 8, 9], [10]]
    for ids in (None, [1, 2, 3], [1, 2, 3, 4, 3, 6], [-1, 0, 1, 2, 3, 4], [2**63, 0, 1, 2, 3, 4]):
        with pytest.raises(InvalidInput):
            _public_coins(bare, ids, True)


def test_a_study_does_not_finish_while_reports_are_stored(
    store: Store, connect: Callable[..., Database]
) -> None:
    """Whoever was told "stored" before the end is in the study, whoever came after is not."""
    writing, finishing = connect(), Store(connect())
    with writing.writing() as connection:
        store.check_running(connection, "s")
        thread = threading.Thread(target=finishing.set_state, args=("s", "finished"))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join(10)
    assert store.row("s").state == "finished"


def with_source(database: Database, learner: Any) -> tuple[Store, Any]:
    """A study with a source, and the source's policy."""
    learner.open_source("clinic", 2.0)
    store = Store(database)
    store.register(deployment(sources=(("clinic", 2.0),)), learner)
    return store, decode(store.policy("s", "clinic").text, Policy)


def test_sources(database: Database) -> None:
    learner = kernel()
    store, offer = with_source(database, learner)
    context = np.array([[30.0, 1.0], [40.0, 0.0], [50.0, 1.0]])
    terms = replace(learner.terms(), most_epsilon=2.0)
    reports = offer.report(context, np.array([0, 1, 2]), np.ones(3), SecureNoise(), terms)
    ingest, ids = Ingest(store), [1, 2, 3]
    assert ingest.add("s", [encode(reports)], ids, "clinic") == Receipt(3, 0)
    assert ingest.add("s", [encode(reports)], ids, "clinic") == Receipt(3, 0)
    with pytest.raises(InvalidInput):
        ingest.add("s", [encode(reports)], ids)
    # Public coins of a source are questions: people who have the same one are people all the same.
    texts = [encode(reports.of(np.array([0])))] * 2
    assert ingest.add("s", texts, [4, 5], "clinic") == Receipt(2, 0)
    with pytest.raises(InvalidInput, match="no public coins of their own here; send ids"):
        ingest.add("s", texts, None, "clinic")
    aggregator = Aggregator(store)
    assert aggregator.waiting("s", "clinic") == 5
    assert aggregator.waiting("s") == 0


@pytest.mark.chance(0)
def test_arrays_of_other_shapes_are_refused(database: Database) -> None:
    """Fault once found: they were stored, and each release that met them paused the study."""
    learner = kernel()
    store, offer = with_source(database, learner)
    terms = replace(learner.terms(), most_epsilon=2.0)
    reports = offer.report(np.array([[30.0, 1.0]]), [0], [1.0], SecureNoise(), terms)
    signs = np.ones((1, 2), dtype=np.int8)
    wide = replace(reports, places=np.array([[0, 1]]), signs=signs)
    ingest = Ingest(store)
    with pytest.raises(InvalidInput, match="shape"):
        ingest.add("s", [encode(wide)], [1], "clinic")
    with pytest.raises(InvalidInput, match="different shapes"):
        ingest.add("s", [encode(reports), encode(wide)], [1, 2], "clinic")
    assert Aggregator(store).waiting("s", "clinic") == 0


def test_an_unreachable_database_is_unavailable() -> None:
    for url in ("mysql://x", "sqlite://", "sqlite:///:memory:", "nonsense"):
        with pytest.raises(InvalidInput, match="database was"):
            Database(url)


class _Bare:
    """Reports without public_coins."""

    kind = "bare"

    def __init__(self, reports: Any) -> None:
        self.reports = reports

    def __len__(self) -> int:
        return len(self.reports)


def replace_identity(learner: Any, identity: str) -> Any:
    learner.identity = identity
    return learner
