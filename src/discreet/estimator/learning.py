"""What happens when a `PrivateBandit` learns: whose reports are made, and how.

**Decisions that somebody else made.** Learners read reports by how their own policy chooses arms:
in a log where arms depend on contexts in another way, what they take for the reward of an arm would
be partly who was given it. What is done instead:

| learner                              | a log                                                     |
|--------------------------------------|-----------------------------------------------------------|
| `local_kernel`, `partition`, and     | is an auxiliary source: the arm is reported as privately  |
| others that take sources (local)     | as the context, and nothing is assumed about how it came  |
| `local_kernel` without privacy       | is taken as it is: rewards are compared arm by arm        |
| `released_thompson`, `capri`, `usca` | needs the probability p of each decision. The policy      |
| (joint, none)                        | draws an arm for the person; the reward that counts is    |
|                                      | m + (r - m) / p if it is the one they had, else m, the    |
|                                      | middle of the bounds: its mean is that of the arm drawn   |

The last is unbiased whatever decided (Horvitz and Thompson 1952), and its price is that rewards can
be 1 / p times as far from their middle: `least_propensity`, which is public, says how far.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.learners.base import Learner
from discreet.learners.defaults import Declared as Facts
from discreet.learners.defaults import usual_learner
from discreet.learners.epochs.policy import EpochPolicy
from discreet.learners.messages import Actions, ArmPolicy
from discreet.learners.registry import learner_class, make_learner
from discreet.learners.sources import SourceLearner, TrustingLearner
from discreet.learners.terms import Terms
from discreet.people.domain import Box, RewardBounds
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
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    Refusals,
    finite_vector,
    nearest,
    number_from,
    one_of,
    whole_number,
)

LOG = "log"
# Each policy of a log is for this share of the people before it, at least.
_GROWTH = 0.1
NOISES = ("secure", "simulated")
TRUST_MODELS = ("local", "joint", "none")
# Arms that an array holds as they are.
_PLAIN = {bool, int, float, str}
# Without a number of people, the usual learner is chosen as for so many.
_USUAL_PEOPLE = 10_000


class Learning:
    """A bandit that has begun: its learner, and how people are read.

    Args:
        wished: the bandit, whose parameters are checked here.

    Attributes:
        arms: (K,) the arms as they were given.
        domain: of contexts.
        plain: the bounds of rewards.
        learner: what learns.

    Raises:
        InvalidInput: for parameters that cannot be used.
    """

    def __init__(self, wished: Any) -> None:
        refusals, seed = Refusals(), wished.random_state
        with refusals.collected():
            self.arms = _arms_of(wished.arms)
        with refusals.collected():
            self.domain = _domain_of(wished.bounds)
        with refusals.collected():
            self.plain = RewardBounds(*_pair(wished.rewards))
        self.least = wished.least_propensity
        if self.least is not None:
            with refusals.collected():
                self.least = number_from(self.least, "least_propensity", 1e-6, 1.0)
        with refusals.collected():
            one_of(wished.noise, "noise", NOISES)
        if seed is not None:
            with refusals.collected():
                whole_number(seed, "random_state")
        if wished.horizon is not None:
            with refusals.collected():
                whole_number(wished.horizon, "horizon", minimum=1)
        with refusals.collected():
            model = one_of(wished.trust_model, "trust_model", TRUST_MODELS)
            budget = _budget_of(model, wished.epsilon, wished.delta)
        refusals.raise_if_any()
        self.rng = np.random.default_rng(seed)
        self.noise: NoiseSource = SecureNoise()
        if wished.noise == NOISES[1]:
            self.noise = SimulatedNoise(int(self.rng.integers(2**63)))
        facts = Facts(model, len(self.arms), self.domain.dimension, wished.horizon or _USUAL_PEOPLE)
        name = wished.learner or usual_learner(facts).learner
        if int not in learner_class(name).spaces:
            raise InvalidInput(
                f"learner was {name!r:.80}, which does not choose among arms; leave it out for the "
                "usual one."
            )
        names = list(map(str, self.arms.tolist()))
        named = len(set(names)) == len(names) and all(0 < len(name) <= 100 for name in names)
        self.learner: Learner[Any, Any, Any] = make_learner(
            name,
            self.domain,
            names if named else len(self.arms),
            budget,
            options=wished.options,
            horizon=wished.horizon,
            reward_bounds=self._widened(),
            public_seed=int(self.rng.integers(2**32)),
            noise=self.noise if budget.protects_releases else None,
        )
        self._copy: Any = None  # of the learner, with the policy that it would publish now
        self._acted = False
        # Of the people served who were learnt from: who comes twice pays twice.
        self._tickets: set[int] = set()

    def _widened(self) -> RewardBounds:
        """Bounds of what counts as a reward, of people of a log too."""
        if self.least is None:
            return self.plain
        middle, half = self._middle, 0.5 * (self.plain.upper - self.plain.lower) / self.least
        return RewardBounds(middle - half, middle + half)

    @property
    def _middle(self) -> float:
        return self.plain.lower + 0.5 * (self.plain.upper - self.plain.lower)

    # People.

    def hear(self, decisions: Any, rewards: Any, contexts: Any, propensities: Any) -> None:
        """Learn from people (see `PrivateBandit.partial_fit`)."""
        refusals, people = Refusals(), np.size(rewards)
        with refusals.collected():
            unit = self.domain.people_to_unit(contexts)
            people = len(unit)
        with refusals.collected():
            self.plain.to_unit(rewards, people)  # refuses what is outside
        if not isinstance(decisions, Actions):
            with refusals.collected():
                arms = self._places(decisions, people)
        refusals.raise_if_any()
        rewards = np.asarray(rewards, dtype=np.float64)
        rows = self.domain.from_unit(unit)
        if isinstance(decisions, Actions):
            self._own(decisions, rewards, rows)
        else:
            order = self.rng.permutation(len(rows))
            self._others(arms[order], rewards[order], rows[order], propensities, order)
        self._copy = None

    def _places(self, decisions: Any, people: int) -> IntArray:
        """(n,) the numbers of arms that are given by their names."""
        # A list as it is: an array would take arms that are tuples apart.
        one_each = isinstance(decisions, list) or np.ndim(decisions) == 1
        given = list(decisions) if one_each else None
        if given is None or len(given) != people:
            raise InvalidInput(
                f"decisions was {decisions!r:.80}; give one arm for each of {people} people."
            )
        places = {arm: place for place, arm in enumerate(self.arms.tolist())}
        numbers = np.empty(people, dtype=np.int64)
        for row, arm in enumerate(given):
            plain = arm.item() if isinstance(arm, np.generic) else arm
            if not isinstance(plain, Hashable) or plain not in places:
                raise InvalidInput(
                    f"decisions was {plain!r:.80} in row {row}; the arms are "
                    f"{', '.join(map(str, places))}.{nearest(str(plain), map(str, places))}"
                )
            numbers[row] = places[plain]
        return numbers

    def _own(self, actions: Actions, rewards: FloatArray, rows: FloatArray) -> None:
        """People whom `act` served."""
        policy = actions.policy if isinstance(actions.policy, ArmPolicy) else self.policy()
        if len(actions) != len(rows):
            raise InvalidInput(
                f"decisions had {len(actions)} actions for {len(rows)} people; pass what act() "
                "returned for them."
            )
        tickets = set(np.ravel(actions.tickets).tolist())
        twice = len(rows) - len(tickets - self._tickets)
        if twice:
            raise InvalidInput(
                f"decisions held {twice} of {len(rows)} actions a second time; who is learnt from "
                "twice pays twice. Pass what each act() returned once."
            )
        # After that check: noise is drawn once for each person.
        self.learner.update(policy.report(rows, actions, rewards, *self._reporting()))
        self._tickets |= tickets
        self.learner.policy()

    def _others(
        self,
        arms: IntArray,
        rewards: FloatArray,
        rows: FloatArray,
        propensities: Any,
        order: IntArray,
    ) -> None:
        """People for whom somebody else decided (see the module)."""
        learner = self.learner
        if learner.budget.protects_reports and isinstance(learner, SourceLearner):
            self._as_source(learner, arms, rewards, rows)
            return
        policy = learner.policy()
        if policy.takes_any_arms:
            learner.update(policy.report(rows, arms, rewards, Unprotected()))
            learner.policy()  # what follows is learnt when it is published
            return
        if self.least is None or learner.budget.protects_reports:
            raise InvalidInput(self._no_log())
        chances = self._chances(propensities, order)
        actions, _ = policy.act(rows, self.rng)
        counts = np.where(actions.arms == arms, (rewards - self._middle) / chances, 0.0)
        # Rounding must not carry what counts beyond its bounds, where it would be refused.
        counted = learner.reward_bounds.clip(self._middle + counts)
        learner.update(policy.report(rows, actions, counted, Unprotected()))
        learner.policy()

    def _no_log(self) -> str:
        name, model = self.learner.name, self.learner.budget.trust_model
        way = (
            "give least_propensity, and the propensities of the decisions"
            if model != "local"
            else "choose local_kernel or partition, which take a log as a source"
        )
        return (
            f"decisions were made by somebody else, but {name} under trust_model = {model!r} reads "
            "reports by how its own policy chooses; in a log, who was given an arm would pass for "
            f"what the arm does. Pass the Actions that act() returned, or {way}."
        )

    def _chances(self, propensities: Any, order: IntArray) -> FloatArray:
        """(n,) the probabilities of decisions, in the order of the people."""
        if propensities is None:
            raise InvalidInput(
                "propensities was not given; for each person say how probable it was that somebody "
                "like them was given that arm, such as 1/3 where three arms were drawn at random."
            )
        chances = finite_vector(propensities, "propensities", len(order))
        assert self.least is not None
        wrong = (chances < self.least * (1.0 - 1e-9)) | (chances > 1.0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(
                f"propensities was {chances[row]:g} in row {row}; each must be from "
                f"least_propensity = {self.least:g} to 1."
            )
        return chances[order]

    def _as_source(
        self,
        learner: SourceLearner[Any, Any, Any, Any],
        arms: IntArray,
        rewards: FloatArray,
        rows: FloatArray,
    ) -> None:
        """People of a log, who report their arms too; later ones by better policies."""
        if LOG not in learner.sources:
            learner.open_source(LOG, learner.budget.epsilon)
        noise, terms = self._reporting()
        start = 0
        while start < len(rows):
            policy = learner.source_policy(LOG)
            stop = start + max(learner.source_batch(LOG), int(_GROWTH * start))
            people = rows[start:stop], arms[start:stop], rewards[start:stop]
            learner.update_source(policy.report(*people, noise, terms))
            start = stop

    def _reporting(self) -> tuple[NoiseSource, Terms | None]:
        """What people's sides report with."""
        learner = self.learner
        if not learner.budget.protects_reports:
            return Unprotected(), None
        arms = learner.arm_names or len(self.arms)
        return self.noise, Terms(
            self.domain, arms, learner.budget.epsilon, learner.reward_bounds, learner.budget.delta
        )

    def act(self, contexts: Any) -> tuple[Actions, FloatArray]:
        """See `PrivateBandit.act`."""
        policy = self.learner.policy()
        self._copy = None
        chosen: tuple[Actions, FloatArray] = policy.act(contexts, self.rng)
        self._acted = True
        return chosen

    # What was learnt.

    def policy(self) -> ArmPolicy:
        """What `act` would choose by. A local learner that served nobody yet is asked for it in a
        copy, because its first policy lasts until people report under it; it draws no noise."""
        learner = self.learner
        if not self._acted and learner.budget.protects_reports:
            self._copy = self._copy or copy.deepcopy(learner)
            learner = self._copy
        current: ArmPolicy = learner.policy()
        return current

    def expected(self, contexts: Any) -> FloatArray:
        """(n, K) the expected rewards of arms, within the bounds of rewards."""
        learner = self.learner
        unit = self.domain.people_to_unit(contexts)
        policy = self.policy()
        if isinstance(learner, TrustingLearner):
            seen = self._copy or learner
            return self.plain.clip(seen.predict(self.domain.from_unit(unit))[0])
        if not isinstance(policy, EpochPolicy):
            raise InvalidInput(
                f"{learner.name} does not say what it expects of each arm; local_kernel, "
                "partition, released_thompson, capri and usca do. predict_proba says what it would "
                "choose."
            )
        bounds = learner.reward_bounds
        width = bounds.upper - bounds.lower
        return self.plain.clip(bounds.lower + width * policy.expected_rewards(unit))

    def guarantee(self) -> Guarantee:
        """See `PrivateBandit.guarantee_`."""
        learner = self.learner
        promised = [learner.guarantee()] if learner.people or not self._of_log else []
        return max([*promised, *self._of_log], key=lambda guarantee: guarantee.epsilon)

    @property
    def _of_log(self) -> list[Guarantee]:
        learner = self.learner
        if not isinstance(learner, SourceLearner):
            return []
        return list(learner.source_guarantees().values())

    def waiting(self) -> int:
        """See `PrivateBandit.waiting_`."""
        learner = self.learner
        return learner.people - learner.published_from if learner.budget.protects_releases else 0


