"""Policies: how people act and report, and the terms to which a policy is held.

A policy is a header (learner, version, bounds, public seed, stream), a *decision*, by which it
chooses actions, and a *reporter*, by which what happened becomes a report. The policy of an
auxiliary source has no decision: its people's actions were chosen elsewhere.

| array        | shape  | meaning                                                           |
|--------------|--------|-------------------------------------------------------------------|
| contexts     | (n, d) | one person a row, in the units of the policy's domain             |
| arms         | (n,)   | arms chosen, 0 .. K - 1; or places in decision sets; else -1      |
| points       | (n, d) | points chosen, where an action is a point of the domain           |
| propensities | (n,)   | the probability with which that arm was chosen for that context   |
| public coins      | (n,)   | public numbers below 2^53, drawn without looking at the person    |
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.codec import (
    OPTIONAL_FIELD,
    CheckedBy,
    Range,
    Serializable,
    Shape,
    canonical,
    canonical_json,
    fields_to_json,
    from_json,
    to_json,
)
from discreet.learners.messages import PUBLIC_COINS, Observations, Reports, public_uniforms
from discreet.people.domain import (
    ActionSpace,
    ArmNames,
    Arms,
    Box,
    Candidates,
    DecisionSets,
    PublicBox,
    PublicSet,
    RewardBounds,
    arm_count,
    arm_numbers,
    check_arm_names,
    people_count,
    whole_names,
    with_names,
)
from discreet.privacy import NoiseSource, OnceEach, Release, SecureNoise
from discreet.privacy.accounting import (
    GaussianEvent,
    GroupSize,
    Honest,
    MaxContributions,
    PureEvent,
    ShuffledEvent,
    composed_epsilon,
)
from discreet.privacy.noise import NO_NOISE
from discreet.validation import (
    CoinArray,
    FloatArray,
    IntArray,
    InvalidInput,
    nearest_whole,
    number_from,
    positive_number,
    probability,
    whole_number,
    whole_vector,
)

# By which reports find their learner, and releases their people. Their length is bounded, so
# that none can fill a server's memory.
Identity = Annotated[str, Range(1, 100)]
# The stream whose actions the learner chooses; all others are auxiliary sources.
TARGET_NAME = "target"
# Beyond these epsilons of a source sums of reports leave the range of floats.
LEAST_EPSILON, MOST_EPSILON = 1e-6, 1e4
# A public key of X25519, or none.
_KEY = re.compile("(?:[0-9a-f]{64})?")

# What a policy reads contexts of people into: it has a length.
H = TypeVar("H", bound=Sized)
# What n people bring where actions are points: decision sets, or nothing but their number.
CandidatesOrCount = Candidates | range


def check_stream_name(name: object) -> str:
    """The name of a stream, `target` or that of a source; `InvalidInput` for anything else."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise InvalidInput(
            f"a source was called {name!r:.80}; its name must be text of at most 200 characters "
            f"other than {TARGET_NAME!r}."
        )
    return name


def check_source_epsilon(value: object) -> float:
    """An epsilon of a source, within what its mechanisms can compute with."""
    number = positive_number(value, "epsilon of a source")
    if not LEAST_EPSILON <= number <= MOST_EPSILON:
        raise InvalidInput(
            f"epsilon of a source was {number!r}; it must be from {LEAST_EPSILON:g}, where reports "
            f"say next to nothing, to {MOST_EPSILON:g}, where they hide next to nothing."
        )
    return number


def stream_id(learner_id: str, name: str) -> str:
    """The identity by which reports find a stream of a learner (`Reports.source`)."""
    return learner_id if name == TARGET_NAME else f"{learner_id}, source {name}"


