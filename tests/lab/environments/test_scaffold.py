"""Scaffolds of study files: what they declare, what they leave open, and that they then run."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from discreet.lab.environments.log_problem import LogProblem
from discreet.lab.environments.scaffold import (
    ColumnProfile,
    Scaffold,
    TableProfile,
    declared,
    is_untouched,
    profile_table,
    scaffold,
)
from discreet.lab.studies import load_study
from discreet.validation import InvalidInput

NAMES = ("age", 'the "region"\x7f', "steps", "signed", "who", "day", "won", "a", "b")


@pytest.fixture
def table(tmp_path: Path) -> TableProfile:
    """200 people."""
    path = tmp_path / "data" / "people.csv"
    path.parent.mkdir()
    rng = random.Random(1)
    rows = [
        [
            rng.randint(1800, 9000) / 100 if row else "",
            rng.choice(["north", "south, or east"]),
            rng.choice([1, 2, 3, 4, 99]),
            rng.choice(["True", "False"]),
            f"p{row % 90}",
            "2024-01-31",
            rng.choice(["no", "yes"]),
            rng.random(),
            rng.random(),
        ]
        for row in range(200)
    ]
    quoted = [[f'"{cell}"' if "," in str(cell) else str(cell) for cell in row] for row in rows]
    header = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    text = "\n".join(",".join(row) for row in [header, *quoted])
    path.write_text(text + "\n", encoding="utf-8")
    return profile_table(path)


def stated(text: str) -> str:
    """The text of a scaffold with bounds for every column."""
    text = text.replace(
        'lower = "?", upper = "?", levels = "?"', "lower = 1, upper = 4, levels = 4"
    )
    return text.replace('lower = "?", upper = "?"', "lower = 0, upper = 100")


def test_the_commented_serve_table_can_be_served(table: TableProfile, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from discreet.service.server.served import deployment_of

    file = tmp_path / "study.toml"
    text = stated(scaffold(table, "won").text(file))
    assert "serve" not in tomllib.loads(text)
    before, _, commented = text.partition("# [serve]\n")
    file.write_text(before + "[serve]\n" + re.sub("^# ", "", commented, flags=re.M))
    study = load_study(file)
    assert study.serve is not None
    assert (study.serve.people, study.serve.default_arm) == (200, "no")
    deployment, learner = deployment_of(study)
    assert (deployment.default_arm, learner.horizon) == ("no", 200)
    assert learner.budget.epsilon == study.serve.epsilon
    assert deployment.sources == (("clinic", 2.0),)


def test_a_draft_asks_for_what_only_a_person_can_say(table: TableProfile, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    draft = scaffold(table, "won")
    text = draft.text(file)
    content = tomllib.loads(text)
    assert content["problem"] == {
        "name": "table",
        "path": "data/people.csv",
        "label": {"column": "won", "classes": ["no", "yes"]},
        "columns": [
            {"name": "age", "lower": "?", "upper": "?", "outside": "clip", "missing": "unknown"},
            {"name": NAMES[1], "values": ["north", "south, or east"]},
            {"name": "steps", "lower": "?", "upper": "?", "levels": "?", "outside": "drop"},
            {"name": "signed", "values": [False, True]},
            {"name": "a", "lower": "?", "upper": "?", "outside": "clip"},
            {"name": "b", "lower": "?", "upper": "?", "outside": "clip"},
        ],
    }
    assert draft.unstated == 4
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        load_study(file)
    lines = text.splitlines()
    assert len(refused.value.args) == 4
    for message in refused.value.args:
        number = int(message.split(":")[0].removeprefix("study.toml, line "))
        assert '"?"' in lines[number - 1]


def test_a_draft_without_an_outcome_asks_for_one(table: TableProfile, tmp_path: Path) -> None:
    draft = scaffold(table)
    file = tmp_path / "study.toml"
    file.write_text(stated(draft.text(file)), encoding="utf-8")
    assert draft.unstated == 5
    with pytest.raises(InvalidInput, match=r'line \d+: label is still "\?" in \[problem\]; state'):
        load_study(file)


def test_a_draft_with_everything_stated_is_a_study(table: TableProfile, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "study.toml"
    file.parent.mkdir()
    text = stated(scaffold(table, "won").text(file))
    assert '"?"' not in text.partition("\n\n")[2]
    file.write_text(text.replace("# [people]\n# id", "[people]\nid"), encoding="utf-8")
    study = load_study(file)
    assert [each.budget.epsilon for each in study.settings if each.private] == [1, 2, 4]
    assert study.problem.domain.levels == (None, 2, 2, 4, 2, None, None)
    assert study.problem.domain.names[:2] == ("age", "age unknown")
    assert study.problem.rows is not None
    assert 80 < (study.problem.rows.people or 0) <= 90
    marked = table.columns[2].marked
    assert dict(study.problem.rows.outside) == {"steps": marked}
    assert dict(study.problem.rows.lacking) == {}


def test_rewards_and_thresholds(table: TableProfile, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    rewards = scaffold(table, rewards=["a", "b"])
    assert rewards.unstated == 3
    file.write_text(stated(rewards.text(file)), encoding="utf-8")
    assert load_study(file).problem.arm_names == ("a", "b")

    label = scaffold(table, "a")
    assert label.outcome == {"label": {"column": "a", "thresholds": "?"}}
    text = stated(label.text(file)).replace('thresholds = "?"', "thresholds = [0.25, 0.5]")
    file.write_text(text, encoding="utf-8")
    assert load_study(file).problem.arm_names == ("under 0.25", "0.25 to 0.5", "0.5 or more")


def test_a_code_of_missing_values_leaves_people_out() -> None:
    codes = ColumnProfile("x", "labels", "1 and 2", labels=(1, 2), mark=99.0, marked=5)
    assert declared(codes)["outside"] == "drop"
    plain = ColumnProfile("x", "labels", "1 and 2", labels=(1, 2))
    assert "outside" not in declared(plain)


@pytest.mark.parametrize(
    ("label", "rewards", "message"),
    [
        ("wins", (), "column 'wins' is not in the table.*Name one of these"),
        ("day", (), "the label 'day' holds the same text in every row, which cannot be predicted"),
        (None, ("a", "c"), "column 'c' is not in the table"),
        (None, ("a", "won"), "the reward column 'won' holds 2 labels; rewards are numbers"),
        (None, ("a",), "the reward columns were"),
        ("won", ("a", "b"), "a study has one or the other"),
    ],
)
def test_columns_that_cannot_be_the_outcome_are_refused(
    table: TableProfile, label: str | None, rewards: Sequence[str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        scaffold(table, label, rewards)


def test_columns_that_most_rows_lack_are_left_out(tmp_path: Path) -> None:
    half = ColumnProfile("half", "numbers", "numbers", missing=50)
    profiles = (half, ColumnProfile("few", "numbers", "numbers", missing=51))
    draft = scaffold(TableProfile(tmp_path / "people.csv", 100, profiles))
    assert list(draft.columns) == [half]
    text = draft.text(tmp_path / "study.toml")
    assert '#   "few": numbers (51 rows have none)' in text


def test_a_table_without_anything_to_know_of_people_is_refused(tmp_path: Path) -> None:
    profiles = (
        ColumnProfile("day", "left out", "dates"),
        ColumnProfile("won", "labels", "", labels=("a", "b")),
    )
    with pytest.raises(InvalidInput, match=r"no column of 'people\.csv' is left"):
        scaffold(TableProfile(Path("people.csv"), 10, profiles), "won")


def test_a_draft_is_untouched_until_somebody_changes_it(
    table: TableProfile, tmp_path: Path
) -> None:
    text = scaffold(table, "won").text(tmp_path / "study.toml")
    assert is_untouched(text)
    for changed in ("", text + "\n", text.replace("?", "18", 1), "# " + text, text[2:]):
        assert not is_untouched(changed)


def test_where_no_column_is_left_each_says_why(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    lines = [f"{row % 50},{row % 9},,{'ab'[row % 2]}" for row in range(60)]
    path.write_text("\n".join(["age,age,gone,won", *lines]))
    with pytest.raises(InvalidInput) as refusal:
        scaffold(profile_table(path), "won")
    assert "age: 2 columns have this name" in str(refusal.value)
    assert "gone: nothing" in str(refusal.value)


class TestColumnsThatFollowFromTheOutcome:
    @staticmethod
    def drafted(folder: Path, *rewards: str) -> Scaffold:
        """The draft of 400 people whose class is known by name, by code, by a cut, by nothing."""
        rng = random.Random(2)
        lines = ["age,state,state_code,grade,hours,cost,price,pence"]
        for _ in range(400):
            hours = rng.uniform(0, 40)
            state = "low" if hours < 15 else "high"
            grade = state[0] if rng.random() < 0.997 else "x"
            price = rng.uniform(1, 9)
            cells = (rng.randint(18, 90), state, rng.randint(1, 3), grade, hours)
            lines.append(",".join(map(str, (*cells, rng.random(), price, 100 * price + 1))))
        path = folder / "people.csv"
        path.write_text("\n".join(lines))
        table = profile_table(path)
        return scaffold(table, rewards=rewards) if rewards else scaffold(table, "state")

    def test_names_and_values_tell(self, tmp_path: Path) -> None:
        draft = self.drafted(tmp_path)
        assert [each.name for each in draft.columns] == ["age", "cost", "price", "pence"]
        why = dict(draft.follows)
        assert why["state_code"] == "its name has that of 'state' in it"
        assert why["grade"].startswith("it tells 'state' in 99")
        assert why["hours"] == "it tells 'state' in 100.0% of rows"
        text = draft.text(tmp_path / "study.toml")
        words = " ".join(text.replace("#", " ").split())
        assert "\"hours\": numbers (it tells 'state' in 100.0% of rows; put it back if" in words

    def test_rewards_in_other_units(self, tmp_path: Path) -> None:
        draft = self.drafted(tmp_path, "price", "cost")
        assert dict(draft.follows) == {"pence": "it is 'price' in other units, or nearly so"}

    def test_a_common_class_is_not_told_by_every_column(self, tmp_path: Path) -> None:
        rng = random.Random(3)
        lines = [f"{rng.choice('pqr')},{'yes' if row % 200 else 'no'}" for row in range(1000)]
        (tmp_path / "people.csv").write_text("\n".join(["region,ill", *lines]))
        draft = scaffold(profile_table(tmp_path / "people.csv"), "ill")
        assert draft.follows == {}


class TestLogs:
    @staticmethod
    def log(folder: Path, header: str = "age,offer,click,pscore", likely: str = "0.25") -> Path:
        rng = random.Random(4)
        path = folder / "log.csv"
        rows = [
            f"{rng.randint(18, 90)},{rng.choice('abcd')},{rng.randint(0, 1)},{likely}"
            for _ in range(400)
        ]
        path.write_text("\n".join([header, *rows]))
        return path

    def test_an_action_a_reward_and_a_propensity_are_a_log(self, tmp_path: Path) -> None:
        draft = scaffold(profile_table(self.log(tmp_path)))
        assert draft.log is not None
        file = tmp_path / "study.toml"
        text = draft.text(file)
        problem = tomllib.loads(text)["problem"]
        assert problem["name"] == "log"
        assert problem["action"] == {"column": "offer", "names": ["a", "b", "c", "d"]}
        assert problem["reward"] == {"column": "click", "lower": 0, "upper": 1}
        assert problem["propensity"] == {"column": "pscore"}
        file.write_text(stated(text))
        assert isinstance(load_study(file).problem, LogProblem)

    @pytest.mark.parametrize(
        ("header", "likely"),
        [
            ("age,offer,click,pscore", "1.25"),  # no probability
            ("age,region,click,pscore", "0.25"),
            ("age,offer,seen,pscore", "0.25"),
            ("age,offer,click,share", "0.25"),
        ],
    )
    def test_without_one_of_the_three_it_is_a_table(
        self, tmp_path: Path, header: str, likely: str
    ) -> None:
        table = profile_table(self.log(tmp_path, header, likely))
        assert scaffold(table).learnt == ()

    def test_a_label_that_is_named_is_guessed(self, tmp_path: Path) -> None:
        draft = scaffold(profile_table(self.log(tmp_path)), "click")
        assert (draft.log, list(draft.outcome)) == (None, ["label"])


def test_a_question_stops_a_study_until_it_is_answered(tmp_path: Path) -> None:
    """Labels that differ in capitals: one that is listed stands for all spellings."""
    rng = random.Random(5)
    lines = [f"{rng.choice(['ja', 'Ja', 'nein'])},{rng.choice('ab')}" for _ in range(100)]
    (tmp_path / "people.csv").write_text("\n".join(["smokes,won", *lines]))
    draft = scaffold(profile_table(tmp_path / "people.csv"), "won")
    assert draft.unstated == 1
    file = tmp_path / "study.toml"
    text = draft.text(file)
    assert "# QUESTION: 'Ja' and 'ja' differ" in text
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r'values is still "\?"'):
        load_study(file)
    file.write_text(text.replace('values = "?"', 'values = ["ja", "nein"]'))
    problem = load_study(file).problem
    assert problem.rows is not None
    assert (problem.rows.used, problem.domain.levels) == (100, (2,))
    file.write_text(text.replace('values = "?"', 'values = ["ja", "nein", "Ja"]'))
    assert load_study(file).problem.domain.levels == (3,)
