"""The curator: one draw for one wish, whatever is repeated, lost or damaged meanwhile."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.outsourcing.answers import AnswerRules, Question
from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Allowed, Curator
from discreet.outsourcing.exchange import Format, ReleasedTable
from discreet.outsourcing.key import read_key, state_of
from discreet.privacy import Outsourced, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import InvalidInput
from tests.learners.spy import Spy
from tests.outsourcing.cases import BUDGET, PROTECTED, bounds, contents, release, table


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "key"


def publish(key: Path, certificate: Certificate, out: Path) -> bool:
    return Curator(key).publish(certificate.release, out)


def ask(key: Path, certificate: Certificate, *rows: int, first: int = 1) -> list[Question]:
    """Answers to questions about rows, numbered from `first`."""
    questions = [Question(first + i, row) for i, row in enumerate(rows)]
    return Curator(key).answer(certificate.release, questions)


def person(key: Path, certificate: Certificate, row: int) -> int:
    """Which of the people, in the order of their ids, a released row is."""
    found = read_key(key)
    assert found is not None
    return int(found.find(certificate.release).order[row])


def outcome_of(key: Path, certificate: Certificate, row: int) -> float:
    return float(table()["expense"][person(key, certificate, row)])


class TestReleases:
    def test_rows_are_the_table_with_noise_in_a_secret_order(
        self, key: Path, tmp_path: Path
    ) -> None:
        made = release(key)
        publish(key, made, tmp_path / "out")
        found = ReleasedTable.read(tmp_path / "out")
        order = [person(key, made, row) for row in range(12)]
        assert sorted(order) == list(range(12))
        assert order != list(range(12))
        off = found.points - table()[["a", "b"]].to_numpy()[order]
        assert 0.3 * made.mechanism.scale < off.std() < 2.0 * made.mechanism.scale
        assert found.certificate.to_json() == made.to_json()

    def test_the_same_wish_gives_the_same_bytes_and_draws_nothing(
        self, key: Path, tmp_path: Path
    ) -> None:
        first = release(key)
        publish(key, first, tmp_path / "one")
        before = contents(key)
        spy = Spy(99)
        again = release(key, noise=spy)
        publish(key, again, tmp_path / "two")
        assert spy.given == []
        assert again.to_json() == first.to_json()
        assert contents(tmp_path / "two") == contents(tmp_path / "one")
        assert contents(key) == before

    def test_a_lost_release_is_written_out_again(self, key: Path, tmp_path: Path) -> None:
        made = release(key)
        out = tmp_path / "out"
        assert publish(key, made, out)
        written = contents(out)
        assert not publish(key, made, out)
        (out / "rows.csv").write_text("row,a\n")
        assert publish(key, made, out)
        assert contents(out) == written
        shutil.rmtree(out)
        out.mkdir()
        assert publish(key, made, out)
        assert contents(out) == written

    def test_a_table_is_known_in_any_order_of_rows_and_columns(self, key: Path) -> None:
        made = release(key)
        shuffled = table().sample(frac=1.0, random_state=3)[["b", "expense", "a", "citizen"]]
        spy = Spy(1)
        assert release(key, shuffled, noise=spy).release == made.release
        assert spy.given == []

    def test_outcomes_follow_their_people_in_any_order(self, key: Path) -> None:
        shuffled = table().sample(frac=1.0, random_state=3)
        made = release(key, shuffled)
        for answer in ask(key, made, *range(12)):
            assert answer.answer == outcome_of(key, made, answer.row)

    @pytest.mark.parametrize(
        "change",
        [
            {"budget": replace(BUDGET, epsilon=2.5)},
            {"budget": replace(BUDGET, delta=1e-6)},
            {"budget": replace(BUDGET, radius=None)},
            {"projected": 1},
            {"answers": AnswerRules(2)},
            {"seed": 8, "noise": Spy(8)},
        ],
    )
    def test_another_wish_is_refused_with_what_both_would_cost(
        self, key: Path, change: dict
    ) -> None:
        release(key)
        before = contents(key)
        spy = change.pop("noise", None) or Spy(7)
        with pytest.raises(InvalidInput, match="released before") as refusal:
            release(key, **{"noise": spy, **change})
        assert spy.given == []
        assert contents(key) == before
        # What would be promised is what is promised if it is done nevertheless.
        both = release(key, **{"noise": Spy(7), **change}, allowed=Allowed(True, False, True))
        assert f"epsilon = {both.guarantee.epsilon:.3g}"[:-1] in str(refusal.value)
        assert both.guarantee.epsilon > both.alone.epsilon

    def test_new_releases_compose(self, key: Path) -> None:
        made = [release(key)]
        for epsilon in (1.0, 3.0):
            made.append(release(key, budget=Outsourced(epsilon, 1e-5, 1.0), again=True))
        assert [len(one.earlier) for one in made] == [0, 1, 2]
        assert made[2].earlier == (made[0].mechanism, made[1].mechanism)
        assert len({one.release for one in made}) == 3
        total = math.sqrt(sum((one.mechanism.event(1.0).noise_multiplier) ** -2 for one in made))
        expected = gaussian_epsilon(1.0 / total, 1e-5)
        assert made[2].guarantee.epsilon == pytest.approx(expected)

    def test_noise_and_order_of_a_new_release_are_new(self, key: Path, tmp_path: Path) -> None:
        first = release(key, noise=SimulatedNoise(1), seed=1)
        publish(key, first, tmp_path / "one")
        second = release(key, noise=SimulatedNoise(2), seed=2, again=True)
        publish(key, second, tmp_path / "two")
        one, two = (ReleasedTable.read(tmp_path / name).points for name in ("one", "two"))
        orders = [[person(key, made, row) for row in range(12)] for made in (first, second)]
        assert orders[0] != orders[1]
        assert not np.isin(one, two).any()

    def test_a_new_release_that_nobody_has_seen_is_not_drawn_again(
        self, key: Path, tmp_path: Path
    ) -> None:
        first = release(key)
        publish(key, first, tmp_path / "one")
        second = release(key, again=True)
        # Stopped before it was written out: the same command means the same release.
        assert release(key, again=True).release == second.release
        publish(key, second, tmp_path / "two")
        third = release(key, again=True)
        assert third.release != second.release
        assert len(third.earlier) == 2
        # And without the wish for a new one, the last of this wish.
        assert release(key).release == third.release

    def test_earlier_releases_stay_available(self, key: Path, tmp_path: Path) -> None:
        first = release(key)
        publish(key, first, tmp_path / "one")
        release(key, budget=Outsourced(1.0, 1e-5, 1.0), again=True)
        assert release(key).release == first.release
        publish(key, first, tmp_path / "copy")
        assert contents(tmp_path / "copy") == contents(tmp_path / "one")

    def test_parquet(self, key: Path, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        made = release(key, form="parquet")
        publish(key, made, tmp_path / "out")
        release(tmp_path / "other")
        publish(tmp_path / "other", release(tmp_path / "other"), tmp_path / "csv")
        assert sorted(contents(tmp_path / "out")) == ["certificate.json", "rows.parquet"]
        np.testing.assert_array_equal(
            ReleasedTable.read(tmp_path / "out").points, ReleasedTable.read(tmp_path / "csv").points
        )

    @pytest.mark.chance(0)
    def test_secure_noise(self, key: Path, tmp_path: Path) -> None:
        pytest.importorskip("opendp")
        made = release(key, noise=SecureNoise(), seed=None, answers=PROTECTED)
        publish(key, made, tmp_path / "out")
        assert ReleasedTable.read(tmp_path / "out").certificate.to_json() == made.to_json()
        assert made.guarantee.noise == (SecureNoise.name,)
        assert made.guarantee.epsilon <= BUDGET.epsilon * (1.0 + 1e-9)
        (answer,) = ask(key, made, 3)
        assert answer.answer is not None
        assert ask(key, made, 3) == [answer]


class TestWhatTheMechanismMayDependOn:
    @pytest.mark.parametrize("projected", [None, 1])
    def test_other_data_with_the_same_chance_give_the_same_certificate(
        self, tmp_path: Path, projected: int | None
    ) -> None:
        """All facts but the name and the digest of what was drawn."""
        frames = [table(), table(seed=1), table().assign(a=0.0, b=10.0, expense=0.0)]
        found = []
        for place, frame in enumerate(frames):
            made = release(tmp_path / f"key{place}", frame, projected=projected, answers=PROTECTED)
            fields = json.loads(made.to_json())
            del fields["release"], fields["sha256"]
            found.append(fields)
        assert found[0] == found[1] == found[2]

    def test_names_of_files_and_releases_tell_nothing(self, tmp_path: Path) -> None:
        made = [release(tmp_path / f"key{i}") for i in range(5)]
        names = {one.release for one in made}
        # Chance, not the table or the seed.
        assert len(names) == 5
        for place, one in enumerate(made):
            publish(tmp_path / f"key{place}", one, tmp_path / f"out{place}")
            assert sorted(contents(tmp_path / f"out{place}")) == ["certificate.json", "rows.csv"]


class TestNothingSecretLeaves:
    @pytest.mark.parametrize("form", ["csv", "parquet"])
    @pytest.mark.parametrize("projected", [None, 2])
    def test_nothing_secret_is_in_the_release(
        self, key: Path, tmp_path: Path, form: Format, projected: int | None
    ) -> None:
        if form == "parquet":
            pytest.importorskip("pyarrow")
        frame = table(30)
        made = release(key, frame, projected=projected, form=form, seed=424242)
        out = tmp_path / "out"
        publish(key, made, out)
        ask(key, made, 1, 2, 3)
        found = read_key(key)
        assert found is not None
        secrets: list[bytes] = [b"citizen", b"expense", b"Secret", b"Mrs", b"424242"]
        secrets += [found.roster.fingerprint.encode(), str(tmp_path).encode()]
        order = found.find(made.release).order
        secrets += [order.tobytes(), order.astype(np.int32).tobytes(), str(order.tolist()).encode()]
        for column in ("a", "b", "expense"):
            for value in frame[column]:
                secrets += [repr(float(value)).encode(), np.float64(value).tobytes()]
        everything = b"".join(contents(out).values())
        for name in [path.name for path in out.rglob("*")]:
            everything += name.encode()
        for secret in secrets:
            assert secret not in everything, secret
        # The search for secrets finds them where they are.
        inside = b"".join(contents(key).values())
        assert all(one in inside for one in (b"Mrs Secret-0003", b"424242", b"expense"))

    def test_only_the_owner_can_read_the_key(self, key: Path, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            made = release(key, answers=PROTECTED)
            publish(key, made, tmp_path / "out")
            ask(key, made, 1)
        finally:
            os.umask(before)
        for path in [key, *key.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), path
        # What is for others has the permissions that the user's umask leaves.
        assert stat.S_IMODE((tmp_path / "out" / "rows.csv").stat().st_mode) == 0o666

    def test_the_umask_is_respected_and_left_alone(self, key: Path, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            publish(key, release(key), tmp_path / "out")
            assert os.umask(0o027) == 0o027
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "out" / "rows.csv").stat().st_mode) == 0o640
        assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o750


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"a": [math.nan, *[1.0] * 11]}, "no value in 1 of 12"),
            ({"a": [11.0, *[1.0] * 11]}, "outside its declared bounds"),
            ({"a": ["high", *[1.0] * 11]}, "held text"),
            ({"citizen": ["x"] * 12}, "12 times"),
            ({"citizen": [None, *map(str, range(11))]}, "is empty in row 0"),
            ({"citizen": ["x", " x", *map(str, range(10))]}, "2 times"),
            ({"citizen": [*map(str, range(11)), "  "]}, "is empty in row 11"),
            ({"expense": [math.inf, *[1.0] * 11]}, "is infinite"),
            ({"expense": ["dear", *[1.0] * 11]}, "held text"),
        ],
    )
    def test_tables(
        self, key: Path, tmp_path: Path, change: dict[str, list[object]], message: str
    ) -> None:
        spy = Spy(0)
        with pytest.raises(InvalidInput, match=message):
            release(key, table().assign(**change), noise=spy)
        assert list(tmp_path.iterdir()) == []
        assert spy.given == []

    @pytest.mark.parametrize("column", ["a", "citizen", "expense"])
    def test_columns_that_are_not_there(self, key: Path, tmp_path: Path, column: str) -> None:
        with pytest.raises(InvalidInput, match=f"'{column}' is not in the table"):
            release(key, table().drop(columns=column))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"projected": 3}, "number of projected columns"),
            ({"projected": 1.5}, "number of projected columns"),
            ({"seed": None}, "with the seed None"),
            ({"noise": Unprotected(), "seed": 1}, "the noise was none"),
            ({"noise": Unprotected(), "seed": None}, "the noise was none"),
            ({"answers": AnswerRules(1, 1.0, 0.1, (3.0, 1.0))}, "must be below"),
            ({"answers": AnswerRules(1, 1.0, 0.1, (-1e308, 1e308))}, "must be below"),
        ],
    )
    def test_wishes(
        self, key: Path, tmp_path: Path, change: dict[str, object], message: str
    ) -> None:
        with pytest.raises(InvalidInput, match=message):
            release(key, **change)  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_table(self, key: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="no rows"):
            release(key, table(0))
        assert list(tmp_path.iterdir()) == []

    def test_secure_noise_with_a_seed(self, key: Path, tmp_path: Path) -> None:
        """Or answers would be simulated under a certificate that calls them secure."""
        pytest.importorskip("opendp")
        with pytest.raises(InvalidInput, match=r"SecureNoise\(\) and no seed"):
            release(key, noise=SecureNoise(), seed=3, answers=PROTECTED)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"repeats": 0}, "repeats was 0"),
            ({"repeats": 1.0}, "repeats was 1.0"),
            ({"epsilon": 1.0}, "protected answers need all three"),
            ({"epsilon": 1.0, "delta": 0.1}, "need all three"),
            ({"bounds": (0.0, 1.0)}, "need all three"),
            ({"epsilon": -1.0, "delta": 0.1, "bounds": (0.0, 1.0)}, "epsilon of answers was -1"),
            ({"epsilon": 1.0, "delta": 1.0, "bounds": (0.0, 1.0)}, "delta of answers was 1"),
            ({"epsilon": 1.0, "delta": 0.1, "bounds": (0.0, math.nan)}, "bound of answers was nan"),
        ],
    )
    def test_rules_for_answers(self, change: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            AnswerRules(**change)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("frame", "public", "message"),
        [
            (table(seed=1), bounds(), "belongs to another table"),
            (table(13), bounds(), "belongs to another table"),
            (table().assign(citizen=list("abcdefghijkl")), bounds(), "belongs to another table"),
            (table(), bounds(width=11.0), "made with other bounds"),
            (table(), bounds(columns=1), "made with other bounds"),
            (table(), bounds(outcome=None), "made with other bounds"),
        ],
    )
    @pytest.mark.parametrize("again", [False, True])
    def test_the_key_of_another_table(
        self, key: Path, frame: pd.DataFrame, public: PublicBounds, message: str, again: bool
    ) -> None:
        release(key)
        before = contents(key)
        spy = Spy(0)
        with pytest.raises(InvalidInput, match=message):
            release(key, frame, public=public, noise=spy, again=again)
        assert spy.given == []
        assert contents(key) == before

    def test_one_value_that_changed_makes_another_table(self, key: Path) -> None:
        release(key)
        changed = table()
        changed.loc[3, "a"] += 1e-4
        with pytest.raises(InvalidInput, match="belongs to another table"):
            release(key, changed)


class TestFolders:
    @pytest.mark.chance(0)
    def test_a_release_does_not_overwrite_other_things(self, key: Path, tmp_path: Path) -> None:
        pytest.importorskip("opendp")
        made = release(key, noise=SecureNoise(), seed=None)
        out = tmp_path / "out"
        out.mkdir()
        (out / "thesis.txt").write_text("ten years of work")
        with pytest.raises(InvalidInput, match="holds something other"):
            publish(key, made, out)
        assert contents(out) == {"thesis.txt": b"ten years of work"}
        publish(key, made, tmp_path / "other")
        second = release(key, noise=SecureNoise(), seed=None, again=True)
        with pytest.raises(InvalidInput, match="holds something other"):
            publish(key, second, tmp_path / "other")
        assert ReleasedTable.read(tmp_path / "other").certificate.release == made.release

    def test_where_a_release_cannot_go(self, key: Path, tmp_path: Path) -> None:
        made = release(key)
        (tmp_path / "file").write_text("x")
        for out, message in (
            (tmp_path / "file", "is a file"),
            (tmp_path / "no" / "out", "does not exist"),
            (key, "inside the other"),
            (key / "out", "inside the other"),
            (tmp_path, "inside the other"),
        ):
            with pytest.raises(InvalidInput, match=message):
                publish(key, made, out)
        with pytest.raises(InvalidInput, match="is not one of the 1"):
            Curator(key).publish("f" * 32, tmp_path / "out")
        with pytest.raises(InvalidInput, match="is not one of the 1"):
            Curator(key).publish("../key", tmp_path / "out")

    def test_the_working_folder_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = release(tmp_path / "key")
        out = tmp_path / "out"
        out.mkdir()
        monkeypatch.chdir(out)
        assert Curator(tmp_path / "key").publish(made.release, ".")
        assert ReleasedTable.read(out).certificate.release == made.release

    def test_a_key_is_not_made_among_other_things(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("x")
        with pytest.raises(InvalidInput, match="other things and no key"):
            release(tmp_path)
        with pytest.raises(InvalidInput, match="is a file"):
            release(tmp_path / "thesis.txt")
        with pytest.raises(InvalidInput, match="does not exist"):
            release(tmp_path / "no" / "key")
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_things_of_the_users_in_the_key_folder_stay(self, key: Path) -> None:
        release(key)
        (key / "backup").mkdir()
        (key / "backup" / "note.txt").write_text("mine")
        release(key)
        release(key, again=True, budget=Outsourced(1.0, 1e-5, 1.0))
        assert (key / "backup" / "note.txt").read_text() == "mine"

    def test_one_process_at_a_time(self, key: Path, tmp_path: Path) -> None:
        made = release(key)
        with state_of(key).changing():
            for act in (
                lambda: release(key),
                lambda: publish(key, made, tmp_path / "out"),
                lambda: ask(key, made, 1),
            ):
                with pytest.raises(InvalidInput, match="another process"):
                    act()
        assert publish(key, made, tmp_path / "out")

    def test_no_key(self, key: Path) -> None:
        for act in (
            lambda: Curator(key).answer("f" * 32, [Question(1, 0)]),
            lambda: Curator(key).publish("f" * 32, key.parent / "out"),
            lambda: Curator(key).outcome_columns(),
        ):
            with pytest.raises(InvalidInput, match="there is no key"):
                act()
        assert not key.exists()
