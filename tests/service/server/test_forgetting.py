"""Expiry, retention and deletion: what is due goes in portions, and no protection with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, text

from discreet.learners.policy import TARGET_NAME
from discreet.privacy import SimulatedNoise
from discreet.service.server import forgetting as module
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.dashboard.views import Watch
from discreet.service.server.database import Database, SteadyClock
from discreet.service.server.decisions import DecisionStore
from discreet.service.server.errors import Gone, NotFound
from discreet.service.server.forgetting import VERSION_DAYS, Forgetting
from discreet.service.server.ingest import Ingest
from discreet.service.server.ledger import noted
from discreet.service.server.routes import counts
from discreet.service.server.schema import (
    IN_NONE,
    RECORD_DAYS,
    RECORD_SECONDS,
    batches,
    decisions,
    policies,
    public_coins,
    server,
)
from discreet.service.server.service import Service
from discreet.service.server.store import Store
from tests.service.server.scene import (
    count,
    deployment,
    gp_ucb,
    kernel,
    reported,
    rewarded,
    simulated,
)

_DAY = 86_400.0
PLACES = [[0.1], [0.5]]


class Clocks:
    """A machine's clock, which jumps, and a steady one."""

    def __init__(self) -> None:
        self.wall, self.steady = 1.8e9, 5.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.steady)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def shown(store: Store, name: str = "s") -> object:
    """What pages and exports say of how many there were."""
    watch = Watch(store)
    watch.step()
    seen = watch.seen(name)
    assert seen is not None
    service = Service(store.database, "", store, *[None] * 4)  # type: ignore[arg-type]
    return counts(service, name), seen.arrived, seen.waiting


def everything(forgetting: Forgetting, now: float) -> int:
    """Forget all that is due; in how many portions."""
    portions = 1
    while forgetting.portion(now):
        portions += 1
    return portions


# Retention.


def test_old_decisions_are_deleted_in_portions_and_stay_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(monkeypatch)
    monkeypatch.setattr(module, "_ROWS", 10)
    store = Store(database)
    store.register(deployment(), gp_ucb(SimulatedNoise(1)))
    ids = rewarded(store, gp_ucb(SimulatedNoise(1)), 25, 1)
    late = DecisionStore(store).decide("s", PLACES)
    assert Aggregator(store).step() == 1
    waits = rewarded(store, gp_ucb(SimulatedNoise(1)), 2, 2)
    before, forgetting, now = shown(store), Forgetting(store), time.time()
    forgetting.portion(now + (RECORD_DAYS - 0.1) * _DAY)
    assert count(database, decisions) == 28
    assert before == shown(store)
    # 25 rows of those that were released; the one without a reward expired just before.
    assert everything(forgetting, now + (RECORD_DAYS + 0.1) * _DAY) == 3
    with database.reading() as connection:
        kept = set(connection.scalars(select(decisions.c.id)))
    assert kept == {late.id, *waits}
    everything(forgetting, now + (2 * RECORD_DAYS + 1.0) * _DAY)
    with database.reading() as connection:
        assert set(connection.scalars(select(decisions.c.id))) == set(waits)
    made: Any = shown(store)
    assert made[0]["decisions"] == {"rewarded": 27, "expired": 1}
    with pytest.raises(NotFound, match="ended more than 30 days ago"):
        DecisionStore(store).reward("s", ids[0], 1.0)


def test_a_deleted_batch_is_still_known_by_its_public_coins(database: Database) -> None:
    store = Store(database)
    learner = kernel()
    store.register(deployment(), learner)
    sent = reported(store, learner, 20, 1)
    sent.send(Ingest(store))
    assert Aggregator(store).step() == 1
    before = shown(store)
    everything(Forgetting(store), time.time() + (RECORD_DAYS + 1.0) * _DAY)
    assert count(database, batches) == 0
    assert shown(store) == before
    receipt = sent.send(Ingest(store))
    assert (receipt.stored, receipt.repeated) == (0, 20)
    assert Aggregator(store).waiting("s") == 0


