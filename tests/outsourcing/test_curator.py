"""The curator: what is proposed, and one draw for one wish, whatever is repeated or lost."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from discreet.outsourcing.bounds import PublicBounds
from discreet.outsourcing.curator import Allowed, Curator, Proposal
from discreet.outsourcing.exchange import Format, ReleasedTable
from discreet.outsourcing.key import state_of
from discreet.outsourcing.mechanisms import AnswerRules, Question
from discreet.privacy import Outsourced, SecureNoise, SimulatedNoise, Unprotected
from discreet.privacy.accounting import gaussian_epsilon
from discreet.validation import InvalidInput
from tests.outsourcing.cases import (
    BUDGET,
    PROTECTED,
    Untouchable,
    answers_to,
    ask,
    bounds,
    contents,
    everything,
    kept,
    order_of,
    publish,
    refused,
    release,
    table,
)

UNTOUCHED = Untouchable(7)
STRONG = replace(BUDGET, epsilon=20.0)


def proposed(key: Path, **wish: Any) -> Proposal:
    """A proposal whose noise cannot be drawn."""
    settings = {"seed": 7, "answers": PROTECTED, **wish}
    return Curator(key).propose(table(), bounds(), BUDGET, UNTOUCHED, **settings)


class TestProposals:
    @pytest.mark.parametrize("projected", [None, 1])
    def test_what_is_shown_is_what_is_promised(
        self, key: Path, tmp_path: Path, projected: int | None
    ) -> None:
        before = proposed(key, projected=projected)
        assert list(tmp_path.iterdir()) == []
        made = release(key, answers=PROTECTED, projected=projected)
        assert not before.drawn
        assert before.certificate.sentences == made.sentences
        assert before.certificate.mechanism.scale == pytest.approx(made.mechanism.scale)

    def test_nothing_is_written_beside_earlier_releases(self, key: Path, tmp_path: Path) -> None:
        made = release(key, answers=PROTECTED)
        before = everything(tmp_path)
        same = proposed(key)
        assert same.drawn
        assert same.certificate.to_json() == made.to_json()
        both = proposed(key, projected=1, allowed=Allowed(again=True))
        assert both.certificate.earlier == (made.mechanism,)
        assert everything(tmp_path) == before

    def test_a_draw_is_logged_once_and_without_rows(
        self, key: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG", logger="discreet")
        made = release(key)
        release(key)  # the same wish: nothing is drawn
        mechanism = made.mechanism
        assert [record.getMessage() for record in caplog.records] == [
            f"drew release {made.release}: 12 rows, Gaussian noise, scale {mechanism.scale:g}, "
            f"noise {mechanism.noise}"
        ]

    def test_what_changed_meanwhile_is_seen_when_it_is_drawn(self, key: Path) -> None:
        """Another process may release the table between a proposal and its draw."""
        first = Curator(key).propose(table(), bounds(), BUDGET, SimulatedNoise(7), seed=7)
        made = release(key)
        assert Curator(key).draw(first).release == made.release
        other = Curator(key.with_name("two"))
        late = other.propose(table(), bounds(), BUDGET, SimulatedNoise(8), seed=8)
        release(other.folder)
        with refused("released before"):
            other.draw(late)


class TestReleases:
    def test_rows_are_the_table_with_noise_in_a_secret_order(
        self, key: Path, tmp_path: Path
    ) -> None:
        made = release(key)
        publish(key, made, tmp_path / "out")
        arrived, order = ReleasedTable.read(tmp_path / "out"), order_of(key, made)
        assert sorted(order) == list(range(12)) != order.tolist()
        off = arrived.points - table()[["a", "b"]].to_numpy()[order]
        assert 0.3 * made.mechanism.scale < off.std() < 2.0 * made.mechanism.scale
        assert arrived.certificate.to_json() == made.to_json()

    def test_the_same_wish_gives_the_same_bytes_and_draws_nothing(
        self, key: Path, tmp_path: Path
    ) -> None:
        first = release(key)
        publish(key, first, tmp_path / "one")
        before = contents(key)
        # In any order of rows and columns; outcomes follow their people.
        shuffled = table().sample(frac=1.0, random_state=3)[["b", "expense", "a", "citizen"]]
        for frame in (table(), shuffled):
            assert release(key, frame, noise=UNTOUCHED).to_json() == first.to_json()
        publish(key, first, tmp_path / "two")
        assert contents(tmp_path / "two") == contents(tmp_path / "one")
        assert contents(key) == before
        apart = key.with_name("apart")
        made = release(apart, shuffled)
        outcomes = table()["expense"].to_numpy()[order_of(apart, made)]
        assert answers_to(apart, made, *range(12)) == outcomes.tolist()

    def test_a_lost_release_is_written_out_again(self, key: Path, tmp_path: Path) -> None:
        made, out = release(key), tmp_path / "out"
        assert publish(key, made, out)
        written = contents(out)
        assert not publish(key, made, out)
        (out / "rows.csv").write_text("row,a\n")
        assert publish(key, made, out)
        shutil.rmtree(out)
        out.mkdir()
        assert publish(key, made, out)
        assert contents(out) == written

    @pytest.mark.parametrize(
        "change",
        [
            {"budget": replace(BUDGET, epsilon=2.5)},
            {"budget": replace(BUDGET, delta=1e-6)},
            {"budget": replace(BUDGET, radius=None)},
            {"projected": 1},
            {"form": "parquet"},
            {"answers": AnswerRules(2)},
            {"seed": 8},
        ],
        ids=str,
    )
    def test_another_wish_is_refused_with_what_both_would_cost(
        self, key: Path, change: dict[str, Any]
    ) -> None:
        if "form" in change:
            pytest.importorskip("pyarrow")
        release(key)
        with refused("released before", key) as refusal:
            release(key, noise=UNTOUCHED, **change)
        # What would be promised is what is promised if it is done nevertheless.
        both = release(key, **change, allowed=Allowed(True, False, True))
        assert f"epsilon = {both.guarantee.epsilon:.3g}"[:-1] in str(refusal.value)
        assert both.guarantee.epsilon > both.alone.epsilon

    def test_new_releases_compose(self, key: Path, tmp_path: Path) -> None:
        made = [release(key)]
        for epsilon in (1.0, 3.0):
            made.append(release(key, budget=Outsourced(epsilon, 1e-5, 1.0), again=True))
        assert len({each.release for each in made}) == 3
        assert made[2].earlier == (made[0].mechanism, made[1].mechanism)
        total = math.sqrt(sum(each.mechanism.event(1.0).noise_multiplier ** -2 for each in made))
        expected = gaussian_epsilon(1.0 / total, 1e-5)
        assert made[2].guarantee.epsilon == pytest.approx(expected)
        # The earlier ones stay available.
        assert release(key, noise=UNTOUCHED).release == made[0].release
        assert publish(key, made[0], tmp_path / "out")

    def test_noise_and_order_of_a_new_release_are_new(self, key: Path, tmp_path: Path) -> None:
        first, second = release(key, seed=1), release(key, seed=2, again=True)
        for name, made in (("one", first), ("two", second)):
            publish(key, made, tmp_path / name)
        one, two = (ReleasedTable.read(tmp_path / name).points for name in ("one", "two"))
        assert order_of(key, first).tolist() != order_of(key, second).tolist()
        assert not np.isin(one, two).any()

    @pytest.mark.chance(0)
    def test_a_folder_with_another_release_of_the_table_is_not_replaced(
        self, key: Path, tmp_path: Path
    ) -> None:
        """It may be what this command drew when it was cut short."""
        pytest.importorskip("opendp")
        made = release(key, noise=SecureNoise(), seed=None)
        publish(key, made, tmp_path / "one")
        again = Allowed(again=True)
        proposal = Curator(key).propose(table(), bounds(), BUDGET, SecureNoise(), allowed=again)
        with pytest.raises(InvalidInput, match="the folder has it, and nothing is left to do"):
            Curator(key).check_out(proposal, tmp_path / "one")
        Curator(key).check_out(proposal, tmp_path / "two")

    def test_a_new_release_that_nobody_has_seen_is_not_drawn_again(
        self, key: Path, tmp_path: Path
    ) -> None:
        publish(key, release(key), tmp_path / "one")
        second = release(key, again=True)
        # Stopped before it was written out: the same command means the same release.
        assert release(key, again=True).release == second.release
        publish(key, second, tmp_path / "two")
        third = release(key, again=True)
        assert third.release != second.release
        assert len(third.earlier) == 2
        # And without the wish for a new one, the last of this wish.
        assert release(key).release == third.release

    def test_parquet(self, key: Path, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        publish(key, release(key, form="parquet"), tmp_path / "out")
        other = tmp_path / "other"
        publish(other, release(other), tmp_path / "csv")
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
        assert ask(key, made, 3) == ask(key, made, 3)

    @pytest.mark.parametrize("projected", [None, 1])
    def test_other_data_with_the_same_chance_give_the_same_certificate(
        self, tmp_path: Path, projected: int | None
    ) -> None:
        """All facts but the name, which is chance, and the digest of what was drawn."""
        facts, names = [], set()
        for place, frame in enumerate([table(), table(seed=1), table().assign(a=0.0, expense=0.0)]):
            made = release(tmp_path / f"key{place}", frame, projected=projected, answers=PROTECTED)
            names.add(made.release)
            facts.append({**json.loads(made.to_json()), "release": "", "sha256": ""})
        assert facts[0] == facts[1] == facts[2]
        assert len(names) == 3


class TestNothingSecretLeaves:
    @pytest.mark.parametrize(("form", "projected"), [("csv", None), ("csv", 2), ("parquet", None)])
    def test_nothing_secret_is_in_the_release(
        self, key: Path, tmp_path: Path, form: Format, projected: int | None
    ) -> None:
        if form == "parquet":
            pytest.importorskip("pyarrow")
        frame, out = table(30), tmp_path / "out"
        made = release(key, frame, projected=projected, form=form, seed=424242)
        publish(key, made, out)
        ask(key, made, 1, 2, 3)
        secrets: list[bytes] = [b"citizen", b"expense", b"Secret", b"Mrs", b"424242"]
        secrets += [kept(key).roster.fingerprint.encode(), str(tmp_path).encode()]
        order = order_of(key, made)
        secrets += [order.tobytes(), order.astype(np.int32).tobytes(), str(order.tolist()).encode()]
        for value in frame[["a", "b", "expense"]].to_numpy().ravel():
            secrets += [repr(float(value)).encode(), np.float64(value).tobytes()]
        public = b"".join(contents(out).values())
        assert sorted(contents(out)) == ["certificate.json", f"rows.{form}"]
        assert not [secret for secret in secrets if secret in public]
        # The search for secrets finds them where they are.
        inside = b"".join(contents(key).values())
        assert all(secret in inside for secret in (b"Mrs Secret-0003", b"424242", b"expense"))

    @pytest.mark.parametrize(("mask", "file", "folder"), [(0, 0o666, 0o777), (0o027, 0o640, 0o750)])
    def test_only_the_owner_can_read_the_key(
        self, key: Path, tmp_path: Path, mask: int, file: int, folder: int
    ) -> None:
        def mode(path: Path) -> int:
            return stat.S_IMODE(path.stat().st_mode)

        before = os.umask(mask)
        try:
            made = release(key, answers=PROTECTED)
            publish(key, made, tmp_path / "out")
            ask(key, made, 1)
        finally:
            assert os.umask(before) == mask
        for path in [key, *key.rglob("*")]:
            assert mode(path) == (0o700 if path.is_dir() else 0o600), path
        # What is for others has the permissions that the user's umask leaves.
        assert (mode(tmp_path / "out" / "rows.csv"), mode(tmp_path / "out")) == (file, folder)


class TestRefusals:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"a": [math.nan, *[1.0] * 11]}, "no value in 1 of 12"),
            ({"a": [11.0, *[1.0] * 11]}, "outside its declared bounds"),
            ({"a": ["high", *[1.0] * 11]}, "held text"),
            ({"citizen": ["x"] * 12}, "12 times"),
            ({"citizen": [None, *map(str, range(11))]}, "is empty in row 2"),
            ({"citizen": ["x", " x", *map(str, range(10))]}, "2 times"),
            ({"citizen": [*map(str, range(11)), "  "]}, "is empty in row 13"),
            ({"expense": [math.inf, *[1.0] * 11]}, "is infinite"),
            ({"expense": ["dear", *[1.0] * 11]}, "held text"),
            ("a", "'a' is not in the table"),
            ("citizen", "'citizen' is not in the table"),
            ("expense", "'expense' is not in the table"),
            (None, "no rows"),
        ],
    )
    def test_tables(
        self, key: Path, tmp_path: Path, change: dict[str, Any] | str | None, message: str
    ) -> None:
        frame = table(0 if change is None else 12)
        if isinstance(change, dict):
            frame = frame.assign(**change)
        elif change:
            frame = frame.drop(columns=change)
        with refused(message, tmp_path):
            release(key, frame, noise=UNTOUCHED)

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
            # What is hardly ever meant must be asked for by name.
            ({"budget": replace(BUDGET, delta=0.09)}, r"above 1 / 12 = 0\.083 .*--allow-large-d"),
            ({"answers": AnswerRules(1, 1.0, 0.2, (0.0, 10.0))}, "the delta of the answers was"),
            ({"budget": replace(BUDGET, epsilon=1e9)}, r"protects no one.*--protects-nobody"),
            ({"answers": AnswerRules(1, 80.0, 1e-6, (0.0, 10.0))}, "protects no one"),
        ],
    )
    def test_wishes(self, key: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        with refused(message, tmp_path):
            release(key, **{"noise": UNTOUCHED, **change})

    def test_what_is_asked_for_by_name_is_done_and_said(self, key: Path, tmp_path: Path) -> None:
        large = replace(BUDGET, delta=0.09)  # 1 / 12 = 0.083
        made = release(key, budget=large, allowed=Allowed(large_delta=True))
        assert any("above 1 / 12" in sentence for sentence in made.sentences)
        # What was drawn is given without the word, as nothing is decided any more.
        assert release(key, budget=large).release == made.release
        assert not any("above 1 /" in each for each in release(tmp_path / "other").sentences)
        rules = AnswerRules(1, 1.0, 0.2, (0.0, 10.0))
        release(tmp_path / "answers", answers=rules, allowed=Allowed(large_delta=True))
        huge = replace(BUDGET, epsilon=1e9)
        made = release(tmp_path / "huge", budget=huge, allowed=Allowed(protects_nobody=True))
        assert made.sentences[0].startswith("This protects no one (epsilon = 1")
        assert "10^" not in " ".join(made.sentences)

    def test_many_releases_that_protect_nobody_together(self, key: Path) -> None:
        """Each alone is within the limit; what counts is the promise of all together."""
        release(key, budget=STRONG)
        with refused("above 30 it protects no one"):
            release(key, budget=replace(STRONG, epsilon=19.0), noise=UNTOUCHED, again=True)

    def test_secure_noise_with_a_seed(self, key: Path, tmp_path: Path) -> None:
        """Or answers would be simulated under a certificate that calls them secure."""
        pytest.importorskip("opendp")
        with refused(r"SecureNoise\(\) and no seed", tmp_path):
            release(key, noise=SecureNoise(), seed=3, answers=PROTECTED)

    @pytest.mark.parametrize(
        ("frame", "public", "message"),
        [
            (table(seed=1), bounds(), "belongs to another table"),
            (table(13), bounds(), "belongs to another table"),
            (table().assign(citizen=list("abcdefghijkl")), bounds(), "belongs to another table"),
            (table().replace({"a": table()["a"][3]}, 0.5), bounds(), "belongs to another table"),
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
        with refused(message, key):
            release(key, frame, public=public, noise=UNTOUCHED, again=again)

    @pytest.mark.parametrize(
        ("change", "counts"),
        [
            ({0: 3.25}, "1 of 12 outcomes are .*1 changed, 0 new, 0 now empty"),
            ({0: None, 5: 1.0}, "2 of 12 outcomes are .*1 changed, 0 new, 1 now empty"),
            ({11: 2.0}, "1 of 12 outcomes are .*0 changed, 1 new, 0 now empty"),
        ],
    )
    @pytest.mark.parametrize("again", [False, True])
    def test_outcomes_that_changed_are_refused_with_how_many_and_what_to_do(
        self, key: Path, tmp_path: Path, change: dict[int, float | None], counts: str, again: bool
    ) -> None:
        frame = table()
        frame.loc[11, "expense"] = None
        made = release(key, frame)
        publish(key, made, tmp_path / "out")
        other = frame.copy()
        for row, value in change.items():
            other.loc[row, "expense"] = value
        with refused(f"{counts}.*--outcomes TABLE", tmp_path) as refusal:
            release(key, other, noise=UNTOUCHED, again=again)
        # How many, not which: nobody is named.
        assert "Secret-" not in str(refusal.value)
        # The table as it was gives what was drawn, and the advice works.
        assert release(key, frame).release == made.release
        first = next(iter(change))
        row = order_of(key, made).tolist().index(first)
        new = other.loc[[first], ["citizen", "expense"]]
        (answer,) = answers_to(key, made, row, outcomes=new)
        assert answer == (None if new["expense"].isna().all() else new["expense"].iloc[0])


class TestFolders:
    @pytest.mark.chance(0)
    def test_simulated_and_real_releases_stand_apart(self, tmp_path: Path) -> None:
        pytest.importorskip("opendp")
        tried, real, out = (tmp_path / name for name in ("tried", "real", "out"))
        publish(tried, release(tried), out)
        made = release(real, noise=SecureNoise(), seed=None)
        for again in (False, True):
            with refused("belongs to simulated releases", tmp_path):
                release(tried, noise=SecureNoise(), seed=None, again=again)
            with refused("belongs to real releases", tmp_path):
                release(real, again=again)
        # A real release replaces a simulated one, and nothing replaces a real one.
        assert publish(real, made, out)
        with refused("holds something other", out):
            publish(tried, release(tried), out)
        with refused("holds something other", out):
            publish(real, release(real, noise=SecureNoise(), seed=None, again=True), out)
        assert ReleasedTable.read(out).certificate.release == made.release

    @pytest.mark.parametrize("name", ["rows.csv", "notes.txt"])
    def test_a_release_does_not_overwrite_other_things(self, tmp_path: Path, name: str) -> None:
        """Not even beside a simulated release, which may be replaced."""
        tried, out, other = tmp_path / "tried", tmp_path / "out", tmp_path / "two"
        publish(tried, release(tried), out)
        (out / name).write_text("ten years of work")
        made = release(other, budget=replace(BUDGET, epsilon=1.0))
        with refused("holds something other", out):
            publish(other, made, out)

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
            with refused(message):
                publish(key, made, out)
        for name in ("f" * 32, "../key"):
            with refused("is not one of the 1"):
                Curator(key).publish(name, tmp_path / "out")

    def test_the_working_folder_itself(
        self, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made, out = release(key), tmp_path / "out"
        out.mkdir()
        monkeypatch.chdir(out)
        assert publish(key, made, Path())
        assert ReleasedTable.read(out).certificate.release == made.release

    def test_a_key_is_not_made_among_other_things(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("x")
        for key, message in (
            (tmp_path, "other things and no key"),
            (tmp_path / "thesis.txt", "is a file"),
            (tmp_path / "no" / "key", "does not exist"),
        ):
            with refused(message, tmp_path):
                release(key)

    def test_things_of_the_users_in_the_key_folder_stay(self, key: Path) -> None:
        release(key)
        (key / "note.txt").write_text("mine")
        release(key, again=True, budget=Outsourced(1.0, 1e-5, 1.0))
        assert (key / "note.txt").read_text() == "mine"

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

    def test_no_key(self, key: Path, tmp_path: Path) -> None:
        for act in (
            lambda: Curator(key).answer("f" * 32, [Question(1, 0)]),
            lambda: Curator(key).publish("f" * 32, tmp_path / "out"),
            lambda: Curator(key).outcome_columns(),
        ):
            with refused("there is no key", tmp_path):
                act()
