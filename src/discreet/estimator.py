"""A private contextual bandit with scikit-learn's conventions: fit, partial_fit, predict, and act.

    bandit = PrivateBandit(["call", "visit"], epsilon=1.0, bounds={"age": (18, 90)})
    bandit.fit(decisions, rewards, contexts)        # logged decisions
    bandit.predict(contexts)                        # the arm with the largest expected reward
    actions, chances = bandit.act(contexts)         # or choose, explore and
    bandit.partial_fit(actions, rewards, contexts)  # learn from that

Each row is another person. It is read by this process, which plays the part of each person's own
device: what the learner keeps of them is what devices would have sent.

**Logged decisions.** Learners read reports by how their own policy chooses arms. In a log where
arms depend on contexts in another way, they would confuse selection with effect. So

| learner                              | a log                                                     |
|--------------------------------------|-----------------------------------------------------------|
| `kernel` and others that take        | is an auxiliary source: the arm is reported as privately  |
| sources (local)                      | as the context, and nothing is assumed about its origin   |
| `kernel` without privacy             | is used as it is: rewards are compared arm by arm         |
| `kernel`, `best_arm` (joint)         | needs the propensity p of each decision: a person counts  |
|                                      | with the weight `least_propensity` / p                    |
| `capri`, `usca` (joint, none)        | needs it, too. The policy draws an arm for the person;    |
|                                      | the reward that counts is m + (r - m) / p if it is the    |
|                                      | one they had, else m, the middle of the bounds: its mean  |
|                                      | is that of the arm drawn                                  |

The last two are unbiased for any behaviour policy (Horvitz and Thompson 1952). The public
`least_propensity` says how little a person counts, or how far from their middle rewards can be.

| array        | shape  | meaning                                                           |
|--------------|--------|-------------------------------------------------------------------|
| decisions    | (n,)   | the arms of people, as they were declared                         |
| rewards      | (n,)   | within `rewards`                                                  |
| contexts     | (n, d) | a data frame, dictionaries or an array (people/columns.py)        |
| propensities | (n,)   | the probability with which each person was given their arm        |
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from discreet.learners.base import Learner
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.kernel.features import MOST_COLUMNS
from discreet.learners.kernel.joint import JointKernel, checked_propensities
from discreet.learners.kernel.learner import KernelLearner
from discreet.learners.partition.learner import Partition
from discreet.learners.policy import Actions, ArmPolicy
from discreet.learners.registry import Declared as Facts
from discreet.learners.registry import learner_class, make_learner, usual_learner, variant
from discreet.people.columns import Declared
from discreet.people.domain import ArmPoints, Box, RewardBounds
from discreet.privacy import (
    Budget,
    Guarantee,
    Joint,
    Local,
    NoiseSource,
    NonPrivate,
    SecureNoise,
    SimulatedNoise,
    Unprotected,
)
from discreet.privacy.noise import refuse_copy
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    nearest,
    number_from,
    one_of,
    whole_number,
)

LOG = "log"
"""The name of the source that logged decisions are."""

# Each policy of a log is for this share of the people before it, at least.
_GROWTH = 0.1
# Without a horizon, the usual learner is chosen as for this number of people.
_USUAL_PEOPLE = 10_000
_INTERRUPTED = (
    "partial_fit was interrupted: some of these people may have been learnt from already, and "
    "would pay twice. Do not pass them again; go on with others."
)


class PrivateBandit(BaseEstimator):  # type: ignore[misc]
    """A private contextual bandit with scikit-learn's conventions.

    Parameters are checked when it is fitted. **Every fit is paid for**: people in the data of two
    fits, of two clones, or of two folds of a grid search pay epsilon for each, and `guarantee_`
    covers the last fit alone. Choose parameters on other data.

    Args:
        arms: the arms, at least two different texts or numbers; or `ArmPoints`, for doses or prices
            that the learner is to compare. These are called by their names, else by their points.
        epsilon: what one person pays; each row is a person.
        delta: needed under joint privacy.
        bounds: public bounds of contexts, such as `{"age": (18, 90), "region": ["north", "south"]}`
            (`columns.declared_columns`), or a `Box`. Never read off the data.
        rewards: the least and the largest reward; public.
        trust_model: "local": what is kept of each person is a private report; "joint": this process
            keeps what happened and releases private sums of it; "none": no privacy.
        learner: the name of a learner (`docs/learners`); by default the usual one.
        options: its options.
        least_propensity: for joint learners a public lower bound of the propensity of every arm for
            everyone in a log (leave out arms that some could not have had); None where all people
            are served by `act`.
        horizon: how many people `act` is expected to serve.
        noise: "secure", or "simulated" in simulations.
        random_state: the seed of public randomness and simulated noise; a whole number or None.

    Attributes:
        learner_: the learner; under joint privacy SECRET.
        arms_: the arms.
        n_features_in_, feature_names_in_: the columns of contexts.
    """

    def __init__(
        self,
        arms: Sequence[str | float] | ArmPoints,
        epsilon: float,
        *,
        delta: float | None = None,
        bounds: Declared | Box | None = None,
        rewards: tuple[float, float] = (0.0, 1.0),
        trust_model: str = "local",
        learner: str | None = None,
        options: Mapping[str, Any] | None = None,
        least_propensity: float | None = None,
        horizon: int | None = None,
        noise: str = "secure",
        random_state: int | None = None,
    ) -> None:
        self.arms = arms
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.rewards = rewards
        self.trust_model = trust_model
        self.learner = learner
        self.options = options
        self.least_propensity = least_propensity
        self.horizon = horizon
        self.noise = noise
        self.random_state = random_state

    def fit(
        self,
        decisions: ArrayLike | Actions,
        rewards: ArrayLike,
        contexts: Any,
        propensities: ArrayLike | None = None,
    ) -> Self:
        """Forget everything learnt, and learn from a log; see `partial_fit`."""
        fresh = _Fitted(self)
        fresh.learn(decisions, rewards, contexts, propensities)
        return self._keep(fresh)

    def partial_fit(
        self,
        decisions: ArrayLike | Actions,
        rewards: ArrayLike,
        contexts: Any,
        propensities: ArrayLike | None = None,
    ) -> Self:
        """Learn from more people, each of them for the first time.

        Args:
            decisions: (n,) the arms of people, from any decision maker; or what `act` returned for
                these very people, which carries more information.
            rewards: (n,) the rewards.
            contexts: of these people.
            propensities: (n,) see the module; ignored where the learner needs none.

        Raises:
            InvalidInput: for impossible data; then nothing has changed. After any other exception,
                such as Ctrl-C, some of these people may have been learnt from, as a note at the
                exception says: do not pass them again.
        """
        fitted = self._begun()
        try:
            fitted.learn(decisions, rewards, contexts, propensities)
        except InvalidInput:
            raise
        except BaseException as error:
            # Called again, as a cell of a notebook is, it would count them twice.
            error.add_note(_INTERRUPTED)
            raise
        return self._keep(fitted)

    def act(self, contexts: Any) -> tuple[Actions, FloatArray]:
        """Choose an arm for each person as the learner would, which explores where that pays.

        A bandit that was not fitted yet begins here.

        Returns:
            `Actions`, whose `names` are the arms as texts (`arms_[actions.arms]` as declared), and
            the (n,) probabilities with which they were chosen. Keep the actions until the rewards
            come, for `partial_fit`.
        """
        fitted = self._begun()
        chosen = fitted.act(contexts)
        self._keep(fitted)
        return chosen

    def _begun(self) -> _Fitted:
        return self._fitted if hasattr(self, "learner_") else _Fitted(self)

    def _keep(self, fitted: _Fitted) -> Self:
        self._fitted = fitted
        self.learner_ = fitted.learner
        self.arms_ = fitted.arms
        self.n_features_in_ = fitted.domain.dimension
        self.feature_names_in_ = np.array(fitted.domain.names, dtype=object)
        return self

    # Post-processing of private reports and releases.

    def predict(self, contexts: Any) -> NDArray[Any]:
        """(n,) the arm with the largest expected reward for each person; nothing is explored."""
        check_is_fitted(self, "learner_")
        best: NDArray[Any] = self.arms_[self._fitted.expected(contexts).argmax(axis=1)]
        return best

    def predict_expectations(self, contexts: Any) -> Any:
        """The expected reward of each arm for each person.

        Returns:
            A data frame with a column for each arm where contexts are one (with the same index),
            otherwise a list of dictionaries, arm -> expected reward.
        """
        check_is_fitted(self, "learner_")
        expected, arms = self._fitted.expected(contexts), self.arms_.tolist()
        if hasattr(contexts, "columns"):
            import pandas as pd

            return pd.DataFrame(expected, index=getattr(contexts, "index", None), columns=arms)
        return [dict(zip(arms, row, strict=True)) for row in expected.tolist()]

    def predict_proba(self, contexts: Any) -> FloatArray:
        """(n, K) the probability that `act` chooses each arm, in the order of `arms_`."""
        check_is_fitted(self, "learner_")
        return self._fitted.policy().probabilities(contexts)

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of each person learnt from, derived from the releases; the larger of that
        for people of a log and that for people served by `act`."""
        check_is_fitted(self, "learner_")
        learner = self._fitted.learner
        sources = [learner.streams[name].guarantee() for name in learner.sources]
        held = [learner.guarantee()] if learner.people or not sources else []
        return max([*held, *sources], key=lambda guarantee: guarantee.epsilon)

    @property
    def waiting_(self) -> int:
        """How many people count in no policy yet: under joint privacy they wait for the next
        release, at the end of their epoch, or, outside `learner_`, until logs have enough people
        for one."""
        check_is_fitted(self, "learner_")
        learner, logs = self._fitted.learner, sum(len(log[0]) for log in self._fitted.waiting)
        return logs + (learner.people - learner.published_from if learner.budget.is_central else 0)

    def __getstate__(self) -> dict[str, Any]:
        """A joint bandit is not pickled: of two copies each would release the same people again."""
        fitted = vars(self).get("_fitted")
        if fitted is not None and fitted.learner.budget.is_central:
            refuse_copy("a fitted bandit", "discreet.save(bandit.learner_, path)")
        state: dict[str, Any] = super().__getstate__()
        return state


