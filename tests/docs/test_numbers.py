"""Every number in README.md and docs/ comes from a command, and stands where that wrote it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import regenerate
from discreet.papers.registry import paper_items
from measured.catalog import BLOCKS
from measured.commands import NeedsData, Runner, gathered
from measured.layout import Column, Printed, Row, Table, cell, with_band
from measured.markers import ROOT, blocks_of, pages, replaced, without_blocks
from measured.papers import Papers, Record

# A mean with its error; a time, or an amount of memory.
MEASURED = re.compile(
    r"(?:\+-|±)\s*\.?\d"
    r"|\b\d(?:[\d.,]*\d)?\s?(?:s|ms|seconds?|minutes?|hours?|bytes|kB|KB|MB|GB|MiB|GiB)\b"
)
CODE = re.compile(r"```.*?```|`[^`\n]*`|^    .*$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(
    r"[~<>]?\s*[-+]?[\d.,]*\d[\d.,]*(?:e-?\d+)?%?(?:\s*(?:±|\+-|/)\s*[\d.,]+)*(?: [=≠])?"
)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def recorded(name: str) -> str:
    return blocks_of(text_of(BLOCKS[name].page))[name]


def test_every_block_stands_on_its_page() -> None:
    on_pages = [
        (name, str(page.relative_to(ROOT)))
        for page in pages()
        for name in blocks_of(page.read_text(encoding="utf-8"))
    ]
    assert sorted(on_pages) == sorted((name, block.page) for name, block in BLOCKS.items())


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_what_its_command_would_write(name: str) -> None:
    """Its command with seeds and repetitions, its columns and its rows, in this order."""
    place = 0
    for part in BLOCKS[name].frame:
        found = recorded(name).find(part, place)
        assert found >= 0, f"{part!r}: run python docs/regenerate.py --only {name}"
        place = found + len(part)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_holds_numbers(name: str) -> None:
    block = BLOCKS[name]
    advice = f"run python docs/regenerate.py --only {name}"
    if isinstance(block, Printed):
        assert re.search(r"\d", recorded(name).removeprefix("\n" + block.frame[0])), advice
        return
    if isinstance(block, Papers):
        costs = sum(len(item.commands) for item in paper_items())
        assert len(re.findall(r"^[\d,]+ (?:s|min|h) of", recorded(name), re.MULTILINE)) == costs
        return
    if isinstance(block, Record):
        for item in paper_items():
            assert f"| {item.paper} | {item.place} | " in recorded(name), advice
        return
    assert isinstance(block, Table)
    lines = [line for line in recorded(name).splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + len(block.rows)
    for line in lines[1:]:
        cells = [text.strip() for text in line.strip("|").split("|")][len(block.heads) :]
        assert any(cells), f"{line}: {advice}"
        assert all(not text or NUMBER.fullmatch(text) for text in cells), line


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_nobody_types_what_was_measured(page: Path) -> None:
    written = CODE.sub("", without_blocks(page.read_text(encoding="utf-8")))
    assert not MEASURED.search(written), MEASURED.findall(written)
    for line in written.splitlines():
        if line.startswith("|"):
            cells = [text.strip() for text in line.strip("|").split("|")]
            assert not any(NUMBER.fullmatch(text) for text in cells), line


@pytest.mark.slow
def test_one_block_again_is_the_same_to_the_last_byte(tmp_path: Path) -> None:
    """What the page holds is what the code gives: the cheapest block, run as a person would."""
    block = BLOCKS["attack"]
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / block.page, tmp_path / block.page)
    (tmp_path / "work").mkdir()
    assert not regenerate.regenerate(block, Runner(tmp_path / "work"), tmp_path)
    assert text_of(block.page) == (tmp_path / block.page).read_text(encoding="utf-8")


def test_the_list_names_every_block_and_command() -> None:
    listing = regenerate.listing()
    for name, block in BLOCKS.items():
        assert name in listing
        assert all(command in listing for command in block.commands)
    assert sum(block.seconds for block in BLOCKS.values()) < 9 * 3600


def test_blocks_that_need_data_say_so(tmp_path: Path) -> None:
    with pytest.raises(NeedsData, match="--data DIR"):
        Runner(tmp_path).run("discreet run examples/adult.toml --data DIR")


def test_replicates_become_a_mean_with_its_error() -> None:
    line = {
        "study": "s",
        "learner": "partition",
        "trust_model": "local",
        "epsilon": 1.0,
        "delta": 0.0,
        "rounds": 10,
        "metric": "regret",
        "label": "partition, epsilon 1",
    }
    free = {**line, "epsilon": None, "delta": None, "label": "partition (non-private)"}
    values = [(line, 900.0), (line, 1100.0), (free, 5.0), (free, 7.0)]
    records = gathered(
        [
            {**one, "replicate": number, "value": value, "seconds": 1.0}
            for number, (one, value) in enumerate(values)
        ]
    )
    assert [record["trials"] for record in records] == [2, 2]
    row = Row(("partition",), "", {"learner": "partition"})
    assert cell(records, row, Column("1", {"epsilon": 1.0})) == "1,000 ± 1,271"
    assert cell(records, row, Column("none", {"epsilon": None})) == "6 ± 13"
    assert cell(records, row, Column("2", {"epsilon": 2.0})) == ""
    with pytest.raises(LookupError, match="2 records"):
        cell(records, row, Column("any"))


def test_bands_have_two_digits() -> None:
    assert with_band(27891.4, 344.2) == "27,891 ± 344"
    assert with_band(0.0542, 0.0139) == "0.054 ± 0.014"
    assert with_band(3.14159, None) == "3.142"
    assert with_band(0.0, 0.0) == "0"


def test_a_page_with_half_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="no <!-- end -->"):
        blocks_of("<!-- numbers: a -->\ntext\n")
    with pytest.raises(KeyError):
        replaced("nothing here", "a", "text")
    page = "x\n<!-- numbers: a -->\nold\n<!-- end -->\ny\n"
    assert replaced(page, "a", "new\n") == page.replace("old", "new")
