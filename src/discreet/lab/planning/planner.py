"""One plan: learners are selected by successive halving, and measured on fresh people.

A *contender* is a learner with its options. Under each epsilon of the plan, and once without
privacy, one contender is selected and measured at every horizon. Horizons are halves:
N, N/2, .., N/16 people, as far as learners can work with these.

No budget protects the data that a plan reads, so a plan states whose they are. With a public or
older table, or with synthetic people, the study's own table is never read.

All settings of a replicate serve the same people. Each number of people is simulated by itself,
because learners may plan for their horizon.

| array | shape  | meaning                                                          |
|-------|--------|------------------------------------------------------------------|
| worth | (r, h) | the metric per person, more is better; a row for each replicate, |
|       |        | a column for each horizon                                        |

Notes
-----
*Successive halving.* The contenders of a budget run in rungs of 4, 8, 16, .. replicates. After each
rung those are dropped whose paired difference from the leader is below 0 by Student's t, at the
one-sided level

    0.01 / (rungs * the sum over budgets of (contenders - 1)).

By the union bound a true best is dropped anywhere in a plan with probability at most 1%, as far as
means over replicates are normal. After the last rung the highest mean wins. It is flattered by
having been selected (the winner's curse), so a plan measures winners on fresh replicates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

from discreet.lab.environments.base import Problem
from discreet.lab.environments.synthetic import CONTRAST, synthetic_people
from discreet.lab.experiments import (
    BEST_FIXED,
    FIXED_RULES,
    REFERENCES,
    UNIFORM,
    Setting,
    check_setting,
    simulate,
)
from discreet.lab.experiments.means import mean_and_error, p_value
from discreet.lab.planning.forecast import LOSE_AT_MOST, Asked, Forecast, Kind, PlanLine, RaceResult
from discreet.lab.studies import Study, load_study
from discreet.lab.studies.settings import on_table
from discreet.learners.registry import Declared, learner_class, usual_learner, usual_trust_model
from discreet.parallel import in_parallel
from discreet.people.domain import arm_count
from discreet.privacy import Budget, Guarantee, Joint, Local, NonPrivate, Shuffled
from discreet.privacy.budget import USUAL_PEOPLE, usual_group
from discreet.privacy.guarantee import PROTECTS_NOBODY
from discreet.toml_files import read_toml
from discreet.validation import (
    ErrorCollector,
    FloatArray,
    InvalidInput,
    distinct,
    number_from,
    one_of,
    positive_number,
    whole_number,
)

# The design.


EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_HALVINGS = 4
_FEWEST = 20  # people of a horizon
_DELTA = 1e-6  # where a learner needs one and the study has none
# Those that a plan compares: one person, one report or contribution.
TRUST_MODELS = ("local", "shuffled", "joint")


@dataclass(frozen=True)
class Contender:
    """A learner that may be chosen.

    Attributes:
        name: what it is called: the label of the study, without its budget.
        learner: its registered name.
        budget: what it is asked to keep, at any epsilon.
        options: of the learner.
        people: expected; the usual size of a shuffled group depends on them.
    """

    name: str
    learner: str
    budget: Budget
    options: Mapping[str, Any] = field(default_factory=dict)
    people: int = USUAL_PEOPLE

    def at(self, epsilon: float | None) -> Setting:
        """The setting under an epsilon; None for no privacy."""
        if epsilon is None:
            return Setting(self.learner, f"{self.name} (no privacy)", NonPrivate(), self.options)
        label = f"{self.name}, epsilon {epsilon:g}"
        return Setting(self.learner, label, self.budget.at(epsilon, self.people), self.options)


@dataclass(frozen=True)
class PlanDesign:
    """Everything that a plan varies.

    Attributes:
        problem: where the people come from.
        seed: of everything that is drawn.
        epsilons: increasing.
        private: contenders for every epsilon.
        free: contenders without privacy.
        horizons: increasing numbers of people.
        left_out: what the study has and the plan has not, each one sentence.
    """

    problem: Problem
    seed: int
    epsilons: tuple[float, ...]
    private: tuple[Contender, ...]
    free: tuple[Contender, ...]
    horizons: tuple[int, ...]
    left_out: tuple[str, ...] = ()

    @property
    def people(self) -> int:
        """The largest number of people."""
        return self.horizons[-1]

    @property
    def fixed(self) -> bool:
        """Whether everyone can be given one of the same arms, with which gains are compared."""
        return arm_count(self.problem.space) is not None

    @property
    def references(self) -> tuple[Setting, ...]:
        """Baselines: one choice for everyone, where there is one, and chance."""
        fixed = (Setting(BEST_FIXED, BEST_FIXED),) if self.fixed else ()
        return (*fixed, Setting(UNIFORM, UNIFORM))

    def groups(self) -> dict[float | None, tuple[Setting, ...]]:
        """The contenders' settings by epsilon; None for no privacy."""
        groups: dict[float | None, tuple[Setting, ...]] = {
            epsilon: tuple(each.at(epsilon) for each in self.private) for epsilon in self.epsilons
        }
        return {**groups, None: tuple(each.at(None) for each in self.free)}


