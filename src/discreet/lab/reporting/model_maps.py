"""The map of a model that predicts anywhere: where it expects the reward to be high, how surely.

Over two columns, the expected reward as colours and its standard deviation as contour lines; over
one, a line with a band. The other columns stand where the study's `[report]` says. Marks show where
people are sent, which is public because it follows from what was released, and where it is truly
best, which only a simulation knows.

| array     | shape  | meaning                                                               |
|-----------|--------|-----------------------------------------------------------------------|
| places    | (n,)   | along a shown column, in declared units                               |
| mean      | (N,)   | expected reward at the points of a grid                               |
| deviation | (N,)   | how far it may be off, one standard deviation                         |
| possible  | (N,)   | whether anybody can be given the point; the rest stays blank          |
| sent      | (m, a) | where people are sent, along the a shown columns                      |
| shares    | (m,)   | the share of the people who are sent there                            |
| best      | (k, a) | where the mean reward is truly highest                                |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from scipy.ndimage import maximum_filter

from discreet.lab.environments.base import Problem
from discreet.lab.reporting.cuts import Cut, Map, draw_column, draw_dots
from discreet.lab.reporting.figures import heat
from discreet.lab.reporting.layout import BLUE, INK, SMALL, VERMILLION
from discreet.people.domain import PublicSet
from discreet.validation import BoolArray, FloatArray, InvalidInput

_GRID = 61  # places along each column
_CELLS = 41  # along each column; points that share one are one dot
_LEAST = 0.02  # dots with less than this share of the largest are left out
_FINEST = 2801  # places along each column where it is looked whether anybody can be sent there
_FINE = 121  # places along each column where the best point is searched for
_MOST_BEST = 6  # more best points than this are a plateau, which no marks can show
_PEOPLE = 15  # people along a column for whom it is shown what they are given
_BLANK = "#EDEDED"
_THIN = [withStroke(linewidth=1.6, foreground=(0.13, 0.13, 0.13, 0.55))]
RED: dict[str, Any] = {"color": VERMILLION, "markeredgecolor": "white"}
TRUE_LINE: dict[str, Any] = {
    "color": "white",
    "linewidth": 1.4,
    "path_effects": [withStroke(linewidth=2.8, foreground=INK)],
    "zorder": 3,
}


@runtime_checkable
class Predicts(Protocol):
    """A policy that says what it expects anywhere."""

    def predict(self, X: Any) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean and standard deviation at points (n, d)."""


@runtime_checkable
class SendsPeople(Protocol):
    """A policy that says where it sends everyone."""

    def sent(self) -> tuple[tuple[tuple[int, ...], FloatArray, FloatArray], ...]:
        """For groups of columns that are drawn independently of each other: the columns, their
        points (N_g, d_g) in the units of the domain, and the probabilities (N_g,)."""


@runtime_checkable
class ActsOnSets(Protocol):
    """A policy that chooses from people's own decision sets."""

    def act(self, contexts: Any, rng: np.random.Generator) -> tuple[Any, FloatArray]:
        """Actions with their points (n, d), and propensities."""


@dataclass(frozen=True)
class Marks:
    """See the module's table.

    Attributes:
        joined: whether `best` is a curve, a best point for each kind of person, and `sent` has a
            dot for some of them; otherwise everyone can be sent to the same points.
    """

    sent: FloatArray
    shares: FloatArray
    best: FloatArray
    joined: bool = False


