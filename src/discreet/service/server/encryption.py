"""Sealing what is secret in a database, so that a stolen file shows no plain observation.

AES-GCM with a key from the environment, a random nonce for each text, and the place where it
belongs as associated data: what was sealed for one row cannot be opened in another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.validation import InvalidInput

KEY_VARIABLE = "DISCREET_DATABASE_KEY"
_BYTES, _NONCE = 32, 12
_HOW = (
    f"set {KEY_VARIABLE} to the key that the database was made with, or if it has none yet to one "
    "that `discreet keys database` makes, and keep it where you keep passwords, apart from the "
    "database and its backups"
)


class Cipher:
    """A database's key.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != _BYTES:
            raise InvalidInput(f"the database's key had {len(key)} bytes; it must have {_BYTES}.")
        # One key for each use.
        self._cipher = AESGCM(_derived(key, b"seal"))
        self._marking = _derived(key, b"mark")
        self._receiving = _derived(key, b"receive")

    def __repr__(self) -> str:
        return "Cipher(...)"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Cipher | None:
        """The key in DISCREET_DATABASE_KEY; None where it is not set.

        Raises:
            InvalidInput: a text that is no key. It is not shown.
        """
        text = environment.get(KEY_VARIABLE, "")
        if not text:
            return None
        try:
            key = base64.b64decode(text, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != _BYTES:
            raise InvalidInput(
                f"{KEY_VARIABLE} had {len(text)} characters that are no key; {_HOW}."
            )
        return cls(key)

    @staticmethod
    def new_key() -> str:
        """A new key as text, for the environment."""
        return base64.urlsafe_b64encode(secrets.token_bytes(_BYTES)).decode()

    def encrypt(self, content: bytes, place: str) -> bytes:
        """The content, sealed for that place."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, content, place.encode())

    def decrypt(self, sealed: bytes, place: str) -> bytes:
        """The inverse of `encrypt`; `InvalidInput` for another place or key, or changed bytes."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place.encode())
        except (InvalidTag, ValueError) as error:
            raise InvalidInput(
                f"what is sealed for {place} cannot be opened: the database was changed, or its "
                f"key is another one; set {KEY_VARIABLE} to the key that it was made with."
            ) from error

    def mark(self, content: bytes) -> bytes:
        """(32,) bytes by which the same content is known again, and nothing else without the
        key."""
        return hmac.new(self._marking, content, hashlib.sha256).digest()

    def receiving_key(self, study: str) -> X25519PrivateKey:
        """The private key to which devices of a shuffled study encrypt their reports.

        It follows from the database's key, so it is in no database and in no backup.
        """
        derived = hmac.new(self._receiving, study.encode(), hashlib.sha256).digest()
        return X25519PrivateKey.from_private_bytes(derived)


def needed(cipher: Cipher | None, study: str) -> Cipher:
    """The key; `InvalidInput` where there is none."""
    if cipher is None:
        raise InvalidInput(
            f"the study {study!r} keeps observations of people until they are released, or takes "
            f"encrypted reports, and there is no key to seal them with; {_HOW}."
        )
    return cipher


def _derived(key: bytes, use: bytes) -> bytes:
    return hmac.new(key, b"discreet " + use, hashlib.sha256).digest()