def plan_design(
    study: Study,
    people: int,
    epsilons: Iterable[float] = EPSILONS,
    learners: Sequence[str] = (),
    trust_model: str | None = None,
) -> PlanDesign:
    """The design of a plan for a study.

    Args:
        study: names the problem, and learners under budgets.
        people: the largest number of people.
        epsilons: that are tried.
        learners: names of learners in place of those of the study.
        trust_model: where the study has learners under several.

    Raises:
        InvalidInput: epsilons that give no protection, learners that do not fit, or too few people
            for any of them.
    """
    given = checked_epsilons(epsilons)
    for name in learners:
        if name in FIXED_RULES:
            raise InvalidInput(
                f"learners names {name!r}, which learns nothing and is shown in any case; name "
                "learners that can be private."
            )
    model, left_out = _trust_model(study, learners, trust_model)
    private = _private(study, learners, model)
    free = _free(study, private, people)
    horizons = horizons_of(study.problem, (*private, *free), given, people)
    return PlanDesign(study.problem, study.seed, given, private, free, horizons, left_out)


def checked_epsilons(epsilons: Iterable[float]) -> tuple[float, ...]:
    """Epsilons in increasing order, each once; `InvalidInput` for those that are no promise."""
    errors = ErrorCollector()
    given: list[float] = []
    for epsilon in epsilons:
        with errors.collected():
            given.append(positive_number(epsilon, "an epsilon"))
            if given[-1] > PROTECTS_NOBODY:
                raise InvalidInput(
                    f"an epsilon was {epsilon:g}; above {PROTECTS_NOBODY:g} it protects no one. "
                    "Give smaller ones."
                )
    errors.raise_if_any()
    if not given:
        raise InvalidInput("epsilons was empty; give at least one, such as 1.")
    return tuple(sorted(set(given)))


def _trust_model(
    study: Study, learners: Sequence[str], asked: str | None
) -> tuple[str, tuple[str, ...]]:
    """The trust model of a plan, and sentences on those of the study that are left out."""
    own = [setting.budget.trust_model for setting in study.settings if setting.private]
    models: tuple[str, ...] = tuple(dict.fromkeys(own))
    if asked is not None:
        return one_of(asked, "trust_model", TRUST_MODELS), ()
    if learners:
        first = learner_class(learners[0]).trust_models
        models = tuple(model for model in models if model in first)
        usual = tuple(model for model in first if model != "none")
        models = models or usual[:1]
    if not models:
        models = (usual_trust_model(study.problem.space),)
    rest = [model for model in models[1:] if not learners]
    left_out = tuple(
        f"Left out: learners under {model} privacy. An epsilon means something else there, so they "
        f"are another plan (--trust-model {model})."
        for model in rest
    )
    return models[0], left_out