class _Fitted:
    """The state of a fitted bandit: its learner, arms and domain.

    Attributes:
        arms: (K,) the arms as declared.
        domain: of contexts.
        plain: the bounds of rewards.
        least: the least propensity in a log, or None.
        learner: what learns.

    Raises:
        InvalidInput: for parameters that cannot be used.
    """

    def __init__(self, bandit: PrivateBandit) -> None:
        self.arms = _arms_of(bandit.arms)
        self.domain = _domain_of(bandit.bounds)
        self.plain = RewardBounds(*_pair_of(bandit.rewards))
        self.middle = self.plain.lower + 0.5 * (self.plain.upper - self.plain.lower)
        bounds, self.least = self.plain, bandit.least_propensity
        if self.least is not None:
            self.least = number_from(self.least, "least_propensity", 1e-6, 1.0)
        seed, horizon = bandit.random_state, bandit.horizon
        self.rng = np.random.default_rng(
            None if seed is None else whole_number(seed, "random_state")
        )
        self.noise: NoiseSource = SecureNoise()
        if one_of(bandit.noise, "noise", ("secure", "simulated")) == "simulated":
            self.noise = SimulatedNoise(int(self.rng.integers(2**63)))
        budget = _budget_of(bandit.trust_model, bandit.epsilon, bandit.delta)
        people = _USUAL_PEOPLE if horizon is None else whole_number(horizon, "horizon", minimum=1)
        columns = self.domain.dimension
        kernel = isinstance(bandit.options, Mapping) and "kernel" in bandit.options
        facts = Facts(budget.trust_model, len(self.arms), columns, people, kernel)
        usual = usual_learner(facts).learner
        if usual == "partition" and self.domain.dimension <= MOST_COLUMNS:
            usual = "kernel"  # which takes a log as a source
        name = bandit.learner or usual
        if int not in learner_class(name).spaces:
            raise InvalidInput(
                f"learner was {name!r:.80}, which does not choose among arms; leave it out for the "
                "usual one."
            )
        weighs = issubclass(variant(learner_class(name), None, budget.trust_model), JointKernel)
        if self.least is not None and not weighs:
            half = 0.5 * (self.plain.upper - self.plain.lower) / self.least
            bounds = RewardBounds(self.middle - half, self.middle + half)
        arms: Any = tuple(map(str, self.arms.tolist()))
        if isinstance(bandit.arms, ArmPoints):
            arms = replace(bandit.arms, names=arms)
        self.learner: Learner[Any, Any, Any] = make_learner(
            name,
            self.domain,
            arms,
            budget,
            options=bandit.options,
            horizon=horizon,
            reward_bounds=bounds,
            public_seed=int(self.rng.integers(2**32)),
            noise=self.noise if budget.is_central else None,
        )
        if isinstance(self.learner, JointKernel) and self.least is not None:
            self.learner.expect_log(0, self.least)  # refuses one that these arms cannot all have
        # People of logs who wait for a release of theirs: arms, rewards, contexts and propensities.
        self.waiting: list[tuple[NDArray[Any], ...]] = []
        self._copy: Any = None  # of the learner, with the policy that it would publish now
        self._acted = False
        # Of the people served who were learnt from: who comes twice pays twice.
        self._public_coins: set[int] = set()

    def learn(self, decisions: Any, rewards: Any, contexts: Any, propensities: Any) -> None:
        """Learn from people (see `PrivateBandit.partial_fit`)."""
        unit = self.domain.people_to_unit(contexts)
        self.plain.to_unit(rewards, len(unit))  # refuses values outside
        values, rows = np.asarray(rewards, dtype=np.float64), self.domain.from_unit(unit)
        if isinstance(decisions, Actions):
            self._learn_own(decisions, values, rows)
        else:
            arms = self._places(decisions, len(unit))
            order = self.rng.permutation(len(rows))
            self._learn_log(arms[order], values[order], rows[order], propensities, order)
        self._copy = None

    def _places(self, decisions: Any, people: int) -> IntArray:
        """(n,) the numbers of arms that are given as declared."""
        given = np.asarray(decisions, dtype=object)
        if given.shape != (people,):
            raise InvalidInput(
                f"decisions was {decisions!r:.80}; give one arm for each of {people} people."
            )
        places = {arm: place for place, arm in enumerate(self.arms.tolist())}
        for row, arm in enumerate(given.tolist()):
            if not isinstance(arm, Hashable) or arm not in places:
                raise InvalidInput(
                    f"decisions was {arm!r:.80} in row {row}; the arms are "
                    f"{', '.join(map(str, places))}.{nearest(str(arm), map(str, places))}"
                )
        return np.array([places[arm] for arm in given.tolist()], dtype=np.int64)

    def _learn_own(self, actions: Actions, rewards: FloatArray, rows: FloatArray) -> None:
        """Learn from people whom `act` served."""
        policy = actions.policy if isinstance(actions.policy, ArmPolicy) else self.policy()
        if len(actions) != len(rows):
            raise InvalidInput(
                f"decisions had {len(actions)} actions for {len(rows)} people; pass what act() "
                "returned for them."
            )
        public_coins = set(np.ravel(actions.public_coins).tolist())
        twice = len(rows) - len(public_coins - self._public_coins)
        if twice:
            raise InvalidInput(
                f"decisions held {twice} of {len(rows)} actions a second time; who is learnt from "
                "twice pays twice. Pass what each act() returned once."
            )
        # After that check: noise is drawn once for each person.
        reporting = self.learner.reporting(self.noise)
        self.learner.update(policy.report(rows, actions, rewards, *reporting))
        self._public_coins |= public_coins
        self.learner.policy()

    def _learn_log(
        self,
        arms: IntArray,
        rewards: FloatArray,
        rows: FloatArray,
        propensities: Any,
        order: IntArray,
    ) -> None:
        """Learn from logged decisions (see the module)."""
        learner = self.learner
        if learner.budget.is_local and learner.takes_sources:
            self._learn_source(arms, rewards, rows)
            return
        if isinstance(learner, JointKernel):
            chances = self._propensities(propensities, len(order))[order]
            self.waiting.append((arms, rewards, rows, chances))
            self._read_log(learner)
            return
        policy = learner.policy()
        if not policy.accepts_logged_actions:
            chances = self._propensities(propensities, len(order))[order]
            drawn, _ = policy.act(rows, self.rng)
            weighted = np.where(drawn.arms == arms, (rewards - self.middle) / chances, 0.0)
            # Rounding must not carry what counts beyond its bounds, where it would be refused.
            arms, rewards = drawn, learner.reward_bounds.clip(self.middle + weighted)
        learner.update(policy.report(rows, arms, rewards, Unprotected()))
        learner.policy()  # what follows is learnt when it is published

    def _propensities(self, given: Any, people: int) -> FloatArray:
        """(n,) the probabilities of logged decisions."""
        name, local = self.learner.name, self.learner.budget.is_local
        if self.least is None or local:
            way = "give least_propensity, and the propensities of the decisions"
            if local:
                way = "choose kernel, which takes a log as a source"
            raise InvalidInput(
                f"decisions were logged, but {name} reads reports by how its own policy chooses, "
                f"and would confuse selection with effect. Pass what act() returned, or {way}."
            )
        if given is None:
            raise InvalidInput(
                "propensities was not given; pass the probability of each decision, such as 1/3 "
                "where one of three arms was drawn at random."
            )
        return checked_propensities(given, people, self.least)

    def _read_log(self, learner: JointKernel) -> None:
        """Learn from the people of logs, once there are enough for a release of theirs."""
        arms, rewards, rows, chances = map(np.concatenate, zip(*self.waiting, strict=True))
        if len(rows) < learner.enough_of_log:
            return
        assert self.least is not None
        self.waiting, start = [], 0
        with learner.lock:  # who acts meanwhile waits for a policy that chooses
            try:
                learner.expect_log(len(rows), self.least)
                while start < len(rows):
                    policy, some = learner.policy(), slice(start, start + learner.batch_of())
                    people = rows[some], arms[some], rewards[some], chances[some]
                    learner.update(policy.logged(*people))
                    start = some.stop
            finally:
                learner.expect_log(0, self.least)
                learner.policy()

    def _learn_source(self, arms: IntArray, rewards: FloatArray, rows: FloatArray) -> None:
        """People of a log report their arms too; later ones under better policies."""
        learner = self.learner
        if LOG not in learner.sources:
            learner.open_source(LOG, learner.budget.epsilon)
        start = 0
        while start < len(rows):
            policy = learner.policy(LOG)
            stop = start + max(learner.batch_of(LOG), int(_GROWTH * start))
            people = rows[start:stop], arms[start:stop], rewards[start:stop]
            learner.update(policy.report(*people, *learner.reporting(self.noise)))
            start = stop

    def act(self, contexts: Any) -> tuple[Actions, FloatArray]:
        """See `PrivateBandit.act`."""
        policy = self.learner.policy()
        self._copy = None
        chosen: tuple[Actions, FloatArray] = policy.act(contexts, self.rng)
        self._acted = True
        return chosen

    def policy(self) -> ArmPolicy:
        """The policy that `act` would choose by. A local learner that has served no one is asked in
        a copy, because its first policy lasts until people report under it; it draws no noise."""
        learner = self.learner
        if not self._acted and learner.budget.is_local:
            self._copy = self._copy or copy.deepcopy(learner)
            learner = self._copy
        current: ArmPolicy = learner.policy()
        return current

    def expected(self, contexts: Any) -> FloatArray:
        """(n, K) the expected rewards of arms, within the bounds of rewards."""
        learner = self.learner
        unit = self.domain.people_to_unit(contexts)
        policy = self.policy()
        if isinstance(learner, KernelLearner | Partition):
            seen = self._copy or learner
            return self.plain.clip(seen.predict(self.domain.from_unit(unit))[0])
        if not isinstance(policy, EpochPolicy):
            raise InvalidInput(
                f"{learner.name} has no expected rewards; kernel, partition, capri and usca have. "
                "Use predict_proba instead."
            )
        bounds = learner.reward_bounds
        width = bounds.upper - bounds.lower
        return self.plain.clip(bounds.lower + width * policy.expected_rewards(unit))


