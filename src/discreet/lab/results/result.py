"""The result of a study: everything that is shown of it is read off its outcomes.

| what          | rows, or kind                                                                  |
|---------------|--------------------------------------------------------------------------------|
| `frame`       | pandas, a row for each replicate of each setting: the records (records.py)     |
| `summary()`   | pandas, a row for each setting                                                 |
| `verdict`     | text: did the private learners beat what needs none                            |
| `notes`       | method notes: intervals, corrections, for whom the result holds                |
| `certificate` | what is promised, in sentences and as guarantees                               |
| `plot`        | the figures of the report, as Matplotlib has them                              |

In a notebook a result shows its verdict and its table; `print(result)` gives what `discreet run`
prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console

from discreet.lab.experiments import Outcome
from discreet.lab.reporting.provenance import Provenance, provenance
from discreet.lab.reporting.summary import (
    Difference,
    Line,
    Rival,
    Summary,
    summarise,
    with_best_fixed,
)
from discreet.lab.reporting.words import (
    StudyVerdict,
    appraisal_table,
    appraisals,
    columns,
    printed,
    promise,
    promises,
    remarks,
    result_table,
    table_notes,
    table_rows,
    verdict,
)
from discreet.lab.results.screen import plain
from discreet.lab.studies import Study
from discreet.privacy import Guarantee
from discreet.records import RunRecord
from discreet.validation import InvalidInput

if TYPE_CHECKING:
    from discreet.lab.reporting.report import StudyPlots

_NUMBERS = ("epsilon", "delta", "half_width", "share_kept", "held_epsilon", "held_delta")
_RIVALS: dict[Rival, str] = {
    "fixed": "over_best_fixed",
    "rule": "over_best_rule",
    "uniform": "over_uniform",
    "free": "over_non_private",
}


@dataclass(frozen=True, repr=False)
class Promises:
    """What the learners of a study promise to each person.

    Attributes:
        text: in sentences, one for all guarantees that differ only in epsilon.
        guarantees: by label, the weakest that any replicate derived from its noise.
    """

    text: str
    guarantees: Mapping[str, Guarantee]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(line)}</p>" for line in self.text.splitlines())


@dataclass(frozen=True, repr=False, eq=False)
class StudyResult:
    """What a study gave (see the module).

    Attributes:
        study: what was run.
        outcomes: one for each setting and replicate, in the study's order; fewer where the run was
            stopped.

    Raises:
        InvalidInput: no outcome at all.
    """

    study: Study
    outcomes: tuple[Outcome, ...]

    def __post_init__(self) -> None:
        if not self.outcomes:
            raise InvalidInput(
                "outcomes was empty; a result needs at least one finished replicate. Run the study."
            )

    @cached_property
    def compared(self) -> tuple[Outcome, ...]:
        """The outcomes beside the best single choice for everyone, where the problem has it."""
        return tuple(with_best_fixed(self.study, self.outcomes))

    @cached_property
    def numbers(self) -> Summary:
        """The lines of the result, from which texts, tables and figures are made."""
        return summarise(self.compared, self.study.settings)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The records: a row for each replicate of each setting."""
        names = [each.name for each in fields(RunRecord)]
        return pd.DataFrame([asdict(each.record) for each in self.outcomes], columns=names)

    @cached_property
    def provenance(self) -> Provenance:
        """When the result was made, from which study, tables and versions."""
        return provenance(self.study)

    @property
    def planned(self) -> int:
        """How many outcomes the study asks for."""
        return len(self.study.settings) * self.study.replicates

    @property
    def complete(self) -> bool:
        """Whether every replicate of every setting is there."""
        return len(self.outcomes) == self.planned

    def summary(self) -> pd.DataFrame:
        """A row for each line of the result, in its order.

        | column                   | meaning                                                     |
        |--------------------------|-------------------------------------------------------------|
        | label                    | what tables call it                                         |
        | trust_model              | local, joint, or none                                       |
        | epsilon, delta           | asked for; NaN without privacy                              |
        | mean, half_width         | of the metric; half of the 95% interval (Student's t)       |
        | per_person               | the mean for each person                                    |
        | over_best_fixed, ..      | how much better each person fared than with the best single |
        |                          | choice for everyone, with half width and p-value (of a      |
        |                          | private learner by Holm's method); NaN where none ran       |
        | share_kept               | of what it gains over random choice without privacy         |
        | over_best_rule, ..       | than with the best rule that learns nothing                 |
        | over_uniform, ..         | than with choices at random                                 |
        | over_non_private, ..     | than with the same learner without privacy                  |
        | held_epsilon, held_delta | derived from the noise that was drawn; NaN for references   |
        | learner                  | its registered name                                         |
        | max_contributions        | what an epsilon covers                                      |
        | metric, rounds           | reward or regret, summed over this many people               |
        | replicates               | over which means are taken                                  |
        | seconds                  | spent by the learner in a replicate                         |
        | promise                  | the guarantee in a sentence; empty for references           |
        """
        frame = pd.DataFrame([self._row(line) for line in self.numbers.lines])
        # Where a study has none of it, a column would be of objects.
        return frame.astype(dict.fromkeys(_NUMBERS, float))

    def _row(self, line: Line) -> dict[str, object]:
        budget, guarantee = line.setting.budget, line.guarantee
        over = {name: _difference(name, line.over.get(rival)) for rival, name in _RIVALS.items()}
        return {
            "label": line.label,
            "trust_model": budget.trust_model,
            "epsilon": line.epsilon,
            "delta": budget.delta if line.private else None,
            "mean": line.mean,
            "half_width": line.half_width,
            "per_person": line.mean / self.numbers.rounds,
            **over.pop("over_best_fixed"),
            "share_kept": line.share_kept,
            **{key: value for columns in over.values() for key, value in columns.items()},
            "held_epsilon": None if guarantee is None else guarantee.epsilon,
            "held_delta": None if guarantee is None else guarantee.delta,
            "learner": line.learner,
            "max_contributions": budget.max_contributions,
            "protects": budget.protects,
            "metric": self.numbers.metric,
            "rounds": self.numbers.rounds,
            "replicates": line.replicates,
            "seconds": line.seconds,
            "promise": "" if guarantee is None else guarantee.sentence,
        }

    @cached_property
    def answer(self) -> StudyVerdict:
        """The headline and the method notes."""
        return verdict(self.numbers, self.study.problem)

    @property
    def verdict(self) -> str:
        """Whether the private learners did better than what needs no learner."""
        return self.answer.headline

    @property
    def notes(self) -> list[str]:
        """How settings were compared, and for whom the result holds, a line each."""
        return list(self.answer.notes)

    @property
    def remarks(self) -> list[str]:
        """What the problem says of the runs, one sentence each."""
        return remarks(self.outcomes)

    @property
    def certificate(self) -> Promises:
        """What is promised, as the noise that was drawn holds it."""
        lines = self.numbers.lines
        held = {line.label: line.guarantee for line in lines if line.guarantee is not None}
        return Promises(promise(self.numbers), held)

    @property
    def plot(self) -> StudyPlots:
        """The figures of the report: `plot.progress()`, `plot.epsilon()`, `plot.map()`."""
        from discreet.lab.reporting.report import StudyPlots  # Matplotlib takes a second to import

        return StudyPlots(self.study, self.compared, self.numbers)

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that needs no network, and say where it is.

        Raises:
            InvalidInput: a name that does not end in .html, or a folder that does not exist.
        """
        from discreet.lab.reporting.report import write_report

        file = Path(path)
        if file.suffix != ".html":  # which no table that was read has
            raise InvalidInput(f"path was {str(file)!r}; the report is a page: end it in .html.")
        write_report(self.study, self.outcomes, file, self.provenance)
        return file

    @property
    def incomplete(self) -> str:
        """What is missing where the run was stopped; empty where it was not."""
        if self.complete:
            return ""
        return (
            f"The run was stopped early: {len(self.outcomes)} of {self.planned} simulations were "
            "finished, and averages are over those."
        )

    def show(self, screen: Console, details: bool = False) -> None:
        """Print headline, table, remarks and promise.

        Args:
            screen: where.
            details: whether to add method notes and own estimates, and promises in full.
        """
        facts = study_facts(self.study)
        for text in (
            "", f"[bold]{plain(self.study.title)}[/]", *map(plain, facts),
            "", f"[bold]{plain(self.verdict)}[/]", "",
        ):  # fmt: skip
            screen.print(text)
        screen.print(result_table(self.numbers))
        screen.print()
        for text in [*self.remarks, ""] if self.remarks else []:
            screen.print(plain(text))
        own = appraisals(self.numbers) if details else []
        if own:
            screen.print(appraisal_table(own))
            screen.print()
        for text in [*self.notes, ""] if details else []:
            screen.print(plain(text))
        held = [line.guarantee for line in self.numbers.private if line.guarantee is not None]
        screen.print(plain(promises(held, brief=not details)))
        screen.print()

    def __repr__(self) -> str:
        lines = [
            f"StudyResult {self.study.name!r}: {len(self.study.settings)} settings, "
            f"{self.study.replicates} x {self.study.rounds:,} people, {self.numbers.metric}",
            self.incomplete,
            self.answer.headline,
        ]
        return "\n".join(line for line in lines if line)

    def __str__(self) -> str:
        return "\n".join(text for text in (printed(self.show), self.incomplete) if text)

    def _repr_html_(self) -> str:
        from discreet.lab.reporting.page import render

        heads = columns(self.numbers)
        rows = [
            {"private": row.private, "cells": [getattr(row, name) for name in heads.values()]}
            for row in table_rows(self.numbers)
        ]
        return render(
            "result.html.j2",
            title=self.study.title,
            meta=study_facts(self.study)[0],
            incomplete=self.incomplete,
            warnings=self.study.warnings,
            exposure=self.study.problem.exposure,
            verdict=self.answer,
            heads=list(heads),
            rows=rows,
            promise=promise(self.numbers).splitlines(),
            table_notes=table_notes(self.numbers),
            appraisals=appraisals(self.numbers),
            notes=[*study_facts(self.study)[1:], *self.notes],
        )


def study_facts(study: Study) -> list[str]:
    """What stands above a result: source and actions, which rows take part, which learner was
    chosen, and that no epsilon covers exact statistics of a private table."""
    rows, offer = study.problem.rows, study.problem.offer
    used = "" if rows is None else f" {rows.sentence}."
    facts = [
        f"{study.problem.source} {offer[0].upper()}{offer[1:]}.{used}",
        *study.choices,
        study.problem.exposure,
    ]
    return [fact for fact in facts if fact]


def _difference(name: str, difference: Difference | None) -> dict[str, object]:
    """Mean, half width and p-value of a difference, as columns."""
    if difference is None:
        return dict.fromkeys((name, f"{name}_half_width", f"{name}_p_value"), math.nan)
    return {
        name: difference.mean,
        f"{name}_half_width": difference.half_width,
        f"{name}_p_value": difference.p_value,
    }