def _private(study: Study, learners: Sequence[str], model: str) -> tuple[Contender, ...]:
    """The contenders under a trust model."""
    own = [each for each in study.settings if each.budget.trust_model == model]
    if not learners:
        contenders = {
            each.label.removesuffix(f", epsilon {each.budget.epsilon:g}"): each for each in own
        }
        if contenders:
            return tuple(
                Contender(name, each.learner, each.budget, each.options, study.rounds)
                for name, each in contenders.items()
            )
        learners = (_usual(study, model, study.rounds),)
    budget = own[0].budget if own else None
    errors, chosen = ErrorCollector(), []
    for name in distinct(learners, "learners"):
        with errors.collected():
            chosen.append(_contender(study, name, model, budget))
    errors.raise_if_any()
    return tuple(chosen)


def _contender(study: Study, name: str, model: str, budget: Budget | None) -> Contender:
    """A learner by name, with the options that the study has for it."""
    kind = learner_class(name)
    if model not in kind.trust_models:
        raise InvalidInput(
            f"learners names {name!r}, which takes the trust model "
            f"{' or '.join(kind.trust_models)}, but the plan is under {model} privacy; name "
            "another learner or trust model."
        )
    if type(study.problem.space) not in kind.spaces:
        raise InvalidInput(
            f"learners names {name!r}, which does not fit this problem ({study.problem.offer}); "
            "name another one."
        )
    options = next((each.options for each in study.settings if each.learner == name), {})
    budget = budget or usual_budget(model, 1.0, study.rounds)
    return Contender(name, name, budget, options, study.rounds)


def usual_budget(model: str, epsilon: float, people: int) -> Budget:
    """The budget of a trust model for people of a study that states none."""
    if model == "shuffled":
        return Shuffled(epsilon, _DELTA, usual_group(epsilon, people))
    return Local(epsilon) if model == "local" else Joint(epsilon, _DELTA)


def _usual(study: Study, model: str, people: int) -> str:
    space, domain = study.problem.space, study.problem.domain
    indicators = len(domain.implied)
    declared = Declared(model, space, domain.dimension, people, indicators=indicators)
    return usual_learner(declared).learner


def _free(study: Study, private: Sequence[Contender], people: int) -> tuple[Contender, ...]:
    """The contenders without privacy: those of the study, and the private ones without it."""
    own = [
        # The label without privacy begins as those of its private settings.
        Contender(
            each.label.removesuffix(" (non-private)"), each.learner, each.budget, each.options
        )
        for each in study.settings
        if not each.private and each.learns
    ]
    also = [each for each in private if "none" in learner_class(each.learner).trust_models]
    free = {each.name: each for each in (*own, *also)}
    if not free:
        name = _usual(study, "none", people)
        free[name] = Contender(name, name, NonPrivate())
    return tuple(free.values())


def horizons_of(
    problem: Problem, contenders: Sequence[Contender], epsilons: Sequence[float], people: int
) -> tuple[int, ...]:
    """Halves of a number of people, as far down as every contender can work.

    Raises:
        InvalidInput: where some contender cannot work with all of them.
    """
    problem.check_size(people)
    settings = [
        each.at(epsilon if each.budget.private else None)
        for each in contenders
        for epsilon in (epsilons[0], epsilons[-1])
    ]
    for setting in settings:
        check_setting(problem, setting, people)
    halves = [people >> halving for halving in range(_HALVINGS, 0, -1)]
    fitting = [each for each in halves if each >= _FEWEST and _works(problem, settings, each)]
    return (*fitting, people)


def _works(problem: Problem, settings: Sequence[Setting], people: int) -> bool:
    """Whether all settings can run with this many people."""
    try:
        for setting in settings:
            check_setting(problem, setting, people)
    except InvalidInput:
        return False
    return True


