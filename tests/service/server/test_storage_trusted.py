"""What every storage owes to people who trust a service: one reward for a decision, sealed until it
is released, and erased then."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import make_url, select, text, update

from discreet import (
    GPUCB,
    Box,
    Capri,
    Column,
    DecisionSets,
    Joint,
    PublicBox,
)
from discreet.codec import decode, encode
from discreet.learners.contributions import ContributionLedger
from discreet.learners.kernel.joint import JointKernel
from discreet.learners.messages import Reports
from discreet.learners.policy import Policy
from discreet.privacy import SecureNoise, SimulatedNoise
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.database import Database
from discreet.service.server.decisions import DecisionStore
from discreet.service.server.deployment import (
    decrypted,
    encrypted,
    longest_kept,
    pseudonym,
    without_policies,
)
from discreet.service.server.encryption import Cipher
from discreet.service.server.errors import Conflict, Gone, NotFound
from discreet.service.server.forgetting import Forgetting
from discreet.service.server.ingest import Ingest
from discreet.service.server.schema import decisions, ledger, snapshots, studies
from discreet.service.server.store import Store
from discreet.validation import InvalidInput
from tests.service.server.scene import (
    DOMAIN,
    LINE,
    at_once,
    capri,
    contexts,
    count,
    deployment,
    gp_ucb,
    in_database,
    kernel,
    on_sqlite,
    rewarded,
    simulated,
)

PLACES = [[0.1], [0.5], [0.9]]


Serve = Callable[..., Store]


@pytest.fixture
def serve(database: Database, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Serves a learner, whose noise is simulated, as a study."""
    simulated(monkeypatch)

    def register(learner: Any, name: str = "s", **facts: Any) -> Store:
        store = Store(database)
        store.register(deployment(name, **facts), learner)
        return store

    return register


@pytest.fixture
def store(serve: Serve) -> Store:
    return serve(gp_ucb(SimulatedNoise(1)))


def two_arms(*columns: Column) -> Any:
    """Of two arms for people with these columns, age and smoker without any."""
    domain = Box.of(list(columns) or {"age": (18, 90), "smoker": ["no", "yes"]})
    budget = Joint(1.0, 1e-6)
    return Capri(domain, ["a", "b"], budget, noise=SimulatedNoise(1), horizon=60)


def test_a_reward_counts_once(store: Store, database: Database) -> None:
    made = DecisionStore(store)
    decision = made.decide("s", PLACES)
    assert (decision.version, decision.point) == (0, PLACES[decision.arm])
    assert made.reward("s", decision.id, 1)
    assert not made.reward("s", decision.id, 1.0)
    with pytest.raises(Conflict, match="another reward"):
        made.reward("s", decision.id, 0.0)
    with pytest.raises(NotFound):
        made.reward("s", "0" * 32, 1.0)
    assert Aggregator(store).waiting("s") == 1


def test_concurrent_rewards_count_once(store: Store, connect: Callable[..., Database]) -> None:
    decision = DecisionStore(store).decide("s", PLACES)
    answers: list[object] = []

    def send(reward: float) -> None:
        try:
            answers.append(DecisionStore(Store(connect())).reward("s", decision.id, reward))
        except Conflict:
            answers.append("conflict")

    at_once([lambda reward=reward: send(reward) for reward in (0.0, 0.0, 1.0, 1.0)])
    assert sorted(map(str, answers)) == ["False", "True", "conflict", "conflict"]


@on_sqlite
def test_a_decision_of_another_server(store: Store, connect: Callable[..., Database]) -> None:
    """Which has not heard of the policy that chose."""
    late = Store(connect())
    late.study("s").fresh_until = time.monotonic() + 1000.0
    rewarded(store, gp_ucb(SimulatedNoise(1)), 18, 1)
    assert Aggregator(store).step() == 1
    decision = DecisionStore(Store(connect())).decide("s", PLACES)
    assert decision.version == 1
    assert DecisionStore(late).reward("s", decision.id, 1.0)


