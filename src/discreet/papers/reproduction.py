"""Reproductions of figures and tables: what is run, and results in frames.

A `Reproduction` plans what the paper did, or the part of it that is asked for; the engine of
`discreet.lab.experiments` runs the plan's trials; the plan turns them into
`PaperResults`, from which report.py writes tables and draws figures.

A `Case` is one method in one setting. A trial of it gives rows as in
`discreet.lab.experiments.means`: one for each way of counting regret, the main one first with its
trace, and `final` ones for what else is measured at the end. Each row states what was promised
(`_promise`). `RegretFigure` is a reproduction whose cases are methods under budgets; other papers
have their own.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import joblib
import numpy as np

from discreet.lab.environments.base import Population, Problem
from discreet.lab.experiments.engine import Done, Point, Row, Seed, frame_of, run_trials
from discreet.lab.experiments.means import mean_traces, means
from discreet.lab.experiments.simulation import Source, people_of, play, trace_of
from discreet.lab.results.run import Journal, journal_of
from discreet.lab.results.screen import Screen
from discreet.learners.base import Learner
from discreet.learners.policy import Policy
from discreet.learners.registry import learner_class, variant
from discreet.privacy import Budget, NonPrivate, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent
from discreet.privacy.calibration import gaussian_noise_multiplier
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    probability,
    whole_number,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class PaperResults:
    """Results of finished trials; frames as in `discreet.lab.experiments.means`.

    Attributes:
        records: for files, one for each case and metric (`discreet.records.REPRODUCED`).
        ends: the same in order, with further columns for tables and figures.
        curves: traces; empty where nothing was traced.
        trials: the rows of all trials.
    """

    records: Sequence[Row]
    ends: pd.DataFrame
    curves: pd.DataFrame
    trials: pd.DataFrame


@dataclass(frozen=True, eq=False)
class PaperPlan:
    """The runs of a reproduction.

    Attributes:
        trial: see `discreet.lab.experiments.engine`.
        settings: of the trials.
        names: of the settings, for progress.
        trials: repetitions of each setting.
        seed: of everything that is drawn.
        finish: turns trials, some of which may be missing, into results.
        notices: for the user, before anything runs.
    """

    trial: Callable[..., Sequence[Row]]
    settings: Sequence[Point]
    names: Sequence[str]
    trials: int
    seed: int
    finish: Callable[[Sequence[Done[Sequence[Row]]]], PaperResults]
    notices: Sequence[str] = ()

    @property
    def total(self) -> int:
        """How many trials there are in all."""
        return len(self.settings) * self.trials

    @property
    def digest(self) -> str:
        """Of everything that decides a trial but its number: the settings, their data, the seed."""
        digest: str = joblib.hash((self.trial.__qualname__, self.settings, self.seed), "sha1")
        return digest

    def journal(
        self, stem: Path | None, resume: bool, screen: Screen
    ) -> AbstractContextManager[Journal[Done[Sequence[Row]]]]:
        """What keeps finished trials; see `discreet.lab.results.run.journal_of`."""
        meaning = {"trials": self.digest}
        return journal_of(meaning, stem, self.trials, _kept, _done, resume, screen)

    def run(self, jobs: int = 1, done: Iterable[Done[Any]] = ()) -> Iterator[Done[Sequence[Row]]]:
        """Every setting in every trial but those `done`, in the order in which they finish."""
        known = [(each.case, each.trial) for each in done]
        return run_trials(self.trial, self.settings, self.trials, self.seed, jobs, done=known)

    def results(self, jobs: int = 1) -> PaperResults:
        """Run everything."""
        return self.finish(list(self.run(jobs)))


def _kept(done: Done[Sequence[Row]]) -> tuple[str, int, Row]:
    return str(done.case), done.trial, {"case": done.case, "trial": done.trial, "rows": done.result}


def _done(fields: Row) -> Done[Sequence[Row]]:
    rows = [
        {key: np.array(value) if isinstance(value, list) else value for key, value in row.items()}
        for row in fields["rows"]
    ]
    return Done(fields["case"], fields["trial"], rows)


RUN_OPTIONS = ("jobs", "engine", "address", "json", "plot", "details", "resume")
"""Options of every command that runs trials."""


@dataclass(frozen=True, kw_only=True)
class Reproduction(ABC):
    """A figure or table of a paper.

    Attributes:
        name: how the command line calls it.
        title: its content and its place in the paper.
        note: how to read the numbers.
        trials: repetitions in the paper.
        seed: base of the trials' seeds.
        form: in which form it is shown (`registry.presentations`); "drawing" where nothing is
            run.
    """

    name: str
    title: str
    note: str = ""
    trials: int
    seed: int = 0
    form: str

    @property
    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """The options of its command by name, with their defaults."""

    @abstractmethod
    def plan(self, *none: Any, **wish: Any) -> PaperPlan:
        """The runs that the options of the command ask for.

        Raises:
            InvalidInput: before anything runs, for what cannot be run.
        """


AGREES = "Paper: = within two standard errors of the mean, ≠ beyond."
REGRET = "regret"
OURS, PUBLISHED = "ours", "published"
NON_PRIVATE, UNIFORM = "non-private", "uniform"

# The auxiliary sources of a trial.
DrawSources = Callable[[np.random.Generator], Sequence[Source]]
# Measurements of a learner after all people have been served, by name.
Measure = Callable[[Learner[Any, Any, Any], Population], Mapping[str, float]]


class Rule(Protocol):
    """A simulated method that is not a learner."""

    @property
    def true_epsilon(self) -> float:
        """The epsilon that holds for each person; infinity for none."""
        ...

    def __call__(
        self, people: Population, sources: Sequence[Source], rng: np.random.Generator
    ) -> FloatArray:
        """Regret (n,) of each person; sources report first."""
        ...


Runs = TypeVar("Runs", bound="HasMethod")


@runtime_checkable
class Measured(Protocol):
    """A problem whose regret is counted in several ways."""

    def metrics(self, people: Population, values: FloatArray) -> dict[str, FloatArray]:
        """Contributions (n,) by metric; the first is the main one."""
        ...


class Watcher(Protocol):
    """Watches policies; called after each batch of a simulation with how many were served."""

    def __call__(self, policy: Policy[Any], served: int) -> None: ...

    def rows(self, at: IntArray) -> list[Row]:
        """What was seen, at numbers of people (t,), as `final` rows with traces."""
        ...


@dataclass(frozen=True, eq=False)
class Case:
    """One method in one setting of a figure or table.

    Attributes:
        method: `published`, `ours`, `non-private`, `uniform`, ...
        problem: where people come from.
        learner: its registered name, or a rule.
        rounds: people in a trial.
        budget: of the learner.
        arguments: of the learner.
        setting: what was varied, for records; keys that differ get a column of the table.
        panel: the panel of the figure; None for every panel, "" for none.
        label: in the figure.
        paper: the numbers printed in the paper, by metric.
        metric: the name of its regret, unless the problem counts it in several ways; or the name of
            a result of `measure`, which is then reported in place of regret.
        measure: measures the learner after all people have been served.
        sources: draws the reports of auxiliary sources, in their order.
        probe: makes a watcher of the policies of a trial; None for none.
    """

    method: str
    problem: Problem
    learner: str | Rule
    rounds: int
    budget: Budget = field(default_factory=NonPrivate)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    setting: Mapping[str, Any] = field(default_factory=dict)
    panel: str | None = None
    label: str = ""
    paper: Mapping[str, float] = field(default_factory=dict)
    metric: str = REGRET
    measure: Measure | None = None
    sources: DrawSources | None = None
    probe: Callable[[], Watcher] | None = None

    def make(self, public_seed: int, noise: SimulatedNoise) -> Learner[Any, Any, Any]:
        """A new learner."""
        assert isinstance(self.learner, str)
        kind = variant(learner_class(self.learner), self.problem.space, self.budget.trust_model)
        return kind(
            self.problem.domain,
            self.problem.space,
            self.budget,
            horizon=self.rounds,
            reward_bounds=self.problem.reward_bounds,
            public_seed=public_seed,
            noise=noise,
            **self.arguments,
        )


class HasMethod(Protocol):
    """A run of a method."""

    @property
    def method(self) -> str:
        """Its name."""
        ...


def of_methods(cases: Sequence[Runs], names: Sequence[str] | None) -> list[Runs]:
    """The runs of the named methods, all if none; refuses an unknown method."""
    known = dict.fromkeys(case.method for case in cases)
    for name in names or ():
        if name not in known:
            # Names have commas.
            listed = ", ".join(map(repr, known))
            raise InvalidInput(f"the method was {name!r}; it must be one of {listed}.")
    return [case for case in cases if not names or case.method in names]


def plan_of(
    cases: Sequence[Case],
    trials: int,
    seed: int,
    finish: Callable[[Sequence[Case], pd.DataFrame], PaperResults] | None = None,
) -> PaperPlan:
    """Every case in every trial.

    Args:
        cases: in order.
        trials: of each case.
        seed: of everything that is drawn.
        finish: makes results of the trials' frame, in place of `results_of`.

    Raises:
        InvalidInput: for cases that cannot work.
    """
    for case in cases:
        whole_number(case.rounds, "rounds", minimum=1)
        if isinstance(case.learner, str):
            case.make(0, SimulatedNoise(0))
    return PaperPlan(
        serve,
        [{"case": case} for case in cases],
        [case.method for case in cases],
        whole_number(trials, "trials", minimum=1),
        seed,
        lambda done: (finish or results_of)(cases, frame_of(done)),
    )


def serve(seed: Seed, case: Case) -> list[Row]:
    """One trial of a case; see the module's table."""
    people = people_of(case.problem, case.rounds, seed.base, seed.trial)
    # They are the same in all cases of a trial, as its people are.
    drawn = np.random.default_rng(seed.streams(5)[-1])
    sources = () if case.sources is None else case.sources(drawn)
    if not isinstance(case.learner, str):
        return _serve_by_rule(seed, people, sources, case, case.learner)
    probe = None if case.probe is None else case.probe()
    watching = () if probe is None else (probe,)
    learner, values, seconds = play(seed, people, case.make, sources, watching)
    counted = {case.metric: values}
    if isinstance(case.problem, Measured):
        counted = case.problem.metrics(people, values)
    finals = {} if case.measure is None else dict(case.measure(learner, people))
    # What was measured may have cost privacy, too.
    promise = _promise(case.budget, learner, seconds)
    at, trace = trace_of(next(iter(counted.values())))
    ends = {metric: float(each.sum()) for metric, each in counted.items()}
    if case.metric in finals:
        ends = {case.metric: finals.pop(case.metric)}
    rows: list[Row] = [
        {"metric": metric, "value": value, "final": metric in finals}
        for metric, value in (ends | finals).items()
    ]
    rows[0] |= {"along": at, "trace": trace}
    rows += [] if probe is None else probe.rows(at)
    return [{**row, **promise} for row in rows]


