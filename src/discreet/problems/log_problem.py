"""A log of decisions as a problem: learners are served as if they had decided.

The log knows what followed from the action that was taken, and from no other. There are two ways
to serve a learner all the same:

*Rejection* (Li, Chu, Langford and Wang, 2011). People come in a random order. Where the learner
chooses what the log chose, the row counts with probability min p / p_i: the learner is told the
logged reward, and earns it. Otherwise the row is as if it had not been. Whatever the learner does
and whoever comes, a row counts with probability

    sum_a p(a|x) w(a|x) min p / p(a|x) = min p sum_a w(a|x) = min p,

so those who count come from the law of contexts, and everything is as if the learner had run, for
n min p people. Nothing is assumed about rewards; propensities must be known.

*Model*. The people of one half of the log, drawn for each replicate, are served with rewards
simulated by models that learnt from the other half; what the learner earned is the doubly robust
outcome y(i, a) of what it chose (`log_values`). Neither the models nor the learner have seen the
rewards which correct them, so errors of the models bias what the learner learns, not what it is
said to have earned. Everybody's context counts, and any number of people can be served.

| array    | shape  | meaning                                                                  |
|----------|--------|--------------------------------------------------------------------------|
| rows     | (n,)   | rows of the log in the order in which people arrive                      |
| rewards  | (n, K) | simulated, by model; (n,) logged, by rejection                           |
| outcomes | (n, K) | y(i, a) of the people served                                             |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import numpy as np
import pandas as pd
from pydantic import Field

from discreet.columns import Column
from discreet.problems.base import Choices, Chosen, Crowd, Metric, Problem, exposure_of
from discreet.problems.frames import Files
from discreet.problems.log_columns import LoggedAction, LoggedReward, Propensity
from discreet.problems.log_estimates import estimate
from discreet.problems.log_values import interval
from discreet.problems.logs import Log
from discreet.problems.toml_words import Positive
from discreet.validation import BoolArray, FloatArray, IntArray, InvalidInput, one_of

Replay = Literal["rejection", "model"]
Values = TypeVar("Values", FloatArray, BoolArray)

# Logs of fewer rows are replayed by rejection if it serves so many people.
_SMALL_LOG, _FEWEST_SERVED = (
    10_000,
    200,
)  # A share of people that is worth a remark, and the resamples behind a run's interval.
_LEAST_SHARE, _RESAMPLES = 0.01, 500

_NO_ORACLE = (
    "oracle was asked for, but a log knows what followed from one action of each person; the best "
    "action for each context would be fitted to chance. Compare with best_fixed, or remove it."
)


def rejection_people(propensities: FloatArray) -> int:
    """So many people replay by rejection is almost sure to serve: each of n rows counts with
    probability min p, so n min p - 3 sqrt(n min p (1 - min p))."""
    count, least = len(propensities), float(propensities.min())
    return max(math.floor(count * least - 3.0 * math.sqrt(count * least * (1.0 - least))), 0)


class LogCrowd(Crowd):
    """People of a log, of whom it says what followed from one action alone."""

    def earned(self, chosen: IntArray | FloatArray) -> float:
        """Refused: `Estimates.value` estimates it, with an interval."""
        raise InvalidInput(
            "what everybody would have earned was asked for, which no log says; see the estimates "
            "of the problem for an interval."
        )


class RejectionCrowd(LogCrowd):
    """People of a log who count where the learner chooses what the log chose.

    Args:
        log: with known propensities.
        people: how many count.
        best: what everyone would have earned on average under the best single arm.
        rng: draws the order, and which rows can count.
    """

    def __init__(self, log: Log, people: int, best: float, rng: np.random.Generator) -> None:
        assert log.propensities is not None
        self.contexts = log.contexts
        self._log, self._people, self._best = log, people, best
        # Whether u < min p / p_i does not depend on the choice, so it is settled before.
        possible = rng.random(len(log)) < log.propensities.min() / log.propensities
        self._order = rng.permutation(np.flatnonzero(possible))
        self._next = 0
        self._rows = np.full(people, -1, dtype=np.int64)

    def __len__(self) -> int:
        return self._people

    def served(
        self, start: int, stop: int, act: Callable[[FloatArray], Choices]
    ) -> tuple[FloatArray, Choices]:
        fruitless = 0
        while fruitless <= len(self._order):
            rows = self._coming((stop - start) * self._log.arms)
            actions = act(self._log.contexts[rows])
            agree = np.flatnonzero(actions.arms == self._log.actions[rows])
            # Rows after the last one that is needed have not been looked at; all others have.
            enough = len(agree) >= stop - start
            agree = agree[: stop - start]
            self._next += int(agree[-1]) + 1 if enough else len(rows)
            if len(agree):
                self._rows[start : start + len(agree)] = rows[agree]
                return self._log.contexts[rows[agree]], actions[agree]
            fruitless += len(rows)
        raise InvalidInput(
            f"the learner chose an action that the log never took in {fruitless:,} rows which "
            'could count, so replay by rejection does not end; use replay = "model".'
        )

    def _coming(self, most: int) -> IntArray:
        """The next rows that can count; from the start again where the log is at its end, which
        hardly happens with `rejection_people`."""
        if self._next >= len(self._order):
            self._next = 0
        return self._order[self._next : self._next + most]

    def received(self, actions: Chosen, start: int) -> FloatArray:
        rewards: FloatArray = self._log.rewards[self._rows[start : start + len(actions.arms)]]
        return rewards

    def value(self, actions: Chosen, start: int) -> FloatArray:
        return self.received(actions, start)

    def remarks(self, values: FloatArray) -> tuple[str, ...]:
        return _over_people(values, np.arange(len(values)))

    def best_fixed(self) -> FloatArray:
        return np.full(self._people, self._best)

    def oracle(self) -> FloatArray:
        raise InvalidInput(_NO_ORACLE)


class ModelCrowd(LogCrowd):
    """People of one half of a log, with simulated rewards and doubly robust outcomes.

    Args:
        problem: whose people they are.
        rows: (n,) rows of the log.
        rewards: (n, K) simulated.
    """

    def __init__(self, problem: LogProblem, rows: IntArray, rewards: FloatArray) -> None:
        log, estimates = problem.log, problem.estimates
        self.contexts = log.contexts[rows]
        if log.ids is not None:
            # Whoever comes again with the same row stands for somebody else who is like them.
            again = pd.Series(rows).groupby(rows).cumcount().to_numpy()
            self.ids = log.ids[rows] + again * (log.ids.max() + 1)
        self._people = estimates.people[rows]
        self._outcomes, self._rare = estimates.outcomes[rows], estimates.rare[rows]
        self._rewards, self._best = rewards, problem.best
        self._hardly = np.zeros(len(rows), dtype=np.bool_)

    def received(self, actions: Chosen, start: int) -> FloatArray:
        return _chosen(self._rewards, actions.arms, start)

    def value(self, actions: Chosen, start: int) -> FloatArray:
        hardly = _chosen(self._rare, actions.arms, start)
        self._hardly[start : start + len(hardly)] = hardly
        return _chosen(self._outcomes, actions.arms, start)

    def remarks(self, values: FloatArray) -> tuple[str, ...]:
        texts = _over_people(values, self._people)
        share = float(self._hardly.mean())
        if share < _LEAST_SHARE:
            return texts
        return (
            *texts,
            f"{100.0 * share:.0f}% of people were given what the log hardly gave to people like "
            "them; what they earned rests on a model.",
        )

    def best_fixed(self) -> FloatArray:
        return self._outcomes[:, self._best].copy()

    def oracle(self) -> FloatArray:
        raise InvalidInput(_NO_ORACLE)


def _chosen(values: Values, arms: IntArray, start: int) -> Values:
    return values[np.arange(start, start + len(arms)), arms]


def _over_people(values: FloatArray, people: IntArray) -> tuple[str, ...]:
    """What a run earned, with an interval that says how much other people could differ."""
    if len(np.unique(people)) < 2:
        return ()
    mean, _, lower, upper = interval(values, people, resamples=_RESAMPLES)
    return (
        f"in the first replicate {mean:.4g} per person; 95% interval over people of the log: "
        f"{lower:.4g} to {upper:.4g}.",
    )


class LogProblem(Problem):
    """A log of decisions whose people are served again (see the module).

    Args:
        log: the decisions.
        replay: the way; chosen by size if left out: rejection where propensities are known, nobody
            comes more than once, the log is small and enough people count; otherwise a model.

    Attributes:
        log: as given.
        replay: the way.
        estimates: what each arm would have given each person of the log, with intervals.
        models: of rewards.

    Raises:
        InvalidInput: for arms that were hardly ever taken, and rejection where it is impossible.
    """

    size: int

    def __init__(self, log: Log, replay: Replay | None = None) -> None:
        self.log = log
        self.domain, self.arm_names = log.domain, log.arm_names
        self.reward_bounds, self.rows = log.reward_bounds, log.rows
        if replay is not None:
            one_of(replay, "replay", ("rejection", "model"))
        self.replay: Replay = self._way(replay)
        estimated = estimate(log)
        self.models, self.estimates = estimated.models, estimated.estimates
        self.best = int(self.estimates.outcomes.mean(axis=0).argmax())
        rejected = self.replay == "rejection"
        self.size = rejection_people(self.estimates.propensities) if rejected else len(log)
        self.source = f"{log.source} {len(log):,} logged decisions, replayed by {self._how()}."
        self.warnings = tuple(estimated.warnings)

    @property
    def exposure(self) -> str:
        return super().exposure or exposure_of("the log")

    @property
    def metric(self) -> Metric:
        return "reward"

    @property
    def visits(self) -> IntArray | None:
        return None if self.log.ids is None else np.unique(self.log.ids, return_counts=True)[1]

    def check_size(self, people: int) -> None:
        if self.replay == "rejection" and people > self.size:
            raise InvalidInput(
                f"rounds was {people}, but of {len(self.log):,} logged decisions replay by "
                f"rejection serves {self.size:,} people; ask for no more rounds than that, or use "
                'replay = "model", which serves any number.'
            )
        if people < 1:
            super().check_size(people)

    def check_reference(self, name: str) -> None:
        if name == "oracle":
            raise InvalidInput(_NO_ORACLE)

    def sample(self, people: int, rng: np.random.Generator) -> Crowd:
        self.check_size(people)
        if self.replay == "rejection":
            best = float(self.estimates.outcomes[:, self.best].mean())
            return RejectionCrowd(self.log, people, best, rng)
        half = np.flatnonzero(self.models.halves == rng.integers(2))
        passes = -(-people // len(half))
        rows = np.concatenate([rng.permutation(half) for _ in range(passes)])[:people]
        return ModelCrowd(self, rows, self.models.draw(rows, rng))

    def _way(self, replay: Replay | None) -> Replay:
        """How the log is replayed; `InvalidInput` for rejection that is not possible."""
        known, alone = self.log.propensities is not None, self.log.ids is None
        served = rejection_people(self.log.propensities) if known else 0  # type: ignore[arg-type]
        if replay is None:
            small = len(self.log) < _SMALL_LOG
            return "rejection" if small and alone and served >= _FEWEST_SERVED else "model"
        if replay == "rejection" and not (known and alone and served):
            reason = (
                "propensities are not known"
                if not known
                else "people come more than once"
                if not alone
                else "the smallest propensity leaves nobody"
            )
            raise InvalidInput(
                f'replay was "rejection", but {reason}; use replay = "model", or leave it out.'
            )
        return replay

    def _how(self) -> str:
        if self.replay == "rejection":
            return f"rejection, in which about one row in {len(self.log) / self.size:,.0f} counts"
        return "a model of rewards; what learners earn is estimated by doubly robust means"


def problem_of_log(
    path: str,
    columns: Annotated[list[Column], Field(min_length=1)],
    action: LoggedAction,
    reward: LoggedReward,
    propensity: Propensity,
    replay: Replay | None = None,
    person: str | None = None,
    radius: Positive | None = None,
    *,
    files: Files,
) -> LogProblem:
    """The problem `log` of study files."""
    text = [column.name for column in columns if column.values and column.thresholds is None]
    text += [action.column] + ([] if person is None else [person])
    named = [] if propensity.column is None else [propensity.column]
    log = Log.from_frame(
        files.read("path", path, text),
        columns,
        action,
        reward,
        propensity,
        person,
        radius,
        files.origin(path),
        files.starts(
            columns, person, action=[action.column], reward=[reward.column], propensity=named
        ),
    )
    problem = LogProblem(log, replay)
    files.mark(problem, path)
    return problem