@on_sqlite
def test_an_invalid_reward_changes_nothing(store: Store, database: Database) -> None:
    made = DecisionStore(store)
    decision = made.decide("s", PLACES)
    before = in_database(database)
    for wrong in (float("nan"), float("inf"), 1.5, -0.1):
        with pytest.raises(InvalidInput):
            made.reward("s", decision.id, wrong)
    assert in_database(database) == before
    assert made.reward("s", decision.id, 0.5)


@on_sqlite
def test_invalid_contexts_change_nothing(store: Store, database: Database) -> None:
    before = in_database(database)
    for context in (None, "x", [], 3, ["a"], [[0.1, 0.2]], {"x2": 0.1}):
        with pytest.raises(InvalidInput):
            DecisionStore(store).decide("s", context)
    with pytest.raises(InvalidInput, match="person was given"):
        DecisionStore(store).decide("s", PLACES, "anna")
    assert in_database(database) == before


@on_sqlite
def test_values_that_the_domain_does_not_allow_are_moved_to_the_nearest(
    store: Store, database: Database
) -> None:
    """A refusal would tell a network what is wrong with a person."""
    cases: list[tuple[Any, Any, str | None]] = [
        (PLACES, PLACES, None),
        ([[2.0]], [[1.0]], "the declared bounds are"),
        ([[float("nan")]], [[0.5]], "NaN or infinity"),
        ([{"x1": None}, {"x1": 0.25}], [[0.5], [0.25]], "no value in column 'x1'"),
        ([[0.1]] * 4, [[0.1]] * 3, "a decision set of 4 points"),
    ]
    for context, kept, warning in cases:
        decision = DecisionStore(store).decide("s", context)
        assert _sealed(database, decision.id)["context"] == kept
        assert (decision.warning is None) if warning is None else (warning in str(decision.warning))
        assert DecisionStore(store).reward("s", decision.id, 0.5)


def test_sources_of_a_study_whose_people_trust_the_service(
    database: Database, serve: Serve
) -> None:
    """Theirs are private reports, which enter by themselves; no decision is released with them."""
    learner = JointKernel(
        DOMAIN, 3, Joint(1.0, 1e-6, max_contributions=2), noise=SimulatedNoise(1), first=20
    )
    learner.open_source("clinic", 2.0)
    store = serve(learner, sources=(("clinic", 2.0),))
    made = rewarded(store, learner, 19, 1, persons=15)
    offer: Any = decode(store.policy("s", "clinic").text, Policy)
    people = learner.batch_of("clinic")
    brought, terms = contexts(learner, people, 2), learner.streams["clinic"].terms()
    reports = offer.report(brought, np.ones(people, int), np.ones(people), SecureNoise(), terms)
    ingest, aggregator = Ingest(store), Aggregator(store)
    ingest.add("s", [encode(reports)], list(range(people)), "clinic")
    with pytest.raises(InvalidInput, match="takes no reports"):
        ingest.add("s", [encode(reports)], list(range(people)))
    assert aggregator.step() == 1
    assert (store.policy("s").version, store.policy("s", "clinic").version) == (0, 1)
    assert aggregator.waiting("s") == len(made)
    rewarded(store, learner, 1, 3, persons=1)
    assert aggregator.step() == 1
    assert (store.policy("s").version, store.policy("s", "clinic").version) == (1, 1)
    _, found = Aggregator(store)._learner("s")
    assert (found.people, found.source_total) == (20, people)
    assert found.guarantee().epsilon <= 1.0


def _sealed(database: Database, identity: str) -> Any:
    with database.reading() as connection:
        payload = connection.scalar(select(decisions.c.payload).where(decisions.c.id == identity))
    assert database.cipher is not None
    return json.loads(decrypted(database.cipher, payload, True, "s", f"decision {identity}"))