@dataclass(frozen=True)
class ModelMap(Map):
    """One cut through a model (see the module's table); `marks` is what is marked on it."""

    kind: ClassVar[str] = "model"

    places: tuple[FloatArray, ...]
    mean: FloatArray
    deviation: FloatArray
    possible: BoolArray
    marks: Marks

    @property
    def seen(self) -> FloatArray:
        return self.mean[self.possible]

    def draw(self, axes: Axes, scale: tuple[float, float], room: float) -> Any:
        domain = self.problem.domain
        draw_column(axes.xaxis, domain, self.cut.axes[0], room)
        if self.flat:
            return self._curve(axes)
        x, y = self.places
        shape = (len(x), len(y))
        possible = self.possible.reshape(shape)
        deviation = np.where(possible, self.deviation.reshape(shape), np.nan)
        colors = heat(axes, x, y, self.mean.reshape(shape), scale, smooth=True)
        draw_column(axes.yaxis, domain, self.cut.axes[1], 2.4)
        if not possible.all():
            axes.contourf(x, y, possible.T.astype(float), levels=[-0.5, 0.5], colors=[_BLANK])
        if possible.any() and np.nanmax(deviation) - np.nanmin(deviation) > 1e-9:
            lines = axes.contour(x, y, deviation.T, levels=4, colors="white", linewidths=0.8)
            lines.set(path_effects=_THIN)
            for text in axes.clabel(lines, fontsize=SMALL - 1.5, fmt="±%.2g"):
                text.set(path_effects=_THIN)
        axes.set_xlim(x[0], x[-1])
        axes.set_ylim(y[0], y[-1])
        if self.marks.joined:
            axes.plot(*self.marks.best.T, **TRUE_LINE)
            draw_dots(axes, self.marks.sent, np.full(len(self.marks.sent), 20.0))
        else:
            draw_dots(axes, self.marks.sent, np.maximum(160.0 * self.marks.shares, 2.0))
            _stars(axes, self.marks.best)
        return colors

    def _curve(self, axes: Axes) -> None:
        """One column: the mean with a band, people along the lower border, best points as stars."""
        (x,) = self.places
        mean = np.where(self.possible, self.mean, np.nan)
        low, high = mean - self.deviation, mean + self.deviation
        axes.fill_between(x, low, high, color=BLUE, alpha=0.18, linewidth=0)
        axes.plot(x, mean, color=BLUE, linewidth=1.8)
        axes.set_xlim(x[0], x[-1])
        bottom, top = (np.nanmin(low), np.nanmax(high)) if self.possible.any() else (0.0, 1.0)
        pad = 0.08 * (top - bottom) + 1e-9
        axes.set_ylim(bottom - 1.5 * pad, top + pad)
        axes.set_ylabel("expected reward", fontsize=SMALL, color=INK)
        sent, best = self.marks.sent[:, 0], self.marks.best[:, 0]
        sizes = np.maximum(160.0 * self.marks.shares, 2.0)
        draw_dots(axes, np.column_stack([sent, np.full(len(sent), bottom - 0.7 * pad)]), sizes)
        _stars(axes, np.column_stack([best, np.interp(best, x, self.mean)]))

    def handles(self) -> list[Artist]:
        marks, entries = self.marks, list[Artist]()
        if len(marks.sent):
            label = "given" if marks.joined else "where people are sent"
            entries.append(
                Line2D([], [], marker="o", linestyle="", markersize=6, label=label, **RED)
            )
        if marks.joined:
            entries.append(Line2D([], [], label="truly best", **TRUE_LINE))
        elif len(marks.best):
            label = "true optimum" + (" of this cut" if self.cut.title else "")
            star: dict[str, Any] = {"linestyle": "", "color": "white", "markeredgecolor": INK}
            entries.append(Line2D([], [], marker="*", markersize=10, label=label, **star))
        if not self.possible.all():
            entries.append(Patch(facecolor=_BLANK, label="nobody can be given this"))
        return entries


def _stars(axes: Axes, places: FloatArray) -> None:
    """Where (n, 2) the mean reward is truly highest."""
    star: dict[str, Any] = {"s": 95, "marker": "*", "c": "white", "edgecolors": INK}
    axes.scatter(*places.T, linewidths=0.9, zorder=6, clip_on=False, **star)


def model_map(policy: object, problem: Problem, cut: Cut) -> ModelMap | None:
    """A cut through what a policy predicts.

    None where it predicts nothing, or at a few points only (finite features) instead of everywhere.
    """
    if not isinstance(policy, Predicts):
        return None
    domain = problem.domain
    steps = [np.linspace(0.0, 1.0, _GRID)] * len(cut.axes)
    for place in range(len(steps)):
        # The part of the bounds outside which nobody can be sent.
        finer = [*steps[:place], np.linspace(0.0, 1.0, _FINEST), *steps[place + 1 :]]
        grid = problem.possible(domain.from_unit(cut.points(finer)))
        others = tuple(axis for axis in range(len(steps)) if axis != place)
        somebody = np.flatnonzero(grid.reshape([len(part) for part in finer]).any(axis=others))
        if len(somebody):
            ends = finer[place][somebody[[0, -1]]]
            steps[place] = np.linspace(ends[0], ends[1], _GRID)
    points = domain.from_unit(cut.points(steps))
    try:
        mean, deviation = policy.predict(points)
    except InvalidInput:
        return None
    places = tuple(
        domain.lower[column] + part * (domain.upper[column] - domain.lower[column])
        for column, part in zip(cut.axes, steps, strict=True)
    )
    possible = problem.possible(points)
    marks = marks_of(policy, problem, cut)
    return ModelMap(cut, problem, places, mean, deviation, possible, marks)


