"""A plan as people use it in Python, on a terminal, and as a page.

plan = discreet.plan("study.toml", people=20_000, lose_at_most=0.05)
print(plan.recommendation)
plan.people_for(epsilon=1, keep=0.8)
plan.report("plan.html")
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from rich.table import Table

from discreet.lab.environments.synthetic import CONTRAST
from discreet.lab.planning.forecast import (
    FEWEST,
    KEEP,
    REACH,
    Forecast,
    Interval,
    PlanAnswer,
    PlanLine,
    Word,
    interval,
    student,
)
from discreet.lab.planning.odds import Explanation, chance_text, out_of_100
from discreet.lab.planning.planner import (
    EPSILONS,
    ERROR,
    REPLICATES,
    PlanRequest,
    Progress,
    make_forecast,
    study_for,
)
from discreet.lab.reporting.figures import Axis, lines, number_axis
from discreet.lab.reporting.layout import (
    BLUE,
    BODY,
    CHANCE,
    FAINT,
    GREEN,
    GREY,
    INK,
    NARROW,
    SMALL,
    SOLID,
    VERMILLION,
    WIDE,
    Stroke,
    entitle,
    finish,
    name_ends,
    shade,
    sheet,
    tints,
)
from discreet.lab.reporting.numbers import (
    ABSENT,
    about_time,
    counted,
    decimals,
    number_text,
    unsigned_zero,
)
from discreet.lab.reporting.page import image, render, write_page
from discreet.lab.reporting.preflight import wide_range
from discreet.lab.reporting.provenance import Provenance, provenance
from discreet.lab.reporting.words import printed, terminal_table
from discreet.lab.studies import Study
from discreet.validation import ErrorCollector, FloatArray, invalid, path_of

_ONE_CHOICE = "one choice for everyone"
_MARK = "*"  # of extrapolated numbers
_NAME = 20  # characters of a learner's name that are not broken
_BEYOND = "#f3f3f5"  # behind what is extrapolated
_FREE = Stroke(shade(BLUE, 0.6), (0, (5, 2)))
_ONE = Stroke(GREY, (0, (5, 2, 1, 2)), 1.4)
_LOWEST, _HIGHEST = -0.25, 1.05  # of what is kept, as it is drawn
_DOT, _SMALL_DOT = 5.6, 4.0  # points, of an icon


@dataclass(frozen=True)
class Recommendation:
    """What a plan recommends.

    Attributes:
        word: the verdict: yes, no, or cannot tell yet.
        epsilon: the one recommended; None unless the verdict is yes.
        learner: that goes with it, or with the epsilon that loses least; None where there is no
            gain.
        headline: the verdict in a sentence.
        details: what a verdict would take, the effect on people, and on one person's privacy.
    """

    word: Word
    epsilon: float | None
    learner: str | None
    headline: str
    details: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.headline, *self.details))


class PlanPlots:
    """The figures of a plan, as Matplotlib figures of their own."""

    def __init__(self, forecast: Forecast) -> None:
        self._forecast = forecast

    def loss(self, width: float = WIDE) -> Figure:
        """The metric per person against epsilon."""
        return loss_figure(self._forecast, width)

    def people(self, width: float = WIDE) -> Figure:
        """The share of the gain that is kept against the number of people."""
        return people_figure(self._forecast, width)

    def odds(self, width: float = WIDE) -> Figure:
        """How certain each epsilon lets an observer become about one person, from 50 out of 100."""
        return odds_figure(self._forecast.explanations, width)


@dataclass(frozen=True, eq=False)
class Plan(Forecast):
    """A `Forecast` with words, figures and a page.

    Attributes:
        provenance: where its numbers come from.
    """

    provenance: Provenance = field(kw_only=True)

    @cached_property
    def recommendation(self) -> Recommendation:
        """What to do, what it means to people, and to one person's privacy."""
        return recommendation(self)

    @property
    def shown_epsilon(self) -> float:
        """The epsilon recommended, otherwise the one that loses least."""
        recommended = self.recommendation.epsilon
        return self.advice().best if recommended is None else recommended

    @property
    def answer(self) -> str:
        """The answer to the inverse question that was put; "" where none was."""
        return question_text(self)

    @property
    def plot(self) -> PlanPlots:
        """The figures."""
        return PlanPlots(self)

    def report(self, path: str | Path) -> Path:
        """Write the plan's page, one HTML file that needs no other.

        Raises:
            InvalidInput: a folder that does not exist.
        """
        path = Path(path)
        write_page(lambda: render_plan(self), path)
        return path

    def _repr_html_(self) -> str:
        """The headline and the first table, for notebooks."""
        heads = _wide_heads(self)
        return render(
            "plan_notebook.html.j2",
            plan=self,
            heads=heads,
            rows=[{"private": row.private, "cells": row[: len(heads)]} for row in loss_rows(self)],
            note=loss_note(self),
            people=people_sentence(self, self.shown_epsilon),
        )

    def __repr__(self) -> str:
        return f"<Plan of {self.name!r}: {self.recommendation}>"

    def __str__(self) -> str:
        table = printed(lambda screen: screen.print(loss_table(self)))
        return "\n".join(text for text in (str(self.recommendation), self.answer, table) if text)


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
        people: how many are expected; the study's number if left out.
        lose_at_most: the share of the gain that may be lost, from 0 to 1; 0.2 if left out.
        epsilon: the user's own, which is tried too.
        epsilons: that are tried.
        learners: names in place of those of the study.
        trust_model: `local`, `shuffled` or `joint`; the study's first if left out.
        replicates: fresh ones on which all numbers rest, at least 2.
        jobs: processes.
        table: a public or older table in place of the study's, which is not read.
        synthetic: whether synthetic people take the place of the study's, which are not read.
        contrast: how different the arms of synthetic people are, from 0.01 to 1.
        data_dir: a folder with data that no package brings.
        progress: called as it goes on, with a step, how much of it is done, and how much there is.

    Raises:
        InvalidInput: before anything is simulated, for a study or request that cannot be planned.
    """
    if not isinstance(study, Study):
        study = path_of(
            study, "study", "a study file, or a Study such as Study.from_dict(..) makes"
        )
    stands_in = None if table is None else path_of(table, "table", "the path of a table")
    folder = None if data_dir is None else path_of(data_dir, "data_dir", "the path of a folder")
    errors = ErrorCollector()
    with errors.collected():
        request = PlanRequest(
            people=people,
            lose_at_most=lose_at_most,
            epsilon=epsilon,
            epsilons=_several(epsilons, Real, "epsilons", "a list of numbers, such as [0.5, 1, 2]"),
            learners=_several(learners, str, "learners", "a list of names"),
            trust_model=trust_model,
            replicates=replicates,
            jobs=jobs,
        )
    with errors.collected():
        sized = None if errors else people  # a number that is refused is refused once
        loaded, expected, data = study_for(study, sized, stands_in, synthetic, contrast, folder)
    errors.raise_if_any()
    forecast = make_forecast(loaded, expected, data, request, progress)
    # Its learners may be others than the study's.
    chosen = [line.learner for line in forecast.lines if line.kind != "reference"]
    origin = replace(provenance(loaded), learners=tuple(dict.fromkeys(chosen)))
    known = {each.name: getattr(forecast, each.name) for each in fields(forecast)}
    if forecast.private[0].setting.budget.trust_model == "local":
        noisiest = forecast.epsilons[0], forecast.people
        known["left_out"] += tuple(wide_range(loaded.problem, [noisiest]))
    return Plan(**known, provenance=origin)


def _several(given: object, kind: type, name: str, wanted: str) -> tuple[Any, ...]:
    """The entries of a list; a single entry, of a kind, is a list of itself."""
    if isinstance(given, kind):
        return (given,)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise invalid(given, name, wanted)
    return tuple(given)


def render_plan(plan: Plan) -> str:
    """The page of a plan as HTML."""
    drawn = plan.line(plan.shown_epsilon)
    return render(
        "plan.html.j2",
        plan=plan,
        origin=plan.provenance,
        recommended=plan.recommendation,
        answer=plan.answer,
        rival=rival(plan),
        drawn=drawn,
        explained=plan.explanations[plan.shown_epsilon],
        loss=image(plan.plot.loss),
        loss_heads=loss_heads(plan),
        loss_rows=loss_rows(plan),
        loss_note=loss_note(plan),
        people=image(plan.plot.people) if plan.worthwhile else None,
        people_heads=people_heads(plan),
        people_rows=people_rows(plan),
        people_note=people_note(plan),
        odds=image(plan.plot.odds),
        odds_rows=odds_rows(plan),
        basis=list(basis(plan)),
    )


# Sentences.


def rival(forecast: Forecast) -> str:
    """The reference of gains, in words."""
    return _ONE_CHOICE if forecast.fixed else "choosing at random"


def recommendation(forecast: Forecast) -> Recommendation:
    """The verdict of a plan with its details."""
    expected = f" (of {forecast.expected:,} expected)" * (forecast.people < forecast.expected)
    with_people = f"with {forecast.people:,} people{expected}"
    over = rival(forecast)
    if not forecast.worthwhile:
        word = forecast.gains.word
        gained = f"{interval_text(forecast.gain(forecast.free))} per person"
        if word == "no":
            start = f"No: {with_people}, choosing by person gains nothing over {over}, even without"
            takes = f"Keep to {over}, or plan with more people, other columns or other arms."
        else:
            start = (
                f"Cannot tell yet, {with_people}, whether choosing by person gains anything over "
                f"{over} even without"
            )
            takes = takes_text(forecast)
        return Recommendation(word, None, None, f"{start} privacy: {gained}.", (takes,))
    advice = forecast.advice()
    epsilon = advice.best if advice.epsilon is None else advice.epsilon
    line = forecast.line(epsilon)
    most = f"{percent(advice.lose_at_most)} of the gain"
    lost = loss_text(forecast.loss_for(epsilon, advice.people))
    details = []
    if advice.verdict.word == "yes":
        headline = (
            f"Yes: {with_people}, {line.learner} at epsilon = {epsilon:g} loses at most {most}."
        )
        details.append("No smaller epsilon that was tried does.")
    elif advice.verdict.word == "no":
        headline = (
            f"No: {with_people}, every epsilon that was tried loses more than {most}; "
            f"{line.learner} at epsilon = {epsilon:g} loses least, {lost}."
        )
        until = people_text(forecast.people_for(epsilon, 1.0 - advice.lose_at_most))
        details.append(f"To lose no more than {percent(advice.lose_at_most)} it takes {until}.")
    else:
        headline = (
            f"Cannot tell yet, {with_people}, whether an epsilon loses at most {most}: "
            f"{line.learner} at epsilon = {epsilon:g} loses least, {lost}."
        )
        details.append(takes_text(forecast))
        if forecast.people < forecast.expected <= forecast.limit:
            later = loss_text(forecast.loss_for(epsilon, forecast.expected))
            details.append(f"With {forecast.expected:,} people it would lose {later}.")
    missed = student(line.gain[:, -1] - forecast.free.gain[:, -1])
    moved = forecast.explanations[epsilon].odds[0]
    details += [
        f"Gain per person over {over}: {interval_text(forecast.gain(line))}; over no privacy: "
        f"{interval_text(missed)}.",
        f"It beats {over} from {people_text(forecast.people_until_gain(epsilon))} on. For an "
        f"observer, a chance of 50 out of 100 that something is true of a person becomes "
        f"{chance_text(moved.most)}.",
    ]
    word = advice.verdict.word
    return Recommendation(word, advice.epsilon, line.learner, headline, tuple(details))


def takes_text(forecast: Forecast) -> str:
    """What a verdict takes where a plan has none."""
    size, found = forecast.problem.size, forecast.advice().verdict
    if size is not None and forecast.expected > size:
        return (
            f"A yes or a no takes a table of {forecast.expected:,} people, or a plan for the "
            f"{size:,} of this one."
        )
    if found.replicates is None:
        return "It is too close to call at this number of people: more than 1,000 replicates."
    seconds = about_time(found.replicates * forecast.seconds_each)
    return f"A verdict takes about {found.replicates:,} replicates, {seconds}."


def question_text(forecast: Forecast) -> str:
    """The answer to the inverse question that was put; "" where none was."""
    if forecast.question is None:
        return ""
    asked, first, second = forecast.question
    beyond = {"people": 0.0, "epsilon": first, "loss": second}[asked]
    count = min(beyond, float(forecast.limit))
    limit = f" (there is no answer for {beyond:,.0f} people: {forecast.people:,} were simulated)"
    end = f"{limit * (beyond > forecast.limit)}."
    if asked == "people":
        takes = people_text(forecast.people_for(first, 1.0 - second))
        return f"At epsilon = {first:g}, losing at most {percent(second)} takes {takes}{end}"
    if asked == "epsilon":
        takes = epsilon_text(forecast.epsilon_for(count, second))
        among = "" if count == forecast.people else f" with {count:,.0f} people"
        return f"Losing at most {percent(second)}{among} takes {takes}{end}"
    lost = loss_text(forecast.loss_for(first, count))
    return f"At epsilon = {first:g} with {count:,.0f} people, the loss is {lost}{end}"


def people_text(answer: PlanAnswer) -> str:
    """about 5,400 people (95% interval 4,000 to 7,100)."""
    if answer.value is None:
        return "an unknown number of people, as there is no gain to keep"
    if answer.value <= answer.least:
        start = f"at most {answer.least:,.0f} people"
    elif not answer.reached:
        start = f"more than {answer.most:,.0f} people"
    else:
        start = f"about {number_text(answer.value, 2)} people"
    beyond = "extrapolated; " if answer.extrapolated else ""
    between = ends_text(answer)
    return f"{start} ({beyond}95% interval {between})" if between else start


def ends_text(answer: PlanAnswer) -> str:
    """The ends of an interval of people; "" where they add nothing to the estimate."""
    low, high = answer.low, answer.high
    if math.isnan(low) or high <= answer.least or low > answer.most:
        return ""
    ends = f"{answer.least:,.0f} or fewer", f"more than {answer.most:,.0f}"
    return " to ".join(
        ends[0] if end <= answer.least else ends[1] if end > answer.most else number_text(end, 2)
        for end in (low, high)
    )


def epsilon_text(answer: PlanAnswer) -> str:
    """epsilon = 2.6 (95% interval 2.5 to 2.8)."""
    if answer.value is None:
        return "an unknown epsilon, as there is no gain to keep"
    if answer.value <= answer.least:
        return f"epsilon = {answer.least:g} at most, the smallest that was tried"
    if not answer.reached:
        return f"an epsilon above {answer.most:g}, the largest that was tried"
    ends = f"{answer.least:g} or less", f"more than {answer.most:g}"
    between = " to ".join(
        ends[0] if end <= answer.least else ends[1] if end > answer.most else f"{end:.2g}"
        for end in (answer.low, answer.high)
    )
    return f"epsilon = {answer.value:.2g} (95% interval {between})"


def loss_text(answer: PlanAnswer) -> str:
    """12% (95% interval 8% to 17%)."""
    if answer.value is None:
        return "unknown, as there is no gain to keep"
    beyond = "extrapolated; " if answer.simulated == -math.inf else ""
    if not math.isfinite(answer.high):
        return f"{percent(answer.value)} ({beyond}its interval is unbounded)"
    ends = f"{percent(answer.low)} to {percent(answer.high)}"
    return f"{percent(answer.value)} ({beyond}95% interval {ends})"


def percent(share: float) -> str:
    """12%, 3.1% or 0%."""
    value = 100.0 * share
    text = f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}".removesuffix(".0")
    return f"{unsigned_zero(text)}%"


def interval_text(interval: Interval) -> str:
    """0.140 (95% interval -0.010 to 0.290)."""
    half = interval.high - interval.mean
    known = math.isfinite(half) and half > 0.0
    digits = decimals(half, 2) if known else decimals(interval.mean, 3)
    text = f"{interval.mean:.{digits}f}"
    if math.isnan(interval.low):
        return text
    return f"{text} (95% interval {interval.low:.{digits}f} to {interval.high:.{digits}f})"


def basis(forecast: Forecast) -> Iterator[str]:
    """What the numbers rest on, a sentence or two each."""
    raced = [each for each in forecast.races if each.replicates]
    if raced:
        count, dropped = max(each.replicates for each in raced), sum(each.dropped for each in raced)
        yield (
            f"Learners were selected by successive halving, up to {count} replicates of "
            f"{raced[0].people:,} people; {dropped} of {len(raced)} contenders stopped early. A "
            f"true best is dropped with probability at most {percent(ERROR)}."
        )
        yield (
            "The selected learner looks better than it is where it was selected (the winner's "
            f"curse), so all numbers are from {forecast.replicates} fresh replicates."
        )
    yield (
        f"Beyond {forecast.people:,} people, up to {REACH} times as many, regret grows as over the "
        "last doubling, which is pessimistic; intervals reach up to losing no more than without "
        "privacy."
    )
    yield (
        "Gains are compared on the same people. Losses have Fieller's intervals; a verdict takes "
        f"at least {FEWEST} replicates, and all verdicts err with at most 2.5% on each side."
    )
    yield from forecast.left_out


# Tables.


class LossRow(NamedTuple):
    """What one line costs people, as it is shown; first what a terminal shows."""

    name: str
    epsilon: str
    per_person: str
    gain: str
    gain_half: str
    loss: str
    loss_ends: str
    verdict: str
    half_width: str
    private: bool


@dataclass(frozen=True)
class PeopleRow:
    """How many people one epsilon takes, as it is shown: estimates above their intervals."""

    epsilon: str
    learner: str
    cells: tuple[tuple[str, str], ...]


def loss_heads(forecast: Forecast) -> list[str]:
    """The heads of the first table."""
    heads = ["learner", "epsilon", f"{forecast.problem.metric} per person", "gain", "loss"]
    return heads + [f"at most {percent(forecast.lose_at_most)}?"] * forecast.worthwhile


def _wide_heads(forecast: Forecast) -> list[str]:
    """The same with columns for the ends of the gain and the loss."""
    heads = loss_heads(forecast)
    return [*heads[:4], "±", heads[4], "interval", *heads[5:]]


def loss_rows(forecast: Forecast) -> list[LossRow]:
    """Private lines by epsilon, no privacy, references; with all people that were simulated."""
    digits = decimals(max(abs(float(line.worth[:, -1].mean())) for line in forecast.lines), 4)
    sign = 1.0 if forecast.problem.metric == "reward" else -1.0
    names = {"best_fixed": "one choice", "uniform": "at random"}
    rest = [line for line in forecast.lines if line.kind != "private"]

    def half(interval: Interval) -> str:
        width = interval.high - interval.mean
        return ABSENT if math.isnan(width) else f"{width:.{digits}f}"

    def row(line: PlanLine) -> LossRow:
        worth, gain = student(sign * line.worth[:, -1]), forecast.gain(line)
        lost, ends, verdict = ABSENT, "", ""
        if line.epsilon is not None and forecast.worthwhile:
            answer = forecast.loss_of(line)
            if answer.value is not None:
                lost = percent(answer.value)
                ends = f"{percent(answer.low)} to {percent(answer.high)}"
            if line in forecast.private:
                verdict = forecast.verdicts[line.epsilon].word
        name = names.get(line.learner, line.learner)
        if line in forecast.others:
            name = f"{name}, {line.setting.budget.trust_model}"
        own = line is forecast.reference
        return LossRow(
            name=f"{name}, no privacy" if line.kind == "none" else name,
            epsilon="" if line.epsilon is None else f"{line.epsilon:g}",
            per_person=f"{worth.mean:.{digits}f}",
            half_width=half(worth),
            gain=ABSENT if own else f"{gain.mean:+.{digits}f}",
            gain_half="" if own else half(gain),
            loss=lost,
            loss_ends=ends,
            verdict=verdict,
            private=line.kind == "private",
        )

    return [row(line) for line in (*forecast.private, *forecast.others, *rest)]


def people_heads(forecast: Forecast) -> list[str]:
    """What the columns of the second table ask."""
    return [f"beats {rival(forecast)}", *(f"keeps {percent(share)}" for share in KEEP)]


def people_rows(forecast: Forecast) -> list[PeopleRow]:
    """For each epsilon how many people it takes."""
    rows = []
    for line in forecast.private:
        epsilon = line.setting.budget.epsilon
        answers = [forecast.people_until_gain(epsilon)]
        answers += [forecast.people_for(epsilon, share) for share in KEEP]
        rows.append(PeopleRow(f"{epsilon:g}", line.learner, tuple(map(_cell, answers))))
    return rows


def _cell(answer: PlanAnswer) -> tuple[str, str]:
    """The estimate, marked where it is extrapolated, and the interval."""
    if answer.value is None:
        return ABSENT, ""
    if answer.value <= answer.least:
        start = f"≤ {answer.least:,.0f}"
    elif not answer.reached:
        start = f">{answer.most:,.0f}"
    else:
        start = number_text(answer.value, 2) + _MARK * answer.extrapolated
    ends = ends_text(answer).replace(" or fewer", "").replace("more than ", ">")
    return start, ends


def loss_table(forecast: Forecast) -> Table:
    """The first table for a terminal."""
    rows = loss_rows(forecast)
    heads = [head.replace(" per ", "\nper\n") for head in _wide_heads(forecast)]
    heads = [head.replace("most ", "most\n") for head in heads]
    longest = max(len(row.name) for row in rows if row.private)
    widths = [min(longest, _NAME), *[0] * (len(heads) - 1)]
    note = loss_note(forecast)
    table = terminal_table(heads, widths=widths, padding=(0, 1, 0, 0), caption=note)
    for row in rows:
        row = row._replace(verdict=row.verdict.replace("cannot tell yet", "unclear"))
        table.add_row(*map(str, row[: len(heads)]), style="" if row.private else "dim")
    return table


def people_sentence(forecast: Forecast, epsilon: float) -> str:
    """How many people one epsilon takes."""
    (row,) = [row for row in people_rows(forecast) if row.epsilon == f"{epsilon:g}"]
    heads = people_heads(forecast)
    pairs = zip(heads, row.cells, strict=True)
    needed = ", ".join(f"{people} ({head})" for head, (people, _) in pairs)
    mark = f"; {_MARK}: extrapolated beyond {forecast.people:,}" if _MARK in needed else ""
    return f"People needed at epsilon = {row.epsilon}: {needed}{mark}."


def people_table(forecast: Forecast) -> Table:
    """The second table for a terminal, estimates above their intervals."""
    heads = [head.replace(" one choice ", "\none choice\n") for head in people_heads(forecast)]
    widths, note = [len("epsilon"), *[0] * len(heads)], people_note(forecast)
    table = terminal_table(("epsilon", *heads), widths=widths, padding=(0, 1, 0, 0), caption=note)
    for row in people_rows(forecast):
        # A second line in each cell, so that all first lines stand beside each other.
        cells = (f"{start}\n{ends or ' '}" for start, ends in row.cells)
        table.add_row(f"{row.epsilon}\n ", *cells)
    return table


def odds_table(forecast: Forecast) -> Table:
    """What each epsilon means for one person, for a terminal."""
    table = terminal_table(
        ("epsilon", "without you", "with you,\nat most", "without you ", "with you,\nat most "),
        padding=(0, 1, 0, 0),
        caption="How certain an observer can become, out of 100, that something is true of you, if "
        "you do not take part and if you do: starting from 50:50, and from 1 in 100.",
    )
    for epsilon, even, rare in odds_rows(forecast):
        table.add_row(epsilon, "50", even, "1", rare)
    return table


def odds_rows(forecast: Forecast) -> list[tuple[str, str, str]]:
    """By epsilon, the most certain an observer can become from 50, and from 1, out of 100."""
    rows = []
    for epsilon, explained in forecast.explanations.items():
        even, rare = (
            str(out_of_100(moved.most)) if moved.most <= 0.99 else ">99" for moved in explained.odds
        )
        rows.append((f"{epsilon:g}", even, rare))
    return rows


def loss_note(forecast: Forecast) -> str:
    """The footnotes of the first table."""
    better = "higher" if forecast.problem.metric == "reward" else "lower"
    note = (
        f"{forecast.people:,} people, {counted(forecast.replicates, 'replicate')}, ±: 95% "
        f"interval; {better} is better. gain: over {rival(forecast)}."
    )
    if forecast.worthwhile:
        note += " loss: share of the gain without privacy."
    return note


def people_note(forecast: Forecast) -> str:
    """The footnotes of the second table."""
    return (
        "People from which on the average over all served gets there, with 95% bootstrap "
        f"intervals. {_MARK}: extrapolated beyond {forecast.people:,}; no answers beyond "
        f"{forecast.limit:,}."
    )


# Figures.


def loss_figure(forecast: Forecast, width: float = WIDE, height: float = 2.7) -> Figure:
    """The metric for each person against epsilon, with no privacy, one choice for everyone and
    chance as lines."""
    reward = forecast.problem.metric == "reward"
    sign = 1.0 if reward else -1.0

    def point(line: PlanLine, name: str, x: float) -> dict[str, object]:
        worth = student(sign * line.worth[:, -1])
        half = worth.high - worth.mean
        return {"name": name, "label": name, "x": x, "mean": worth.mean, "half_width": half}

    own = forecast.private[0].setting.budget.trust_model if forecast.others else "private"
    styles: dict[str, Stroke] = {own: Stroke(BLUE, SOLID, mark="o")}
    points = [point(line, own, line.setting.budget.epsilon) for line in forecast.private]
    marks = (Stroke(VERMILLION, SOLID, mark="s"), Stroke(GREEN, SOLID, mark="D"))
    for line, stroke in zip(forecast.others, marks, strict=False):
        model = line.setting.budget.trust_model
        styles[model] = stroke
        points.append(point(line, model, line.setting.budget.epsilon))
    points.append(point(forecast.free, "no privacy", np.nan))
    if forecast.fixed:
        points.append(point(forecast.reference, "one choice for everyone", np.nan))
    points.append(point(forecast.chance, "at random", np.nan))
    styles |= {"no privacy": _FREE, "one choice for everyone": _ONE, "at random": CHANCE}
    epsilons = forecast.epsilons
    title = f"{'reward' if reward else 'regret'} per person, {forecast.people:,} people"
    return lines(
        pd.DataFrame(points).assign(panel=title),
        styles,
        x=Axis(
            "epsilon (smaller is more private)",
            log=True,
            limits=(epsilons[0] / 1.35, epsilons[-1] * 1.35),
            ticks=epsilons,
            names=[f"{epsilon:g}" for epsilon in epsilons],
        ),
        y=Axis(limits=_limits(points), most=6),
        intervals="bars",
        width=width,
        height=height,
    )


def _limits(points: Sequence[dict[str, object]]) -> tuple[float, float]:
    """Ends of the vertical axis that show all means and their intervals."""
    frame = pd.DataFrame(points)
    half = frame["half_width"].fillna(0.0)
    low, high = float((frame["mean"] - half).min()), float((frame["mean"] + half).max())
    pad = max(0.06 * (high - low), 1e-9)
    return low - pad, high + pad


def people_figure(forecast: Forecast, width: float = WIDE, height: float = 3.1) -> Figure:
    """The share of the gain that is kept against the number of people, for each epsilon; shaded
    where it is extrapolated."""
    figure, [[axes]] = sheet(width=width)
    grid, kept = forecast.grid, forecast.kept
    people = forecast.people
    # 1, 2, 5, 10, ... beyond, at some distance.
    steps = np.asarray(LogLocator(subs=(1, 2, 5), numticks=50).tick_values(people, grid[-1]))
    number_axis(
        axes.xaxis,
        Axis(
            log=True,
            limits=(float(grid[0]), float(grid[-1])),
            ticks=[
                *forecast.horizons,
                *(each for each in steps if 1.5 * people < each <= grid[-1]),
            ],
        ),
    )
    number_axis(
        axes.yaxis,
        Axis(
            limits=(_LOWEST, _HIGHEST),
            ticks=(0.0, *KEEP, 1.0),
            names=("0%", *(f"{share:.0%}" for share in KEEP), "100%"),
        ),
    )
    axes.axvspan(people, float(grid[-1]), color=_BEYOND, linewidth=0, zorder=0)
    axes.annotate(
        "extrapolated", (people, _LOWEST), (4, 3), textcoords="offset points", va="bottom",
        fontsize=SMALL, color=GREY,
    )  # fmt: skip
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    ends = []
    for place, color in enumerate(tints(BLUE, len(forecast.epsilons))):
        rows = kept[:, place]
        best = forecast.kept_at_best[1:, place]
        ends_at = [interval(_known(rows[1:, at]), _known(best[:, at])) for at in range(len(grid))]
        bands = np.array(ends_at)
        middle = np.clip(rows[0], 2 * _LOWEST, 2.0)
        low, high = (np.clip(bands[:, side], 2 * _LOWEST, 2.0) for side in (0, 1))
        axes.fill_between(grid, low, high, color=color, alpha=0.16, linewidth=0)
        inside = grid <= people
        axes.plot(grid[inside], middle[inside], color=color, linewidth=1.8)
        axes.plot(grid[~inside], middle[~inside], color=color, linewidth=1.8, linestyle=(0, (4, 2)))
        known = middle[np.isfinite(middle)]
        last = float(np.clip(known[-1], _LOWEST, _HIGHEST)) if len(known) else _LOWEST
        ends.append((f"epsilon {forecast.epsilons[place]:g}", last, color))
    name_ends(axes, ends)
    axes.set_xlabel("people served", fontsize=BODY, color=INK)
    entitle(axes, "share of the gain without privacy that is kept", 0.85 * width)
    return finish(figure, height)


def _known(values: FloatArray) -> FloatArray:
    """Values with minus infinity where they are unknown."""
    return np.where(np.isnan(values), -np.inf, values)


def odds_figure(explanations: dict[float, Explanation], width: float = WIDE) -> Figure:
    """Icons of 100: how certain an observer can become without a person's data, and with them.

    Args:
        explanations: by epsilon.
        width: of the figure.
    """
    columns = 3 if width <= NARROW else max(4, min(6, 1 + len(explanations)))
    odds = [each.odds[0] for each in explanations.values()]
    first = out_of_100(odds[0].prior)
    panels = [("you do not take part", first, first)]
    for epsilon, moved in zip(explanations, odds, strict=True):
        panels.append((f"you do, epsilon {epsilon:g}", first, out_of_100(moved.most)))
    rows = -(-len(panels) // columns)
    figure, grid = sheet(rows, columns, width=width)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.remove()
            continue
        title, before, after = panels[place]
        _icons(axes, before, after, _DOT if width > NARROW else _SMALL_DOT)
        sure = f"{'at most ' if place else ''}{after} out of 100"
        entitle(axes, f"{title}:\n{sure if after < 100 else 'as good as certain'}", size=SMALL)
    return finish(figure, 1.25 if width > NARROW else 0.95)


def _icons(axes: Axes, before: int, after: int, size: float) -> None:
    """100 dots, ten in a row, from the lower left: the prior, what the data add, and the rest."""
    number = np.arange(100)
    x, y = number % 10, number // 10
    kinds = ((number < before, BLUE), ((number >= before) & (number < after), VERMILLION))
    axes.plot(x, y, "o", color=FAINT, markersize=size, linestyle="none")
    for chosen, color in kinds:
        axes.plot(x[chosen], y[chosen], "o", color=color, markersize=size, linestyle="none")
    axes.set(xlim=(-0.7, 9.7), ylim=(-0.7, 9.7), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.grid(False)
