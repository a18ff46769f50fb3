"""The one interface: learner, policy, actions, reports, statistics that add.

A `Learner` holds what has been learnt and publishes a `Policy`, which is immutable, already
private and serialisable: anyone may read it. For one person (vectorised over n of them) the policy
chooses an action and turns what happened into a report:

    policy = learner.policy()                       # of the target, the stream that it serves
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
* With `half_life`, old reports are discounted, only in `policy()` (discounting.py).
* Reports made under an older policy are added; none is lost silently. (Learners that start a bin
  afresh when it is split, as published, keep those for bins that were split but do not use them.)
* Where a person may come more than once, contributions beyond those that the budget covers are not
  learnt from, and nothing public shows whose they were (contributions.py).
* Refused input (`InvalidInput`) leaves the learner as it was.
* `guarantee()` is derived from the releases, covers every policy ever published, and never
  promises more than they do.

**Auxiliary sources** are further streams: people elsewhere, with an epsilon of their own, whose
actions an unknown behaviour policy chose. One private report of context, arm and reward leaves
their side:

    stream = learner.open_source("other hospital", epsilon=8.0)
    policy = learner.policy("other hospital")                   # public
    learner.update(policy.report(contexts, arms, rewards, noise))
    stream.guarantee()

`update`, `statistics` and `merge` find the stream that reports and statistics name. The guarantee
of one stream does not cover the people of another.

*Claim.* Given the policy, which is public, no two people of a source with contexts in the domain,
any arm and rewards in their bounds make any report more than e^epsilon times as likely from one as
from the other.
"""

from __future__ import annotations

import inspect
import logging
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, reduce
from operator import add
from typing import Any, ClassVar, Generic, Self, TypedDict, TypeVar, Unpack, cast, get_type_hints

import numpy as np

from discreet.codec import Serializable, check_fields, described, from_json, to_json
from discreet.learners.discounting import discount_factor
from discreet.learners.messages import PUBLIC_COINS, Reports, Statistics
from discreet.learners.policy import (
    TARGET_NAME,
    Identity,
    Policy,
    Terms,
    check_source_epsilon,
    check_stream_name,
    stream_id,
)
from discreet.learners.stream import Stream
from discreet.learners.values import CONFIDENCE, AnyPolicy, Value, ValuePosterior
from discreet.people.domain import (
    ActionSpace,
    ArmPoints,
    Arms,
    Box,
    RewardBounds,
    arm_count,
    with_names,
)
from discreet.privacy import Adjacency, Budget, Guarantee, Local, NoiseSource, Release, Unprotected
from discreet.privacy.noise import refuse_copy
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    check_options,
    number_from,
    whole_number,
)

LOCAL_RECORD = Adjacency(record="context, action and reward")
SOURCE_RECORD = Adjacency(record="context, arm and reward")
ENDLESS = 2**53  # the length of an epoch that does not end

# Features of this many people fit into some tens of megabytes.
_MOST_AT_ONCE = 5_000

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


