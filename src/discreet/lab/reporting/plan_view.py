"""A plan as people use it in Python, and its page.

plan = discreet.plan("study.toml", people=20_000, lose_at_most=0.05)
print(plan.recommendation)
plan.people_for(epsilon=1, keep=0.8)
plan.report("plan.html")
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from html import escape
from numbers import Real
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from discreet.lab.environments.synthetic_people import CONTRAST
from discreet.lab.planning.forecast import Forecast
from discreet.lab.planning.planner import REPLICATES, Progress, Wish, make_forecast
from discreet.lab.planning.source import study_for
from discreet.lab.planning.stage import EPSILONS
from discreet.lab.reporting.layout import WIDE
from discreet.lab.reporting.numbers import ABSENT
from discreet.lab.reporting.page import image, render, write_page
from discreet.lab.reporting.plan_figures import (
    growth_figure,
    loss_figure,
    odds_figure,
    people_figure,
)
from discreet.lab.reporting.plan_tables import (
    loss_note,
    loss_rows,
    people_heads,
    people_note,
    people_rows,
)
from discreet.lab.reporting.plan_words import (
    Recommendation,
    basis,
    percent,
    question_text,
    recommendation,
    rival,
)
from discreet.lab.reporting.provenance import Provenance, provenance
from discreet.lab.studies import Study
from discreet.validation import ErrorCollector, invalid, path_of


class Plots:
    """The figures of a plan, as Matplotlib figures of their own."""

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast

    def loss(self, width: float = WIDE) -> Figure:
        """What each epsilon costs people."""
        return loss_figure(self._forecast, width)

    def people(self, width: float = WIDE) -> Figure:
        """How many people it takes to keep how much of the gain."""
        return people_figure(self._forecast, width)

    def growth(self, width: float = WIDE) -> Figure:
        """The gain with more and more people, as simulated."""
        return growth_figure(self._forecast, width)

    def odds(self, prior: int = 0, width: float = WIDE) -> Figure:
        """What each epsilon means for one person; prior 0 is 50 out of 100, 1 is 1 out of 100."""
        return odds_figure(self._forecast.explanations, prior, width)


@dataclass(frozen=True, eq=False)
class Plan(Forecast):
    """A plan: everything that a `Forecast` knows, with words, figures and a page.

    Attributes:
        provenance: where its numbers come from.
    """

    provenance: Provenance = field(kw_only=True)

    @cached_property
    def recommendation(self) -> Recommendation:
        """Three sentences: what to do, what it means to people, and to one person's privacy."""
        return recommendation(self)

    @property
    def answer(self) -> str:
        """The answer to the inverse question that was put; "" where none was."""
        return question_text(self)

    @property
    def plot(self) -> Plots:
        """The figures."""
        return Plots(self)

    def report(self, path: str | Path) -> Path:
        """Write the plan's page, one HTML file that anybody can open.

        Raises:
            InvalidInput: a folder that does not exist.
        """
        path = Path(path)
        write_page(lambda: render_plan(self), path)
        return path

    def _repr_html_(self) -> str:
        """How a notebook shows it: the recommendation and the frame."""
        lines = [self.recommendation.text, self.answer, *self.data]
        text = "".join(f"<p>{escape(line)}</p>" for line in lines if line)
        return f"<div><h3>{escape(self.title)}</h3>{text}{self.frame.to_html(index=False)}</div>"

    def __repr__(self) -> str:
        return f"<Plan of {self.name!r}: {self.recommendation.text}>"