def _serve_by_rule(
    seed: Seed, people: Population, sources: Sequence[Source], case: Case, rule: Rule
) -> list[Row]:
    """One trial of a case without a learner."""
    started = time.perf_counter()
    values = rule(people, sources, np.random.default_rng(seed.streams(2)[1]))
    seconds = time.perf_counter() - started
    at, trace = trace_of(values)
    measured = {"metric": case.metric, "value": float(values.sum()), "along": at, "trace": trace}
    held = {"true_epsilon": rule.true_epsilon, "seconds": seconds}
    absent = dict.fromkeys(("excess_noise", "protects", "true_epsilon_auxiliary"))
    return [{**measured, "final": False, **held, **absent}]


def _promise(budget: Budget, learner: Learner[Any, Any, Any], seconds: float) -> Row:
    """The guarantee of a trial, and the seconds of the learner, its policies and reports.

    Excess noise is the noise over the least that keeps the budget, below 1 where the budget is not
    kept; None without Gaussian noise.
    """
    guarantee, events = learner.guarantee(), [release.event for release in learner.releases]
    multipliers = [event.noise_multiplier for event in events if isinstance(event, GaussianEvent)]
    excess = None
    if budget.private and events and len(multipliers) == len(events):
        # Kernel learners show each person once, so the weakest release counts.
        excess = min(multipliers) / gaussian_noise_multiplier(budget.epsilon, budget.delta)
    sources = [learner.streams[name].guarantee() for name in learner.sources]
    return {
        "true_epsilon": guarantee.epsilon if budget.private else None,
        "excess_noise": excess,
        "protects": guarantee.adjacency.record if budget.private else None,
        "seconds": seconds,
        "true_epsilon_auxiliary": max((held.epsilon for held in sources), default=None),
    }