def marks_of(policy: object, problem: Problem, cut: Cut) -> Marks:
    """The marks on a cut through what a policy released."""
    sets = problem.decision_sets(problem.domain.from_unit(cut.point[None]))
    if sets is not None and isinstance(policy, ActsOnSets):
        (differs,) = np.flatnonzero(np.ptp(sets[0], axis=0) > 0.0)
        if differs in cut.axes:
            return _people(policy, problem, cut, [a for a in cut.axes if a != differs])
    if not isinstance(policy, SendsPeople):
        return Marks(np.zeros((0, len(cut.axes))), np.zeros(0), _best(problem, cut))
    return Marks(*_sent(policy, problem, cut), _best(problem, cut))


def _people(policy: ActsOnSets, problem: Problem, cut: Cut, other: list[int]) -> Marks:
    """People along the other shown column: the best point of each, and what some are given."""
    count = _FINE if other else 1
    unit = np.tile(cut.point, (count, 1))
    unit[:, other] = np.linspace(0.0, 1.0, count)[:, None]
    sets = problem.decision_sets(problem.domain.from_unit(unit))
    assert sets is not None
    means = problem.truth(sets.reshape(-1, sets.shape[2]))
    assert means is not None
    best = sets[np.arange(count), means.reshape(sets.shape[:2]).argmax(axis=1)]
    some = sets[np.linspace(0, count - 1, min(count, _PEOPLE)).astype(np.int64)]
    actions, _ = policy.act(some, np.random.default_rng(0))
    columns = list(cut.axes)
    shares = np.full(len(some), 1.0 / len(some))
    return Marks(actions.points[:, columns], shares, best[:, columns], joined=bool(other))


def _sent(policy: SendsPeople, problem: Problem, cut: Cut) -> tuple[FloatArray, FloatArray]:
    """Where everyone is sent, over the shown columns whatever the others are."""
    axes = list(cut.axes)
    groups = policy.sent()
    if not groups:
        return np.zeros((0, len(axes))), np.zeros(0)
    points, shares = np.zeros((1, len(axes))), np.ones(1)
    for columns, grid, offers in groups:
        shown = [place for place, axis in enumerate(axes) if axis in columns]
        if not shown:
            continue
        # Groups are drawn independently of each other.
        part = grid[:, [columns.index(axes[place]) for place in shown]]
        low = np.array(problem.domain.lower)[[axes[place] for place in shown]]
        high = np.array(problem.domain.upper)[[axes[place] for place in shown]]
        centres, weights = _gathered(part, offers, low, high)
        points = np.repeat(points, len(centres), axis=0)
        points[:, shown] = np.tile(centres, (len(shares), 1))
        shares = np.repeat(shares, len(weights)) * np.tile(weights, len(shares))
    kept = shares >= _LEAST * shares.max()
    return points[kept], shares[kept]


def _gathered(
    points: FloatArray, weights: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Points (n, a) between `low` and `high` gathered in cells: mean place and weight of each."""
    cells = np.round((points - low) / (high - low) * (_CELLS - 1))
    _, where = np.unique(cells, axis=0, return_inverse=True)
    where = where.reshape(-1)
    total = np.bincount(where, weights).astype(np.float64)
    used = total > 0.0
    sums = [np.bincount(where, weights * column) for column in points.T]
    return np.stack(sums, axis=1)[used] / total[used, None], total[used]


def _best(problem: Problem, cut: Cut) -> FloatArray:
    """(k, a) the best points of the cut; of the set, where only some points can be given."""
    nothing, axes = np.zeros((0, len(cut.axes))), list(cut.axes)
    if isinstance(problem.space, PublicSet):
        points = problem.space.array
        known = problem.truth(points)
        top = np.zeros(0) if known is None else known >= known.max() - 1e-9
    else:
        points = problem.domain.from_unit(cut.points([np.linspace(0.0, 1.0, _FINE)] * len(axes)))
        known = problem.truth(points)
        if known is not None:
            values = known.reshape((_FINE,) * len(axes))
            peak = values >= maximum_filter(values, size=3)
            top = (peak & (values >= values.max() - 1e-3 * np.ptp(values))).ravel()
    if known is None or problem.decision_sets(points[:1]) is not None:
        return nothing
    best = points[top][:, axes]
    return best if 0 < len(best) <= _MOST_BEST else nothing
