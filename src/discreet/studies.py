"""Study files: a problem, learners and budgets in TOML.

name = "earnings"
title = "Which earnings bracket is a person in?"
rounds = 61000
replicates = 4
seed = 1

[problem]
name = "earnings"            # `discreet data list` names them; other keys are its options

[[learners]]                 # without a name: local_kernel
epsilon = [1.0, 2.0, 4.0]    # one line of the result for each
non_private = true           # and one without privacy

[[learners]]
name = "uniform"

[report]
axes = ["age", "education"]  # the two columns of the map
at = { gender = 1 }          # where the others stand
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from discreet.learners.local_kernel.learner import LocalKernel
from discreet.learners.registry import LEARNERS, budget_from_fields, learner_class
from discreet.privacy import Budget, NonPrivate
from discreet.problems.base import Problem
from discreet.problems.catalog import data_files, load_problem
from discreet.simulation import REFERENCES, Setting, check_setting
from discreet.validation import InvalidInput


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LearnerEntry(_Strict):
    """One `[[learners]]` table; without a name it is the usual learner under local privacy."""

    name: str = LocalKernel.name
    label: str | None = None
    epsilon: list[float] | float = Field(default_factory=list)
    delta: float | None = None
    trust_model: Literal["local", "joint", "outsourced", "none"] | None = None
    non_private: bool = False
    options: dict[str, Any] = Field(default_factory=dict)


class ReportEntry(_Strict):
    """The `[report]` table: which two columns the map shows, and where the others stand."""

    axes: list[str] = Field(default_factory=list, max_length=2)
    at: dict[str, float] = Field(default_factory=dict)


class StudyFile(_Strict):
    """The whole file, before names are looked up."""

    name: str = Field(min_length=1)
    title: str = ""
    rounds: int | None = Field(default=None, ge=1)
    replicates: int = Field(default=4, ge=1)
    seed: int = Field(default=0, ge=0)
    problem: dict[str, Any]
    learners: list[LearnerEntry] = Field(min_length=1)
    report: ReportEntry = Field(default_factory=ReportEntry)


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


def load_study(
    path: Path,
    rounds: int | None = None,
    replicates: int | None = None,
    data_dir: Path | None = None,
) -> Study:
    """Read and check a study file; `rounds` and `replicates` replace those of the file.

    Raises:
        InvalidInput: a file that cannot be read, a key that is missing, unknown or of the wrong
            type, an unknown problem or learner, or a combination that cannot run.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the study file {path} cannot be read ({error}).") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the study file {path} is not TOML: {error}.") from error
    file = _checked(path, content)
    options = dict(file.problem)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise InvalidInput(
            f"the study file {path} has a [problem] without a name; `discreet data list` shows "
            "the names."
        )
    problem = load_problem(name, options, data_dir, path.parent)
    settings = tuple(setting for entry in file.learners for setting in _settings(entry))
    _check_labels(path, settings)
    people = rounds or file.rounds or problem.size
    if people is None:
        raise InvalidInput(
            f"the study file {path} has no rounds; only a table can do without, as it has as many "
            "rounds as people."
        )
    problem.check_size(people)
    for setting in settings:
        check_setting(problem, setting, people)
    _check_report(path, file.report, problem)
    return Study(
        name=file.name,
        title=file.title or file.name,
        rounds=people,
        replicates=file.replicates if replicates is None else replicates,
        seed=file.seed,
        problem=problem,
        settings=settings,
        report=file.report,
        text=text,
        files=(path, *data_files(name, options, data_dir, path.parent)),
    )


def _checked(path: Path, content: dict[str, Any]) -> StudyFile:
    try:
        return StudyFile.model_validate(content)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            where = ".".join(str(part) for part in problem["loc"])
            if problem["type"] == "extra_forbidden":
                lines.append(f"{where} is not a key of a study file{_allowed(problem['loc'])}")
            elif problem["type"] == "missing":
                lines.append(f"{where} is missing")
            else:
                lines.append(f"{where} was {problem['input']!r}: {problem['msg']}")
        raise InvalidInput(f"the study file {path} is inconsistent: {'; '.join(lines)}.") from error


def _allowed(location: tuple[int | str, ...]) -> str:
    """Which keys there are where an unknown one stood."""
    tables: dict[int | str, type[BaseModel]] = {"learners": LearnerEntry, "report": ReportEntry}
    table = tables.get(location[0], StudyFile) if len(location) > 1 else StudyFile
    return f" (allowed: {', '.join(table.model_fields)})"


def _settings(entry: LearnerEntry) -> list[Setting]:
    label = entry.label or entry.name
    if entry.name in REFERENCES:
        if entry.epsilon or entry.non_private or entry.trust_model or entry.delta is not None:
            raise InvalidInput(
                f"{entry.name} is a reference and takes no budget; remove its epsilon, delta, "
                "trust_model and non_private."
            )
        return [Setting(entry.name, label, NonPrivate(), entry.options)]
    if entry.name not in LEARNERS:
        known = ", ".join(sorted([*LEARNERS, *REFERENCES]))
        raise InvalidInput(f"the learner {entry.name!r} is unknown; known are {known}.")
    usual = learner_class(entry.name).trust_models
    epsilons = entry.epsilon if isinstance(entry.epsilon, list) else [entry.epsilon]
    made = [_private(entry, label, usual[0], epsilon) for epsilon in epsilons]
    if entry.non_private or usual == ("none",):
        name = f"{label} (non-private)" if made else label
        made.append(Setting(entry.name, name, NonPrivate(), entry.options))
    if not made:
        raise InvalidInput(
            f"the learner {entry.name!r} has no budget; give epsilon = [..] or non_private = true."
        )
    return made


def _private(entry: LearnerEntry, label: str, usual: str, epsilon: float) -> Setting:
    trust_model = entry.trust_model or usual
    if trust_model == "none":
        raise InvalidInput(
            f"the learner {entry.name!r} is not private and got epsilon = {epsilon:g}; remove "
            "epsilon."
        )
    fields: dict[str, Any] = {"trust_model": trust_model, "epsilon": epsilon}
    if entry.delta is not None:
        fields["delta"] = entry.delta
    budget: Budget = budget_from_fields(fields)
    return Setting(entry.name, f"{label}, epsilon {epsilon:g}", budget, entry.options)


def _check_labels(path: Path, settings: Sequence[Setting]) -> None:
    labels = [setting.label for setting in settings]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InvalidInput(
            f"the study file {path} has two learners called {twice[0]!r}; give each its own label."
        )


def _check_report(path: Path, report: ReportEntry, problem: Problem) -> None:
    names = problem.domain.names
    wrong = [name for name in [*report.axes, *report.at] if name not in names]
    if wrong:
        raise InvalidInput(
            f"the study file {path} names the column {wrong[0]!r} in [report]; the problem has "
            f"{', '.join(names)}."
        )
    for name, value in report.at.items():
        column = names.index(name)
        low, high = problem.domain.lower[column], problem.domain.upper[column]
        if not low <= value <= high:
            raise InvalidInput(
                f"the study file {path} sets {name} = {value:g} in [report]; the declared bounds "
                f"are [{low:g}, {high:g}]."
            )
