"""`discreet reproduce`: the papers' figures and tables, each a command with its own options."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli import STOPPED, stop_of
from discreet.cli.console import (
    FIGURE,
    RECORDS,
    AddressOption,
    EngineName,
    JobsOption,
    PlotOption,
    RecordsOption,
    check_outputs,
    cores,
    err,
    out,
    reporting_errors,
    shared,
    write_results,
)
from discreet.lab.reporting.numbers import counted
from discreet.lab.reporting.provenance import provenance_of_seed
from discreet.lab.results.screen import plain
from discreet.papers.registry import REPRODUCTIONS, presentations
from discreet.papers.report import shortened
from discreet.papers.reproduction import AGREES, Reproduction

reproduce_app = typer.Typer(help="The papers' figures and tables.", no_args_is_help=True)


def _option(kind: Any, help: str, *names: str, **limits: Any) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, **limits)]


def _list(kind: Any, help: str, *names: str, **limits: Any) -> Any:
    text = f"{help}; may be given several times."
    return _option(list[kind] | None, text, *names, **limits)


_FILES = "Folder with lendingclub/ and singapore_property/; without it both are left out."
_RELEASES = "Releases of each of two tables, and as many for the threshold."
_DELTA = "Delta of every budget, unless delta is what is varied."
_REWARDS = "Mean rewards: exponential (3 arms) or symmetric (2 arms)."
_TRIALS = "Repetitions on fresh people."

# For each option of a reproduction its command's parameter with the type; `Reproduction.options`
# names them with their defaults.
OPTIONS: dict[str, tuple[str, Any]] = {
    "trials": ("trials", _option(int, _TRIALS, min=1)),
    "repetitions": ("repetitions", _option(int, _TRIALS, "--repetitions", "--trials", min=1)),
    "runs": ("runs", _option(int, "Repetitions, each with its own function and first row.", min=1)),
    "releases": ("trials", _option(int, _RELEASES, min=2)),
    "rounds": ("rounds", _list(int, "People in each trial", min=2)),
    "targets": ("rounds", _list(int, "People of the target", "--rounds")),
    "people": (
        "rounds",
        _option(int | None, "People of the target; all if left out.", "--rounds", min=8),
    ),
    "questions": (
        "rounds",
        _option(int | None, "Questions; the paper's number if left out.", "--rounds", min=1),
    ),
    "epsilon": ("epsilon", _list(float, "Of the target", "--epsilon")),
    "delta": ("delta", _option(float | None, _DELTA)),
    "auxiliary": ("auxiliary", _list(int, "People of each source", "--auxiliary")),
    "auxiliary_epsilon": (
        "auxiliary_epsilon",
        _list(float, "Of the sources", "--auxiliary-epsilon"),
    ),
    "gamma": ("gamma", _list(float, "Shift of the sources' contexts", "--gamma")),
    "kappa": ("kappa", _list(float, "Exploration of the sources", "--kappa")),
    "sources": ("sources", _list(int, "How many sources", "--sources")),
    "rewards": ("rewards", _option(str, _REWARDS)),
    "method": ("method", _list(str, "Only this method, such as ours", "--method")),
    "only": ("only", _list(str, "Only this data set", "--only")),
    "table": ("table", _list(int, "Only this table of the paper")),
    "folder": ("data", _option(Path, "Folder with adult/, jobs/ and taxi/.", "--data")),
    "files": ("data", _option(Path | None, _FILES, "--data")),
    "log_scale": (
        "log_scale",
        _option(bool, "A logarithmic vertical axis in the figure.", "--log-scale"),
    ),
    "linear": ("linear", _option(bool, "A linear vertical axis in the figure.", "--linear")),
    "jobs": ("jobs", JobsOption),
    "engine": (
        "engine",
        _option(EngineName | None, "What shares the work; processes if left out."),
    ),
    "address": ("address", AddressOption),
    "json": ("json", RecordsOption),
    "resume": (
        "resume",
        _option(bool, "Resume an earlier run with these options in this folder.", "--resume"),
    ),
    "plot": ("plot", PlotOption),
    "details": ("details", _option(bool, "Every table, not only the first.", "--details")),
    "drawing": ("plot", _option(Path, "File for the figure (.png).", "--plot")),
}


@reproduce_app.command("list")
def reproduce_list() -> None:
    """The commands that reproduce the papers' figures and tables."""
    for what in REPRODUCTIONS.values():
        out.say(f"{what.name:17}  {what.title}")
    out.say("Options: discreet reproduce NAME --help. Each figure's command: docs/papers.md")


