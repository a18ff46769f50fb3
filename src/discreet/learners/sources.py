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
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar, Unpack

from discreet.learners.arm_learner import ArmLearner
from discreet.learners.base import Common
from discreet.learners.messages import Reports, Statistics
from discreet.learners.policy import (
    TARGET_NAME,
    ArmPolicy,
    Terms,
    check_source_epsilon,
    check_stream_name,
    stream_id,
)
from discreet.learners.stream import Stream, published_kind
from discreet.people.domain import Arms, Box
from discreet.privacy import Adjacency, Budget, Guarantee, Local
from discreet.validation import InvalidInput

SOURCE_RECORD = Adjacency(record="context, arm and reward")


P = TypeVar("P", bound=ArmPolicy)
R = TypeVar("R", bound=Reports)
S = TypeVar("S", bound=Statistics)


class SourceLearner(ArmLearner[P, R, S], Generic[P, R, S]):
    """A learner that also hears from auxiliary sources (see the module).

    Attributes:
        source_reports_type: the class of the reports it takes from sources.
    """

    source_reports_type: ClassVar[type[Reports]]

    def __init__(self, domain: Box, arms: Arms, budget: Budget, **common: Unpack[Common]) -> None:
        super().__init__(domain, arms, budget, **common)
        self._sources: dict[str, Stream[P, S]] = {}

    # What a learner says.

    @abstractmethod
    def source_batch(self, name: str) -> int:
        """How many reports lie between the present policy of a source and the next."""

    def _empty_source(self) -> S:
        """The statistics of no report of a source."""
        return self._empty()

    @abstractmethod
    def _publish_source(self, source: Stream[P, S]) -> P:
        """The next policy of a source, from `source_header(source)`."""

    @abstractmethod
    def _source_statistics(self, policy: P, reports: R) -> S:
        """The sums of reports of a source; `InvalidInput` if `policy` cannot have made them."""

    # What follows for all.

    def source_header(self, source: Stream[P, S]) -> dict[str, Any]:
        """Keyword arguments that every policy of a source shares, with the next version."""
        return {
            **self.policy_header(),
            "stream": source.name,
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

    def _opened(self, name: str, epsilon: float) -> Stream[P, S]:
        budget = Local(check_source_epsilon(epsilon))
        identity = stream_id(self.identity, name)
        return Stream(name, identity, budget, SOURCE_RECORD, self._empty_source())

    def source(self, name: str) -> Stream[P, S]:
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

    def source_policy(self, name: str) -> P:
        """The current policy of a source; a new one once `source_batch` new reports have come."""
        with self.lock:
            source = self.source(name)
            if source.due(self.source_batch(name)):
                source.publish(self._publish_source(source))
            return source.policies[-1]

    def recall_source(self, name: str, policy: P) -> None:
        """As `recall`, for the next policy of a source."""
        source = self.source(name)
        facts = self.source_header(source)
        source.recall(policy, published_kind(type(self)), lambda _: facts)

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
            self._check_reports(policy, reports)

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

    def _source_of(self, reports: R) -> Stream[P, S]:
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

    def _restored(self, name: str, fields: dict[str, Any]) -> Stream[P, S]:
        source = self._opened(name, fields["epsilon"])
        facts = self.source_header(source)
        source.restore(fields, published_kind(type(self)), lambda policy: facts)
        return source


def check_source_name(name: object) -> str:
    """The name of a source: of a stream, and not that of the target."""
    if check_stream_name(name) == TARGET_NAME:
        raise InvalidInput(f"a source was called {name!r}, as the target is; give it another name.")
    return str(name)
