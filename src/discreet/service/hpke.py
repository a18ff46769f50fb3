"""Reports on their way through a shuffler: encrypted to the learner, all of one length.

HPKE (RFC 9180) in base mode: X25519, HKDF-SHA256, AES-128-GCM. The digest of the policy is the
`info` of each single-shot encryption, which RFC 9180 (section 8.1) asks for as the authenticated
data of such messages: a ciphertext opens under its own digest alone.

*What a ciphertext shows.* Its length, which follows from the policy (`report_bytes`), and nothing
else without the learner's key. It names no sender.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

from discreet.codec import decode, encode
from discreet.learners.messages import Reports
from discreet.learners.policy import Policy, Terms
from discreet.people.domain import DecisionSets, PublicBox, PublicSet
from discreet.privacy import NoiseSource, SecureNoise
from discreet.validation import InvalidInput

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "reports for a shuffler are encrypted with cryptography, which is not installed; run "
        'pip install "cryptography>=47", or pip install "discreet[service]".'
    ) from error

# Bytes of a ciphertext beside those of its text: a public key and an authentication tag.
_ADDED = 32 + 16
# Characters of JSON: of a number with what divides it from the next.
NUMBER = 26
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
# How reading fails what a hostile device sent, and a damaged row of a database.
DAMAGE = (
    InvalidTag,
    zlib.error,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def public_key(private: X25519PrivateKey) -> str:
    """The public key in hexadecimal, as terms name it."""
    return private.public_key().public_bytes_raw().hex()


def report_bytes(policy: Policy[Any], terms: Terms) -> int:
    """Bytes of JSON that are enough for the report of any person under a policy."""
    return longest_json(json.loads(encode(report_without_data(policy, SecureNoise(), terms))))


def ciphertext_bytes(policy: Policy[Any], terms: Terms) -> int:
    """Bytes of the ciphertext of every report under a policy."""
    return report_bytes(policy, terms) + _ADDED


def encrypted_report(report: Reports, policy: Policy[Any], terms: Terms) -> bytes:
    """The report of one person, padded and encrypted to the learner's key in the terms."""
    size = report_bytes(policy, terms)
    text = encode(report).encode().ljust(size)
    if len(text) != size:
        raise InvalidInput("a report was longer than any under its policy; it was not sent.")
    key = X25519PublicKey.from_public_bytes(bytes.fromhex(terms.learner_key))
    return _SUITE.encrypt(text, key, _info(policy.digest))


def decrypted_report(
    ciphertext: bytes, policy: Policy[Any], private: X25519PrivateKey
) -> Reports | None:
    """The inverse of `encrypted_report`; None for what is no report of one person."""
    try:
        text = _SUITE.decrypt(ciphertext, private, _info(policy.digest)).decode()
        report: Reports = decode(text, Reports)
        return report if len(report) == 1 else None
    except DAMAGE:
        return None


def report_without_data(policy: Policy[Any], noise: NoiseSource, terms: Terms | None) -> Reports:
    """A report for a person of whom nothing is known: each value is the middle of its bounds."""
    domain = policy.domain
    people: Any = 1
    place = domain.from_unit(domain.nearest_unit([[np.nan] * domain.dimension]))
    if isinstance(policy.space, DecisionSets):
        people = [place]
    elif not isinstance(policy.space, PublicSet | PublicBox):
        people = place
    actions, _ = policy.act(people, np.random.default_rng())
    bounds = policy.reward_bounds
    middle = bounds.lower + (bounds.upper - bounds.lower) / 2.0
    return policy.report(people, actions, [middle], noise, terms)


def longest_json(value: Any) -> int:
    """Characters of JSON values, all numbers as long as numbers get."""
    if isinstance(value, dict):
        fields = value.items()
        return 2 + sum(len(json.dumps(name)) + 4 + longest_json(each) for name, each in fields)
    if isinstance(value, list):
        return 2 + sum(2 + longest_json(each) for each in value)
    return len(json.dumps(value)) if isinstance(value, str) else NUMBER


def check_learner_key(terms: Terms) -> None:
    """Refuse terms with a shuffler that name no key of the learner."""
    if not terms.learner_key:
        raise InvalidInput(
            "the terms have a shuffler and no learner_key, so the shuffler could read reports; "
            "fetch them from the address of the shuffler again."
        )


def _info(digest: str) -> bytes:
    return f"discreet report under policy {digest}".encode()
