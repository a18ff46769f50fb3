"""Backup and restore: everything public is there again, and nobody is released twice."""

from __future__ import annotations

import base64
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from sqlalchemy import select, text, update
from typer.testing import CliRunner

from discreet import GPUCB, DecisionSets
from discreet.cli import app as cli
from discreet.codec import decode, encode
from discreet.learners.kernel.learner import LocalKernel
from discreet.learners.messages import Reports
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.people.domain import Box
from discreet.privacy import Guarantee, Joint, Local, SecureNoise
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.backup import Restored, back_up, confirm_move, restore
from discreet.service.server.database import Database, Unavailable, upgrade
from discreet.service.server.decisions import DecisionStore
from discreet.service.server.deployment import Deployment, unpacked
from discreet.service.server.encryption import KEY_VARIABLE, Cipher
from discreet.service.server.errors import Conflict, Gone
from discreet.service.server.ingest import Ingest
from discreet.service.server.keys import Keys
from discreet.service.server.ledger import keep_rows, rows_of_former
from discreet.service.server.schema import (
    batches,
    decisions,
    ledger,
    metadata,
    server,
    snapshots,
)
from discreet.service.server.store import Store
from discreet.validation import InvalidInput
from tests.service.server.conftest import Databases

KEY = b"k" * 32
TEXT = base64.urlsafe_b64encode(KEY).decode()
ARMS = ["leaflet", "call", "visit"]


class Server:
    """One server with a study of each trust model."""

    def __init__(self, url: str, key: bytes | None = KEY) -> None:
        self.database = Database(url, None if key is None else Cipher(key))
        upgrade(self.database)
        keep_rows(self.database)
        self.identity = self.database.begin()
        self.store = Store(self.database)
        self.ingest, self.decisions = Ingest(self.store), DecisionStore(self.store)
        self.aggregator = Aggregator(self.store)

    def register(self) -> None:
        learner = LocalKernel(Box.of({"age": (18, 90)}), ARMS, Local(1.0), horizon=2000)
        learner.open_source("clinic", 2.0)
        sources = (("clinic", 2.0),)
        self.store.register(Deployment("calls", "Calls", "call", 30.0, 0.0, sources, "a"), learner)
        doses = GPUCB(
            Box(lower=(0,), upper=(1,)),
            DecisionSets(most=2),
            Joint(epsilon=1.0, delta=1e-6),
            kernel="RBF(length_scale=[1.0])",
            noise=SecureNoise(),
            horizon=100,
        )
        self.store.register(Deployment("doses", "Doses", None, 30.0, 5.0, (), "b"), doses)

    def reports(self, number: int, seed: int = 0) -> Reports:
        """Of so many people, under the current policy."""
        rng = np.random.default_rng(seed)
        policy: Any = decode(self.store.policy("calls").text, Policy)
        contexts = rng.uniform(18, 90, (number, 1))
        actions, _ = policy.act(contexts, rng)
        terms = self.store.study("calls").terms
        made: Reports = policy.report(contexts, actions, np.ones(number), SecureNoise(), terms)
        return made

    def send(self, reports: Reports) -> int:
        return self.ingest.add("calls", [encode(reports)], None).stored

    def decide(self, number: int) -> list[str]:
        """Decisions with their rewards; their ids."""
        made = [self.decisions.decide("doses", [[0.1], [0.9]]).id for _ in range(number)]
        for each in made:
            assert self.decisions.reward("doses", each, 1.0)
        return made

    def rows(self, table: Any, study: str) -> list[Any]:
        with self.database.reading() as connection:
            return list(connection.execute(select(table).where(table.c.study == study)))

    def learner(self, study: str) -> Any:
        """As it is after the last release."""
        return self.aggregator._learner(study)[1]


# The same rows are restored in both kinds of databases; the quick tests of what differs are below.
on_each = pytest.mark.parametrize(
    "databases",
    ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)],
    indirect=True,
)


@pytest.fixture
def original(databases: Databases) -> Iterator[Server]:
    made = Server(databases.new())
    made.register()
    yield made
    made.database.close()


class Carried:
    """Restores copies, and closes them after the test.

    Attributes:
        outcome: of the last one.
    """

    def __init__(self, databases: Databases) -> None:
        self.databases, self.outcome = databases, cast(Restored, None)
        self.made: list[Server] = []

    def __call__(self, original: Server) -> Server:
        database = Database(self.databases.copy(original.database), Cipher(KEY))
        self.outcome = restore(database)
        database.close()
        self.made.append(Server(database.engine.url.render_as_string(hide_password=False)))
        return self.made[-1]


@pytest.fixture
def carried(databases: Databases) -> Iterator[Carried]:
    made = Carried(databases)
    yield made
    for each in made.made:
        each.database.close()


