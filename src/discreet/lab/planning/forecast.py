"""The results of a plan: gains and losses with their intervals, verdicts, and inverse questions.

**Gain** is the mean worth of all people served, less that of the reference: one choice for
everyone, the arm that proved best for all of them (choosing at random where everybody brings points
of their own). **Kept** is the share of the gain without privacy, over the same number of people,
and **loss** the rest:

    kept(epsilon, n) = gain(epsilon, n) / gain(no privacy, n),        loss = 1 - kept.

Both exist only for numbers of people at which the gain without privacy is clearly above 0.

| array | shape         | meaning                                                           |
|-------|---------------|-------------------------------------------------------------------|
| worth | (r, h)        | the metric per person, more is better; a row for each replicate,  |
|       |               | a column for each horizon                                         |
| gain  | (r, h)        | the same less that of the reference on the same people            |
| grid  | (g,)          | numbers of people, from the smallest horizon to `REACH` times the |
|       |               | largest                                                           |
| means | (1 + b, h)    | over replicates; row 0 the estimate, the others resampled         |
| curve | (1 + b, g)    | gain at the grid, as an estimate and at best                      |
| kept  | (1 + b, e, g) | row 0 the estimate, others resampled; a place for each epsilon    |

All three inverse questions read the same `kept`, so they agree with each other. Between epsilons it
runs straight over their logarithm; outside of those simulated there is no answer.

Notes
-----
**Between horizons** a curve is the monotone cubic of Fritsch and Butland (SciPy's PCHIP) over the
logarithm of the number of people: straight lines would cut the bend where learning takes off.

**Beyond the largest horizon N** regret goes on growing as it did over the last doubling. With c the
most that a person could gain, S(n) = n (c - G(n)) is what n people missed together, and

    S(n) = S(N) (n / N)^p,        p = log(S(N) / S(N')) / log(N / N'), at most 1,

N' the horizon before N; with privacy p is never below that without. For a learner that learns, p
falls with n (to 1/2 where regret grows as sqrt(n), to 0 where it stops), so this curve promises too
little, and most of all where learning has just taken off. At best, people from N on miss no more
than without privacy, S(n) = S(N) + S_free(n) - S_free(N). The first curve is the estimate, and an
interval reaches from the one to the other, with what chance adds to each.

Where mean rewards are known c is that of the best choice for each person; otherwise it is where the
line without privacy ends if it misses something as sqrt(n) grows. Nothing is read beyond `REACH`
times N.

**Intervals** are of the bootstrap over replicates, all lines resampled together. A resample of r
replicates is too narrow by a factor, so deviations of resampled means from the mean are stretched
by sqrt(r / (r - 1)) t / z, t and z the 97.5% quantiles of Student's t with r - 1 degrees of freedom
and of the normal law (Hesterberg, What teachers should know about the bootstrap, 2015, has the same
correction on percentiles).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri, stdtrit

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import BEST_FIXED, UNIFORM, Setting
from discreet.lab.experiments.means import CONFIDENCE, half_width, mean_and_error
from discreet.lab.planning.odds import Explanation, explain
from discreet.privacy import Guarantee
from discreet.records import PLANNED, Value
from discreet.validation import FloatArray, InvalidInput, number_from

if TYPE_CHECKING:
    import pandas as pd


# Curves.


REACH = 4
"""How many times as many people as were simulated an answer may be about."""
RESAMPLES = 400
_POINTS = 160  # of the grid
_TAIL = 0.5 * (1.0 - CONFIDENCE)
_STEADY = 0.5  # the power with which people miss something in all, where nothing else is known


@dataclass(frozen=True, eq=False)
class Curve:
    """One line's gain at the grid; in row 0 of its arrays replicates are not resampled.

    Attributes:
        grid: (g,) numbers of people.
        gain: (1 + b, g) as regret goes on growing.
        best: (1 + b, g) the same up to the largest horizon, and beyond it as much as can be hoped
            for.
        power: (1 + b,) by which what is missed goes on growing.
    """

    grid: FloatArray
    gain: FloatArray
    best: FloatArray
    power: FloatArray

    def at(self, people: float) -> FloatArray:
        """(1 + b,) gain at a number of people within the grid."""
        return along(self.grid, self.gain, people)


def grid_of(horizons: FloatArray) -> FloatArray:
    """(g,) the numbers of people at which curves are kept; every horizon is one of them."""
    spread = np.geomspace(horizons[0], REACH * horizons[-1], _POINTS)
    return np.unique(np.concatenate([spread, horizons]))


def resamples(replicates: int, seed: int) -> FloatArray:
    """(b, r) weights of replicates in each resample."""
    rng = np.random.default_rng([seed, replicates])
    drawn = rng.integers(replicates, size=(RESAMPLES, replicates))
    return (
        np.stack([(drawn == each).sum(axis=1) for each in range(replicates)], axis=1) / replicates
    )


def stretch(replicates: int) -> float:
    """How much wider resampled means must lie for as many replicates; 0 for a single one."""
    if replicates < 2:
        return 0.0
    quantile = float(stdtrit(replicates - 1, 1.0 - _TAIL)) / float(ndtri(1.0 - _TAIL))
    return quantile * math.sqrt(replicates / (replicates - 1))


def resampled_means(gain: FloatArray, weights: FloatArray) -> FloatArray:
    """(1 + b, h) the mean over replicates, and stretched resampled means."""
    mean = gain.mean(axis=0)
    moved = mean + stretch(len(gain)) * (weights @ gain - mean)
    return np.vstack([mean, moved])


def curve_of(
    means: FloatArray,
    horizons: FloatArray,
    ceiling: FloatArray | float,
    free: Curve | None = None,
) -> Curve:
    """A line's curve.

    Args:
        means: (1 + b, h) of `resampled_means`.
        horizons: (h,).
        ceiling: (1 + b,) or a number: the most that a person could gain.
        free: the curve without privacy; None for that curve itself.
    """
    grid = grid_of(horizons)
    inside = grid <= horizons[-1]
    power = power_of(means, horizons, ceiling)
    if free is not None:
        power = np.maximum(power, free.power)  # privacy makes no one learn faster
    most, last = _column(ceiling, len(means)), means[:, -1:]
    more = grid[~inside] / horizons[-1]
    # Who is above the ceiling by chance stays there.
    top, missed = np.maximum(most, last), np.maximum(most - last, 0.0)
    gain = best = top - missed * more ** (power[:, None] - 1.0)
    if free is not None:
        end = int(inside.sum()) - 1
        growth = more * (most - free.gain[:, ~inside]) - (most - free.gain[:, end : end + 1])
        best = np.maximum(gain, top - (missed + np.maximum(growth, 0.0)) / more)
    between = _between(means, horizons, grid[inside])
    return Curve(grid, np.hstack([between, gain]), np.hstack([between, best]), power)


def _between(means: FloatArray, horizons: FloatArray, people: FloatArray) -> FloatArray:
    """(1 + b, n) gains at numbers of people within the horizons."""
    if len(horizons) < 2:
        return np.repeat(means, len(people), axis=1)
    curve: FloatArray = PchipInterpolator(np.log(horizons), means, axis=1)(np.log(people))
    return curve


def power_of(means: FloatArray, horizons: FloatArray, ceiling: FloatArray | float) -> FloatArray:
    """(1 + b,) the power by which what all people missed grew over the last doubling, 0 to 1."""
    power = np.ones(len(means))
    if len(horizons) < 2:
        return power
    missed = np.maximum(_column(ceiling, len(means)) - means, 0.0) * horizons
    before, last = missed[:, -2], missed[:, -1]
    both = (before > 0.0) & (last > 0.0)
    steps = np.log(np.divide(last, before, out=np.ones_like(last), where=both))
    return np.clip(steps / math.log(horizons[-1] / horizons[-2]), 0.0, 1.0)


def _column(values: FloatArray | float, rows: int) -> FloatArray:
    """(rows, 1) of a vector or a number."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), rows)[:, None]


