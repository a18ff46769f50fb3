"""What the report of a search shows as tables and lists: answers, what was learnt, the promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from discreet.outsourcing.answers import times_text
from discreet.outsourcing.bounds import PublicColumn
from discreet.outsourcing.modeler import ACQUISITIONS
from discreet.privacy.guarantee import rounded_up
from discreet.reporting.column_units import (
    aligned_texts,
    bound_texts,
    length_text,
    number_text,
    share_text,
    value_text,
)
from discreet.reporting.search_view import SearchView
from discreet.reporting.search_words import counted, expected_text
from discreet.reporting.table import ABSENT

Facts = tuple[tuple[str, str], ...]

_ROWS, _PLACES, _COLUMNS = 10, 6, 30
_RULES = {
    "upper_confidence": "the highest mean + sqrt(2 log n) standard deviations",
    "expected_improvement": "the largest expected improvement of what a row shares with others",
    "gp_ucb": "GP-UCB as published, which widens its bounds with every question",
}
_KERNELS = {
    "rbf": "squared exponential (rbf)",
    "matern32": "Matérn 3/2 (matern32)",
    "matern52": "Matérn 5/2 (matern52)",
}


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        head: what its columns are called.
        rows: texts.
        left_out: how many rows are not shown.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


def best_answers(view: SearchView) -> Grid:
    """The best answered rows, best first."""
    places = tuple(
        place for place in view.by_relevance[:_PLACES] if view.columns[place] is not None
    )
    places = tuple(sorted(places))
    best, rows = view.best_places(_ROWS), []
    answers = aligned_texts(view.answers[best].tolist())
    for place, answer in zip(best, answers, strict=True):
        row = int(view.rows[place])
        expected, deviation = ABSENT, ABSENT
        if view.knows:
            mean, half = (float(part[row]) for part in view.predicted)
            expected, deviation = expected_text(mean, half).split(" ± ")
        cells = [f"{row}", answer, expected, deviation]
        rows.append((*cells, *(_place_text(view, row, at) for at in places)))
    names = tuple(view.certificate.names[place] for place in places)
    return Grid(
        ("row", "answer", "expected", "±", *names), tuple(rows), len(set(view.rows)) - len(rows)
    )


def _place_text(view: SearchView, row: int, place: int) -> str:
    column, beliefs = view.columns[place], view.search.beliefs
    assert column is not None
    # The same digits for all rows: those that a row has on the whole.
    variance = float(beliefs.variance[:, place].mean())
    return value_text(column, float(beliefs.mean[row, place]), math.sqrt(variance))


def length_scales(view: SearchView) -> Grid:
    """How far outcomes reach in each column: in units of distance, its own, and of its width."""
    scales = view.search.modeler.prior.scales(len(view.columns)).tolist()
    own = view.certificate.projection is None
    head = ("column", "length scale, units of distance", "in its own unit", "of its width")
    rows = []
    for name, column, scale, width in zip(
        view.certificate.names, view.columns, scales, view.widths.tolist(), strict=True
    ):
        length = () if column is None else (length_text(column, scale),)
        rows.append((name, number_text(scale, 3), *length, share_text(scale / width)))
    return _cut(head if own else (*head[:2], head[3]), rows)


def learnt(view: SearchView) -> Facts:
    """Variances and the mean that the search assumes at present."""
    prior = view.search.modeler.prior
    added = ""
    if view.answer_noise and not view.given:
        added = f", of which the curator added {number_text(view.answer_noise, 3)}"
    source = "the answers; learnt again whenever their number has grown by a quarter"
    return (
        ("source", "given beforehand" if view.given else source),
        ("mean of outcomes", number_text(prior.mean, 4)),
        ("spread of outcomes", _spread(prior.variance)),
        ("noise of an answer", _spread(prior.noise) + added),
        ("kernel", _KERNELS[prior.family]),
    )


def _spread(variance: float) -> str:
    deviation = number_text(math.sqrt(variance), 3)
    return f"standard deviation {deviation} (variance {number_text(variance, 3)})"


def promised(view: SearchView) -> Facts:
    """The certificate as a list."""
    certificate = view.certificate
    guarantee, full = certificate.guarantee, certificate.full_replacement
    noise = certificate.mechanism.noise
    sources = tuple(dict.fromkeys((*guarantee.noise, *_answer_sources(view))))
    return (
        ("epsilon", rounded_up(guarantee.epsilon)),
        ("delta", rounded_up(guarantee.delta)),
        ("radius", _radius(view)),
        (
            "full replacement",
            f"epsilon = {rounded_up(full.epsilon)}, delta = {rounded_up(full.delta)}",
        ),
        ("noise", _noise(view)),
        ("projection", _projection(view)),
        ("answers", _answers(view)),
        ("repeats", f"a row may be asked for {times_text(certificate.repeats)}"),
        ("rows", f"{certificate.rows:,}, in a random order that the curator keeps"),
        ("releases", _releases(view)),
        ("noise source", "; ".join(sources) or noise),
    )


def columns(view: SearchView) -> Grid:
    """The public columns: bounds, the unit of distance, the radius and the noise in it."""
    certificate, rows = view.certificate, []
    released = certificate.projection is None
    for column in certificate.bounds.columns:
        lower, upper = bound_texts(column)
        cells = [column.name, lower, upper, length_text(column, 1.0), _reach(view, column)]
        if released:
            scale = certificate.mechanism.scale
            cells += [length_text(column, scale), share_text(scale / column.extent)]
        rows.append(tuple(cells))
    head = ("column", "from", "to", "one unit", "neighbours differ by")
    return _cut((*head, "noise", "of the width") if released else head, rows)


def settings(view: SearchView) -> Facts:
    """How the search was done."""
    chosen, counts = view.search.settings, view.turn
    asked = f"{len(counts.asked):,} asked of at most {max(view.rounds, len(counts.asked)):,}"
    parts = [asked, f"{counts.answered:,} answered"]
    parts += [f"{view.count('impossible'):,} cannot be measured", f"{counts.waiting:,} are waiting"]
    assert chosen.acquisition in ACQUISITIONS
    first = f"seed {chosen.seed}"
    if view.warm_up:
        first = f"{counted(view.warm_up, 'row')} drawn at random, seed {chosen.seed}"
    return (
        ("searched", f"the {'lowest' if chosen.minimize else 'highest'} outcome"),
        ("questions", "; ".join(parts)),
        ("next row", f"{_RULES.get(chosen.acquisition, '')} ({chosen.acquisition})"),
        ("first rows", first),
        ("kernel", _KERNELS[chosen.family]),
        ("length scales", "given beforehand" if view.given else "learnt from the answers"),
        ("release", view.search.release),
    )


def simulated(view: SearchView) -> bool:
    """Whether noise came from a generator that can be repeated, which protects nobody."""
    sources = (*view.certificate.guarantee.noise, *_answer_sources(view))
    return any("simulation only" in source for source in sources)


def _answer_sources(view: SearchView) -> tuple[str, ...]:
    both = view.certificate.with_answers
    return () if both is None else both.noise


def _radius(view: SearchView) -> str:
    certificate = view.certificate
    if certificate.radius >= certificate.bounds.diameter:
        return "any: neighbours are tables that differ in one row, wherever it moves"
    apart = rounded_up(certificate.bounds.diameter)
    return (
        f"{_units(certificate.radius)}: neighbours are tables that differ in one row, which moves "
        f"by at most that; rows can be {apart} apart"
    )


def _reach(view: SearchView, column: PublicColumn) -> str:
    """How far a neighbour may be off in one column alone."""
    radius = view.certificate.radius
    return "any value" if radius >= column.extent else f"up to {length_text(column, radius)}"


def _noise(view: SearchView) -> str:
    scale = view.certificate.mechanism.scale
    text = f"normal, standard deviation {_units(scale)} on every number"
    shares = scale / view.widths
    low, high = share_text(float(shares.min())), share_text(float(shares.max()))
    return f"{text}, {low if low == high else f'{low} to {high}'} of the width of its values"


def _units(length: float) -> str:
    return f"{number_text(length, 3)} unit{'' if length == 1.0 else 's'} of distance"


def _projection(view: SearchView) -> str:
    projection = view.certificate.projection
    if projection is None:
        return "none: all columns were released"
    before, after = projection.matrix.shape
    return (
        f"{counted(before, 'column')} to {counted(after, 'number')}, drawn at random and public; "
        f"distances grow by a factor of at most {number_text(projection.gain, 3)}"
    )


def _answers(view: SearchView) -> str:
    answers = view.certificate.answers
    if answers is None:
        return "not protected: they are given as they are"
    low, high = number_text(answers.lower), number_text(answers.upper)
    return (
        f"protected: cut to {low} to {high}, with normal noise of standard deviation "
        f"{number_text(answers.scale, 3)}; all about one person cost epsilon = "
        f"{rounded_up(answers.epsilon)}, delta = {rounded_up(answers.delta)}"
    )


def _releases(view: SearchView) -> str:
    earlier = len(view.certificate.earlier)
    if not earlier:
        return "this is the first of this table"
    return f"{earlier + 1} of the table; epsilon covers all of them together"


def _cut(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Grid:
    return Grid(head, tuple(rows[:_COLUMNS]), max(len(rows) - _COLUMNS, 0))