@on_sqlite
def test_contexts_of_arms_are_moved_to_the_nearest(database: Database, serve: Serve) -> None:
    store = serve(two_arms())
    for context, kept in (
        ({"age": 40.25, "smoker": "no"}, [40.25, 0.0]),
        ({"age": 140, "smoker": "never"}, [90.0, 0.0]),
        ({"age": None, "smoker": "yes"}, [54.0, 1.0]),
        ([40.0, 0.7], [40.0, 1.0]),
        ([None, 1], [54.0, 1.0]),
    ):
        decision = DecisionStore(store).decide("s", context)
        assert _sealed(database, decision.id)["context"] == kept
        assert (decision.warning is None) == (kept[0] == 40.25)
        assert DecisionStore(store).reward("s", decision.id, 0.5)


@on_sqlite
def test_missing_values_of_columns_that_take_them_are_filled_in(
    database: Database, serve: Serve
) -> None:
    store = serve(two_arms(Column("age", 18, 90, missing="unknown")))
    decision = DecisionStore(store).decide("s", {"age": None})
    assert decision.warning is None
    assert _sealed(database, decision.id)["context"] == [54.0, 1.0]
    assert DecisionStore(store).reward("s", decision.id, 0.5)


@on_sqlite
def test_ids_of_people_are_at_most_as_long_as_public_lengths_allow(
    database: Database, serve: Serve
) -> None:
    """What is sealed of a decision has one size, whatever the id of the person."""
    store = serve(capri(SimulatedNoise(1), max_contributions=2))
    with pytest.raises(InvalidInput, match="at most 100"):
        DecisionStore(store).decide("s", [0.0], "\U0001f600" * 101)
    for person in ("x", "\U0001f600" * 100):
        DecisionStore(store).decide("s", [0.123456789012345], person)
    with database.reading() as connection:
        assert len({len(each) for each in connection.scalars(select(decisions.c.payload))}) == 1


def test_decisions_expire(store: Store, database: Database) -> None:
    made = DecisionStore(store)
    late, early = made.decide("s", PLACES), made.decide("s", PLACES)
    assert made.reward("s", early.id, 1.0)
    month = 31 * 86_400.0
    assert not Forgetting(store).portion(time.time() + month)
    with pytest.raises(Gone, match="expired"):
        made.reward("s", late.id, 1.0)
    assert not made.reward("s", early.id, 1.0)
    with database.reading() as connection:
        kept = {row.id: row.payload for row in connection.execute(select(decisions))}
    assert kept[late.id] is None
    assert kept[early.id] is not None


def test_paused_and_finished(store: Store, database: Database) -> None:
    made = DecisionStore(store)
    one, two = made.decide("s", PLACES), made.decide("s", PLACES)
    assert made.reward("s", one.id, 1.0)
    store.set_state("s", "paused")
    calls = (lambda: made.decide("s", PLACES), lambda: made.reward("s", two.id, 1.0))
    for refused in calls:
        with pytest.raises(Conflict, match="paused"):
            refused()
    assert not made.reward("s", one.id, 1.0), "it was accepted before"
    store.set_state("s", "finished")
    for refused in calls:
        with pytest.raises(Gone, match="finished"):
            refused()
    with database.reading() as connection:
        assert set(connection.scalars(select(decisions.c.payload))) == {None}


@on_sqlite
def test_a_study_ends_with_the_people_it_was_planned_for(database: Database, serve: Serve) -> None:
    learner = gp_ucb(SimulatedNoise(1), horizon=40)
    store = serve(learner)
    aggregator = Aggregator(store)
    rewarded(store, learner, 60, 1)
    for _ in range(10):
        aggregator.step()
    assert store.row("s").state == "finished"
    with database.reading() as connection:
        rows = connection.execute(ledger.select().order_by(ledger.c.version)).all()
    assert rows[-1].reports == 40
    assert count(database, decisions, decisions.c.payload.is_not(None)) == 0
    with pytest.raises(Gone):
        DecisionStore(store).decide("s", PLACES)


