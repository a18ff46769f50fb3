"""Keys: made once, kept as hashes, revoked at once; and the log of who did what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from discreet.service.database import Database
from discreet.service.errors import NotFound, Unauthorized
from discreet.service.keys import ROLES, Key, Keys
from discreet.service.operations import noted
from discreet.service.schema import keys, metadata
from discreet.validation import InvalidInput


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/keys.db")
    metadata.create_all(made.engine)
    yield made
    made.close()


@pytest.mark.parametrize("role", ROLES)
def test_a_token_opens_what_it_was_made_for(database: Database, role: str) -> None:
    token = Keys(database).make(role, "s", "mine")
    key = Keys(database).check(token)
    assert (key.role, key.study) == (role, "s")
    assert key.covers("s")
    assert not key.covers("t")
    assert Key("0", "device", None).covers("t")


def test_only_a_hash_is_kept(database: Database, tmp_path: Path) -> None:
    token = Keys(database).make("device")
    secret = token.split("_", 2)[2]
    with database.reading() as connection:
        row = connection.execute(select(keys)).one()
    assert not any(secret in str(value) for value in row)
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in files
    assert row.hash in files


def test_other_tokens_open_nothing(database: Database) -> None:
    made = Keys(database)
    token, other = made.make("device"), made.make("operator")
    _, identity, secret = token.split("_", 2)
    changed = "A" if secret[0] != "A" else "B"
    for wrong in (
        "",
        "x",
        token + "A",
        token[:-1],
        token.upper(),
        token + "\n",
        f"dk_{identity}_{changed}{secret[1:]}",
        f"dk_{other.split('_')[1]}_{secret}",
        f"dk_{'0' * 16}_{secret}",
        f"dk_{identity}_{'é' * 43}",
    ):
        with pytest.raises(Unauthorized) as refused:
            made.check(wrong)
        assert secret not in str(refused.value)
    assert made.check(token).id == identity


def test_revoked_at_once_and_once(database: Database) -> None:
    token = Keys(database).make("device", by="abc")
    identity = token.split("_")[1]
    assert Keys(database).revoke(identity, "abc")
    assert not Keys(database).revoke(identity, "abc")
    with pytest.raises(Unauthorized):
        Keys(database).check(token)
    with pytest.raises(NotFound):
        Keys(database).revoke("nothing")
    lines = noted(database)
    assert [line["key"] for line in lines] == ["abc", "abc"]
    assert [line["what"].split()[0] for line in lines] == ["made", "revoked"]


@pytest.mark.parametrize(
    "wrong", [{"role": "king"}, {"study": "a\0"}, {"study": "a" * 101}, {"label": "\n"}]
)
def test_what_is_no_key(database: Database, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        Keys(database).make(**{"role": "device", **wrong})
    assert Keys(database).list() == []


def test_the_log_of_one_study(database: Database) -> None:
    for study in ("a", "b", None):
        Keys(database).make("device", study)
    assert [line["study"] for line in noted(database)] == ["a", "b", None]
    (line,) = noted(database, "b")
    assert noted(database, "b", after=line["id"]) == []
    assert line["key"] == "server"