@on_each
def test_the_restored_server_is_another_one(original: Server, carried: Carried) -> None:
    token = Keys(original.database).make("operator")
    restored = carried(original)
    assert carried.outcome.identity == restored.identity != original.identity
    with restored.database.reading() as connection:
        assert connection.scalar(select(server.c.restored_from)) == original.identity
    assert (carried.outcome.keys, carried.outcome.anew) == (1, ("doses",))
    assert Keys(restored.database).check(token).role == "operator"
    assert restored.store.names() == ["calls", "doses"]


@pytest.mark.chance(0)
@on_each
def test_joint_nobody_of_the_backup_is_released_again(original: Server, carried: Carried) -> None:
    size = original.learner("doses").batch_size
    original.decide(size)
    assert original.aggregator.step() == 1
    waiting = original.decide(original.learner("doses").batch_size)
    restored = carried(original)
    assert carried.outcome.dropped == len(waiting)
    # The original goes on, and releases those who wait in the backup.
    assert original.aggregator.step() == 1
    old = original.store.policy("doses")
    assert old.version == 2
    # The restored one has nobody, and takes no reward of theirs.
    assert restored.aggregator.step() == 0
    assert restored.store.policy("doses").version == 0
    assert restored.aggregator.waiting("doses") == 0
    for each in waiting:
        with pytest.raises(Gone):
            restored.decisions.reward("doses", each, 1.0)
    new = restored.decide(restored.learner("doses").batch_size)
    assert restored.aggregator.step() == 1
    assert restored.learner("doses").people == len(new)
    assert restored.learner("doses").identity != original.learner("doses").identity
    with restored.database.reading() as connection:
        released = connection.scalars(
            select(decisions.c.id).where(decisions.c.state == "rewarded", decisions.c.released == 1)
        ).all()
    assert set(new) <= set(released)
    assert not set(waiting) & set(released)
    reports = [row.reports for row in restored.rows(ledger, "doses")]
    assert sorted(reports) == [0, len(new)]


@pytest.mark.chance(0)
@on_each
def test_joint_the_ledger_and_certificate_cover_both(original: Server, carried: Carried) -> None:
    """Even what the original released after the backup, which nobody here knows."""
    before = original.rows(ledger, "doses")
    assert before[0].held == 0
    restored = carried(original)
    restored.decide(restored.learner("doses").batch_size)
    assert restored.aggregator.step() == 1
    first, last = sorted(restored.rows(ledger, "doses"), key=lambda row: row.version)
    own = restored.learner("doses").guarantee()
    assert first.held == 1_000_000
    assert last.asked == 2_000_000
    assert 1_000_000 < last.held <= 2_000_000
    whole = decode(last.guarantee, Guarantee)
    assert whole.epsilon == pytest.approx(1.0 + own.epsilon)
    assert whole.delta == last.delta == pytest.approx(1e-6 + own.delta)
    assert "epsilon = 2" in whole.sentence
    with restored.database.reading() as connection:
        former = rows_of_former(connection, "doses")
    assert [row["digest"] for row in former] == [row.digest for row in before]
    assert former[0]["identity"] == original.learner("doses").identity


@pytest.mark.chance(0)
@on_each
def test_joint_a_chain_of_restores_adds(original: Server, carried: Carried) -> None:
    third = carried(carried(original))
    (row,) = third.rows(ledger, "doses")
    assert (row.asked, row.held) == (3_000_000, 2_000_000)
    with third.database.reading() as connection:
        identities = {each["identity"] for each in rows_of_former(connection, "doses")}
    assert len(identities) == 2


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
def test_local_a_batch_that_cannot_be_read_is_set_aside(original: Server, carried: Carried) -> None:
    for seed in range(2):
        assert original.send(original.reports(5, seed)) == 5
    with original.database.writing() as connection:
        connection.execute(update(batches).where(batches.c.id == 1).values(body=b"damaged"))
    restored = carried(original)
    assert carried.outcome.kept == 5
    assert restored.store.set_aside("calls") == 5


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
def test_joint_a_backup_restored_twice_costs_more_than_either_certificate_says(
    original: Server, databases: Databases
) -> None:
    """No server can know of the others, so the command says it, and its help."""
    asked = []
    for _ in range(2):
        url = databases.copy(original.database)
        shown = CliRunner().invoke(
            cli, ["restore", "--database", url], env={KEY_VARIABLE: TEXT, "COLUMNS": "200"}
        )
        assert shown.exit_code == 0, shown.output
        assert "restore this backup once" in " ".join(shown.stderr.split())
        again = Server(url)
        asked += [row.asked for row in again.rows(ledger, "doses")]
        again.database.close()
    assert asked == [2_000_000, 2_000_000]  # though a person in all three servers pays 3
    assert "Restore each backup once" in CliRunner().invoke(cli, ["restore", "--help"]).output