@pytest.mark.parametrize(
    ("databases", "days"), [("sqlite", 0.0), ("postgresql", 3.0)], indirect=["databases"]
)
def test_released_observations_are_erased_and_cannot_be_probed(
    database: Database, serve: Serve, days: float
) -> None:
    """By whoever has the database's key, or asks with a client's."""
    learner = gp_ucb(SimulatedNoise(1))
    store = serve(learner, retention_days=days)
    ids = rewarded(store, learner, 20, 1)
    waiting = DecisionStore(store).decide("s", PLACES)
    assert Aggregator(store).step() == 1
    kept = count(database, decisions, decisions.c.payload.is_not(None))
    assert kept == (21 if days else 1)
    Forgetting(store).portion(time.time() + 2.9 * 86_400.0)
    assert count(database, decisions, decisions.c.payload.is_not(None)) == kept
    Forgetting(store).portion(time.time() + 3.1 * 86_400.0)
    with database.reading() as connection:
        left = connection.scalars(select(decisions.c.id).where(decisions.c.payload.is_not(None)))
        assert list(left) == [waiting.id]
    assert count(database, decisions, decisions.c.mark.is_not(None)) == 0
    for identity in ids:
        assert not any(DecisionStore(store).reward("s", identity, each) for each in (0.0, 1.0))


def test_a_finished_study_keeps_nothing_of_people(store: Store, database: Database) -> None:
    """Neither what was not released, nor sums before noise; its aggregator leaves it alone."""
    rewarded(store, gp_ucb(SimulatedNoise(1)), 30, 1)
    aggregator = Aggregator(store)
    assert aggregator.step() == 1
    rewarded(store, gp_ucb(SimulatedNoise(1)), 3, 2)
    store.set_state("s", "finished")
    assert count(database, decisions, decisions.c.payload.is_not(None)) == 0
    assert count(database, decisions, decisions.c.mark.is_not(None)) == 0
    assert count(database, snapshots, snapshots.c.learner != b"") == 0
    before = in_database(database)
    assert aggregator.step() == Aggregator(store).step() == 0
    assert not aggregator._learners
    assert in_database(database) == before
    assert store.policy("s").version == 1


