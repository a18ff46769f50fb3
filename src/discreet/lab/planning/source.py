"""The data of a plan: those of the study, of another table, or synthetic people.

No budget protects the data that a plan reads, so a plan states whose they are. With a public or
older table, or with synthetic people, the study's own table is never read.
"""

from __future__ import annotations

from pathlib import Path

from discreet.lab.environments.base import Problem
from discreet.lab.environments.synthetic_people import CONTRAST, synthetic_people
from discreet.lab.studies import Study, load_study
from discreet.lab.studies.settings import on_table
from discreet.toml_files import read_toml
from discreet.validation import InvalidInput


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
