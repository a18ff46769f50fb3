"""`discreet reproduce`: the papers' figures and tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from discreet.cli.console import (
    JobsOption,
    RecordsOption,
    check_ending,
    cores,
    err,
    out,
    plain,
    progress,
    refusing,
)
from discreet.records import write_records
from discreet.reproduction.registry import REPRODUCTIONS
from discreet.reproduction.runner import Case, Reproduction, Trial, lines_of

reproduce_app = typer.Typer(help="The papers' figures and tables.", no_args_is_help=True)

TrialsOption = Annotated[int, typer.Option(min=1, help="Repetitions on fresh people.")]
RoundsOption = Annotated[
    list[int], typer.Option(min=2, help="People in each trial; may be given several times.")
]
DeltaOption = Annotated[
    float | None, typer.Option(help="Delta of every budget, where it is not what is varied.")
]
PlotOption = Annotated[Path | None, typer.Option(help="File for the figure (.png).")]
LogOption = Annotated[
    bool, typer.Option("--log-scale", help="A logarithmic vertical axis in the figure.")
]
PublishedOption = Annotated[
    bool,
    typer.Option("--published", help="Run the published method also where it is slow."),
]
MethodOption = Annotated[
    list[str] | None,
    typer.Option("--method", help="Only this method, such as ours; may be given several times."),
]


@reproduce_app.command("list")
def reproduce_list() -> None:
    """The figures and tables that can be reproduced."""
    table = Table("name", "what", "trials", "rounds", box=None, pad_edge=False)
    for one in REPRODUCTIONS.values():
        rounds = "; ".join(f"{people:,}" for people in one.sizes)
        table.add_row(one.name, plain(one.title), f"{one.trials}", rounds)
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
            check_ending(json, ".jsonl", ".json", ".parquet")
            check_ending(plot, ".png")
            cases = what.plan(rounds, delta, published, method or ())
            done, complete = _run_trials(what, cases, trials, jobs or cores())
        if not done:
            err.print("Interrupted before any trial was finished; nothing was written.")
            raise typer.Exit(130)
        # Matplotlib takes a second to import: only a run that got here needs it.
        from discreet.reporting.reproduction import (
            regret_figure,
            result_table,
            save_figure,
            table_note,
        )
        from discreet.reporting.trade_off import trade_off_figure

        lines = lines_of(cases, done)
        out.print()
        out.print(f"[bold]{plain(what.title)}[/]", highlight=False)
        out.print()
        out.print(result_table(lines))
        for text in (table_note(lines), what.note):
            out.print()
            out.print(plain(text), highlight=False)
        out.print()
        if json is not None:
            write_records([record for line in lines for record in line.records], json)
            out.print(plain(f"Records: {json}"), highlight=False)
        if plot is not None:
            by_epsilon = what.figure == "epsilon"
            drawn = trade_off_figure(lines) if by_epsilon else regret_figure(lines, log_scale)
            save_figure(drawn, plot)
            out.print(plain(f"Figure:  {plot}"), highlight=False)
        if not complete:
            total = len(cases) * trials
            err.print(f"Interrupted: shown is what was finished ({len(done)} of {total} runs).")
            raise typer.Exit(130)

    return reproduce


def _run_trials(
    what: Reproduction, cases: list[Case], trials: int, jobs: int
) -> tuple[list[Trial], bool]:
    """Finished trials, and whether they are all there."""
    total = len(cases) * trials
    done: list[Trial] = []
    stream = what.run(cases, trials, min(jobs, total))
    with progress() as bar:
        task = bar.add_task("Reproducing", total=total)
        try:
            for trial in stream:
                done.append(trial)
                bar.update(task, advance=1, description=cases[trial.case].method)
        except KeyboardInterrupt:
            return done, False
    return done, True


for _one in REPRODUCTIONS.values():
    reproduce_app.command(_one.name, help=f"{_one.title}.")(_reproducing(_one))
