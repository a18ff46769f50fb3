"""The one interface: learner, policy, actions, reports, statistics that add.

A `Learner` holds what has been learnt and publishes a `Policy`, which is immutable, already
private and serialisable: anyone may read it. For one person (vectorised over n of them) the policy
chooses an action and turns what happened into a report:

    policy = learner.policy()
    actions, propensities = policy.act(contexts, rng)
    reports = policy.report(contexts, actions, rewards, noise)
    learner.update(reports)
    learner.guarantee()

What every learner owes (tests/learners/contract.py checks all of it):

* `statistics(reports)` is a pure function, and statistics add (a commutative monoid), so reports
  may be aggregated anywhere, in any order, and merged with `merge`.
* `update` only adds. What is published changes in `policy()` alone, and only after `batch_size`
  new reports; calling it again without new reports returns the same object. So no noise is ever
  drawn twice for one statistic.
* Learners with the option `drift` believe what was reported less and less (forgetting.py); this
  too happens in `policy()` alone.
* Reports made under an older policy are added; none is lost silently. (Learners that start a bin
  afresh when it is split, as published, keep those for bins that were split but do not use them.)
* Where a person may come more than once, visits beyond those that the budget covers are not learnt
  from, and nothing public shows whose they were (visits.py).
* Refused input (`InvalidInput`) leaves the learner as it was.
* `guarantee()` is derived from the releases, covers every policy ever published, and never
  promises more than they do.
"""

from __future__ import annotations

import logging
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, ClassVar, Generic, TypedDict, TypeVar

import numpy as np

from discreet.codec import check_fields, from_json, to_json
from discreet.learners.describing import learner_text
from discreet.learners.forgetting import kept
from discreet.learners.messages import TICKETS, Reports, Statistics
from discreet.learners.options import hints_of, keywords
from discreet.learners.policy import TARGET_NAME, Identity, Policy, Terms
from discreet.learners.stream import Stream, check_same_fields, published_kind
from discreet.learners.values import Valued
from discreet.people.domain import ActionSpace, Arms, Box, RewardBounds, with_names
from discreet.privacy import (
    Adjacency,
    Budget,
    Guarantee,
    NoiseSource,
    Release,
    Unprotected,
    derive_guarantee,
)
from discreet.privacy.noise import refuse_copy
from discreet.validation import BoolArray, InvalidInput, check_options, whole_number

LOCAL_RECORD = Adjacency(record="context, action and reward")

P = TypeVar("P", bound=Policy[Any])
R = TypeVar("R", bound=Reports)
S = TypeVar("S", bound=Statistics)


class Common(TypedDict, total=False):
    """What every learner takes besides domain, arms and budget."""

    horizon: int | None
    reward_bounds: RewardBounds | None
    public_seed: int
    noise: NoiseSource | None
    identity: str | None


