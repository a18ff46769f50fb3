"""The command line: `discreet run`, `discreet data`, `discreet reproduce`, `discreet version`.

Bad input ends with exit code 2 and one message that names what is wrong; an interrupted run keeps
and shows what is finished and ends with exit code 130.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from discreet.problems.catalog import entries, find_entry
from discreet.records import as_json_line, check_path, write_records
from discreet.reproduction.registry import REPRODUCTIONS
from discreet.reproduction.runner import Case, Reproduction, Trial, lines_of
from discreet.simulation import Outcome, simulate_all
from discreet.studies import Study, load_study
from discreet.validation import InvalidInput

app = typer.Typer(
    name="discreet",
    help="Differentially private bandits, with guarantees you can check.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="The problems that a study file can name.", no_args_is_help=True)
app.add_typer(data_app, name="data")
reproduce_app = typer.Typer(help="The papers' figures and tables.", no_args_is_help=True)
app.add_typer(reproduce_app, name="reproduce")

_out = Console()
_err = Console(stderr=True)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with data files that pip does not install (ADULT)."),
]
TrialsOption = Annotated[int, typer.Option(min=1, help="Repetitions on fresh people.")]
RoundsOption = Annotated[
    list[int], typer.Option(min=2, help="People in each trial; may be given several times.")
]
DeltaOption = Annotated[
    float | None, typer.Option(help="Delta of every budget, where it is not what is varied.")
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Processes; all cores if left out.")]
RecordsOption = Annotated[
    Path | None,
    typer.Option("--json", help="File for one record per line (.jsonl), or .parquet."),
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


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn refused input into a message and exit code 2."""
    try:
        yield
    except InvalidInput as error:
        _err.print(f"[bold red]Refused:[/] {_plain(str(error))}", highlight=False)
        raise typer.Exit(2) from error
    except (MemoryError, OverflowError) as error:
        _err.print(
            "[bold red]Refused:[/] the study is too large for this machine; ask for fewer rounds, "
            "arms or columns.",
            highlight=False,
        )
        raise typer.Exit(2) from error


def _plain(text: str) -> str:
    """Text that rich shall print as it is, not interpret."""
    return escape(text)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="The version."),
    ] = False,
) -> None:
    """Differentially private bandits, with guarantees you can check."""


@app.command()
def version() -> None:
    """Print the version."""
    _out.print(installed_version("discreet"), highlight=False)


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="A study file (TOML); see examples/.")],
    rounds: Annotated[
        int | None, typer.Option(min=1, help="People in each replicate, instead of the file's.")
    ] = None,
    replicates: Annotated[
        int | None, typer.Option(min=1, help="Replicates, instead of the file's.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; all cores if left out.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="File for one record per line (.jsonl), or .parquet."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="File for the report (one HTML file).")
    ] = None,
    data: DataOption = None,
) -> None:
    """Simulate a study: what would each epsilon cost on these people?"""
    with _refusing():
        _check_ending(json, ".jsonl", ".json", ".parquet")
        _check_ending(report, ".html")
        loaded = load_study(study, rounds, replicates, data)
        outcomes, complete = _simulate(loaded, jobs or _cores(), json)
    if not outcomes:
        _err.print("Interrupted before any replicate was finished; nothing was written.")
        raise typer.Exit(130)
    # Matplotlib and Jinja2 take a second to import: only a run that got here needs them.
    from discreet.reporting.summary import summarise
    from discreet.reporting.table import promise, result_table

    summary = summarise(outcomes, loaded.settings)
    _out.print()
    _out.print(f"[bold]{_plain(loaded.title)}[/]", highlight=False)
    _out.print(_plain(_what(loaded)), highlight=False)
    _out.print()
    _out.print(result_table(summary))
    _out.print()
    _out.print(_plain(promise(summary)), highlight=False)
    _out.print()
    if json is not None:
        write_records([outcome.record for outcome in outcomes], json)
        _out.print(_plain(f"Records: {json}"), highlight=False)
    if report is not None:
        from discreet.reporting.html import write_report

        write_report(loaded, outcomes, report)
        _out.print(_plain(f"Report:  {report}"), highlight=False)
    if not complete:
        total = len(loaded.settings) * loaded.replicates
        _err.print(f"Interrupted: shown is what was finished ({len(outcomes)} of {total} runs).")
        raise typer.Exit(130)


def _check_ending(path: Path | None, *endings: str) -> None:
    """Refuse a file that could not be written, or whose name promises another format."""
    if path is None:
        return
    if path.suffix not in endings:
        raise InvalidInput(f"{path} must end in {' or '.join(endings)}; name it so.")
    check_path(path)


def _cores() -> int:
    import joblib

    return int(joblib.cpu_count())


def _what(study: Study) -> str:
    return (
        f"{study.problem.source} {study.rounds:,} people, {study.replicates} "
        f"replicate{'s' if study.replicates > 1 else ''}; {study.problem.offer}."
    )


