"""`discreet curate`, `discreet curate answer` and `discreet model`, as two parties meet them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.cli.model import _ACQUISITIONS
from discreet.outsourcing.modeler import ACQUISITIONS
from tests.outsourcing.cases import contents, counted

runner = CliRunner()

BOUNDS = """
id = "patient"
outcome = "cost"
radius = 0.5

[columns.age]
lower = 18
upper = 90
scale = 10

[columns.weight]
lower = 40
upper = 140
scale = 20
outside = "clip"
"""
WISH = ("--epsilon", 4, "--delta", 1e-5, "--simulate", 3)


def invoke(*arguments: object) -> tuple[int, str, str]:
    """Exit code, and what was printed with line breaks taken out."""
    result = runner.invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())


def done(end: tuple[int, str, str]) -> str:
    """What was printed by a command that did what it was asked."""
    code, out, err = end
    assert (code, err) == (0, "")
    return out


def refused(end: tuple[int, str, str], *messages: str) -> None:
    """A command that refused what it was asked, in these words."""
    code, out, err = end
    assert (code, out) == (2, "")
    assert all(message in err for message in messages), err


def patients(count: int = 25) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "patient": [f"{number:05d}" for number in range(count)],
            "age": rng.integers(18, 90, count),
            "weight": rng.uniform(45.0, 150.0, count).round(1),
        }
    )
    return frame.assign(cost=100.0 - 0.02 * (frame["age"] - 50.0) ** 2)


def begin() -> None:
    """A table and its bounds, here."""
    patients().to_csv("patients.csv", index=False)
    Path("bounds.toml").write_text(BOUNDS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a table and its bounds."""
    monkeypatch.chdir(tmp_path)
    begin()
    return tmp_path


def curate(*options: object, table: object = "patients.csv") -> tuple[int, str, str]:
    return invoke("curate", table, "--bounds", "bounds.toml", *WISH, "--out", "release", *options)


def model(*options: object) -> tuple[int, str, str]:
    wish = ("--rounds", 9, "--batch", 3, "--ask", "ask.csv", "--tell", "answers.csv")
    return invoke("model", "release", *wish, *options)


def answer(*options: object) -> tuple[int, str, str]:
    return invoke("curate", "answer", "ask.csv", "--out", "answers.csv", *options)


