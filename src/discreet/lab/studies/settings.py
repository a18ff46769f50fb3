"""What the learners of a study become: one setting for each learner and budget.

A `LearnerEntry` is a `[[learners]]` table. Without a name it is the usual learner for what is
public about the problem (learners/defaults.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import REFERENCES, Setting
from discreet.learners.defaults import Choice, Declared, usual_learner, usual_trust_model
from discreet.learners.registry import LEARNERS, learner_class
from discreet.privacy import Budget, NonPrivate, check_protects
from discreet.privacy.budget import budget_from_fields
from discreet.toml_files import Place, checked, toml_value
from discreet.validation import InvalidInput, Refusals


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LearnerEntry(Strict):
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


def all_settings(
    entries: Sequence[tuple[int, LearnerEntry]],
    problem: Problem | None,
    people: int,
    place: Place,
    refusals: Refusals,
) -> list[tuple[Setting, Place]]:
    """The settings of all learners, each with its place in the file."""
    settings: list[tuple[Setting, Place]] = []
    for number, entry in entries:
        where = place.within("learners", number)
        with refusals.collected(), where.at():
            settings += [(each, where) for each in _settings(entry, problem, people, where)]
    labels = [setting.label for setting, _ in settings]
    for label, where in {setting.label: where for setting, where in settings}.items():
        if labels.count(label) > 1:
            refusals.add(
                where.message(f"there are two learners called {label!r}; give each its own label.")
            )
    return settings


def entries_of(content: Mapping[str, Any], place: Place) -> list[tuple[int, LearnerEntry]]:
    """Of a study that is refused the learners that are well written, each with its number."""
    learners, entries = content.get("learners"), []
    for number, entry in enumerate(learners if isinstance(learners, list) else ()):
        with Refusals().collected():  # which is said already
            entries.append((number, checked(LearnerEntry, entry, place)))
    return entries


def _settings(
    entry: LearnerEntry, problem: Problem | None, people: int, place: Place
) -> list[Setting]:
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
    with place.at("name"):
        kind = learner_class(private.learner, REFERENCES)
    allowed, settings, refusals = kind.trust_models, [], Refusals()
    if problem is not None:
        with refusals.collected(), place.at("name"):
            check_space(private.learner, problem)
    with refusals.collected(), place.at("options"):
        kind.read_options(entry.options)
    epsilons = entry.epsilon if isinstance(entry.epsilon, list) else [entry.epsilon]
    if len(set(epsilons)) < len(epsilons):
        refusals.add(f"epsilon was {toml_value(epsilons)}; name each once.")
    for epsilon in dict.fromkeys(epsilons):
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


def check_space(learner: str, problem: Problem) -> None:
    """Refuse a learner that cannot choose among what the problem offers."""
    kind = type(problem.space)
    if kind in learner_class(learner).spaces:
        return
    fitting = [name for name, each in LEARNERS.items() if kind in each.spaces]
    raise InvalidInput(
        f"{learner} does not fit this problem ({problem.offer}); learners that do: "
        f"{', '.join(fitting)}."
    )
