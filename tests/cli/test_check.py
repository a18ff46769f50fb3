"""`discreet check`: all problems at once with their lines, or what a study asks for."""

from __future__ import annotations

from pathlib import Path

from discreet.codec import decode
from discreet.lab.reporting.preflight import Preflight
from tests.cli.cases import STUDY, invoke, write_study

WRONG = (
    STUDY.replace("lower = 0, upper = 9", 'lower = "?", upper = "?"')
    .replace("rounds = 300", "rounds = 0")
    .replace('name = "uniform"', 'name = "unifrom"')
)


def test_a_study_that_can_run(tmp_path: Path) -> None:
    study, facts = write_study(tmp_path), tmp_path / "facts.json"
    code, out, err = invoke("check", study, "--json", facts)
    assert (code, err) == (0, "")
    for text in (
        f"{study} can run.",
        "All 300 rows.",
        "300 people, 2 replicates; 2 arms: a, b; 150 people for each arm",
        "0 to 9",
        "more than 2.719 times as likely",
        "At epsilon = 2 the factor is 7.39",
        f"discreet run {study}",
        f"Facts:   {facts}",
    ):
        assert text in out
    read = decode(facts.read_text(), Preflight)
    assert read.can_run
    assert [line.label for line in read.lines] == [
        "partition, epsilon 1",
        "partition, epsilon 2",
        "uniform",
    ]


def test_every_column_and_the_whole_promise_are_details(tmp_path: Path) -> None:
    columns = ", ".join(f'{{ name = "c{i}", lower = 0, upper = 9 }}' for i in range(20))
    study = write_study(tmp_path, STUDY.replace('{ name = "x", lower = 0, upper = 9 }', columns))
    head = ",".join([*(f"c{i}" for i in range(20)), "y"])
    rows = (f"{','.join([str(i % 10)] * 20)},{'ab'[i % 2]}" for i in range(300))
    (tmp_path / "people.csv").write_text("\n".join([head, *rows]) + "\n")
    short, full = (invoke("check", study, *more)[1] for more in ((), ("--details",)))
    assert "12 more warnings: --details" in short
    assert len([line for line in short.splitlines() if "Warning" not in line]) <= 30
    assert "... 12 more: --details" in short
    assert full.count("Warning:") == 20
    assert "c19   " in full


def test_everything_that_is_wrong_is_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    study, facts = write_study(tmp_path, WRONG), tmp_path / "facts.json"
    code, out, err = invoke("check", study, "--json", facts)
    assert (code, err) == (2, "")
    first, *wrong, last = out.splitlines()
    assert first == f"{study} cannot run. 3 things are wrong."
    assert last == f"Facts:   {facts}"
    for line, text in zip(
        wrong,
        (
            "1. line 3: rounds was 0; it must be 1 or more.",
            '2. line 9: columns, entry 1 ("x"), lower and upper are still "?" in [problem]; state',
            "3. line 14: the learner 'unifrom' is unknown",
        ),
        strict=True,
    ):
        assert line.startswith(text)
    read = decode(facts.read_text(), Preflight)
    assert [issue.line for issue in read.issues] == [3, 9, 14]


def test_facts_take_the_place_of_earlier_facts_only(tmp_path: Path) -> None:
    study, facts = write_study(tmp_path), tmp_path / "facts.json"
    assert invoke("check", study, "--json", facts)[0] == 0
    study.write_text(WRONG)
    assert invoke("check", study, "--json", facts)[0] == 2
    assert not decode(facts.read_text(), Preflight).can_run
    for other in (b'{"kind": "study-preflight"}', b"\xff", b"[1]"):
        facts.write_bytes(other)
        code, out, err = invoke("check", study, "--json", facts)
        assert (code, out, facts.read_bytes()) == (2, "", other)
        assert "is not a preflight of discreet check" in err


def test_facts_leave_the_study_alone(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(study)
    code, _, err = invoke("check", study, "--json", link)
    assert (code, study.read_text()) == (2, STUDY)
    assert "which this command reads" in err