@on_sqlite
def test_visits_of_persons(database: Database, serve: Serve) -> None:
    """Those beyond the ones that a promise covers count, and teach nothing."""
    learner = capri(SimulatedNoise(7), max_contributions=2)
    store = serve(learner)
    with pytest.raises(InvalidInput, match="person was missing"):
        DecisionStore(store).decide("s", [0.0])
    batch = max(learner.batch_size, 4)
    rewarded(store, learner, batch, 1, persons=2)
    aggregator = Aggregator(store)
    assert aggregator.step() == 1
    _, served = aggregator._learner("s")
    counts = served._target._contributions.counts
    assert sorted(counts.values()) == [batch // 2, batch - batch // 2]
    assert set(counts) == {pseudonym(database.cipher, "s", f"person {n}") for n in (0, 1)}
    # Put together again from the database, it knows them still.
    _, again = Aggregator(store)._learner("s")
    assert again._target._contributions.counts == counts


@on_sqlite
@pytest.mark.parametrize("blank", [" ", "\u2003", "\n\t"])
def test_blank_ids_of_people_are_refused(database: Database, serve: Serve, blank: str) -> None:
    store = serve(capri(SimulatedNoise(1), max_contributions=2))
    with pytest.raises(InvalidInput, match="id"):
        DecisionStore(store).decide("s", [0.0], blank)
    assert count(database, decisions) == 0


@on_sqlite
@pytest.mark.parametrize("damage", ["blank id", "bytes", "another learner's report"])
def test_an_unreadable_observation_is_a_visit_that_adds_nothing(
    database: Database, serve: Serve, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """What is public of the release is that of readable rows; sums are those of the others."""
    learner = capri(SimulatedNoise(7), max_contributions=2)
    store = serve(learner)
    ids = sorted(rewarded(store, learner, learner.batch_size, 1, persons=learner.batch_size))
    kept = {each: _sealed(database, each) for each in ids}
    if damage == "bytes":
        payload = b"damaged"
    else:
        changed = {**kept[ids[0]], "person": " "}
        if damage != "blank id":
            report = json.loads(kept[ids[0]]["report"])
            changed = {**kept[ids[0]], "report": json.dumps({**report, "source": "other"})}
        content = json.dumps(changed).encode()
        payload = encrypted(database.cipher, content, True, "s", f"decision {ids[0]}")
    with database.writing() as connection:
        damaged = update(decisions).where(decisions.c.id == ids[0]).values(payload=payload)
        connection.execute(damaged)
    aggregator = Aggregator(store)
    assert [aggregator.step(), aggregator.step()] == [1, 0]
    assert (store.row("s").state, store.set_aside("s")) == ("running", 1)
    with database.reading() as connection:
        rows = connection.execute(select(decisions).order_by(decisions.c.id)).all()
        reports = connection.scalars(select(ledger.c.reports).order_by(ledger.c.version)).all()
    assert reports == [0, len(ids)]
    assert [row.state for row in rows] == ["unreadable", *["rewarded"] * (len(ids) - 1)]
    assert {(row.released, row.payload, row.mark) for row in rows} == {(1, None, None)}
    _, served = aggregator._learner("s")
    others = capri(SimulatedNoise(1), max_contributions=2)
    others.policy()
    others.update(
        [decode(kept[each]["report"], Reports) for each in ids[1:]],
        [[kept[each]["person"]] for each in ids[1:]],
    )
    sums, wanted = (each._target._sums.epochs[0].total for each in (served, others))
    assert np.array_equal(sums, wanted)
    assert served._target._contributions.came == len(ids)
    assert "set aside 1 stored rows of s" in caplog.text
    # The same reward is acknowledged as before, whatever became of it.
    assert not DecisionStore(store).reward("s", ids[0], 0.25)


@on_sqlite
@pytest.mark.parametrize(
    "made",
    [
        lambda: capri(SimulatedNoise(1)),
        lambda: gp_ucb(SimulatedNoise(1)),
        lambda: GPUCB(
            LINE,
            PublicBox(),
            Joint(1.0, 1e-6),
            kernel="RBF(length_scale=[.3])",
            noise=SimulatedNoise(1),
            horizon=1000,
            identity="box",
        ),
    ],
    ids=["arms", "decision sets", "box"],
)
def test_a_release_of_unreadable_observations_alone(
    database: Database, serve: Serve, made: Callable[[], Any]
) -> None:
    """Whatever people bring, each visit counts; with all rows damaged nothing is learnt."""
    learner = made()
    store = serve(learner)
    taking, batch = DecisionStore(store), learner.batch_size
    for context in contexts(learner, batch, 1):
        box = isinstance(learner.space, PublicBox)
        taking.reward("s", taking.decide("s", None if box else context).id, 1.0)
    with database.writing() as connection:
        connection.execute(update(decisions).values(payload=b"damaged"))
    aggregator = Aggregator(store)
    assert aggregator.step() == 1
    assert store.set_aside("s") == batch
    assert aggregator._learner("s")[1].people == batch


# At rest.

CONTEXT, REWARD, PERSON = 0.7071067811865475, 0.4142135623730951, "somebody with a name"


def _marks() -> Iterator[bytes]:
    for value in (CONTEXT, REWARD):
        yield repr(value)[2:14].encode()
        yield struct.pack("<d", value)
        yield struct.pack(">d", value)
    yield PERSON.encode()


def _bytes_of(url: str, database: Database, request: pytest.FixtureRequest, since: float) -> bytes:
    """Of all files of a database that were written since, those beside it included."""
    address = make_url(url)
    if database.sqlite:
        folder = Path(str(address.database)).parent
        found = list(folder.iterdir())
        assert {each.suffix for each in found} >= {".db", ".db-wal"}
        return b"".join(each.read_bytes() for each in found)
    with database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("CHECKPOINT"))
        oid = connection.scalar(
            text("SELECT oid FROM pg_database WHERE datname=current_database()")
        )
    folder = Path(request.getfixturevalue("postgresql").pgdata)
    files = [*(folder / "base" / str(oid)).iterdir(), *(folder / "pg_wal").iterdir()]
    new = [each for each in files if each.is_file() and each.stat().st_mtime > since - 2.0]
    return b"".join(each.read_bytes() for each in new)


class _Glass(Cipher):
    """Seals nothing."""

    def encrypt(self, content: bytes, place: str) -> bytes:
        return content

    def decrypt(self, sealed: bytes, place: str) -> bytes:
        return sealed


@pytest.mark.parametrize("cipher", [Cipher, _Glass])
def test_a_stolen_database_shows_no_observation(
    database: Database,
    url: str,
    cipher: type[Cipher],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A glass pane instead of the cipher shows that the search finds what is there."""
    simulated(monkeypatch)
    since = time.time()
    if cipher is _Glass:
        # Of another name, as write-ahead logs of one server keep what other tests wrote.
        monkeypatch.setitem(globals(), "PERSON", "somebody behind glass")
        monkeypatch.setitem(globals(), "CONTEXT", 0.5773502691896257)
        if not database.sqlite:  # which would compress what is not sealed
            with database.writing() as connection:
                connection.execute(
                    text("ALTER TABLE decisions ALTER COLUMN payload SET STORAGE EXTERNAL")
                )
    database.cipher = cipher(b"k" * 32)
    store = Store(database)
    learner = capri(SimulatedNoise(1), max_contributions=2)
    line = gp_ucb(SimulatedNoise(1))
    store.register(deployment(), learner)
    store.register(deployment("points"), line)
    made = DecisionStore(store)
    decision = made.decide("s", [1.0], PERSON)
    other = made.decide("points", [[CONTEXT], [0.2]])
    before = _bytes_of(url, database, request, since)
    made.reward("s", decision.id, REWARD)
    made.reward("points", other.id, REWARD)
    after = before + _bytes_of(url, database, request, since)
    found = [mark for mark in _marks() if mark in after]
    if cipher is _Glass:
        assert PERSON.encode() in found
        assert repr(CONTEXT)[2:14].encode() in found
    else:
        assert found == []


def test_the_wrong_key(store: Store, database: Database, connect: Callable[..., Database]) -> None:
    waiting = DecisionStore(store).decide("s", PLACES).id
    for key in (b"x" * 32, None):
        other = connect(key)
        with pytest.raises(InvalidInput, match="another key"):
            other.begin()
        before = in_database(database)
        for refused in (
            lambda other=other: DecisionStore(Store(other)).reward("s", waiting, 1.0),
            lambda other=other: DecisionStore(Store(other)).decide("s", PLACES),
            lambda other=other: Aggregator(Store(other))._learner("s"),
        ):
            with pytest.raises(InvalidInput, match="key"):
                refused()
        assert in_database(database) == before


@on_sqlite
def test_encrypted_sizes_do_not_depend_on_the_person(database: Database, serve: Serve) -> None:
    """Neither of a decision, however many points a person brings and however they are written, nor
    of the sums of people."""
    names, many = ("few", "many"), np.random.default_rng(1).random((200, 1)).tolist()
    for name in names:
        learner = GPUCB(
            LINE,
            DecisionSets(most=200),
            Joint(epsilon=1.0, delta=1e-6),
            kernel="RBF(length_scale=[.11])",
            noise=SimulatedNoise(1),
            horizon=1000,
            identity="gp",
        )
        store = serve(learner, name, retention_days=1.0)
        for place in range(30):
            points = [[0.5]] if name == "few" else many[: place + 171]
            decision = DecisionStore(store).decide(name, points)
            if place:
                assert DecisionStore(store).reward(name, decision.id, 0.5)

    def sizes(column: Any) -> dict[str, set[int]]:
        with database.reading() as connection:
            rows = connection.execute(select(column.table.c.study, column)).all()
        return {name: {len(kept) for study, kept in rows if study == name} for name in names}

    brought = sizes(decisions.c.payload)
    assert brought["few"] == brought["many"]
    assert len(brought["few"]) == 1
    assert Aggregator(store).step() == 2
    summed = sizes(snapshots.c.learner)
    assert summed["few"] == summed["many"]


@on_sqlite
@pytest.mark.parametrize(
    ("learner", "written"),
    [
        (
            two_arms,
            [{"age": 40, "smoker": "no"}, {"smoker": "no" + " " * 4000, "age": 40.0}, [40.0, 0]],
        ),
        (
            lambda: gp_ucb(SimulatedNoise(1)),
            [[[0.25]], [{"x1": 0.25}], [[0.250000000000000000000000]]],
        ),
    ],
    ids=["arms", "decision sets"],
)
def test_encrypted_contexts_do_not_depend_on_their_spelling(
    database: Database, serve: Serve, learner: Callable[[], Any], written: list[Any]
) -> None:
    store = serve(learner())
    ids = [DecisionStore(store).decide("s", context).id for context in written]
    with database.reading() as connection:
        assert len({len(each) for each in connection.scalars(select(decisions.c.payload))}) == 1
    brought = [_sealed(database, each)["context"] for each in ids]
    assert brought == [brought[0]] * len(ids)
    assert all(DecisionStore(store).reward("s", each, 0.5) for each in ids)


def test_snapshot_sizes_do_not_depend_on_who_visited() -> None:
    """Whether visits were of many people or of few, whatever their ids; brute force."""
    learner, cipher = capri(SimulatedNoise(1), max_contributions=400), Cipher(b"k" * 32)
    sizes = []
    for people in (1, 2, 400):
        sizes.append([])
        for visits in range(1, 401, 5):
            came = [
                pseudonym(cipher, "s", "é" * (1 + visit % people % 100) + str(visit % people))
                for visit in range(visits)
            ]
            learner._target._contributions = ContributionLedger()
            learner._target._contributions.add(came)
            content = without_policies(learner)
            longest = longest_kept(content)
            assert len(content) < longest
            sizes[-1].append(len(encrypted(cipher, content, True, "s", "snapshot", longest)))
    assert sizes[0] == sizes[1] == sizes[2]


def test_sealed_rows_cannot_be_moved(
    store: Store, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """What was sealed for one decision is refused in another, and nothing is learnt of it."""
    ids = rewarded(store, gp_ucb(SimulatedNoise(1)), 18, 1)
    with database.writing() as connection:
        taken = connection.scalar(select(decisions.c.payload).where(decisions.c.id == ids[0]))
        moved = update(decisions).where(decisions.c.id == ids[1]).values(payload=taken)
        connection.execute(moved)
    assert Aggregator(store).step() == 1
    assert store.set_aside("s") == 1
    assert "set aside 1" in caplog.text
    assert "reward" not in caplog.text
    other = gp_ucb(SimulatedNoise(1))
    other.identity = "other"
    store.register(deployment("t"), other)
    with database.writing() as connection:
        taken = connection.scalar(select(snapshots.c.learner).where(snapshots.c.study == "s"))
        connection.execute(update(snapshots).where(snapshots.c.study == "t").values(learner=taken))
        taken = connection.scalar(select(studies.c.learner).where(studies.c.name == "s"))
        connection.execute(update(studies).where(studies.c.name == "t").values(learner=taken))
    for refused in (Aggregator(Store(database))._learner, Store(database).study):
        with pytest.raises(InvalidInput, match="cannot be opened"):
            refused("t")


def test_a_joint_study_needs_the_databases_key(connect: Callable[..., Database]) -> None:
    database = connect(None)
    database.begin()
    store = Store(database)
    before: Any = in_database(database)
    with pytest.raises(InvalidInput, match="no key to seal them with"):
        store.register(deployment(), gp_ucb(SimulatedNoise(1)))
    assert in_database(database) == before
    assert store.register(deployment(), kernel())
    with pytest.raises(InvalidInput, match="local privacy"):
        DecisionStore(store).decide("s", [30.0, 1.0])
