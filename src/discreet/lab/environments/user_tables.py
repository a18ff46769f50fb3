"""Problems made of a person's own tables: a row for each person, or for each candidate of a visit.

The keywords of a function are the options of `[problem]` in a study file.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from discreet.lab.environments.base import Problem
from discreet.lab.environments.classification import (
    ClassLabels,
    RewardColumns,
    TableProblem,
    bandit_from_table,
    classification_from_table,
)
from discreet.lab.environments.frames import Files
from discreet.lab.environments.set_tables import sets_from_table
from discreet.people.columns import Column
from discreet.toml_files import One, Positive
from discreet.validation import InvalidInput


def problem_of_table(
    path: str,
    columns: Annotated[list[Column], Field(min_length=1)],
    label: ClassLabels | None = None,
    rewards: RewardColumns | None = None,
    person: str | None = None,
    radius: Positive | None = None,
    *,
    files: Files,
) -> Problem:
    if (label is None) == (rewards is None):
        raise InvalidInput(
            files.place.message(
                "the problem 'table' needs either label = {...} (arms are classes) or rewards = "
                "{...} (one column for each arm); give one of the two."
            )
        )
    text = [column.name for column in columns if column.values]
    text += [label.column] if label is not None and label.classes else []
    text += [] if person is None else [person]
    frame, origin = files.read("path", path, text), files.origin(path)
    problem: TableProblem
    if label is not None:
        starts = files.starts(columns, person, label=[label.column])
        problem = classification_from_table(frame, columns, label, origin, person, radius, starts)
    else:
        assert rewards is not None
        starts = files.starts(columns, person, rewards=rewards.columns)
        problem = bandit_from_table(frame, columns, rewards, origin, person, radius, starts)
    return files.mark(problem, path)


def problem_of_sets(
    path: str,
    visit: str,
    columns: Annotated[list[Column], Field(min_length=1)],
    reward: Column,
    most: One,
    candidate: str | None = None,
    candidates_path: str | None = None,
    person: str | None = None,
    *,
    files: Files,
) -> Problem:
    text = [column.name for column in columns if column.values]
    text += [name for name in (visit, candidate, person) if name is not None]
    paths = {"path": path} | (
        {} if candidates_path is None else {"candidates_path": candidates_path}
    )
    frame, *shared = (files.read(option, name, text) for option, name in paths.items())
    problem = sets_from_table(
        frame,
        visit,
        columns,
        reward,
        most,
        files.origin(*paths.values()),
        candidate,
        shared[0] if shared else None,
        person,
        files.starts(columns, person, reward=[reward.name]),
    )
    return files.mark(problem, *paths.values())