def promises_of(frame: pd.DataFrame) -> dict[int, Row]:
    """The guarantee by case over its trials: the largest epsilon, the least noise."""
    promises = frame.groupby("case").agg(
        {
            "true_epsilon": "max",
            "excess_noise": "min",
            "protects": "first",
            "seconds": "mean",
            "true_epsilon_auxiliary": "max",
        }
    )
    known = promises.astype(object).where(promises.notna(), None)
    return {int(row["case"]): row for row in known.reset_index().to_dict("records")}  # type: ignore[misc]


def results_of(cases: Sequence[Case], frame: pd.DataFrame) -> PaperResults:
    """Means over the trials of `serve`, by case and metric."""
    import pandas as pd

    promises = promises_of(frame)
    records: list[Row] = []
    ends: list[Row] = []
    for row in means(frame, ["case", "metric", "final"]).to_dict("records"):
        number = row["case"]
        case, promised = cases[number], dict(promises[number])
        seconds, auxiliary = promised.pop("seconds"), promised.pop("true_epsilon_auxiliary")
        private, kept = case.budget.private, promised["true_epsilon"] != math.inf
        setting = {
            **case.setting,
            # A claimed epsilon that does not hold is no trust model.
            "trust_model": case.budget.trust_model if kept else "none",
            "epsilon": case.budget.epsilon if private else None,
            "delta": case.budget.delta if private else None,
            **{key: promised[key] for key in ("true_epsilon", "excess_noise", "protects")},
            "seconds": round(seconds, 3),
            **({} if auxiliary is None else {"true_epsilon_auxiliary": auxiliary}),
        }
        record = record_of(setting, case.method, row, case.paper.get(row["metric"]))
        first = not ends or ends[-1]["case"] != number
        records.append(record)
        ends.append(
            {
                "case": number,
                "panel": case.panel,
                "label": case.label,
                "people": case.rounds,
                "setting": case.setting,
                "role": "main" if first else "beside" if row["final"] else "other",
                "half_width": row["half_width"],
                **record,
            }
        )
    curves = mean_traces(frame, ["case", "metric"])
    for name in ("panel", "label", "method"):
        curves[name] = [getattr(cases[n], name) for n in curves["case"]]
    for name in ("epsilon", "delta"):
        curves[name] = [getattr(cases[n].budget, name) for n in curves["case"]]
    return PaperResults(records, pd.DataFrame(ends).astype({"paper": float}), curves, frame)


