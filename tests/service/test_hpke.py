"""Encrypted reports: of one length for each policy, and opened by the learner alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from discreet import Box, DecisionSets, SecureNoise, Shuffled, Terms, encode, make_learner
from discreet.learners.messages import Reports
from discreet.service.hpke import (
    ciphertext_bytes,
    decrypted_report,
    encrypted_report,
    public_key,
    report_bytes,
)
from discreet.service.server.encryption import Cipher

SIZE = 3
BUDGET = Shuffled(1.0, 1e-6, SIZE)
DOMAIN = Box((0.0, 0.0), (1.0, 1.0))


def made(policy: Any, terms: Terms, seed: int, people: int = 1) -> Reports:
    """Reports of some people."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((people, *((3,) if isinstance(policy.space, DecisionSets) else ()), 2))
    actions, _ = policy.act(contexts, rng, terms)
    return policy.report(contexts, actions, rng.random(people), SecureNoise(), terms)


LEARNERS = [("kernel", 3), ("partition", 3), ("best_arm", 3), ("private_glm", DecisionSets(3)),
            ("published_partition", 2)]  # fmt: skip


@pytest.mark.chance(0)
@pytest.mark.parametrize(("name", "space"), LEARNERS)
def test_ciphertexts_have_the_length_of_their_policy(name: str, space: Any) -> None:
    learner = make_learner(name, DOMAIN, space, BUDGET, horizon=1000)
    private = Cipher(b"k" * 32).receiving_key("s")
    policy = learner.policy()
    terms = replace(learner.terms(), learner_key=public_key(private))
    reports = made(policy, terms, 1, people=200)
    each = [reports.of(np.array([row])) for row in range(len(reports))]
    assert max(len(encode(report)) for report in each) <= report_bytes(policy, terms)
    for report in each[:5]:
        sealed = encrypted_report(report, policy, terms)
        assert len(sealed) == ciphertext_bytes(policy, terms)
        assert encode(decrypted_report(sealed, policy, private)) == encode(report)  # type: ignore[arg-type]
        assert decrypted_report(sealed, replace(policy, public_seed=7), private) is None
        assert decrypted_report(sealed, policy, Cipher(b"x" * 32).receiving_key("s")) is None


def test_terms_name_one_key() -> None:
    terms = make_learner("partition", DOMAIN, 2, BUDGET, horizon=100).terms()
    key = public_key(Cipher(b"k" * 32).receiving_key("s"))
    named = replace(terms, learner_key=key)
    assert named.digest != terms.digest
    assert Terms.from_fields(named.to_fields()) == named
    assert key != public_key(Cipher(b"k" * 32).receiving_key("t"))
    for wrong in ("AB" * 32, "ab", None, 7):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            replace(terms, learner_key=wrong)
