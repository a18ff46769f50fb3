"""`discreet reproduce ldpmab-...`: locally private bandits with auxiliary data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

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
from discreet.reproduction.cases import lines_of
from discreet.reproduction.ma2025.experiments import Experiment
from discreet.reproduction.ma2025.settings import EXPONENTIAL

RepetitionsOption = Annotated[
    int, typer.Option("--repetitions", "--trials", min=1, help="Repetitions on fresh people.")
]
RoundsOption = Annotated[
    list[int] | None,
    typer.Option("--rounds", help="People of the target; may be given several times."),
]
EpsilonOption = Annotated[
    list[float] | None,
    typer.Option("--epsilon", help="Of the target; may be given several times."),
]
AuxiliaryOption = Annotated[
    list[int] | None,
    typer.Option("--auxiliary", help="People of each source; may be given several times."),
]
AuxiliaryEpsilonOption = Annotated[
    list[float] | None,
    typer.Option("--auxiliary-epsilon", help="Of the sources; may be given several times."),
]
GammaOption = Annotated[
    list[float] | None,
    typer.Option("--gamma", help="Shift of the sources' contexts; may be given several times."),
]
KappaOption = Annotated[
    list[float] | None,
    typer.Option("--kappa", help="Exploration of the sources; may be given several times."),
]
SourcesOption = Annotated[
    list[int] | None,
    typer.Option("--sources", help="How many sources; may be given several times."),
]
ConstantOption = Annotated[
    float | None,
    typer.Option("--constant", help="c of C_n = c log(n) in the published rules; 1 if left out."),
]
RewardsOption = Annotated[
    str,
    typer.Option("--rewards", help="Mean rewards: exponential (3 arms) or symmetric (2 arms)."),
]


def experiment_command(what: Experiment) -> Callable[..., None]:
    """The command of one figure."""

    def reproduce(
        repetitions: RepetitionsOption = what.trials,
        rounds: RoundsOption = None,
        epsilon: EpsilonOption = None,
        auxiliary: AuxiliaryOption = None,
        auxiliary_epsilon: AuxiliaryEpsilonOption = None,
        gamma: GammaOption = None,
        kappa: KappaOption = None,
        sources: SourcesOption = None,
        method: MethodOption = None,
        constant: ConstantOption = None,
        rewards: RewardsOption = EXPONENTIAL,
        jobs: JobsOption = None,
        json: RecordsOption = None,
        plot: PlotOption = None,
    ) -> None:
        wish = {
            "rounds": rounds or (),
            "epsilons": epsilon or (),
            "auxiliary": auxiliary or (),
            "auxiliary_epsilons": auxiliary_epsilon or (),
            "gammas": gamma or (),
            "kappas": kappa or (),
            "sources": sources or (),
        }
        with refusing():
            check_outputs([(json, RECORDS), (plot, FIGURE)])
            cases = what.plan(wish, method or (), constant, rewards)
            total = len(cases) * repetitions
            stream = what.run(cases, repetitions, min(jobs or cores(), total))
            done, stop = collected(stream, total, lambda trial: cases[trial.case].method)
        exit_if_empty(len(done), stop)
        # Matplotlib takes a second to import: only a run that got here needs it.
        from discreet.reporting.averages import average_figure
        from discreet.reporting.reproduction import trial_count
        from discreet.reporting.sweeps import sweep_figure, sweep_table

        lines = lines_of(cases, done)
        average = what.figure == "average"
        out.print()
        out.print(f"[bold]{plain(what.title)}[/]")
        out.print()
        out.print(sweep_table(lines, what.axis))
        counted = (
            f"Regret summed over the people of the target: mean of {trial_count(lines)}, ± its "
            "standard error"
        )
        for text in (f"{counted}; columns: {what.axis_label}.", what.note):
            out.print()
            out.print(plain(text))
        out.print()
        with refusing():
            write_results(
                json,
                [record for line in lines for record in line.records],
                plot,
                lambda: (
                    average_figure(lines)
                    if average
                    else sweep_figure(lines, what.axis, what.axis_label)
                ),
            )
        exit_if_stopped(len(done), total, stop)

    return reproduce