@dataclass(frozen=True)
class CaseRequest:
    """The options that cases depend on.

    Attributes:
        rounds: people in a trial.
        delta: of every budget, where the reproduction does not vary it.
    """

    rounds: int
    delta: float


@dataclass(frozen=True, kw_only=True)
class RegretFigure(Reproduction):
    """Results of several methods, as a table and as a figure.

    Attributes:
        rounds: people in a trial in the paper, or several such numbers.
        delta: the paper's; None where delta is varied, or where budgets have none.
        cases: the cases of a request.
    """

    rounds: tuple[int, ...]
    delta: float | None
    cases: Callable[[CaseRequest], Iterable[Case]]
    form: str = "regret"

    @property
    def options(self) -> Mapping[str, Any]:
        return {
            "trials": self.trials,
            "rounds": list(self.rounds),
            "delta": self.delta,
            **dict.fromkeys(RUN_OPTIONS),
            "log_scale": False,
            "method": None,
        }

    def plan(self, trials: int | None = None, **wish: Any) -> PaperPlan:
        number = self.trials if trials is None else trials
        return plan_of(self.planned(**wish), number, self.seed)

    def planned(
        self,
        rounds: Sequence[int] | None = None,
        delta: float | None = None,
        method: Sequence[str] | None = None,
    ) -> list[Case]:
        """The cases of the named methods (all if none), with the paper's numbers by default.

        Raises:
            InvalidInput: for numbers that are not allowed, a delta where it is varied, or a method
                that there is not.
        """
        sizes = [whole_number(people, "rounds", minimum=2) for people in rounds or self.rounds]
        if delta is not None and self.delta is None:
            raise InvalidInput(
                f"delta was {delta}, but {self.name} varies it or needs none; leave it out."
            )
        chosen = self.delta if delta is None else probability(delta, "delta")
        cases = [case for n in sizes for case in self.cases(CaseRequest(n, chosen or 0.0))]
        return of_methods(cases, method)


def record_of(setting: Point, method: str, mean: Mapping[Any, Any], paper: float | None) -> Row:
    """A mean as a row of a file: the setting, and `discreet.records.REPRODUCED`.

    Args:
        setting: what was varied, and the promise.
        method: its name.
        mean: a row of `discreet.lab.experiments.means.means`, by metric.
        paper: the number that the paper prints.
    """
    measured = {key: mean[key] for key in ("metric", "mean", "standard_error", "trials")}
    error, agrees = measured["standard_error"], None
    if paper is not None and error is not None and math.isfinite(error):
        agrees = bool(abs(measured["mean"] - paper) <= 2.0 * error)
    return {**setting, "method": method, **measured, "paper": paper, "agrees": agrees}
