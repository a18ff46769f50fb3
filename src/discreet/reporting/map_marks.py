"""What is marked on the map of a model: where people are sent, and where it is truly best.

Where people are sent is public, because it follows from what was released. Where it is truly best
is known in simulations only, from the problem's own function.

| array   | shape  | meaning                                                               |
|---------|--------|-----------------------------------------------------------------------|
| points  | (n, d) | points in the units of the domain                                     |
| sent    | (m, a) | where people are sent, along the a shown columns                      |
| shares  | (m,)   | the share of the people who are sent there                            |
| best    | (k, a) | where the mean reward is truly highest                                |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.action_space import PublicSet
from discreet.learners.baselines.exact_gp_ucb import ExactGPPolicy
from discreet.learners.gp_ucb.public_points import PublicPolicy
from discreet.learners.points import PointPolicy
from discreet.problems.base import Problem
from discreet.problems.decision_sets import DoseProblem, dose_means
from discreet.problems.functions import FunctionProblem
from discreet.reporting.maps import MapPanel
from discreet.validation import BoolArray, FloatArray

_CELLS = 41  # along each column; points that share one are one dot
_LEAST = 0.02  # dots with less than this share of the largest are left out
_FINE = 121  # places along each column where a function is searched for its best point
_MOST_BEST = 6  # more best points than this are a plateau, which no marks can show
_PEOPLE = 15  # people along a column for whom a dose is shown


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


def marks_of(policy: object, problem: Problem, panel: MapPanel) -> Marks:
    """The marks on the cut `panel` through what a policy released."""
    if isinstance(problem, DoseProblem) and isinstance(policy, PointPolicy) and 0 in panel.axes:
        return _doses(policy, problem, panel)
    sent, shares = _sent(policy, panel)
    return Marks(sent, shares, _best(problem, panel))


def can_be_given(problem: Problem, points: FloatArray) -> BoolArray:
    """(n,) which points some person could be given, as far as the problem's rules tell."""
    if not isinstance(problem, DoseProblem):
        return np.ones(len(points), dtype=np.bool_)
    largest = problem.doses(points[:, 1:])[:, -1, 0]
    return np.asarray(points[:, 0] <= largest * (1.0 + 1e-9))


def shown_ranges(problem: Problem, panel: MapPanel) -> tuple[tuple[float, float], ...]:
    """For each shown column the part of its bounds, in [0, 1], outside which nobody is sent."""
    ends = [(0.0, 1.0)] * len(panel.axes)
    if isinstance(problem, DoseProblem) and 0 in panel.axes:
        # The heaviest patients of the cut have the largest dose.
        unit = panel.point[None].copy()
        unit[:, list(panel.axes)] = 1.0
        largest = problem.doses(problem.domain.from_unit(unit)[:, 1:])[0, -1, 0]
        ends[panel.axes.index(0)] = (0.0, float(largest / problem.domain.upper[0]))
    return tuple(ends)


def _doses(policy: PointPolicy, problem: DoseProblem, panel: MapPanel) -> Marks:
    """Patients along the other shown column: the best dose of each, and what some are given."""
    other = [axis for axis in panel.axes if axis != 0]
    count = _FINE if other else 1
    unit = np.tile(panel.point, (count, 1))
    unit[:, other] = np.linspace(0.0, 1.0, count)[:, None]
    sets = problem.doses(problem.domain.from_unit(unit)[:, 1:])
    best = sets[np.arange(count), dose_means(sets).argmax(axis=1)]
    some = sets[np.linspace(0, count - 1, min(count, _PEOPLE)).astype(np.int64)]
    actions, _ = policy.act(some, np.random.default_rng(0))
    assert actions.points is not None
    columns = list(panel.axes)
    shares = np.full(len(some), 1.0 / len(some))
    return Marks(actions.points[:, columns], shares, best[:, columns], joined=bool(other))


def _sent(policy: object, panel: MapPanel) -> tuple[FloatArray, FloatArray]:
    """Where everyone is sent, over the shown columns whatever the others are."""
    axes = list(panel.axes)
    if isinstance(policy, ExactGPPolicy) and policy.choice.size:
        return policy.choice[None, axes], np.ones(1)
    if not isinstance(policy, PublicPolicy):
        return np.zeros((0, len(axes))), np.zeros(0)
    points, shares = np.zeros((1, len(axes))), np.ones(1)
    for group in policy.groups:
        columns, grid, offers = group.columns, group.grid, group.offers
        shown = [place for place, axis in enumerate(axes) if axis in columns]
        if not shown:
            continue
        # Groups are drawn independently of each other.
        part = grid[:, [columns.index(axes[place]) for place in shown]]
        low = np.array(policy.domain.lower)[[axes[place] for place in shown]]
        high = np.array(policy.domain.upper)[[axes[place] for place in shown]]
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


def _best(problem: Problem, panel: MapPanel) -> FloatArray:
    """(k, a) the best points of the cut; of the set, where only some points can be given."""
    nothing = np.zeros((0, len(panel.axes)))
    if not isinstance(problem, FunctionProblem):
        return nothing
    axes = list(panel.axes)
    if isinstance(problem.space, PublicSet):
        points = problem.space.array
        values = problem.function(points)
        best = points[values >= values.max() - 1e-9][:, axes]
        return best if len(best) <= _MOST_BEST else nothing
    steps = np.linspace(0.0, 1.0, _FINE)
    mesh = np.stack(np.meshgrid(*[steps] * len(axes), indexing="ij"), axis=-1)
    unit = np.tile(panel.point, (mesh[..., 0].size, 1))
    unit[:, axes] = mesh.reshape(-1, len(axes))
    points = problem.domain.from_unit(unit)
    values = problem.function(points).reshape(mesh.shape[:-1])
    top = _peaks(values) & (values >= values.max() - 1e-3 * np.ptp(values))
    best = points[top.ravel()][:, axes]
    return best if 0 < len(best) <= _MOST_BEST else nothing


def _peaks(values: FloatArray) -> BoolArray:
    """Where no neighbour on the grid, along rows, columns and diagonals, is higher."""
    padded = np.pad(values, 1, constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3,) * values.ndim)
    around = windows.max(axis=tuple(range(values.ndim, 2 * values.ndim)))
    return np.asarray(values >= around)