class Learner(Valued, ABC, Generic[P, R, S]):
    """Learns from reports and publishes policies (see the module's contract).

    Args:
        domain: the public bounds of contexts, or of points where actions are points.
        space: what can be chosen: the number of arms, or their names, or points (action_space.py).
        budget: the trust model and its parameters.
        horizon: how many people are expected; learners that need no horizon ignore it.
        reward_bounds: the public bounds of rewards.
        public_seed: public randomness; two learners with the same seed and reports agree.
        noise: under joint privacy the source of the noise that this learner draws.
        identity: by which reports find their learner and releases their people. A random one if it
            is left out; no two learners may have the same, unless one is the other loaded again.

    Attributes:
        name: the registered name, as in study files and records.
        arm_names: of the arms; () where nobody named them.
        lock: held by whatever reads or changes what the learner knows.
        trust_models: which budgets it takes, the usual one first.
        spaces: which action spaces it takes.
        reports_type: the class of the reports it takes.
        statistics_type: the class of the statistics it adds.
        saved: the attributes that a file holds beside policies and sums; their annotations, in the
            body of the class, say how they are written (codec).
    """

    name: ClassVar[str]
    trust_models: ClassVar[tuple[str, ...]]
    spaces: ClassVar[tuple[type[Any], ...]]
    reports_type: type[R]
    statistics_type: type[S]
    saved: ClassVar[tuple[str, ...]] = ()
    # Whether acting shows nothing of a person: only then can a device act for real people, and
    # go on acting beyond the visits that its budget covers.
    acts_silently: ClassVar[bool] = True
    # After how many people a report counts half; an option of those that forget.
    drift: float | None = None

    def __init__(
        self,
        domain: Box,
        space: ActionSpace | Arms,
        budget: Budget,
        *,
        horizon: int | None = None,
        reward_bounds: RewardBounds | None = None,
        public_seed: int = 0,
        noise: NoiseSource | None = None,
        identity: str | None = None,
    ) -> None:
        if not isinstance(domain, Box):
            raise InvalidInput(f"domain was {domain!r:.80}; pass Box(lower, upper).")
        if not isinstance(reward_bounds, RewardBounds | None):
            raise InvalidInput(f"reward_bounds was {reward_bounds!r:.80}; pass RewardBounds(..).")
        if not isinstance(budget, Budget) or budget.trust_model not in self.trust_models:
            raise InvalidInput(
                f"budget was {budget!r}; {self.name} takes budgets with the trust model "
                f"{' or '.join(self.trust_models)}."
            )
        silences = self.statistics_type.silences or not budget.protects_releases
        several = self.acts_silently and silences
        if budget.visits > 1 and not several:
            raise InvalidInput(
                f"visits was {budget.visits}; {self.name} learns from one visit of a person. Leave "
                "visits out, and let everybody report once."
            )
        if noise is not None and not isinstance(noise, NoiseSource):
            raise InvalidInput(f"noise was {noise!r:.80}; pass SecureNoise().")
        if budget.trust_model == "joint" and (noise is None or isinstance(noise, Unprotected)):
            raise InvalidInput(
                f"noise was {noise!r:.80}; under joint privacy {self.name} draws the noise itself: "
                "pass SecureNoise() for people, or SimulatedNoise(seed) in simulations."
            )
        if budget.trust_model == "joint" and noise is not None:
            noise.check_additive()  # before there is data that a release could fail on
        # Threads of a server share a learner, and two that publish at once would release the same
        # people twice.
        self.lock = threading.RLock()
        self.identity: str = from_json(
            secrets.token_hex(16) if identity is None else identity, Identity, "identity"
        )
        self.domain = domain
        given, self.arm_names = with_names(space)
        self.space = self._check_space(given)
        self.budget = budget
        self.noise = noise
        self.horizon = None if horizon is None else whole_number(horizon, "horizon", minimum=1)
        self.reward_bounds = reward_bounds or RewardBounds()
        self.public_seed = whole_number(public_seed, "public_seed", maximum=TICKETS - 1)
        self._stream_of_target: Stream[P, S] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock, as a copy has its own; who draws noise for people is not copied."""
        if self.budget.protects_releases and self.noise is not None and self.noise.secure:
            refuse_copy("a learner", "discreet.save(learner, path)")
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()

    @classmethod
    def _check_space(cls, space: ActionSpace) -> ActionSpace:
        given = space
        if isinstance(space, int | np.integer):
            given = whole_number(space, "arms", minimum=2)
        if type(given) in cls.spaces:
            return given
        allowed = ", ".join(
            "a number of arms" if kind is int else kind.__name__ for kind in cls.spaces
        )
        raise InvalidInput(f"the action space was {space!r:.80}; {cls.name} takes {allowed}.")

    # What a learner says.

    def __repr__(self) -> str:
        return learner_text(self)

    def log_learnt(self, what: str, value: object) -> None:
        """Say in the log what was learnt, which without privacy would tell about people."""
        if self.budget.private:
            logging.getLogger(type(self).__module__).debug("%s: %s now %s", self.name, what, value)

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """How many reports lie between the present policy and the next."""

    @abstractmethod
    def _empty(self) -> S:
        """The statistics of no report at all."""

    @abstractmethod
    def _publish(self) -> P:
        """Decide on the sums so far and make the next policy, from `policy_header()`."""

    @abstractmethod
    def _statistics(self, policy: P, reports: R) -> S:
        """The sums of reports made under `policy`; `InvalidInput` if it cannot have made them."""

    def _check_reports(self, policy: P, reports: R) -> None:
        """As `_statistics`, for learners whose sums take longer than the check of reports."""
        self._statistics(policy, reports)

    @abstractmethod
    def _check_sums(self, statistics: S) -> None:
        """Refuse statistics that no reports to this learner add up to."""

    # What follows for all.

    def terms(self) -> Terms:
        """What people agree to who report to this learner."""
        return Terms(
            self.domain,
            list(self.arm_names) or self.space,
            self.budget.epsilon,
            self.reward_bounds,
            self.budget.delta,
            self.budget.visits,
        )

    @property
    def _target(self) -> Stream[P, S]:
        """Policies and sums so far; secret where sums are data of people without protection."""
        if self._stream_of_target is None:
            with self.lock:
                sums = self._empty()
                self._stream_of_target = self._stream_of_target or Stream(
                    TARGET_NAME, self.identity, self.budget, self.adjacency, sums
                )
        return self._stream_of_target

    @property
    def _policies(self) -> list[P]:
        return self._target.policies

    @property
    def _sums(self) -> S:
        return self._target.sums

    @property
    def _published_at(self) -> int:
        return self._target.published_at

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know about the options chosen, each one sentence; public."""
        return ()

    @property
    def secret(self) -> bool:
        """Whether the saved state holds data of people that is not private yet."""
        return self.budget.trust_model in ("none", "joint")

    def policy_header(self) -> dict[str, Any]:
        """Keyword arguments that every policy of this learner shares, with the next version."""
        return {
            "version": len(self._target.policies),
            "learner_id": self.identity,
            "domain": self.domain,
            "reward_bounds": self.reward_bounds,
            "public_seed": self.public_seed,
            "visits": self.budget.visits,
            "arm_names": self.arm_names,
        }

    @property
    def people(self) -> int:
        """How many reports have been added so far, one for each visit."""
        return self._target.people

    @property
    def published_from(self) -> int:
        """How many of them the current policy follows from."""
        return self._published_at

    def policy(self) -> P:
        """The current public policy; a new one once `batch_size` new reports have come."""
        with self.lock:
            if self._target.due(self.batch_size):
                policy, before = self._publish(), self._published_at
                self._target.publish(policy)
                self._fade(kept(self.drift, self._published_at - before))
            return self._target.policies[-1]

    def _fade(self, share: float) -> None:
        """What was reported so far counts less by this share."""
        self._target.fade(share)

    def published(self, version: int) -> P:
        """The policy of that version; `InvalidInput` if there was none."""
        return self._target.published(version)

    def recall(self, policy: P) -> None:
        """Take a policy that this learner published elsewhere, the next one in order, so that
        `statistics` reads reports under it here; for copies that learn nothing themselves.

        Raises:
            InvalidInput: a policy of another learner, or not the next one.
        """
        self._target.recall(policy, published_kind(type(self)), self._facts_of)

    def statistics(self, reports: R | Sequence[R]) -> S:
        """The sums of some reports, which `merge` adds; changes nothing.

        Raises:
            InvalidInput: reports of another learner, of a policy that was never published, or
                malformed ones.
        """
        batches = self._target.read(reports, self.reports_type, self.name)
        return reduce(add, (self._statistics_of(*batch) for batch in batches))

    def check_reports(self, reports: R) -> None:
        """`InvalidInput` for reports that `statistics` refuses; changes nothing."""
        for policy, batch in self._target.read(reports, self.reports_type, self.name):
            self._check_reports(policy, batch)

    def _statistics_of(self, policy: P, reports: R, beyond: BoolArray | None = None) -> S:
        """The sums of one batch, in which visits that are `beyond` those covered add nothing."""
        heard = reports if beyond is None else reports.silencing(beyond)
        return self._target.marked(self._statistics(policy, heard), noise=(reports.noise,))

    def merge(self, statistics: S) -> None:
        """Add statistics that `statistics` of this learner, or a copy of it, made elsewhere.

        Raises:
            InvalidInput: statistics of another learner or at another epsilon, or malformed ones.
        """
        with self._target.refusing(statistics):
            self._merge(statistics)

    def _merge(self, statistics: S) -> None:
        self._target.check_unnamed("the statistics")
        kind = self.statistics_type
        if not isinstance(statistics, kind):
            raise InvalidInput(
                f"statistics had type {type(statistics).__name__}; {self.name} adds "
                f"{kind.__name__}."
            )
        check_fields(statistics)
        self._target.check_noise(statistics.noise)
        # Else the sums could be saved and never be read again.
        if (statistics.reports > 0) != bool(statistics.noise):
            raise InvalidInput(
                f"statistics of {statistics.reports} reports had the noise sources "
                f"{statistics.noise}; name those of the reports, and none where there are no "
                "reports. Send them as statistics() made them."
            )
        self._add(statistics)

    def _add(self, statistics: S) -> None:
        """Add what `statistics` made, here or, once it is checked, elsewhere."""
        with self.lock, np.errstate(over="ignore", invalid="ignore"):
            self._check_sums(statistics)
            sums = self._target.sums + statistics
            sums.check_finite()
            self._target.sums = sums

    def update(self, reports: R | Sequence[R], people: Any = None) -> None:
        """Add any number of reports, late ones included.

        A report that comes twice counts twice. Whoever carries reports must drop repeats: under
        joint privacy a person who is counted twice pays as if they had taken part twice.

        Args:
            reports: one batch or several.
            people: under joint privacy the ids of who made them, (n,) texts or whole numbers, for
                several batches a list of such; needed where the budget covers several visits of a
                person. Visits beyond those count as visits, but nothing is learnt from them.
        """
        if people is None:
            with self._target.refusing(reports):
                self._target.check_unnamed("the reports")
                self._add(self.statistics(reports))
            return
        with self.lock, self._target.refusing(reports):
            batches = self._target.read(reports, self.reports_type, self.name)
            ids = [people] if isinstance(reports, Reports) else people
            who, beyond = self._target.visits(ids, [len(batch) for _, batch in batches])
            pairs = zip(batches, beyond, strict=True)
            self._add(reduce(add, (self._statistics_of(*batch, some) for batch, some in pairs)))
            self._target.visitors.add(who)

    # Options and files.

    @classmethod
    def option_names(cls) -> list[str]:
        """The keyword arguments that this learner has beside those of all learners, and those of
        base classes to which it hands them on."""
        kinds = [kind for kind in cls.__mro__ if "__init__" in vars(kind)]
        own = [name for kind in kinds if issubclass(kind, Learner) for name in keywords(kind)]
        return [name for name in dict.fromkeys(own) if name not in keywords(Learner)]

    @classmethod
    def read_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a study file as keyword arguments of this learner.

        Raises:
            InvalidInput: an option that the learner does not have.
        """
        check_options(cls.name, options, cls.option_names())
        return dict(options)

    def _options(self) -> dict[str, Any]:
        """What `read_options` takes to make this learner again: of every option the attribute of
        that name."""
        return {name: getattr(self, name) for name in self.option_names()}

    def _state(self) -> dict[str, Any]:
        """What it knows beyond sums and policies, as JSON values: the attributes in `saved`."""
        return {
            name.lstrip("_"): to_json(getattr(self, name), hints_of(type(self))[name])
            for name in self.saved
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        """The inverse of `_state`."""
        for name in self.saved:
            key = name.lstrip("_")
            setattr(self, name, from_json(saved[key], hints_of(type(self))[name], key))

    def secret_fields(self) -> dict[str, Any]:
        """Everything about this learner as JSON values, sums before noise included: SECRET.

        Only for the file that `save` writes, which says so.
        """
        with self.lock:
            return {
                "options": self._options(),
                "target": self._target.saved(),
                "own": self._state(),
            }

    def restore_fields(self, saved: dict[str, Any]) -> None:
        """The inverse of `secret_fields`, for what a learner with the same options saved."""
        self._target.restore(saved["target"], published_kind(type(self)), self._facts_of)
        check_same_fields(saved["own"], self._state())
        self._restore(saved["own"])

    def _facts_of(self, policy: P) -> dict[str, Any]:
        """What a policy of this learner has beside its version, by the names of its attributes."""
        own = {"epsilon": self.budget.visit_epsilon} if hasattr(policy, "epsilon") else {}
        return {**self.policy_header(), **own}

    @property
    def releases(self) -> list[Release]:
        """The record of every policy published so far, under every noise source seen."""
        return self._target.releases()

    @property
    def adjacency(self) -> Adjacency:
        """What one person's record is."""
        return LOCAL_RECORD

    def guarantee(self) -> Guarantee:
        """What one person is promised so far, derived from `releases`."""
        neighbours = replace(self.adjacency, unit=self.budget.protects)
        return derive_guarantee(
            self.releases, self.budget.trust_model, neighbours, self.budget.delta
        )
