"""No command writes over a file that it reads, or that discreet did not write."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict
from html import unescape
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from discreet.audit import learners
from discreet.audit.learners import local_states
from discreet.cli.console import FIGURE, PAGE, RECORDS, Kind, check_outputs
from discreet.lab.reporting.layout import save_figure
from discreet.lab.reporting.page import render, write_page
from discreet.records import Record, RunRecord, holds_records, write_records
from discreet.validation import InvalidInput
from tests.cli.cases import STUDY, invoke, write_study

RUN = RunRecord("s", "uniform", "none", None, None, 0, 10, "regret", 3.5, 0.1, "uniform", 1)
CASE = {
    "epsilon": 1.0, "method": "ours", "metric": "regret", "mean": 44.0, "standard_error": 7.0,
    "trials": 20, "paper": None,
}  # fmt: skip


@pytest.mark.parametrize("link", ["none", "symbolic", "hard"])
def test_a_run_leaves_its_own_table_alone(tmp_path: Path, link: str) -> None:
    pytest.importorskip("pyarrow")
    study = write_study(tmp_path, STUDY.replace("people.csv", "people.parquet"))
    table = tmp_path / "people.parquet"
    pd.read_csv(tmp_path / "people.csv").to_parquet(table)
    before, wanted = table.read_bytes(), table
    if link != "none":
        wanted = tmp_path / "linked.parquet"
        (os.symlink if link == "symbolic" else os.link)(table, wanted)
    code, _, err = invoke("run", study, "--jobs", 1, "--json", wanted)
    assert (code, table.read_bytes()) == (2, before)
    assert f"{wanted} is the file {table}, which this command reads" in err


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("run", "small.toml", "--json"), "theirs.jsonl"),
        (("run", "small.toml", "--report"), "theirs.html"),
        (("audit", "small.toml", "--json"), "theirs.json"),
        (("audit", "small.toml", "--plot"), "theirs.png"),
        (("reproduce", "dubey-figure-2", "--json"), "theirs.jsonl"),
        (("reproduce", "dubey-figure-2", "--plot"), "theirs.png"),
        (("reproduce", "po-gp-ucb-attack", "--json"), "theirs.jsonl"),
        (("reproduce", "po-gp-ucb-tables", "--plot"), "theirs.png"),
        (("reproduce", "ldpmab-figure-6", "--json"), "theirs.jsonl"),
        (("reproduce", "ldpmab-table-2", "--data", ".", "--json"), "theirs.jsonl"),
        (("reproduce", "ldpmab-figure-4-5", "--plot"), "theirs.png"),
        (("model", "release", "--rounds", 3, "--ask", "a.csv", "--tell", "b.csv", "--report"),
         "theirs.html"),
    ],
)  # fmt: skip
def test_every_command_leaves_files_of_others_alone(
    arguments: tuple[object, ...], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path)
    Path(name).write_text('{"value": 1}\n')
    code, out, err = invoke(*arguments, name)
    assert (code, out) == (2, "")
    assert f"{name} exists and is not" in err
    assert Path(name).read_text() == '{"value": 1}\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model", "release", "--rounds", 3, "--ask", "a.csv", "--tell", "a.csv"), "command reads"),
        (("model", "release", "--rounds", 3, "--ask", "a.csv", "--tell", "b.csv", "--state",
          "a.csv"), "are one file"),
        (("curate", "answer", "a.csv", "--out", "a.csv"), "command reads"),
        (("curate", "answer", "a.csv", "--outcomes", "b.csv", "--out", "b.csv"), "command reads"),
        (("curate", "answer", "a.csv", "--out", "theirs.csv"), "with the columns release"),
    ],
)  # fmt: skip
def test_questions_and_answers_take_no_other_place(
    arguments: tuple[object, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs.csv").write_text("release,value\n1,2\n")
    code, out, err = invoke(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.csv"]


def test_own_results_are_replaced(tmp_path: Path) -> None:
    for name, record in (("a.jsonl", RUN), ("b.json", CASE)):
        write_records([record, record], tmp_path / name)
        check_outputs([(tmp_path / name, RECORDS)])
    page, figure = tmp_path / "a.html", tmp_path / "a.png"
    write_page(lambda: render("page.html.j2"), page)
    save_figure(Figure(), figure)
    check_outputs([(page, PAGE), (figure, FIGURE)])
    # Nothing is lost with an empty file, and there is none at a link that leads nowhere.
    (tmp_path / "empty.png").touch()
    (tmp_path / "loose.html").symlink_to(tmp_path / "nowhere")
    check_outputs([(tmp_path / "empty.png", FIGURE), (tmp_path / "loose.html", PAGE)])


@pytest.mark.parametrize("record", [RUN, CASE])
def test_own_parquet_is_replaced_and_no_other(tmp_path: Path, record: Record) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    write_records([record], path)
    check_outputs([(path, RECORDS)])
    pd.DataFrame({"value": [1.0]}).to_parquet(path)
    with pytest.raises(InvalidInput, match="is not records of discreet"):
        check_outputs([(path, RECORDS)])


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.jsonl", json.dumps(asdict(RUN) | {"comment": "mine"}), RECORDS),
        ("a.jsonl", json.dumps(asdict(RUN)) + "\n[1]", RECORDS),
        ("a.json", '{"method": "ours"}', RECORDS),
        ("a.json", "\xff", RECORDS),
        ("a.parquet", "PAR1", RECORDS),
        ("a.html", "<html><p>a letter about discreet</p>", PAGE),
        ("a.png", "\x89PNG Software\0Photo Shop", FIGURE),
    ],
)
def test_files_of_others_are_recognised(
    tmp_path: Path, name: str, content: str, kind: Kind
) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidInput, match="is left as it is"):
        check_outputs([(path, kind)])


def test_other_mistakes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for outputs, message in (
        ([(tmp_path / "a.csv", RECORDS)], "must end in .jsonl or .json or .parquet"),
        ([(tmp_path / "no" / "a.jsonl", RECORDS)], "the folder of .* does not exist"),
        ([(path, RECORDS), (tmp_path / "." / "a.jsonl", RECORDS)], "are one file"),
    ):
        with pytest.raises(InvalidInput, match=message):
            check_outputs(outputs)
    with pytest.raises(InvalidInput, match="is the file"):
        check_outputs([(path, RECORDS)], [tmp_path / "b" / ".." / "a.jsonl"])
    (tmp_path / "pipe.jsonl").mkdir()
    with pytest.raises(InvalidInput, match="folder"):
        check_outputs([(tmp_path / "pipe.jsonl", RECORDS)])


@pytest.mark.parametrize("command", ["run", "plan", "audit"])
def test_pages_and_records_carry_their_origin(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learners, "_TAUGHT", 600)
    monkeypatch.setattr(learners, "local_states", lambda *given: islice(local_states(*given), 2))
    study, table = write_study(tmp_path), tmp_path / "people.csv"
    page, lines = tmp_path / "page.html", tmp_path / "records.jsonl"
    options = {
        "run": ("--rounds", 100, "--replicates", 1),
        "plan": ("--people", 60, "--epsilons", 2, "--replicates", 2),
        "audit": ("--trials", 0),
    }[command]
    code, _, err = invoke(command, study, "--jobs", 1, *options, "--report", page, "--json", lines)
    assert code == 0 or command == "audit", err  # whatever it found
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (study, table)]
    text = page.read_text(encoding="utf-8")
    made = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)
    assert made
    versions = f"discreet {version('discreet')}, numpy {version('numpy')}, opendp "
    for fact in (*digests, made[0], versions, "partition", "small", "signature", "role"):
        assert fact in text
    assert "lets readers who can guess the table confirm their guess" in text
    for line in lines.read_text().splitlines():
        record = json.loads(line)
        assert record["made"] == made[0]
        assert (record["study"], record["study_sha256"]) == ("small", digests[0])
        assert record["table_sha256"] == f"people.csv: {digests[1]}"
        assert record["seed"] == 0
        assert record["versions"].startswith(versions)
    assert holds_records(lines)
    certificates = re.findall(r"<pre[^>]*>(\{.*?\})</pre>", text, re.DOTALL)
    assert bool(certificates) == (command != "audit")
    for certificate in certificates:
        origin = json.loads(unescape(certificate))["provenance"]
        assert origin["study_sha256"] == digests[0]
        assert origin["learner"] == "partition"
        assert digests[1] not in certificate, "it is passed on alone"
