"""The mailbox of outsourced tables: one release, one question a number, one answer for good."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.mechanisms import Question
from discreet.privacy import SecureNoise
from discreet.service.server.bodies import TableBody
from discreet.service.server.database import Database
from discreet.service.server.errors import Conflict, NotFound
from discreet.service.server.schema import tables
from discreet.service.server.store import Store
from discreet.service.server.tables import Tables
from discreet.validation import InvalidInput
from tests.outsourcing.cases import release
from tests.service.client.conftest import served
from tests.service.server.scene import deployment, kernel

pytest.importorskip("opendp")
pytestmark = pytest.mark.chance(0)


def stored(folder: Path, **options: object) -> TableBody:
    """A release as a curator sends it."""
    from discreet.outsourcing.curator import Curator

    certificate = release(folder / "key", noise=SecureNoise(), seed=None, **options)  # type: ignore[arg-type]
    Curator(folder / "key").publish(certificate.release, folder / "release")
    rows = base64.b64encode((folder / "release" / certificate.file).read_bytes()).decode()
    kind: Any = certificate.file.removeprefix("rows.")
    return TableBody(certificate=certificate.to_json(), rows=rows, format=kind)


def names(database: Database) -> list[str]:
    """The tables that were published."""
    with database.reading() as connection:
        return list(connection.scalars(select(tables.c.name)))


@pytest.fixture
def mailbox(database: Database) -> Tables:
    return Tables(database)


def test_a_table_is_published_once(mailbox: Tables, tmp_path: Path) -> None:
    first = stored(tmp_path)
    assert mailbox.publish("homes", first)
    assert not mailbox.publish("homes", first)
    assert mailbox.read("homes") == first
    (tmp_path / "again").mkdir()
    with pytest.raises(Conflict, match="published once"):
        mailbox.publish("homes", stored(tmp_path / "again"))
    assert mailbox.read("homes") == first
    assert names(mailbox.database) == ["homes"]
    with pytest.raises(NotFound):
        mailbox.read("flats")


def test_keys_of_a_study_open_no_table(database: Database, tmp_path: Path) -> None:
    """Which they would where both had one name: a study's operator makes keys of any role."""
    store, mailbox = Store(database), Tables(database)
    first = stored(tmp_path)
    store.register(deployment("calls"), kernel())
    with pytest.raises(Conflict, match="a study is served as 'calls'"):
        mailbox.publish("calls", first)
    mailbox.publish("homes", first)
    with pytest.raises(InvalidInput, match="a table was published as 'homes'"):
        store.register(deployment("homes"), kernel())
    assert (store.names(), names(database)) == (["calls"], ["homes"])