# The data.


def study_for(
    source: Study | str | Path,
    people: int | None = None,
    table: Path | None = None,
    synthetic: bool = False,
    contrast: float = CONTRAST,
    data_dir: Path | None = None,
) -> tuple[Study, int, tuple[str, ...]]:
    """What is planned on: the study, how many people it expects, and whose data that uses.

    Args:
        source: a study, or the path of a study file.
        people: how many are expected, in place of the study's number.
        table: a file that stands in for the table of the study, which is not read.
        synthetic: whether synthetic people stand in for those of the study, which are not read.
        contrast: how different their arms are; see `SyntheticPeople`.
        data_dir: a folder with data that no package brings.

    Raises:
        InvalidInput: what `load_study` refuses, and stand-ins that do not go together.
    """
    if table is not None and synthetic:
        raise InvalidInput(
            f"the plan was given the table {table} and also asked to be synthetic; take one of the "
            "two."
        )
    if contrast != CONTRAST and not synthetic:
        raise InvalidInput(
            f"contrast was {contrast!r:.80}, which is about synthetic people; set synthetic as "
            "well, or leave it out."
        )
    if isinstance(source, Study):
        if table is not None or synthetic:
            raise InvalidInput(
                "a study that was loaded has read its data already; give the path of its file, so "
                "that something else can stand in for them."
            )
        return source, people or source.rounds, _whose(source.problem)
    path = Path(source)
    if synthetic:
        study = load_study(
            path, people, data_dir=data_dir, instead=lambda c, p: synthetic_people(c, p, contrast)
        )
        return study, people or study.rounds, (_SYNTHETIC, _GUESS)
    if table is not None:
        instead = on_table(table, path.parent, data_dir)
        study = load_study(path, data_dir=data_dir, instead=instead)
        _, content = read_toml(path, "study file", {"learner": "learners"})
        wished = people or int(content.get("rounds", study.rounds))
        return study, wished, (f"Planning read the table {table} in place of the study's.", *_OTHER)
    study = load_study(path, data_dir=data_dir)
    return study, people or study.rounds, _whose(study.problem)


_SYNTHETIC = "Planning used no one's data: synthetic people have the study's columns."
_GUESS = "Their gain is assumed: read it for the order of magnitude."
_OTHER = (
    "The plan holds for the study as far as its people are like those of that table.",
    "If that table holds people's private data, the plan tells something about them that no "
    "epsilon covers: keep it among those who may see the table.",
)
_PRIVATE = (
    "The epsilon that it recommends protects people of the study; it does not cover this plan, "
    "which read the table without noise. Show it only to readers who may see the table, or plan on "
    "a public or older table (--table FILE) or on synthetic people (--synthetic).",
)


def _whose(problem: Problem) -> tuple[str, ...]:
    """Whose data a plan on this problem uses."""
    if problem.exposure:
        files = " and ".join(str(path) for path in problem.files) or "the table that was given"
        return (f"Planning used the people of {files}.", *_PRIVATE)
    if problem.rows is not None or problem.size is not None:
        return (f"Planning used a table that is public. {problem.source}",)
    return (f"Planning used no one's data. {problem.source}",)


ERROR = 0.01
"""The probability that a true best is dropped anywhere in a plan."""
FIRST_RUNG = 4
FIRST_REPLICATE = 1_000_000
"""Number of the first replicate that selects; those that measure start at 0."""


class Run(NamedTuple):
    """One replicate of one setting.

    Attributes:
        setting: what runs.
        people: how many are served.
        replicate: its number.
    """

    setting: Setting
    people: int
    replicate: int


class Ran(NamedTuple):
    """A finished run: its worth per person, and the guarantee of its learner."""

    run: Run
    worth: float
    guarantee: Guarantee | None