def _simulate(study: Study, jobs: int, json: Path | None) -> tuple[list[Outcome], bool]:
    """Outcomes in the study's order, and whether they are all there.

    JSON lines are written to a `.part` file as they come, so that even a killed run leaves what was
    finished, and an earlier result stays until there is a new one.
    """
    total = len(study.settings) * study.replicates
    outcomes: list[Outcome] = []
    complete = True
    bar = _progress()
    stream = simulate_all(
        study.problem,
        study.settings,
        study.rounds,
        study.replicates,
        study.seed,
        min(jobs, total),
        study.name,
    )
    with _line_writer(json) as write, bar:
        task = bar.add_task("Simulating", total=total)
        try:
            for outcome in stream:
                outcomes.append(outcome)
                write(outcome)
                bar.update(task, advance=1, description=outcome.record.label)
        except KeyboardInterrupt:
            complete = False
    order = {setting.label: place for place, setting in enumerate(study.settings)}
    outcomes.sort(key=lambda one: (order[one.setting.label], one.record.replicate))
    return outcomes, complete


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=_err,
        transient=True,
    )


@contextmanager
def _line_writer(path: Path | None) -> Iterator[Callable[[Outcome], None]]:
    """Writes records as they come to `path`.part; `write_records` then makes the whole file."""
    if path is None or path.suffix == ".parquet":
        yield lambda outcome: None
        return
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:

        def write(outcome: Outcome) -> None:
            file.write(as_json_line(outcome.record) + "\n")
            file.flush()

        yield write
    part.unlink()


@data_app.command("list")
def data_list() -> None:
    """The problems that a study file can name."""
    table = Table("name", "people", "what", box=None, pad_edge=False)
    for entry in entries():
        people = "any" if entry.people is None else f"{entry.people:,}"
        table.add_row(entry.name, people, _plain(entry.description))
    _out.print(table)
    _out.print("discreet data show NAME tells columns, arms and options.", highlight=False)


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(help="A name from `discreet data list`.")],
) -> None:
    """Columns with their public bounds, arms, options and source of one problem."""
    with _refusing():
        entry = find_entry(name)
    _out.print(f"[bold]{entry.name}[/]: {_plain(entry.description)}", highlight=False)
    _out.print(f"Source: {_plain(str(entry.source))}", highlight=False)
    if entry.columns:
        table = Table("column", "from", "to", "values", box=None, pad_edge=False)
        for column in entry.columns:
            values = ", ".join(column.values) or (
                "any" if column.levels is None else f"{column.levels} equally spaced values"
            )
            bounds = ("", "") if column.values else (f"{column.lower:g}", f"{column.upper:g}")
            table.add_row(column.name, *bounds, values)
        _out.print(table)
    if entry.arms:
        _out.print(f"Arms: {_plain(entry.arms_line)}", highlight=False)
    for option, default, meaning in entry.option_lines():
        _out.print(
            f"  [bold]{option}[/] ({_plain(str(default))}): {_plain(meaning)}", highlight=False
        )


@reproduce_app.command("list")
def reproduce_list() -> None:
    """The figures and tables that can be reproduced."""
    table = Table("name", "what", "trials", "rounds", box=None, pad_edge=False)
    for one in REPRODUCTIONS.values():
        rounds = "; ".join(f"{people:,}" for people in one.sizes)
        table.add_row(one.name, _plain(one.title), f"{one.trials}", rounds)
    _out.print(table)


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
        with _refusing():
            _check_ending(json, ".jsonl", ".json", ".parquet")
            _check_ending(plot, ".png")
            cases = what.plan(rounds, delta, published, method or ())
            done, complete = _run_trials(what, cases, trials, jobs or _cores())
        if not done:
            _err.print("Interrupted before any trial was finished; nothing was written.")
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
        _out.print()
        _out.print(f"[bold]{_plain(what.title)}[/]", highlight=False)
        _out.print()
        _out.print(result_table(lines))
        for text in (table_note(lines), what.note):
            _out.print()
            _out.print(_plain(text), highlight=False)
        _out.print()
        if json is not None:
            write_records([record for line in lines for record in line.records], json)
            _out.print(_plain(f"Records: {json}"), highlight=False)
        if plot is not None:
            by_epsilon = what.figure == "epsilon"
            drawn = trade_off_figure(lines) if by_epsilon else regret_figure(lines, log_scale)
            save_figure(drawn, plot)
            _out.print(_plain(f"Figure:  {plot}"), highlight=False)
        if not complete:
            total = len(cases) * trials
            _err.print(f"Interrupted: shown is what was finished ({len(done)} of {total} runs).")
            raise typer.Exit(130)

    return reproduce


def _run_trials(
    what: Reproduction, cases: list[Case], trials: int, jobs: int
) -> tuple[list[Trial], bool]:
    """Finished trials, and whether they are all there."""
    total = len(cases) * trials
    done: list[Trial] = []
    stream = what.run(cases, trials, min(jobs, total))
    with _progress() as bar:
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


def main() -> None:
    """Entry point of the `discreet` command."""
    sys.exit(app())
