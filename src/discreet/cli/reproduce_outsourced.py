"""`discreet reproduce po-gp-ucb-...`: searches of tables, and attacks on what curators release."""

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
    err,
    exit_if_empty,
    exit_if_stopped,
    out,
    plain,
    refusing,
)
from discreet.cli.outputs import FIGURE, RECORDS, check_outputs, write_results
from discreet.reproduction.kharkovskii2020.data_sets import NEED_FILES, DataSet, load
from discreet.reproduction.kharkovskii2020.experiments import (
    PO_GP_UCB_FIGURES,
    PO_GP_UCB_TABLES,
    Searches,
    Wish,
    searches_in,
)
from discreet.reproduction.kharkovskii2020.findings import ATTACKS
from discreet.reproduction.kharkovskii2020.searches import lines_of
from discreet.reproduction.kharkovskii2020.settings import RUNS
from discreet.validation import InvalidInput

FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder with lendingclub/ and singapore_property/; without it both are left out.",
    ),
]
RunsOption = Annotated[
    int, typer.Option(min=1, help="Repetitions, each with its own function and first row.")
]
QuestionsOption = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Questions; the paper's number if left out.")
]
TableOption = Annotated[
    list[int] | None, typer.Option(help="Only this table of the paper; may be given several times.")
]
LinearOption = Annotated[
    bool, typer.Option("--linear", help="A linear vertical axis in the figure.")
]
TrialsOption = Annotated[
    int, typer.Option(min=2, help="Releases of each of two tables, and as many for the threshold.")
]


def tables(
    data: FolderOption = None,
    runs: RunsOption = RUNS,
    rounds: QuestionsOption = None,
    table: TableOption = None,
    only: OnlyOption = None,
    method: MethodOption = None,
    jobs: JobsOption = None,
    json: RecordsOption = None,
    plot: PlotOption = None,
    linear: LinearOption = False,
) -> None:
    """Tables 1 to 12, and the same at a larger length scale."""
    wish = Wish(only or (), table or (), method or (), rounds)
    _search(PO_GP_UCB_TABLES, wish, data, runs, jobs, json, plot, linear)


def figures(
    data: FolderOption = None,
    runs: RunsOption = RUNS,
    rounds: QuestionsOption = None,
    only: OnlyOption = None,
    method: MethodOption = None,
    jobs: JobsOption = None,
    json: RecordsOption = None,
    plot: PlotOption = None,
    linear: LinearOption = False,
) -> None:
    """Figures 2 and 3, and the same at a larger length scale."""
    wish = Wish(only or (), (), method or (), rounds)
    _search(PO_GP_UCB_FIGURES, wish, data, runs, jobs, json, plot, linear)


def attack(trials: TrialsOption = ATTACKS.trials, json: RecordsOption = None) -> None:
    """Attacks on the published release, which succeed, and on ours, which do not."""
    with refusing():
        check_outputs([(json, RECORDS)])
        stream = ATTACKS.findings(trials)
        done, stop = collected(stream, ATTACKS.count, lambda finding: finding.name, "Attacking")
    exit_if_empty(len(done), stop)
    from discreet.reporting.attacks import attack_note, attack_table

    _heading(ATTACKS.title)
    out.print(attack_table(done))
    _paragraphs(attack_note(done), ATTACKS.note)
    with refusing():
        write_results(json, [finding.record for finding in done])
    exit_if_stopped(len(done), ATTACKS.count, stop)


def _search(
    what: Searches,
    wish: Wish,
    folder: Path | None,
    runs: int,
    jobs: int | None,
    json: Path | None,
    plot: Path | None,
    linear: bool,
) -> None:
    with refusing():
        check_outputs([(json, RECORDS), (plot, FIGURE)])
        data = _loaded(what.needed(wish), folder)
        entries = what.plan(wish, data)
        total = runs * searches_in(entries)
        stream = what.run(entries, data, runs, min(jobs or cores(), total))
        done, stop = collected(
            stream, total, lambda run: f"{run.search.data_set}: {run.search.method.name}"
        )
    exit_if_empty(len(done), stop)
    # Matplotlib takes a second to import: only a run that got here needs it.
    from discreet.reporting.search_figures import columns_figure, questions_figure
    from discreet.reporting.searches import search_note, search_table

    lines = lines_of(entries, data, done)
    _heading(what.title)
    out.print(search_table(lines))
    _paragraphs(search_note(lines), what.note)
    drawn = columns_figure if what.figure == "columns" else questions_figure
    with refusing():
        records = [record for line in lines for record in line.records]
        write_results(json, records, plot, lambda: drawn(lines, not linear))
    exit_if_stopped(len(done), total, stop)


def _loaded(names: list[str], folder: Path | None) -> dict[str, DataSet]:
    """The data sets that are there; says which are left out."""
    missing = [name for name in names if name in NEED_FILES and folder is None]
    found = [name for name in names if name not in missing]
    if not found:
        raise InvalidInput(
            f"{' and '.join(missing)} need files that pip does not install; name their folder with "
            "--data."
        )
    if missing:
        text = f"Without --data these data sets are left out: {', '.join(missing)}."
        err.print(plain(text))
    data = {}
    with err.status("") as status:
        for name in found:
            status.update(f"Preparing {name}")
            data[name] = load(name, folder)
    return data


def _heading(title: str) -> None:
    out.print()
    out.print(f"[bold]{plain(title)}[/]")
    out.print()


def _paragraphs(*texts: str) -> None:
    for text in texts:
        out.print()
        out.print(plain(text))
    out.print()
