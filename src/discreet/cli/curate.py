"""`discreet curate`: release a table once, and answer questions about its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from discreet.cli.console import (
    TABLE_ENDINGS,
    Kind,
    check_outputs,
    err,
    out,
    reporting_errors,
    table_of,
)
from discreet.lab.results.screen import plain
from discreet.outsourcing.bounds import read_bounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.curator import Allowed, Curator
from discreet.outsourcing.exchange import (
    ANSWER_COLUMNS,
    FORMATS,
    read_questions,
    write_answers,
    write_table,
)
from discreet.outsourcing.key import key_of, simulated_key
from discreet.outsourcing.mechanisms import AnswerRules, Unmeasured
from discreet.people.tables import read_table
from discreet.privacy import Outsourced, SecureNoise, SimulatedNoise
from discreet.validation import InvalidInput, one_of

_RELEASE = "release"


class _ReleaseByDefault(TyperGroup):
    """`discreet curate table.csv ...` is `discreet curate release table.csv ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {*self.commands, "--help"}
        return super().parse_args(ctx, args if not args or args[0] in known else [_RELEASE, *args])


curate_app = typer.Typer(
    cls=_ReleaseByDefault,
    help="Release a table once, then answer questions about its rows. "
    "`discreet curate TABLE ...` is short for `discreet curate release TABLE ...`.",
    no_args_is_help=True,
)

KeyOption = Annotated[Path, typer.Option(help="Folder of the key, which stays with you.")]


@curate_app.command(_RELEASE)
def release(
    table: Annotated[Path, typer.Argument(help="The table (.csv or .parquet), a row a person.")],
    bounds: Annotated[Path, typer.Option(help="Public bounds and units (TOML); see the docs.")],
    epsilon: Annotated[float, typer.Option(help="What the release may cost a person.")],
    delta: Annotated[float, typer.Option(help="Below 1 / (number of rows), say 1e-5.")],
    release_folder: Annotated[Path, typer.Option("--out", help="Folder for the modeler.")],
    key: KeyOption = Path("key"),
    radius: Annotated[
        float | None,
        typer.Option(help="How far one row may move, in units of distance; if left out, any row."),
    ] = None,
    project: Annotated[
        int | None, typer.Option(min=1, help="Project rows to this many columns; saves space only.")
    ] = None,
    answers_epsilon: Annotated[
        float | None,
        typer.Option(help="Protect answers too: what all answers about a person may cost."),
    ] = None,
    answers_delta: Annotated[float | None, typer.Option(help="Delta of the answers.")] = None,
    answers_bounds: Annotated[
        tuple[float, float] | None, typer.Option(help="Public bounds of outcomes: two numbers.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often a row may be asked for.")] = 1,
    form: Annotated[
        str, typer.Option("--format", help="Format of the rows: csv or parquet.")
    ] = "csv",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the certificate; draw nothing and write nothing."),
    ] = False,
    simulate: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Seed of simulated noise, for trials without protection; its key is the folder "
            "KEY-simulated.",
        ),
    ] = None,
    new_release: Annotated[
        bool,
        typer.Option("--new-release", help="Release the table once more; the costs add up."),
    ] = False,
    large_delta: Annotated[
        bool, typer.Option("--allow-large-delta", help="Allow a delta above 1 / (number of rows).")
    ] = False,
    protects_nobody: Annotated[
        bool, typer.Option("--protects-nobody", help="Allow an epsilon without protection.")
    ] = False,
) -> None:
    """Release a table once, with noise on every row."""
    with reporting_errors():
        public = read_bounds(bounds)
        budget = Outsourced(epsilon, delta, public.radius if radius is None else radius)
        curator = Curator(key if simulate is None else simulated_key(key))
        proposal = curator.propose(
            read_table(table, public.text_columns),
            public,
            budget,
            SecureNoise() if simulate is None else SimulatedNoise(simulate),
            projected=project,
            answers=AnswerRules(repeats, answers_epsilon, answers_delta, answers_bounds),
            form=one_of(form, "the format", FORMATS),
            seed=simulate,
            allowed=Allowed(new_release, large_delta, protects_nobody),
        )
        curator.check_out(proposal, release_folder)
        certificate = proposal.certificate
        if dry_run:
            out.print("[bold]Dry run:[/] nothing was drawn and nothing was written.")
            if proposal.drawn:
                out.print(
                    f"Release {certificate.release} was drawn for these settings before; without "
                    "--dry-run this command writes out the same one."
                )
            _show(certificate)
            return
        with err.progress() as bar:
            task = bar.add_task("Drawing noise", total=certificate.rows)
            certificate = curator.draw(proposal, lambda rows: bar.update(task, completed=rows))
        written = curator.publish(certificate.release, release_folder)
    state = "written to" if written else "was drawn before and is in"
    out.print(f"[bold]Release {certificate.release}[/] {state} {plain(str(release_folder))}")
    _show(certificate)
    if certificate.simulated:
        advice = (
            f"Keep {release_folder} and {curator.folder} to yourself: anyone who guesses the seed "
            "can remove the noise. A real release to the same folder replaces this one."
        )
    else:
        advice = (
            f"Send {release_folder} to the modeler. Keep {curator.folder} to yourself: it links "
            "rows to people."
        )
    out.say(advice)


def _show(certificate: Certificate) -> None:
    """What the rows are like, and what is promised."""
    scale = certificate.mechanism.scale
    lines = [
        f"{certificate.rows:,} rows in a random order; {', '.join(certificate.names)}; noise of "
        f"{scale:.3g} units on every number."
    ]
    if certificate.projection is None:
        lines += [
            f"  {column.name}: {scale / column.extent:.0%} of the width of its bounds"
            for column in certificate.bounds.columns
        ]
    for line in (*lines, "", *certificate.sentences, ""):
        out.say(line)


@curate_app.command("answer")
def answer(
    ask: Annotated[Path, typer.Argument(help="The ask file that the modeler sent.")],
    answers: Annotated[Path, typer.Option("--out", help="File for the answers.")],
    key: KeyOption = Path("key"),
    outcomes: Annotated[
        Path | None,
        typer.Option(help="Table with ids and outcomes of people measured in the meantime."),
    ] = None,
    to_measure: Annotated[
        Path | None,
        typer.Option(help="Write the ids of people who must be measured first to this table."),
    ] = None,
) -> None:
    """Answer the questions in an ask file. Run again, it gives the same answers."""
    inputs = [path for path in (ask, outcomes) if path is not None]
    with reporting_errors():
        check_outputs([(answers, table_of(ANSWER_COLUMNS))], inputs)
        name, questions = read_questions(ask)
        curator = Curator(key_of(name, key))
        columns = curator.outcome_columns()
        frame = None if outcomes is None else read_table(outcomes, columns[:1])
        try:
            given = curator.answer(name, questions, frame)
        except Unmeasured as unmeasured:
            if to_measure is None:
                raise InvalidInput(
                    f"{unmeasured} With --to-measure FILE.csv, their ids are written to a table "
                    "that you can fill in and give back with --outcomes."
                ) from unmeasured
            check_outputs([(to_measure, _to_be_filled(columns))], (*inputs, answers))
            write_table(unmeasured.frame(columns), to_measure, private=True)
            err.say(
                f"People to be measured first: {len(unmeasured.ids)}; their ids are in "
                f"{to_measure}. Fill in the outcomes and give the table back with --outcomes."
            )
            raise typer.Exit(3) from unmeasured
        write_answers(name, given, answers)
        kept = 0 if frame is None else curator.kept_answers(frame)
    impossible = sum(each.answer is None for each in given)
    plural = "" if len(questions) == 1 else "s"
    text = f"{len(questions)} question{plural} answered; {answers} holds all {len(given)} answers"
    if impossible:
        text += f"; rows that cannot be measured: {impossible}"
    out.say(f"{text}.")
    if kept:
        people = "1 person" if kept == 1 else f"{kept} people"
        out.say(
            f"{people} in {outcomes} had been answered for with another outcome; an answer "
            "that was given stays as it is."
        )


def _to_be_filled(columns: tuple[str, str]) -> Kind:
    """A table of people to be measured, in which no one has entered anything yet."""

    def empty(path: Path) -> bool:
        try:
            frame = read_table(path, columns[:1])
        except InvalidInput:
            return False
        return tuple(map(str, frame.columns)) == columns and bool(frame[columns[1]].isna().all())

    return Kind(f"a table of {columns[0]} with an empty {columns[1]}", TABLE_ENDINGS, empty)
