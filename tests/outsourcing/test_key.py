"""The key: what is damaged or older than what others have seen is refused, never replaced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Curator
from discreet.outsourcing.key import read_key
from discreet.outsourcing.questions import Question
from discreet.privacy import Outsourced
from discreet.validation import InvalidInput
from tests.learners.spy import Spy
from tests.outsourcing.cases import bounds, contents, release, table


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "key"


@pytest.fixture
def made(key: Path, tmp_path: Path) -> Certificate:
    """A release that others have seen, and an answer."""
    certificate = release(key)
    Curator(key).publish(certificate.release, tmp_path / "out")
    Curator(key).answer(certificate.release, [Question(1, 4)])
    return certificate


def refused(key: Path, certificate: Certificate, message: str, *, answers: bool = True) -> None:
    """Nothing is drawn, and nothing in the folder changes."""
    before = contents(key)
    spy = Spy(0)
    acts = [lambda: release(key, noise=spy), lambda: release(key, noise=spy, again=True)]
    if answers:
        acts = [lambda: Curator(key).answer(certificate.release, [Question(2, 5)])]  # type: ignore[list-item]
    for act in acts:
        with pytest.raises(InvalidInput, match=message):
            act()
    assert spy.given == []
    assert contents(key) == before


class TestRoundTrip:
    @pytest.mark.parametrize(
        "ids",
        [
            ["007", "7", "07"],
            ["1", "1.0", "1e0"],
            ["NA", "nan", "None"],
            ['say "hi"', "a,b", "x;y"],
            ["line\nbreak", "line", "break"],
            ["car\rriage", "ta\tb", "\\n"],
            ["Zoë", "日本", "🦆"],
            ["=1+1", "'quoted'", "#comment"],
        ],
    )
    def test_ids_come_back(self, key: Path, ids: list[str]) -> None:
        frame = table(3).assign(citizen=ids, expense=[0.1, 0.2, 0.3])
        certificate = release(key, frame)
        found = read_key(key)
        assert found is not None
        assert found.ids == tuple(sorted(ids))
        outcomes = dict(zip(ids, [0.1, 0.2, 0.3], strict=True))
        questions = [Question(1 + row, row) for row in range(3)]
        order = found.order(certificate.release)
        for answer in Curator(key).answer(certificate.release, questions):
            assert answer.value == outcomes[found.ids[order[answer.question.row]]]
        assert release(key, frame).release == certificate.release

    def test_outcomes_come_back_to_the_last_digit(self, key: Path) -> None:
        values = [*np.random.default_rng(0).normal(size=9) * 1e-7, 1e300, -0.0, 5e-324]
        release(key, table().assign(expense=values))
        found = read_key(key)
        assert found is not None
        assert found.outcomes is not None
        assert found.outcomes.tolist() == values

    def test_missing_outcomes_come_back(self, key: Path) -> None:
        release(key, table().assign(expense=[None, 3.0, *[None] * 10]))
        release(key.with_name("other"), table().assign(expense=[None] * 12))
        release(key.with_name("third"), public=bounds(outcome=None))
        counts = []
        for name in ("key", "other", "third"):
            found = read_key(key.with_name(name))
            assert found is not None
            counts.append(None if found.outcomes is None else int(np.isnan(found.outcomes).sum()))
        assert counts == [11, 12, None]


class TestDamage:
    def test_a_lost_key_file_is_not_a_new_beginning(self, key: Path, made: Certificate) -> None:
        """Else the same table would be released twice, each with a certificate of its own."""
        (key / "key.json").unlink()
        refused(key, made, "does not know of it")
        refused(key, made, "does not know of it", answers=False)

    def test_nor_is_a_key_file_from_an_older_copy(
        self, key: Path, made: Certificate, tmp_path: Path
    ) -> None:
        old = (key / "key.json").read_bytes()
        second = release(key, again=True, budget=Outsourced(1.0, 1e-5, 1.0))
        Curator(key).publish(second.release, tmp_path / "two")
        (key / "key.json").write_bytes(old)
        refused(key, made, f"{second.release} was given out")
        refused(key, made, "was given out", answers=False)

    def test_answers_without_a_key_file(self, key: Path, tmp_path: Path) -> None:
        made = release(key)
        Curator(key).answer(made.release, [Question(1, 4)])
        (key / "key.json").unlink()
        refused(key, made, "answers were given", answers=False)

    @pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", '{"kind": "curator key"}'])
    def test_a_damaged_key_file(self, key: Path, made: Certificate, content: str) -> None:
        (key / "key.json").write_text(content)
        refused(key, made, "damaged|not a key of schema|does not know")
        refused(key, made, "damaged|not a key of schema|does not know", answers=False)

    @pytest.mark.parametrize(
        ("field", "to"),
        [
            ("schema", 2),
            ("kind", "key"),
            ("bounds", {"columns": []}),
            ("bounds", None),
            ("releases", [{}]),
            ("releases", 5),
            ("people", "0" * 64),
        ],
    )
    def test_damaged_fields(self, key: Path, made: Certificate, field: str, to: object) -> None:
        file = key / "key.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), field: to}))
        refused(key, made, "damaged|changed|not a key of schema|at least one|does not know")

    def test_people_who_were_sorted_by_somebody(self, key: Path, made: Certificate) -> None:
        """Rows would belong to other people."""
        people = pd.read_csv(key / "people.csv")
        people.sort_values("outcome").to_csv(key / "people.csv", index=False)
        refused(key, made, r"people\.csv was changed")
        refused(key, made, r"people\.csv was changed", answers=False)

    @pytest.mark.parametrize(
        "order", [np.arange(11), np.zeros(12, dtype=int), np.arange(1, 13), np.ones((12, 1))]
    )
    def test_an_order_that_is_none(self, key: Path, made: Certificate, order: np.ndarray) -> None:
        np.save(key / made.release / "order.npy", order)
        refused(key, made, "does not name everybody once")

    @pytest.mark.parametrize("name", ["order.npy", "certificate.json"])
    @pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}", None])
    def test_damaged_files_of_a_release(
        self, key: Path, made: Certificate, name: str, content: bytes | None
    ) -> None:
        file = key / made.release / name
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        refused(key, made, "damaged|not the certificate")

    def test_the_certificate_of_another_release(
        self, key: Path, made: Certificate, tmp_path: Path
    ) -> None:
        release(tmp_path / "other", table(seed=1))
        found = read_key(tmp_path / "other")
        assert found is not None
        shutil.copy(found.folder / found.drawn[0].release / "certificate.json", key / made.release)
        refused(key, made, "belongs to another one")

    def test_a_release_that_was_edited(self, key: Path, made: Certificate, tmp_path: Path) -> None:
        with (key / made.release / "rows.csv").open("a") as file:
            file.write("12,0.0,0.0\n")
        with pytest.raises(InvalidInput, match="was changed"):
            Curator(key).publish(made.release, tmp_path / "two")
        assert not (tmp_path / "two").exists()

    @pytest.mark.parametrize("line", ["{}", "x", '{"release": 1}', "\xff", "[]"])
    def test_a_damaged_log(self, key: Path, made: Certificate, line: str) -> None:
        """Only a last line without an end was seen by nobody."""
        log = key / "answers.jsonl"
        log.write_bytes(line.encode("latin-1") + b"\n" + log.read_bytes())
        refused(key, made, "log of answers .* is damaged")


class TestLeftovers:
    def test_what_nobody_saw_is_taken_away(self, key: Path) -> None:
        made = release(key)
        crashed = key / ("ab" * 16)
        crashed.mkdir()
        (crashed / "rows.csv").write_text("row,a,b\n")
        draft = key / ".key.json.0badcafe.draft"
        draft.write_text("secret")
        assert release(key).release == made.release
        assert not crashed.exists()
        assert not draft.exists()

    def test_a_first_release_that_crashed_leaves_the_folder_usable(self, key: Path) -> None:
        key.mkdir()
        (key / ("ab" * 16)).mkdir()
        (key / ".people.csv.0badcafe.draft").write_text("secret")
        (key / "people.csv").write_text("id\nsomebody else\n")
        made = release(key)
        found = read_key(key)
        assert found is not None
        assert len(found.ids) == 12
        assert {path.name for path in key.iterdir()} == {
            ".lock",
            "key.json",
            "people.csv",
            made.release,
        }