def steady_ceiling(means: FloatArray, horizons: FloatArray) -> FloatArray:
    """(1 + b,) where a line ends that misses something as the square root of people grows.

    With G(n) = c - b n^(-1/2), c = G(N) + (G(N) - G(N')) / (sqrt(N / N') - 1).
    """
    if len(horizons) < 2:
        return means[:, -1]
    rise = np.maximum(means[:, -1] - means[:, -2], 0.0)
    ceiling: FloatArray = means[:, -1] + rise / ((horizons[-1] / horizons[-2]) ** _STEADY - 1.0)
    return ceiling


def along(places: FloatArray, rows: FloatArray, at: float) -> FloatArray:
    """(b,) each row (b, n) at a place between `places` (n,), straight over their logarithm."""
    spot = float(np.interp(math.log(at), np.log(places), np.arange(len(places))))
    low = min(int(spot), len(places) - 1)
    high = min(low + 1, len(places) - 1)
    return rows[:, low] + (spot - low) * (rows[:, high] - rows[:, low])


def first_from(places: FloatArray, rows: FloatArray, target: float) -> FloatArray:
    """(b,) for each row (b, n) the place from which on it is at least `target` to the end.

    Infinity where the last value is not; the first place where all are. Between places it runs
    straight over their logarithm. NaN counts as below.
    """
    logs = np.log(places)
    above = rows >= target
    last_below = above.shape[1] - 1 - np.argmax(~above[:, ::-1], axis=1)
    crossed = np.empty(len(rows))
    for row in range(len(rows)):
        if above[row].all():
            crossed[row] = places[0]
        elif not above[row, -1]:
            crossed[row] = np.inf
        else:
            low = int(last_below[row])
            before, after = rows[row, low], rows[row, low + 1]
            share = (target - before) / (after - before) if np.isfinite(before) else 1.0
            crossed[row] = math.exp(logs[low] + share * (logs[low + 1] - logs[low]))
    return crossed