def _command(what: Reproduction) -> Callable[..., None]:
    """The command of a reproduction, whose parameters are the options that it names."""

    def reproduce(**wish: Any) -> None:
        jobs, json, plot = (wish.pop(name, None) for name in ("jobs", "json", "plot"))
        engine, address = (wish.pop(name, None) for name in ("engine", "address"))
        log_scale = wish.pop("log_scale", False) or not wish.pop("linear", True)
        resume, details = wish.pop("resume", False), wish.pop("details", True)
        with reporting_errors():
            check_outputs([(json, RECORDS), (plot, FIGURE)])
            if what.form == "drawing":
                from discreet.papers.ma2025.report import setting_figure

                write_results(None, (), plot, setting_figure)
                return
            with err.status("Preparing"):
                plan = what.plan(**wish)
            for notice in plan.notices:
                out.print(plain(notice))
            resumable = "resume" in what.options
            workers = min(jobs or cores(), plan.total) if resumable else 1
            stem = Path.cwd() / what.name if resumable else None
            with plan.journal(stem, resume, err) as journal:
                done, stop = list(journal.outcomes), None
                if done:
                    err.print(f"Going on after {len(done)} of {plan.total} runs.")
                with (
                    shared(engine or EngineName.processes, workers, address),
                    err.progress() as bar,
                ):
                    shown = bar.add_task("Reproducing", total=plan.total, completed=len(done))
                    try:
                        for each in plan.run(workers, journal.outcomes):
                            done.append(each)
                            journal.add(each)
                            bar.update(shown, advance=1, description=plan.names[each.case])
                    except STOPPED as error:
                        stop = stop_of(error)
                results = plan.finish(done) if done else None
                if stop is not None and (results is None or not len(results.ends)):
                    err.print(f"{stop.word} before anything was finished; nothing was written.")
                    raise typer.Exit(stop.code)
                assert results is not None
                form = presentations()[what.form]
                out.print()
                out.print(f"[bold]{plain(what.title)}[/]")
                out.print()
                table = form.table(what, results)
                table, more = (table, 0) if details else shortened(table)
                out.print(table)
                if more:
                    out.print(f"... {counted(more, 'more table')}: --details")
                compared = AGREES if results.ends["agrees"].notna().any() else ""
                for text in (form.note(what, results), compared, what.note):
                    if text:
                        out.print()
                        out.print(plain(text))
                out.print()
                origin = provenance_of_seed(what.name, plan.seed, "reproduction")
                digest = plan.digest
                draw = form.figure
                write_results(
                    json,
                    origin.stamped({**row, "digest": digest} for row in results.records),
                    plot,
                    None if draw is None else lambda: draw(what, results, log_scale),
                )
                if stop is not None:
                    again = [word for word in sys.argv[1:] if word != "--resume"]
                    command = shlex.join(["discreet", *again, "--resume"])
                    finished = f"this is what was finished ({len(done)} of {plan.total} runs)."
                    text = f"{stop.word}: {finished}\n{journal.stopped(command)}"
                    err.print(plain(text), soft_wrap=True)
                    raise typer.Exit(stop.code)
                journal.finish()

    parameters = [
        inspect.Parameter(
            OPTIONS[name][0],
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is ... else default,
            annotation=OPTIONS[name][1],
        )
        for name, default in what.options.items()
    ]
    reproduce.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    reproduce.__annotations__ = {each.name: each.annotation for each in parameters}
    return reproduce


for _reproduction in REPRODUCTIONS.values():
    reproduce_app.command(_reproduction.name, help=f"{_reproduction.title}.")(
        _command(_reproduction)
    )