@pytest.mark.chance(0)
@on_each
def test_local_what_was_learnt_stays_and_each_report_counts_once(
    original: Server, carried: Carried
) -> None:
    first = original.reports(original.learner("calls").batch_size)
    assert original.send(first) == len(first)
    assert original.aggregator.step() == 1
    late, waiting = original.reports(4, seed=1), original.reports(5, seed=2)
    assert original.send(waiting) == 5
    restored = carried(original)
    assert carried.outcome.kept == 5
    old, new = original.learner("calls"), restored.learner("calls")
    assert new.identity != old.identity
    assert new.people == old.people
    assert [policy.version for policy in new._policies] == [0, 1]
    assert {policy.learner_id for policy in new._policies} == {new.identity}
    # Reports to the old learner are refused, those that wait there too.
    for reports in (first, late, waiting):
        with pytest.raises(Gone, match="fetch the policy again"):
            restored.send(reports)
    batch = max(restored.learner("calls").batch_size - 5, 1)
    assert restored.send(restored.reports(batch, seed=3)) == batch
    assert restored.aggregator.step() == 1
    assert restored.learner("calls").people == len(first) + 5 + batch
    rows = sorted(
        (row for row in restored.rows(ledger, "calls") if row.stream == TARGET_NAME),
        key=lambda row: row.version,
    )
    assert [row.held for row in rows] == [1_000_000] * 3
    texts = [restored.store.policy("calls", version=row.version) for row in rows]
    assert [row.digest for row in rows] == [each.digest for each in texts]
    assert [decode(each.text, Policy).digest for each in texts] == [row.digest for row in rows]


@pytest.mark.chance(0)
@on_each
def test_local_a_report_that_claims_the_new_learner_is_known_by_its_public_coin(
    original: Server, carried: Carried
) -> None:
    reports = original.reports(3)
    original.send(reports)
    restored = carried(original)
    fields = {**json.loads(encode(reports)), "source": restored.learner("calls").identity}
    receipt = restored.ingest.add("calls", [json.dumps(fields)], None)
    assert (receipt.stored, receipt.repeated) == (0, 3)


@pytest.mark.chance(0)
@on_each
def test_local_sources_go_on(original: Server, carried: Carried) -> None:
    policy: Any = decode(original.store.policy("calls", "clinic").text, Policy)
    terms = LocalKernel(Box.of({"age": (18, 90)}), ARMS, Local(2.0)).terms()
    reports = policy.report([[20.0], [30.0]], ["call", "visit"], [1, 0], SecureNoise(), terms)
    assert original.ingest.add("calls", [encode(reports)], [1, 2], "clinic").stored == 2
    restored = carried(original)
    with pytest.raises(Gone):
        restored.ingest.add("calls", [encode(reports)], [1, 2], "clinic")
    assert restored.aggregator.waiting("calls", "clinic") == 2
    (row,) = restored.rows(batches, "calls")
    (kept,) = json.loads(unpacked(row.body))["reports"]
    learner = restored.learner("calls")
    learner.update(decode(kept, Reports))
    assert learner.streams["clinic"].people == 2


@on_each
def test_a_finished_study_stays_as_it_was(original: Server, carried: Carried) -> None:
    original.decide(2)
    for name in ("calls", "doses"):
        original.store.set_state(name, "finished")
    before = [original.store.policy(name) for name in ("calls", "doses")]
    restored = carried(original)
    assert [restored.store.policy(name) for name in ("calls", "doses")] == before
    assert restored.rows(snapshots, "doses")[0].learner == b""
    with pytest.raises(Gone, match="finished"):
        restored.decide(1)
    with pytest.raises(Conflict):
        restored.store.set_state("doses", "running")


@pytest.mark.chance(0)
@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
def test_a_backup_holds_no_observation(original: Server, tmp_path: Path) -> None:
    """Neither waiting ones, nor those kept for some days, nor sums before noise."""
    original.decide(original.learner("doses").batch_size)
    original.aggregator.step()
    original.decide(1)
    with original.database.reading() as connection:
        sealed = list(connection.scalars(select(decisions.c.payload)))
        sealed += list(
            connection.scalars(select(snapshots.c.learner).where(snapshots.c.study == "doses"))
        )
    assert all(sealed)
    path = tmp_path / "b.db"
    back_up(original.database, path)
    content = path.read_bytes()
    for each in sealed:
        assert each[:16] not in content
        assert each[-16:] not in content
    assert path.stat().st_mode & 0o777 == 0o600