class Learner(ABC, Generic[P, R, S]):
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
        arm_names: of the arms; () without names.
        lock: held by whatever reads or changes what the learner knows.
        trust_models: which budgets it takes, the usual one first.
        spaces: which action spaces it takes.
        takes_sources: whether it learns from auxiliary sources.
        reports_type: the class of the reports that it takes from the target.
        source_reports_type: that of reports from sources.
        statistics_type: the class of the statistics it adds.
        saved: the attributes that a file holds beside policies and sums; their annotations, in the
            body of the class, say how they are written (codec).
    """

    name: ClassVar[str]
    trust_models: ClassVar[tuple[str, ...]]
    spaces: ClassVar[tuple[type[Any], ...]]
    takes_sources: ClassVar[bool] = False
    reports_type: type[R]
    source_reports_type: type[Any] | None = None
    statistics_type: type[S]
    saved: ClassVar[tuple[str, ...]] = ()
    # Whether acting shows nothing of a person: only then can a device act for real people, and
    # go on acting beyond the contributions that its budget covers.
    acts_silently: ClassVar[bool] = True
    # In people; an option of learners that discount old reports.
    half_life: float | None = None

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
            raise InvalidInput(f"domain was {domain!r:.80}; pass Box(lower, upper) or Box.of(..).")
        if not isinstance(reward_bounds, RewardBounds | None):
            raise InvalidInput(f"reward_bounds was {reward_bounds!r:.80}; pass RewardBounds(..).")
        if not isinstance(budget, Budget) or budget.trust_model not in self.trust_models:
            raise InvalidInput(
                f"budget was {budget!r}; {self.name} takes budgets with the trust model "
                f"{' or '.join(self.trust_models)}."
            )
        handles_over_limit = self.statistics_type.handles_over_limit or not budget.is_central
        several = self.acts_silently and handles_over_limit
        if budget.max_contributions > 1 and not several:
            raise InvalidInput(
                f"max_contributions was {budget.max_contributions}; {self.name} learns from one "
                "contribution of a person. Leave max_contributions out, and let everybody report "
                "once."
            )
        if noise is not None and not isinstance(noise, NoiseSource):
            raise InvalidInput(f"noise was {noise!r:.80}; pass SecureNoise().")
        if budget.trust_model == "joint":
            if noise is None or isinstance(noise, Unprotected):
                raise InvalidInput(
                    f"noise was {noise!r:.80}; under joint privacy {self.name} draws the noise "
                    "itself: pass SecureNoise() for people, or SimulatedNoise(seed) in simulations."
                )
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
        self.public_seed = whole_number(public_seed, "public_seed", maximum=PUBLIC_COINS - 1)
        self._streams: dict[str, Stream[P, S]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock, as a copy has its own; who draws noise for people is not copied."""
        if self.budget.is_central and self.noise is not None and self.noise.secure:
            refuse_copy("a learner", "discreet.save(learner, path)")
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lock = threading.RLock()

    @classmethod
    def _check_space(cls, space: ActionSpace) -> ActionSpace:
        whole = isinstance(space, int | np.integer)
        given = whole_number(space, "arms", minimum=2) if whole else space
        if type(given) in cls.spaces:
            return given
        allowed = ", ".join(
            "a number of arms" if kind is int else kind.__name__ for kind in cls.spaces
        )
        raise InvalidInput(f"the action space was {space!r:.80}; {cls.name} takes {allowed}.")

    # What a learner says.

    def __repr__(self) -> str:
        """What it is and, in a second line, how far: reports, version, what it holds."""
        if "_streams" not in vars(self):
            return f"{type(self).__name__}(..)"  # while it is being made
        arms = arm_count(self.space)
        what = described(
            type(self).__name__,
            arms=arms,
            actions=type(self.space).__name__ if arms is None else None,
            columns=list(self.domain.names),
            budget=self.budget,
        )
        with self.lock:
            if not self._policies:
                return f"{what}\nno policy published yet"
            version, held = self._policies[-1].version, self.guarantee().held
            return f"{what}\n{self.people:,} reports so far, policy {version}; {held}"

    def log_learnt(self, what: str, value: object) -> None:
        """Log what private reports say, not what a central draw says: a service may drop one."""
        if self.budget.is_local:
            logging.getLogger(type(self).__module__).debug("%s: %s now %s", self.name, what, value)

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """How many reports lie between the present policy and the next; `ENDLESS` if none comes."""

    @abstractmethod
    def _empty(self) -> S:
        """The statistics of no report to the target."""

    @abstractmethod
    def _publish(self) -> P:
        """Decide on the sums so far and make the target's next policy, from `policy_header()`."""

    @abstractmethod
    def _statistics(self, policy: P, reports: R) -> S:
        """The sums of reports made under `policy`; `InvalidInput` if it cannot have made them."""

    def _check_reports(self, policy: P, reports: R) -> None:
        """As `_statistics`, for learners whose sums take longer than the check of reports."""
        self._statistics(policy, reports)

    @abstractmethod
    def _check_sums(self, statistics: S) -> None:
        """Refuse statistics that no reports of the target add up to."""

    # What a learner with `takes_sources` says.

    def _source_batch(self, source: Stream[P, S]) -> int:
        """How many reports lie between the present policy of a source and the next."""
        raise NotImplementedError

    def _empty_source(self) -> S:
        """The statistics of no report of a source."""
        return self._empty()

    def _publish_source(self, source: Stream[P, S]) -> P:
        """The next policy of a source, from `policy_header(source)`."""
        raise NotImplementedError

    def _check_source_sums(self, source: Stream[P, S], statistics: S) -> None:
        """Refuse statistics that no reports of a source add up to."""
        self._check_sums(statistics)

    # What follows for all.

    @property
    def streams(self) -> Mapping[str, Stream[P, S]]:
        """Streams by name: `target`, whose actions the learner chooses, and all open sources.

        Secret where sums are data of people without protection.
        """
        if not self._streams:
            with self.lock:
                if not self._streams:
                    self._streams = {TARGET_NAME: self._opened(TARGET_NAME, self.budget)}
        return self._streams

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that were opened."""
        return tuple(name for name in self.streams if name != TARGET_NAME)

    @property
    def _sources(self) -> dict[str, Stream[P, S]]:
        return {name: self.streams[name] for name in self.sources}

    def open_source(self, name: str, epsilon: float) -> Stream[P, S]:
        """Open the stream of a source whose people report once each under `epsilon`.

        Raises:
            InvalidInput: for a name that is taken, an epsilon outside 10^-6 to 10^4, or a learner
                that takes no sources.
        """
        if not self.takes_sources:
            raise InvalidInput(
                f"{self.name} was given the source {name!r:.80}, but takes none; use a learner "
                "that does, such as kernel."
            )
        checked, budget = check_source_name(name), Local(check_source_epsilon(epsilon))
        with self.lock:
            if checked in self.streams:
                raise InvalidInput(
                    f"the source {checked!r} is open already, with epsilon = "
                    f"{self.streams[checked].budget.epsilon:g}; give each source its own name."
                )
            # A new table: other threads may be reading the old one.
            self._streams = {**self.streams, checked: self._opened(checked, budget)}
            return self._streams[checked]

    def _opened(self, name: str, budget: Budget) -> Stream[P, S]:
        target = name == TARGET_NAME
        return Stream(
            name=name,
            stream_id=stream_id(self.identity, name),
            budget=budget,
            record=replace(self.adjacency, unit=budget.protects) if target else SOURCE_RECORD,
            domain=self.domain,
            arms=list(self.arm_names) or self.space,
            reward_bounds=self.reward_bounds,
            _sums=self._empty() if target else self._empty_source(),
            drawn=self._central_releases if target and budget.is_central else None,
        )

    def stream(self, name: str) -> Stream[P, S]:
        """A stream by name; `InvalidInput` where it is not open."""
        if name not in self.streams:
            known = ", ".join(map(repr, self.sources)) or "none"
            raise InvalidInput(
                f"the source {name!r:.80} is not open (open: {known}); call open_source first."
            )
        return self.streams[name]

    def terms(self) -> Terms:
        """What people of the target agree to."""
        return self._target.terms()

    def reporting(self, noise: NoiseSource) -> tuple[NoiseSource, Terms | None]:
        """The noise source and terms for `Policy.report`: `noise` and `terms()` where reports are
        private, else `Unprotected()` and none."""
        return (noise, self.terms()) if self.budget.is_local else (Unprotected(), None)

    @property
    def _target(self) -> Stream[P, S]:
        return self.streams[TARGET_NAME]

    @property
    def _policies(self) -> list[P]:
        return self._target.policies

    @property
    def _sums(self) -> S:
        return self._target._sums

    @property
    def _published_at(self) -> int:
        return self._target.published_at

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know about the options chosen, each one sentence; public."""
        group = self.budget.group
        if self.horizon is None or self.horizon >= 2 * group:
            return ()
        return (
            f"{self.horizon} people fill {self.horizon // group} groups of {group}, and nothing is "
            "learnt of others, nor anything acted on before the first group is whole; choose a "
            "smaller group.",
        )

    @property
    def secret(self) -> bool:
        """Whether the saved state holds data of people that is not private yet."""
        return self.budget.trust_model in ("none", "joint")

    def policy_header(self, source: Stream[P, S] | None = None) -> dict[str, Any]:
        """Keyword arguments that every policy of the target, or of a source, shares, with the next
        version."""
        header = {
            "version": len((source or self._target).policies),
            "learner_id": self.identity,
            "domain": self.domain,
            "reward_bounds": self.reward_bounds,
            "public_seed": self.public_seed,
            "max_contributions": (source or self._target).budget.max_contributions,
            "arm_names": self.arm_names,
        }
        if self.budget.group > 1 and source is None:
            header |= {"group_size": self.budget.group, "honest": self.budget.honest}
        if source is not None:
            header |= {"stream": source.name, "epsilon": source.budget.epsilon}
        return header

    @property
    def people(self) -> int:
        """How many reports of the target have been added so far, one for each contribution."""
        return self._target.people

    @property
    def source_total(self) -> int:
        """How many people of all sources have reported."""
        return sum(source.people for source in self._sources.values())

    def batch_of(self, stream: str = TARGET_NAME) -> int:
        """How many reports lie between the present policy of a stream and the next; whole groups
        where they are shuffled."""
        opened = self.stream(stream)
        least = self.batch_size if opened is self._target else self._source_batch(opened)
        return -(-least // opened.budget.group) * opened.budget.group

    @property
    def published_from(self) -> int:
        """How many reports of the target the current policy follows from."""
        return self._published_at

    def policy(self, stream: str = TARGET_NAME) -> P:
        """The current public policy of a stream; a new one once `batch_of(stream)` new reports
        have come."""
        with self.lock:
            opened = self.stream(stream)
            if opened.due(self.batch_of(stream)):
                if opened is not self._target:
                    opened.publish(self._publish_source(opened))
                else:
                    policy, before = self._publish(), self._published_at
                    opened.publish(policy)
                    share = discount_factor(self.half_life, self._published_at - before)
                    for each in self.streams.values():
                        each.discount(share)
            return opened.policies[-1]

    def published(self, version: int) -> P:
        """The target's policy of that version; `InvalidInput` if there was none."""
        return self._target.published(version)

    def register_policy(self, policy: P) -> None:
        """Take a policy that this learner published elsewhere, the next one of its stream, so that
        `statistics` reads reports under it here; for copies that learn nothing themselves.

        Raises:
            InvalidInput: a policy of another learner, or not the next one.
        """
        self.stream(policy.stream).register_policy(policy)

    def _read(self, reports: Any, whole: bool = True) -> list[tuple[Stream[P, S], P, R]]:
        """Each of one or several batches of reports, with its stream and the policy that made it;
        where they are shuffled, `whole` groups.

        Raises:
            InvalidInput: for anything else, and reports to another learner.
        """
        batches = [reports] if isinstance(reports, Reports) else reports
        if not isinstance(batches, Sequence):
            raise InvalidInput(f"reports was {reports!r:.80}; pass what policy.report() made.")
        if not batches:
            raise InvalidInput("reports was empty; pass at least one report.")
        made = []
        for batch in batches:
            stream = self._named_by(batch)
            if stream is None and isinstance(batch, Reports):
                raise InvalidInput(
                    f"the reports are for the learner {batch.source!r:.120}, this is "
                    f"{self.identity!r}; send reports to the learner whose policy made them."
                )
            source = stream is not None and stream is not self._target
            kind = (self.source_reports_type if source else None) or self.reports_type
            if stream is None or not isinstance(batch, kind):
                raise InvalidInput(
                    f"reports had type {type(batch).__name__}; {self.name} takes {kind.__name__}, "
                    "as its policies make them."
                )
            policy = stream.published(batch.policy_version)
            stream.check_noise((batch.noise,))
            if whole:
                stream.check_groups(len(batch))
            made.append((stream, policy, batch))
        return made

    def _named_by(self, given: Any) -> Stream[P, S] | None:
        """The stream that reports or statistics name."""
        source = getattr(given, "source", None)
        return next((each for each in self.streams.values() if each.stream_id == source), None)

    def statistics(self, reports: R | Sequence[R]) -> S:
        """The sums of some reports of one stream, which `merge` adds; changes nothing.

        Raises:
            InvalidInput: reports of another learner, of a policy that was never published, or
                malformed ones.
        """
        read = self._read(reports)
        if any(stream is not read[0][0] for stream, *_ in read):
            raise InvalidInput("reports were of several streams; pass those of one at a time.")
        return reduce(add, (self._statistics_of(*batch) for batch in read))

    def check_reports(self, reports: R, stream: str | None = None) -> None:
        """`InvalidInput` for reports that `statistics` refuses, and for those of another stream
        than that of this name, if one is given; changes nothing. Groups need not be whole, so that
        a shuffler can check each report."""
        for own, policy, batch in self._read(reports, whole=False):
            if stream not in (None, own.name):
                raise InvalidInput(
                    f"the reports are for {own.title} of this learner, and came as reports of "
                    f"{self.stream(str(stream)).title}; send them to their own stream."
                )
            self._check_reports(policy, batch)

    def _statistics_of(
        self, stream: Stream[P, S], policy: P, reports: R, beyond: BoolArray | None = None
    ) -> S:
        """The sums of one batch, in which contributions that are `beyond` those covered add
        nothing."""
        counted = reports if beyond is None else reports.limited(beyond)
        return stream.marked(self._statistics(policy, counted), noise=(reports.noise,))

    def merge(self, statistics: S) -> None:
        """Add statistics that `statistics` of this learner, or a copy of it, made elsewhere.

        Raises:
            InvalidInput: statistics of another learner or at another epsilon, or malformed ones.
        """
        # Those of no stream of this learner do not add to the target's.
        stream = self._named_by(statistics) or self._target
        with stream.refusing(statistics):
            stream.check_unnamed("the statistics")
            kind = type(stream._sums)
            if not isinstance(statistics, kind):
                raise InvalidInput(
                    f"statistics had type {type(statistics).__name__}; {self.name} adds "
                    f"{kind.__name__}."
                )
            check_fields(statistics)
            stream.check_noise(statistics.noise)
            stream.check_groups(statistics.reports)
            # Else the sums could be saved and never be read again.
            if (statistics.reports > 0) != bool(statistics.noise):
                raise InvalidInput(
                    f"statistics of {statistics.reports} reports had the noise sources "
                    f"{statistics.noise}; name those of the reports, and none where there are no "
                    "reports. Send them as statistics() made them."
                )
            self._add([(stream, statistics)])

    def _add(self, parts: Sequence[tuple[Stream[P, S], S]]) -> None:
        """Add what `statistics` made, here or, once it is checked, elsewhere; all or nothing."""
        added: dict[str, S] = {}
        for stream, part in parts:
            added[stream.name] = added[stream.name] + part if stream.name in added else part
        with self.lock, np.errstate(over="ignore", invalid="ignore"):
            sums: dict[str, S] = {}
            for name, part in added.items():
                stream = self.streams[name]
                if stream is self._target:
                    self._check_sums(part)
                else:
                    self._check_source_sums(stream, part)
                sums[name] = stream._sums + part
                sums[name].check_finite()
            for name, total in sums.items():
                self.streams[name]._sums = total

    def update(self, reports: R | Sequence[R], people: Any = None) -> None:
        """Add any number of reports of any streams, late ones included.

        A report that is added twice counts twice. The transport must deduplicate reports: under
        joint privacy a person who is counted twice pays as if they had taken part twice.

        Args:
            reports: one batch or several.
            people: under joint privacy the ids of who made them, (n,) texts or whole numbers, for
                several batches a list of such; needed where the budget covers several contributions
                of a person. Contributions beyond those count as contributions, but nothing is
                learnt from them. Reports of sources come in a call of their own, without ids.
        """
        single, given = isinstance(reports, Reports), cast(Any, reports)
        first = given[0] if isinstance(given, Sequence) and given else given
        with self.lock, (self._named_by(first) or self._target).refusing(reports):
            batches = self._read(reports)
            who: list[str] = []
            beyond: Sequence[BoolArray | None] = [None] * len(batches)
            if people is None:
                for stream, *_ in batches:
                    stream.check_unnamed("the reports")
            else:
                sizes = [len(batch) for *_, batch in batches]
                of = next((each for each, *_ in batches if each is not self._target), self._target)
                who, beyond = of.contributions([people] if single else people, sizes)
            self._add(
                [
                    (batch[0], self._statistics_of(*batch, some))
                    for batch, some in zip(batches, beyond, strict=True)
                ]
            )
            self._target._contributions.add(who)

    # Policy values.

    def value(
        self,
        policy: AnyPolicy = None,
        *,
        contexts: Any = None,
        against: AnyPolicy = None,
        confidence: float = CONFIDENCE,
    ) -> Value:
        """What a policy earns per person, from what was released already; costs no privacy.

        Without privacy nothing protects it, as nothing protects what else the learner says.

        Args:
            policy: whose value is asked; the learner's own recommendation if left out, which is
                what `recommend` says. Otherwise an arm for everybody; a function of contexts (n, d)
                that returns (n,) arms or (n, K) probabilities; arms (n,) for the `contexts` given;
                or a policy that a learner published.
            contexts: a public sample (n, d) of people, or of decision sets (n, c, d), over which
                to average. By default the estimated contexts of the learner's people, if known.
            against: another policy, as above; then the value is by how much the first earns more.
            confidence: of the interval.

        Returns:
            The value in the units of rewards.

        Raises:
            InvalidInput: for a learner that cannot say, a policy or contexts that do not fit, or
                where contexts are nowhere known and none are given.
        """
        level = number_from(confidence, "confidence", 0.5, 0.9999)
        posterior, given = self._values(contexts), contexts is not None
        if given and not posterior.judges_others:
            raise InvalidInput(
                f"contexts was given, but no report to {self.name} says where its people are, so "
                "it does not know what others would earn; leave contexts out."
            )
        return posterior.value(self.reward_bounds, policy, against, given, level)

    def _values(self, contexts: Any = None) -> ValuePosterior:
        """The posterior from which values follow, at contexts or where people are."""
        with self.lock:
            found = self._value_posterior(contexts)
        if self.half_life is None:
            return found
        return replace(found, where=f"{found.where}, with rewards as they were of late")

    def recommend(self, contexts: Any = None) -> IntArray | FloatArray:
        """(n,) the best arms by the posterior mean for contexts (n, d).

        For decision sets (n, c, d) the best places in them; on public points the best point (d,).
        For decisions without exploration.

        Raises:
            InvalidInput: as `value`.
        """
        with self.lock:
            if not isinstance(contexts, np.ndarray) or len(contexts) <= _MOST_AT_ONCE:
                return self._value_posterior(contexts).recommended
            starts = range(0, len(contexts), _MOST_AT_ONCE)
            first = self._value_posterior(contexts[:_MOST_AT_ONCE]).recommended
            if first.dtype.kind == "f":  # a point for everybody
                return first
            rest = (contexts[start : start + _MOST_AT_ONCE] for start in starts[1:])
            return np.concatenate(
                [first, *(self._value_posterior(each).recommended for each in rest)]
            )

    @property
    def _latest_policy(self) -> Any:
        """The last policy that was published, which holds all that was released."""
        if not self._policies:
            raise InvalidInput(
                f"{self.name} has published nothing yet that says what a policy is worth; call "
                "policy() first."
            )
        return self._policies[-1]

    def _value_posterior(self, contexts: Any) -> ValuePosterior:
        """The posterior of rewards at contexts, or where people are if these are None."""
        raise InvalidInput(
            f"{self.name} cannot say what a policy is worth: it keeps no posterior with a known "
            "error. Ask kernel, partition, gp_ucb, capri or usca."
        )

    # Options and files.

    @classmethod
    def option_names(cls) -> list[str]:
        """The keyword arguments that this learner has beside those of all learners, and those of
        base classes to which it hands them on."""
        kinds = [kind for kind in cls.__mro__ if "__init__" in vars(kind)]
        own = [name for kind in kinds if issubclass(kind, Learner) for name in _keywords(kind)]
        return [name for name in dict.fromkeys(own) if name not in _keywords(Learner)]

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
            name.lstrip("_"): to_json(getattr(self, name), _hints_of(type(self))[name])
            for name in self.saved
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        """The inverse of `_state`."""
        for name in self.saved:
            key = name.lstrip("_")
            setattr(self, name, from_json(saved[key], _hints_of(type(self))[name], key))

    def secret_fields(self) -> dict[str, Any]:
        """Everything about this learner as JSON values, sums before noise included: SECRET.

        Only for the file that `save` writes, which says so.
        """
        with self.lock:
            return {
                "options": self._options(),
                "target": self._target.saved(),
                "sources": {name: source.saved() for name, source in self._sources.items()},
                "own": self._state(),
            }

    def restore_fields(self, saved: dict[str, Any]) -> None:
        """The inverse of `secret_fields`, for what a learner with the same options saved."""
        for name, source in saved["sources"].items():
            self.open_source(name, source["epsilon"]).restore(source)
        self._target.restore(saved["target"])
        self._restore(saved["own"])

    def _central_releases(self) -> list[Release]:
        """The records of what this learner drew, under joint privacy."""
        raise NotImplementedError

    @property
    def releases(self) -> list[Release]:
        """The record of every release of the target so far, under every noise source seen."""
        return self._target.releases()

    @property
    def adjacency(self) -> Adjacency:
        """What one person's record is."""
        return LOCAL_RECORD

    def guarantee(self) -> Guarantee:
        """What one person of the target is promised so far, derived from `releases`."""
        return self._target.guarantee()


class ArmLearner(Learner[P, R, S]):
    """A learner that chooses among K arms.

    Args:
        arms: the number of arms K, at least 2, their names, or `ArmPoints`.

    Attributes:
        pure_reports: whether reports under local privacy take no delta.
    """

    spaces: ClassVar[tuple[type[Any], ...]] = (int, ArmPoints)
    pure_reports: ClassVar[bool] = True
    space: int | ArmPoints

    def __init__(self, domain: Box, arms: Arms, budget: Budget, **common: Unpack[Common]) -> None:
        space, _ = with_names(arms)
        self.arms = len(space) if isinstance(space, ArmPoints) else whole_number(space, "arms", 2)
        pure = isinstance(budget, Local) and self.pure_reports
        if pure and budget.delta > 0.0 and budget.max_contributions == 1:
            raise InvalidInput(
                f"delta was {budget.delta:g}; the reports of {self.name} are pure, so give an "
                "epsilon without delta. (Several contributions of a person may have one.)"
            )
        super().__init__(domain, arms, budget, **common)

    def policy_header(self, source: Stream[P, S] | None = None) -> dict[str, Any]:
        return {**super().policy_header(source), "arms": self.arms}


class Calibration(Serializable, ABC):
    """What an algorithm leaves open, as one object: `Usca(..., calibration=PublishedUsca())`.

    A frozen dataclass; its fields are its options, and say what they may be (codec). A calibration
    says how much noise a release has, what people add, which widths decide. Ours stand beside their
    algorithms; those of the papers live with the reproductions and subclass the same base:

        Calibration                       base: names, options, registry
          Elimination                     what CAPRI leaves open: a family
            PosteriorElimination          a calibration of it, `calibration = "posterior"`

    A direct subclass is the family of one algorithm and says what that leaves open. Each subclass
    with a `name` is known to its family from then on.

    Attributes:
        name: by which study files and saved learners call it; one for each of a family.
        kinds: the calibrations of the family by their names, the default first.
    """

    name: ClassVar[str]
    kinds: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if Calibration in cls.__bases__:
            cls.kinds = {}
        if "name" in vars(cls):
            cls.kinds[cls.name] = cls

    @classmethod
    def checked(cls, given: object) -> Self:
        """`given`, or the family's default for None; `InvalidInput` for anything else."""
        if given is None:
            default: Self = next(iter(cls.kinds.values()))()
            return default
        if not isinstance(given, cls):
            known = ", ".join(f"{kind.__name__}(..)" for kind in cls.kinds.values())
            raise InvalidInput(f"calibration was {given!r:.80}; pass one such as {known}.")
        return given

    def to_options(self) -> dict[str, Any]:
        """The inverse of `taken_from`."""
        names = self.option_names()
        return {"calibration": self.name, **{name: getattr(self, name) for name in names}}

    @classmethod
    def option_names(cls) -> list[str]:
        """The fields of a calibration, as study files name them."""
        return [field.name for field in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """The calibration that options name, by default the first; takes its own out of them.

        Raises:
            InvalidInput: for a calibration that the family does not have, or refuses its options.
        """
        name = options.pop("calibration", next(iter(cls.kinds)))
        if name not in cls.kinds:
            raise InvalidInput(
                f"calibration was {name!r:.80}; it must be one of {', '.join(cls.kinds)}. Those of "
                "your own, or of a paper, are known once the module that defines them is imported."
            )
        kind = cls.kinds[name]
        own = {option: options.pop(option) for option in kind.option_names() if option in options}
        calibration: Self = kind(**own)
        return calibration


def read_options(
    learner: type[Learner[Any, Any, Any]], options: Mapping[str, Any], family: type[Calibration]
) -> dict[str, Any]:
    """The options of a study file as keyword arguments of a learner that takes a calibration.

    Raises:
        InvalidInput: for an option that neither of them has.
    """
    rest = dict(options)
    calibration = family.taken_from(rest)
    known = [*learner.option_names(), *calibration.option_names()]
    check_options(learner.name, rest, list(dict.fromkeys(known)))
    return {**rest, "calibration": calibration}


def check_source_name(name: object) -> str:
    """The name of a source: of a stream, and not that of the target."""
    if check_stream_name(name) == TARGET_NAME:
        raise InvalidInput(f"a source was called {name!r}, as the target is; give it another name.")
    return str(name)


@cache
def _keywords(kind: type) -> list[str]:
    """The keyword arguments of a constructor."""
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


@cache
def _hints_of(kind: type) -> dict[str, Any]:
    """What a class says about its attributes."""
    return get_type_hints(kind, include_extras=True)
