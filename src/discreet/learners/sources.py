"""Auxiliary sources: people elsewhere whose actions somebody else chose.

A source has its own people, its own epsilon and a behaviour policy that nobody knows. Each person
of a source has a context, the arm that was chosen for them and the reward that followed; one
private report of these leaves their side:

    learner.open_source("other hospital", epsilon=8.0)
    policy = learner.source_policy("other hospital")           # public
    reports = policy.report(contexts, arms, rewards, noise)     # on their side, private now
    learner.update_source(reports)

What a learner makes of it is its own affair; what it owes is that reports of a source add like all
others, that a policy lasts until `source_batch` reports came, and that `source_guarantees` says
for each source what its people are promised. The target's guarantee does not cover them: nobody
takes part in two of these.
Calls that read or change what a learner keeps of its sources take the learner's lock, as those of
the target do: any number of threads may open sources, report and ask for policies at once.

*Claim.* Given the policy, which is public, no two people with contexts in the domain, any arm and
rewards in their bounds make any report more than e^epsilon times as likely from one as from the
other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from numpy.typing import ArrayLike

from discreet.action_space import ActionSpace
from discreet.codec import Check, Range
from discreet.learners.base import LearnerLock
from discreet.learners.messages import Reports
from discreet.learners.terms import Offer, Terms, check_reporting
from discreet.privacy import (
    Adjacency,
    Guarantee,
    NoiseSource,
    OnceEach,
    derive_guarantee,
)
from discreet.privacy.noise import check_protection
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    nearest_whole,
    positive_number,
    whole_number,
)

SOURCE_RECORD = Adjacency(record="context, arm and reward")
TARGET_NAME = "target"
# Far beyond these numbers sums of reports leave the range of floats.
LEAST_EPSILON, MOST_EPSILON = 1e-6, 1e4


@dataclass(frozen=True)
class SourceReports(Reports):
    """Reports of n people of one source, made under one version of its policy.

    `source` is that of the policy (`SourcePolicy.stream_id`).
    """


@dataclass(frozen=True)
class SourcePolicy(Offer):
    """How the people of a source report; public, and the same for all of them.

    Attributes:
        name: of the source.
        arms: the number of arms K.
        epsilon: what one report costs.
    """

    name: SourceName
    arms: Annotated[int, Range(2)]
    epsilon: SourceEpsilon

    def report(
        self,
        contexts: ArrayLike,
        arms: ArrayLike,
        rewards: ArrayLike,
        noise: NoiseSource,
        terms: Terms | None = None,
    ) -> SourceReports:
        """Turn what happened to each person into what the learner may see; draw it once.

        Nothing is refused for what a context, arm or reward is, because silence is not private: a
        value outside its bounds counts as the nearest one within, and NaN as their middle.

        Args:
            contexts: (n, d), within the domain.
            arms: (n,) the arms that were chosen for them, 0 .. K - 1.
            rewards: (n,), within `reward_bounds`.
            noise: the source of the randomness that protects them.
            terms: what this side agreed to; required with `SecureNoise`.

        Raises:
            InvalidInput: for other terms, or arrays of the wrong shape or type.
        """
        check_reporting(self, noise, terms)
        unit = self.domain.nearest_unit(contexts)
        chosen = nearest_whole(arms, "arms", 0, self.arms - 1, len(unit))
        scaled = self.reward_bounds.nearest_unit(rewards, len(unit))
        return self._report(unit, chosen, scaled, noise)

    @abstractmethod
    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> SourceReports:
        """Reports from checked contexts in [0, 1]^d, arms, and rewards in [0, 1]."""

    @property
    def group(self) -> OnceEach:
        """Of these releases each person of the source enters one."""
        return OnceEach(f"one report to source {self.name} of learner {self.learner_id}")

    @property
    def space(self) -> ActionSpace:
        """The arms that people of the source can have been given."""
        return self.arms

    @property
    def title(self) -> str:
        """What messages call this policy."""
        return f"policy {self.version} of source {self.name!r}"

    @property
    def stream_id(self) -> str:
        return f"{self.learner_id}, source {self.name}"


P = TypeVar("P", bound=SourcePolicy)
R = TypeVar("R", bound=SourceReports)


@dataclass
class SourceState(Generic[P]):
    """What a learner keeps of one source, beside its sums.

    Attributes:
        epsilon: what a report of it costs.
        policies: all that were published, in order.
        people: how many reports came.
        published_at: how many had come when the last policy was published.
        noise: the names of the noise sources that protect them.
    """

    epsilon: float
    policies: list[P] = field(default_factory=list)
    people: int = 0
    published_at: int = 0
    noise: tuple[str, ...] = ()


class SourceLearner(ABC, Generic[P, R]):
    """The part of a learner that hears from auxiliary sources (see the module).

    Attributes:
        source_policy_type: the class of its source policies.
        source_reports_type: the class of the reports it takes.
    """

    source_policy_type: ClassVar[type[SourcePolicy]]
    source_reports_type: ClassVar[type[SourceReports]]
    lock: LearnerLock

    def __init__(self) -> None:
        self._sources: dict[str, SourceState[P]] = {}

    @abstractmethod
    def source_batch(self, name: str) -> int:
        """How many reports lie between the present policy of a source and the next."""

    @abstractmethod
    def _publish_source(self, name: str, state: SourceState[P]) -> P:
        """The next policy of a source, from what is known now."""

    @abstractmethod
    def _add_source(self, name: str, policy: P, reports: R) -> None:
        """Add checked reports made under `policy`; `InvalidInput` if it cannot have made them."""

    @abstractmethod
    def policy_header(self) -> dict[str, Any]:
        """What all policies of the learner share (base.py)."""

    def source_header(self, name: str, state: SourceState[P]) -> dict[str, Any]:
        """Keyword arguments that every policy of a source shares, with the next version."""
        return {
            **self.policy_header(),
            "name": name,
            "version": len(state.policies),
            "epsilon": state.epsilon,
        }

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that were opened."""
        return tuple(self._sources)

    def open_source(self, name: str, epsilon: float) -> None:
        """Announce a source whose people report once each under `epsilon`.

        Raises:
            InvalidInput: for a name that is taken, or an epsilon outside 10^-6 to 10^4.
        """
        checked = check_source_name(name)
        with self.lock:
            if checked in self._sources:
                raise InvalidInput(
                    f"the source {checked!r} is open already, with epsilon = "
                    f"{self._sources[checked].epsilon:g}; give each source its own name."
                )
            state: SourceState[P] = SourceState(check_source_epsilon(epsilon))
            # A new table, so that whoever goes through the old one meanwhile is not disturbed.
            self._sources = {**self._sources, checked: state}

    def source_people(self, name: str) -> int:
        """How many people of a source have reported."""
        return self._source(name).people

    def source_policy(self, name: str) -> P:
        """The current policy of a source; a new one once `source_batch` new reports have come."""
        with self.lock:
            state = self._source(name)
            if not state.policies or state.people - state.published_at >= self.source_batch(name):
                state.policies.append(self._publish_source(name, state))
                state.published_at = state.people
            return state.policies[-1]

    def update_source(self, reports: R | Sequence[R]) -> None:
        """Add any number of reports of any sources. A report that comes twice counts twice.

        Raises:
            InvalidInput: for reports of another learner or source, of a policy that was never
                published, without noise, or malformed ones; then nothing is added.
        """
        batches = list(reports) if isinstance(reports, Sequence) else [reports]
        if not batches:
            raise InvalidInput("reports was empty; pass at least one report.")
        with self.lock:
            found = [(*self._origin(batch), batch) for batch in batches]
            for _, policy, batch in found:
                check_protection(batch.noise)
                self._check_source(policy, batch)
            for name, policy, batch in found:
                self._add_source(name, policy, batch)
                state = self._sources[name]
                state.people += len(batch)
                state.noise = tuple(sorted({*state.noise, batch.noise}))

    @abstractmethod
    def _check_source(self, policy: P, reports: R) -> None:
        """Refuse reports that `policy` cannot have made."""

    def source_guarantees(self) -> dict[str, Guarantee]:
        """For each source what its people are promised, derived from its policies."""
        with self.lock:
            return {
                name: derive_guarantee(
                    [
                        release
                        for policy in state.policies
                        for noise in (state.noise or ("no report yet",))
                        if (release := policy.release(noise)) is not None
                    ],
                    "local",
                    SOURCE_RECORD,
                )
                for name, state in self._sources.items()
            }

    def _source(self, name: str) -> SourceState[P]:
        if name not in self._sources:
            known = ", ".join(map(repr, self._sources)) or "none"
            raise InvalidInput(
                f"the source {name!r:.80} is not open (open: {known}); call open_source first."
            )
        return self._sources[name]

    def _origin(self, reports: R) -> tuple[str, P]:
        """The source and the policy that reports name."""
        if not isinstance(reports, self.source_reports_type):
            raise InvalidInput(
                f"reports had type {type(reports).__name__}; this learner takes "
                f"{self.source_reports_type.__name__} from sources."
            )
        for name, state in self._sources.items():
            if state.policies and state.policies[0].stream_id == reports.source:
                version = whole_number(reports.policy_version, "policy_version")
                if version >= len(state.policies):
                    raise InvalidInput(
                        f"the reports name version {version} of source {name!r}, which has "
                        f"{len(state.policies)} versions, counted from 0."
                    )
                return name, state.policies[version]
        raise InvalidInput(
            f"the reports are for {reports.source!r:.120}, which is no source of this learner; "
            "send reports to the learner whose source policy made them."
        )


def check_source_epsilon(value: object) -> float:
    """An epsilon of a source, within what its mechanisms can compute with."""
    number = positive_number(value, "epsilon of a source")
    if not LEAST_EPSILON <= number <= MOST_EPSILON:
        raise InvalidInput(
            f"epsilon of a source was {number!r}; it must be from {LEAST_EPSILON:g}, where reports "
            f"say next to nothing, to {MOST_EPSILON:g}, where they hide next to nothing."
        )
    return number


def check_source_name(name: object) -> str:
    """A name of a source: text that is not empty and not that of the target."""
    if not isinstance(name, str) or not name.strip() or name == TARGET_NAME or len(name) > 200:
        raise InvalidInput(
            f"a source was called {name!r:.80}; its name must be text of at most 200 characters "
            f"other than {TARGET_NAME!r}."
        )
    return name


SourceName = Annotated[str, Check(check_source_name)]
SourceEpsilon = Annotated[float, Check(check_source_epsilon)]
