"""Study files: a problem, learners and budgets in TOML.

name = "earnings"
title = "Which earnings bracket is a person in?"
rounds = 61000
replicates = 4
seed = 1

[problem]
name = "earnings"            # `discreet data list` names them; other keys are its options

[people]                     # only where people come more than once
id = "user"                  # the column of the table that says who comes

[[learners]]                 # without a name: the usual learner of such a problem
epsilon = [1.0, 2.0, 4.0]    # one line of the result for each
non_private = true           # and one without privacy
visits = 3                   # reports of one person that an epsilon covers; 1 if left out

[[learners]]
name = "uniform"

[report]
axes = ["age", "education"]  # the two columns of the map
at = { gender = 1 }          # where the others stand
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from discreet.domain import Box
from discreet.experiments import REFERENCES, Setting, check_setting
from discreet.learners.defaults import Choice, Declared, usual_learner, usual_trust_model
from discreet.learners.registry import LEARNERS, learner_class
from discreet.privacy import Budget, NonPrivate, check_protects
from discreet.privacy.budget import budget_from_fields
from discreet.problems.base import Problem
from discreet.problems.catalog import find_entry, load_problem
from discreet.problems.toml_words import Place, checked, read_toml, toml_value
from discreet.validation import InvalidInput, Refusals, nearest

# Makes a problem of what a study file says and where it stands; None for a file without one.
MakeProblem = Callable[[Mapping[str, Any], Place], Problem | None]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LearnerEntry(_Strict):
    """One `[[learners]]` table; without a name it is the usual learner of the problem."""

    name: str | None = None
    label: str | None = None
    epsilon: list[float] | float = Field(default_factory=list)
    delta: float | None = None
    trust_model: Literal["local", "joint", "outsourced", "none"] | None = None
    visits: int = Field(default=1, ge=1, le=10_000)
    protects: Literal["person", "visit"] = "person"
    non_private: bool = False
    protects_nobody: bool = False
    options: dict[str, Any] = Field(default_factory=dict)


class _PeopleTable(_Strict):
    """The `[people]` table."""

    id: str = Field(min_length=1)


class _ReportTable(_Strict):
    """The `[report]` table."""

    axes: list[str] = Field(default_factory=list, max_length=2)
    at: dict[str, float | bool | str] = Field(default_factory=dict)


class StudyFile(_Strict):
    """The whole file, before names are looked up."""

    name: str = Field(min_length=1)
    title: str = ""
    rounds: int | None = Field(default=None, ge=1)
    replicates: int = Field(default=4, ge=1)
    seed: int = Field(default=0, ge=0)
    problem: dict[str, Any]
    learners: list[LearnerEntry] = Field(min_length=1)
    people: _PeopleTable | None = None
    report: _ReportTable = Field(default_factory=_ReportTable)


@dataclass(frozen=True)
class ReportEntry:
    """Which two columns the map shows, and where the others stand, in the units of the domain."""

    axes: list[str] = field(default_factory=list)
    at: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A study that can run.

    Attributes:
        name, title, rounds, replicates, seed: as in the file.
        problem: where the people come from.
        settings: one for each learner and budget.
        report: which columns the map shows.
        text: the file as it was written, for the report.
        files: what was read: the study file, then the files of its data.
        warnings: what the user should know though the study can run, each one sentence.
    """

    name: str
    title: str
    rounds: int
    replicates: int
    seed: int
    problem: Problem
    settings: tuple[Setting, ...]
    report: ReportEntry
    text: str
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """Which learners were chosen because the file names none, each with the reason in one
        sentence."""
        under: dict[tuple[str, str], list[str]] = {}
        for each in self.settings:
            if each.reason:
                under.setdefault((each.learner, each.reason), []).append(_trusted(each.budget))
        return tuple(
            f"{learner} was chosen, as the study names no learner "
            f"({' and '.join(dict.fromkeys(budgets))}): {reason}."
            for (learner, reason), budgets in under.items()
        )


def _trusted(budget: Budget) -> str:
    return f"{budget.trust_model} privacy" if budget.private else "no privacy"


