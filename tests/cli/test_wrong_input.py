"""Wrong input to `discreet init`, `check` and `plan`: refused in full, and nothing is written.

A row is one mistake, or several in one input; answers stand in golden/messages/wrong_input.txt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from discreet.validation import InvalidInput
from tests.cli.cases import STUDY, invoke, write_study
from tests.refusals import CheckRefusals, Refused

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
IDS = b"a,b\n" + b"".join(b"%d,n%d\n" % (i % 7, i) for i in range(90))


@dataclass(frozen=True)
class Case:
    """A command in a folder with `people.csv` and `small.toml`.

    Attributes:
        name: of the case.
        command: the arguments.
        mentions: part of the answer.
        files: that also lie there, by name.
        edits: of the study file, or of `LOG`: old texts and new.
    """

    name: str
    command: str
    mentions: str
    files: dict[str, bytes] = field(default_factory=dict)
    edits: dict[str, str] = field(default_factory=dict)


def study(
    name: str, mentions: str, edits: dict[str, str] | None = None, people: bytes = b""
) -> Case:
    files = {"people.csv": people} if people else {}
    return Case(name, "check small.toml", mentions, files, edits or {})


def log(
    name: str, mentions: str, edits: dict[str, str] | None = None, rows: tuple[str, str] = ("", "")
) -> Case:
    written = (f"{i % 10},{'pq'[i % 2]},{i // 2 % 2},0.5".replace(*rows) for i in range(80))
    table = "\n".join(("x,a,r,w", *written, ""))
    return Case(name, "check log.toml", mentions, {"log.csv": table.encode()}, edits or {})


def plan(options: str, mentions: str, edits: dict[str, str] | None = None) -> Case:
    return Case(f"plan {options}", f"plan small.toml {options}", mentions, {}, edits or {})


CASES = [
    # discreet init
    Case("no table", "init none.csv", "'none.csv' is not a file"),
    Case("no argument", "init", "Missing argument"),
    Case("an option misspelt", "init people.csv --lable y", "--lable"),
    Case("an empty table", "init t.csv", "'t.csv' is empty", {"t.csv": b""}),
    Case("blank lines", "init t.csv", "'t.csv' is empty", {"t.csv": b"\n \n\n"}),
    Case("a header alone", "init t.csv", "'t.csv' has no rows", {"t.csv": b"a,b\n"}),
    Case(
        "a name twice", "init t.csv", "a: 2 columns have this name", {"t.csv": b"a,a\n1,2\n3,4\n"}
    ),
    Case("all missing", "init t.csv", "a: nothing; b: nothing", {"t.csv": b"a,b\n,\n,\n"}),
    Case("all infinite", "init t.csv", "a: infinity in every row", {"t.csv": b"a\ninf\n-inf\n"}),
    Case("one column", "init t.csv --label a", "no other column", {"t.csv": b"a\n1\n2\n" * 9}),
    Case("no text", "init t.csv", "'t.csv' holds no text", {"t.csv": bytes(range(256)) * 4}),
    Case("a folder for a table", "init t.csv", "'t.csv' is not a file", {"t.csv/x": b""}),
    Case("another ending", "init t.xlsx", "'t.xlsx'", {"t.xlsx": b"PK"}),
    Case("no ending", "init t", "the table was 't'", {"t": b"a,b\n1,2\n"}),
    Case("not Parquet", "init t.parquet", "'t.parquet' could not be read", {"t.parquet": b"PAR1"}),
    Case("not gzip", "init t.csv.gz", "'t.csv.gz' could not be read", {"t.csv.gz": b"\x1f\x8bxx"}),
    Case(
        "a long line",
        "init t.csv",
        "3 fields in line 2 and 2 in its header",
        {"t.csv": b"a,b\n1,2,3\n"},
    ),
    Case("the study is there", "init people.csv --out small.toml", "small.toml exists"),
    Case(
        "the folder is not there",
        "init people.csv --out no/s.toml",
        "the folder of no/s.toml does not exist",
    ),
    Case(
        "no such label",
        "init people.csv --label yy",
        "column 'yy' is not in the table, which has: x, y",
    ),
    Case(
        "label and rewards",
        "init people.csv --label y --rewards x,y",
        "the label 'y' and the rewards x, y",
    ),
    Case("no rewards of these names", "init people.csv --rewards xx,yy", "2 things are wrong"),
    Case("rewards without a name", "init people.csv --rewards ,", "--rewards was ','"),
    Case("one reward", "init people.csv --rewards x", "['x']"),
    Case("rewards that are words", "init people.csv --rewards x,y", "'y' holds 2 labels"),
    Case(
        "a label of one value",
        "init t.csv --label b",
        "'b' holds the same text in every row",
        {"t.csv": b"a,b\n1,z\n2,z\n"},
    ),
    Case(
        "a label without levels",
        "init t.csv --label b",
        "'b' holds ids or free text",
        {"t.csv": IDS},
    ),
    Case(
        "table, label and study are wrong",
        "init people.csv --out no/s.txt --label z",
        "2 things are wrong",
    ),
    # discreet check
    Case("no study", "check none.toml", "none.toml cannot be read"),
    Case("a folder", "check .", "Is a directory"),
    Case("a table", "check people.csv", "people.csv is not TOML"),
    Case("not UTF-8", "check t.toml", "t.toml", {"t.toml": b"\xff"}),
    Case("nothing in it", "check t.toml", "3 things are wrong", {"t.toml": b""}),
    Case("no data folder", "check small.toml --data no", "'no' is not"),
    Case("facts elsewhere", "check small.toml --json no/f.json", "no/f.json"),
    study("not TOML", "line 3, column 10", {"rounds = 300": "rounds = "}),
    study("a key twice", "line 4", {"rounds = 300": "rounds = 3\nrounds = 2"}),
    study("unknown table", "2 things", {"[problem]": "[probelm]"}),
    study("two of a list", "2 things", {EPSILON: "[0, -3]"}),
    study(
        "learner and budget",
        "3 things",
        {'"partition"': '"gp_ucb"', EPSILON: "-1\ndelta = 1e-6\noptions = { x = 1 }"},
    ),
    study("an undeclared arm", "line 8", {CLASSES: 'classes = ["a", "c"]'}),
    study("bounds of labels", "line 9", people=b"x,y\n" + b"n,a\ns,b\n" * 10),
    study("header and rows", "2 things", people=b"x,x,y\n1,2,a\n3,4,c\n"),
    study("gaps and bounds", "2 things", people=b"x,y\n1,\n12,b\n"),
    log("propensity 0", "line 9", rows=("0.5", "0")),
    log("propensity 1.5", "line 9: column 'w'", rows=("0.5", "1.5")),
    log("no propensities", "80 of 80 rows, first (empty)", rows=("0.5", "")),
    log("some missing", "20 of 80 rows, first (empty)", rows=("q,0,0.5", "q,0,")),
    log("an unknown propensity", "line 9: column 'v' is not in", {'"w"': '"v"'}),
    log("no propensity", "propensity is missing", {'propensity = { column = "w" }': ""}),
    log("action, reward and propensity", "3 things", rows=("q,0,0.5", "z,3,2")),
    log("hardly taken", "line 7: action 's' was taken 0 times", {'["p", "q"]': '["p", "q", "s"]'}),
    log("reward bounds", "line 8", {"lower = 0, upper = 1": "lower = 1, upper = 0"}),
    # discreet plan
    plan("--people 0", "--people"),
    plan("--people many", "--people"),
    plan("--lose-at-most 150%", "'150%'"),
    plan("--lose-at-most few", "'few'"),
    plan("--lose-at-most 5", "'5'"),
    plan("--people 9 --epsilon 1 --lose-at-most 5%", "people was 9"),
    plan("--epsilon 0", "epsilon was 0"),
    plan("--epsilon nan", "epsilon was nan"),
    plan("--epsilons 1,x", "'1,x'"),
    plan("--epsilons 1,-2,0", "2 things"),
    plan("--replicates 1", "--replicates"),
    plan("--jobs 0", "--jobs"),
    plan("--limit -1", "No such option"),
    plan("--learners no,nor", "2 things"),
    plan("--learners gp_ucb", "'gp_ucb', which does not fit"),
    plan("--trust-model us", "'us'"),
    plan("--contrast 0.5", "0.5"),
    plan("--synthetic --contrast 7", "contrast was 7"),
    plan("--synthetic", "need arms", {LABEL: ""}),
    plan("--table none.csv", "the table 'none.csv' is not a file"),
    plan("--table t.csv --synthetic", "t.csv"),
    plan("--report no/p.html", "the folder of no/p.html does not exist"),
    plan("--report .", ". must end in .html"),
    plan("--report p.txt", "p.txt must end in .html"),
    plan("--json a.jsonl --report no/a.txt", "no/a.txt must end in .html"),
    plan(
        "--epsilon -1 --lose-at-most 2 --json r.csv --report no/p.html",
        "5 things",
        {"= 300": "= 0"},
    ),
    Case("plan of nothing", "plan none.toml", "none.toml cannot be read"),
    Case("plan without a study", "plan --synthetic", "Missing argument"),
]


def everything(folder: Path) -> dict[str, bytes | None]:
    """The files in a folder; None for folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


