"""What a plan varies: learners, epsilons and numbers of people; and whose data it uses.

A *contender* is a learner with its options. Under each epsilon of the plan, and once without
privacy, one contender is selected (planner.py) and measured at every horizon. Horizons are halves:
N, N/2, .., N/16 people, as far as learners can work with these.

No budget protects the data that a plan reads, so a plan states whose they are. With a public or
older table, or with synthetic people, the study's own table is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discreet.lab.environments.base import Problem
from discreet.lab.environments.synthetic import CONTRAST, synthetic_people
from discreet.lab.experiments import (
    BEST_FIXED,
    HIGHEST,
    REFERENCES,
    UNIFORM,
    Setting,
    check_setting,
)
from discreet.lab.studies import Study, load_study
from discreet.lab.studies.settings import on_table
from discreet.learners.registry import Declared, learner_class, usual_learner, usual_trust_model
from discreet.people.domain import arm_count
from discreet.privacy import Budget, Local, NonPrivate
from discreet.privacy.budget import budget_from_fields
from discreet.privacy.guarantee import PROTECTS_NOBODY
from discreet.toml_files import read_toml
from discreet.validation import ErrorCollector, InvalidInput, distinct, positive_number

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_HALVINGS = 4
_FEWEST = 20  # people of a horizon
_RULES = (UNIFORM, HIGHEST, *REFERENCES)
_DELTA = 1e-6  # where a learner needs one and the study has none


@dataclass(frozen=True)
class Contender:
    """A learner that may be chosen.

    Attributes:
        name: what it is called: the label of the study, without its budget.
        learner: its registered name.
        budget: what it is asked to keep, at any epsilon.
        options: of the learner.
    """

    name: str
    learner: str
    budget: Budget
    options: Mapping[str, Any] = field(default_factory=dict)

    def at(self, epsilon: float | None) -> Setting:
        """The setting under an epsilon; None for no privacy."""
        if epsilon is None:
            return Setting(self.learner, f"{self.name} (no privacy)", NonPrivate(), self.options)
        label = f"{self.name}, epsilon {epsilon:g}"
        return Setting(self.learner, label, self.budget.at(epsilon), self.options)


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
        if name in _RULES:
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
        allowed = ("local", "joint")
        if asked not in allowed:
            raise InvalidInput(f"trust_model was {asked!r}; it must be 'local' or 'joint'.")
        return asked, ()
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
                Contender(name, each.learner, each.budget, each.options)
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
    return Contender(name, name, budget or _usual_budget(model), options)


def _usual_budget(model: str) -> Budget:
    if model == "local":
        return Local(1.0)
    return budget_from_fields({"trust_model": model, "epsilon": 1.0, "delta": _DELTA})


def _usual(study: Study, model: str, people: int) -> str:
    columns = study.problem.domain.dimension
    return usual_learner(Declared(model, study.problem.space, columns, people)).learner


def _free(study: Study, private: Sequence[Contender], people: int) -> tuple[Contender, ...]:
    """The contenders without privacy: those of the study, and the private ones without it."""
    own = [
        Contender(_plain(each), each.learner, each.budget, each.options)
        for each in study.settings
        if not each.private and each.learner not in _RULES
    ]
    also = [each for each in private if "none" in learner_class(each.learner).trust_models]
    free = {each.name: each for each in (*own, *also)}
    if not free:
        name = _usual(study, "none", people)
        free[name] = Contender(name, name, NonPrivate())
    return tuple(free.values())


def _plain(setting: Setting) -> str:
    """The label of a setting without privacy, as its private ones begin."""
    return setting.label.removesuffix(" (non-private)")


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


_SYNTHETIC = (
    "Planning used no one's data: synthetic people with the columns, arms and bounds that the "
    "study declares."
)
_GUESS = (
    "How much there is to gain is an assumption of the synthetic surface, not a fact about your "
    "people: read it for the order of magnitude, and plan again on an older or public table."
)
_OTHER = (
    "The plan holds for the study as far as its people are like those of that table.",
    "If that table holds people's private data, the plan tells something about them that no "
    "epsilon covers: keep it among those who may see the table.",
)
_PRIVATE = (
    "The epsilon that it recommends protects the people of the study once it runs; it does not "
    "cover this plan. Its numbers, its figures and the choice itself come from the table as it is, "
    "without any noise, and may tell something about the people in it.",
    "Keep the plan among those who may see the table, or plan on data that need "
    "no protection: a public or older table (--table FILE), or synthetic people (--synthetic).",
)


def _whose(problem: Problem) -> tuple[str, ...]:
    """Whose data a plan on this problem uses."""
    if problem.exposure:
        files = " and ".join(str(path) for path in problem.files) or "the table that was given"
        return (f"Planning used the people of {files}.", *_PRIVATE)
    if problem.rows is not None or problem.size is not None:
        return (f"Planning used a table that is public. {problem.source}",)
    return (f"Planning used no one's data. {problem.source}",)
