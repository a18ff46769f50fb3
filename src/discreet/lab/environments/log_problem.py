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
simulated by models that learnt from the other half. What the learner earned is estimated from the
probabilities with which the policy of that moment gives each arm, by ipw, snipw or dr
(`log_values`): the action that is drawn would add its own noise. Neither the models nor the learner
have seen the rewards of that half, so errors of the models bias what the learner learns, not what
its policies are estimated to earn. Every context counts, and any number of people can be served.

| array    | shape  | meaning                                                                  |
|----------|--------|--------------------------------------------------------------------------|
| rows     | (n,)   | rows of the log in the order in which people arrive                      |
| rewards  | (n, K) | simulated, by model; (n,) logged, by rejection                           |
| used     | (n,)   | probability of the logged action under the policy / its propensity       |
| terms    | (n,)   | whose mean is the estimate                                               |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from discreet.lab.environments.base import Choices, Chosen, Crowd, Metric, Problem, exposure_of
from discreet.lab.environments.frames import Files
from discreet.lab.environments.log_estimates import estimate
from discreet.lab.environments.log_values import (
    ESTIMATORS,
    Estimator,
    LogValue,
    behind_interval,
    effective_number,
    normalised_terms,
    value_of_terms,
)
from discreet.lab.environments.logs import Log, LoggedAction, LoggedReward, Propensity
from discreet.people.columns import Column
from discreet.toml_files import Positive
from discreet.validation import FloatArray, IntArray, InvalidInput, one_of

Replay = Literal["rejection", "model"]

# Logs of fewer rows are replayed by rejection if it serves so many people.
_SMALL_LOG, _FEWEST_SERVED = 10_000, 200
# A share of people that is worth a remark, and the resamples behind a run's interval.
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
        if len(values) < 2:
            return ()
        alone = np.arange(len(values))
        behind = behind_interval(np.ones(len(values)), values, alone)
        value = value_of_terms(values, alone, behind, "ipw", len(values), 0.0, _RESAMPLES)
        return (f"in the first replicate {value.mean:.4g} per person; {value.interval_text}.",)

    def best_fixed(self) -> FloatArray:
        return np.full(self._people, self._best)

    def oracle(self) -> FloatArray:
        raise InvalidInput(_NO_ORACLE)


class ModelCrowd(LogCrowd):
    """People of one half of a log, with simulated rewards and estimates of what policies earn.

    Args:
        problem: whose people they are.
        rows: (n,) rows of the log.
        rewards: (n, K) simulated.
        best: the arm of `best_fixed`.
    """

    def __init__(self, problem: LogProblem, rows: IntArray, rewards: FloatArray, best: int) -> None:
        log = problem.log
        self.contexts = log.contexts[rows]
        if log.ids is not None:
            # Whoever comes again with the same row stands for somebody else who is like them.
            again = pd.Series(rows).groupby(rows).cumcount().to_numpy()
            self.ids = log.ids[rows] + again * (log.ids.max() + 1)
        self._estimates, self._estimator = problem.estimates.of(rows), problem.estimator
        self._rewards, self._best = rewards, best
        self._used, self._hardly = np.zeros(len(rows)), np.zeros(len(rows))

    def received(self, actions: Chosen, start: int) -> FloatArray:
        rewards: FloatArray = self._rewards[
            np.arange(start, start + len(actions.arms)), actions.arms
        ]
        return rewards

    def value(self, actions: Chosen, start: int) -> FloatArray:
        people = np.arange(start, start + len(actions.arms))
        shares = actions.policy.probabilities(self.contexts[people])
        return self._valued(shares, people)

    def _valued(self, shares: FloatArray, people: IntArray) -> FloatArray:
        """What people contribute when they are given arms with probabilities (n, K)."""
        some = self._estimates.of(people)
        self._used[people] = some.used(shares)
        self._hardly[people] = (shares * some.rare).sum(axis=1)
        if self._estimator != "snipw":
            return some.terms(shares, self._estimator)
        # The sum over the first t people is t times their snipw, so that every sum of a trace is.
        seen = slice(0, people[-1] + 1)
        weights = np.cumsum(self._used[seen])
        earned = np.cumsum(self._used[seen] * self._estimates.rewards[seen])
        share = np.divide(earned, weights, out=np.zeros_like(earned), where=weights > 0.0)
        sums = np.concatenate([[0.0], np.arange(1, len(share) + 1) * share])
        values: FloatArray = np.diff(sums)[people]
        return values

    def estimated(self, values: FloatArray) -> LogValue:
        """The value of a run that contributed these values (n,), with an interval over people."""
        rewards = self._estimates.rewards
        if self._estimator == "snipw" and self._used.any():
            values = normalised_terms(self._used, rewards)
        return value_of_terms(
            values,
            self._estimates.people,
            behind_interval(self._used, rewards, self._estimates.people),
            self._estimator,
            effective_number(self._used),
            float(self._hardly.mean()),
            resamples=_RESAMPLES,
        )

    def remarks(self, values: FloatArray) -> tuple[str, ...]:
        if len(np.unique(self._estimates.people)) < 2:
            return ()
        value = self.estimated(values)
        text = (
            f"in the first replicate {value.mean:.4g} per person by {value.estimator}; "
            f"{value.interval_text}."
        )
        if value.hardly < _LEAST_SHARE:
            return (text,)
        return (
            text,
            f"{100.0 * value.hardly:.0f}% of people were given what the log hardly gave to people "
            "like them; what they earned rests on a model.",
        )

    def best_fixed(self) -> FloatArray:
        arm = self._estimates.weights(self._best)
        return self._estimates.terms(arm, self._estimator)

    def oracle(self) -> FloatArray:
        raise InvalidInput(_NO_ORACLE)


