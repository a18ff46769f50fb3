"""`discreet reproduce ldpmab-table-2` and `ldpmab-figure-4-5`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.console import (
    JobsOption,
    MethodOption,
    OnlyOption,
    PlotOption,
    RecordsOption,
    check_ending,
    collected,
    cores,
    err,
    out,
    plain,
    refusing,
)
from discreet.cli.reproduce_transfer import (
    AuxiliaryEpsilonOption,
    EpsilonOption,
    RepetitionsOption,
)
from discreet.records import write_records
from discreet.reproduction.cases import lines_of
from discreet.reproduction.ma2025.real_data import DATA_SETS, load
from discreet.reproduction.ma2025.settings import check_known
from discreet.reproduction.ma2025.table import TABLE_2, TABLE_2_NOTE, Wish, plan, ratios, run

FolderOption = Annotated[Path, typer.Option("--data", help="Folder with adult/, jobs/ and taxi/.")]
PeopleOption = Annotated[
    int | None, typer.Option("--rounds", min=8, help="People of the target; all if left out.")
]
ConstantOption = Annotated[
    float, typer.Option("--constant", help="c of C_n = c log(n) in the published rules.")
]
FigureOption = Annotated[Path, typer.Option("--plot", help="File for the figure (.png).")]


def table_2(
    data: FolderOption,
    repetitions: RepetitionsOption = TABLE_2.trials,
    rounds: PeopleOption = None,
    only: OnlyOption = None,
    method: MethodOption = None,
    epsilon: EpsilonOption = None,
    auxiliary_epsilon: AuxiliaryEpsilonOption = None,
    constant: ConstantOption = 1.0,
    jobs: JobsOption = None,
    json: RecordsOption = None,
    plot: PlotOption = None,
) -> None:
    """Ratios of mean reward to ABSE on real tables, with and without auxiliary data."""
    with refusing():
        check_ending(json, ".jsonl", ".json", ".parquet")
        check_ending(plot, ".png")
        for name in only or ():
            check_known(name, DATA_SETS, "data set")
        wish = Wish(method or (), epsilon or (), auxiliary_epsilon or (), rounds, constant)
        splits = [load(name, data) for name in DATA_SETS if not only or name in only]
        cases = plan(wish, splits)
        total = len(cases) * repetitions
        stream = run(cases, repetitions, min(jobs or cores(), total))
        done, complete = collected(stream, total, lambda trial: cases[trial.case].label)
        found = ratios(lines_of(cases, done), wish)
    if not found:
        err.print("Interrupted before anything could be compared; nothing was written.")
        raise typer.Exit(130)
    # Matplotlib takes a second to import: only a run that got here needs it.
    from discreet.reporting.ratios import ratio_figure, ratio_note, ratio_table
    from discreet.reporting.reproduction import save_figure

    out.print()
    out.print(f"[bold]{plain(TABLE_2.title)}[/]", highlight=False)
    out.print(ratio_table(found))
    for text in (ratio_note(found), TABLE_2_NOTE):
        out.print()
        out.print(plain(text), highlight=False)
    out.print()
    if json is not None:
        write_records([one.record for one in found], json)
        out.print(plain(f"Records: {json}"), highlight=False)
    if plot is not None:
        save_figure(ratio_figure(found), plot)
        out.print(plain(f"Figure:  {plot}"), highlight=False)
    if not complete:
        err.print(f"Interrupted: this is what was finished ({len(done)} of {total} runs).")
        raise typer.Exit(130)


def setting(plot: FigureOption) -> None:
    """Draw the reward functions and the densities of the sources' contexts."""
    with refusing():
        check_ending(plot, ".png")
    from discreet.reporting.reproduction import save_figure
    from discreet.reporting.transfer_setting import setting_figure

    save_figure(setting_figure(), plot)
    out.print(plain(f"Figure:  {plot}"), highlight=False)