@dataclass(frozen=True, eq=False)
class Actions(Serializable):
    """What was chosen for n people, with the public coins under which it was chosen.

    Arms and points follow from contexts, so actions are as private as these: they are a message so
    that a device can keep a pending one until the reward comes, not for anybody else.
    `np.asarray(actions)` is the array of arms.

    Attributes:
        arms: (n,) the arms, or the places in each person's decision set; -1 for a point of a box.
        public_coins: (n,) as in the module's table.
        policy: the policy that chose them, or its digest where they were read from a message.
        points: (n, d) the points chosen, where actions are points.
    """

    kind: ClassVar[str] = "actions"
    facts: ClassVar[tuple[str, ...]] = ()  # a repr shows none of what was chosen

    arms: Annotated[IntArray, Shape("n"), Range(-1, PUBLIC_COINS - 1)]
    public_coins: Annotated[CoinArray, Shape("n"), Range(0, PUBLIC_COINS - 1)]
    policy: Policy[Any] | str
    points: Annotated[FloatArray, Shape("n", "d")] | None = None

    def __post_init__(self) -> None:
        """Nothing: `report` looks at them once it knows their policy, and refuses nothing of a
        person whose reports are private."""

    def __len__(self) -> int:
        return len(self.arms)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.arms, dtype=dtype, copy=copy if copy is not None else True)

    def __getitem__(self, people: slice | IntArray) -> Actions:
        points = None if self.points is None else self.points[people]
        return Actions(self.arms[people], self.public_coins[people], self.policy, points)

    @property
    def names(self) -> NDArray[np.str_]:
        """(n,) the arms by name; without names by number, as texts.

        Raises:
            InvalidInput: where actions are points, or were read from a message, which holds no
                more of their policy than its digest: there ask `policy.names_of(actions)`.
        """
        if isinstance(self.policy, str):
            raise InvalidInput(
                "these actions were read from a message, which holds no names of arms; ask "
                "policy.names_of(actions), with the policy that chose them."
            )
        return self.policy.names_of(self)

    @property
    def digest(self) -> str:
        """The digest of the policy that chose them."""
        return self.policy if isinstance(self.policy, str) else self.policy.digest

    def check_policy(self, policy: Policy[Any]) -> None:
        """`InvalidInput` unless `policy` chose these actions; looks at the two policies only."""
        if self.policy is not policy and self.digest != policy.digest:
            raise InvalidInput(
                f"the actions were chosen by another policy than this version {policy.version} of "
                f"{policy.kind} (digest {self.digest:.12}.., here {policy.digest:.12}..); report "
                "under the policy that chose them: keep it with the actions until the reward comes."
            )

    def to_fields(self) -> dict[str, Any]:
        """The fields as JSON values, with the digest of the policy in its place."""
        return fields_to_json(replace(self, policy=self.digest))


