"""What every figure and table of a paper is: settings that are run, and results in frames.

A reproduction plans what the paper did, or the part of it that is asked for; the one engine of
`discreet.lab.experiments` runs the plan's trials; the plan makes `Results` of them, from which
`discreet.lab.reporting` writes tables and draws figures, whatever was run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.lab.experiments.engine import Done, Point, Row, run_trials

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Results:
    """What the finished trials of a plan gave; frames as in `discreet.lab.experiments.means`.

    Attributes:
        records: for files, one for each case and metric (`discreet.records.REPRODUCED`).
        ends: the same in order, with what tables and figures need besides.
        curves: how it came about; empty where nothing was traced.
        trials: the rows that they are means of.
    """

    records: Sequence[Row]
    ends: pd.DataFrame
    curves: pd.DataFrame
    trials: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Plan:
    """What is run for a reproduction.

    Attributes:
        trial: see `discreet.lab.experiments.engine`.
        settings: of the trials.
        names: of the settings, for whoever waits for them.
        trials: repetitions of each setting.
        seed: of everything that is drawn.
        finish: makes results of trials, some of which may be missing.
        notices: what the user should know beforehand.
    """

    trial: Callable[..., Sequence[Row]]
    settings: Sequence[Point]
    names: Sequence[str]
    trials: int
    seed: int
    finish: Callable[[Sequence[Done[Sequence[Row]]]], Results]
    notices: Sequence[str] = ()

    @property
    def total(self) -> int:
        """How many trials there are in all."""
        return len(self.settings) * self.trials

    def run(self, jobs: int = 1) -> Iterator[Done[Sequence[Row]]]:
        """Every setting in every trial, in the order in which they finish."""
        return run_trials(self.trial, self.settings, self.trials, self.seed, jobs)

    def results(self, jobs: int = 1) -> Results:
        """Run everything."""
        return self.finish(list(self.run(jobs)))


@dataclass(frozen=True, kw_only=True)
class Reproduction(ABC):
    """A figure or table of a paper.

    Attributes:
        name: how the command line calls it.
        title: what it shows, and where it comes from.
        note: what the numbers do and do not say.
        trials: how many repetitions the paper has.
        seed: base of the trials' seeds.
        form: in which form it is shown (`discreet.papers.forms`); "drawing" where nothing is
            run.
    """

    name: str
    title: str
    note: str = ""
    trials: int
    seed: int = 0
    form: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """People, or questions, in a trial; empty where there are none."""
        return ()

    @property
    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """What its command can be asked for, by name, and what it does unless it is asked."""

    @abstractmethod
    def plan(self, *none: Any, **wish: Any) -> Plan:
        """What is run; wishes are by the parameters of the command.

        Raises:
            InvalidInput: before anything runs, for what cannot be run.
        """


def record_of(setting: Point, method: str, mean: Mapping[Any, Any], paper: float | None) -> Row:
    """What files say of a mean: what was varied, and `discreet.records.REPRODUCED`.

    Args:
        setting: what was varied, and what was promised.
        method: its name.
        mean: a row of `discreet.lab.experiments.means.means`, by metric.
        paper: the number that the paper prints.
    """
    measured = {key: mean[key] for key in ("metric", "mean", "standard_error", "trials")}
    return {**setting, "method": method, **measured, "paper": paper}
