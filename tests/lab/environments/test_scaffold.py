"""What columns of a table seem to hold.

Scaffolds of study files: what they declare, what they leave open, and that they then run.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.lab.environments.log_problem import LogProblem
from discreet.lab.environments.scaffold import (
    ColumnProfile,
    Scaffold,
    TableProfile,
    declared,
    profile_table,
    scaffold,
)
from discreet.lab.studies import load_study
from discreet.validation import InvalidInput

ROWS = 120


def written(folder: Path, columns: dict[str, Sequence[object]], name: str = "people.csv") -> Path:
    path = folder / name
    frame = pd.DataFrame(columns)
    if name.endswith(".csv"):
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


def profiled(folder: Path, values: Sequence[object], name: str = "x") -> ColumnProfile:
    """The profile of one column with these values, again and again."""
    whole = [values[row % len(values)] for row in range(max(ROWS, len(values)))]
    (profile,) = profile_table(written(folder, {name: whole})).columns
    return profile


@pytest.mark.parametrize(
    ("values", "kind", "holds"),
    [
        ([1.5, 2.25, 100.0], "numbers", "numbers"),
        (list(range(18, 91)), "numbers", "whole numbers"),
        ([1, 2, 3, 4, 5], "levels", "whole numbers, 5 different ones"),
        ([1.0, 2.0, 3.0, ""], "levels", "whole numbers, 3 different ones"),
        ([1, 4, 20], "numbers", "whole numbers"),
        ([36, 60, ""], "labels", "36 and 60"),
        ([10, 200, 3000], "numbers", "whole numbers"),
        ([0, 1], "labels", "0 and 1"),
        (["1", "2", "3+"], "labels", "3 labels"),
        (["yes", "no"], "labels", "2 labels"),
        ([True, False], "labels", "true and false"),
        (["TRUE", "FALSE", "NA"], "labels", "2 labels"),
        (["01", "02"], "labels", "2 labels"),
        (["5%", "10%"], "labels", "2 labels"),
        (["a"], "left out", "the same text in every row"),
        ([7], "left out", "the same number in every row"),
        (["", "?", "NA"], "left out", "nothing"),
        (["2024-01-31", "2024-02-01 12:00"], "left out", "dates"),
        (["31.1.2024", "1.2.2024"], "left out", "dates"),
        ([20240131, 20231231], "left out", "dates, as whole numbers"),
        (list(range(1000, 1400, 2)), "left out", "whole numbers that rise from row to row"),
        ([f"p{n}" for n in range(200)], "left out", "ids or free text: no value comes twice"),
        ([f"p{n}" for n in range(70)], "left out", "free text, or labels of which there are 70"),
        ([f"{n},{n}00" for n in range(1, 80)], "left out", "numbers with a separator of thousands"),
        (["1,5", "2,75", "3.5"], "left out", "numbers with a decimal comma"),
        (["31/12/2024", "2024-01-31"], "left out", "dates"),
        ([f"{n}.5%" for n in range(80)], "left out", "percentages"),
        (
            [n + 0.5 for n in range(59)] + ["unknown"],
            "left out",
            "numbers, but 2 rows hold text such as 'unknown'",
        ),
    ],
)
def test_kinds_of_columns(tmp_path: Path, values: Sequence[object], kind: str, holds: str) -> None:
    profile = profiled(tmp_path, values)
    assert profile.kind == kind
    assert profile.holds.startswith(holds)
    assert bool(profile.labels) or kind not in ("labels", "levels")


@pytest.mark.parametrize("name", ["id", "person_id", "Patient ID", "customerId", "UUID", "uuid"])
def test_ids_are_known_by_their_names(tmp_path: Path, name: str) -> None:
    numbers = profiled(tmp_path, list(range(0, 90, 3)), name)
    assert (numbers.kind, numbers.names_people) == ("left out", True)
    texts = profiled(tmp_path, ["x7", "x9", "x11"], name)
    assert (texts.kind, texts.names_people) == ("left out", True)


def test_other_names_are_no_ids(tmp_path: Path) -> None:
    for name in ("humid", "paid", "valid", "IDEA"):
        assert profiled(tmp_path, ["x7", "x9"], name).kind == "labels"


def test_missing_values_and_rare_labels_are_counted(tmp_path: Path) -> None:
    values = ["b"] * 100 + ["a"] * 20 + ["", "NA", " null "] + ["c"] * 9
    profile = profiled(tmp_path, values)
    assert (profile.labels, profile.missing, profile.rare) == (("a", "b", "c"), 3, 1)
    assert profile.advice == "rows with 'NA' or 'null' count as such, unless that is declared too"


def test_labels_are_written_as_the_table_has_them(tmp_path: Path) -> None:
    assert profiled(tmp_path, ["010", "9", "1e1"]).labels == ("9", "010", "1e1")
    assert profiled(tmp_path, ["b", "a", "10", "9"]).labels == ("9", "10", "a", "b")
    assert profiled(tmp_path, ["TRUE", "false"]).labels == (False, True)
    assert profiled(tmp_path, [3, 1, 2]).labels == (1, 2, 3)


def test_a_table_knows_its_columns_by_name(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(",x,x,y\n" + "\n".join(f"{n},1,2,{n % 3}" for n in range(30)) + "\n")
    table = profile_table(path)
    assert table.rows == 30
    assert [each.holds for each in table.columns[:3]] == [
        "a column without a name",
        "2 columns have this name",
        "2 columns have this name",
    ]
    assert list(table.named) == ["y"]


def test_decimal_commas_are_read_where_semicolons_separate(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("x;y\n" + "\n".join(f"{n},5;a" for n in range(80)) + "\n")
    assert profile_table(path).columns[0].kind == "numbers"


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    days = pd.date_range("2024-01-01", periods=ROWS)
    columns = {
        "day": list(days),
        "flag": [row % 2 == 0 for row in range(ROWS)],
        "some": [None if row % 4 == 0 else row % 2 == 0 for row in range(ROWS)],
        "code": ["01", "02"] * (ROWS // 2),
        "x": [row * 0.5 for row in range(ROWS)],
    }
    table = profile_table(written(tmp_path, columns, "people.parquet"))
    kinds = {each.name: (each.kind, each.labels, each.missing) for each in table.columns}
    assert kinds == {
        "day": ("left out", (), 0),
        "flag": ("labels", (False, True), 0),
        "some": ("labels", (False, True), ROWS // 4),
        "code": ("labels", ("01", "02"), 0),
        "x": ("numbers", (), 0),
    }


def test_a_profile_names_no_lowest_or_highest_value(tmp_path: Path) -> None:
    for values in ([1234.5, 777.25, 42.125], [n * 37 + 4321 for n in range(90)]):
        text = str(profiled(tmp_path, values))
        assert str(min(values)) not in text
        assert str(max(values)) not in text


@pytest.mark.parametrize(
    ("values", "indicators"),
    [
        ([0.0] * 30 + [0.5 + i for i in range(70)], [0]),
        ([0.5] * 10 + [i + 1.25 for i in range(82)] + [100.5] * 9, [0.5]),
        ([0.5] * 10 + [i + 1.25 for i in range(82)] + [100.0] * 10, [0.5, 100]),
        ([40.0] * 30 + [0.5 + i for i in range(70)], None),  # not an end
        ([0.0] * 4 + [0.5 + i for i in range(96)], None),
        ([0, 1, 2] * 30 + [0] * 90, None),  # few numbers
        ([0] * 60 + list(range(1, 11)) * 4, [0]),  # levels
        (list(range(11)) * 10, None),  # of which none stands out
    ],
)
def test_ends_that_many_rows_have_get_indicators(
    tmp_path: Path, values: list[float], indicators: list[float] | None
) -> None:
    shuffled = np.random.default_rng(0).permutation(values)
    path = tmp_path / "table.csv"
    pd.DataFrame({"amount": shuffled}).to_csv(path, index=False)
    (column,) = profile_table(path).columns
    assert declared(column).get("indicators") == indicators


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a file that exists"):
        profile_table(tmp_path / "none.csv")


def test_fields_that_hold_several_values_are_left_out(tmp_path: Path) -> None:
    columns = {"several": [[1, 2]] * 30, "parts": [{"a": 1}] * 30, "one": [1.5, 2.5, 4.0] * 10}
    table = profile_table(written(tmp_path, columns, "people.parquet"))
    assert [each.kind for each in table.columns] == ["left out", "left out", "numbers"]
    assert [each.holds for each in table.columns[:2]] == ["several values in a field"] * 2


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
            rng.choice([1, 2, 3, 4]),
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
    from discreet.cli.service import deployment_of

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
            {"name": "steps", "lower": "?", "upper": "?", "levels": "?", "outside": "clip"},
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
    assert dict(study.problem.rows.outside) == {}
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
    draft = scaffold(TableProfile(tmp_path / "people.csv", 100, profiles, pd.DataFrame()))
    assert list(draft.columns) == [half]
    text = draft.text(tmp_path / "study.toml")
    assert '#   "few": numbers (51 rows have none)' in text


def test_a_table_without_anything_to_know_of_people_is_refused(tmp_path: Path) -> None:
    profiles = (
        ColumnProfile("day", "left out", "dates"),
        ColumnProfile("won", "labels", "", labels=("a", "b")),
    )
    with pytest.raises(InvalidInput, match=r"no column of 'people\.csv' is left"):
        scaffold(TableProfile(Path("people.csv"), 10, profiles, pd.DataFrame()), "won")


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


def test_one_of_labels_that_differ_in_capitals_stands_for_all(tmp_path: Path) -> None:
    rng = random.Random(5)
    lines = [f"{rng.choice(['ja', 'Ja', 'nein'])},{rng.choice('ab')}" for _ in range(100)]
    (tmp_path / "people.csv").write_text("\n".join(["smokes,won", *lines]))
    file = tmp_path / "study.toml"
    text = scaffold(profile_table(tmp_path / "people.csv"), "won").text(file)
    assert "some differ in capitals alone" in text
    assert sum('values = ["Ja", "ja", "nein"]' in line for line in text.splitlines()) == 1
    file.write_text(text)
    assert load_study(file).problem.domain.levels == (3,)
    file.write_text(text.replace('"Ja", "ja", "nein"', '"ja", "nein"'))
    problem = load_study(file).problem
    assert problem.rows is not None
    assert (problem.rows.used, problem.domain.levels) == (100, (2,))