class TestRelease:
    def test_what_is_written_and_said(self, folder: Path) -> None:
        code, out, err = curate()
        assert (code, err) == (0, "")
        for words in (
            "written to release",
            "25 rows in a random order; age, weight; noise of",
            "% of the width of its bounds",
            "epsilon = 4, delta = 1e-05",
            "within distance 0.5",
            "this run protects no one",
            "Answers are not protected",
            "Keep release and key-simulated to yourself",
        ):
            assert words in out
        assert sorted(contents(folder / "release")) == ["certificate.json", "rows.csv"]
        rows = pd.read_csv("release/rows.csv")
        assert rows.columns.tolist() == ["row", "age", "weight"]
        assert rows["row"].tolist() == list(range(25))

    def test_repeated_it_gives_what_was_drawn(self, folder: Path) -> None:
        curate()
        before = contents(folder)
        long = ("curate", "release", "patients.csv", "--bounds", "bounds.toml", *WISH)
        for code, out, _ in (curate(), invoke(*long, "--out", "release")):
            assert code == 0
            assert "was drawn before and is in release" in out
        assert contents(folder) == before

    def test_another_wish_needs_a_word(self, folder: Path) -> None:
        curate()
        before = contents(folder)
        code, out, err = curate("--radius", 0.7, "--out", "two")
        assert (code, out) == (2, "")
        for words in ("released before", "everybody's promise would become", "--new-release"):
            assert words in err
        assert contents(folder) == before
        out = done(curate("--radius", 0.7, "--out", "two", "--new-release"))
        assert "released 2 times" in out
        assert len(json.loads(Path("two/certificate.json").read_text())["earlier"]) == 1

    def test_options_reach_the_certificate(self, folder: Path) -> None:
        answers = ("--answers-epsilon", 1, "--answers-delta", 1e-6, "--answers-bounds", 0, 200)
        others = ("--repeats", 2, "--project", 1, "--radius", 2, "--key", "secret")
        out = done(curate(*answers, *others, "--format", "csv"))
        assert "25 rows in a random order; z1; noise of" in out
        assert "a row and its outcome both replaced" in out
        fields = json.loads(Path("release/certificate.json").read_text())
        budget = {"trust_model": "outsourced", "epsilon": 4.0, "delta": 1e-5, "radius": 2.0}
        assert fields["budget"] == budget
        assert fields["answers"]["upper"] == 200.0
        assert fields["repeats"] == 2
        assert np.shape(fields["projection"]["matrix"]) == (2, 1)
        assert Path("secret-simulated/key.sqlite").exists()
        assert not Path("secret").exists()
        assert not Path("key").exists()

    def test_parquet_in_and_out(self, folder: Path) -> None:
        pytest.importorskip("pyarrow")
        patients().to_parquet("patients.parquet")
        # Taken folders are refused before anything is drawn.
        Path("release").mkdir()
        Path("release/thesis.txt").write_text("mine")
        refused(curate(), "holds something other")
        assert not Path("key-simulated").exists()
        Path("release/thesis.txt").unlink()
        done(curate("--format", "parquet", table="patients.parquet"))
        assert sorted(contents(folder / "release")) == ["certificate.json", "rows.parquet"]
        # The same table as CSV is the same table, as spreadsheets of other countries write it too.
        patients().to_csv("other.csv", sep=";", decimal=",", encoding="utf-16", index=False)
        for name in ("patients.csv", "other.csv"):
            assert "was drawn before" in curate("--format", "parquet", table=name)[1]
        assert curate(table="patients.parquet")[0] == 2

    def test_a_dry_run_shows_the_certificate_and_leaves_everything_as_it_was(
        self, folder: Path
    ) -> None:
        code, before, err = curate("--dry-run")
        assert code == 0, err
        assert "nothing was drawn and nothing was written" in before
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["bounds.toml", "patients.csv"]
        code, after, _ = curate()
        # What is said about rows and promises is the same.
        start = before.index("25 rows in a random order")
        assert before[start:] in after
        kept = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        code, again, _ = curate("--dry-run")
        assert code == 0
        assert "was drawn for these settings before" in again
        assert curate("--dry-run", "--radius", 0.7, "--out", "two")[0] == 2
        code, both, _ = curate("--dry-run", "--radius", 0.7, "--out", "two", "--new-release")
        assert code == 0
        assert "released 2 times" in both
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == kept

    @pytest.mark.chance(0)
    def test_what_was_simulated_does_not_stand_in_the_way(self, folder: Path) -> None:
        """Tried out first, with all defaults, then in earnest by the same command."""
        pytest.importorskip("opendp")
        assert curate()[0] == 0
        assert model()[0] == 0
        assert answer()[0] == 0
        wish = ("--epsilon", 4, "--delta", 1e-5, "--out", "release")
        out = done(invoke("curate", "patients.csv", "--bounds", "bounds.toml", *wish))
        for words in ("released 2 times", "this run protects no one"):
            assert words not in out
        assert "Send release to the modeler. Keep key to yourself" in out
        fields = json.loads(Path("release/certificate.json").read_text())
        assert fields["earlier"] == []
        assert sorted(path.name for path in folder.glob("key*")) == ["key", "key-simulated"]
        # Trying out goes on beside it, and never over what is real.
        code, _, err = curate()
        assert (code, "holds something other" in err) == (2, True)
        assert json.loads(Path("release/certificate.json").read_text()) == fields

    def test_without_a_radius_any_row_is_covered_and_names_are_no_markup(
        self, folder: Path
    ) -> None:
        Path("bounds.toml").write_text(BOUNDS.replace("radius = 0.5", ""))
        Path("[red]").mkdir()
        words = ("--epsilon", 1e9, "--protects-nobody", "--delta", 0.05, "--allow-large-delta")
        out = done(curate("--out", "[red]/[bold]release", *words))
        assert "[red]/[bold]release" in out
        assert "within distance" not in out
        assert "This protects no one (epsilon = 1" in out
        assert "above 1 / 25" in out

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--epsilon", 0), "epsilon was 0"),
            (("--delta", 2), "delta was 2"),
            (("--radius", -1), "radius was -1"),
            (("--project", 3), "number of projected columns"),
            (("--format", "xlsx"), "must be one of csv, parquet"),
            (("--answers-epsilon", 1), "need all three"),
            (("--out", "no/release"), "does not exist"),
            (("--out", "patients.csv"), "is a file"),
            (("--out", "key-simulated"), "inside the other"),
            (("--out", "key/release"), "does not exist"),
            (("--key", "release/key"), "does not exist"),
            (("--key", "no/key"), "does not exist"),
            (("--bounds", "none.toml"), "cannot be read"),
            (("--bounds", "patients.csv"), "is not TOML"),
            (("--repeats", 0), "--repeats"),
            (("--simulate", -1), "--simulate"),
            (("--delta", 0.05), "above 1 / 25 = 0.04 (the number of rows is public)"),
            (("--epsilon", 1e9), "--protects-nobody"),
            (("--epsilon", 1e9, "--dry-run"), "--protects-nobody"),
        ],
    )
    def test_bad_wishes_write_nothing(
        self, folder: Path, options: tuple[object, ...], message: str
    ) -> None:
        before = contents(folder)
        refused(curate(*options), message)
        assert contents(folder) == before
        assert sorted(path.name for path in folder.iterdir()) == ["bounds.toml", "patients.csv"]

    def test_everything_that_is_wrong_with_a_table_is_said_at_once(self, folder: Path) -> None:
        change = {"age": 17, "patient": "twin", "weight": "heavy", "cost": "dear"}
        patients().assign(**change).to_csv("patients.csv", index=False)
        found = ("4 things are wrong", "'twin' occurs 25 times", "'age'", "'weight'", "'cost'")
        refused(curate(), *found)
        assert '"drop"' not in curate()[2]


