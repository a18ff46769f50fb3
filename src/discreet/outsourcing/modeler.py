"""The modeler: searches the rows of a released table for the one with the highest outcome.

It sees what was released, never the table. `ask` names rows, `tell` takes what was measured there.
Everything it does is post-processing of the release and the answers, so it may do anything without
spending privacy. Which row is asked for next is decided by a score for every row, from its
posterior mean and deviation (`Acquisition`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Coded, Range
from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.posterior import (
    FAMILIES,
    Family,
    RowPosterior,
    RowPrior,
    first_prior,
    learn_prior,
)
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    finite_vector,
    number_from,
    one_of,
    whole_number,
    whole_vector,
)

AcquisitionName = Literal["expected_improvement", "upper_confidence", "gp_ucb"]
# A prior is learnt anew when this many times as many answers have come.
_GROWTH = 1.25
# Squares of answers must not overflow.
_MOST = 1e100
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Acquisition(Coded, ABC):
    """A rule that scores rows; the largest score is asked for.

    Attributes:
        name: as settings call it.
    """

    name: ClassVar[AcquisitionName]

    def shared(self, question: int) -> bool:
        """Whether it is given the deviation of what a row shares with others, in place of the
        whole. With noisy rows the rest is luck of the row's own, the same for all that were not
        asked."""
        return False

    @abstractmethod
    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        """(n,) scores.

        Args:
            mean: (n,) posterior means.
            deviation: (n,) posterior standard deviations.
            best: the best posterior mean of a row that was answered, or the prior mean.
            question: the number of the question, from 1.
        """


@dataclass(frozen=True)
class ExpectedImprovement(Acquisition):
    """log E max(f - best, 0) (Jones, Schonlau and Welch 1998, eq. 15).

    The logarithm keeps rows apart whose improvement would underflow. Of a noisy row only what it
    shares with others counts: with its own luck in, the rule would buy tickets beside the best row
    instead of looking elsewhere.
    """

    name: ClassVar[AcquisitionName] = "expected_improvement"

    def shared(self, question: int) -> bool:
        return True

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        sd = np.maximum(deviation, 1e-12)
        score: FloatArray = np.log(sd) + _log_improvement((mean - best) / sd)
        return score


@dataclass(frozen=True)
class PublishedUCB(Acquisition):
    """Algorithm 2 of Kharkovskii et al. (2020): beta_t = 2 log(n t^2 pi^2 / (6 delta')).

    Attributes:
        delta: delta', the chance with which the regret bound may fail (the paper: 0.025).
    """

    delta: Annotated[float, Range(above=0.0, below=1.0)] = 0.025
    name: ClassVar[AcquisitionName] = "gp_ucb"

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        beta = 2.0 * math.log(len(mean) * question**2 * math.pi**2 / (6.0 * self.delta))
        score: FloatArray = mean + math.sqrt(beta) * deviation
        return score


@dataclass(frozen=True)
class UpperConfidence(Acquisition):
    """mean + multiplier x deviation; of noisy rows what they share and the whole, in turn.

    Judged by the whole alone, all rows that were not asked look promising, and questions are spent
    on their luck. Judged by what they share alone, rows that share next to nothing leave nothing to
    look for but neighbours of the first high answer, while luck is what there is to find. Where
    rows are known the two are the same.

    Outcomes often have long tails, the highest many deviations above what a prior learnt from a few
    ordinary answers expects. Expected improvement trusts that prior; this rule asks until no row
    can be as high as the best by as many deviations as n rows may lie away.

    Attributes:
        multiplier: None for sqrt(2 log n), about the largest of n independent standard normal
            numbers; a smaller one spends many questions on neighbours of the first high answer.
    """

    multiplier: Annotated[float | None, Range(above=0.0)] = None
    name: ClassVar[AcquisitionName] = "upper_confidence"

    def shared(self, question: int) -> bool:
        return question % 2 == 0

    def scores(
        self, mean: FloatArray, deviation: FloatArray, best: float, question: int
    ) -> FloatArray:
        multiplier = self.multiplier
        if multiplier is None:
            multiplier = math.sqrt(2.0 * math.log(max(len(mean), 2)))
        score: FloatArray = mean + multiplier * deviation
        return score


ACQUISITIONS: dict[AcquisitionName, type[Acquisition]] = {
    kind.name: kind for kind in (ExpectedImprovement, UpperConfidence, PublishedUCB)
}


def _log_improvement(u: FloatArray) -> FloatArray:
    """log(phi(u) + u Phi(u)), also far in the lower tail, where the two terms cancel."""
    from scipy.special import erfcx, log_ndtr

    log_density = -0.5 * u * u - _LOG_ROOT_TWO_PI
    low = u < -1.0
    safe = np.where(low, u, -1.0)
    # Phi(u) / phi(u) = sqrt(pi / 2) erfcx(-u / sqrt 2); beyond -1e4 the bracket is 1 / u^2.
    mills = math.sqrt(math.pi / 2.0) * erfcx(-safe / math.sqrt(2.0))
    bracket = np.where(safe > -1e4, np.maximum(1.0 + safe * mills, 1e-300), 1.0 / safe**2)
    high = np.where(low, 0.0, u)
    direct = np.exp(-0.5 * high * high - _LOG_ROOT_TWO_PI) + high * np.exp(log_ndtr(high))
    log_improvement: FloatArray = np.where(low, log_density + np.log(bracket), np.log(direct))
    return log_improvement


@dataclass(frozen=True)
class BestRow:
    """The best of the rows that were answered.

    Attributes:
        row: which one.
        answer: the best answer; a lucky one if answers are noisy.
        expected: the posterior mean there.
        deviation: the posterior standard deviation there.
    """

    row: int
    answer: float
    expected: float
    deviation: float


class Modeler:
    """Asks for outcomes of rows, one batch after another.

    Args:
        beliefs: what is known of the rows.
        prior: of the outcomes; None to learn it from the answers.
        acquisition: the rule that chooses; None for `UpperConfidence()`.
        repeats: how often one row may be asked for.
        family: of the kernel, where the prior is learnt.
        known_noise: variance of the noise that the curator adds to answers.
        minimize: search for the lowest outcome instead.
        seed: of the rows that are drawn at random before a prior can be learnt.

    Raises:
        InvalidInput: for arguments that do not fit.
    """

    def __init__(
        self,
        beliefs: RowBeliefs,
        prior: RowPrior | None = None,
        acquisition: Acquisition | None = None,
        *,
        repeats: int = 1,
        family: Family = "rbf",
        known_noise: float = 0.0,
        minimize: bool = False,
        seed: int = 0,
    ) -> None:
        self.beliefs = beliefs
        self.acquisition = UpperConfidence() if acquisition is None else acquisition
        self.repeats = whole_number(repeats, "repeats", minimum=1)
        self.family = one_of(family, "the kernel family", FAMILIES)
        self.known_noise = number_from(known_noise, "known_noise", 0.0)
        self._sign = -1.0 if minimize else 1.0
        self._given = prior is not None
        self._seed = whole_number(seed, "seed")
        self._rows: list[int] = []
        self._answers: list[float] = []
        self._waiting: list[int] = []
        self._closed: set[int] = set()
        self._learnt_from = 0
        start = first_prior(beliefs, family) if prior is None else self._signed(prior)
        self._posterior = RowPosterior(beliefs, start)

    @property
    def prior(self) -> RowPrior:
        """What is assumed of the outcomes at present."""
        return self._signed(self._posterior.prior)

    @property
    def waiting(self) -> tuple[int, ...]:
        """Rows that were asked for and not answered, in order."""
        return tuple(self._waiting)

    @property
    def answered(self) -> int:
        """How many answers have come."""
        return len(self._answers)

    @property
    def warm_up(self) -> int:
        """How many answers a prior is first learnt from; 0 for a given prior. Rows are drawn at
        random until then."""
        return 0 if self._given else min(2 + 2 * self.beliefs.columns, 10)

    def ask(self, count: int = 1) -> IntArray:
        """The next `count` rows to ask for; fewer where no more may be asked.

        The rows of one batch differ from each other as they would if each was answered as expected
        before the next is chosen (Desautels, Krause and Burdick 2014).
        """
        asked_before = len(self._waiting)
        for _ in range(whole_number(count, "count", minimum=1)):
            closed = self._not_to_ask([*self._rows, *self._waiting])
            if len(closed) >= self.beliefs.count:
                break
            row = self._choose(closed)
            self._posterior.ask(row)
            self._waiting.append(row)
        return np.array(self._waiting[asked_before:], dtype=np.int64)

    def _not_to_ask(self, asked: list[int]) -> set[int]:
        """Rows that were asked for as often as is allowed, or cannot be measured."""
        spent = {row for row, times in Counter(asked).items() if times >= self.repeats}
        return spent | self._closed

    def expect(self, rows: ArrayLike) -> None:
        """Rows (m,) that were asked for elsewhere and whose answers will come."""
        for row in whole_vector(rows, "rows", 0, self.beliefs.count - 1).tolist():
            self._posterior.ask(row)
            self._waiting.append(row)

    def tell(self, rows: ArrayLike, answers: ArrayLike) -> None:
        """What was measured at `rows` (m,): answers (m,), in any order, of any rows.

        Raises:
            InvalidInput: for rows that do not exist or answers that are not finite; nothing is
                taken over.
        """
        which = whole_vector(rows, "rows", 0, self.beliefs.count - 1)
        values = self._sign * finite_vector(answers, "answers", len(which))
        if (np.abs(values) > _MOST).any():
            raise InvalidInput(
                f"answers had {values[np.argmax(np.abs(values))]:g}; they must lie within "
                f"+-{_MOST:g}. Give them in a larger unit."
            )
        in_order = which.tolist() == self._waiting[: len(which)]
        for row in which.tolist():
            if row in self._waiting:
                self._waiting.remove(row)
        self._rows += which.tolist()
        self._answers += values.tolist()
        if self._lesson() > self._learnt_from:
            self._learn()
        elif in_order:
            for value in values:
                self._posterior.tell(float(value))
        else:
            self._posterior.forget_waiting()
            self._replay(self._posterior.answered)

    def close(self, rows: ArrayLike) -> None:
        """Rows that cannot be measured: no longer waited for, and never asked for again."""
        which = whole_vector(rows, "rows", 0, self.beliefs.count - 1)
        self._closed |= set(which.tolist())
        kept = [row for row in self._waiting if row not in self._closed]
        if kept != self._waiting:
            self._waiting = kept
            self._posterior.forget_waiting()
            self._replay(self._posterior.answered)

    def predict(self) -> tuple[FloatArray, FloatArray]:
        """(n,) means and standard deviations of the outcomes of all rows."""
        return self._sign * self._posterior.mean, self._posterior.deviation

    def best(self) -> BestRow | None:
        """The best answered row; None before the first answer."""
        if not self._rows:
            return None
        place = int(np.argmax(self._answers))
        row = self._rows[place]
        return BestRow(
            row,
            self._sign * self._answers[place],
            self._sign * float(self._posterior.mean[row]),
            float(self._posterior.deviation[row]),
        )

    def expected_gain(self) -> float:
        """The largest expected improvement that one more question promises; infinite at first."""
        if not self._rows or self.answered < self.warm_up:
            return math.inf
        improvements = ExpectedImprovement().scores(
            self._posterior.mean, self._posterior.deviation, self._incumbent(), self.answered
        )
        gains = np.delete(np.exp(improvements), list(self._not_to_ask(self._rows)))
        return float(gains.max(initial=0.0))

    def _signed(self, prior: RowPrior) -> RowPrior:
        """Inside, outcomes count negative where the lowest is searched."""
        return replace(prior, mean=self._sign * prior.mean)

    def _choose(self, closed: set[int]) -> int:
        number = len(self._rows) + len(self._waiting) + len(self._closed) + 1
        # Until a prior could be learnt, nothing is known that a choice could rest on.
        if not self._given and self._learnt_from == 0:
            # By the question's number, so that a search that is taken up again asks the same.
            rng = np.random.default_rng([self._seed, number])
            free = np.setdiff1d(np.arange(self.beliefs.count), np.array(sorted(closed), dtype=int))
            return int(rng.choice(free))
        posterior, rule = self._posterior, self.acquisition
        deviation = posterior.shared_deviation if rule.shared(number) else posterior.deviation
        scores = rule.scores(posterior.mean, deviation, self._incumbent(), number)
        scores[list(closed)] = -np.inf
        return int(np.argmax(scores))

    def _incumbent(self) -> float:
        """The best posterior mean of a row that was asked for: robust against lucky noise."""
        asked = [*self._rows, *self._waiting]
        if not asked:
            return self._posterior.prior.mean
        return float(self._posterior.mean[asked].max())

    def _lesson(self) -> int:
        """From how many answers a prior is to be learnt by now: at warm_up, and then whenever a
        quarter more came. It depends on their number alone, not on the batches they came in."""
        if self._given or self.answered < self.warm_up:
            return 0
        lesson = self.warm_up
        while math.ceil(_GROWTH * lesson) <= self.answered:
            lesson = math.ceil(_GROWTH * lesson)
        return lesson

    def _learn(self) -> None:
        count = self._lesson()
        prior = learn_prior(
            self.beliefs,
            np.array(self._rows[:count]),
            np.array(self._answers[:count]),
            self.family,
            self.known_noise,
        )
        self._learnt_from = count
        self._posterior = RowPosterior(self.beliefs, prior)
        self._replay(0)

    def _replay(self, start: int) -> None:
        """Tell the posterior every answer from `start` on, then ask again what waits."""
        for row, answer in zip(self._rows[start:], self._answers[start:], strict=True):
            self._posterior.ask(row)
            self._posterior.tell(answer)
        for row in self._waiting:
            self._posterior.ask(row)