def carry_out(problem: Problem, seed: int, run: Run) -> Ran:
    """One run; the same arguments give the same anywhere."""
    outcome = simulate(problem, run.setting, run.people, seed, run.replicate)
    sign = 1.0 if problem.metric == "reward" else -1.0
    worth = sign * outcome.record.value / run.people
    return Ran(run, worth, outcome.guarantee)


@dataclass
class SimulationGrid:
    """The runs of a plan that are finished.

    Attributes:
        problem, seed: as in every run.
        jobs: processes.
        guarantees: by label, the weakest of any run.
    """

    problem: Problem
    seed: int
    jobs: int = 1
    guarantees: dict[str, Guarantee] = field(default_factory=dict)
    _worth: dict[tuple[str, int, int], float] = field(default_factory=dict)

    def carry_out(self, runs: Sequence[Run], done: Callable[[], None] = lambda: None) -> None:
        """Simulate what is not there yet, runs of most people first.

        Args:
            runs: what is simulated.
            done: called after each run.
        """
        missing = [run for run in runs if not self._has(run)]
        tasks = (
            joblib.delayed(carry_out)(self.problem, self.seed, run)
            for run in sorted(missing, key=lambda run: run.people, reverse=True)
        )
        for run, worth, guarantee in in_parallel(tasks, self.jobs):
            label = run.setting.label
            self._worth[label, run.people, run.replicate] = worth
            kept = self.guarantees.get(label)
            if guarantee is not None and (kept is None or guarantee.epsilon > kept.epsilon):
                self.guarantees[label] = guarantee
            done()

    def _has(self, run: Run) -> bool:
        return (run.setting.label, run.people, run.replicate) in self._worth

    def worth(self, label: str, horizons: Sequence[int], replicates: Sequence[int]) -> FloatArray:
        """(r, h) see the module; NaN where it was not simulated."""
        rows = [
            [self._worth.get((label, people, number), math.nan) for people in horizons]
            for number in replicates
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(horizons))


def runs_of(
    settings: Iterable[Setting], horizons: Sequence[int], replicates: Iterable[int]
) -> list[Run]:
    """One run for each setting, horizon and replicate."""
    return [
        Run(setting, people, number)
        for number in replicates
        for setting in settings
        for people in horizons
    ]


def rungs(replicates: int) -> tuple[int, ...]:
    """The numbers of replicates after which contenders are compared: 4, 8, 16, .., `replicates`."""
    counts, count = [], FIRST_RUNG
    while count < replicates:
        counts.append(count)
        count *= 2
    return (*counts, max(replicates, 2))


def successive_halving(
    grid: SimulationGrid,
    groups: Mapping[float | None, Sequence[Setting]],
    people: int,
    replicates: int,
    done: Callable[[], None] = lambda: None,
) -> list[RaceResult]:
    """The results of all contenders, budget by budget.

    Args:
        grid: takes what is simulated.
        groups: the contenders of each budget; a single one wins without a run.
        people: with how many they run.
        replicates: of the last rung.
        done: called after each run.
    """
    stops = rungs(replicates)
    level = ERROR / max(sum(len(group) - 1 for group in groups.values()) * len(stops), 1)
    left = {epsilon: list(group) for epsilon, group in groups.items()}
    counts = {each.label: 0 for group in groups.values() for each in group}

    def worth(setting: Setting) -> FloatArray:
        numbers = range(FIRST_REPLICATE, FIRST_REPLICATE + counts[setting.label])
        return grid.worth(setting.label, (people,), numbers)[:, 0]

    for stop in stops:
        racing = [each for group in left.values() if len(group) > 1 for each in group]
        numbers = range(FIRST_REPLICATE, FIRST_REPLICATE + stop)
        grid.carry_out(runs_of(racing, (people,), numbers), done)
        counts |= {each.label: stop for each in racing}
        for epsilon, rest in left.items():
            if len(rest) > 1:
                behind = p_values({each.label: worth(each) for each in rest})
                left[epsilon] = [each for each in rest if behind[each.label] >= level]
    results = []
    for epsilon, group in groups.items():
        means = {each.label: float(worth(each).mean()) for each in group if counts[each.label]}
        names = [each.label for each in left[epsilon]]
        winner = max(names, key=lambda name: means.get(name, -math.inf))
        results += [
            RaceResult(
                epsilon,
                each,
                people,
                counts[each.label],
                means.get(each.label, math.nan),
                won=each.label == winner,
                dropped=each.label not in names,
            )
            for each in group
        ]
    return results


