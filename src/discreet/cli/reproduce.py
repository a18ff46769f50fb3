"""`discreet reproduce`: the papers' figures and tables, each a command with its own options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from discreet.cli.console import (
    JobsOption,
    PlotOption,
    RecordsOption,
    collected,
    cores,
    err,
    exit_if_empty,
    exit_if_stopped,
    out,
    plain,
    refusing,
)
from discreet.cli.outputs import FIGURE, RECORDS, check_outputs, write_results
from discreet.reproduction.base import Reproduction
from discreet.reproduction.registry import REPRODUCTIONS

reproduce_app = typer.Typer(help="The papers' figures and tables.", no_args_is_help=True)


def _times(kind: Any, help: str, *names: str, least: int | None = None) -> Any:
    return Annotated[
        list[kind] | None,
        typer.Option(*names, min=least, help=f"{help}; may be given several times."),
    ]


# For each option of a reproduction how commands call it, and what it is; `Reproduction.options`
# names them with their defaults.
OPTIONS: dict[str, tuple[str, Any]] = {
    "trials": ("trials", Annotated[int, typer.Option(min=1, help="Repetitions on fresh people.")]),
    "rounds": ("rounds", _times(int, "People in each trial", least=2)),
    "delta": (
        "delta",
        Annotated[
            float | None,
            typer.Option(help="Delta of every budget, unless delta is what is varied."),
        ],
    ),
    "log_scale": (
        "log_scale",
        Annotated[
            bool, typer.Option("--log-scale", help="A logarithmic vertical axis in the figure.")
        ],
    ),
    "published": (
        "published",
        Annotated[
            bool,
            typer.Option("--published", help="Also run the published method where it is slow."),
        ],
    ),
    "method": ("method", _times(str, "Only this method, such as ours", "--method")),
    "only": ("only", _times(str, "Only this data set", "--only")),
    "repetitions": (
        "repetitions",
        Annotated[
            int,
            typer.Option("--repetitions", "--trials", min=1, help="Repetitions on fresh people."),
        ],
    ),
    "targets": ("rounds", _times(int, "People of the target", "--rounds")),
    "epsilon": ("epsilon", _times(float, "Of the target", "--epsilon")),
    "auxiliary": ("auxiliary", _times(int, "People of each source", "--auxiliary")),
    "auxiliary_epsilon": (
        "auxiliary_epsilon",
        _times(float, "Of the sources", "--auxiliary-epsilon"),
    ),
    "gamma": ("gamma", _times(float, "Shift of the sources' contexts", "--gamma")),
    "kappa": ("kappa", _times(float, "Exploration of the sources", "--kappa")),
    "sources": ("sources", _times(int, "How many sources", "--sources")),
    "constant": (
        "constant",
        Annotated[
            float | None,
            typer.Option(help="c of C_n = c log(n) in the published rules; 1 if left out."),
        ],
    ),
    "scale": (
        "constant",
        Annotated[float, typer.Option(help="c of C_n = c log(n) in the published rules.")],
    ),
    "rewards": (
        "rewards",
        Annotated[
            str,
            typer.Option(help="Mean rewards: exponential (3 arms) or symmetric (2 arms)."),
        ],
    ),
    "folder": (
        "data",
        Annotated[Path, typer.Option("--data", help="Folder with adult/, jobs/ and taxi/.")],
    ),
    "people": (
        "rounds",
        Annotated[
            int | None,
            typer.Option("--rounds", min=8, help="People of the target; all if left out."),
        ],
    ),
    "files": (
        "data",
        Annotated[
            Path | None,
            typer.Option(
                "--data",
                help="Folder with lendingclub/ and singapore_property/; without it both are left "
                "out.",
            ),
        ],
    ),
    "runs": (
        "runs",
        Annotated[
            int,
            typer.Option(min=1, help="Repetitions, each with its own function and first row."),
        ],
    ),
    "questions": (
        "rounds",
        Annotated[
            int | None,
            typer.Option("--rounds", min=1, help="Questions; the paper's number if left out."),
        ],
    ),
    "table": ("table", _times(int, "Only this table of the paper")),
    "linear": (
        "linear",
        Annotated[bool, typer.Option("--linear", help="A linear vertical axis in the figure.")],
    ),
    "releases": (
        "trials",
        Annotated[
            int,
            typer.Option(
                min=2, help="Releases of each of two tables, and as many for the threshold."
            ),
        ],
    ),
    "jobs": ("jobs", JobsOption),
    "json": ("json", RecordsOption),
    "plot": ("plot", PlotOption),
    "drawing": (
        "plot",
        Annotated[Path, typer.Option("--plot", help="File for the figure (.png).")],
    ),
}


@reproduce_app.command("list")
def reproduce_list() -> None:
    """The figures and tables that can be reproduced."""
    table = Table("name", "what", "trials", "rounds", box=None, pad_edge=False)
    for what in REPRODUCTIONS.values():
        rounds = "; ".join(f"{people:,}" for people in what.sizes)
        table.add_row(what.name, plain(what.title), f"{what.trials:,}", rounds)
    out.print(table)


def _command(what: Reproduction) -> Callable[..., None]:
    """The command of a reproduction, whose parameters are the options that it names."""

    def reproduce(**wish: Any) -> None:
        jobs, json, plot = (wish.pop(name, None) for name in ("jobs", "json", "plot"))
        log_scale = wish.pop("log_scale", False) or not wish.pop("linear", True)
        with refusing():
            check_outputs([(json, RECORDS), (plot, FIGURE)])
            if what.form == "drawing":
                from discreet.reporting.transfer_setting import setting_figure

                write_results(None, (), plot, setting_figure)
                return
            with err.status("Preparing"):
                plan = what.plan(**wish)
            for notice in plan.notices:
                err.print(plain(notice))
            workers = min(jobs or cores(), plan.total) if "jobs" in what.options else 1
            done, stop = collected(
                plan.run(workers), plan.total, lambda each: plan.names[each.case]
            )
            results = plan.finish(done) if done else None
        exit_if_empty(0 if results is None else len(results.ends), stop)
        assert results is not None
        # Matplotlib takes a second to import: only a run that got here needs it.
        from discreet.reporting.forms import FORMS

        form = FORMS[what.form]
        out.print()
        out.print(f"[bold]{plain(what.title)}[/]")
        out.print()
        out.print(form.table(what, results))
        for text in (form.note(what, results), what.note):
            out.print()
            out.print(plain(text))
        out.print()
        draw = form.figure
        with refusing():
            write_results(
                json,
                results.records,
                plot,
                None if draw is None else lambda: draw(what, results, log_scale),
            )
        exit_if_stopped(len(done), plan.total, stop)

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
