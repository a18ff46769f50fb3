"""Learners that live beside each other: identities, locks, copies, and files that survive."""

from __future__ import annotations

import copy
import os
import pickle
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from discreet import GPUCB, Box, Joint, PublicBox, SecureNoise, SimulatedNoise
from discreet.learners.partition.learner import Partition
from discreet.learners.saving import save
from discreet.people.domain import unit_cube
from discreet.privacy import Local
from discreet.validation import InvalidInput


def learner(**options: Any) -> Partition:
    return Partition(unit_cube(2), 3, Local(1.0), **options)


def test_every_learner_has_an_identity_of_its_own() -> None:
    identities = {learner().identity for _ in range(20)}
    assert len(identities) == 20
    assert all(len(identity) == 32 for identity in identities)
    policy = learner(identity="clinic 7").policy()
    assert policy.learner_id == "clinic 7"
    assert "clinic 7" in policy.group.group


@pytest.mark.parametrize("identity", ["", "x" * 101, 7, b"clinic"])
def test_identities_are_text(identity: object) -> None:
    with pytest.raises(InvalidInput, match="identity"):
        learner(identity=identity)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_a_lock_of_its_own(duplicate: Any) -> None:
    first = learner()
    with first.lock:
        second = duplicate(first)
        assert second.identity == first.identity
        assert published_meanwhile(second)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_learner_that_draws_noise_for_people_is_not_copied(copied: Any) -> None:
    """Two copies that wait for a release would both make it, each with noise of its own."""
    budget, space = Joint(1.0, 1e-6), Box((0.0,), (1.0,))
    learner = GPUCB(space, PublicBox(), budget, horizon=100, noise=SecureNoise())
    with pytest.raises(InvalidInput, match=r"people would pay twice\. Keep it with discreet\.save"):
        copied(learner)
    copied(GPUCB(space, PublicBox(), budget, horizon=100, noise=SimulatedNoise(1)))


def published_meanwhile(other: Any) -> bool:
    """Whether another thread can publish, without waiting for the locks that this one holds."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (other.policy(), done.set()), daemon=True)
    thread.start()
    return done.wait(60.0)


def test_learners_do_not_wait_for_each_other() -> None:
    first, second = learner(), learner()
    with first.lock:
        assert published_meanwhile(second)


def test_beliefs_wait_for_a_policy_in_the_making() -> None:
    """Bins, sums and what is kept of them change one after the other."""
    asked, answered = learner(), threading.Event()
    asked.policy()
    thread = threading.Thread(target=lambda: (asked.beliefs(), answered.set()), daemon=True)
    with asked.lock:
        thread.start()
        assert not answered.wait(0.1)
    assert answered.wait(60.0)


def test_a_saved_learner_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File and folder are synced, in this order, before `save` returns."""
    synced: list[str] = []
    original = os.fsync

    def fsync(handle: int) -> None:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append("folder" if folder else "file")
        assert folder == (tmp_path / "learner.json").exists()
        original(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    save(learner(), tmp_path / "learner.json")
    assert synced == ["file", "folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["learner.json"]
    assert stat.S_IMODE((tmp_path / "learner.json").stat().st_mode) == 0o600
