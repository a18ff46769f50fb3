"""What every storage owes to releases: each is there as a whole and once, or not at all, whoever
dies or races; and the ledger, the certificate and the learner say the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, select, update

from discreet.codec import canonical, decode, encode
from discreet.learners.policy import Policy
from discreet.privacy import Guarantee, SecureNoise, SimulatedNoise
from discreet.service.aggregation import in_order
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.database import Database, Unavailable
from discreet.service.server.decisions import DecisionStore
from discreet.service.server.deployment import packed
from discreet.service.server.encryption import Cipher
from discreet.service.server.errors import Gone
from discreet.service.server.forgetting import Forgetting
from discreet.service.server.ingest import Ingest, Receipt
from discreet.service.server.keys import Keys
from discreet.service.server.ledger import MILLION, millionths
from discreet.service.server.schema import (
    batches,
    decisions,
    leases,
    ledger,
    metadata,
    operations,
    policies,
    snapshots,
)
from discreet.service.server.store import Store
from discreet.validation import InvalidInput
from tests.service.server.scene import (
    Came,
    at_once,
    capri,
    check_told_the_same,
    contexts,
    count,
    deployment,
    gp_ucb,
    in_database,
    kernel,
    on_sqlite,
    partition,
    private_glm,
    reported,
    rewarded,
    simulated,
)

_PARTS = 5_000


def ready(store: Store, trusted: bool) -> Any:
    """A study whose first release is due."""
    learner = gp_ucb(SimulatedNoise(1)) if trusted else kernel()
    store.register(deployment(), learner)
    if trusted:
        rewarded(store, learner, 20, 1)
    else:
        reported(store, learner, 20, 1).send(Ingest(store))
    return learner


@pytest.fixture(params=["trusted", "local"])
def trusted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    simulated(monkeypatch)
    return bool(request.param == "trusted")


# What depends on both: each kind of learner on one kind of database.
in_pairs = pytest.mark.parametrize(
    ("databases", "trusted"), [("sqlite", "local"), ("postgresql", "trusted")], indirect=True
)


# The same as the library.


@on_sqlite
@pytest.mark.parametrize(
    "make", [pytest.param(kernel, marks=pytest.mark.slow), partition, private_glm]
)
def test_released_reports_give_the_librarys_policies(
    connect: Callable[..., Database], make: Callable[[], Any]
) -> None:
    """To the bit: whoever writes, in whatever batches and order, repeats and late ones included."""
    store, library = Store(connect()), make()
    store.register(deployment(), make())
    library.policy()
    aggregator, rng = Aggregator(store), np.random.default_rng(0)
    late: list[Came] = []
    for turn in range(4):
        people = max(aggregator._learner("s")[1].batch_size, 40) + 7
        came = reported(store, library, people, turn)
        order = rng.permutation(people)
        now, later = order[:-5], order[-5:]
        portions = [came.of(rows.tolist()) for rows in np.array_split(now, 12)]
        portions += late
        late = [came.of(later.tolist())]
        entered = [*portions, came.of(now[:9].tolist())]

        def write(which: int, given: list[Came] = entered) -> None:
            ingest = Ingest(Store(connect()))
            for each in given[which::3]:
                each.send(ingest)

        at_once([lambda which=which: write(which) for which in range(3)])
        assert aggregator.step() == 1
        if turn == 2:
            aggregator = Aggregator(store, aggregator.name)  # begun again
        given = [(each.reports, each.numbers) for each in portions]
        library.update([reports for reports, _ in in_order(given)])
        assert canonical(library.policy()) == store.policy("s").text
        check_told_the_same(store, "s")


@on_sqlite
def test_a_release_may_exceed_the_usual_size(
    connect: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the study would count as complete, and end."""
    monkeypatch.setattr("discreet.service.server.aggregator._MOST_REPORTS", 5)
    store, library = Store(connect()), partition()
    store.register(deployment(), partition())
    library.policy()
    aggregator = Aggregator(store)
    people = aggregator._learner("s")[1].batch_size
    assert people > 5
    reported(store, library, people, 0).send(Ingest(store))
    assert aggregator.step() == 1
    assert store.row("s").state == "running"
    assert aggregator._learner("s")[1].people == people


