"""`discreet reproduce`: the papers' figures and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer
from rich.table import Table

from discreet.cli.console import (
    JobsOption,
    MethodOption,
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
from discreet.cli.reproduce_outsourced import attack, figures, tables
from discreet.cli.reproduce_table_2 import setting, table_2
from discreet.cli.reproduce_transfer import experiment_command
from discreet.reproduction.cases import lines_of
from discreet.reproduction.kharkovskii2020.experiments import PO_GP_UCB_FIGURES, PO_GP_UCB_TABLES
from discreet.reproduction.kharkovskii2020.findings import ATTACKS
from discreet.reproduction.ma2025.experiments import EXPERIMENTS, FIGURES_4_5
from discreet.reproduction.ma2025.table import TABLE_2
from discreet.reproduction.registry import LISTED, REPRODUCTIONS
from discreet.reproduction.runner import Reproduction

reproduce_app = typer.Typer(help="The papers' figures and tables.", no_args_is_help=True)

TrialsOption = Annotated[int, typer.Option(min=1, help="Repetitions on fresh people.")]
RoundsOption = Annotated[
    list[int], typer.Option(min=2, help="People in each trial; may be given several times.")
]
DeltaOption = Annotated[
    float | None, typer.Option(help="Delta of every budget, unless delta is what is varied.")
]
LogOption = Annotated[
    bool, typer.Option("--log-scale", help="A logarithmic vertical axis in the figure.")
]
PublishedOption = Annotated[
    bool,
    typer.Option("--published", help="Also run the published method where it is slow."),
]


@reproduce_app.command("list")
def reproduce_list() -> None:
    """The figures and tables that can be reproduced."""
    table = Table("name", "what", "trials", "rounds", box=None, pad_edge=False)
    for one in LISTED:
        rounds = "; ".join(f"{people:,}" for people in one.sizes)
        table.add_row(one.name, plain(one.title), f"{one.trials:,}", rounds)
    out.print(table)


def _reproducing(what: Reproduction) -> Callable[..., None]:
    """The command of one reproduction."""

    def reproduce(
        trials: TrialsOption = what.trials,
        rounds: RoundsOption = list(what.sizes),  # noqa: B006
        delta: DeltaOption = what.delta,
        jobs: JobsOption = None,
        json: RecordsOption = None,
        plot: PlotOption = None,
        log_scale: LogOption = False,
        published: PublishedOption = False,
        method: MethodOption = None,
    ) -> None:
        with refusing():
            check_outputs([(json, RECORDS), (plot, FIGURE)])
            cases = what.plan(rounds, delta, published, method or ())
            total = len(cases) * trials
            stream = what.run(cases, trials, min(jobs or cores(), total))
            done, stop = collected(stream, total, lambda trial: cases[trial.case].method)
        exit_if_empty(len(done), stop)
        # Matplotlib takes a second to import: only a run that got here needs it.
        from discreet.reporting.reproduction import (
            regret_figure,
            result_table,
            table_note,
        )
        from discreet.reporting.trade_off import trade_off_figure

        lines = lines_of(cases, done)
        out.print()
        out.print(f"[bold]{plain(what.title)}[/]")
        out.print()
        out.print(result_table(lines))
        for text in (table_note(lines), what.note):
            out.print()
            out.print(plain(text))
        out.print()
        by_epsilon = what.figure == "epsilon"
        with refusing():
            write_results(
                json,
                [record for line in lines for record in line.records],
                plot,
                lambda: trade_off_figure(lines) if by_epsilon else regret_figure(lines, log_scale),
            )
        exit_if_stopped(len(done), total, stop)

    return reproduce


for _one in REPRODUCTIONS.values():
    reproduce_app.command(_one.name, help=f"{_one.title}.")(_reproducing(_one))

for _name, _title, _command in (
    (PO_GP_UCB_TABLES.name, PO_GP_UCB_TABLES.title, tables),
    (PO_GP_UCB_FIGURES.name, PO_GP_UCB_FIGURES.title, figures),
    (ATTACKS.name, ATTACKS.title, attack),
    (FIGURES_4_5.name, FIGURES_4_5.title, setting),
):
    reproduce_app.command(_name, help=f"{_title}.")(_command)

for _figure in EXPERIMENTS:
    reproduce_app.command(_figure.name, help=f"{_figure.title}.")(experiment_command(_figure))

reproduce_app.command(TABLE_2.name, help=f"{TABLE_2.title}.")(table_2)
