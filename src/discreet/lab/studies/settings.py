"""The tables of a study file: its problem, and a setting for each learner and budget.

A `LearnerEntry` is a `[[learners]]` table. Without a name it is the usual learner for what is
public about the problem (learners/registry.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from discreet.lab.environments.base import Problem
from discreet.lab.environments.catalog import Files, find_entry, load_problem
from discreet.lab.experiments import REFERENCES, Setting
from discreet.learners.registry import (
    LEARNERS,
    Choice,
    Declared,
    learner_class,
    usual_learner,
    usual_trust_model,
    variant,
)
from discreet.privacy import Budget, NonPrivate, Shuffled, check_protects
from discreet.privacy.budget import budget_from_fields, usual_group
from discreet.toml_files import Place, checked, toml_value
from discreet.validation import ErrorCollector, InvalidInput

# Longer is not a deployment, but an archive.
_MOST_DAYS = 3650.0


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ServeTable(Strict):
    """The `[serve]` table (see serving.py)."""

    learner: str | None = Field(default=None, min_length=1)
    epsilon: float | None = None
    people: int | None = Field(default=None, ge=1)
    default_arm: str | None = None
    expires_days: float = Field(default=30.0, gt=0.0, le=_MOST_DAYS)
    retention_days: float = Field(default=0.0, ge=0.0, le=_MOST_DAYS)
    sources: dict[str, float] = Field(default_factory=dict)


class LearnerEntry(Strict):
    """One `[[learners]]` table; without a name it is the usual learner of the problem."""

    name: str | None = None
    label: str | None = None
    epsilon: list[float] | float = Field(default_factory=list)
    delta: float | None = None
    trust_model: Literal["local", "shuffled", "joint", "outsourced", "none"] | None = None
    max_contributions: int = Field(default=1, ge=1, le=10_000)
    protects: Literal["person", "contribution"] = "person"
    group: int | None = Field(default=None, ge=1, le=10_000_000)
    honest: float = Field(default=1.0, gt=0.0, le=1.0)
    non_private: bool = False
    protects_nobody: bool = False
    options: dict[str, Any] = Field(default_factory=dict)


def all_settings(
    entries: Sequence[tuple[int, LearnerEntry]],
    problem: Problem | None,
    people: int,
    place: Place,
    errors: ErrorCollector,
) -> list[tuple[Setting, Place]]:
    """The settings of all learners, each with its place in the file."""
    settings: list[tuple[Setting, Place]] = []
    for number, entry in entries:
        where = place.within("learners", number)
        with errors.collected(), where.at():
            settings += [(each, where) for each in _settings(entry, problem, people, where)]
    labels = [setting.label for setting, _ in settings]
    for label, where in {setting.label: where for setting, where in settings}.items():
        if labels.count(label) > 1:
            errors.add(
                where.message(f"there are two learners called {label!r}; give each its own label.")
            )
    return settings


def entries_of(content: Mapping[str, Any], place: Place) -> list[tuple[int, LearnerEntry]]:
    """The well-written learners of a study that is refused, each with its number."""
    learners, entries = content.get("learners"), []
    for number, entry in enumerate(learners if isinstance(learners, list) else ()):
        with ErrorCollector().collected():  # reported already
            entries.append((number, checked(LearnerEntry, entry, place)))
    return entries


def _settings(
    entry: LearnerEntry, problem: Problem | None, people: int, place: Place
) -> list[Setting]:
    """The settings of one learner; none for one without a name on a problem that is refused."""
    if entry.name in REFERENCES:
        asks = (
            entry.delta is not None
            or entry.max_contributions > 1
            or entry.protects == "contribution"
            or entry.group is not None
            or entry.honest < 1.0
        )
        if entry.epsilon or entry.non_private or entry.trust_model or asks:
            raise InvalidInput(
                f"{entry.name} is a reference and takes no budget; remove its epsilon, delta, "
                "max_contributions, protects, group, honest, trust_model and non_private."
            )
        return [Setting(entry.name, entry.label or entry.name, NonPrivate(), entry.options)]
    if entry.name is None and problem is None:
        return []
    asked: str | None = entry.trust_model
    if entry.name is None and problem is not None:
        asked = asked or usual_trust_model(problem.space)
    private, free = (_chosen(entry, model or "", problem, people) for model in (asked, "none"))
    with place.at("name"):
        kind = learner_class(private.learner, REFERENCES)
    allowed, settings, errors = kind.trust_models, [], ErrorCollector()
    if problem is not None:
        with errors.collected(), place.at("name"):
            check_space(private.learner, problem)
    with errors.collected(), place.at("options"):
        variant(kind, None, asked or allowed[0]).read_options(entry.options)
    epsilons = entry.epsilon if isinstance(entry.epsilon, list) else [entry.epsilon]
    if len(set(epsilons)) < len(epsilons):
        errors.add(f"epsilon was {toml_value(epsilons)}; name each once.")
    for epsilon in dict.fromkeys(epsilons):
        with errors.collected():
            budget = _budget(entry, private.learner, asked or allowed[0], epsilon, people)
            label = f"{entry.label or private.learner}, epsilon {epsilon:g}"
            settings.append(Setting(private.learner, label, budget, entry.options, private.reason))
    if entry.non_private and "none" not in learner_class(free.learner).trust_models:
        errors.add(
            f"{entry.name} got non_private = true, but takes the trust model "
            f"{' or '.join(allowed)} only; remove non_private."
        )
    errors.raise_if_any()
    if entry.non_private or allowed == ("none",):
        label = entry.label or free.learner
        label = f"{label} (non-private)" if settings else label
        settings.append(Setting(free.learner, label, NonPrivate(), entry.options, free.reason))
    if not settings:
        who = f"the learner {private.learner!r}" if entry.name else "the default learner"
        without = " or non_private = true" if "none" in allowed else ""
        raise InvalidInput(f"{who} has no epsilon; give epsilon = [..]{without}.")
    return settings


def _chosen(entry: LearnerEntry, model: str, problem: Problem | None, people: int) -> Choice:
    """The learner that an entry names, or the usual one under a trust model, with the reason."""
    if entry.name is not None or problem is None:
        return Choice(entry.name or "", "")
    columns, indicators = problem.domain.dimension, len(problem.domain.implied)
    kernel = "kernel" in entry.options
    return usual_learner(Declared(model, problem.space, columns, people, kernel, indicators))


def _budget(
    entry: LearnerEntry, learner: str, trust_model: str, epsilon: float, people: int
) -> Budget:
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
    given = {
        "delta": entry.delta,
        "max_contributions": entry.max_contributions,
        "protects": entry.protects,
        "group": entry.group,
        "honest": entry.honest,
    }
    usual = {"max_contributions": 1, "protects": "person", "honest": 1.0}
    fields |= {name: value for name, value in given.items() if value != usual.get(name)}
    if trust_model != "shuffled" and fields.keys() & {"group", "honest"}:
        raise InvalidInput(
            f"group and honest are about shuffled reports, and the trust model was {trust_model}; "
            'remove them, or set trust_model = "shuffled".'
        )
    budget = budget_from_fields(fields)
    if isinstance(budget, Shuffled) and entry.group is None:
        budget = replace(budget, group=usual_group(epsilon, people))
    check_protects(budget, entry.protects_nobody, "protects_nobody = true")
    return budget


def check_space(learner: str, problem: Problem) -> None:
    """Reject a learner that cannot choose from the problem's actions."""
    kind = type(problem.space)
    if kind in learner_class(learner).spaces:
        return
    fitting = [name for name, each in LEARNERS.items() if kind in each.spaces]
    raise InvalidInput(
        f"{learner} does not fit this problem ({problem.offer}); learners that do: "
        f"{', '.join(fitting)}."
    )


