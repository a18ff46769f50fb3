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

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Unpack, cast

from numpy.typing import ArrayLike

from discreet.codec import CheckedBy, Range
from discreet.learners.arm_learner import ArmLearner
from discreet.learners.base import Common
from discreet.learners.messages import ArmPolicy, Reports, Statistics
from discreet.learners.signs import SignedOffer, SignedReports
from discreet.learners.stream import TARGET_NAME, Stream
from discreet.learners.terms import Offer, Terms, check_reporting
from discreet.people.domain import ActionSpace, Arms, Box, arm_numbers
from discreet.privacy import Adjacency, Budget, Guarantee, Local, NoiseSource, OnceEach
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    nearest_whole,
    positive_number,
)

SOURCE_RECORD = Adjacency(record="context, arm and reward")
# Far beyond these numbers sums of reports leave the range of floats.
LEAST_EPSILON, MOST_EPSILON = 1e-6, 1e4


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
    ) -> Reports:
        """Turn what happened to each person into what the learner may see; draw it once.

        Nothing is refused for what a context, arm or reward is, because silence is not private: a
        value outside its bounds counts as the nearest one within, and NaN as their middle.

        Args:
            contexts: (n, d), within the domain.
            arms: (n,) the arms that were chosen for them, 0 .. K - 1, or their names; a name that
                no arm has counts as missing.
            rewards: (n,), within `reward_bounds`.
            noise: the source of the randomness that protects them.
            terms: what this side agreed to; required with `SecureNoise`.

        Raises:
            InvalidInput: for other terms, or arrays of the wrong shape or type.
        """
        check_reporting(self, noise, terms)
        unit = self.domain.nearest_unit(contexts)
        numbers = arm_numbers(arms, self.arm_names)
        chosen = nearest_whole(numbers, "arms", 0, self.arms - 1, len(unit))
        scaled = self.reward_bounds.nearest_unit(rewards, len(unit))
        return self._report(unit, chosen, scaled, noise)

    @abstractmethod
    def _report(
        self, unit: FloatArray, arms: IntArray, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        """Reports from checked contexts in [0, 1]^d, arms, and rewards in [0, 1]."""

    @property
    def group(self) -> OnceEach:
        """Of these releases each person of the source enters one."""
        return self._group(f"source {self.name} of learner {self.learner_id}")

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
        return source_id(self.learner_id, self.name)


P = TypeVar("P", bound=ArmPolicy)
Q = TypeVar("Q", bound=SourcePolicy)
R = TypeVar("R", bound=Reports)
S = TypeVar("S", bound=Statistics)


class SourceLearner(ArmLearner[P, R, S], Generic[P, R, S, Q]):
    """A learner that also hears from auxiliary sources (see the module).

    Attributes:
        source_policy_type: the class of its source policies.
        source_reports_type: the class of the reports it takes from sources.
    """

    source_policy_type: ClassVar[type[SourcePolicy]]
    source_reports_type: ClassVar[type[Reports]]

    def __init__(self, domain: Box, arms: Arms, budget: Budget, **common: Unpack[Common]) -> None:
        super().__init__(domain, arms, budget, **common)
        self._sources: dict[str, Stream[Q, S]] = {}

    # What a learner says.

    @abstractmethod
    def source_batch(self, name: str) -> int:
        """How many reports lie between the present policy of a source and the next."""

    def _empty_source(self) -> S:
        """The statistics of no report of a source."""
        return self._empty()

    @abstractmethod
    def _publish_source(self, source: Stream[Q, S]) -> Q:
        """The next policy of a source, from `source_header(source)`."""

    @abstractmethod
    def _source_statistics(self, policy: Q, reports: R) -> S:
        """The sums of reports of a source; `InvalidInput` if `policy` cannot have made them."""

    # What follows for all.

    def source_header(self, source: Stream[Q, S]) -> dict[str, Any]:
        """Keyword arguments that every policy of a source shares, with the next version."""
        return {
            **self.policy_header(),
            "name": source.name,
            "version": len(source.policies),
            "epsilon": source.budget.epsilon,
            "visits": source.budget.visits,
        }

    def _fade(self, share: float) -> None:
        super()._fade(share)
        for source in self._sources.values():
            source.fade(share)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that were opened."""
        return tuple(self._sources)

    @property
    def source_total(self) -> int:
        """How many people of all sources have reported."""
        return sum(source.people for source in self._sources.values())

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
                    f"{self._sources[checked].budget.epsilon:g}; give each source its own name."
                )
            # A new table, so that whoever goes through the old one meanwhile is not disturbed.
            self._sources = {**self._sources, checked: self._opened(checked, epsilon)}

    def _opened(self, name: str, epsilon: float) -> Stream[Q, S]:
        budget = Local(check_source_epsilon(epsilon))
        identity = source_id(self.identity, name)
        return Stream(name, identity, budget, SOURCE_RECORD, self._empty_source())

    def source(self, name: str) -> Stream[Q, S]:
        """Policies and sums of a source; `InvalidInput` where it is not open."""
        if name not in self._sources:
            known = ", ".join(map(repr, self._sources)) or "none"
            raise InvalidInput(
                f"the source {name!r:.80} is not open (open: {known}); call open_source first."
            )
        return self._sources[name]

    def source_terms(self, name: str) -> Terms:
        """What people of a source agree to."""
        budget = self.source(name).budget
        return replace(
            self.terms(), most_epsilon=budget.epsilon, delta=budget.delta, visits=budget.visits
        )

    def source_people(self, name: str) -> int:
        """How many people of a source have reported."""
        return self.source(name).people

    def source_policy(self, name: str) -> Q:
        """The current policy of a source; a new one once `source_batch` new reports have come."""
        with self.lock:
            source = self.source(name)
            if source.due(self.source_batch(name)):
                source.publish(self._publish_source(source))
            return source.policies[-1]

    def recall_source(self, name: str, policy: Q) -> None:
        """As `recall`, for the next policy of a source."""
        source = self.source(name)
        facts = self.source_header(source)
        source.recall(policy, self.source_policy_type, lambda _: facts)

    def source_statistics(self, reports: R) -> S:
        """The sums of reports of a source, checked as `update_source` does; changes nothing."""
        source = self._source_of(reports)
        with source.refusing(reports):
            sums = self._source_statistics(source.policy_of(reports), reports)
        return source.marked(sums, noise=(reports.noise,))

    def check_source_reports(self, reports: R) -> None:
        """`InvalidInput` for reports that `source_statistics` refuses; changes nothing."""
        source = self._source_of(reports)
        with source.refusing(reports):
            policy = source.policy_of(reports)
            if isinstance(policy, SignedOffer):
                policy.check(cast(SignedReports, reports))  # without their sums, which take long
            else:
                self._source_statistics(policy, reports)

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
            checked = [(self._source_of(each), self.source_statistics(each)) for each in batches]
            for source, sums in checked:
                source.sums = source.sums + sums

    def _source_of(self, reports: R) -> Stream[Q, S]:
        """The source that reports name."""
        if not isinstance(reports, self.source_reports_type):
            raise InvalidInput(
                f"reports had type {type(reports).__name__}; this learner takes "
                f"{self.source_reports_type.__name__} from sources."
            )
        for source in self._sources.values():
            if source.stream_id == reports.source:
                return source
        raise InvalidInput(
            f"the reports are for {reports.source!r:.120}, which is no source of this learner; "
            "send reports to the learner whose source policy made them."
        )

    def source_guarantees(self) -> dict[str, Guarantee]:
        """For each source what its people are promised, derived from its policies."""
        with self.lock:
            return {name: source.guarantee() for name, source in self._sources.items()}

    def secret_fields(self) -> dict[str, Any]:
        with self.lock:
            sources = {
                name: {"epsilon": source.budget.epsilon, **source.saved()}
                for name, source in self._sources.items()
            }
            return {**super().secret_fields(), "sources": sources}

    def restore_fields(self, saved: dict[str, Any]) -> None:
        for name, fields in saved["sources"].items():
            self._sources[name] = self._restored(check_source_name(name), fields)
        super().restore_fields(saved)

    def _restored(self, name: str, fields: dict[str, Any]) -> Stream[Q, S]:
        source = self._opened(name, fields["epsilon"])
        facts = self.source_header(source)
        source.restore(fields, self.source_policy_type, lambda policy: facts)
        return source


def source_id(learner_id: str, name: str) -> str:
    """By which reports find a source of a learner."""
    return f"{learner_id}, source {name}"


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


SourceName = Annotated[str, CheckedBy(check_source_name)]
SourceEpsilon = Annotated[float, CheckedBy(check_source_epsilon)]
