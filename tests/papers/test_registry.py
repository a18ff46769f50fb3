"""The manifest names every figure, table and reproduction, with commands that exist."""

from __future__ import annotations

import re
from itertools import groupby

import pytest

from discreet.papers.kharkovskii2020.searches import Searches
from discreet.papers.registry import REPRODUCTIONS, paper_items
from measured.papers import parsed, plan_of

COMMANDS = [each for item in paper_items() for each in item.commands]


def test_every_reproduction_is_named() -> None:
    assert {each.run.split()[0] for each in COMMANDS} == set(REPRODUCTIONS)


def test_items_have_a_command_or_a_reason() -> None:
    for item in paper_items():
        assert bool(item.commands) != bool(item.reason), item
        assert item.numbers or item.commands, item


def test_figures_and_tables_have_no_gap_and_none_stands_twice() -> None:
    for paper, items in groupby(paper_items(), lambda item: item.paper):
        numbers = [number for item in items for number in item.numbers]
        assert len(set(numbers)) == len(numbers), paper
        for kind in ("Figure", "Table"):
            found = {int(n) for each in numbers for n in re.findall(rf"^{kind} (\d+)", each)}
            assert found == set(range(1, len(found) + 1)), (paper, kind)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.run)
def test_commands_exist_with_their_options(command) -> None:  # type: ignore[no-untyped-def]
    """The options of the paper's size, and a plan of the sample, which has fewer repetitions."""
    parsed(command.run)
    text = f"{command.run} {command.sample}"
    what, wish = parsed(text)
    if isinstance(what, Searches):  # whose plan takes seconds to fit
        assert what.chosen(wish["only"] or (), wish.get("table") or ())
    elif "DIR" not in text:
        plan = plan_of(text)
        assert plan is None or plan.total >= 1