def interval(lower: FloatArray, upper: FloatArray | None = None) -> tuple[float, float]:
    """The middle 95% of resampled values, of which some may be infinite.

    Args:
        lower: of which the lower end is taken.
        upper: of which the upper end is taken, if these are others.
    """
    low = float(np.quantile(lower, _TAIL, method="lower"))
    high = float(np.quantile(lower if upper is None else upper, 1.0 - _TAIL, method="higher"))
    return low, high


FEWEST = 6
"""Replicates below which there is no verdict: even if all of 5 agreed, the sign test would have a
one-sided p-value of 1/32, above the 2.5% of a verdict."""
LOSE_AT_MOST = 0.2
"""The limit on the loss where none was asked for."""
KEEP = (0.5, 0.8, 0.9)
_EPSILONS = 121  # at which `kept` is read between those simulated
_ROUNDING = 1e-12
_MOST = 1000  # replicates that a plan may be advised to take
_POWER = 0.8  # with which that number decides, if mean and spread are as estimated

Word = Literal["yes", "no", "cannot tell yet"]
Kind = Literal["private", "none", "reference"]
Asked = Literal["people", "epsilon", "loss"]


@dataclass(frozen=True, eq=False)
class PlanLine:
    """One line of a plan: a budget with the learner that it got, or a reference.

    Attributes:
        kind: private, none (no privacy) or reference.
        setting: what was simulated.
        worth: (r, h) what a person had on average, more is better.
        gain: (r, h) the same less that of the reference on the same people.
        guarantee: what was promised; None for references.
    """

    kind: Kind
    setting: Setting
    worth: FloatArray
    gain: FloatArray
    guarantee: Guarantee | None

    @property
    def epsilon(self) -> float | None:
        """Of the budget; None without privacy."""
        return self.setting.budget.epsilon if self.kind == "private" else None

    @property
    def learner(self) -> str:
        """The registered name of the learner or reference."""
        return self.setting.learner