def _arms_of(arms: Any) -> NDArray[Any]:
    """The arms as they were given, in an array that `predict` takes them from."""
    given = list(arms) if isinstance(arms, Sequence | np.ndarray) else []
    plain = [arm.item() if isinstance(arm, np.generic) else arm for arm in given]
    proper = not isinstance(arms, str) and all(isinstance(arm, Hashable) for arm in plain)
    if not proper or len(plain) < 2 or len(set(plain)) < len(plain):
        raise InvalidInput(
            f'arms was {arms!r:.80}; give at least two different ones, such as ["call", "visit"].'
        )
    kinds = {type(arm) for arm in plain}
    # An array of tuples would have two axes.
    return np.array(plain) if len(kinds) == 1 and kinds <= _PLAIN else _objects(plain)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _domain_of(bounds: Any) -> Box:
    """The domain of contexts."""
    if isinstance(bounds, Box):
        return bounds
    if bounds is None:
        raise InvalidInput(
            "bounds was not given; state the bounds of every column, such as "
            '{"age": (18, 90), "region": ["north", "south"]}. They are public: not what the data '
            "happens to hold, which would show who is extreme, but what a form allows."
        )
    return Box.of(bounds)


def _pair(rewards: Any) -> tuple[float, float]:
    if not isinstance(rewards, tuple | list) or len(rewards) != 2:
        raise InvalidInput(
            f"rewards was {rewards!r:.80}; give the least and the largest reward, such as (0, 1)."
        )
    return rewards[0], rewards[1]


def _budget_of(model: str, epsilon: Any, delta: Any) -> Budget:
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
