"""`discreet data`: the problems that a study file can name."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from discreet.cli.console import out, plain, refusing

data_app = typer.Typer(help="The problems that a study file can name.", no_args_is_help=True)


@data_app.command("list")
def data_list() -> None:
    """The problems that a study file can name."""
    from discreet.problems.catalog import entries

    table = Table("name", "people", "what", box=None, pad_edge=False)
    for entry in entries():
        people = "any" if entry.people is None else f"{entry.people:,}"
        table.add_row(entry.name, people, plain(entry.description))
    out.print(table)
    out.print("discreet data show NAME lists columns, arms and options.")


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A name from `discreet data list`.")],
) -> None:
    """Columns with their public bounds, arms, options and source of one problem."""
    from discreet.problems.catalog import find_entry

    with refusing():
        entry = find_entry(name)
    out.print(f"[bold]{entry.name}[/]: {plain(entry.description)}")
    out.print(f"Source: {plain(str(entry.source))}")
    if entry.columns:
        table = Table("column", "from", "to", "values", box=None, pad_edge=False)
        for column in entry.columns:
            values = ", ".join(column.values) or (
                "any" if column.levels is None else f"{column.levels} equally spaced values"
            )
            bounds = ("", "") if column.values else (f"{column.lower:g}", f"{column.upper:g}")
            table.add_row(column.name, *bounds, values)
        out.print(table)
    if entry.arms:
        out.print(f"Arms: {plain(entry.arms_line)}")
    for option, default, meaning in entry.option_lines():
        out.print(f"  [bold]{option}[/] ({plain(str(default))}): {plain(meaning)}")
