"""What the report of a search says in sentences."""

from __future__ import annotations

import numpy as np

from discreet.reporting.column_units import number_text
from discreet.reporting.row_curve import MOST_TICKS
from discreet.reporting.row_maps import MOST_DOTS, shown_columns
from discreet.reporting.search_view import SearchView
from discreet.reporting.words import listed

_NAMED = 6  # this many of the columns not shown are named


def title(view: SearchView) -> str:
    """What was searched."""
    return f"Search for the {_best_word(view)} outcome in a released table"


def size(view: SearchView) -> str:
    """How large the search is, in one line."""
    asked = len(view.turn.asked)
    return (
        f"{counted(view.certificate.rows, 'row')} of {counted(len(view.columns), 'number')} each, "
        f"{asked:,} of at most {counted(max(view.rounds, asked), 'question')} asked"
    )


def answer(view: SearchView) -> str:
    """The result in one sentence."""
    best = view.turn.best
    if best is None:
        if view.count("impossible"):
            failed = counted(view.count("impossible"), "row")
            return f"No outcome is known yet: the {failed} that came back cannot be measured."
        return "No outcome is known yet."
    settled = len(view.turn.asked) - view.turn.waiting
    question = int(view.questions[view.best_place])
    text = f"After {counted(settled, 'question')}, the {_best_word(view)} answer is "
    text += f"{number_text(best.answer)}, of row {best.row} (question {question})"
    if view.answer_noise and view.knows:
        text += f", with noise on it: {expected_text(best.expected, best.deviation)} is expected"
    if view.optimum is not None:
        text += f"; {_regret(view)}"
    return f"{text}."


def state(view: SearchView) -> str:
    """Whether the search goes on, and what it would bring."""
    if view.turn.done:
        return f"The search is over: {view.turn.reason}."
    waiting, left = view.turn.waiting, max(view.rounds - len(view.turn.asked), 0)
    parts = []
    if waiting:
        verb = "waits" if waiting == 1 else "wait"
        parts.append(f"{counted(waiting, 'question')} {verb} for an answer")
    if left:
        parts.append(f"{left:,} more may be asked")
    text = f"The search goes on: {' and '.join(parts)}." if parts else "The search goes on."
    if view.gain is not None:
        text += f" One more question promises an improvement of {number_text(view.gain, 2)}."
    return text


def answers_caption(view: SearchView) -> str:
    """What the figure of answers shows."""
    text = "Dots: answers. Blue: the best so far; star: the best."
    if view.answer_noise:
        noise = number_text(view.answer_noise, 3)
        text += (
            f" Bars: one standard deviation ({noise}) of the noise that the curator added to each "
            "answer. The best so far is the best of noisy answers, and so partly luck."
        )
    if view.optimum is not None:
        text += " Dashed: the best outcome of any row, known from elsewhere."
        if view.answer_noise:
            text += " Regret is that of noisy answers and may be below 0."
    if view.warm_up:
        rows = "row was" if view.warm_up == 1 else f"{view.warm_up} rows were"
        text += f" Grey ground: the first {rows} drawn at random, before anything was learnt."
    if view.count("impossible"):
        text += " Cross: the row cannot be measured."
    return text


def answers_alt(view: SearchView) -> str:
    """The figure of answers in words."""
    first, last = (number_text(float(view.so_far[place])) for place in (0, -1))
    text = f"Chart of {counted(len(view.answers), 'answer')} by question. The best so far "
    text += f"goes from {first} to {last}." if first != last else f"stays at {first}."
    if view.optimum is not None:
        lost = number_text(float(view.regret(view.so_far)[-1]), 4)
        text += f" Below it, the simple regret, which ends at {lost}."
    return text