def everything(database: Database) -> list[Any]:
    with database.reading() as connection:
        return [connection.execute(select(table)).all() for table in metadata.sorted_tables]


@on_each
def test_restore_needs_the_key(original: Server, databases: Databases) -> None:
    url = databases.copy(original.database)
    for key, message in ((None, "no key to seal"), (b"o" * 32, "its key is another one")):
        database = Database(url, None if key is None else Cipher(key))
        before = everything(database)
        with pytest.raises(InvalidInput, match=message):
            restore(database)
        assert everything(database) == before
        database.close()


def test_a_copy_is_not_served_before_it_is_restored(original: Server, databases: Databases) -> None:
    """Nor is a live database restored, which would draw noise for the same people again."""
    url = databases.copy(original.database)
    database = Database(url, Cipher(KEY))
    with pytest.raises(InvalidInput, match="discreet restore"):
        database.begin()
    restore(database)
    assert database.begin() != original.identity
    for live in (database, original.database):
        before = everything(live)
        with pytest.raises(InvalidInput, match="live server"):
            restore(live)
        assert everything(live) == before
    database.close()


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
def test_observations_in_a_dump_are_dropped(original: Server, carried: Carried) -> None:
    original.decide(2)
    assert all(row.payload for row in original.rows(decisions, "doses"))
    assert not any(row.payload or row.mark for row in carried(original).rows(decisions, "doses"))


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
def test_an_earlier_state_of_a_file_is_not_served(original: Server) -> None:
    """It would draw noise again for people who were released."""
    database, path = original.database, Path(str(original.database.engine.url.database))
    database.hold()
    original.send(original.reports(60))
    database.empty_log()
    earlier = path.read_bytes()
    assert original.aggregator.step()
    database.empty_log()
    later = path.read_bytes()
    for content, served in ((earlier, False), (later, True), (earlier, False)):
        database.close()
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        path.write_bytes(content)
        if served:
            assert database.begin() == original.identity
            continue
        with pytest.raises(InvalidInput, match="discreet restore"):
            database.begin()
        with pytest.raises(InvalidInput, match="without --moved"):
            confirm_move(database)
    restore(database)
    assert database.begin() != original.identity


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
def test_tables_that_were_made_anew_are_a_copy(original: Server) -> None:
    """As pg_restore --clean makes them, in the same database."""
    with original.database.writing() as connection:
        for statement in (
            "ALTER TABLE server RENAME TO older",
            "CREATE TABLE server (LIKE older INCLUDING ALL)",
            "INSERT INTO server SELECT * FROM older",
        ):
            connection.execute(text(statement))
    with pytest.raises(InvalidInput, match="discreet restore"):
        original.database.begin()


def test_a_moved_database_is_served_as_before(original: Server, databases: Databases) -> None:
    database = Database(databases.copy(original.database), Cipher(KEY))
    if database.sqlite:  # a file that moves has the same place; a backup has not moved
        with pytest.raises(InvalidInput, match="without --moved"):
            confirm_move(database)
    else:
        confirm_move(database)
        assert database.begin() == original.identity
    database.close()


def test_the_ledger_of_a_restored_database_cannot_be_changed(
    original: Server, carried: Carried
) -> None:
    restored = carried(original)
    with pytest.raises(Unavailable), restored.database.writing() as connection:
        connection.execute(update(ledger).values(held=0))


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
def test_a_damaged_copy_is_refused(original: Server, databases: Databases) -> None:
    original.send(original.reports(50))
    path = Path(databases.copy(original.database).removeprefix("sqlite:///"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    database = Database(f"sqlite:///{path}", Cipher(KEY))
    with pytest.raises((InvalidInput, Unavailable), match=r"damaged|malformed"):
        restore(database)
    database.close()


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
def test_a_backup_takes_no_other_files_place(original: Server, tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    path.write_text("mine")
    with pytest.raises(InvalidInput, match="exists already"):
        back_up(original.database, path)
    assert path.read_text() == "mine"
    assert not list(tmp_path.glob(".b.db*"))


@pytest.mark.parametrize("databases", ["sqlite"], indirect=True)
def test_a_disk_without_room_is_named(original: Server, tmp_path: Path) -> None:
    before = list(tmp_path.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(Unavailable):
            back_up(original.database, tmp_path / "backup.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == before


def test_numbers_of_new_rows_go_on(original: Server, carried: Carried) -> None:
    original.send(original.reports(2))
    restored = carried(original)
    restored.send(restored.reports(2, seed=5))
    with restored.database.writing() as connection:
        assert len(set(connection.scalars(select(batches.c.id)))) == 2


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
def test_postgresql_has_a_tool_of_its_own(original: Server, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="pg_dump"):
        back_up(original.database, tmp_path / "b.db")
