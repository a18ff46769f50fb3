"""Which problem a study names, on which table, and how many people take part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from discreet.lab.environments.base import Problem
from discreet.lab.environments.catalog import find_entry, load_problem
from discreet.lab.environments.frames import Files
from discreet.toml_files import Place
from discreet.validation import InvalidInput, Refusals

# Makes a problem of what a study says and where it stands; None for one without a problem.
MakeProblem = Callable[[Mapping[str, Any], Place], Problem | None]


def problem_of(content: Mapping[str, Any], given: Files) -> Problem | None:
    """The problem of a study; None where the file has no such table, which is refused elsewhere."""
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
    refusals = Refusals()
    with refusals.collected(where.message("", ("name",))):
        find_entry(name)
    refusals.raise_if_any()
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
        if not table.is_file():  # said of the option, not of the study's own path
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
                f"[people] names the column {people['id']!r}, but everybody comes once to the "
                f"problem {name!r}, which is no table of yours; leave [people] out."
            )
        )
    return {"person": people["id"]}


def people_of(asked: int | None, problem: Problem, place: Place | None) -> int:
    """How many people take part; `place` is the study that says so, if one does."""
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