@dataclass(frozen=True)
class PlanAnswer:
    """An answer to an inverse question, with its 95% interval.

    Attributes:
        asked: what it is a number of: people, epsilon, or loss as a share.
        value: the estimate; infinite beyond `most`, None where there is no gain to keep.
        low, high: the ends of the interval; they may lie at `least` or be infinite.
        least, most: the range of answers: beyond it an answer is "at most" or "more than".
        simulated: up to where it rests on simulations; beyond that on a curve.
    """

    asked: Asked
    value: float | None
    low: float
    high: float
    least: float
    most: float
    simulated: float

    @property
    def extrapolated(self) -> bool:
        """Whether the estimate lies beyond what was simulated."""
        return self.value is not None and self.simulated < self.value <= self.most

    @property
    def reached(self) -> bool:
        """Whether there is an estimate within what can be answered."""
        return self.value is not None and self.value <= self.most


@dataclass(frozen=True)
class Interval:
    """A mean over replicates with its 95% interval (Student's t); NaN with a single one."""

    mean: float
    low: float
    high: float


def student(values: FloatArray) -> Interval:
    """The mean of values (r,) with its interval."""
    mean, error = mean_and_error(values)
    half = half_width(error, len(values))
    return Interval(mean, mean - half, mean + half)


def ratio(part: FloatArray, whole: FloatArray) -> Interval:
    """Mean of `part` (r,) over mean of `whole` (r,), with Fieller's 95% interval.

    The interval holds all k for which Student's t does not reject mean(part - k whole) = 0, so it
    agrees with `verdict` on that difference. It is unbounded where the mean of `whole` is not
    clearly above 0, and NaN for a single replicate.

    Source: E. C. Fieller, Some problems in interval estimation (1954).
    """
    count = len(whole)
    p, w = float(part.mean()), float(whole.mean())
    if count < 2:
        return Interval(p / w, math.nan, math.nan)
    (pp, pw), (_, ww) = np.cov(part, whole) * half_width(1.0, count) ** 2 / count
    leading, middle = w * w - ww, p * w - pw
    if w <= 0.0 or leading <= 0.0:
        return Interval(p / w, -math.inf, math.inf)
    root = math.sqrt(max(middle * middle - leading * (p * p - pp), 0.0))
    return Interval(p / w, (middle - root) / leading, (middle + root) / leading)


@dataclass(frozen=True)
class Verdict:
    """Whether something holds, as far as the replicates tell.

    Attributes:
        word: yes, no, or cannot tell yet.
        replicates: in all that would probably decide; None where more than 1,000 would be needed.
    """

    word: Word
    replicates: int | None

    @property
    def open(self) -> bool:
        """Whether the replicates do not decide yet."""
        return self.word == "cannot tell yet"


def verdict(values: FloatArray, bar: float = 0.0) -> Verdict:
    """Whether the true mean of values (r,) is above a bar, by their 95% interval."""
    count, seen = len(values), student(values)
    if count >= FEWEST and seen.low > bar:
        return Verdict("yes", count)
    if count >= FEWEST and seen.high <= bar:
        return Verdict("no", count)
    counts = np.arange(max(count if count < FEWEST else count + 1, FEWEST), _MOST + 1)
    _, error = mean_and_error(values)
    spread = 0.0 if count < 2 else error * math.sqrt(count)
    sure = stdtrit(counts - 1, 0.5 + 0.5 * CONFIDENCE) + stdtrit(counts - 1, _POWER)
    enough = counts[spread * sure <= abs(seen.mean - bar) * np.sqrt(counts)]
    return Verdict("cannot tell yet", int(enough[0]) if len(enough) else None)


@dataclass(frozen=True)
class RaceResult:
    """How a contender did in the selection for a budget.

    Attributes:
        epsilon: of the budget; None for no privacy.
        setting: the contender under it.
        people: with how many it ran.
        replicates: how many it ran.
        mean: its worth per person, in these replicates; NaN without any.
        won: whether it was chosen.
        dropped: whether it was clearly behind after some rung.
    """

    epsilon: float | None
    setting: Setting
    people: int
    replicates: int
    mean: float
    won: bool
    dropped: bool


@dataclass(frozen=True)
class Advice:
    """What a plan recommends.

    Attributes:
        verdict: whether some epsilon that was tried keeps the gain asked for.
        epsilon: the smallest one that does, as all larger ones do; None unless the verdict is yes.
        best: the epsilon that keeps most of those simulated.
        people: with how many people.
        lose_at_most: the share of the gain that may be lost.
    """

    verdict: Verdict
    epsilon: float | None
    best: float
    people: int
    lose_at_most: float


