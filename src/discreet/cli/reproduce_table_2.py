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
    collected,
    cores,
    exit_if_empty,
    exit_if_stopped,
    out,
    plain,
    refusing,
)
from discreet.cli.outputs import FIGURE, RECORDS, check_outputs, write_results
from discreet.cli.reproduce_transfer import (
    AuxiliaryEpsilonOption,
    EpsilonOption,
    RepetitionsOption,
)
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
        check_outputs([(json, RECORDS), (plot, FIGURE)])
        for name in only or ():
            check_known(name, DATA_SETS, "data set")
        wish = Wish(method or (), epsilon or (), auxiliary_epsilon or (), rounds, constant)
        splits = [load(name, data) for name in DATA_SETS if not only or name in only]
        cases = plan(wish, splits)
        total = len(cases) * repetitions
        stream = run(cases, repetitions, min(jobs or cores(), total))
        done, stop = collected(stream, total, lambda trial: cases[trial.case].label)
        found = ratios(lines_of(cases, done), wish)
    exit_if_empty(len(found), stop)
    # Matplotlib takes a second to import: only a run that got here needs it.
    from discreet.reporting.ratios import ratio_figure, ratio_note, ratio_table

    out.print()
    out.print(f"[bold]{plain(TABLE_2.title)}[/]")
    out.print(ratio_table(found))
    for text in (ratio_note(found), TABLE_2_NOTE):
        out.print()
        out.print(plain(text))
    out.print()
    with refusing():
        records = [ratio.record for ratio in found]
        write_results(json, records, plot, lambda: ratio_figure(found))
    exit_if_stopped(len(done), total, stop)


def setting(plot: FigureOption) -> None:
    """Draw the reward functions and the densities of the sources' contexts."""
    with refusing():
        check_outputs([(plot, FIGURE)])
        from discreet.reporting.transfer_setting import setting_figure

        write_results(None, (), plot, setting_figure)