def load_study(
    path: Path,
    rounds: int | None = None,
    replicates: int | None = None,
    data_dir: Path | None = None,
    instead: MakeProblem | None = None,
) -> Study:
    """Read and check a study file; `rounds` and `replicates` replace those of the file.

    Args:
        path: the study file.
        rounds, replicates: in place of the file's.
        data_dir: a folder with data that no package brings.
        instead: makes a problem in place of the file's, whose data are then not read: of the
            content of the file and where it stands.

    Raises:
        InvalidInput: a file that cannot be read, keys that are missing, unknown or of the wrong
            type, an unknown problem or learner, or a combination that cannot run: everything that
            is wrong, as far as one mistake does not hide another.
    """
    text, content = read_toml(path, "study file", {"learner": "learners"})
    place = Place.of_file(path.name, text)
    refusals = Refusals()
    file = problem = None
    with refusals.collected():
        file = checked(StudyFile, content, place)
    with refusals.collected():
        problem = (instead or partial(_problem, data_dir=data_dir, folder=path.parent))(
            content, place
        )
    people = 0
    if file is not None and problem is not None:
        with refusals.collected():
            asked = rounds or file.rounds
            if instead is not None and asked and problem.size:
                asked = min(asked, problem.size)  # what stands in may have fewer people
            people = _people(asked, problem, place)
    settings = [] if file is None else _all_settings(file, problem, people, place, refusals)
    if file is None or problem is None:
        refusals.raise_if_any()
    assert file is not None
    assert problem is not None
    report = ReportEntry()
    with refusals.collected():
        report = _report(file.report, problem.domain, place.within("report"))
    warnings = dict.fromkeys(problem.warnings)
    for setting, where in settings if people else ():
        with refusals.collected(where):
            _check_space(setting, problem)
            warnings |= dict.fromkeys(check_setting(problem, setting, people))
    refusals.raise_if_any()
    return Study(
        name=file.name,
        title=file.title or file.name,
        rounds=people,
        replicates=file.replicates if replicates is None else replicates,
        seed=file.seed,
        problem=problem,
        settings=tuple(setting for setting, _ in settings),
        report=report,
        text=text,
        files=(path, *problem.files),
        warnings=tuple(warnings),
    )


def _problem(
    content: Mapping[str, Any], place: Place, data_dir: Path | None, folder: Path
) -> Problem | None:
    """The problem of a study; None where the file has no such table, which is refused elsewhere."""
    if not isinstance(content.get("problem"), Mapping):
        return None
    options = dict(content["problem"])
    name = options.pop("name", None)
    where = place.within("problem")
    if not isinstance(name, str):
        raise InvalidInput(
            where.message(
                "[problem] is without a name; `discreet data list` shows the names.", ("name",)
            )
        )
    refusals = Refusals()
    with refusals.collected(where.message("", ("name",))):
        find_entry(name)
    refusals.raise_if_any()
    return load_problem(
        name, options | _people_option(content, name, place), data_dir, folder, where
    )


def on_table(table: Path, folder: Path, data_dir: Path | None = None) -> MakeProblem:
    """Makes a study's problem of another table than the file's, with the same columns.

    Args:
        table: a file that the problem can read.
        folder: of the study file, to which its other paths refer.
        data_dir: see `load_study`.

    Raises (when it is called):
        InvalidInput: a problem that reads no table, or a table that does not fit.
    """

    def make(content: Mapping[str, Any], place: Place) -> Problem | None:
        problem = content.get("problem")
        if not isinstance(problem, Mapping) or "path" not in problem:
            raise InvalidInput(
                place.within("problem").message(
                    f"the table {table} was given to stand in for the study's, but [problem] has "
                    "no path that it could replace; leave --table out."
                )
            )
        changed = {**content, "problem": {**problem, "path": str(table.resolve())}}
        return _problem(changed, place, data_dir, folder)

    return make


def _people_option(content: Mapping[str, Any], name: str, place: Place) -> dict[str, Any]:
    """`[people]` as an option of the problem."""
    people = content.get("people")
    if not isinstance(people, Mapping) or not isinstance(people.get("id"), str):
        return {}
    if "person" not in find_entry(name).options.model_fields:
        raise InvalidInput(
            place.within("people").message(
                f"[people] names the column {people['id']!r}, but everybody comes once to the "
                f"problem {name!r}, which is no table of yours; leave [people] out."
            )
        )
    return {"person": people["id"]}


def _people(asked: int | None, problem: Problem, place: Place) -> int:
    people = asked or problem.size
    if people is None:
        raise InvalidInput(
            place.message(
                "the study has no rounds; only a table can do without, as it has as many rounds as "
                "people. Set rounds."
            )
        )
    problem.check_size(people)
    return people


def _all_settings(
    file: StudyFile, problem: Problem | None, people: int, place: Place, refusals: Refusals
) -> list[tuple[Setting, str]]:
    """The settings of all learners, each with how messages about it begin."""
    settings: list[tuple[Setting, str]] = []
    for number, entry in enumerate(file.learners):
        where = place.within("learners", number).message("")
        with refusals.collected(where):
            settings += [(setting, where) for setting in _settings(entry, problem, people)]
    labels = [setting.label for setting, _ in settings]
    for label in dict.fromkeys(labels):
        if labels.count(label) > 1:
            refusals.add(
                place.message(f"there are two learners called {label!r}; give each its own label.")
            )
    return settings