@dataclass(frozen=True)
class Policy(Serializable, ABC, Generic[H]):
    """One published release of what has been learnt; public, and the same for everyone.

    `H` is what `_read` makes of the contexts of people: it has a length.

    Attributes:
        version: 0 for the first of a stream, then 1, 2, ...
        learner_id: the identity of the learner that published it.
        domain: the public bounds of contexts, or of points where actions are points.
        reward_bounds: the public bounds of rewards.
        public_seed: with a public coin it fixes everything that is random but public.
        max_contributions: how many contributions of one person the promise covers.
        arm_names: of the arms, in the order of their numbers; () for arms without names, and where
            actions are points.
        stream: whose people report under it, `target` or the name of a source.
        group_size: how many of its reports the learner sees at once, in random order; 1 without a
            shuffler.
        honest: the least share of the others in a group who follow the protocol.
        for_sources: whether sources can have policies of this class.
        decision_fields: the fields that only choosing needs; None in the policy of a source.
        accepts_logged_actions: whether reports may be about logged actions.
        reports_are_private: whether reports are private when they leave a person (see `report`).
    """

    facts: ClassVar[tuple[str, ...]] = (
        "version",
        "learner_id",
        "arms",
        "column_names",
        "epsilon",
        "max_contributions",
    )
    for_sources: ClassVar[bool] = False
    decision_fields: ClassVar[tuple[str, ...]] = ()

    version: Annotated[int, Range(0, PUBLIC_COINS - 1)]
    learner_id: Identity
    domain: Box
    reward_bounds: RewardBounds
    public_seed: Annotated[int, Range(0, PUBLIC_COINS - 1)]
    max_contributions: MaxContributions = field(default=1, kw_only=True)
    arm_names: ArmNames = field(default=(), kw_only=True, metadata=OPTIONAL_FIELD)
    stream: Annotated[str, CheckedBy(check_stream_name)] = field(
        default=TARGET_NAME, kw_only=True, metadata=OPTIONAL_FIELD
    )

    group_size: GroupSize = field(default=1, kw_only=True, metadata=OPTIONAL_FIELD)
    honest: Honest = field(default=1.0, kw_only=True, metadata=OPTIONAL_FIELD)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arm_names:
            check_arm_names(self.arm_names, arm_count(self.space) or 0)
        check_shuffled_once(self.group_size, self.max_contributions)
        if not self.chooses:
            check_source_epsilon(getattr(self, "epsilon", None))
        wrong = [name for name in self.decision_fields if self.chooses != self._has(name)]
        if wrong or not (self.chooses or self.for_sources):
            raise InvalidInput(
                f"{self.title} was of kind {self.kind!r}, which "
                f"{f'must have {wrong[0]} for the target alone' if wrong else 'no source has'}; "
                "send it as it was made."
            )

    def _has(self, name: str) -> bool:
        return getattr(self, name) is not None

    @property
    @abstractmethod
    def space(self) -> ActionSpace:
        """What can be chosen: the number of arms, or points."""

    @property
    def chooses(self) -> bool:
        """Whether it chooses actions; the people of a source were given theirs."""
        return self.stream == TARGET_NAME

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of a context, or of a point."""
        return list(self.domain.names)

    @property
    def title(self) -> str:
        """What messages call it."""
        version = f"policy {self.version}"
        return version if self.chooses else f"{version} of source {self.stream!r}"

    @property
    def stream_id(self) -> str:
        """The identity by which reports find their stream (`Reports.source`)."""
        return stream_id(self.learner_id, self.stream)

    @property
    def group(self) -> OnceEach:
        """The reports to one stream, of which each contribution makes one."""
        name = "one report" if self.max_contributions == 1 else f"{self.max_contributions} reports"
        source = "" if self.chooses else f"source {self.stream} of "
        return OnceEach(
            f"{name} to {source}learner {self.learner_id}", self.max_contributions, apart=True
        )

    @property
    def accepts_logged_actions(self) -> bool:
        return not self.chooses

    @property
    def reports_are_private(self) -> bool:
        return False

    def origin(self, noise: str) -> dict[str, Any]:
        """`policy_version`, `source` and `noise` of a report, as keyword arguments."""
        return {"policy_version": self.version, "source": self.stream_id, "noise": noise}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of it as a service sends it (`canonical`): two that differ have two digests."""
        return hashlib.sha256(canonical(self).encode()).hexdigest()

    def names_of(self, actions: Actions) -> NDArray[np.str_]:
        """(n,) the names of arms that this policy chose (`Actions.names`)."""
        actions.check_policy(self)
        count = arm_count(self.space)
        if count is None:
            raise InvalidInput("the actions are points, which have no names; see actions.points.")
        arms = whole_vector(actions.arms, "actions.arms", 0, count - 1)
        names: NDArray[np.str_] = np.array(self.arm_names or [str(arm) for arm in range(count)])
        return names[arms]

    def act(
        self,
        contexts: Any,
        rng: np.random.Generator,
        terms: Terms | None = None,
        *,
        nearest: bool = False,
    ) -> tuple[Actions, FloatArray]:
        """Choose an action for each person.

        Args:
            contexts: what people bring: contexts (n, d) in the units of `domain`; decision sets
                (n, candidates, d), or a list of them; or the number of people where what can be
                chosen is the same for everyone.
            rng: draws the public coins; it needs no secrecy.
            terms: what the person's side agreed to; a policy on other terms is refused before
                `contexts` is looked at.
            nearest: whether a value that the policy does not allow counts as the nearest one that
                it does, as in a private report, instead of being refused.

        Returns:
            The actions, and the (n,) probabilities with which they were chosen.

        Raises:
            InvalidInput: contexts of the wrong shape, empty, not finite or outside the domain; or
                the policy of a source.
        """
        if terms is not None:
            terms.check(self)
        if not self.chooses:
            raise InvalidInput(
                f"{self.title} chooses no actions, because people of a source were given theirs; "
                "pass these to report()."
            )
        people = self._nearest(contexts) if nearest else self._read(contexts)
        if not isinstance(rng, np.random.Generator):
            raise InvalidInput(f"rng was {type(rng).__name__}; pass numpy.random.default_rng().")
        public_coins = rng.integers(PUBLIC_COINS, size=len(people), dtype=np.uint64)
        return self._act(people, public_coins)

    def report(
        self,
        contexts: Any,
        actions: Actions | ArrayLike,
        rewards: ArrayLike,
        noise: NoiseSource,
        terms: Terms | None = None,
    ) -> Reports:
        """Turn what happened to each person into what the learner may see.

        Draw a report once, keep it, and send the same bytes again if sending fails: a second draw
        is a second report and costs a second epsilon. Actions, propensities and the messages of
        errors concern one person and stay on their side.

        The actions must come from this very policy, which is checked before anything else. Where
        reports are private when they leave a person (`reports_are_private`), nothing after that is
        refused for what a context, arm or reward is, because silence is not private: a value that
        the policy does not allow counts as the nearest one that it does, NaN as the middle of its
        bounds (a reward that is clipped: of its range), and the name of no arm as missing.
        Otherwise such values are refused.

        Args:
            contexts: as given to `act`.
            actions: what `act` returned for them. Under a policy that `accepts_logged_actions`
                also (n,) arms that were chosen elsewhere, by name or number.
            rewards: (n,), within `reward_bounds`.
            noise: the source of the randomness that protects them. Where people trust the learner
                with what happened (joint privacy), `Unprotected()`.
            terms: what the person's side agreed to; a policy on other terms is refused. Required
                with `SecureNoise`, because a learner is not trusted with its own promise.

        Raises:
            InvalidInput: actions of another policy, other terms, arrays of the wrong shape or type,
                or, from people who trust the learner, values outside their bounds.
        """
        check_reporting(self, noise, terms)
        if not (self.chooses and isinstance(actions, Actions)):
            actions = self._logged(actions)
        actions.check_policy(self)
        least, most = self._arm_range
        if self.reports_are_private:
            people = self._nearest(contexts)
            arms = nearest_whole(actions.arms, "actions.arms", least, most, len(people))
            missing = self._missing(people, arms)
            scaled = self.reward_bounds.nearest_unit(rewards, len(people), missing)
        else:
            people = self._read(contexts)
            scaled = self.reward_bounds.to_unit(rewards, len(people))
            arms = whole_vector(actions.arms, "actions.arms", least, most, len(people))
        public_coins = whole_vector(
            actions.public_coins, "actions.public_coins", 0, PUBLIC_COINS - 1, len(people)
        )
        checked = replace(
            actions, arms=arms, public_coins=public_coins.astype(np.uint64), policy=self
        )
        return self._report(people, checked, scaled, noise)

    def _logged(self, arms: Any) -> Actions:
        """Arms that were chosen elsewhere as actions; refused by policies whose reports are read by
        how they choose arms themselves."""
        if not self.accepts_logged_actions:
            raise InvalidInput(
                f"actions was {type(arms).__name__}; pass the Actions that act() returned, because "
                "they carry the public coins by which reports are read. For logged actions use the "
                "policy of a source (kernel: open_source()), which takes names or numbers."
            )
        if self.reports_are_private:
            numbers = arm_numbers(arms, self.arm_names)
        else:
            numbers = whole_names(arms, self.arm_names, arm_count(self.space) or 0)
        return Actions(numbers, np.zeros(numbers.size, dtype=np.uint64), self)

    def _missing(self, people: H, arms: IntArray) -> float | FloatArray:
        """What a reward that is missing counts as, on [0, 1]."""
        return 0.5

    @property
    @abstractmethod
    def _arm_range(self) -> tuple[int, int]:
        """The least and the largest number in `Actions.arms`."""

    @abstractmethod
    def _read(self, contexts: Any) -> H:
        """Contexts of people, checked."""

    @abstractmethod
    def _nearest(self, contexts: Any) -> H:
        """Contexts of people, each value moved to the nearest that is allowed."""

    @abstractmethod
    def _act(self, people: H, public_coins: CoinArray) -> tuple[Actions, FloatArray]:
        """Actions and propensities for checked people."""

    @abstractmethod
    def _report(
        self, people: H, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        """Reports from people, arms and public coins within their bounds, and rewards in [0, 1]."""

    @abstractmethod
    def release(self, noise: str) -> Release | None:
        """The record of one report; None where nothing of a person is used."""

    def event(self, epsilon: float) -> PureEvent:
        """The cost of one report that is private with epsilon by itself."""
        if self.group_size == 1:
            return PureEvent(epsilon)
        return ShuffledEvent(epsilon, self.group_size, self.honest)

    def unprotected_release(self, data: str) -> Release:
        """The record of a report that holds `data` without protection."""
        return Release(
            mechanism="none: the observation as it is, for a learner that is trusted",
            event=PureEvent(float("inf")),
            sensitivity=1.0,
            sensitivity_source="nothing is protected before the learner releases it",
            scale=0.0,
            people=self.group,
            data=data,
            noise=NO_NOISE,
        )


@dataclass(frozen=True)
class ArmPolicy(Policy[FloatArray]):
    """A policy that chooses one of K arms for a context.

    Attributes:
        arms: the number of arms K.
    """

    arms: Annotated[int, Range(2)]

    @property
    def space(self) -> ActionSpace:
        return self.arms

    @property
    def _arm_range(self) -> tuple[int, int]:
        return 0, self.arms - 1

    def probabilities(self, contexts: ArrayLike) -> FloatArray:
        """(n, K) the probability of each arm for each context (n, d); for maps and evaluation.

        Raises:
            InvalidInput: as `act`.
        """
        return self._probabilities(self.domain.to_unit(contexts))

    def chances(self, unit: FloatArray) -> FloatArray:
        """(n, K) as `probabilities`, at any points of [0, 1]^d."""
        return self.probabilities(self.domain.from_unit(unit))

    def _read(self, contexts: Any) -> FloatArray:
        return self.domain.people_to_unit(contexts)

    def _nearest(self, contexts: Any) -> FloatArray:
        return self.domain.nearest_unit(contexts)

    def _act(self, people: FloatArray, public_coins: CoinArray) -> tuple[Actions, FloatArray]:
        arms, propensities = self._choose(people, public_coins)
        return Actions(arms, public_coins, self), propensities

    @abstractmethod
    def _probabilities(self, unit: FloatArray) -> FloatArray:
        """Probabilities of arms for checked contexts in [0, 1]^d."""

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        """Arms and propensities for checked contexts in [0, 1]^d."""
        return self._drawn(self._probabilities(unit), public_coins)

    def _drawn(self, shares: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        """(n,) an arm for each row of shares (n, K), and its share."""
        place = np.zeros(len(shares), dtype=np.int64)
        uniforms = public_uniforms(self.public_seed, self.version, public_coins, place)
        # The last arm with a probability above 0 is reached whatever was lost in rounding.
        beyond = np.cumsum(shares, axis=1) <= uniforms[:, None]
        last = self.arms - 1 - np.argmax(shares[:, ::-1] > 0.0, axis=1)
        arms = np.minimum(beyond.sum(axis=1), last)
        return arms, shares[np.arange(len(arms)), arms]

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        """The observation as it is, for a learner that people trust."""
        origin = self.origin(NO_NOISE)
        return Observations(**origin, contexts=unit, arms=actions.arms, rewards=rewards)

    def release(self, noise: str) -> Release | None:
        return self.unprotected_release("the context, the arm and the reward")


@dataclass(frozen=True)
class PointPolicy(Policy[CandidatesOrCount]):
    """A policy that chooses points.

    Attributes:
        offered: what can be chosen. (`Actions.arms` are places in decision sets or in the public
            set; -1 in a box.)
    """

    offered: DecisionSets | PublicSet | PublicBox

    @property
    def space(self) -> ActionSpace:
        return self.offered

    @property
    def _arm_range(self) -> tuple[int, int]:
        if isinstance(self.offered, PublicBox):
            return -1, -1
        if isinstance(self.offered, PublicSet):
            return 0, len(self.offered.points) - 1
        return 0, self.offered.most - 1

    def _read(self, contexts: Any) -> CandidatesOrCount:
        if isinstance(self.offered, DecisionSets):
            return Candidates.read(contexts, self.domain, self.offered.most)
        return range(people_count(contexts))

    def _nearest(self, contexts: Any) -> CandidatesOrCount:
        if isinstance(self.offered, DecisionSets):
            return Candidates.nearest(contexts, self.domain, self.offered.most)
        return range(people_count(contexts))

    def _act(
        self, people: CandidatesOrCount, public_coins: CoinArray
    ) -> tuple[Actions, FloatArray]:
        if isinstance(people, Candidates):
            arms, propensities = self._choose(people, public_coins)
            points = people.points[np.arange(len(people)), arms]
        else:
            arms, points, propensities = self._draw(public_coins)
        return Actions(arms, public_coins, self, points), propensities

    def chosen(self, people: CandidatesOrCount, actions: Actions) -> FloatArray:
        """(n, d) the points of actions; `InvalidInput` where they are not to be had.

        Where reports are private, the last point of a decision set stands for those it lacks.
        """
        if isinstance(people, Candidates):
            rows = np.arange(len(people))
            absent = ~people.present[rows, actions.arms]
            if absent.any() and not self.reports_are_private:
                first = int(np.argmax(absent))
                raise InvalidInput(
                    f"actions.arms was {actions.arms[first]} at position {first}, but that "
                    f"person's decision set has {int(people.present[first].sum())} points; pass "
                    "the Actions that act() returned for these people."
                )
            return people.points[rows, actions.arms]
        arms, points, _ = self._draw(actions.public_coins)
        if not np.array_equal(arms, actions.arms):
            first = int(np.argmax(arms != actions.arms))
            raise InvalidInput(
                f"actions.arms was {actions.arms[first]} at position {first}, but its public coin "
                f"chooses {arms[first]}; pass the Actions that act() returned."
            )
        return points

    # A policy defines one of the two, or both if it takes decision sets and public points; what it
    # does not take is refused for any context.

    def _choose(self, people: Candidates, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        """(n,) places in the decision sets and their propensities."""
        raise InvalidInput("this policy takes no decision sets; give the number of people.")

    def _draw(self, public_coins: CoinArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Where all can be given the same points: (n,) places, (n, d) points, propensities."""
        raise InvalidInput("this policy takes decision sets; give each person's.")


@dataclass(frozen=True)
class Terms:
    """What a person's side agreed to before any policy came.

    Bounds and promises come with the policy, so a learner that is not honest could choose them
    such that silence, or a refusal, reveals something. Check a policy when it arrives, before any
    data is looked at; messages name public facts only.

    Attributes:
        domain: the bounds of contexts.
        arms: the number of arms, their names, or the action space. Names are agreed to as well: an
            arm under another name would be another action.
        most_epsilon: the largest epsilon of all reports of a person together.
        reward_bounds: the bounds of rewards.
        delta: the delta at which epsilon is read; 0 for pure reports.
        max_contributions: the number of reports covered; a `ContributionCounter` enforces it.
        group_size: how many reports the learner sees at once, from a shuffler that this side
            trusts: then (most_epsilon, delta) is what groups hold.
        honest: see `Policy`.
        learner_key: the public key (X25519, in hexadecimal) to which reports are encrypted on their
            way through the shuffler; empty without a service.
    """

    domain: Box
    arms: ActionSpace | Arms
    most_epsilon: float
    reward_bounds: RewardBounds = RewardBounds()  # noqa: RUF009 - frozen, so it can be shared
    delta: float = 0.0
    max_contributions: int = 1
    group_size: int = 1
    honest: float = 1.0
    learner_key: str = ""

    def __post_init__(self) -> None:
        with_names(self.arms)  # refuses names that are no names
        positive_number(self.most_epsilon, "most_epsilon")
        whole_number(self.max_contributions, "max_contributions", minimum=1)
        whole_number(self.group_size, "group_size", minimum=1)
        number_from(self.honest, "honest", 0.0, 1.0)
        check_shuffled_once(self.group_size, self.max_contributions)
        if self.delta != 0.0:
            probability(self.delta, "delta")
        if not _KEY.fullmatch(self.learner_key if isinstance(self.learner_key, str) else "-"):
            raise InvalidInput(
                f"learner_key was {self.learner_key!r:.80}; give 64 hexadecimal digits, or nothing."
            )

    @property
    def digest(self) -> str:
        """SHA-256 of them, by which a person's side knows those that it agreed to."""
        text = canonical_json(self._fields())
        # As in JavaScript, half of a pair of surrogates is written as its escape.
        return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()

    def to_fields(self) -> dict[str, Any]:
        """JSON values, with their digest."""
        return {**self._fields(), "sha256": self.digest}

    def _fields(self) -> dict[str, Any]:
        space, names = with_names(self.arms)
        shuffled = {"group_size": self.group_size, "honest": self.honest}
        key = {"learner_key": self.learner_key} if self.learner_key else {}
        return {
            "domain": to_json(self.domain),
            "space": to_json(space, ActionSpace),
            "arm_names": list(names),
            "most_epsilon": self.most_epsilon,
            "reward_bounds": to_json(self.reward_bounds),
            "delta": self.delta,
            "max_contributions": self.max_contributions,
            **({} if self.group_size == 1 else {**shuffled, **key}),
        }

    @classmethod
    def from_fields(cls, fields: Any) -> Terms:
        """The inverse of `to_fields`.

        Raises:
            InvalidInput: for terms that are not whole, or whose digest is that of others.
        """
        try:
            space = from_json(fields["space"], ActionSpace, "space")
            names = check_arm_names(fields["arm_names"], arm_count(space))
            terms = cls(
                domain=from_json(fields["domain"], Box, "domain"),
                arms=list(names) if names and isinstance(space, int) else space,
                most_epsilon=fields["most_epsilon"],
                reward_bounds=from_json(fields["reward_bounds"], RewardBounds, "reward_bounds"),
                delta=fields["delta"],
                max_contributions=fields["max_contributions"],
                group_size=fields.get("group_size", 1),
                honest=fields.get("honest", 1.0),
                learner_key=fields.get("learner_key", ""),
            )
            given = fields["sha256"]
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"the terms are damaged ({error!r}); fetch them again.") from error
        if given != terms.digest:
            raise InvalidInput(
                f"the terms say that their SHA-256 is {given!r:.80}, but it is {terms.digest}; "
                "fetch them again."
            )
        return terms

    def check(self, policy: Policy[Any], noise: str = SecureNoise.name) -> None:
        """`InvalidInput` for a policy on other terms.

        Args:
            policy: of a learner or a source.
            noise: the name of the noise source that will draw: its sampler may hold a little less
                than the formulas say, and it is what counts.
        """
        space, names = with_names(self.arms)
        for name, agreed, offered in [
            ("domain", self.domain, policy.domain),
            ("arms", arm_count(space) or space, policy.space),
            ("arm_names", names, policy.arm_names),
            ("reward_bounds", self.reward_bounds, policy.reward_bounds),
            ("max_contributions", self.max_contributions, policy.max_contributions),
            ("group_size", self.group_size, policy.group_size),
            ("honest", self.honest, policy.honest),
        ]:
            if offered != agreed:
                raise InvalidInput(
                    f"{policy.title} has {name} {offered}, but this side agreed to {agreed}; do "
                    "not act or report under it."
                )
        release = policy.release(noise)
        if release is not None and isinstance(release.event, GaussianEvent) and self.delta == 0.0:
            raise InvalidInput(
                f"{policy.title} has Gaussian reports, which need a delta, but this side agreed to "
                "none; do not act or report under it."
            )
        events = [] if release is None else [release.event] * self.max_contributions
        held = composed_epsilon(events, self.delta) if events else 0.0
        if held > self.most_epsilon:
            raise InvalidInput(
                f"{policy.title} promises epsilon = {held!r}, but this side agreed to at most "
                f"{self.most_epsilon!r}; do not act or report under it."
            )


def check_shuffled_once(group_size: int, max_contributions: int) -> None:
    """Refuse several contributions of a person to shuffled groups, which may be one group."""
    if group_size > 1 and max_contributions > 1:
        raise InvalidInput(
            f"max_contributions was {max_contributions} with groups of {group_size}; of a person "
            "one report is shuffled. Leave max_contributions out."
        )


def check_reporting(policy: Policy[Any], noise: object, terms: Terms | None) -> NoiseSource:
    """The noise source of a report, checked with its terms before any data is looked at."""
    if not isinstance(noise, NoiseSource):
        raise InvalidInput(
            f"noise was {type(noise).__name__}; pass SecureNoise() for people, or "
            "SimulatedNoise(seed) in simulations."
        )
    if terms is None and noise.secure:
        raise InvalidInput(
            "terms was not given; with SecureNoise say what this side agreed to: "
            "Terms(domain, arms, most_epsilon). Where the learner is trusted with the "
            "plain observation (joint privacy), pass Unprotected() instead."
        )
    if terms is not None:
        terms.check(policy, noise.name)
    return noise