@pytest.mark.parametrize("make", [gp_ucb, pytest.param(capri, marks=pytest.mark.slow)])
def test_released_rewards_give_the_librarys_policies(
    connect: Callable[..., Database],
    make: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To the bit where both draw the same noise, which is simulated here."""
    noise = simulated(monkeypatch)
    database = connect()
    database.begin()
    store, library = Store(database), make(noise())
    store.register(deployment(), make(noise()))
    library.policy()
    aggregator = Aggregator(store)
    for turn in range(3):
        people = max(aggregator._learner("s")[1].batch_size, 12)
        servers = [Store(connect()) for _ in range(3)]
        at_once(
            [
                lambda place=place, each=each, turn=turn, people=people: rewarded(
                    each, library, -(-people // 3), 100 * turn + place
                )
                for place, each in enumerate(servers)
            ]
        )
        entered: list[Any] = []
        gathered = Aggregator._rewarded

        def watched(
            self: Aggregator, *given: Any, entered: Any = entered, real: Any = gathered
        ) -> Any:
            entered.append(real(self, *given))
            return entered[-1]

        with monkeypatch.context() as patch:
            patch.setattr(Aggregator, "_rewarded", watched)
            assert aggregator.step() == 1
        library.update(entered[0].reports)
        assert canonical(library.policy()) == store.policy("s").text
        check_told_the_same(store, "s")


def test_the_order_is_that_of_public_coins_in_parts_of_one_size() -> None:
    learner = kernel()
    policy = learner.policy()
    rng = np.random.default_rng(0)
    brought = np.c_[rng.uniform(18, 90, _PARTS + 10), rng.integers(0, 2, _PARTS + 10)]
    actions, _ = policy.act(brought, rng)
    reports = policy.report(brought, actions, np.ones(len(brought)), SimulatedNoise(1))
    public_coins = reports.public_coins.tolist()
    halves = [np.arange(0, len(brought), 2), np.arange(1, len(brought), 2)]
    split = [(reports.of(rows), [public_coins[row] for row in rows]) for rows in halves]
    whole, parts = in_order([(reports, public_coins)]), in_order(split[::-1])
    assert [len(each) for each, _ in whole] == [_PARTS, 10]
    assert [encode(each) for each, _ in whole] == [encode(each) for each, _ in parts]
    assert [public_coin for _, some in parts for public_coin in some] == sorted(public_coins)


# The ledger.


def test_millionths_are_rounded_up() -> None:
    assert [millionths(each) for each in (0.0, 1.0, 0.1, 0.3, 1.0000001, 1e-9)] == [
        0,
        MILLION,
        MILLION // 10,
        3 * MILLION // 10,
        MILLION + 1,
        1,
    ]


@on_sqlite
def test_a_release_beyond_the_budget_is_refused(
    database: Database, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(database)
    learner = ready(store, trusted)
    before = in_database(database)
    kind, honest = type(learner), type(learner).guarantee
    monkeypatch.setattr(kind, "guarantee", lambda self: _with_epsilon(honest(self), 1.0 + 2e-6))
    assert Aggregator(store).step() == 0
    assert store.row("s").state == "paused"
    assert in_database(database) == before


def _with_epsilon(held: Guarantee, epsilon: float) -> Any:
    return SimpleNamespace(epsilon=epsilon, delta=held.delta)


@in_pairs
def test_an_older_snapshot_is_refused(database: Database, trusted: bool) -> None:
    store = Store(database)
    learner = ready(store, trusted)

    def more(seed: int) -> None:
        if trusted:
            rewarded(store, learner, 20, seed)
        else:
            reported(store, learner, 20, seed).send(Ingest(store))

    assert Aggregator(store, "one").step() == 1
    with database.reading() as connection:
        older = connection.execute(snapshots.select()).one()
    more(2)
    assert Aggregator(store, "one").step() == 1
    with database.writing() as connection:
        connection.execute(update(snapshots).values(learner=older.learner))
    more(3)
    before = in_database(database)
    assert Aggregator(store, "one").step() == 0
    assert store.row("s").state == "paused"
    assert in_database(database) == before


# Races and deaths.


@in_pairs
def test_concurrent_aggregators_release_once(
    connect: Callable[..., Database], trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both draw for the same people; what the second drew is nowhere."""
    database = connect()
    database.begin()
    ready(Store(database), trusted)
    monkeypatch.setattr(Aggregator, "_lease", lambda self, name: True)
    drawn, both = [], threading.Barrier(2)
    prepared = Store.prepared

    def together(self: Store, *given: Any) -> Any:
        made = prepared(self, *given)
        drawn.append(made.policies[0]["digest"])
        both.wait(60)
        return made

    stores = [Store(connect()), Store(connect())]
    if trusted:
        # They draw different noise.
        seeds = iter(range(100))
        monkeypatch.setattr(
            "discreet.service.server.aggregator.noise_for",
            lambda secret: SimulatedNoise(next(seeds)),
        )
    monkeypatch.setattr(Store, "prepared", together)
    released: list[int] = []
    aggregators = [Aggregator(each) for each in stores]
    at_once([lambda each=each: released.append(each.step()) for each in aggregators])
    monkeypatch.setattr(Store, "prepared", prepared)
    assert sorted(released) == [0, 1]
    assert len(set(drawn)) == (2 if trusted else 1)
    check_told_the_same(Store(database), "s")
    shown = str(in_database(database))
    assert count(database, policies) == 2
    assert sum(each in shown for each in set(drawn)) == 1
    # Neither does it again, and both go on from the same.
    assert [each.step() for each in aggregators] == [0, 0]
    numbers = {each._learner("s")[1].policy().digest for each in aggregators}
    assert len(numbers) == 1


def test_a_superseded_aggregator_does_not_pause_the_study(
    connect: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another released after it had read the learner, and people reported under the new policy."""
    monkeypatch.setattr(Aggregator, "_lease", lambda self, name: True)
    store = Store(connect())
    learner = ready(store, False)
    slow, quick = Aggregator(Store(connect())), Aggregator(store)
    gathered = Aggregator._gathered

    def late(self: Aggregator, *given: Any) -> Any:
        if self is slow:
            assert quick.step() == 1
            reported(store, learner, 30, 2).send(Ingest(store))
        return gathered(self, *given)

    monkeypatch.setattr(Aggregator, "_gathered", late)
    assert slow.step() == 0
    assert store.row("s").state == "running"
    assert quick.step() == 1
    assert store.policy("s").version == 2
    check_told_the_same(store, "s")


class Died(BaseException):
    """Of an aggregator."""


@contextmanager
def dying(database: Database, after: int) -> Iterator[list[str]]:
    """Raise at the statement of that number, or at the end of a transaction; what was executed."""
    done: list[str] = []

    def at(statement: str) -> None:
        if len(done) == after:
            raise Died
        done.append(statement)

    def executing(_: Any, __: Any, statement: str, *___: Any) -> None:
        at(statement)

    def committing(_: Any) -> None:
        at("COMMIT")

    event.listen(database.engine, "before_cursor_execute", executing)
    event.listen(database.engine, "commit", committing)
    try:
        yield done
    finally:
        event.remove(database.engine, "before_cursor_execute", executing)
        event.remove(database.engine, "commit", committing)


@pytest.mark.parametrize(
    ("databases", "trusted"),
    [
        ("sqlite", "local"),
        ("postgresql", "trusted"),
        pytest.param("sqlite", "trusted", marks=pytest.mark.slow),
        pytest.param("postgresql", "local", marks=pytest.mark.slow),
    ],
    indirect=True,
)
def test_a_release_survives_a_crash_at_any_statement(database: Database, trusted: bool) -> None:
    store = Store(database)
    ready(store, trusted)
    before = in_database(database)
    deaths = 0
    while True:
        free(database)
        with dying(database, deaths) as done:
            try:
                Aggregator(store).step()
            except Died:
                died = True
            else:
                died = False
        now = in_database(database)
        if now != before:
            break
        assert died, "it went through, and released nothing"
        deaths += 1
    assert deaths > 15
    # The release was whole when it first was there at all.
    assert count(database, policies) == 2
    assert count(database, ledger, ledger.c.reports == 20) == 1
    table = decisions if trusted else batches
    emptied = table.c.payload if trusted else table.c.body
    assert count(database, table, table.c.released == 1) == count(database, table)
    assert count(database, table, emptied.is_not(None)) == 0
    assert done[-1] != ""
    free(database)
    assert Aggregator(store).step() == 0
    check_told_the_same(store, "s")


def test_an_accepted_report_survives_a_crash_at_any_statement(database: Database) -> None:
    """What was accepted is there; what was not may be sent again, and counts once."""
    store = Store(database)
    store.register(deployment(), kernel())
    came = reported(store, kernel(), 12, 1)
    came.of([0, 1, 2]).send(Ingest(store))
    before, deaths = in_database(database), 0
    while True:
        with dying(database, deaths):
            try:
                came.send(Ingest(store))
                break
            except Died:
                deaths += 1
        assert in_database(database) == before
    assert deaths > 3
    assert came.send(Ingest(store)).stored == 9
    assert Aggregator(store).waiting("s") == 12


def free(database: Database) -> None:
    """Let the lease of whoever died run out."""
    with database.writing() as connection:
        connection.execute(update(leases).values(expires=0.0))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock of aggregators."""
    now = [time.time()]
    shown = SimpleNamespace(
        time=lambda: now[0], monotonic=time.monotonic, clock_gettime=time.clock_gettime
    )
    for module in ("aggregator", "database", "store"):
        monkeypatch.setattr(f"discreet.service.server.{module}.time", shown)

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_leases_expire(connect: Callable[..., Database], clock: Callable[[float], None]) -> None:
    one, two = (Aggregator(Store(connect()), name) for name in ("one", "two"))
    ready(one.store, False)
    assert one._lease("s")
    assert not two._lease("s")
    clock(30.0)
    assert one._lease("s"), "longer, by who has it"
    clock(59.0)
    assert not two._lease("s")
    clock(2.0)
    assert two._lease("s")
    assert not one._lease("s")


def test_a_lease_survives_a_clock_set_back(
    connect: Callable[..., Database], clock: Callable[[float], None]
) -> None:
    """Nobody is locked out, nothing is released twice, nothing expires."""
    one, two = (Aggregator(Store(connect()), name) for name in ("one", "two"))
    learner = ready(one.store, False)
    assert one.step() == 1
    clock(-30 * 86_400.0)
    reported(one.store, learner, 20, 2).send(Ingest(one.store))
    assert two.step() == 1
    assert [two.step(), one.step()] == [0, 0]
    assert one.store.policy("s").version == 2
    check_told_the_same(one.store, "s")


def test_decisions_survive_a_clock_that_is_set_back(
    database: Database, clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(monkeypatch)
    store = Store(database)
    store.register(deployment(), gp_ucb(SimulatedNoise(1)))
    decision = DecisionStore(store).decide("s", [[0.1], [0.5]])
    clock(-10 * 86_400.0)
    Forgetting(store).portion()
    assert DecisionStore(store).reward("s", decision.id, 1.0)


# What goes wrong with a database.


@on_sqlite
def test_a_failing_study_is_paused_and_others_go_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(database)
    for name in ("a", "z"):
        store.register(deployment(name), kernel())
        reported(store, kernel(), 20, 1, name).send(Ingest(store), name)
    with database.writing() as connection:
        connection.execute(
            update(snapshots).where(snapshots.c.study == "a").values(learner=b"damaged")
        )
    assert Aggregator(store).step() == 1
    assert store.row("a").state == "paused"
    assert store.policy("z").version == 1
    said = count(database, operations)
    assert Aggregator(store).step() == 0
    assert count(database, operations) == said, "it was paused once"


@on_sqlite
@pytest.mark.parametrize("body", [b"damaged", packed('{"reports": []}'), None])
def test_an_unreadable_batch_is_set_aside(database: Database, body: bytes | None) -> None:
    """The others are released, and its people cannot report again."""
    store, learner = Store(database), kernel()
    store.register(deployment(), learner)
    ingest, aggregator = Ingest(store), Aggregator(store)
    lost = reported(store, learner, 20, 1)
    lost.send(ingest)
    with database.writing() as connection:
        connection.execute(update(batches).values(body=body))
    aggregator.step()
    assert (store.row("s").state, store.set_aside("s")) == ("running", 20)
    assert (store.policy("s").version, aggregator.waiting("s")) == (0, 0)
    assert lost.of(range(10)).send(ingest) == Receipt(0, 10)
    reported(store, learner, 20, 2).send(ingest)
    assert aggregator.step() == 1
    assert aggregator._learner("s")[1].people == 20
    check_told_the_same(store, "s")


@on_sqlite
def test_a_source_is_released_beside_an_unreadable_batch(database: Database) -> None:
    store, learner = Store(database), kernel()
    learner.open_source("clinic", 2.0)
    store.register(deployment(sources=(("clinic", 2.0),)), learner)
    ingest, aggregator = Ingest(store), Aggregator(store)
    reported(store, learner, learner.batch_size, 1).send(ingest)
    with database.writing() as connection:
        connection.execute(update(batches).values(body=b"damaged"))
    offer: Any = decode(store.policy("s", "clinic").text, Policy)
    people = learner.batch_of("clinic")
    terms = replace(learner.terms(), most_epsilon=2.0)
    reports = offer.report(
        contexts(learner, people, 2), np.zeros(people, int), np.ones(people), SecureNoise(), terms
    )
    ingest.add("s", [encode(reports)], list(range(people)), "clinic")
    aggregator.step()
    assert store.row("s").state == "running"
    assert (store.policy("s").version, store.policy("s", "clinic").version) == (0, 1)


def test_a_batch_that_another_aggregator_released_is_not_set_aside(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(database)
    ready(store, False)
    aggregator, real = Aggregator(store), Aggregator._learnt

    def overtaken(*given: Any) -> Any:
        _, gathered = learnt = real(*given)
        monkeypatch.undo()
        assert Aggregator(store, aggregator.name).step() == 1
        return learnt[0], replace(gathered, aside=set(gathered.rows))

    monkeypatch.setattr(Aggregator, "_learnt", overtaken)
    aggregator.step()
    assert (store.policy("s").version, store.set_aside("s")) == (1, 0)


@in_pairs
def test_what_is_discarded_while_a_release_is_made_is_not_in_it(
    trusted: bool, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(database)
    ready(store, trusted)
    keys, prepared = Keys(database), store.prepared
    identity = keys.make("device").split("_")[1]
    with database.writing() as connection:
        for table in (batches, decisions):
            connection.execute(update(table).values(key=identity))

    def late(*given: Any) -> Any:
        assert keys.discard(identity) == 20
        return prepared(*given)

    monkeypatch.setattr(store, "prepared", late)
    Aggregator(store).step()
    assert store.policy("s").version == 0
    assert Aggregator(store).waiting("s") == 0


@on_sqlite
def test_a_failing_study_does_not_delay_erasure_in_others(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not their releases, and not that what has expired is erased."""
    simulated(monkeypatch)
    store = Store(database)
    store.register(deployment("a"), gp_ucb(SimulatedNoise(1)))
    late = DecisionStore(store).decide("a", [[0.1], [0.5]])
    store.register(deployment("z"), kernel())
    reported(store, kernel(), 20, 1, "z").send(Ingest(store), "z")
    with database.writing() as connection:
        connection.execute(update(decisions).values(expires=1.0))
    aggregator = Aggregator(store)
    learner = aggregator._learner

    def failing(name: str) -> Any:
        if name == "a":
            raise RuntimeError("the reward of anna")
        return learner(name)

    monkeypatch.setattr(aggregator, "_learner", failing)
    assert aggregator.step() == 1
    assert (store.policy("z").version, store.row("a").state) == (1, "running")
    with pytest.raises(Gone):
        DecisionStore(store).reward("a", late.id, 1.0)
    assert count(database, decisions, decisions.c.payload.is_not(None)) == 0
    assert "RuntimeError" in caplog.text
    assert "anna" not in caplog.text


def test_the_aggregator_continues_after_any_exception(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(database)
    aggregator, stop = Aggregator(store), threading.Event()
    raised = iter([Unavailable("gone"), ValueError("the reward of anna"), None])

    def step() -> int:
        error = next(raised)
        if error is None:
            stop.set()
            return 0
        raise error

    monkeypatch.setattr(aggregator, "step", step)
    aggregator.run(stop, 0.0)
    assert "releases wait: gone" in caplog.text
    assert "releases wait after ValueError" in caplog.text
    assert "anna" not in caplog.text


def test_a_full_disk(tmp_path: Any, trusted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is half written, and all goes on once there is room."""
    database = Database(f"sqlite:///{tmp_path}/full.db", Cipher(b"k" * 32))
    metadata.create_all(database.engine)
    store = Store(database)
    learner = ready(store, trusted)

    def limit(pages: int) -> None:
        @event.listens_for(database.engine, "begin")
        def _(connection: Any) -> None:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with database.reading() as connection:
        used = connection.exec_driver_sql("PRAGMA page_count").scalar()
    limit(int(used or 0))
    accepted = 0

    def fill() -> None:
        nonlocal accepted, before
        for seed in range(2, 200):
            before = in_database(database)
            if trusted:
                rewarded(store, learner, 1, seed)
            else:
                reported(store, learner, 8, seed).send(Ingest(store))
            accepted += 1

    before = in_database(database)
    with pytest.raises(Unavailable, match="full"):
        fill()
    if not trusted:
        assert in_database(database) == before
    before = in_database(database)
    with suppress(Unavailable):
        Aggregator(store).step()
    if store.policy("s").version == 0:
        assert in_database(database) == before
    limit(1_000_000)
    free(database)
    Aggregator(store).step()
    assert store.policy("s").version == 1
    if not trusted:
        with database.reading() as connection:
            assert connection.scalar(select(ledger.c.reports).where(ledger.c.version == 1)) == (
                20 + 8 * accepted
            )
    check_told_the_same(store, "s")
    database.close()


def test_two_servers_on_one_file(tmp_path: Any) -> None:
    one, two = (Database(f"sqlite:///{tmp_path}/one.db") for _ in range(2))
    one.hold()
    one.hold()
    with pytest.raises(InvalidInput, match="served by another process already"):
        two.hold()
    (tmp_path / "link.db").symlink_to(tmp_path / "one.db")
    with pytest.raises(InvalidInput, match="served by another process already"):
        Database(f"sqlite:///{tmp_path}/link.db").hold()
    one.close()
    two.hold()
    two.close()
    with pytest.raises(InvalidInput, match="no file can be made"):
        Database(f"sqlite:///{tmp_path}/missing/one.db").hold()