def answer(folder: Path, *command: str) -> str:
    """The answer to wrong input, which ends with code 2 and writes nothing."""
    before = everything(folder)
    code, out, err = invoke(*command)
    assert code == 2
    assert everything(folder) == before
    # Without frames and line breaks, which depend on the width of the terminal.
    return " ".join(
        f"{out} {err}".translate(
            dict.fromkeys(map(ord, "\u2500\u2502\u256d\u256e\u2570\u256f"), " ")
        ).split()
    )


def refuse(folder: Path, patch: pytest.MonkeyPatch, case: Case) -> None:
    """Run a case in a folder of its own; raises the answer."""
    folder.mkdir()
    patch.chdir(folder)
    write_study(folder)
    for name, text in (("small.toml", STUDY), ("log.toml", LOG)):
        if name in case.command:
            for old, new in case.edits.items():
                assert old in text
                text = text.replace(old, new, 1)
            (folder / name).write_text(text, encoding="utf-8")
    for name, content in case.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    raise InvalidInput(answer(folder, *case.command.split()))


def test_wrong_input_is_answered_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: CheckRefusals
) -> None:
    refusals(
        "wrong_input",
        [
            Refused(case.name, partial(refuse, tmp_path / str(n), monkeypatch, case), case.mentions)
            for n, case in enumerate(CASES)
        ],
    )


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs an unreadable file")
def test_files_that_cannot_be_read_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path)
    (tmp_path / "t.csv").symlink_to("/proc/self/mem")
    assert "'t.csv' cannot be read" in answer(tmp_path, "init", "t.csv")
    text = answer(tmp_path, "plan", "small.toml", "--report", "/proc/plan.html")
    assert "/proc/plan.html cannot be written" in text