def _arms_of(arms: Any) -> NDArray[Any]:
    """The arms as an array that `predict` takes them from."""
    if isinstance(arms, ArmPoints):
        points = arms.array[:, 0] if arms.array.shape[1] == 1 else np.arange(len(arms))
        return np.array(arms.names) if arms.names else points
    given = list(arms) if isinstance(arms, Sequence | np.ndarray) else []
    scalars = all(isinstance(arm, str | int | float | np.generic) for arm in given)
    if isinstance(arms, str) or not scalars or len(set(given)) < max(2, len(given)):
        raise InvalidInput(
            f'arms was {arms!r:.80}; give at least two different ones, such as ["call", "visit"].'
        )
    return np.array(given)


def _domain_of(bounds: Any) -> Box:
    if bounds is None:
        raise InvalidInput(
            "bounds was not given; state the bounds of every column, such as "
            '{"age": (18, 90), "region": ["north", "south"]}. They are public: what a form allows, '
            "not the extremes of the data."
        )
    return bounds if isinstance(bounds, Box) else Box.of(bounds)


def _pair_of(rewards: Any) -> tuple[float, float]:
    if not isinstance(rewards, tuple | list) or len(rewards) != 2:
        raise InvalidInput(
            f"rewards was {rewards!r:.80}; give the least and the largest reward, such as (0, 1)."
        )
    return rewards[0], rewards[1]


def _budget_of(trust_model: Any, epsilon: Any, delta: Any) -> Budget:
    model = one_of(trust_model, "trust_model", ("local", "joint", "none"))
    if model == "none":
        return NonPrivate()
    if model == "local":
        return Local(epsilon, 0.0 if delta is None else delta)
    if delta is None:
        raise InvalidInput(
            "delta was not given; joint privacy needs one, far below 1 / (number of people), such "
            "as 1e-6."
        )
    return Joint(epsilon, delta)
