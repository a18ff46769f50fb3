"""`discreet init`: a study file scaffolded from a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.atomic_files import write_bytes
from discreet.cli.console import Kind, check_outputs, out, reporting_errors
from discreet.lab.results.screen import plain
from discreet.validation import ErrorCollector

if TYPE_CHECKING:
    from discreet.lab.environments.scaffold import Scaffold

_MANY_LOST = 0.1  # the share of rows left out that is worth a warning
_MOST_ROWS = 16  # of columns that are shown


def init(
    table: Annotated[Path, typer.Argument(help="A table of people: CSV, gzipped CSV or Parquet.")],
    file: Annotated[
        Path | None,
        typer.Option("--out", help="The study file; named after the table if left out."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column to predict: its labels are the arms.")
    ] = None,
    rewards: Annotated[
        str | None, typer.Option(help="Or one column of rewards for each arm: A,B,C.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a study file that exists.")
    ] = False,
) -> None:
    """Draft a study file from a table; you state the bounds."""
    from discreet.lab.environments.scaffold import profile_table, scaffold

    with reporting_errors():
        path = file or Path(_stem(table)).with_suffix(".toml")
        kind = Kind("empty", (".toml",), lambda _: force, _OTHERWISE)
        errors, names = ErrorCollector(), [] if rewards is None else _split(rewards)
        with errors.collected():
            check_outputs([(path, kind)], [table])
        if rewards is not None and not names:
            errors.add(f"--rewards was {rewards!r}; name a column for each arm, such as A,B.")
        with errors.collected():
            study = scaffold(profile_table(table), label, names)
        errors.raise_if_any()
        write_bytes(path, study.text(path).encode())
        _show(study, path)


_OTHERWISE = "name another file with --out, or add --force to replace it"


def _stem(table: Path) -> str:
    """The name of a table without the endings of its format."""
    return table.name.partition(".")[0] or "study"


def _show(study: Scaffold, path: Path) -> None:
    """Show the columns, and the entries to state."""
    from discreet.lab.reporting.numbers import counted
    from discreet.lab.reporting.words import terminal_table

    if study.lost > _MANY_LOST * study.table.rows:
        out.say(
            f"Warning: at least {study.lost:,} of {study.table.rows:,} rows are left out, as they "
            "lack the outcome."
        )
        out.print()
    used = {column.name for column in study.columns}
    absent = {column.name for column in study.left_out}
    table = terminal_table(("column", "holds", "without"), left=("column", "holds"))
    table.columns[1].no_wrap = False
    rows = []
    for column in study.table.columns:
        role = "" if column.name in used else "left out: " if column.name in absent else "learnt: "
        missing = f"{column.missing:,}" if column.missing else ""
        rows.append((plain(column.name), plain(f"{role}{column.holds}"), missing))
    if len(rows) > _MOST_ROWS:
        rows.sort(key=lambda row: ": " not in row[1])  # columns with a role first
    for row in rows[:_MOST_ROWS]:
        table.add_row(*row)
    if len(rows) > _MOST_ROWS:
        table.add_row(plain(f"... {len(rows) - _MOST_ROWS} more: {path}"))
    out.print(table)
    out.print()
    out.say(f"{counted(study.table.rows, 'row')}. Study: {path}")
    if study.log is not None:
        log = study.log
        out.say(
            f"A log of decisions: action {log.action.name}, reward {log.reward.name}, propensity "
            f"{log.propensity.name}."
        )
    for name, why in study.follows.items():
        out.say(f"Left out: {name}, as {why}. Put it back if it is known before the choice.")
    lines = counted(study.unstated, "line")
    todo = f'Replace "?" in {lines}; the comments say how. Then' if study.unstated else "Now"
    out.say(f"{todo}: discreet check {path}")


def _split(answer: str) -> list[str]:
    """The parts between commas."""
    return [part for part in map(str.strip, answer.split(",")) if part]
