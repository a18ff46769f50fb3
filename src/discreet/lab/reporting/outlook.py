"""What a study asks for, before anything is simulated: the facts that `discreet check` shows.

Counts of rows and of arms are read off the table. No promise covers them, so an outlook is for
whoever may see the table.

What a line can learn is bounded by what its data are worth (privacy/worth.py), for arms that are
given equally often and for everybody together; what tells groups of people apart takes as many
people for each group. Promises under local privacy are derived from a learner's first policy.
Under joint privacy nothing is drawn before there are people: what is asked for stands there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from discreet.codec import OPTIONAL_FIELD, Serializable
from discreet.lab.environments.base import Problem
from discreet.lab.environments.tables import ClassificationProblem
from discreet.lab.experiments import HIGHEST, REFERENCES, UNIFORM, Setting, learner_of
from discreet.lab.studies import Study
from discreet.lab.studies.serving import serving_sentence
from discreet.people.domain import arm_count
from discreet.privacy import Guarantee, SimulatedNoise
from discreet.privacy.accounting import Event
from discreet.privacy.worth import difference_that_shows, worth_of_reports, worth_of_sums


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong.

    Attributes:
        line: of the study file, if it stands on one.
        text: what was given, what is allowed, what to do.
    """

    line: int | None
    text: str


@dataclass(frozen=True)
class ColumnOutlook:
    """One column that a learner knows.

    Attributes:
        name: the column's name.
        lower, upper: its bounds; of categories their numbers.
        levels: how many values it takes; None for any.
        categories: its labels, if it has some.
        lacking: rows of the table that have no value.
        outside: rows that are left out because of their value.
        clipped: rows whose value was moved to the nearest bound.
    """

    name: str
    lower: float
    upper: float
    levels: int | None
    categories: tuple[str, ...]
    lacking: int
    outside: int
    clipped: int


@dataclass(frozen=True)
class ArmOutlook:
    """One arm.

    Attributes:
        name: the arm's name.
        people: how many people of the table it is right for; None where that is not known.
        hidden_at: the epsilons at which it cannot be told from an arm that is right for nobody, if
            arms are given equally often.
    """

    name: str
    people: int | None
    hidden_at: tuple[float, ...]


@dataclass(frozen=True)
class LineOutlook:
    """One line of the result.

    Attributes:
        label, learner: what it is called, and the learner's registered name.
        trust_model, epsilon, delta, visits: what is asked for; None without privacy.
        reports: how many visits are learnt from.
        worth: at most how many people without privacy tell as much; None where that is not known,
            and where nothing is learnt.
        worth_of_arm: the same for one arm, if all are given equally often.
        difference: how far apart the mean rewards of two arms must be, at least, to be two
            standard errors apart, in units of the reward.
        seconds: about how long a replicate takes; None where it was not measured.
        promise: what a person is promised; None without privacy.
        sentence: the same in words; "" without privacy.
    """

    label: str
    learner: str
    trust_model: str
    epsilon: float | None
    delta: float | None
    visits: int | None
    reports: float
    worth: float | None
    worth_of_arm: float | None
    difference: float | None
    seconds: float | None
    promise: Guarantee | None
    sentence: str