class TestTheWholeWay:
    def test_from_a_table_to_its_best_row(self, folder: Path) -> None:
        assert "there is no release" in model()[2]
        curate()
        out = done(model())
        assert "0 of 9" in out
        assert "3 questions in ask.csv. Send it to the curator" in out
        # Every step can be repeated.
        asked = Path("ask.csv").read_bytes()
        assert "asked before and still unanswered" in model()[1]
        assert Path("ask.csv").read_bytes() == asked
        for turn in range(3):
            for _ in range(2):
                out = done(answer())
                assert f"3 questions answered; answers.csv holds all {3 * turn + 3} answers" in out
            out = done(model())
            assert "Read 3 new answers" in out
            assert "Best so far: row" in out
        assert "The search is over: all 9 questions" in out
        assert not Path("ask.csv").exists()
        # What they said to each other is about rows, never about people.
        frame = pd.read_csv("answers.csv")
        assert frame.columns.tolist() == ["release", "question", "row", "answer"]
        assert len(frame) == frame["row"].nunique() == 9
        assert set(frame["answer"].round(9)) <= set(patients()["cost"].round(9))

    def test_people_who_are_measured_on_request(self, folder: Path) -> None:
        patients().drop(columns="cost").to_csv("patients.csv", index=False)
        Path("bounds.toml").write_text(BOUNDS.replace('outcome = "cost"', ""))
        curate()
        model()
        refused(answer(), "--to-measure")
        assert not Path("answers.csv").exists()
        code, out, err = answer("--to-measure", "todo.csv")
        assert (code, out) == (3, "")
        assert "People to be measured first: 3; their ids are in todo.csv" in err
        assert Path("todo.csv").stat().st_mode & 0o077 == 0
        # Repeated, it writes the same people again.
        todo = pd.read_csv("todo.csv", dtype=str)
        assert answer("--to-measure", "todo.csv")[0] == 3
        assert todo.columns.tolist() == ["patient", "outcome"]
        assert set(todo["patient"]) <= set(patients()["patient"])
        truth = patients().set_index("patient")["cost"]
        todo["outcome"] = [truth[one] for one in todo["patient"][:2]] + [None]
        todo.to_csv("todo.csv", index=False)
        out = done(answer("--outcomes", "todo.csv"))
        assert "rows that cannot be measured: 1" in out
        frame = pd.read_csv("answers.csv")
        assert frame["answer"].isna().tolist() == [False, False, True]
        assert model()[0] == 0

    def test_a_new_outcome_for_somebody_who_was_answered_for_is_not_left_aside_in_silence(
        self, folder: Path
    ) -> None:
        curate()
        model()
        answer()
        given = Path("answers.csv").read_bytes()
        everybody = patients()[["patient", "cost"]]
        everybody.to_csv("same.csv", index=False)
        out = done(answer("--outcomes", "same.csv"))
        assert "another outcome" not in out
        everybody.assign(cost=everybody["cost"] + 1.0).to_csv("other.csv", index=False)
        out = done(answer("--outcomes", "other.csv"))
        # Of 25 the three who were asked for.
        assert "3 people in other.csv had been answered for with another outcome" in out
        assert "an answer that was given stays as it is" in out
        assert Path("answers.csv").read_bytes() == given

    def test_what_was_measured_is_not_overwritten(self, folder: Path) -> None:
        patients().assign(cost=None).to_csv("patients.csv", index=False)
        curate()
        model()
        answer("--to-measure", "todo.csv")
        filled = pd.read_csv("todo.csv", dtype=str).assign(cost=[1.0, None, None])
        filled.to_csv("todo.csv", index=False)
        written = Path("todo.csv").read_bytes()
        Path("other.csv").write_text("a,b\n1,2\n")
        for name in ("todo.csv", "other.csv", "patients.csv"):
            before = Path(name).read_bytes()
            code, _, err = answer("--to-measure", name)
            assert code == 2
            assert "name another file" in err
            assert Path(name).read_bytes() == before
        # Those without an outcome in the table of outcomes cannot be measured, so that is all.
        assert answer("--outcomes", "todo.csv")[0] == 0
        assert Path("todo.csv").read_bytes() == written

    def test_parquet_between_the_parties(self, folder: Path) -> None:
        pytest.importorskip("pyarrow")
        curate()
        model("--ask", "ask.parquet", "--tell", "answers.parquet")
        done(invoke("curate", "answer", "ask.parquet", "--out", "answers.parquet"))
        out = done(model("--ask", "ask.parquet", "--tell", "answers.parquet"))
        assert "Read 3 new answers" in out
        assert Path("ask.state.sqlite").exists()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the first questions were asked."""
    folder = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        begin()
        assert curate()[0] == 0
        assert model()[0] == 0
    return folder


class TestMistakes:
    @pytest.fixture
    def begun(self, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        shutil.copytree(asked, tmp_path / "work")
        monkeypatch.chdir(tmp_path / "work")
        return tmp_path / "work"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--kernel", "cubic"), "the kernel was 'cubic'"),
            (("--acquisition", "guess"), "acquisition was 'guess'"),
            (("--variance", 1), "--variance came without a length scale"),
            (("--mean", 1), "without a length scale"),
            (("--length-scale", 1), "give --variance too"),
            (
                ("--state", "new.sqlite", "--variance", 1, *["--length-scale", 1] * 3),
                "3 length scales",
            ),
            (("--length-scale", -1, "--variance", 1), "length_scale was -1"),
            (("--minimize",), "begun with other settings"),
            (("--seed", 5), "begun with other settings"),
            (("--ask", "patients.csv"), "is not a file with the columns"),
            (("--ask", "ask.txt"), "must end in"),
            (("--tell", "patients.csv"), "has the columns"),
            (("--state", "patients.csv"), "is damaged"),
            (("--report", "report.pdf"), "must end in .html"),
            (("--stop-below", 0), "least gain was 0"),
            (("--rounds", 0), "--rounds"),
            (("--batch", 0), "--batch"),
        ],
    )
    def test_of_the_modeler(self, begun: Path, options: tuple[object, ...], message: str) -> None:
        before = contents(begun)
        refused(model(*options), message)
        assert contents(begun) == before

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--key", "none"), "there is no key"),
            (("--outcomes", "none.csv"), "not a file"),
            (("--outcomes", "bounds.toml"), "must end in"),
            (("--out", "patients.csv"), "is not a file with the columns"),
            (("--out", "no/answers.csv"), "does not exist"),
        ],
    )
    def test_of_the_curator(self, begun: Path, options: tuple[object, ...], message: str) -> None:
        refused(answer(*options), message)
        assert not Path("answers.csv").exists()
        assert not Path("none").exists()
        # It is no loss: the same command with the right file gives the answers.
        assert answer()[0] == 0

    def test_questions_that_are_none(self, begun: Path) -> None:
        ask = Path("ask.csv")
        good = pd.read_csv(ask)
        for bad, message in (
            (good.assign(row=25), "has rows 0 to 24"),
            (good.assign(release="f" * 32), "is not one of the 1"),
            (good.assign(release="../key"), "is not one of the 1"),
            (good.assign(question=1), "question 1 twice"),
            (good.drop(columns="row"), "has the columns"),
        ):
            bad.to_csv(ask, index=False)
            refused(answer(), message)
        assert not Path("answers.csv").exists()
        assert counted(Path("key-simulated"), "answers") == 0


def test_help_names_every_acquisition() -> None:
    assert ", ".join(ACQUISITIONS) == _ACQUISITIONS
