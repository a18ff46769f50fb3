"""From what a command gave to the text of a block: a table in Markdown, or what it printed."""

from __future__ import annotations

import math
import re
import shlex
import textwrap
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.lab.experiments.means import half_width
from discreet.papers.registry import REPRODUCTIONS
from measured.commands import WIDTH, Measured, Runner
from measured.markers import ROOT

Where = Mapping[str, Any]
# What a command says of the files it wrote here, and no one else has.
_OWN_FILES = re.compile(r"^(Records|Figure): .*\n?", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Block(ABC):
    """A part of a page that commands write.

    Attributes:
        name: in the comments around it.
        page: where it stands, from the root of the repository.
        seconds: processor time of its commands, roughly.
        picture: saves pictures that belong to it, from the first command.
    """

    name: str
    page: str
    seconds: int
    picture: Callable[[Measured], None] | None = None

    @property
    @abstractmethod
    def commands(self) -> tuple[str, ...]:
        """What measures it."""

    @property
    @abstractmethod
    def frame(self) -> tuple[str, ...]:
        """Texts that stand in it, in this order, whatever is measured."""

    @abstractmethod
    def text(self, runner: Runner) -> str:
        """Run the commands and write the block."""

    def written(self, runner: Runner) -> str:
        """The block, with an empty line on either side; its pictures are saved."""
        text = f"\n{self.text(runner)}\n\n"
        if self.picture is not None:
            self.picture(runner.run(self.commands[0]))
        return text


@dataclass(frozen=True, kw_only=True)
class Printed(Block):
    """What a command printed, as it printed it, or some of its paragraphs."""

    command: str
    paragraphs: tuple[int, int | None] = (0, None)

    @property
    def commands(self) -> tuple[str, ...]:
        return (self.command,)

    @property
    def frame(self) -> tuple[str, ...]:
        return (f"```\n$ {self.command}\n",)

    def text(self, runner: Runner) -> str:
        printed = _OWN_FILES.sub("", runner.run(self.command).printed).strip("\n")
        lines = [
            piece.rstrip()
            for line in printed.splitlines()
            for piece in (textwrap.wrap(line, WIDTH) if _is_prose(line) else [line])
        ]
        shown = "\n".join(lines).split("\n\n")[slice(*self.paragraphs)]
        return f"```\n$ {self.command}\n" + "\n\n".join(shown) + "\n```"


@dataclass(frozen=True)
class Row:
    """A line of a table: what it is called, and which records of which command it has."""

    labels: tuple[str, ...]
    command: str
    where: Where = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of a table; `where` counts before that of a row, `show` names what is shown."""

    head: str
    where: Where = field(default_factory=dict)
    show: str = "mean"


@dataclass(frozen=True, kw_only=True)
class Table(Block):
    """Records as a table: each cell is the one record that its row and its column ask for."""

    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    note: str = "Mean ± half its 95% interval."

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.command for row in self.rows))

    @property
    def frame(self) -> tuple[str, ...]:
        heads = _line([*self.heads, *(column.head for column in self.columns)])
        labels = (_line(row.labels).removesuffix("|") for row in self.rows)
        return (heads, *labels, self.provenance)

    @property
    def provenance(self) -> str:
        """What the numbers are, which commands measured them, and from which seeds."""
        return f"<sub>{self.note} {'; '.join(map(_origin, self.commands))}.</sub>"

    def text(self, runner: Runner) -> str:
        heads = [*self.heads, *(column.head for column in self.columns)]
        lines = [
            [*row.labels, *(cell(runner.run(row.command).records, row, c) for c in self.columns)]
            for row in self.rows
        ]
        return f"{markdown(heads, lines)}\n\n{self.provenance}"


def cell(records: Sequence[Mapping[str, Any]], row: Row, column: Column) -> str:
    """What a table shows of the record that is asked for; empty if there is none.

    Raises:
        LookupError: if several are meant.
    """
    where = {**row.where, **column.where}
    found = [r for r in records if all(r.get(key) == value for key, value in where.items())]
    if len(found) > 1:
        raise LookupError(f"{len(found)} records have {where}; say which is meant.")
    if not found or found[0][column.show] is None:
        return ""
    value = float(found[0][column.show])
    if column.show == "mean":
        error = found[0]["standard_error"]
        return with_band(value, None if error is None else half_width(error, found[0]["trials"]))
    agrees = found[0]["agrees"] if column.show == "paper" else None
    verdict = {True: " =", False: " ≠", None: ""}[agrees]
    digits = 4 if column.show == "paper" else 3
    return (f"{value:.{digits}g}" if value < 100 else f"{value:,.0f}") + verdict


def with_band(mean: float, half: float | None) -> str:
    """A mean and half its interval, both to the second digit of the latter: 1,234 ± 56."""
    if not half or half < 1e-9 * abs(mean):  # nothing but rounding
        digits = 3 - math.floor(math.log10(abs(mean))) if mean else 0
        return f"{mean:,.{min(max(digits, 0), 4)}f}"
    digits = max(0, 1 - math.floor(math.log10(half)))
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    return "\n".join([_line(heads), "|---" * len(heads) + "|", *map(_line, lines)])


def _origin(command: str) -> str:
    """A command with its seed, and with the numbers that a study file holds."""
    words = shlex.split(command)
    if words[:2] == ["discreet", "run"]:
        study = tomllib.loads((ROOT / words[2]).read_text(encoding="utf-8"))
        people = f", {study['rounds']:,} people" if "rounds" in study else ""
        return f"`{command}` ({study['replicates']} replicates{people}, seed {study['seed']})"
    (seed,) = (one.seed for one in REPRODUCTIONS.values() if one.name == words[2])
    return f"`{command}` (seed {seed})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _is_prose(line: str) -> bool:
    """Whether a line may be wrapped: it is long, and has no columns."""
    return len(line) > WIDTH and "  " not in line.strip()