def map_caption(view: SearchView) -> str:
    """What the map shows."""
    if len(view.columns) == 1:
        text = _curve_caption(view)
    elif view.certificate.rows > MOST_DOTS:
        text = "Cells with rows in them, where these are believed to be; " + (
            "the colour is the mean of the outcomes that are expected of them."
            if view.knows
            else "darker cells have more of them."
        )
    else:
        text = "Every dot is a released row, where it is believed to be" + (
            "; its colour is the outcome that is expected of it." if view.knows else "."
        )
    if not view.knows:
        text += " Nothing has been learnt about outcomes of other rows yet."
    elif view.alike:
        text += (
            " Expected outcomes hardly differ: so far answers say next to nothing about other rows."
        )
    return f"{text} {_not_shown(view)}".rstrip()


def _curve_caption(view: SearchView) -> str:
    marks = "Shades of grey" if view.certificate.rows > MOST_TICKS else "Marks"
    text = f"{marks} along the bottom: where rows are believed to be."
    if not view.knows:
        return text
    rows = "rows that were not asked for" if view.not_asked.any() else "rows"
    return (
        f"Curve and band: the outcome that is expected of {rows}, and one standard deviation of "
        f"it. {text}"
    )


def map_alt(view: SearchView) -> str:
    """The map in words."""
    names = [view.certificate.names[place] for place in shown_columns(view)]
    shown = listed(names)
    text = f"Map of {counted(view.certificate.rows, 'row')} over {shown}"
    if len(names) == 1:
        text = f"Expected outcome of {counted(view.certificate.rows, 'row')} over {shown}"
    text += f", with marks on {counted(len(view.turn.asked), 'row')} that were asked for."
    if view.knows:
        low, high = (number_text(value, 4) for value in view.expected_range)
        text += f" Expected outcomes are between {low} and {high}."
    return text


def table_note(view: SearchView) -> str:
    """What the columns of the table of answers mean."""
    text = "Expected: what all answers together say about the outcome of the row; ± is one "
    text += "standard deviation of it." if view.knows else "standard deviation. Not learnt yet."
    if view.certificate.projection is None:
        text += (
            " Places are where the rows are believed to be, from the release and its public "
            "bounds; nobody but the curator knows where they are."
        )
    best = view.best_expected()
    if best is not None and view.turn.best is not None and best != view.turn.best.row:
        mean, deviation = (float(part[best]) for part in view.predicted)
        text += (
            f" Of the answered rows, row {best} has the best expected outcome: "
            f"{expected_text(mean, deviation)}."
        )
    return text


def expected_text(mean: float, deviation: float) -> str:
    """203.5 ± 7.5: no more digits than the deviation has."""
    if not deviation > 0.0:
        return f"{number_text(mean, 4)} ± 0"
    digits = min(max(1 - int(np.floor(np.log10(deviation))), 0), 12)
    return f"{mean:,.{digits}f} ± {number_text(deviation, 2)}"


def counted(count: int, noun: str) -> str:
    """1 row, 2,930 rows."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _best_word(view: SearchView) -> str:
    return "lowest" if view.minimize else "highest"


def _regret(view: SearchView) -> str:
    assert view.optimum is not None
    regret = float(view.regret(view.so_far)[-1])
    optimum = number_text(view.optimum)
    if regret == 0.0:
        return f"that is the optimum, {optimum}"
    if regret < 0.0:
        why = "which noise can do" if view.answer_noise else "which therefore cannot be right"
        return (
            f"the answer is better than the optimum, {optimum}, by {number_text(-regret, 4)}, {why}"
        )
    return f"the optimum, {optimum}, is better by {number_text(regret, 4)} (the simple regret)"


def _not_shown(view: SearchView) -> str:
    """Which released numbers are left out of the map, and why."""
    shown = shown_columns(view)
    others = [name for place, name in enumerate(view.certificate.names) if place not in shown]
    if not others:
        return ""
    names = listed([view.certificate.names[place] for place in shown])
    named = listed(others) if len(others) <= _NAMED else f"{len(others)} others"
    if view.told_apart:
        return (
            f"Outcomes seem to depend most on {names} (shortest length scales relative to the "
            f"spread of rows); not shown: {named}."
        )
    why = "as all matter equally" if view.knows else "as nothing is known about them yet"
    return f"Shown are {names}, the first ones, {why}; not shown: {named}."