class LogProblem(Problem):
    """A log of decisions whose people are served again (see the module).

    Args:
        log: the decisions.
        replay: the way; chosen by size if left out: rejection where propensities are known, nobody
            comes more than once, the log is small and enough people count; otherwise a model.
        estimator: of what learners earn by a model, "ipw", "snipw" or "dr" (`log_values`); dr if
            left out. Where it is given, the replay is by a model.

    Attributes:
        log, replay, estimator: see above.
        estimates: what each arm would have given each person of the log, with intervals.
        models: of rewards.
        best: for each half the best arm by snipw in the other half: an arm that is chosen by the
            rewards which value it looks better than it is.

    Raises:
        InvalidInput: for arms that were hardly ever taken, and rejection where it is impossible.
    """

    size: int

    def __init__(
        self, log: Log, replay: Replay | None = None, estimator: Estimator | None = None
    ) -> None:
        self.log = log
        self.domain, self.arm_names = log.domain, log.arm_names
        self.reward_bounds, self.rows = log.reward_bounds, log.rows
        if replay is not None:
            one_of(replay, "replay", ("rejection", "model"))
        if estimator is not None:
            one_of(estimator, "estimator", ESTIMATORS)
            if replay == "rejection":
                raise InvalidInput(
                    f'estimator was {estimator!r} and replay "rejection", which needs none: what '
                    'counts was earned. Leave one of the two out, or use replay = "model".'
                )
            replay = "model"
        self.estimator: Estimator = estimator or "dr"
        self.replay: Replay = self._way(replay)
        estimated = estimate(log)
        self.models, self.estimates = estimated.models, estimated.estimates
        self.best = (self._best_in(1), self._best_in(0))
        rejected = self.replay == "rejection"
        self.size = rejection_people(self.estimates.propensities) if rejected else len(log)
        self.source = f"{log.source} {len(log):,} logged decisions, replayed by {self._how()}."
        rows = () if self.rows is None else self.rows.warnings
        self.warnings = (*rows, *estimated.warnings)

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
            best = float(
                self.estimates.outcomes[
                    np.arange(len(self.log)), np.array(self.best)[self.models.halves]
                ].mean()
            )
            return RejectionCrowd(self.log, people, best, rng)
        served = int(rng.integers(2))
        half = np.flatnonzero(self.models.halves == served)
        passes = -(-people // len(half))
        rows = np.concatenate([rng.permutation(half) for _ in range(passes)])[:people]
        return ModelCrowd(self, rows, self.models.draw(rows, rng), self.best[served])

    def _best_in(self, half: int) -> int:
        """The arm with the best mean reward, by snipw, in one half."""
        rows = np.flatnonzero(self.models.halves == half)
        weights = 1.0 / self.estimates.propensities[rows]
        arms = self.log.actions[rows]
        totals = np.bincount(arms, weights, self.log.arms)
        earned = np.bincount(arms, weights * self.log.rewards[rows], self.log.arms)
        means = np.full(self.log.arms, -np.inf)
        return int(np.divide(earned, totals, out=means, where=totals > 0.0).argmax())

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
        return f"a model of rewards; what learners earn is estimated by {self.estimator}"


def problem_of_log(
    path: str,
    columns: Annotated[list[Column], Field(min_length=1)],
    action: LoggedAction,
    reward: LoggedReward,
    propensity: Propensity,
    replay: Replay | None = None,
    estimator: Estimator | None = None,
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
    problem = LogProblem(log, replay, estimator)
    files.mark(problem, path)
    return problem