def p_values(worths: Mapping[str, FloatArray]) -> dict[str, float]:
    """By contender the one-sided p-value of being no worse than the leader; 1 for the leader.

    Args:
        worths: (r,) of each, on the same people.
    """
    leader = max(worths, key=lambda label: float(worths[label].mean()))
    behind = {}
    for label, worth in worths.items():
        mean, error = mean_and_error(worths[leader] - worth)
        behind[label] = 1.0 if mean <= 0.0 else 0.5 * p_value(mean, error, len(worth))
    return behind


# The plan.

REPLICATES = 8

# What a plan is doing: the step, how much of it is done, how much there is (0: unknown).
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PlanRequest:
    """What a user asks of a plan.

    Attributes:
        people: how many are expected; the study's number if None.
        lose_at_most: the share of the gain that may be lost; None if not asked.
        epsilon: the user's own; None if not asked.
        epsilons: that are tried.
        learners: names in place of those of the study.
        trust_model: where the study has learners under several.
        replicates: fresh ones, on which all numbers rest.
        jobs: processes.
    """

    people: int | None = None
    lose_at_most: float | None = None
    epsilon: float | None = None
    epsilons: tuple[float, ...] = EPSILONS
    learners: tuple[str, ...] = ()
    trust_model: str | None = None
    replicates: int = REPLICATES
    jobs: int = 1

    def __post_init__(self) -> None:
        errors = ErrorCollector()
        checks: list[tuple[Any, Callable[[Any], object]]] = [
            (self.people, lambda value: whole_number(value, "people", minimum=1)),
            (self.lose_at_most, lambda value: number_from(value, "lose_at_most", 0.0, 1.0)),
            (self.epsilon, lambda value: positive_number(value, "epsilon")),
            (self.replicates, lambda value: whole_number(value, "replicates", minimum=2)),
            (self.jobs, lambda value: whole_number(value, "jobs", minimum=1)),
        ]
        for value, check in checks:
            with errors.collected():
                if value is not None:
                    check(value)
        if None not in (self.people, self.lose_at_most, self.epsilon):
            errors.add(
                f"people was {self.people}, lose_at_most {self.lose_at_most} and epsilon "
                f"{self.epsilon}; give at most two of them, and the plan answers with the third."
            )
        with errors.collected():
            checked_epsilons(self.epsilons)
        for name in self.learners:
            with errors.collected():
                if name not in REFERENCES:  # what learns nothing is refused by the design
                    learner_class(name)
        errors.raise_if_any()

    @property
    def tried(self) -> tuple[float, ...]:
        """The epsilons that are simulated, the user's own among them."""
        return self.epsilons if self.epsilon is None else (*self.epsilons, self.epsilon)

    @property
    def question(self) -> tuple[Asked, float, float] | None:
        """Which of the three is asked for, and the two that were given."""
        people, lost, epsilon = self.people, self.lose_at_most, self.epsilon
        if epsilon is not None and lost is not None:
            return "people", epsilon, lost
        if people is not None and lost is not None:
            return "epsilon", float(people), lost
        if people is not None and epsilon is not None:
            return "loss", epsilon, float(people)
        return None


