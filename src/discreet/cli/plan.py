"""`discreet plan`: what each epsilon would cost, and how many people it takes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import (
    PAGE,
    RECORDS,
    AddressOption,
    DataOption,
    EngineName,
    EngineOption,
    JobsOption,
    RecordsOption,
    check_outputs,
    cores,
    err,
    out,
    reporting_errors,
    shared,
    write_results,
)
from discreet.lab.results.screen import plain
from discreet.validation import ErrorCollector, InvalidInput

if TYPE_CHECKING:
    from discreet.lab.planning.planner import Progress
    from discreet.lab.reporting.plan import Plan


def plan(
    study: Annotated[Path, typer.Argument(help="A study file (TOML); see examples/.")],
    people: Annotated[
        int | None, typer.Option(min=1, help="How many people are expected, instead of the file's.")
    ] = None,
    lose_at_most: Annotated[
        str | None, typer.Option(help="The share of the gain that may be lost: 5% or 0.05.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="An epsilon that you have in mind.")] = None,
    epsilons: Annotated[
        str | None, typer.Option(help="The epsilons that are tried: 0.5,1,2,4,8 if left out.")
    ] = None,
    learners: Annotated[
        str | None, typer.Option(help="Learners to choose from, instead of the file's: a,b.")
    ] = None,
    trust_model: Annotated[
        str | None, typer.Option(help="local, shuffled or joint; the file's first if left out.")
    ] = None,
    replicates: Annotated[
        int | None, typer.Option(min=2, help="Replicates on which all numbers rest; 8 if left out.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="A public or older table in place of the file's, which is not read."),
    ] = None,
    synthetic: Annotated[
        bool,
        typer.Option("--synthetic", help="Synthetic people in place of the file's, never read."),
    ] = False,
    contrast: Annotated[
        float | None,
        typer.Option(help="How different the arms of synthetic people are, to 1; 0.5 if left out."),
    ] = None,
    jobs: JobsOption = None,
    engine: EngineOption = EngineName.processes,
    address: AddressOption = None,
    json: RecordsOption = None,
    report: Annotated[
        Path | None, typer.Option(help="File for the plan's page (one HTML file).")
    ] = None,
    data: DataOption = None,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Add the people that each epsilon takes, the odds for one person, and method "
            "notes.",
        ),
    ] = False,
) -> None:
    """What does each epsilon cost, and how many people does it take?

    Of --people, --lose-at-most and --epsilon give any two, and the plan answers with the third.
    """
    from discreet.lab.environments.synthetic import CONTRAST
    from discreet.lab.planning.planner import EPSILONS, REPLICATES, PlanRequest, study_for

    with reporting_errors():
        errors = ErrorCollector()
        share: float | None = None
        tried: tuple[float, ...] = EPSILONS
        with errors.collected():
            share = share_of(lose_at_most)
        with errors.collected():
            tried = EPSILONS if epsilons is None else numbers_in(epsilons, "--epsilons")
        with errors.collected():
            if contrast is not None and not synthetic:
                raise InvalidInput(
                    f"--contrast was {contrast:g}, which is about synthetic people; add "
                    "--synthetic or leave it out."
                )
        names = () if learners is None else names_in(learners)
        with errors.collected():
            PlanRequest(people, share, epsilon, tried, names, trust_model)
        inputs = [study] if table is None else [study, table]
        with errors.collected():
            check_outputs(((json, RECORDS), (report, PAGE)), inputs)
        if errors:  # report what is wrong with the study as well
            with errors.collected():
                study_for(study, people, table, synthetic, data_dir=data)
        errors.raise_if_any()
        # What planning needs takes seconds to import.
        from discreet.lab.reporting.plan import plan as make_plan

        with shared(engine, jobs or cores(), address), _shown() as progress:
            made = make_plan(
                study,
                people=people,
                lose_at_most=share,
                epsilon=epsilon,
                epsilons=tried,
                learners=names,
                trust_model=trust_model,
                replicates=replicates or REPLICATES,
                jobs=jobs or cores(),
                table=table,
                synthetic=synthetic,
                contrast=CONTRAST if contrast is None else contrast,
                data_dir=data,
                progress=progress,
            )
        _show(made, details)
        check_outputs(((json, RECORDS), (report, PAGE)), (*inputs, *made.problem.files))
        write_results(json, made.provenance.stamped(made.records()))
        if report is not None:
            made.report(report)
            out.say(f"Report:  {report}")


def share_of(text: str | None) -> float | None:
    """5% or 0.05 as a number from 0 to 1; None for nothing.

    Raises:
        InvalidInput: for anything else.
    """
    if text is None:
        return None
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%")) / (100.0 if percent else 1.0)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        advice = f" Did you mean {text.strip()}%?" if 1.0 < value <= 100.0 and not percent else ""
        raise InvalidInput(
            f"--lose-at-most was {text!r:.40}; it must be a share from 0 to 1 or a percentage, "
            f"such as 5% or 0.05.{advice}"
        )
    return value


def numbers_in(text: str, option: str) -> tuple[float, ...]:
    """0.5,1,2 as numbers; `InvalidInput` where one is none."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidInput(
            f"{option} was {text!r:.80}; give numbers with commas between them, such as 0.5,1,2."
        ) from error


def names_in(text: str) -> tuple[str, ...]:
    """a,b as names."""
    return tuple(part.strip() for part in text.split(","))


@contextmanager
def _shown() -> Iterator[Progress]:
    """A bar on a terminal, and elsewhere a line for each step and every ten seconds."""
    bar = err.progress(task="Reading the study")
    steps: list[str] = []
    with bar, warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: err.say(str(message))
        task = bar.add_task("Reading", total=None)

        def show(step: str, done: int, total: int) -> None:
            if step not in steps:
                steps.append(step)
                bar.reset(task)
                if not err.shows_bars:
                    err.say(f"{step} ...")
            bar.update(task, description=step, completed=done, total=total or None)

        yield show


def _show(made: Plan, details: bool) -> None:
    """Headline, tables and promise on a terminal; with `details` all that the page has."""
    from discreet.lab.reporting.plan import (
        basis,
        loss_table,
        odds_table,
        people_sentence,
        people_table,
    )
    from discreet.lab.reporting.words import promises

    out.print(f"[bold]Plan: {plain(made.title)}[/]")
    for sentence in made.data:
        out.say(sentence)
    out.print(f"[bold]{plain(made.recommendation.headline)}[/]")
    if made.answer:
        out.say(made.answer)
    out.print()
    out.print(loss_table(made))
    epsilon = made.shown_epsilon
    if made.worthwhile and details:
        out.print()
        out.print(people_table(made))
        out.print()
    elif made.worthwhile:
        out.say(people_sentence(made, epsilon))
    if made.recommendation.word not in ("yes", "no") and not details:
        out.say(made.recommendation.details[0])  # what a verdict takes
    for sentence in basis(made) if details else made.left_out:
        out.say(sentence)
    line = made.line(epsilon)
    if details:
        for sentence in made.recommendation.details:
            out.say(sentence)
        out.print()
        out.print(odds_table(made))
        out.print()
        out.say(f"At epsilon = {epsilon:g}: {made.explanations[epsilon].text}")
        out.print()
    if line.guarantee is not None:
        # The noise of a plan is always simulated; that of the study is not yet drawn.
        promise = promises([replace(line.guarantee, noise=())], brief=not details)
        out.say(f"Draft of the certificate: {promise}")