@dataclass(frozen=True, eq=False)
class Forecast:
    """Everything that a plan knows; see the module.

    Attributes:
        name, title: of the study.
        problem: where the people came from.
        data: whose data planning used, and what that means, in sentences.
        horizons: increasing numbers of people.
        expected: how many people are expected.
        lines: private ones by increasing epsilon, no privacy, references.
        races: the contenders of all budgets, and who was selected.
        left_out: what was not simulated, each one or two sentences.
        lose_at_most: the share of the gain that may be lost.
        seed: of everything that was drawn.
        seconds: that planning took.
        seconds_each: that a replicate with all lines took.
        path: of the study file; None where there is none.
        question: which of the three was asked for, and the two that were given, if one was.
        others: private lines of other trust models at one epsilon, with all people only.
    """

    name: str
    title: str
    problem: Problem
    data: tuple[str, ...]
    horizons: tuple[int, ...]
    expected: int
    lines: tuple[PlanLine, ...]
    races: tuple[RaceResult, ...]
    left_out: tuple[str, ...]
    lose_at_most: float
    seed: int
    seconds: float
    seconds_each: float = 0.0
    path: Path | None = None
    question: tuple[Asked, float, float] | None = None
    others: tuple[PlanLine, ...] = ()

    @property
    def people(self) -> int:
        """The largest number of people that was simulated."""
        return self.horizons[-1]

    @property
    def limit(self) -> int:
        """The largest number of people that answers are about."""
        return REACH * self.people

    @property
    def replicates(self) -> int:
        """How many fresh ones all numbers rest on."""
        return len(self.free.gain)

    @property
    def private(self) -> tuple[PlanLine, ...]:
        """The lines that promise something, smallest epsilon first."""
        return tuple(line for line in self.lines if line.kind == "private")

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Those that were simulated, increasing."""
        return tuple(line.setting.budget.epsilon for line in self.private)

    @property
    def free(self) -> PlanLine:
        """The line without privacy."""
        return next(line for line in self.lines if line.kind == "none")

    @property
    def reference(self) -> PlanLine:
        """What gains are measured from: one choice for everyone, or chance."""
        kinds = {line.learner: line for line in self.lines if line.kind == "reference"}
        return kinds.get(BEST_FIXED, kinds[UNIFORM])

    @property
    def chance(self) -> PlanLine:
        """Choosing at random."""
        return next(line for line in self.lines if line.learner == UNIFORM)

    @property
    def fixed(self) -> bool:
        """Whether gains are measured from one choice for everyone."""
        return self.reference.learner == BEST_FIXED

    def line(self, epsilon: float) -> PlanLine:
        """The line of an epsilon that was simulated.

        Raises:
            InvalidInput: for another one.
        """
        epsilon = number_from(epsilon, "epsilon", 0.0)
        for line in self.private:
            if math.isclose(line.setting.budget.epsilon, epsilon):
                return line
        shown = ", ".join(f"{each:g}" for each in self.epsilons)
        raise InvalidInput(
            f"epsilon was {epsilon:g}; this plan simulated {shown}. Take one of them."
        )

    # What can be read off.

    def gain(self, line: PlanLine) -> Interval:
        """What a person gains under a line, with everybody."""
        return student(line.gain[:, -1])

    @cached_property
    def worthwhile(self) -> bool:
        """Whether the gain without privacy is clearly above 0, so that losses are shares of it."""
        return self.gain(self.free).low > self._rounding

    @property
    def _rounding(self) -> float:
        return _ROUNDING * float(np.abs(self.free.worth).max())

    @cached_property
    def gains(self) -> Verdict:
        """Whether choosing by person gains anything without privacy, with all who are expected."""
        return self._about_expected(verdict(self.free.gain[:, -1], self._rounding))

    @cached_property
    def verdicts(self) -> dict[float, Verdict]:
        """Whether each epsilon loses at most what may be lost; empty unless there is a gain.

        A yes is given from the largest epsilon downwards until the first that is no yes, a no from
        the smallest upwards. As each test counts only if those before it passed, all of them
        together err on either side with the probability of one, 2.5%.
        """
        if not self.worthwhile:
            return {}
        free = self.free.gain[:, -1]
        kept = 1.0 - self.lose_at_most
        found = {
            line.setting.budget.epsilon: self._about_expected(
                verdict(line.gain[:, -1] - kept * free, -self._rounding)
            )
            for line in self.private
        }
        for word, order in (("yes", reversed(self.epsilons)), ("no", iter(self.epsilons))):
            first: Verdict | None = None
            for epsilon in order:
                if first is None and found[epsilon].word != word:
                    first = found[epsilon]
                elif first is not None and found[epsilon].word == word:
                    found[epsilon] = Verdict("cannot tell yet", first.replicates)
        return found

    def _about_expected(self, found: Verdict) -> Verdict:
        """A verdict about fewer people than expected is none about these."""
        if self.people >= self.expected or found.open:
            return found
        return Verdict("cannot tell yet", found.replicates)

    @cached_property
    def curves(self) -> dict[float | None, Curve]:
        """The gain of each epsilon, and of no privacy, against the number of people."""
        horizons = np.asarray(self.horizons, dtype=np.float64)
        lines = (self.free, *self.private)
        weights = resamples(self.replicates, self.seed)
        means = [resampled_means(line.gain, weights) for line in lines]
        most = -float(self.reference.worth[:, -1].mean())  # regret is at least 0
        ceiling: FloatArray | float = most
        if self.problem.metric == "reward":
            upper = most + self.problem.reward_bounds.upper
            ceiling = np.minimum(steady_ceiling(means[0], horizons), upper)
        free = curve_of(means[0], horizons, ceiling)
        rest = zip(self.private, means[1:], strict=True)
        return {
            None: free,
            **{line.epsilon: curve_of(each, horizons, ceiling, free) for line, each in rest},
        }

    @property
    def grid(self) -> FloatArray:
        """(g,) numbers of people at which curves are kept."""
        return self.curves[None].grid

    @cached_property
    def kept(self) -> FloatArray:
        """(1 + b, e, g) see the module; NaN where no privacy gains nothing yet."""
        return self._shares([self.curves[each].gain for each in self.epsilons])

    @cached_property
    def kept_at_best(self) -> FloatArray:
        """(1 + b, e, g) the same as far as can be hoped for."""
        return self._shares([self.curves[each].best for each in self.epsilons])

    def _shares(self, gains: Sequence[FloatArray]) -> FloatArray:
        free = self.curves[None].gain
        clear = np.where(free > 0.0, free, np.nan)
        return np.stack([gain / clear for gain in gains], axis=1)

    # Inverse questions.

    def people_until_gain(self, epsilon: float) -> PlanAnswer:
        """From how many people on an epsilon beats one choice for everyone (see the module).

        Raises:
            InvalidInput: for an epsilon outside of those simulated.
        """
        places = self._place(epsilon)
        curves = [self.curves[each] for each in self.epsilons]
        rows = np.stack([curve.gain for curve in curves], axis=1)
        best = np.stack([curve.best for curve in curves], axis=1)
        return self._until(self._between(rows, places), self._between(best, places), 0.0)

    def people_for(self, epsilon: float, keep: float = 0.8) -> PlanAnswer:
        """From how many people on an epsilon keeps a share of the gain without privacy.

        Raises:
            InvalidInput: for an epsilon outside of those simulated, or a share beyond 0 to 1.
        """
        places = self._place(epsilon)
        target = number_from(keep, "keep", 0.0, 1.0)
        best = self._between(self.kept_at_best, places)
        return self._until(self._between(self.kept, places), best, target)

    def epsilon_for(self, people: float, lose_at_most: float = LOSE_AT_MOST) -> PlanAnswer:
        """The epsilon from which on at most a share of the gain is lost.

        Raises:
            InvalidInput: for a number of people out of range, or a share beyond 0 to 1.
        """
        lost = number_from(lose_at_most, "lose_at_most", 0.0, 1.0)
        spots, rows, best = self._over_epsilons(people)
        first, last = self.epsilons[0], self.epsilons[-1]
        if not self.worthwhile:
            return PlanAnswer("epsilon", None, math.nan, math.nan, first, last, last)
        crossed = first_from(spots, rows, 1.0 - lost)
        low, high = interval(first_from(spots, best, 1.0 - lost)[1:], crossed[1:])
        return PlanAnswer("epsilon", float(crossed[0]), low, high, first, last, last)

    def loss_for(self, epsilon: float, people: float) -> PlanAnswer:
        """The share of the gain that an epsilon loses with a number of people.

        Raises:
            InvalidInput: for an epsilon or a number of people out of range.
        """
        place = self._place(epsilon)
        count = self._count(people)
        if not self.worthwhile:
            return PlanAnswer("loss", None, math.nan, math.nan, -math.inf, math.inf, math.inf)
        if count in self.horizons and place == int(place):
            return self.loss_of(self.private[int(place)], self.horizons.index(int(count)))
        lost, least = (
            1.0 - along(self.grid, self._between(rows, place), count)
            for rows in (self.kept, self.kept_at_best)
        )
        if math.isnan(lost[0]):
            return PlanAnswer("loss", None, math.nan, math.nan, -math.inf, math.inf, math.inf)
        low, high = interval(_known(least[1:]), _known(lost[1:]))
        # Losses are never out of range, but may rest on a curve.
        simulated = math.inf if count <= self.people else -math.inf
        return PlanAnswer("loss", float(lost[0]), low, high, -math.inf, math.inf, simulated)

    def loss_of(self, line: PlanLine, at: int = -1) -> PlanAnswer:
        """The share of the gain that a line loses at one of the horizons, counted as in `free`."""
        free = self.free.gain[:, at]
        if not self.worthwhile or not free.mean() > self._rounding:
            return PlanAnswer("loss", None, math.nan, math.nan, -math.inf, math.inf, math.inf)
        kept = ratio(line.gain[:, at], free)
        low, high = 1.0 - kept.high, 1.0 - kept.low
        return PlanAnswer("loss", 1.0 - kept.mean, low, high, -math.inf, math.inf, math.inf)

    def advice(self) -> Advice:
        """The smallest epsilon that keeps enough, as all larger ones do; see `verdicts`."""
        losses = {}
        if self.worthwhile:
            losses = {each: self.loss_for(each, self.people).value for each in self.epsilons}
        known = {each: loss for each, loss in losses.items() if loss is not None}
        best = min(known, key=known.__getitem__, default=self.epsilons[-1])
        fitting = [each for each, found in self.verdicts.items() if found.word == "yes"]
        chosen = min(fitting, default=None)
        if self.gains.word != "yes":
            found = self.gains
        elif chosen is not None:
            found = self.verdicts[chosen]
        else:
            left = [each for each in (self.verdicts[best], *self.verdicts.values()) if each.open]
            found = left[0] if left else self.verdicts[best]
        return Advice(found, chosen, best, self.people, self.lose_at_most)

    @cached_property
    def explanations(self) -> dict[float, Explanation]:
        """What each epsilon means for one person."""
        return {
            line.setting.budget.epsilon: explain(line.guarantee)
            for line in self.private
            if line.guarantee is not None
        }

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each line and horizon; see `records.PLANNED` for its columns."""
        import pandas as pd

        return pd.DataFrame(self.records(), columns=list(PLANNED))

    def records(self) -> Iterator[dict[str, Value]]:
        """The rows of the frame as records, for files."""
        sign = 1.0 if self.problem.metric == "reward" else -1.0
        for line in (*self.lines, *self.others):
            budget = line.setting.budget
            for place, people in enumerate(self.horizons[-line.worth.shape[1] :]):
                worth, gain = student(sign * line.worth[:, place]), student(line.gain[:, place])
                row: dict[str, Value] = {
                    "plan": self.name,
                    "learner": line.learner,
                    "trust_model": budget.trust_model,
                    "epsilon": line.epsilon,
                    "delta": budget.delta if line.kind == "private" else None,
                    "people": people,
                    "replicates": self.replicates,
                    "metric": self.problem.metric,
                    "per_person": worth.mean,
                    "per_person_low": worth.low,
                    "per_person_high": worth.high,
                    "gain": gain.mean,
                    "gain_low": gain.low,
                    "gain_high": gain.high,
                    "loss": math.nan,
                    "loss_low": math.nan,
                    "loss_high": math.nan,
                    "lose_at_most": self.lose_at_most,
                    "verdict": None,
                }
                if line.kind == "private" and self.worthwhile:
                    lost = self.loss_of(line, place - line.worth.shape[1])
                    if lost.value is not None:
                        row |= {"loss": lost.value, "loss_low": lost.low, "loss_high": lost.high}
                    if people == self.people and line in self.private:
                        row["verdict"] = self.verdicts[budget.epsilon].word
                yield row

    # What the answers share.

    def _until(self, rows: FloatArray, best: FloatArray, target: float) -> PlanAnswer:
        """From how many people on rows (1 + b, g), and at best, are at least `target`."""
        least, most = float(self.grid[0]), float(self.grid[-1])
        if not self.worthwhile:
            return PlanAnswer("people", None, math.nan, math.nan, least, most, self.people)
        crossed = self._crossed(rows, target)
        low, high = interval(self._crossed(best, target)[1:], crossed[1:])
        return PlanAnswer("people", float(crossed[0]), low, high, least, most, self.people)

    def _crossed(self, rows: FloatArray, target: float) -> FloatArray:
        """(1 + b,) the numbers of people: as simulated, otherwise as the curves go on."""
        inside = self.grid <= self.people
        crossed = first_from(self.grid[inside], rows[:, inside], target)
        late = np.isinf(crossed)
        if late.any():
            last = int(inside.sum()) - 1
            crossed[late] = first_from(self.grid[last:], rows[late, last:], target)
        return crossed

    def _place(self, epsilon: float) -> float:
        """Where an epsilon lies among those simulated: 1.5 is halfway from the second on."""
        value = number_from(epsilon, "epsilon", 0.0)
        first, last = self.epsilons[0], self.epsilons[-1]
        if not first <= value <= last:
            raise InvalidInput(
                f"epsilon was {value:g}; this plan simulated {first:g} to {last:g}. Give one in "
                "between, or plan with others (--epsilons)."
            )
        return float(
            np.interp(math.log(value), np.log(self.epsilons), np.arange(len(self.epsilons)))
        )

    def _count(self, people: float) -> float:
        least, most = float(self.grid[0]), float(self.grid[-1])
        if not least <= number_from(people, "people", 0.0) <= most:
            raise InvalidInput(
                f"people was {people:g}; this plan covers {least:,.0f} to {most:,.0f} people "
                f"({self.people:,} were simulated). Give a number in between, or plan with another."
            )
        return float(people)

    def _between(self, rows: FloatArray, place: float) -> FloatArray:
        """(1 + b, g) of rows (1 + b, e, g) at a place between epsilons."""
        low = min(int(place), rows.shape[1] - 1)
        if place == low:
            return rows[:, low]
        between: FloatArray = rows[:, low] + (place - low) * (rows[:, low + 1] - rows[:, low])
        return between

    def _over_epsilons(self, people: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Epsilons (m,), and what each keeps (1 + b, m) of the gain, and at best."""
        count = self._count(people)
        first, last = self.epsilons[0], self.epsilons[-1]
        spots = np.unique(np.concatenate([np.geomspace(first, last, _EPSILONS), self.epsilons]))
        places = [self._place(each) for each in np.clip(spots, first, last)]
        kept, best = (
            np.stack(
                [along(self.grid, self._between(rows, each), count) for each in places], axis=1
            )
            for rows in (self.kept, self.kept_at_best)
        )
        return spots, kept, best


def _known(lost: FloatArray) -> FloatArray:
    """Losses, infinite where they are not known."""
    return np.where(np.isnan(lost), np.inf, lost)
