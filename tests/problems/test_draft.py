"""Drafts of study files: what they declare, what they leave to a person, and that they then run."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from discreet.problems.draft import (
    Draft,
    DraftColumn,
    DraftLabel,
    DraftRewards,
    first_draft,
)
from discreet.problems.draft_text import draft_text, is_untouched
from discreet.problems.sketch import Sketch, TableSketch, sketch_table
from discreet.studies import load_study
from discreet.validation import InvalidInput

NAMES = ("age", 'the "region"\x7f', "steps", "signed", "who", "day", "won", "a", "b")


@pytest.fixture
def table(tmp_path: Path) -> TableSketch:
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
    return sketch_table(path)


def stated(draft: Draft, unknown: Sequence[str] = ()) -> Draft:
    """The draft with bounds for every column but some."""
    columns = tuple(
        DraftColumn(each.sketch, None if each.sketch.name in unknown else (0, 100), each.labels)
        if each.sketch.kind == "numbers"
        else DraftColumn(each.sketch, (1, 4), each.labels)
        for each in draft.columns
    )
    return Draft(draft.table, columns, draft.outcome, draft.person, draft.epsilons)


def test_a_draft_asks_for_what_only_a_person_can_say(table: TableSketch, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    draft = first_draft(table, "won")
    text = draft_text(draft, file)
    content = tomllib.loads(text)
    assert content["problem"] == {
        "name": "table",
        "path": "data/people.csv",
        "label": {"column": "won", "classes": ["no", "yes"]},
        "columns": [
            {"name": "age", "lower": "?", "upper": "?", "outside": "clip", "missing": "drop"},
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


def test_a_draft_without_an_outcome_asks_for_one(table: TableSketch, tmp_path: Path) -> None:
    draft = stated(first_draft(table))
    file = tmp_path / "study.toml"
    file.write_text(draft_text(draft, file), encoding="utf-8")
    assert draft.unstated == 1
    with pytest.raises(InvalidInput, match=r'line \d+: label is still "\?" in \[problem\]; state'):
        load_study(file)


def test_a_draft_with_everything_stated_is_a_study(table: TableSketch, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "study.toml"
    file.parent.mkdir()
    draft = stated(first_draft(table, "won"))
    draft = Draft(table, draft.columns, draft.outcome, "who", (0.5, 3.0))
    file.write_text(draft_text(draft, file), encoding="utf-8")
    assert draft.unstated == 0
    study = load_study(file)
    assert [each.budget.epsilon for each in study.settings if each.private] == [0.5, 3.0]
    assert study.problem.domain.levels == (None, 2, 4, 2, None, None)
    assert study.problem.rows is not None
    assert 80 < (study.problem.rows.people or 0) <= 90
    marked = table.columns[2].marked
    assert dict(study.problem.rows.outside) == {"steps": marked}
    assert dict(study.problem.rows.lacking) == {"age": 1}


def test_rewards_and_thresholds(table: TableSketch, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    rewards = first_draft(table, rewards=["a", "b"])
    assert isinstance(rewards.outcome, DraftRewards)
    assert rewards.unstated == 3
    rewards = Draft(table, stated(rewards).columns, DraftRewards(rewards.outcome.sketches, (0, 2)))
    file.write_text(draft_text(rewards, file), encoding="utf-8")
    assert load_study(file).problem.arm_names == ("a", "b")

    label = first_draft(table, "a")
    assert isinstance(label.outcome, DraftLabel)
    assert '"?"' in str(label.outcome.declared).replace("'", '"')
    label = Draft(table, stated(label).columns, DraftLabel(label.outcome.sketch, (), (0.25, 0.5)))
    file.write_text(draft_text(label, file), encoding="utf-8")
    assert load_study(file).problem.arm_names == ("under 0.25", "0.25 to 0.5", "0.5 or more")


def test_labels_that_are_left_out_leave_people_out(table: TableSketch) -> None:
    sketch = Sketch("x", "labels", "3 labels", labels=("a", "b", "c"))
    assert "outside" not in DraftColumn(sketch, labels=("c", "b", "a", "d")).declared
    assert DraftColumn(sketch, labels=("a", "b")).declared["outside"] == "drop"
    assert DraftLabel(sketch, ("a", "b")).declared["outside"] == "drop"


@pytest.mark.parametrize(
    ("label", "rewards", "message"),
    [
        ("wins", (), "column 'wins' is not in the table.*Name one of these"),
        ("day", (), "the label 'day' holds the same text in every row, which cannot be guessed"),
        (None, ("a", "c"), "column 'c' is not in the table"),
        (None, ("a", "won"), "the reward column 'won' holds 2 labels; rewards are numbers"),
        (None, ("a",), "the reward columns were"),
        ("won", ("a", "b"), "a study has one or the other"),
    ],
)
def test_columns_that_cannot_be_the_outcome_are_refused(
    table: TableSketch, label: str | None, rewards: Sequence[str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        first_draft(table, label, rewards)


def test_bounds_and_labels_that_no_study_takes_are_refused() -> None:
    numbers = Sketch("x", "numbers", "numbers")
    labels = Sketch("x", "labels", "2 labels", labels=("a", "b"))
    for make, message in (
        (lambda: DraftColumn(numbers, (3.0, 3.0)), "lower must be below"),
        (lambda: DraftColumn(labels, labels=("a", "a")), "each once"),
        (lambda: DraftLabel(labels, ("a",)), "at least two"),
        (lambda: DraftLabel(numbers, (), (2.0, 1.0)), "in increasing order"),
        (lambda: Draft(TableSketch(Path(), 1, ()), (), epsilons=(1.0, 0.0)), "epsilon was 0.0"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make()


def test_columns_that_most_rows_lack_are_left_out(tmp_path: Path) -> None:
    """With several of them nobody would be left."""
    half = Sketch("half", "numbers", "numbers", missing=50)
    sketches = (half, Sketch("few", "numbers", "numbers", missing=51))
    draft = first_draft(TableSketch(tmp_path / "people.csv", 100, sketches))
    assert [column.sketch for column in draft.columns] == [half]
    text = draft_text(draft, tmp_path / "study.toml")
    assert '#   "few": numbers (51 rows have none, and would be left out with it)' in text


def test_a_table_without_anything_to_know_of_people_is_refused(tmp_path: Path) -> None:
    sketches = (Sketch("day", "left out", "dates"), Sketch("won", "labels", "", labels=("a", "b")))
    with pytest.raises(InvalidInput, match=r"no column of 'people\.csv' is left"):
        first_draft(TableSketch(Path("people.csv"), 10, sketches), "won")


def test_a_draft_is_untouched_until_somebody_changes_it(table: TableSketch, tmp_path: Path) -> None:
    text = draft_text(first_draft(table, "won"), tmp_path / "study.toml")
    assert is_untouched(text)
    for changed in ("", text + "\n", text.replace("?", "18", 1), "# " + text, text[2:]):
        assert not is_untouched(changed)


def test_where_no_column_is_left_each_says_why(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    lines = [f"{row % 50},{row % 9},,{'ab'[row % 2]}" for row in range(60)]
    path.write_text("\n".join(["age,age,gone,won", *lines]))
    with pytest.raises(InvalidInput) as refusal:
        first_draft(sketch_table(path), "won")
    assert "age: 2 columns have this name" in str(refusal.value)
    assert "gone: nothing" in str(refusal.value)