def test_no_report_of_a_closed_version_is_taken_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its public coin is deleted, so nothing else would tell that it had come."""
    monkeypatch.setattr(module, "_PUBLIC_COINS", 7)
    store = Store(database)
    learner = kernel()
    store.register(deployment(), learner)
    first, offline = (reported(store, learner, 20, seed) for seed in (1, 2))
    first.send(Ingest(store))
    assert Aggregator(store).step() == 1
    second = reported(store, learner, 5, 3)
    second.send(Ingest(store))
    before, now = shown(store), time.time()
    everything(Forgetting(store), now + (VERSION_DAYS - 1.0) * _DAY)
    assert count(database, public_coins) == 25
    everything(Forgetting(store), now + (VERSION_DAYS + 1.0) * _DAY)
    assert count(database, public_coins, public_coins.c.version == 0) == 0
    assert count(database, public_coins) == 5
    assert shown(store) == before
    for came in (first, offline):
        with pytest.raises(Gone, match=r"version 0 .*more than 90 days ago"):
            came.send(Ingest(store))
    assert second.send(Ingest(store)).again
    assert reported(store, learner, 3, 4).send(Ingest(store)).stored == 3
    # A clock that is set back opens nothing.
    everything(Forgetting(store), now)
    with pytest.raises(Gone):
        first.of([0]).send(Ingest(store))


def test_a_finished_study_needs_no_public_coins(database: Database) -> None:
    store = Store(database)
    learner = kernel()
    store.register(deployment(), learner)
    sent = reported(store, learner, 3, 1)
    sent.send(Ingest(store))
    store.set_state("s", "finished")
    everything(Forgetting(store), time.time())
    assert count(database, public_coins) == 0
    with database.reading() as connection:
        (row,) = connection.execute(select(batches)).all()
    assert (row.stored, row.body, row.key, row.released) == (3, None, None, IN_NONE)
    everything(Forgetting(store), time.time() + 2.0 * RECORD_SECONDS)
    assert count(database, batches) == 0
    with pytest.raises(Gone):
        sent.of([0, 1]).send(Ingest(store))


def test_old_rows_are_in_no_index_that_a_pass_or_a_release_reads(tmp_path: object) -> None:
    """With a million of them a pass over all took seconds, in which no decision was written."""
    from discreet.service.server.database import upgrade

    database = Database(f"sqlite:///{tmp_path}/old.db")
    upgrade(database)
    wanted = {
        "ix_decisions_held": select(decisions.c.id)
        .where(*module._TO_ERASE, decisions.c.expires < 1.0)
        .order_by(decisions.c.expires),
        "ix_decisions_empty": select(decisions.c.id)
        .where(decisions.c.payload.is_(None), decisions.c.expires < 1.0)
        .order_by(decisions.c.expires),
        "ix_batches_empty": select(batches.c.id)
        .where(batches.c.released >= 0, batches.c.received < 1.0)
        .order_by(batches.c.received),
        "ix_decisions_waiting": select(decisions.c.id)
        .where(decisions.c.study == "s", decisions.c.state == "rewarded")
        .where(decisions.c.payload.is_not(None), decisions.c.released.is_(None)),
        "ix_batches_waiting": select(batches.c.id)
        .where(batches.c.study == "s", batches.c.stream == TARGET_NAME)
        .where(batches.c.released.is_(None)),
    }
    for index, query in wanted.items():
        words = str(query.compile(database.engine, compile_kwargs={"literal_binds": True}))
        with database.reading() as connection:
            plan = [row[3] for row in connection.execute(text(f"EXPLAIN QUERY PLAN {words}"))]
        assert [f"USING INDEX {index}" in each or f"INDEX {index} " in each for each in plan] == [
            True
        ], plan
    database.close()


def test_a_pass_is_made_once_a_minute(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(database)
    monkeypatch.setattr(module, "_SHARE", float("inf"))  # however long a portion takes
    passes: list[bool] = []

    def portion(self: Forgetting, only: Any) -> list[Any]:
        passes.append(bool(only))
        return [self.erase] if len(passes) == 1 else []

    monkeypatch.setattr(Forgetting, "portion", portion)
    aggregator = Aggregator(store)
    for _ in range(5):
        aggregator.step()
    assert passes == [False, True], "the first said that there was more, of one kind"


def test_slow_portions_get_smaller_and_rarer(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady, sizes, every = [100.0], [], []
    forgetting = Forgetting(Store(database))

    def portion(only: Any) -> list[Any]:
        sizes.append(forgetting._rows)
        every.append(not only)
        steady[0] += 2e-3 * forgetting._rows  # 2 ms a row
        return [forgetting.erase]

    monkeypatch.setattr(forgetting, "portion", portion)
    monkeypatch.setattr(module.time, "monotonic", lambda: steady[0])
    began = steady[0]
    for _ in range(20_000):
        forgetting.step()
        steady[0] += 0.01
    assert sizes[0] == 250
    assert set(sizes[1:]) == {100}  # which takes 200 ms: the fewest, above the 10 ms aimed at
    held = 2e-3 * sum(sizes)
    assert held <= 0.11 * (steady[0] - began) + 0.5
    # Much of one kind does not keep the others from being forgotten, once a minute.
    assert abs(sum(every) - (steady[0] - began) / 60.0) <= 1.0
    assert sum(every) >= 3


# Clocks.


@pytest.mark.parametrize(
    ("databases", "days"), [("sqlite", 40.0), ("postgresql", -400.0)], indirect=["databases"]
)
def test_a_clock_that_jumps_erases_nothing_early(
    days: float, connect: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while the server runs, not after it starts again; what really expires is erased."""
    simulated(monkeypatch)
    clocks = Clocks()
    database = connect(clock=clocks.clock())
    database.begin()
    store = Store(database)
    store.register(deployment(), gp_ucb(SimulatedNoise(1)))
    made = [DecisionStore(store).decide("s", PLACES) for _ in range(50)]
    forgetting = Forgetting(store)
    forgetting.step()
    clocks.passes(_DAY)
    clocks.wall += days * _DAY
    made.append(DecisionStore(store).decide("s", PLACES))
    forgetting._due = forgetting._clock_due = 0.0
    forgetting.step()
    assert count(database, decisions, decisions.c.state == "waiting") == 51
    assert database.clock.ahead == pytest.approx(days * _DAY)
    assert [f"{days * _DAY:+.0f} seconds" in each["what"] for each in noted(database)][-1]
    # As after a restart of the machine.
    clocks.steady = 0.0
    again = connect(clock=clocks.clock())
    again.begin()
    assert again.clock.ahead == pytest.approx(days * _DAY)
    Forgetting(Store(again)).step()
    assert count(again, decisions, decisions.c.state == "waiting") == 51
    assert DecisionStore(Store(again)).reward("s", made[0].id, 1.0)
    clocks.passes(29.5 * _DAY)
    Forgetting(Store(again)).step()
    assert count(again, decisions, decisions.c.state == "waiting") == 1
    # Believed once it is confirmed.
    confirmed = connect(clock=clocks.clock())
    confirmed.begin(confirmed=True)
    assert confirmed.clock.ahead == 0.0
    with confirmed.reading() as connection:
        assert connection.scalar(select(server.c.clock)) == clocks.wall