def test_what_is_no_release_is_refused(mailbox: Tables, tmp_path: Path) -> None:
    good = stored(tmp_path)
    simulated = release(tmp_path / "other").to_json()
    boasting = good.certificate.replace('"epsilon": 2.0', '"epsilon": 1.0', 1)
    assert boasting != good.certificate
    for wrong, said in [
        ({"certificate": "{}"}, "not the certificate"),
        ({"rows": "no base64"}, "no base64"),
        ({"rows": "rows"}, "not those"),
        ({"format": "parquet"}, "send that format"),
        ({"certificate": simulated}, "does not protect people"),
        ({"certificate": boasting}, "do not trust this release"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            mailbox.publish("homes", good.model_copy(update=wrong))
    with pytest.raises(InvalidInput, match="name of a table"):
        mailbox.publish("", good)
    assert names(mailbox.database) == []


def test_a_number_stands_for_one_question(mailbox: Tables, tmp_path: Path) -> None:
    mailbox.publish("homes", stored(tmp_path))
    assert mailbox.ask("homes", [Question(1, 3), Question(2, 4)]) == 2
    assert mailbox.ask("homes", [Question(2, 4), Question(3, 5)]) == 1
    with pytest.raises(Conflict, match="about row 4"):
        mailbox.ask("homes", [Question(4, 6), Question(2, 5)])
    for wrong in ([], [Question(0, 1)], [Question(5, 6), Question(5, 7)], [Question(5, 12)]):
        with pytest.raises(InvalidInput):
            mailbox.ask("homes", wrong)
    with pytest.raises(InvalidInput, match="asked for once"):
        mailbox.ask("homes", [Question(5, 3)])
    assert [each.number for each in mailbox.questions("homes")] == [1, 2, 3]


def test_an_answer_does_not_change(mailbox: Tables, tmp_path: Path) -> None:
    mailbox.publish("homes", stored(tmp_path))
    mailbox.ask("homes", [Question(number, number) for number in (1, 2, 3)])
    first = Question(1, 1).answered(0.1 + 0.2)
    gone = Question(3, 3).answered(None)
    assert mailbox.answer("homes", [first, gone]) == 2
    assert mailbox.answer("homes", [first, gone]) == 0
    second = Question(2, 2).answered(5.0)
    for wrong in (
        Question(1, 1).answered(0.3),
        Question(1, 2).answered(0.1 + 0.2),
        Question(1, 1).answered(None),
        Question(3, 3).answered(1.0),
    ):
        with pytest.raises(Conflict, match="does not change"):
            mailbox.answer("homes", [second, wrong])
    with pytest.raises(Conflict):
        mailbox.answer("homes", [second, Question(2, 2).answered(6.0)])
    with pytest.raises(NotFound, match="there is no question"):
        mailbox.answer("homes", [second, Question(9, 9).answered(1.0)])
    assert mailbox.questions("homes", waiting=True) == [Question(2, 2)]
    assert mailbox.answers("homes") == [first, gone]
    assert mailbox.answers("homes", after=1) == [gone]
    assert mailbox.answer("homes", [second]) == 1
    assert mailbox.questions("homes", waiting=True) == []


def test_many_modelers_at_once_ask_each_question_once(mailbox: Tables, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    mailbox.publish("homes", stored(tmp_path))
    batches = [[Question(number, number)] for number in (1, 2, 3) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        new = list(pool.map(lambda batch: mailbox.ask("homes", batch), batches))
    assert sum(new) == 3


class TestRoutes:
    @pytest.fixture
    def client(self, tmp_path: Path) -> Iterator[httpx2.Client]:
        with served(tmp_path) as running:
            roles = ("curator", "modeler", "auditor")
            self.keys = {role: running.key(role, "homes") for role in roles}
            with httpx2.Client(base_url=running.url) as client:
                yield client

    def test_who_may_do_what(self, client: httpx2.Client, tmp_path: Path) -> None:
        table = stored(tmp_path)
        body = table.model_dump()
        question = {"questions": [{"question": 1, "row": 2}]}
        answer = {"answers": [{"question": 1, "row": 2, "answer": None}]}
        calls = [
            ("PUT", "", body, {"curator"}, 200),
            ("GET", "", None, {"curator", "modeler", "auditor"}, 200),
            ("POST", "/questions", question, {"modeler"}, 202),
            ("GET", "/questions?open=true", None, {"curator", "modeler"}, 200),
            ("POST", "/answers", answer, {"curator"}, 202),
            ("GET", "/answers", None, {"modeler"}, 200),
        ]
        for method, path, sent, roles, status in calls:
            for role, key in self.keys.items():
                headers = {"Authorization": f"Bearer {key}"}
                got = client.request(method, f"/v1/tables/homes{path}", json=sent, headers=headers)
                assert got.status_code == (status if role in roles else 403), (role, got.text)
                other = client.request(
                    method, f"/v1/tables/flats{path}", json=sent, headers=headers
                )
                assert other.status_code == 403
            assert client.request(method, f"/v1/tables/homes{path}", json=sent).status_code == 401
        assert Certificate.from_json(table.certificate).rows == 12
        modeler = {"Authorization": f"Bearer {self.keys['modeler']}"}
        assert client.get("/v1/tables/homes", headers=modeler).json() == body
        assert client.get("/v1/tables/homes/answers", headers=modeler).json() == answer["answers"]

    def test_what_is_malformed_is_refused(self, client: httpx2.Client) -> None:
        headers = {"Authorization": f"Bearer {self.keys['curator']}"}
        for body in (
            {"answers": [{"question": 1, "row": 2, "answer": "much"}]},
            {"answers": [{"question": True, "row": 2, "answer": 1.0}]},
            {"answers": [{"question": 2**40, "row": 2, "answer": 1.0}]},
            {"answers": [{"question": 1, "row": -1, "answer": 1.0}]},
            {"answers": []},
            {"answers": [{"question": 1, "row": 2}]},
            [],
        ):
            got = client.post("/v1/tables/homes/answers", json=body, headers=headers)
            assert got.status_code == 400, body
            assert "error" in got.json()
        table = {"certificate": "{}", "rows": "not base64!", "format": "csv"}
        got = client.put("/v1/tables/homes", json=table, headers=headers)
        assert got.status_code == 400
        assert "base64" in got.json()["error"]