def plan(
    study: Study | str | Path,
    *,
    people: int | None = None,
    lose_at_most: float | None = None,
    epsilon: float | None = None,
    epsilons: Sequence[float] = EPSILONS,
    learners: Sequence[str] = (),
    trust_model: str | None = None,
    replicates: int = REPLICATES,
    seconds: float | None = None,
    jobs: int = 1,
    table: str | Path | None = None,
    synthetic: bool = False,
    contrast: float = CONTRAST,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> Plan:
    """What each epsilon would cost a study, how many people it takes, and what to choose.

    Of `people`, `lose_at_most` and `epsilon` give any two, and `Plan.answer` is the third.

    Args:
        study: a study, or the path of a study file.
        people: how many are expected; as the study says if left out.
        lose_at_most: the share of the gain that may be lost, from 0 to 1; 0.2 if left out.
        epsilon: that somebody has in mind.
        epsilons: that are tried.
        learners: names in place of those of the study.
        trust_model: `local` or `joint`, where the study has learners under both.
        replicates: fresh ones on which all numbers rest, at least 2.
        seconds: a limit on time, within which a smaller plan is made.
        jobs: processes.
        table: a public or older table that stands in for that of the study, which is not read.
        synthetic: whether invented people stand in for those of the study, which are not read.
        contrast: how different the arms of invented people are, from 0.01 to 1.
        data_dir: a folder with data that no package brings.
        progress: called as it goes on, with a step, how much of it is done, and how much there is.

    Raises:
        InvalidInput: before anything is simulated, for a study or a wish that cannot be had.
    """
    if not isinstance(study, Study):
        study = path_of(
            study, "study", "a study file, or a Study such as Study.from_dict(..) makes"
        )
    stands_in = None if table is None else path_of(table, "table", "the path of a table")
    folder = None if data_dir is None else path_of(data_dir, "data_dir", "the path of a folder")
    errors = ErrorCollector()
    with errors.collected():
        wish = Wish(
            people=people,
            lose_at_most=lose_at_most,
            epsilon=epsilon,
            epsilons=_several(epsilons, Real, "epsilons", "a list of numbers, such as [0.5, 1, 2]"),
            learners=_several(learners, str, "learners", "a list of names"),
            trust_model=trust_model,
            replicates=replicates,
            seconds=seconds,
            jobs=jobs,
        )
    with errors.collected():
        sized = None if errors else people  # a number that is refused is refused once
        loaded, wished, data = study_for(study, sized, stands_in, synthetic, contrast, folder)
    errors.raise_if_any()
    forecast = make_forecast(loaded, wished, data, wish, progress)
    known = {each.name: getattr(forecast, each.name) for each in fields(forecast)}
    return Plan(**known, provenance=_origin(loaded, forecast))


def _origin(study: Study, forecast: Forecast) -> Provenance:
    """Of a plan: with the learners that it chose, which may be others than the study's."""
    lines = [line for line in forecast.lines if line.kind != "reference"]
    learners = tuple(dict.fromkeys(line.learner for line in lines))
    return replace(provenance(study), learners=learners)


def _several(given: object, kind: type, name: str, wanted: str) -> tuple[Any, ...]:
    """The entries of a list; a single entry, of a kind, is a list of itself."""
    if isinstance(given, kind):
        return (given,)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise invalid(given, name, wanted)
    return tuple(given)


def render_plan(plan: Plan) -> str:
    """The page of a plan as HTML."""
    recommended = plan.recommendation
    epsilon = plan.advice().best if recommended.epsilon is None else recommended.epsilon
    return render(
        "plan.html.j2",
        plan=plan,
        origin=plan.provenance,
        recommended=recommended,
        answer=plan.answer,
        rival=rival(plan),
        drawn=plan.line(epsilon),
        loss=image(plan.plot.loss),
        loss_rows=loss_rows(plan),
        loss_note=loss_note(plan),
        percent=percent,
        absent=ABSENT,
        people=image(plan.plot.people) if plan.worthwhile else None,
        growth=image(plan.plot.growth),
        people_heads=people_heads(plan),
        people_rows=people_rows(plan),
        people_note=people_note(plan),
        even=image(lambda width: plan.plot.odds(0, width)),
        rare=image(lambda width: plan.plot.odds(1, width)),
        basis=list(basis(plan)),
    )