@dataclass(frozen=True)
class Outlook(Serializable):
    """What is wrong with a study, or what it asks for.

    Attributes:
        file: the study file.
        troubles: what is wrong; the rest is there only where nothing is.
        title: the study's.
        people, replicates: people of each replicate, and how many replicates.
        rows: how many rows of the table take part and why others do not; "" without a table.
        people_of_arm: people for each arm, if all are given equally often; None without arms.
        columns, arms, lines: one of each.
        offer: what can be chosen, in words.
        choices: which learners were chosen because the file names none, and why.
        warnings: what to know though the study can run.
        jobs: how many processes share the work.
        seconds: about how long the run takes with them; None where it was not measured.
        served: what `discreet serve` would serve, in words; "" where the study does not say.
    """

    kind: ClassVar[str] = "study-outlook"

    file: str
    troubles: tuple[Trouble, ...] = ()
    title: str = ""
    people: int = 0
    replicates: int = 0
    rows: str = ""
    people_of_arm: float | None = None
    columns: tuple[ColumnOutlook, ...] = ()
    arms: tuple[ArmOutlook, ...] = ()
    lines: tuple[LineOutlook, ...] = ()
    offer: str = ""
    choices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    jobs: int = 1
    seconds: float | None = None
    served: str = field(default="", metadata=OPTIONAL_FIELD)

    @property
    def can_run(self) -> bool:
        """Whether nothing is wrong."""
        return not self.troubles

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What the lines with privacy promise."""
        return tuple(line.promise for line in self.lines if line.promise is not None)


def study_outlook(file: str, study: Study, seconds: Mapping[str, float], jobs: int) -> Outlook:
    """What a study asks for.

    Args:
        file: the name of its file.
        study: which can run.
        seconds: by label, about how long a replicate takes (`expected_seconds`).
        jobs: how many processes will share the work.
    """
    problem = study.problem
    count = arm_count(problem.space)
    lines = tuple(_line(study, setting, seconds[setting.label]) for setting in study.settings)
    measured = [line.seconds for line in lines if line.seconds is not None]
    return Outlook(
        file=file,
        title=study.title,
        people=study.rounds,
        replicates=study.replicates,
        rows="" if problem.rows is None else problem.rows.sentence,
        people_of_arm=None if count is None else study.rounds / count,
        columns=tuple(_columns(problem)),
        arms=tuple(_arms(problem, lines)),
        lines=lines,
        offer=problem.offer,
        choices=study.choices,
        warnings=study.warnings,
        jobs=jobs,
        seconds=sum(measured) * study.replicates / jobs if len(measured) == len(lines) else None,
        served=serving_sentence(study.settings, study.serve, study.rounds) or "",
    )


def _columns(problem: Problem) -> Iterator[ColumnOutlook]:
    box, rows = problem.domain, problem.rows
    kinds = ((), (), ()) if rows is None else (rows.lacking, rows.outside, rows.clipped)
    lacking, outside, clipped = map(dict, kinds)
    facts = zip(box.names, box.lower, box.upper, box.levels, box.categories, strict=True)
    for name, lower, upper, levels, categories in facts:
        gone = lacking.get(name, 0), outside.get(name, 0), clipped.get(name, 0)
        yield ColumnOutlook(name, lower, upper, levels, tuple(categories), *gone)


def _arms(problem: Problem, lines: tuple[LineOutlook, ...]) -> Iterator[ArmOutlook]:
    if not isinstance(problem, ClassificationProblem):
        yield from (ArmOutlook(name, None, ()) for name in problem.arm_names)
        return
    people = np.bincount(problem.labels, minlength=problem.arms)
    for name, right in zip(problem.arm_names, people.tolist(), strict=True):
        # An arm that is right for nobody pays 0, without any chance in it: one deviation of its
        # mean, at most, in place of two arms'.
        hidden = {
            line.epsilon
            for line in lines
            if line.epsilon is not None
            and line.difference is not None
            and right / problem.size < line.difference / math.sqrt(2.0)
        }
        yield ArmOutlook(name, right, tuple(sorted(hidden)))


def _line(study: Study, setting: Setting, seconds: float) -> LineOutlook:
    problem, budget = study.problem, setting.budget
    guarantee, event = _promise(problem, setting, study.rounds)
    reports = _reports(study, setting)
    count = arm_count(problem.space)
    learns = setting.learner not in (*REFERENCES, UNIFORM, HIGHEST)

    def worth(people: float) -> float | None:
        """Of so many people what this line's noise leaves."""
        if not learns:
            return None
        if not budget.private:
            return people
        if event is not None:
            return worth_of_reports(event, people)
        # Predictions are drawn one by one, from no Gaussian sum, and have no such bound.
        gaussian = budget.delta > 0.0 and "predictions" not in setting.options
        if budget.trust_model == "joint" and gaussian:
            return worth_of_sums(budget.noise_multiplier, people)
        return None

    of_arm = None if count is None else worth(reports / count)
    bounds = problem.reward_bounds
    return LineOutlook(
        label=setting.label,
        learner=setting.learner,
        trust_model=budget.trust_model,
        epsilon=budget.epsilon if budget.private else None,
        delta=budget.delta if budget.private else None,
        visits=budget.visits if budget.private else None,
        reports=reports,
        worth=worth(reports),
        worth_of_arm=of_arm,
        difference=(bounds.upper - bounds.lower) * difference_that_shows(of_arm)
        if of_arm
        else None,
        seconds=seconds if math.isfinite(seconds) else None,
        promise=guarantee,
        sentence="" if guarantee is None else guarantee.sentence,
    )


def _reports(study: Study, setting: Setting) -> float:
    """How many visits a learner learns from; on average, where a replicate draws some of them."""
    visits, budget = study.problem.visits, setting.budget
    if visits is None or not budget.private or budget.protects == "visit":
        return float(study.rounds)
    return study.rounds * float(np.minimum(visits, budget.visits).sum() / visits.sum())


def _promise(
    problem: Problem, setting: Setting, rounds: int
) -> tuple[Guarantee | None, Event | None]:
    """What a person is promised, and what each report costs where reports are private."""
    budget = setting.budget
    if not budget.private:
        return None, None
    learner = learner_of(problem, setting, rounds, 0, SimulatedNoise(0))
    if budget.protects_reports:
        learner.policy()
        return replace(learner.guarantee(), noise=()), learner.releases[0].event
    asked = Guarantee(
        trust_model=budget.trust_model,
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=replace(learner.adjacency, unit=budget.protects),
        data=(),
        noise=(),
        reports_per_person=budget.visits,
        releases=1,
    )
    return asked, None
