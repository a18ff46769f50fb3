"""Wrong input to `discreet init`, `check` and `plan`: what is wrong, what to do, nothing written.

One row of a table is one mistake, or several in one input, of which all must be named. `says` of a
row are texts that must be in the answer: what was given, where, and what is allowed or to be done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.cases import STUDY, invoke, write_study

LOG = """
name = "log"
[problem]
name = "log"
path = "log.csv"
columns = [{ name = "x", lower = 0, upper = 9 }]
action = { column = "a", names = ["p", "q"] }
reward = { column = "r", lower = 0, upper = 1 }
propensity = { column = "w" }
[[learners]]
name = "uniform"
"""
CLASSES = 'classes = ["a", "b"]'
BOUNDS = "lower = 0, upper = 9"
EPSILON = "[1.0, 2.0]"
LABEL = f'label = {{ column = "y", {CLASSES} }}'
COLUMN = f'{{ name = "x", {BOUNDS} }}'
JOINT = ('"partition"', '"capri"')

Edit = tuple[str, str]


@dataclass(frozen=True)
class Case:
    """What is run in a folder with `people.csv` and `small.toml`, and what must be said of it.

    Attributes:
        name: of the case.
        command: the arguments.
        says: texts of the answer.
        edits: of the study file, or of `LOG`, old text and new.
        files: that also lie there, by name.
    """

    name: str
    command: tuple[str, ...]
    says: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)


def study(name: str, edits: tuple[Edit, ...] | Edit, *says: str, people: bytes = b"") -> Case:
    """`discreet check` of the study with some texts replaced."""
    given = edits if isinstance(edits[0], tuple) else (edits,)
    files = {"people.csv": people} if people else {}
    return Case(name, ("check", "small.toml"), says, given, files)


def log(name: str, edit: Edit, *says: str, row: Edit = ("", "")) -> Case:
    """`discreet check` of the log with a text replaced in its study, and one in its rows."""
    rows = (f"{i % 10},{'pq'[i % 2]},{i // 2 % 2},0.5".replace(*row) for i in range(80))
    table = "\n".join(("x,a,r,w", *rows, ""))
    return Case(name, ("check", "log.toml"), says, (edit,), {"log.csv": table.encode()})


def init(name: str, table: bytes, *says: str, file: str = "t.csv", more: str = "") -> Case:
    """`discreet init` of a table."""
    return Case(name, ("init", file, *more.split()), says, files={file: table})


def plan(options: str, *says: str, edits: tuple[Edit, ...] = ()) -> Case:
    """`discreet plan` of the study."""
    return Case(f"plan {options}", ("plan", "small.toml", *options.split()), says, edits)


NAMES = "Give a table with numbers or labels"
INIT = [
    Case("no table", ("init", "none.csv"), ("'none.csv' is not a file", "check the path")),
    Case("no argument", ("init",), ("Missing argument", "--help")),
    Case("an option misspelt", ("init", "people.csv", "--lable", "y"), ("--lable", "--label")),
    init("an empty table", b"", "'t.csv' is empty", "give a table with a header"),
    init("blank lines", b"\n \n\n", "'t.csv' is empty", "give a table with a header"),
    init("a header alone", b"a,b\n", "'t.csv' has no rows", "give a table with people"),
    init(
        "a name twice",
        b"a,a\n1,2\n3,4\n",
        "a: 2 columns have this name",
        "give each its own name in the header",
    ),
    init("all missing", b"a,b\n,\n,\n", "a: nothing; b: nothing", NAMES),
    init("all infinite", b"a\ninf\n-inf\n", "a: infinity in every row", NAMES),
    init("one column", b"a\n1\n2\n" * 9, "no other column", NAMES, more="--label a"),
    init("no text", bytes(range(256)) * 4, "'t.csv' holds no text", "export it as CSV"),
    Case(
        "a folder for a table",
        ("init", "t.csv"),
        ("'t.csv' is not a file", "check the path"),
        files={"t.csv/x": b""},
    ),
    init("another ending", b"PK", "'t.xlsx'", "must end in .csv", file="t.xlsx"),
    init("no ending", b"a,b\n1,2\n", "the table was 't'", "must end in .csv", file="t"),
    init("not Parquet", b"PAR1", "'t.parquet' could not be read", "repair", file="t.parquet"),
    init("not gzip", b"\x1f\x8bxx", "'t.csv.gz' could not be read", "repair", file="t.csv.gz"),
    init("a long line", b"a,b\n1,2,3\n", "3 fields in line 2 and 2 in its header", "quotation"),
    Case(
        "the study is there",
        ("init", "people.csv", "--out", "small.toml"),
        ("small.toml exists", "name another file with --out", "--force"),
    ),
    Case(
        "the folder is not there",
        ("init", "people.csv", "--out", "no/s.toml"),
        ("the folder of no/s.toml does not exist", "make it first"),
    ),
    Case(
        "no such label",
        ("init", "people.csv", "--label", "yy"),
        ("column 'yy' is not in the table, which has: x, y", "Did you mean 'y'?"),
    ),
    Case(
        "label and rewards",
        ("init", "people.csv", "--label", "y", "--rewards", "x,y"),
        ("the label 'y' and the rewards x, y", "one or the other"),
    ),
    Case(
        "no rewards of these names",
        ("init", "people.csv", "--rewards", "xx,yy"),
        ("2 things are wrong", "'xx'", "'yy'", "Name one of these"),
    ),
    Case(
        "rewards without a name",
        ("init", "people.csv", "--rewards", ","),
        ("--rewards was ','", "name a column for each arm"),
    ),
    Case(
        "one reward", ("init", "people.csv", "--rewards", "x"), ("['x']", "give at least two, each")
    ),
    Case(
        "rewards that are words",
        ("init", "people.csv", "--rewards", "x,y"),
        ("'y' holds 2 labels", "name columns of numbers"),
    ),
    init(
        "a label of one value",
        b"a,b\n1,z\n2,z\n",
        "'b' holds the same text in every row",
        "choose a column",
        more="--label b",
    ),
    init(
        "a label without levels",
        b"a,b\n" + b"".join(b"%d,n%d\n" % (i % 7, i) for i in range(90)),
        "'b' holds ids or free text",
        "choose a column",
        more="--label b",
    ),
    Case(
        "table, label and study are wrong",
        ("init", "people.csv", "--out", "no/s.txt", "--label", "z"),
        ("2 things are wrong", "no/s.txt must end in .toml; name it so", "column 'z' is not in"),
    ),
]
CHECK = [
    Case("no study", ("check", "none.toml"), ("none.toml cannot be read", "check the path")),
    Case("a folder", ("check", "."), ("Is a directory", "check the path")),
    Case("a table", ("check", "people.csv"), ("people.csv is not TOML", "Correct that place")),
    Case("not UTF-8", ("check", "t.toml"), ("t.toml", "save it as"), files={"t.toml": b"\xff"}),
    Case(
        "nothing in it",
        ("check", "t.toml"),
        ("3 things are wrong", "name is missing; set it", "problem is", "learners is"),
        files={"t.toml": b""},
    ),
    Case("no data folder", ("check", "small.toml", "--data", "no"), ("'no' is not", "check the")),
    Case("no jobs", ("check", "small.toml", "--jobs", "0"), ("--jobs", "1")),
    Case("facts elsewhere", ("check", "small.toml", "--json", "no/f.json"), ("no/f.json", "make")),
    study("not TOML", ("rounds = 300", "rounds = "), "line 3, column 10", "quotation marks"),
    study("a key twice", ("rounds = 300", "rounds = 3\nrounds = 2"), "line 4", "keep one of"),
    study(
        "unknown table", ("[problem]", "[probelm]"), "2 things", "line 5: probelm", "Did you mean"
    ),
    study("unknown key", ("rounds", "roundss"), "line 3: roundss", "Did you mean 'rounds'?"),
    study("wrong type", ("= 300", '= "300"'), 'line 3: rounds was "300"', "a whole number"),
    study("rounds 0", ("= 300", "= 0"), "line 3: rounds was 0", "must be 1 or more"),
    study("rounds of more", ("= 300", "= 301"), "301", "300 people", "no more rounds than that"),
    study("no replicates", ("replicates = 2", "replicates = 0"), "line 4", "must be 1 or more"),
    study("epsilon 0", (EPSILON, "0"), "line 12: epsilon was 0", "above 0"),
    study("epsilon below 0", (EPSILON, "-1"), "line 12: epsilon was -1", "above 0"),
    study("epsilon nan", (EPSILON, "nan"), "line 12: epsilon was nan", "a finite number above 0"),
    study("epsilon a text", (EPSILON, '"one"'), 'epsilon was "one"', "a list", "or a number"),
    study("epsilon a table", (EPSILON, "{a=1}"), "epsilon was { a = 1 }", "a list", "or a number"),
    study("one of a list", (EPSILON, '[1, "x"]'), 'epsilon, entry 2 was "x"', "be a number"),
    study("two of a list", (EPSILON, "[0, -3]"), "2 things", "was 0.0", "was -3.0", "above 0"),
    study("an epsilon twice", (EPSILON, "[1, 1]"), "line 12: epsilon was [1", "name each once"),
    study("no epsilon", (EPSILON, "[]"), "'partition' has no epsilon", "give epsilon = [..]"),
    study(
        "delta 1",
        (JOINT, (EPSILON, '1\ndelta = 1.0\ntrust_model = "joint"')),
        "line 13: delta was 1.0",
        "below 1",
    ),
    study("no delta", (JOINT, (EPSILON, '1\ntrust_model = "joint"')), "Give delta, such as 1e-6"),
    study("unknown learner", ('"partition"', '"partitoin"'), "'partitoin'", "Did you mean"),
    study(
        "unknown options",
        (EPSILON, "1\noptions = { depht = 3, cuation = 2 }"),
        "2 things",
        "'depht'; its options are",
        "Did you mean 'caution'?",
    ),
    study("an option", (EPSILON, '1\noptions = { caution = "x" }'), "caution was 'x'", "a finite"),
    study("trust model", (EPSILON, '1\ntrust_model = "joint"'), '"joint"', 'takes "local"'),
    study("no trust model", (EPSILON, '1\ntrust_model = "us"'), '"us"', '"local", "joint"'),
    study(
        "learner and budget",
        (('"partition"', '"gp_ucb"'), (EPSILON, "-1\ndelta = 1e-6\noptions = { x = 1 }")),
        "3 things",
        "gp_ucb does not fit this problem",
        "learners that do: local_kernel",
        "gp_ucb got the option 'x'",
        "epsilon was -1.0",
    ),
    study("one arm", (CLASSES, 'classes = ["a"]'), "line 8", "['a']", "give at least two"),
    study("an arm twice", (CLASSES, 'classes = ["a", "a", "b"]'), "line 8", "each once"),
    study(
        "an undeclared arm",
        (CLASSES, 'classes = ["a", "c"]'),
        "line 8",
        "first b in row 5",
        "Add the label",
    ),
    study("an unknown label", ('"y"', '"z"'), "line 8: column 'z' is not in", "Name one of these"),
    study("label and context", ('"y"', '"x"'), "line 9: column 'x' is both", "Take it out"),
    study("no outcome", (LABEL, ""), "needs either label", "give one of the two"),
    study("no bounds", (BOUNDS, 'outside = "clip"'), "'x' has no bounds", "declare both"),
    study("one bound", (BOUNDS, "lower = 0"), "line 9", "lower = 0 alone", "declare both bounds"),
    study("bounds reversed", (BOUNDS, "lower = 9, upper = 0"), "[9.0, 0.0]", "must be below"),
    study("bounds equal", (BOUNDS, "lower = 9, upper = 9"), "[9.0, 9.0]", "must be below"),
    study(
        "bounds that are no numbers",
        (BOUNDS, 'lower = nan, upper = "high"'),
        "2 things",
        "lower was nan",
        'upper was "high"',
        "must be a finite number",
        "must be a number",
    ),
    study(
        "bounds of labels",
        (BOUNDS, BOUNDS),
        "line 9",
        "held text in 20 of 20 rows, first n",
        "Declare its labels",
        people=b"x,y\n" + b"n,a\ns,b\n" * 10,
    ),
    study("narrow bounds", (BOUNDS, "lower = 0, upper = 5"), "[0, 5]", "Declare wider bounds"),
    study("no such column", ('"x"', '"z"'), "line 9: column 'z' is not in", "Name one of these"),
    study("no columns", (f"[{COLUMN}]", "[]"), "line 9: columns was []", "at least 1"),
    study("a column twice", (COLUMN, f"{COLUMN}, {COLUMN}"), "['x', 'x']", "each once"),
    study("no such rule", (BOUNDS, f'{BOUNDS}, outside = "clpi"'), '"clpi"', '"clip" or "drop"'),
    study("no such table", ("people.csv", "peple.csv"), "line 7", "'peple.csv'", "check the path"),
    study(
        "header and rows",
        (BOUNDS, BOUNDS),
        "2 things",
        "'x' occurs 2 times",
        "Give each its own name",
        "'y' had a label that is not declared",
        "Add the label",
        people=b"x,x,y\n1,2,a\n3,4,c\n",
    ),
    study(
        "gaps and bounds",
        (BOUNDS, BOUNDS),
        "2 things",
        'set missing = "drop"',
        "outside its declared bounds [0, 9]",
        people=b"x,y\n1,\n12,b\n",
    ),
    study(
        "no such person",
        ('"uniform"', '"uniform"\n[people]\nid = "who"'),
        "line 16: column 'who' is not in the table",
        "Name one of these",
    ),
    study("unknown problem", ('"table"', '"tabel"'), "line 6", "'tabel'", "Did you mean 'table'?"),
    log(
        "propensity 0",
        ("", ""),
        "line 9",
        "80 of 80 rows, first 0 in",
        "estimated",
        row=("0.5", "0"),
    ),
    log(
        "propensity 1.5",
        ("", ""),
        "line 9: column 'w'",
        "first 1.5",
        "give the probability",
        row=("0.5", "1.5"),
    ),
    log(
        "no propensities",
        ("", ""),
        "80 of 80 rows, first (empty)",
        "estimated = true",
        row=("0.5", ""),
    ),
    log(
        "some missing",
        ("", ""),
        "20 of 80 rows, first (empty)",
        "estimated = true",
        row=("q,0,0.5", "q,0,"),
    ),
    log(
        "an unknown propensity", ('"w"', '"v"'), "line 9: column 'v' is not in", "Name one of these"
    ),
    log(
        "no propensity",
        ('propensity = { column = "w" }', ""),
        "propensity is missing",
        "{ estimated = true }",
    ),
    log(
        "action, reward and propensity",
        ("", ""),
        "3 things",
        "line 7: column 'a' had a label",
        "Add the label",
        "line 8: column 'r' was outside",
        "Declare wider bounds",
        "line 9: column 'w'",
        "estimated = true",
        row=("q,0,0.5", "z,3,2"),
    ),
    log(
        "hardly taken",
        ('["p", "q"]', '["p", "q", "s"]'),
        "line 7: action 's' was taken 0 times",
        "Leave such",
    ),
    log(
        "reward bounds",
        ("lower = 0, upper = 1", "lower = 1, upper = 0"),
        "line 8",
        "[1.0, 0.0]",
        "below",
    ),
]
CONFLICT = "--people 9 --epsilon 1 --lose-at-most 5%"
PLAN = [
    plan("--people 0", "--people", "1"),
    plan("--people many", "--people", "integer"),
    plan("--lose-at-most 150%", "'150%'", "a percentage, such as 5%"),
    plan("--lose-at-most few", "'few'", "a share from 0 to 1"),
    plan("--lose-at-most 5", "'5'", "Did you mean 5%?"),
    plan(CONFLICT, "people was 9", "give at most two of them"),
    plan("--epsilon 0", "epsilon was 0", "above 0"),
    plan("--epsilon nan", "epsilon was nan", "a finite number above 0"),
    plan("--epsilons 1,x", "'1,x'", "numbers with commas"),
    plan("--epsilons 1,-2,0", "2 things", "was -2", "was 0", "above 0"),
    plan("--seconds -1", "seconds was -1", "above 0"),
    plan("--replicates 1", "--replicates", "2"),
    plan("--jobs 0", "--jobs", "1"),
    plan("--limit -1", "No such option", "--limit"),
    plan("--learners no,nor", "2 things", "'no' is unknown; known are", "'nor' is unknown"),
    plan("--learners gp_ucb", "'gp_ucb', which does not fit", "name another one"),
    plan("--trust-model us", "'us'", "'local' or 'joint'"),
    plan("--contrast 0.5", "0.5", "add --synthetic"),
    plan("--synthetic --contrast 7", "contrast was 7", "from 0.01 to 1"),
    plan("--synthetic", "need arms", "declare them in [problem]", edits=((LABEL, ""),)),
    plan("--table none.csv", "the table 'none.csv' is not a file", "check the path"),
    plan("--table t.csv --synthetic", "t.csv", "take one of the two"),
    plan("--report no/p.html", "the folder of no/p.html does not exist", "make it first"),
    plan("--report .", ". must end in .html", "name it so"),
    plan("--report p.txt", "p.txt must end in .html", "name it so"),
    plan("--json a.jsonl --report no/a.txt", "no/a.txt must end in .html", "name it so"),
    plan(
        "--epsilon -1 --lose-at-most 2 --json r.csv --report no/p.html",
        "5 things",
        "Did you mean 2%?",
        "epsilon was -1",
        "r.csv must end in",
        "no/p.html does not exist",
        "line 3: rounds was 0",
        edits=(("= 300", "= 0"),),
    ),
    Case("plan of nothing", ("plan", "none.toml"), ("none.toml cannot be read", "check the path")),
    Case("plan without a study", ("plan", "--synthetic"), ("Missing argument", "--help")),
]
CASES = [*INIT, *CHECK, *PLAN]


def everything(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder; None for what is no file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(folder: Path, *command: str) -> str:
    """What is printed for wrong input, which ends with code 2 and writes nothing."""
    before = everything(folder)
    code, out, err = invoke(*command)
    assert code == 2
    assert everything(folder) == before
    # Without frames and line breaks, which depend on the width of the terminal.
    return " ".join(f"{out} {err}".replace("\u2502", " ").split())


def test_there_are_many_cases_and_each_has_its_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 100


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_input_is_answered_and_nothing_is_written(folder: Path, case: Case) -> None:
    write_study(folder)
    for name, text in (("small.toml", STUDY), ("log.toml", LOG)):
        if name in case.command:
            for old, new in case.edits:
                assert old in text
                text = text.replace(old, new, 1)
            (folder / name).write_text(text, encoding="utf-8")
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    said = answer(folder, *case.command)
    for text in case.says:
        assert " ".join(text.split()) in said
    assert "Traceback" not in said


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that nobody can read")
def test_files_that_cannot_be_read_or_written(folder: Path) -> None:
    write_study(folder)
    (folder / "t.csv").symlink_to("/proc/self/mem")
    said = answer(folder, "init", "t.csv")
    assert "'t.csv' cannot be read" in said
    assert "check that you may read it" in said
    said = answer(folder, "plan", "small.toml", "--report", "/proc/plan.html")
    assert "/proc/plan.html cannot be written" in said
    assert "name a file in a folder that you may write to" in said
