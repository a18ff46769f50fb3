"""`discreet model`: search the rows of a release for the best outcome."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import PAGE, Kind, check_outputs, out, reporting_errors, table_of
from discreet.outsourcing.posterior import FAMILIES, Family, RowPrior
from discreet.validation import InvalidInput, one_of

if TYPE_CHECKING:
    from discreet.outsourcing.modeler import Turn

_ACQUISITIONS = "portfolio, expected_improvement, upper_confidence, gp_ucb"
# A search itself rejects a state that it did not write.
_STATE = Kind("a search", (), lambda path: True)
_BAR = 30  # characters of the progress bar


def model(
    release: Annotated[Path, typer.Argument(help="The folder that the curator sent.")],
    rounds: Annotated[int, typer.Option(min=1, help="How many questions may be asked in all.")],
    ask: Annotated[Path, typer.Option(help="File for the questions (.csv or .parquet).")],
    tell: Annotated[Path, typer.Option(help="File with the answers; it need not exist yet.")],
    batch: Annotated[int, typer.Option(min=1, help="Questions to ask at a time.")] = 1,
    state: Annotated[
        Path | None,
        typer.Option(help="File that keeps the search; beside the ask file if left out."),
    ] = None,
    minimize: Annotated[
        bool, typer.Option("--minimize", help="Search for the lowest outcome.")
    ] = False,
    acquisition: Annotated[
        str, typer.Option(help=f"How rows are chosen: {_ACQUISITIONS}.")
    ] = "portfolio",
    kernel: Annotated[str, typer.Option(help=f"One of {', '.join(FAMILIES)}.")] = "rbf",
    length_scale: Annotated[
        list[float] | None,
        typer.Option(help="If known, in units of distance; give it once, or once for each column."),
    ] = None,
    variance: Annotated[float | None, typer.Option(help="Variance of outcomes, if known.")] = None,
    noise: Annotated[
        float | None, typer.Option(help="Variance of the noise in answers, if known.")
    ] = None,
    mean: Annotated[float | None, typer.Option(help="Mean of outcomes, if known.")] = None,
    stop_below: Annotated[
        float | None,
        typer.Option(help="Stop when one more question promises less improvement than this."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed for the first rows, which are drawn at random.")
    ] = 0,
    report: Annotated[Path | None, typer.Option(help="File for a report (one HTML file).")] = None,
) -> None:
    """Search a released table: read answers, ask the next questions.

    Run it again whenever new answers have arrived. The exit code is 0 both while questions wait for
    an answer and when the search is over.
    """
    from discreet.outsourcing.exchange import ASK_COLUMNS, ReleasedTable
    from discreet.outsourcing.modeler import ACQUISITIONS, RowSearch, SearchSettings

    with reporting_errors():
        remembered = ask.with_suffix(".state.sqlite") if state is None else state
        outputs = ((ask, table_of(ASK_COLUMNS)), (remembered, _STATE), (report, PAGE))
        check_outputs(outputs, (tell, *release.glob("*")))
        family = one_of(kernel, "the kernel", FAMILIES)
        table = ReleasedTable.read(release)
        search = RowSearch(
            table,
            remembered,
            SearchSettings(
                acquisition=one_of(acquisition, "the acquisition", ACQUISITIONS),
                family=family,
                minimize=minimize,
                prior=_prior(length_scale, variance, noise, mean, family),
                seed=seed,
            ),
        )
        turn = search.step(ask, tell, rounds=rounds, batch=batch, least_gain=stop_below)
        _show(turn, rounds, ask, tell)
        if 0 < rounds <= search.modeler.warm_up:
            out.print(
                f"With {rounds} questions, all rows are drawn at random; a search that learns "
                f"needs more than {search.modeler.warm_up}."
            )
        if report is not None:
            from discreet.lab.reporting.search_report import write_search_report

            write_search_report(search, turn, rounds, report)
            out.say(f"Report:  {report}")


def _prior(
    length_scale: list[float] | None,
    variance: float | None,
    noise: float | None,
    mean: float | None,
    family: Family,
) -> RowPrior | None:
    """What is known beforehand; None to learn it."""
    given = {"variance": variance, "noise": noise, "mean": mean}
    known = {name: value for name, value in given.items() if value is not None}
    if not length_scale:
        if known:
            named = " and ".join(f"--{name}" for name in known)
            raise InvalidInput(
                f"{named} came without a length scale; give --length-scale and --variance too, or "
                "nothing, to learn all of them."
            )
        return None
    if variance is None:
        raise InvalidInput(
            "a length scale was given without the variance of outcomes; give --variance too."
        )
    scales = length_scale[0] if len(length_scale) == 1 else tuple(length_scale)
    return RowPrior(scales, family=family, **{"noise": 1e-5 * variance, **known})


def _show(turn: Turn, rounds: int, ask: Path, tell: Path) -> None:
    lines = []
    if turn.new_answers:
        lines.append(f"Read {turn.new_answers} new answer{'s' * (turn.new_answers > 1)}.")
    settled = len(turn.asked) - turn.waiting
    filled = round(_BAR * settled / max(rounds, settled))
    lines.append(f"[{'█' * filled}{'·' * (_BAR - filled)}] {settled} of {rounds}")
    if turn.best is not None:
        best = f"Best so far: row {turn.best.row}, answer {turn.best.answer:.6g}"
        if math.isfinite(turn.gain):
            best += (
                f" (expected {turn.best.expected:.4g} ± {turn.best.deviation:.2g}); one more "
                f"question promises {turn.gain:.2g}"
            )
        lines.append(f"{best}.")
    if turn.done:
        lines.append(f"The search is over: {turn.reason}.")
    elif turn.waiting:
        state = "" if turn.new_questions else " (asked before and still unanswered)"
        lines.append(
            f"{turn.waiting} question{'s' * (turn.waiting > 1)} in {ask}{state}. Send it to the "
            f"curator, save the answers as {tell} and run the command again."
        )
    for line in lines:
        out.say(line)