def test_usual_stops_and_corrections_of_a_clock_are_believed(
    connect: Callable[..., Database],
) -> None:
    clocks = Clocks()
    database = connect(clock=clocks.clock())
    database.begin()
    Forgetting(Store(database)).step()
    for correction in (200.0, -200.0):
        clocks.wall += correction
        assert database.clock.now() == clocks.wall
        assert database.clock.ahead == 0.0
    clocks.wall += 20 * 3600.0
    again = connect(clock=clocks.clock())
    again.begin()
    assert (again.clock.ahead, again.clock.now()) == (0.0, clocks.wall)


def test_a_jump_that_is_taken_back_is_over(database: Database) -> None:
    clocks = Clocks()
    store = Store(database)
    store.clock = database.clock = clocks.clock()
    forgetting = Forgetting(store)
    clocks.wall += 5 * _DAY
    assert database.clock.now() == clocks.wall - 5 * _DAY
    forgetting.step()
    clocks.wall -= 5 * _DAY
    forgetting._clock_due = 0.0
    forgetting.step()
    assert database.clock.ahead == 0.0
    assert len(noted(database)) == 1


def test_a_policy_is_published_at_the_time_that_is_believed(database: Database) -> None:
    """Its version would be closed early otherwise."""
    clocks = Clocks()
    store = Store(database)
    store.clock = database.clock = clocks.clock()
    clocks.wall -= 900 * _DAY
    store.register(deployment(), kernel())
    with database.reading() as connection:
        assert connection.scalar(select(policies.c.published)) == pytest.approx(1.8e9)
