"""Studies: a problem, learners and budgets, in a TOML file, a mapping, or around a data frame.

name = "earnings"
title = "Which earnings bracket is a person in?"
rounds = 61000
replicates = 4
seed = 1

[problem]
name = "earnings"            # `discreet data list` names them; other keys are its options

[people]                     # only where people come more than once
id = "user"                  # the column of ids

[[learners]]                 # without a name: the usual learner of such a problem
epsilon = [1.0, 2.0, 4.0]    # one line of the result for each
non_private = true           # and one without privacy
max_contributions = 3        # reports of one person that an epsilon covers; 1 if left out

[[learners]]
name = "uniform"

[report]
axes = ["age", "education"]  # the two columns of the map
at = { gender = 1 }          # where the others stand

[serve]                      # which line `discreet serve` serves, and how (serving.py)
epsilon = 1.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from discreet.lab.environments.base import Problem
from discreet.lab.environments.catalog import Files, checked_frame
from discreet.lab.experiments import Setting, check_setting
from discreet.lab.studies.settings import (
    LearnerEntry,
    MakeProblem,
    ServeTable,
    Strict,
    all_settings,
    entries_of,
    people_of,
    problem_of,
)
from discreet.people.domain import Box
from discreet.toml_files import Place, checked, read_toml
from discreet.validation import ErrorCollector, InvalidInput, nearest, path_of, whole_number

if TYPE_CHECKING:
    import pandas as pd


class _PeopleTable(Strict):
    """The `[people]` table."""

    id: str = Field(min_length=1)


class _ReportTable(Strict):
    """The `[report]` table."""

    axes: list[str] = Field(default_factory=list, max_length=2)
    at: dict[str, float | bool | str] = Field(default_factory=dict)


class StudyFile(Strict):
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
    serve: ServeTable | None = None


@dataclass(frozen=True)
class ReportEntry:
    """The two columns of the map, and the values of the others in the units of the domain."""

    axes: list[str] = field(default_factory=list)
    at: dict[str, float] = field(default_factory=dict)


_SHOWN = 6  # settings in the repr of a study


@dataclass(frozen=True, repr=False)
class Study:
    """A study that can run.

    Attributes:
        name, title, rounds, replicates, seed: as in the file.
        problem: of the study.
        settings: one for each learner and budget.
        report: the columns of the map.
        text: the file's text, or that of a mapping; for the report.
        path: the study file; None without one.
        warnings: about a study that can run, each one sentence.
        serve: the line to serve; None where the file has no such table.
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
    path: Path | None = None
    warnings: tuple[str, ...] = ()
    serve: ServeTable | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were read: the study file, if any, then those of its data."""
        return (*([] if self.path is None else [self.path]), *self.problem.files)

    @property
    def choices(self) -> tuple[str, ...]:
        """The learners chosen where the file names none, each with the reason in one sentence."""
        under: dict[tuple[str, str], list[str]] = {}
        for each in self.settings:
            if each.reason:
                trusted = each.budget.trust_model if each.private else "no"
                under.setdefault((each.learner, each.reason), []).append(f"{trusted} privacy")
        return tuple(
            f"{learner} was chosen for {' and '.join(dict.fromkeys(budgets))}, as the study names "
            f"no learner: {reason}."
            for (learner, reason), budgets in under.items()
        )

    def resized(self, rounds: int | None = None, replicates: int | None = None) -> Study:
        """The same study with another number of people or replicates.

        Raises:
            InvalidInput: numbers that are not allowed, or that a learner cannot run with.
        """
        _check_size(rounds, replicates)
        people = self.rounds if rounds is None else rounds
        self.problem.check_size(people)
        warnings = dict.fromkeys(self.warnings)
        for setting in self.settings:
            warnings |= dict.fromkeys(check_setting(self.problem, setting, people))
        return replace(
            self,
            rounds=people,
            replicates=self.replicates if replicates is None else replicates,
            warnings=tuple(warnings),
        )

    def __repr__(self) -> str:
        labels = [setting.label for setting in self.settings]
        shown = "; ".join(labels[:_SHOWN]) + ("; ..." if len(labels) > _SHOWN else "")
        return (
            f"Study {self.name!r}: {self.replicates} x {self.rounds:,} people, "
            f"{len(self.problem.domain.names)} columns, {self.problem.offer}\n{shown}"
        )

    def _repr_html_(self) -> str:
        """The study as a notebook shows it: its lines, and its file behind a fold."""
        facts = (repr(self).partition("\n")[0], *self.choices, *self.warnings)
        faint = f'<span style="opacity: .75">{"<br>".join(map(escape, facts))}</span>'
        lines = [f"<li>{escape(s.label)}: {s.budget.trust_model}</li>" for s in self.settings]
        text = f"<p><strong>{escape(self.title)}</strong><br>{faint}</p><ul>{''.join(lines)}</ul>"
        return f"{text}<details><summary>File</summary><pre>{escape(self.text)}</pre></details>"

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        rounds: int | None = None,
        replicates: int | None = None,
        data_dir: str | Path | None = None,
    ) -> Study:
        """The study of a file (docs/studies.md).

        Args:
            path: a TOML file.
            rounds, replicates: in place of those of the file.
            data_dir: a folder with data that pip does not install.

        Raises:
            InvalidInput: everything that is wrong with it, with the lines of the file.
        """
        return load_study(path, rounds, replicates, data_dir)

    @classmethod
    def from_dict(
        cls,
        mapping: Mapping[str, Any],
        *,
        folder: str | Path = ".",
        rounds: int | None = None,
        replicates: int | None = None,
        data_dir: str | Path | None = None,
        tables: Mapping[str, pd.DataFrame] | None = None,
    ) -> Study:
        """The study of a mapping with the keys of a study file.

        Args:
            mapping: `name`, `problem`, `learners` and so on, as `tomllib` reads them; tuples,
                NumPy's numbers and scikit-learn's kernels may stand in it, too.
            folder: to which its paths refer.
            rounds, replicates: in place of those of the mapping.
            data_dir: a folder with data that pip does not install.
            tables: data frames by the path that names them in the mapping, in place of files.

        Raises:
            InvalidInput: everything that is wrong with it.
        """
        if not isinstance(mapping, Mapping):
            raise InvalidInput(
                f"the study was {mapping!r:.80}; give a dictionary with the keys of a study file, "
                "such as name, problem and learners."
            )
        from discreet.lab.studies.frames import study_text, toml_values

        content = toml_values(mapping)
        base = path_of(folder, "folder", "the path of a folder")
        given = Files(_folder(data_dir), base, Place("the study"), tables or {})
        return _study(content, study_text(content), given, rounds, replicates)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        bounds: Mapping[str, Any] | None = None,
        label: str | Mapping[str, Any] | None = None,
        classes: Sequence[Any] | None = None,
        rewards: Sequence[str] | Mapping[str, Any] | None = None,
        reward_bounds: tuple[float, float] | None = None,
        epsilon: float | Sequence[float] | None = None,
        learners: Sequence[str | Mapping[str, Any]] | None = None,
        delta: float | None = None,
        trust_model: str | None = None,
        non_private: bool = True,
        people: str | None = None,
        radius: float | None = None,
        name: str = "study",
        title: str = "",
        rounds: int | None = None,
        replicates: int = 4,
        seed: int = 0,
        report: Mapping[str, Any] | None = None,
    ) -> Study:
        """The study of a data frame with one row for each person.

        Args:
            frame: the table; it is copied as far as it takes part.
            bounds: public bounds by column: `(18, 90)` for numbers, a list of labels, or a
                dictionary as in a study file. Columns without bounds take no part.
            label: the column to predict, with its `classes` as arms and a reward of 1 for the right
                one; or a dictionary as in a study file.
            classes: all possible labels, which are the arms.
            rewards: instead of `label`, a column for each arm, with `reward_bounds`; or a
                dictionary as in a study file.
            reward_bounds: the lowest and the highest possible reward.
            epsilon, delta, trust_model: the budget of learners without one of their own; one line
                of the result for each epsilon.
            learners: names, or dictionaries as `[[learners]]` of a study file; left out, the usual
                learner beside `uniform`.
            non_private: whether these learners also run without privacy, for comparison.
            people: the column of ids, where people come more than once.
            radius: the largest length of a row, where rows are vectors such as embeddings.
            name, title, rounds, replicates, seed, report: as in a study file.

        Raises:
            InvalidInput: everything that is wrong with it; bounds that were not stated.
        """
        from discreet.lab.studies.frames import FRAME, learner_entries, table_of_frame, unstated

        table = checked_frame(frame, "frame")
        errors = ErrorCollector()
        problem: dict[str, Any] = {}
        entries: list[dict[str, Any]] = []
        with errors.collected():
            problem = table_of_frame(table, bounds, label, classes, rewards, reward_bounds, radius)
        with errors.collected():
            entries = learner_entries(learners, epsilon, delta, trust_model, non_private)
        errors.raise_if_any()
        mapping = {
            "name": name,
            "title": title or None,
            "rounds": rounds,
            "replicates": replicates,
            "seed": seed,
            "problem": problem,
            "people": None if people is None else {"id": people},
            "learners": entries,
            "report": report,
        }
        study = cls.from_dict(mapping, tables={FRAME: table})
        return replace(study, warnings=(*study.warnings, *unstated(table, problem, people)))


def _check_size(rounds: int | None, replicates: int | None) -> None:
    """Reject numbers of people or replicates below 1."""
    errors = ErrorCollector()
    for value, name in ((rounds, "rounds"), (replicates, "replicates")):
        if value is not None:
            with errors.collected():
                whole_number(value, name, minimum=1)
    errors.raise_if_any()


def load_study(
    path: str | Path,
    rounds: int | None = None,
    replicates: int | None = None,
    data_dir: str | Path | None = None,
    instead: MakeProblem | None = None,
) -> Study:
    """The study of a file, which may have another problem in place of its own.

    Args:
        path: the study file.
        rounds, replicates: in place of the file's.
        data_dir: a folder with data that no package brings.
        instead: makes another problem of the file's content and place; the file's own data are
            then not read.

    Raises:
        InvalidInput: a file that cannot be read, keys that are missing, unknown or of the wrong
            type, an unknown problem or learner, or a combination that cannot run: all at once, as
            far as one mistake does not hide another.
    """
    file = path_of(path, "the study", "the path of a study file")
    text, content = read_toml(file, "study file", {"learner": "learners"})
    given = Files(_folder(data_dir), file.parent, Place.of_file(file.name, text), {})
    return replace(_study(content, text, given, rounds, replicates, instead), path=file)


def _folder(path: str | Path | None) -> Path | None:
    """The folder of data, if one is given; `InvalidInput` for one that does not exist."""
    if path is None:
        return None
    folder = path_of(path, "data_dir", "the path of a folder")
    if not folder.is_dir():
        raise InvalidInput(
            f"the data folder {str(folder)!r} is not a folder that exists; check the path, or "
            "leave it out."
        )
    return folder


def _study(
    content: Mapping[str, Any],
    text: str,
    given: Files,
    rounds: int | None,
    replicates: int | None,
    instead: MakeProblem | None = None,
) -> Study:
    """The study of a mapping of TOML values.

    Args:
        content: the mapping.
        text: as a study file.
        given: its name and its tables.
        rounds, replicates, instead: as in `load_study`.
    """
    place = given.place
    _check_size(rounds, replicates)
    errors = ErrorCollector()
    file = problem = None
    with errors.collected():
        file = checked(StudyFile, content, place)
    with errors.collected():
        problem = problem_of(content, given) if instead is None else instead(content, place)
    people = 0
    if file is not None and problem is not None:
        with errors.collected():
            asked = rounds or file.rounds
            if instead is not None and asked and problem.size:
                asked = min(asked, problem.size)  # the other problem may have fewer people
            people = people_of(asked, problem, place if rounds is None else None)
    entries = entries_of(content, place) if file is None else list(enumerate(file.learners))
    settings = all_settings(entries, problem, people, place, errors)
    if file is None or problem is None:
        errors.raise_if_any()
    assert file is not None
    assert problem is not None
    report = ReportEntry()
    with errors.collected():
        report = _report(file.report, problem.domain, place.within("report"))
    warnings = dict.fromkeys(problem.warnings)
    for setting, where in settings if people else ():
        with errors.collected(), where.at():
            warnings |= dict.fromkeys(check_setting(problem, setting, people))
    if file.serve is not None:
        from discreet.lab.studies.serving import check_served_name, check_serving

        with errors.collected(), place.at("name"):
            check_served_name(file.name)
        if settings:
            with errors.collected():
                lines = [setting for setting, _ in settings]
                check_serving(file.serve, lines, problem, place.within("serve"))
    errors.raise_if_any()
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
        warnings=tuple(warnings),
        serve=file.serve,
    )


def _report(report: _ReportTable, domain: Box, place: Place) -> ReportEntry:
    """The columns of the maps, with categories as numbers."""
    errors = ErrorCollector()
    at: dict[str, float] = {}
    for key, names in (("axes", report.axes), ("at", report.at)):
        for name in names:
            if name not in domain.names:
                errors.add(
                    place.message(
                        f"{key} in [report] names the column {name!r}; the problem has "
                        f"{', '.join(domain.names)}.{nearest(name, domain.names)}",
                        (key,),
                    )
                )
    for name, value in report.at.items():
        if name in domain.names:
            with errors.collected(place.message("at in [report]: ", ("at",))):
                at[name] = domain.number(domain.names.index(name), value)
    errors.raise_if_any()
    return ReportEntry(report.axes, at)