def make_forecast(
    study: Study,
    expected: int,
    data: tuple[str, ...],
    request: PlanRequest,
    progress: Progress | None = None,
) -> Forecast:
    """Simulate what a study asks for.

    Args:
        study: names the problem and the learners.
        expected: how many people.
        data: whose data are used, in sentences.
        request: what is asked of the plan.
        progress: called as it goes on.

    Raises:
        InvalidInput: before anything is simulated, for a request that the study cannot have.
    """
    show = progress or (lambda *_: None)
    size = study.problem.size
    people = expected if size is None else min(expected, size)
    design = plan_design(study, people, request.tried, request.learners, request.trust_model)
    left_out = list(design.left_out)
    if people < expected:
        left_out.append(
            f"Left out: more than {people:,} people, as the table has no more; curves go on beyond."
        )
    grid = SimulationGrid(design.problem, design.seed, request.jobs)
    groups, started, done = design.groups(), time.monotonic(), 0

    def one_more(step: str, total: int) -> None:
        nonlocal done
        done += 1
        show(step, done, total)

    races = successive_halving(
        grid, groups, people, request.replicates, lambda: one_more("Selecting learners", 0)
    )
    winners = {each.epsilon: each.setting for each in races if each.won}
    settings = [*(winners[epsilon] for epsilon in (*design.epsilons, None)), *design.references]
    others = _other_models(study, design, request.epsilon)
    runs = runs_of(settings, design.horizons, range(request.replicates))
    runs += runs_of(others, design.horizons[-1:], range(request.replicates))
    selected, done = time.monotonic(), 0
    grid.carry_out(runs, lambda: one_more("Simulating", len(runs)))
    ended = time.monotonic()
    return Forecast(
        name=study.name,
        title=study.title,
        problem=design.problem,
        data=data,
        horizons=design.horizons,
        expected=expected,
        lines=tuple(_lines(grid, design, winners, request.replicates)),
        races=tuple(races),
        left_out=tuple(left_out),
        lose_at_most=LOSE_AT_MOST if request.lose_at_most is None else request.lose_at_most,
        seed=design.seed,
        seconds=ended - started,
        seconds_each=(ended - selected) / request.replicates,
        path=study.path,
        question=request.question,
        others=tuple(
            _line(grid, design, request.replicates, "private", each, design.horizons[-1:])
            for each in others
        ),
    )


def _lines(
    grid: SimulationGrid, design: PlanDesign, winners: Mapping[float | None, Setting], count: int
) -> Iterator[PlanLine]:
    """The lines of the winners and references over the first replicates."""
    line = partial(_line, grid, design, count)
    yield from (line("private", winners[epsilon]) for epsilon in design.epsilons)
    yield line("none", winners[None])
    yield from (line("reference", setting) for setting in design.references)


def _line(
    grid: SimulationGrid,
    design: PlanDesign,
    count: int,
    kind: Kind,
    setting: Setting,
    horizons: Sequence[int] | None = None,
) -> PlanLine:
    """The line of a setting over the first replicates, by default at all horizons."""
    at, replicates = horizons or design.horizons, range(count)
    worth = grid.worth(setting.label, at, replicates)
    reference = grid.worth(BEST_FIXED if design.fixed else UNIFORM, at, replicates)
    return PlanLine(kind, setting, worth, worth - reference, grid.guarantees.get(setting.label))


def _other_models(study: Study, design: PlanDesign, epsilon: float | None) -> list[Setting]:
    """The usual learners of the trust models that a plan is not under, at the epsilon that was
    asked for, or the one closest to 1; those that can work with these people."""
    problem, people = design.problem, design.people
    at = min(design.epsilons, key=lambda each: abs(math.log(each))) if epsilon is None else epsilon
    settings = []
    for model in TRUST_MODELS:
        name = _usual(study, model, people)
        kind = learner_class(name)
        if model not in kind.trust_models or type(problem.space) not in kind.spaces:
            continue
        if model != design.private[0].budget.trust_model:
            label = f"{name}, {model}, epsilon {at:g}"
            settings.append(Setting(name, label, usual_budget(model, at, people)))
    return [each for each in settings if _works(problem, [each], people)]
