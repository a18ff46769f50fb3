"""When more people come than a study was planned for: under local privacy it goes on, as each pays
with their own report alone; under joint privacy it is finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from discreet import Local, LocalKernel
from discreet.papers.ma2025.learners.published_partition import PublishedPartition
from discreet.privacy import SimulatedNoise
from discreet.service.server.aggregator import Aggregator
from discreet.service.server.database import Database
from discreet.service.server.encryption import Cipher
from discreet.service.server.errors import Gone
from discreet.service.server.ingest import Ingest
from discreet.service.server.schema import ledger, metadata, snapshots
from discreet.service.server.store import Store
from tests.service.server.scene import (
    ARMS,
    DOMAIN,
    check_told_the_same,
    deployment,
    gp_ucb,
    reported,
    rewarded,
    simulated,
)

pytestmark = pytest.mark.chance(0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    database = Database(f"sqlite:///{tmp_path}/horizon.db", Cipher(b"k" * 32))
    metadata.create_all(database.engine)
    return Store(database)


@pytest.mark.parametrize("kind", [PublishedPartition, LocalKernel])
def test_private_reports_are_learnt_from_beyond_the_horizon(store: Store, kind: Any) -> None:
    learner = kind(DOMAIN, ARMS, Local(1.0), horizon=150, identity="planned for 150")
    store.register(deployment(), learner)
    aggregator = Aggregator(store)
    for turn, people in enumerate((100, 100)):
        assert reported(store, learner, people, turn).send(Ingest(store)).stored == people
        assert aggregator.step() == 1
    assert store.row("s").state == "running"
    assert aggregator._learner("s")[1].people == 200
    assert aggregator.waiting("s") == 0
    check_told_the_same(store, "s")


def test_a_study_that_is_trusted_is_finished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated(monkeypatch)
    learner = gp_ucb(SimulatedNoise(1), horizon=12)
    store.register(deployment(), learner)
    aggregator = Aggregator(store)
    rewarded(store, learner, 16, 0)
    while aggregator.step():
        pass
    assert store.row("s").state == "finished"
    with pytest.raises(Gone, match="is finished"):
        rewarded(store, learner, 1, 1)
    with store.database.reading() as connection:
        assert connection.scalar(select(func.max(ledger.c.reports))) == 12
        assert connection.scalar(select(snapshots.c.learner)) == b""
