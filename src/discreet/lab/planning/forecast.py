"""What follows from the simulations of a plan: losses to people, people until, and the answers to
inverse questions.

**Gain** is what a person has, on average over all people served, more than under one choice for
everyone: the arm that proved best for all of them (where everybody brings points of their own, more
than by choosing at random). **Kept** is the share of the gain without privacy that is left, over
the same number of people, and **loss** is the share that is not:

    kept(epsilon, n) = gain(epsilon, n) / gain(no privacy, n),        loss = 1 - kept.

Nothing can be kept where choosing by person gains nothing, so `kept` is there only for numbers of
people from which on the gain without privacy is clear.

| array | shape         | meaning                                                       |
|-------|---------------|---------------------------------------------------------------|
| grid  | (g,)          | numbers of people                                             |
| kept  | (1 + b, e, g) | row 0 the estimate, others resampled; a place for each epsilon |

All three inverse questions read the same `kept`, so they agree with each other. Between epsilons it
runs straight over their logarithm; outside of those simulated nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from discreet.lab.environments.base import Problem
from discreet.lab.experiments import BEST_FIXED, UNIFORM
from discreet.lab.planning.curves import (
    REACH,
    Curve,
    along,
    curve_of,
    first_from,
    interval,
    resampled_means,
    resamples,
    steady_ceiling,
)
from discreet.lab.planning.facts import (
    Advice,
    Answer,
    Asked,
    Interval,
    PlanLine,
    Verdict,
    ratio,
    student,
    verdict,
)
from discreet.lab.planning.odds import Explanation, explain
from discreet.lab.planning.race import Standing
from discreet.records import PLANNED, Value
from discreet.validation import FloatArray, InvalidInput, number_from

if TYPE_CHECKING:
    import pandas as pd

LOSE_AT_MOST = 0.2
"""What a plan aims at where nothing was asked: to lose at most a fifth of the gain."""
KEEP = (0.5, 0.8, 0.9)
_EPSILONS = 121  # at which `kept` is read between those simulated
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Forecast:
    """Everything that a plan knows; see the module.

    Attributes:
        name, title: of the study.
        problem: where the people came from.
        data: whose data planning used, and what that means, in sentences.
        horizons: increasing numbers of people.
        wished: how many people were asked about.
        lines: private ones by increasing epsilon, no privacy, references.
        standings: of the races that chose the learners.
        left_out: what was not done, each one or two sentences.
        lose_at_most: the share of the gain that may be lost.
        seed: of everything that was drawn.
        seconds: that planning took.
        seconds_each: that a replicate with all lines and all who are expected takes.
        path: of the study file; None where there is none.
        question: which of the three was asked for, and the two that were given, if one was.
        along: whether learners that plan for their number of people are read along one run too.
    """

    name: str
    title: str
    problem: Problem
    data: tuple[str, ...]
    horizons: tuple[int, ...]
    wished: int
    lines: tuple[PlanLine, ...]
    standings: tuple[Standing, ...]
    left_out: tuple[str, ...]
    lose_at_most: float
    seed: int
    seconds: float
    seconds_each: float = 0.0
    path: Path | None = None
    question: tuple[Asked, float, float] | None = None
    along: bool = False

    @property
    def people(self) -> int:
        """The largest number of people that was simulated."""
        return self.horizons[-1]

    @property
    def limit(self) -> int:
        """Nothing is said about more people than these."""
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

    def gain(self, line: PlanLine, people: int | None = None) -> Interval:
        """What a person gains under a line, at a horizon; with everybody if left out."""
        return student(line.gain[:, self.horizons.index(people or self.people)])

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
        told = {
            line.setting.budget.epsilon: self._about_expected(
                verdict(line.gain[:, -1] - kept * free, -self._rounding)
            )
            for line in self.private
        }
        for word, order in (("yes", reversed(self.epsilons)), ("no", iter(self.epsilons))):
            first: Verdict | None = None
            for epsilon in order:
                if first is None and told[epsilon].word != word:
                    first = told[epsilon]
                elif first is not None and told[epsilon].word == word:
                    told[epsilon] = Verdict("cannot tell yet", first.replicates)
        return told

    def _about_expected(self, found: Verdict) -> Verdict:
        """A verdict about fewer people than expected is none about these."""
        if self.people >= self.wished or found.open:
            return found
        return Verdict("cannot tell yet", found.replicates)

    @cached_property
    def _weights(self) -> FloatArray:
        return resamples(self.replicates, self.seed)

    @cached_property
    def curves(self) -> dict[float | None, Curve]:
        """The gain of each epsilon, and of no privacy, against the number of people."""
        horizons = np.asarray(self.horizons, dtype=np.float64)
        lines = (self.free, *self.private)
        means = [resampled_means(line.gain, self._weights) for line in lines]
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

    def people_until_gain(self, epsilon: float) -> Answer:
        """From how many people on an epsilon beats one choice for everyone (see the module).

        Raises:
            InvalidInput: for an epsilon outside of those simulated.
        """
        places = self._place(epsilon)
        curves = [self.curves[each] for each in self.epsilons]
        rows = np.stack([curve.gain for curve in curves], axis=1)
        best = np.stack([curve.best for curve in curves], axis=1)
        return self._until(self._between(rows, places), self._between(best, places), 0.0)

    def people_for(self, epsilon: float, keep: float = 0.8) -> Answer:
        """From how many people on an epsilon keeps a share of the gain without privacy.

        Raises:
            InvalidInput: for an epsilon outside of those simulated, or a share beyond 0 to 1.
        """
        places = self._place(epsilon)
        target = number_from(keep, "keep", 0.0, 1.0)
        best = self._between(self.kept_at_best, places)
        return self._until(self._between(self.kept, places), best, target)

    def epsilon_for(self, people: float, lose_at_most: float = LOSE_AT_MOST) -> Answer:
        """From which epsilon on at most a share of the gain is lost with so many people.

        Raises:
            InvalidInput: for a number of people about which nothing can be said, or a share beyond
                0 to 1.
        """
        lost = number_from(lose_at_most, "lose_at_most", 0.0, 1.0)
        spots, rows, best = self._over_epsilons(people)
        first, last = self.epsilons[0], self.epsilons[-1]
        if not self.worthwhile:
            return Answer("epsilon", None, math.nan, math.nan, first, last, last)
        crossed = first_from(spots, rows, 1.0 - lost)
        low, high = interval(first_from(spots, best, 1.0 - lost)[1:], crossed[1:])
        return Answer("epsilon", float(crossed[0]), low, high, first, last, last)

    def loss_for(self, epsilon: float, people: float) -> Answer:
        """Which share of the gain an epsilon loses with so many people.

        Raises:
            InvalidInput: for an epsilon or a number of people about which nothing can be said.
        """
        place = self._place(epsilon)
        count = self._count(people)
        if not self.worthwhile:
            return Answer("loss", None, math.nan, math.nan, -math.inf, math.inf, math.inf)
        if count in self.horizons and place == int(place):
            at = self.horizons.index(int(count))
            free = self.free.gain[:, at]
            if not free.mean() > self._rounding:
                return Answer("loss", None, math.nan, math.nan, -math.inf, math.inf, math.inf)
            kept = ratio(self.private[int(place)].gain[:, at], free)
            low, high = 1.0 - kept.high, 1.0 - kept.low
            return Answer("loss", 1.0 - kept.mean, low, high, -math.inf, math.inf, math.inf)
        lost, least = (
            1.0 - along(self.grid, self._between(rows, place), count)
            for rows in (self.kept, self.kept_at_best)
        )
        if math.isnan(lost[0]):
            return Answer("loss", None, math.nan, math.nan, -math.inf, math.inf, math.inf)
        low, high = interval(_known(least[1:]), _known(lost[1:]))
        # Losses are never beyond what can be said, but may rest on a curve.
        simulated = math.inf if count <= self.people else -math.inf
        return Answer("loss", float(lost[0]), low, high, -math.inf, math.inf, simulated)

    def advice(self) -> Advice:
        """The smallest epsilon that keeps enough, as all larger ones do; see `verdicts`."""
        losses = {}
        if self.worthwhile:
            losses = {each: self.loss_for(each, self.people).value for each in self.epsilons}
        known = {each: loss for each, loss in losses.items() if loss is not None}
        best = min(known, key=known.__getitem__, default=self.epsilons[-1])
        fitting = [each for each, told in self.verdicts.items() if told.word == "yes"]
        chosen = min(fitting, default=None)
        if self.gains.word != "yes":
            found = self.gains
        elif chosen is not None:
            found = self.verdicts[chosen]
        else:
            left = [told for told in (self.verdicts[best], *self.verdicts.values()) if told.open]
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

    def records(self) -> list[dict[str, Value]]:
        """The rows of the frame as records, for files."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Value]]:
        sign = 1.0 if self.problem.metric == "reward" else -1.0
        for line in self.lines:
            budget = line.setting.budget
            for place, people in enumerate(self.horizons):
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
                    lost = self.loss_for(budget.epsilon, people)
                    if lost.value is not None:
                        row |= {"loss": lost.value, "loss_low": lost.low, "loss_high": lost.high}
                    if people == self.people:
                        row["verdict"] = self.verdicts[budget.epsilon].word
                yield row

    # What the answers share.

    def _until(self, rows: FloatArray, best: FloatArray, target: float) -> Answer:
        """From how many people on rows (1 + b, g), and at best, are at least `target`."""
        least, most = float(self.grid[0]), float(self.grid[-1])
        if not self.worthwhile:
            return Answer("people", None, math.nan, math.nan, least, most, self.people)
        crossed = self._crossed(rows, target)
        low, high = interval(self._crossed(best, target)[1:], crossed[1:])
        return Answer("people", float(crossed[0]), low, high, least, most, self.people)

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
                f"epsilon was {value:g}; this plan simulated {first:g} to {last:g} and says "
                "nothing beyond. Ask about an epsilon in between, or plan with others (--epsilons)."
            )
        return float(
            np.interp(math.log(value), np.log(self.epsilons), np.arange(len(self.epsilons)))
        )

    def _count(self, people: float) -> float:
        least, most = float(self.grid[0]), float(self.grid[-1])
        if not least <= number_from(people, "people", 0.0) <= most:
            raise InvalidInput(
                f"people was {people:g}; this plan can say something about {least:,.0f} to "
                f"{most:,.0f} people ({self.people:,} were simulated). Ask about as many, or plan "
                "with another number of people."
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
        """Epsilons (m,), and what each keeps (1 + b, m) with so many people, and at best."""
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
    known: FloatArray = np.where(np.isnan(lost), np.inf, lost)
    return known