# The problem.

# Makes a problem of a study's content and its place; None for a study without a problem.
MakeProblem = Callable[[Mapping[str, Any], Place], Problem | None]


def problem_of(content: Mapping[str, Any], given: Files) -> Problem | None:
    """The problem of a study; None without such a table, which is refused elsewhere."""
    if not isinstance(content.get("problem"), Mapping):
        return None
    options = dict(content["problem"])
    name = options.pop("name", None)
    where = given.place.within("problem")
    if not isinstance(name, str):
        raise InvalidInput(
            where.message(
                "[problem] is without a name; `discreet data list` shows the names.", ("name",)
            )
        )
    errors = ErrorCollector()
    with errors.collected(where.message("", ("name",))):
        find_entry(name)
    errors.raise_if_any()
    options |= _people_option(content, name, given.place)
    return load_problem(name, options, given.data_dir, given.base, where, given.tables)


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
        if not table.is_file():  # about the option, not the study's own path
            raise InvalidInput(
                f"the table {str(table)!r} is not a file that exists; check the path."
            )
        changed = {**content, "problem": {**problem, "path": str(table.resolve())}}
        return problem_of(changed, Files(data_dir, folder, place, {}))

    return make


def _people_option(content: Mapping[str, Any], name: str, place: Place) -> dict[str, Any]:
    """`[people]` as an option of the problem."""
    people = content.get("people")
    if not isinstance(people, Mapping) or not isinstance(people.get("id"), str):
        return {}
    if "person" not in find_entry(name).options.model_fields:
        raise InvalidInput(
            place.within("people").message(
                f"[people] names the column {people['id']!r}, but the problem {name!r} is no table "
                "of yours and each of its people comes once; leave [people] out."
            )
        )
    return {"person": people["id"]}


def people_of(asked: int | None, problem: Problem, place: Place | None) -> int:
    """The number of people; `place` is the study that states it, if one does."""
    people, where = asked or problem.size, place or Place("")
    if people is None:
        raise InvalidInput(
            where.message(
                "the study has no rounds; only a table can do without, as it has as many rounds as "
                "people. Set rounds."
            )
        )
    with where.at("rounds"):
        problem.check_size(people)
    return people