def _settings(entry: LearnerEntry, problem: Problem | None, people: int) -> list[Setting]:
    """The settings of one learner; none for one without a name on a problem that is refused."""
    if entry.name in REFERENCES:
        asks = entry.delta is not None or entry.visits > 1 or entry.protects == "visit"
        if entry.epsilon or entry.non_private or entry.trust_model or asks:
            raise InvalidInput(
                f"{entry.name} is a reference and takes no budget; remove its epsilon, delta, "
                "visits, protects, trust_model and non_private."
            )
        return [Setting(entry.name, entry.label or entry.name, NonPrivate(), entry.options)]
    if entry.name is None and problem is None:
        return []
    asked: str | None = entry.trust_model
    if entry.name is None and problem is not None:
        asked = asked or usual_trust_model(problem.space)
    private, free = (_chosen(entry, model or "", problem, people) for model in (asked, "none"))
    allowed = learner_class(private.learner, REFERENCES).trust_models
    epsilons = entry.epsilon if isinstance(entry.epsilon, list) else [entry.epsilon]
    settings, refusals = [], Refusals()
    for epsilon in epsilons:
        with refusals.collected():
            budget = _budget(entry, private.learner, asked or allowed[0], epsilon)
            label = f"{entry.label or private.learner}, epsilon {epsilon:g}"
            settings.append(Setting(private.learner, label, budget, entry.options, private.reason))
    if entry.non_private and "none" not in learner_class(free.learner).trust_models:
        refusals.add(
            f"{entry.name} got non_private = true, but takes the trust model "
            f"{' or '.join(allowed)} only; remove non_private."
        )
    refusals.raise_if_any()
    if entry.non_private or allowed == ("none",):
        label = entry.label or free.learner
        label = f"{label} (non-private)" if settings else label
        settings.append(Setting(free.learner, label, NonPrivate(), entry.options, free.reason))
    if not settings:
        raise InvalidInput(
            f"the learner {private.learner!r} has no epsilon; give epsilon = [..] or "
            "non_private = true."
        )
    return settings


def _chosen(entry: LearnerEntry, model: str, problem: Problem | None, people: int) -> Choice:
    """The learner that an entry names, or the usual one under a trust model, with the reason."""
    if entry.name is not None or problem is None:
        return Choice(entry.name or "", "")
    columns, kernel = problem.domain.dimension, "kernel" in entry.options
    return usual_learner(Declared(model, problem.space, columns, people, kernel))


def _budget(entry: LearnerEntry, learner: str, trust_model: str, epsilon: float) -> Budget:
    """The budget of one epsilon; `InvalidInput` for one that the learner does not take."""
    allowed = learner_class(learner).trust_models
    if trust_model == "none" or allowed == ("none",):
        raise InvalidInput(
            f"the learner {learner!r} is not private and got epsilon = {epsilon:g}; remove epsilon."
        )
    if trust_model not in allowed:
        private = [toml_value(model) for model in allowed if model != "none"]
        raise InvalidInput(
            f"trust_model was {toml_value(trust_model)}; {learner} takes {' or '.join(private)}."
        )
    fields: dict[str, Any] = {"trust_model": trust_model, "epsilon": epsilon}
    given = {"delta": entry.delta, "visits": entry.visits, "protects": entry.protects}
    usual = {"delta": None, "visits": 1, "protects": "person"}
    fields |= {name: value for name, value in given.items() if value != usual[name]}
    budget = budget_from_fields(fields)
    check_protects(budget, entry.protects_nobody, "protects_nobody = true")
    return budget


def _check_space(setting: Setting, problem: Problem) -> None:
    """Refuse a learner that cannot choose among what the problem offers."""
    kind = type(problem.space)
    if setting.learner in REFERENCES or kind in learner_class(setting.learner).spaces:
        return
    fitting = [name for name, learner in LEARNERS.items() if kind in learner.spaces]
    raise InvalidInput(
        f"{setting.learner} does not fit this problem ({problem.offer}); learners that do: "
        f"{', '.join(fitting)}."
    )


def _report(report: _ReportTable, domain: Box, place: Place) -> ReportEntry:
    """The columns of the maps, with categories as numbers."""
    refusals = Refusals()
    at: dict[str, float] = {}
    for key, names in (("axes", report.axes), ("at", report.at)):
        for name in names:
            if name not in domain.names:
                refusals.add(
                    place.message(
                        f"{key} in [report] names the column {name!r}; the problem has "
                        f"{', '.join(domain.names)}.{nearest(name, domain.names)}",
                        (key,),
                    )
                )
    for name, value in report.at.items():
        if name in domain.names:
            with refusals.collected(place.message("at in [report]: ", ("at",))):
                at[name] = domain.number(domain.names.index(name), value)
    refusals.raise_if_any()
    return ReportEntry(report.axes, at)
