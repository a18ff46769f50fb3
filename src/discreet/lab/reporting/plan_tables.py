"""A plan in tables, for the terminal and the page: what each epsilon costs people, how many people
it takes, and what it means for one person."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.table import Table

from discreet.lab.planning.facts import FEWEST, Answer, Interval, PlanLine, student
from discreet.lab.planning.forecast import KEEP, Forecast
from discreet.lab.planning.odds import out_of_100
from discreet.lab.reporting.numbers import ABSENT, counted, decimals, number_text
from discreet.lab.reporting.plan_words import ONE_CHOICE, ends_text, percent, rival
from discreet.lab.reporting.words import terminal_table

_MARK = "*"  # of what is extrapolated
_NAME = 20  # characters of a learner's name that are not broken


@dataclass(frozen=True)
class LossRow:
    """What one line costs people, as it is shown."""

    name: str
    epsilon: str
    per_person: str
    half_width: str
    gain: str
    gain_half: str
    loss: str
    loss_ends: str
    verdict: str
    private: bool


@dataclass(frozen=True)
class PeopleRow:
    """How many people one epsilon takes, as it is shown: estimates above their intervals."""

    epsilon: str
    learner: str
    cells: tuple[tuple[str, str], ...]


def loss_rows(forecast: Forecast) -> list[LossRow]:
    """Private lines by epsilon, no privacy, references; with all people that were simulated."""
    worths = [abs(float(line.worth[:, -1].mean())) for line in forecast.lines]
    digits = decimals(max(worths), 4)
    sign = 1.0 if forecast.problem.metric == "reward" else -1.0
    rows = []
    for line in forecast.lines:
        worth, gain = student(sign * line.worth[:, -1]), forecast.gain(line)
        lost, ends, told = ABSENT, "", ""
        if line.epsilon is not None and forecast.worthwhile:
            answer = forecast.loss_for(line.epsilon, forecast.people)
            if answer.value is not None:
                lost = percent(answer.value)
                ends = f"{percent(answer.low)} to {percent(answer.high)}"
            told = forecast.verdicts[line.epsilon].word
        own = line is forecast.reference
        rows.append(
            LossRow(
                _named(line),
                "" if line.epsilon is None else f"{line.epsilon:g}",
                f"{worth.mean:.{digits}f}",
                _half(worth, digits),
                ABSENT if own else f"{gain.mean:+.{digits}f}",
                ABSENT if own else _half(gain, digits),
                lost,
                ends,
                told,
                line.kind == "private",
            )
        )
    return rows


def _named(line: PlanLine) -> str:
    names = {"best_fixed": ONE_CHOICE, "uniform": "at random"}
    if line.kind == "none":
        return f"{line.learner}, no privacy"
    return names.get(line.learner, line.learner)


def _half(interval: Interval, digits: int) -> str:
    half = interval.high - interval.mean
    return ABSENT if math.isnan(half) else f"{half:.{digits}f}"


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


def _cell(answer: Answer) -> tuple[str, str]:
    """The estimate, marked where it is extrapolated, and the interval."""
    if answer.value is None:
        return ABSENT, ""
    if answer.value <= answer.least:
        start = f"≤ {answer.least:,.0f}"
    elif not answer.reached:
        start = f">{answer.most:,.0f}"
    else:
        start = number_text(answer.value, 2) + (_MARK if answer.extrapolated else "")
    ends = ends_text(answer).replace(" or fewer", "").replace("more than ", ">")
    return start, ends


def loss_table(forecast: Forecast) -> Table:
    """The first table for a terminal."""
    metric, rows = forecast.problem.metric, loss_rows(forecast)
    heads = ["learner", "epsilon", f"{metric}\nper\nperson", "gain", "±", "loss", "interval"]
    if forecast.worthwhile:
        heads.append(f"at most\n{percent(forecast.lose_at_most)}?")
    longest = max(len(row.name) for row in rows if row.private)
    table = terminal_table(
        heads,
        widths=[min(longest, _NAME), *[0] * (len(heads) - 1)],
        padding=(0, 1, 0, 0),
        caption=loss_note(forecast),
        caption_justify="left",
    )
    for row in rows:
        cells = (
            row.name, row.epsilon, row.per_person, row.gain, row.gain_half, row.loss,
            row.loss_ends, row.verdict.replace("cannot tell yet", "cannot\ntell yet"),
        )  # fmt: skip
        table.add_row(*cells[: len(heads)], style="" if row.private else "dim")
    return table


def people_table(forecast: Forecast) -> Table:
    """The second table for a terminal."""
    heads = [head.replace(" one choice ", "\none choice\n") for head in people_heads(forecast)]
    table = terminal_table(
        ("epsilon", *heads),
        widths=[len("epsilon"), *[0] * len(heads)],
        padding=(0, 1, 0, 0),
        caption=people_note(forecast),
        caption_justify="left",
    )
    for row in people_rows(forecast):
        # A second line in each cell, so that all first lines stand beside each other.
        table.add_row(
            f"{row.epsilon}\n ", *(f"{start}\n{ends or ' '}" for start, ends in row.cells)
        )
    return table


def odds_table(forecast: Forecast) -> Table:
    """What each epsilon means for one person, for a terminal."""
    table = terminal_table(
        ("epsilon", "without you", "with you,\nat most", "without you ", "with you,\nat most "),
        padding=(0, 1, 0, 0),
        caption="How sure somebody can become that something is true of you, out of 100, when you "
        "do not take part and when you do: for what they thought as likely as not, and for what "
        "they thought true of 1 in 100.",
        caption_justify="left",
    )
    for epsilon, explained in forecast.explanations.items():
        even, rare = (_short(moved.most) for moved in explained.odds)
        table.add_row(f"{epsilon:g}", "50", even, "1", rare)
    return table


def _short(chance: float) -> str:
    return str(out_of_100(chance)) if chance <= 0.99 else ">99"


def loss_note(forecast: Forecast) -> str:
    """What the first table means."""
    better = "higher" if forecast.problem.metric == "reward" else "lower"
    note = (
        f"{forecast.people:,} people, each served once; {better} is better. Gain: over "
        f"{rival(forecast)}, on the same people. ±: half a 95% interval over "
        f"{counted(forecast.replicates, 'replicate')} (Student's t)."
    )
    if forecast.worthwhile:
        note += (
            " Loss: the share of the gain without privacy that is lost, with its 95% interval "
            f"(Fieller). At most {percent(forecast.lose_at_most)}: yes or no where that interval "
            f"lies on one side, with at least {FEWEST} replicates and all who are expected; all "
            "verdicts together err with at most 2.5% on each side."
        )
    return note


def people_note(forecast: Forecast) -> str:
    """What the second table means."""
    return (
        f"From how many people on, counted over all who were served. {_MARK}: extrapolated beyond "
        f"the {forecast.people:,} that were simulated; nothing is said about more than "
        f"{forecast.limit:,}. Intervals: 95%, by bootstrap over replicates; beyond what was "
        "simulated from the best that can be hoped for to regret that grows as before."
    )
