"""A log of decisions as a problem: off-policy replay of a learner.

A log has the reward of the action that was taken, and of no other. There are two ways to replay a
learner:

*Rejection* (Li, Chu, Langford and Wang, 2011). People come in a random order. Where the learner
chooses the logged action, the row is accepted with probability min p / p_i: the learner observes
and earns the logged reward. Other rows are skipped. For every learner and context a row is accepted
with probability

    sum_a p(a|x) w(a|x) min p / p(a|x) = min p sum_a w(a|x) = min p,

so accepted people have the distribution of contexts, as if the learner had run for n min p people.
Nothing is assumed about rewards; propensities must be known.

*Model*. The people of one half of the log, drawn for each replicate, are served with rewards
simulated by models of the other half. The learner's reward is estimated from the action
probabilities of its policy at that time, by ipw, snipw or dr (`log_values`); drawn actions would
add their own noise. Neither the models nor the learner have seen the rewards of that half, so
errors of the models bias what the learner learns, not the estimated value of its policies. Every
context counts, and any number of people can be served.

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

from discreet.lab.environments.base import Choices, Chosen, Metric, Population, Problem, exposure_of
from discreet.lab.environments.catalog import Files, named
from discreet.lab.environments.log_values import (
    ESTIMATORS,
    Estimator,
    LogValue,
    behind_interval,
    effective_number,
    estimate,
    normalised_terms,
    value_of_terms,
)
from discreet.lab.environments.logs import Log, LoggedAction, LoggedReward, Propensity
from discreet.lab.environments.tables import Points, set_arm_points
from discreet.people.columns import Column
from discreet.toml_files import Positive
from discreet.validation import FloatArray, IntArray, InvalidInput, one_of

Replay = Literal["rejection", "model"]

# Logs of fewer rows are replayed by rejection if it serves at least _FEWEST_SERVED people.
_SMALL_LOG, _FEWEST_SERVED = 10_000, 200
# A share of people that is worth a remark, and the resamples behind a run's interval.
_LEAST_SHARE, _RESAMPLES = 0.01, 500

_NO_ORACLE = (
    "oracle was asked for, but a log has the reward of one action of each person; the best action "
    "for each context would be fitted to chance. Compare with best_fixed, or remove it."
)


def rejection_people(propensities: FloatArray) -> int:
    """The number of people whom replay by rejection almost surely serves.

    Each of n rows is accepted with probability min p: n min p - 3 sqrt(n min p (1 - min p)).
    """
    count, least = len(propensities), float(propensities.min())
    return max(math.floor(count * least - 3.0 * math.sqrt(count * least * (1.0 - least))), 0)


class LogPopulation(Population):
    """People of a log, each with the reward of one action."""

    def earned(self, chosen: IntArray | FloatArray) -> float:
        """Refused: `Estimates.value` estimates it, with an interval."""
        raise InvalidInput(
            "the mean reward of all people was asked for, which a log does not have; see the "
            "problem's estimates for an interval."
        )


class RejectionPopulation(LogPopulation):
    """People of a log who are accepted where the learner chooses the logged action.

    Args:
        log: with known propensities.
        people: the number to accept.
        best: the mean reward of the best single arm.
        rng: draws the order, and which rows can be accepted.
    """

    def __init__(self, log: Log, people: int, best: float, rng: np.random.Generator) -> None:
        assert log.propensities is not None
        self.contexts = log.contexts
        self._log, self._people, self._best = log, people, best
        # Whether u < min p / p_i does not depend on the choice.
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
            if self._next >= len(self._order):
                self._next = 0  # the log from the start again: rare with `rejection_people`
            rows = self._order[self._next : self._next + (stop - start) * self._log.arms]
            actions = act(self._log.contexts[rows])
            agree = np.flatnonzero(actions.arms == self._log.actions[rows])
            # Rows after the last accepted one are still unseen.
            enough = len(agree) >= stop - start
            agree = agree[: stop - start]
            self._next += int(agree[-1]) + 1 if enough else len(rows)
            if len(agree):
                self._rows[start : start + len(agree)] = rows[agree]
                return self._log.contexts[rows[agree]], actions[agree]
            fruitless += len(rows)
        raise InvalidInput(
            f"the learner never chose the logged action in {fruitless:,} rows that could be "
            'accepted, so replay by rejection does not end; use replay = "model".'
        )

    def received(self, actions: Chosen, start: int) -> FloatArray:
        return self._log.rewards[self._rows[start : start + len(actions.arms)]]

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


class ModelPopulation(LogPopulation):
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
            # A repeated row stands for another person who is alike.
            again = pd.Series(rows).groupby(rows).cumcount().to_numpy()
            self.ids = log.ids[rows] + again * (log.ids.max() + 1)
        self._estimates, self._estimator = problem.estimates.of(rows), problem.estimator
        self._rewards, self._best = rewards, best
        self._used, self._hardly = np.zeros(len(rows)), np.zeros(len(rows))

    def received(self, actions: Chosen, start: int) -> FloatArray:
        return self._rewards[np.arange(start, start + len(actions.arms)), actions.arms]

    def value(self, actions: Chosen, start: int) -> FloatArray:
        people = np.arange(start, start + len(actions.arms))
        shares = actions.policy.probabilities(self.contexts[people])
        return self._valued(shares, people)

    def _valued(self, shares: FloatArray, people: IntArray) -> FloatArray:
        """Contributions of people under action probabilities (n, K)."""
        some = self._estimates.of(people)
        self._used[people] = some.used(shares)
        self._hardly[people] = (shares * some.rare).sum(axis=1)
        if self._estimator != "snipw":
            return some.terms(shares, self._estimator)
        # The sum over the first t people is t times their snipw, at every point of a trace.
        seen = slice(0, people[-1] + 1)
        weights = np.cumsum(self._used[seen])
        earned = np.cumsum(self._used[seen] * self._estimates.rewards[seen])
        share = np.divide(earned, weights, out=np.zeros_like(earned), where=weights > 0.0)
        sums = np.concatenate([[0.0], np.arange(1, len(share) + 1) * share])
        return np.diff(sums)[people]

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
            f"{100.0 * value.hardly:.0f}% of people were given an action that was rare for people "
            "like them; their rewards rest on a model.",
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
        replay: the way; if left out, rejection for a small log with known propensities whose people
            come once, if it accepts enough of them; otherwise a model.
        estimator: of what learners earn by a model, "ipw", "snipw" or "dr" (`log_values`); dr if
            left out. Where it is given, the replay is by a model.

    Attributes:
        log, replay, estimator: see above.
        estimates: doubly robust outcomes of each arm for each person of the log.
        models: of rewards.
        best: for each half the best arm by snipw in the other half; an arm valued by the rewards
            that chose it looks better than it is.

    Raises:
        InvalidInput: for arms that were hardly ever taken, and rejection where it is impossible.
    """

    size: int

    def __init__(
        self, log: Log, replay: Replay | None = None, estimator: Estimator | None = None
    ) -> None:
        self.log = log
        self.domain, self.arm_names = log.domain, log.arm_names
        self.reward_bounds, self.rows, self.ids = log.reward_bounds, log.rows, log.ids
        if replay is not None:
            one_of(replay, "replay", ("rejection", "model"))
        if estimator is not None:
            one_of(estimator, "estimator", ESTIMATORS)
            if replay == "rejection":
                raise InvalidInput(
                    f'estimator was {estimator!r} and replay "rejection", which needs none. Leave '
                    'one of the two out, or use replay = "model".'
                )
            replay = "model"
        self.estimator: Estimator = estimator or "dr"
        self.replay: Replay = self._way(replay)
        estimated = estimate(log, draws=self.replay == "model")
        self.models, self.estimates = estimated.models, estimated.estimates
        self.best = (self._best_in(1), self._best_in(0))
        rejected = self.replay == "rejection"
        self.size = rejection_people(self.estimates.propensities) if rejected else len(log)
        how = (
            f"rejection, which accepts about one row in {len(log) / self.size:,.0f}"
            if rejected
            else f"a model of rewards; what learners earn is estimated by {self.estimator}"
        )
        self.source = f"{log.source} {len(log):,} logged decisions, replayed by {how}."
        rows = () if self.rows is None else self.rows.warnings
        self.warnings = (*rows, *estimated.warnings)

    @property
    def exposure(self) -> str:
        return super().exposure or exposure_of("the log")

    @property
    def metric(self) -> Metric:
        return "reward"

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

    def sample(self, people: int, rng: np.random.Generator) -> Population:
        self.check_size(people)
        if self.replay == "rejection":
            best = float(
                self.estimates.outcomes[
                    np.arange(len(self.log)), np.array(self.best)[self.models.halves]
                ].mean()
            )
            return RejectionPopulation(self.log, people, best, rng)
        served = int(rng.integers(2))
        half = np.flatnonzero(self.models.halves == served)
        passes = -(-people // len(half))
        rows = np.concatenate([rng.permutation(half) for _ in range(passes)])[:people]
        return ModelPopulation(self, rows, self.models.draw(rows, rng), self.best[served])

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
                else "the smallest propensity accepts no one"
            )
            raise InvalidInput(
                f'replay was "rejection", but {reason}; use replay = "model", or leave it out.'
            )
        return replay


@named(
    "log",
    "logged decisions with outcomes and propensities",
    "The file named by the option path.",
    None,
    (),
    path="a .csv, .csv.gz or .parquet file with one row for each decision",
    columns="context columns, as in 'table'",
    action="{column, names, outside?, missing?}: what was done; names are arms",
    reward="{column, lower, upper, outside?, missing?}: what followed",
    propensity="the probability of what was done: {column}, {value} where it was always the same, "
    "or {estimated = true}",
    replay='"rejection" or "model" (docs/logs.md); by the size of the log if left out',
    estimator='of what learners earn by a model: "ipw", "snipw" or "dr", which is the default',
    person="the column that says whose row it is, as [people] id does, if people come more than "
    "once",
    radius="as in 'table'",
    points="as in 'table'",
)
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
    points: Points | None = None,
    *,
    files: Files,
) -> LogProblem:
    """The problem `log` of study files."""
    frame, origin = files.read_people(path, columns, person, [action.column])
    probabilities = [] if propensity.column is None else [propensity.column]
    log = Log.from_frame(
        frame,
        columns,
        action,
        reward,
        propensity,
        person,
        radius,
        origin,
        files.starts(
            columns,
            person,
            action=[action.column],
            reward=[reward.column],
            propensity=probabilities,
        ),
    )
    problem = LogProblem(log, replay, estimator)
    set_arm_points(problem, points, files)
    files.mark(problem, path)
    return problem
