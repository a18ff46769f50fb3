"""A stream of people who report: policies, sums, releases, contributions and what people are
promised.

The target of a learner is one stream, and each auxiliary source is another. A learner decides what
the next policy of a stream is; that reports find the policy that made them, that sums add, and that
the guarantee follows from everything that was ever published, is the same for all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from discreet.codec import from_json, short_id, to_json
from discreet.learners.contributions import ContributionLedger, read_ids
from discreet.learners.messages import Reports, Statistics
from discreet.learners.policy import TARGET_NAME, Policy, Terms
from discreet.people.domain import ActionSpace, Arms, Box, RewardBounds
from discreet.privacy import Adjacency, Budget, Guarantee, Release, derive_guarantee
from discreet.privacy.noise import check_noise_name, check_protection
from discreet.validation import BoolArray, InvalidInput, whole_number

P = TypeVar("P", bound=Policy[Any])
S = TypeVar("S", bound=Statistics)

_LOG = logging.getLogger(__name__)


@dataclass
class Stream(Generic[P, S]):
    """Policies and sums of one stream.

    Attributes:
        name: `target`, or that of a source.
        stream_id: by which reports find it (`Policy.stream_id`).
        budget: what one person may pay.
        record: what one person's record is.
        domain, arms, reward_bounds: what its people agree to, beside the budget.
        _sums: of all reports so far; secret under central privacy.
        drawn: the records of what the learner drew; None where each policy says what its reports
            cost.
        policies: all that were published, in order.
        published_at: how many people had reported when the last policy was published.
        _contributions: contributions by person, under central privacy with ids; secret.
    """

    name: str
    stream_id: str
    budget: Budget
    record: Adjacency
    domain: Box
    arms: ActionSpace | Arms
    reward_bounds: RewardBounds
    _sums: S = field(repr=False)
    drawn: Callable[[], list[Release]] | None = field(default=None, repr=False)
    policies: list[P] = field(default_factory=list)
    published_at: int = 0
    _contributions: ContributionLedger = field(default_factory=ContributionLedger, repr=False)

    def __post_init__(self) -> None:
        self._sums = self.marked(self._sums)

    def terms(self) -> Terms:
        """What its people agree to."""
        budget = self.budget
        return Terms(
            self.domain,
            self.arms,
            budget.epsilon,
            self.reward_bounds,
            budget.delta,
            budget.max_contributions,
            budget.group,
            budget.honest,
        )

    @property
    def people(self) -> int:
        """How many reports there were, one for each contribution."""
        return self._sums.reports

    @property
    def epsilon(self) -> float | None:
        """The epsilon of one report; None without a promise."""
        return self.budget.contribution_epsilon if self.budget.private else None

    def marked(self, sums: S, **changes: Any) -> S:
        """The sums as those of this stream, at the epsilon of its reports."""
        return replace(sums, source=self.stream_id, epsilon=self.epsilon, **changes)

    def due(self, batch: int) -> bool:
        """Whether the next policy is due, which is so after `batch` new reports."""
        return not self.policies or self.people - self.published_at >= batch

    def check_groups(self, reports: int) -> None:
        """Refuse reports that are not whole groups of a shuffler."""
        if reports % self.budget.group:
            raise InvalidInput(
                f"{reports} reports came to {self.title}, whose people trust a shuffler to pass on "
                f"groups of {self.budget.group}; pass whole groups, as Shuffler.add returns them."
            )

    def publish(self, policy: P) -> None:
        """The next policy, decided on all sums so far."""
        self.policies.append(policy)
        self.published_at = self.people
        self._log(policy)

    def _log(self, policy: P) -> None:
        """Say that a policy was published, and how reports under it will be protected."""
        what = policy.kind, policy.version, short_id(self.stream_id)
        _LOG.info("published %s %d of %s, after %d reports", *what, self.people)
        if not (self.budget.is_local and _LOG.isEnabledFor(logging.DEBUG)):
            return
        for release in filter(None, map(policy.release, self._sums.noise)):
            _LOG.debug(
                "reports under %s %d of %s: %s, scale %g, noise %s",
                *(*what, release.mechanism, release.scale, release.noise),
            )

    def discount(self, share: float) -> None:
        """People so far count `share` of what they did (discounting.py)."""
        if share < 1.0:
            self._sums = self._sums.discounted(share)

    def published(self, version: int) -> P:
        """The policy of that version; `InvalidInput` if there was none."""
        if whole_number(version, "version") >= len(self.policies):
            raise InvalidInput(
                f"the reports name policy version {version}, but {len(self.policies)} versions "
                f"were published of {self.title}, counted from 0; send reports to the learner "
                "whose policy made them."
            )
        return self.policies[version]

    @property
    def title(self) -> str:
        """What messages call it."""
        return "the target" if self.name == TARGET_NAME else f"source {self.name!r}"

    @contextmanager
    def refusing(self, given: object) -> Iterator[None]:
        """Log how many reports are refused; what is wrong with them stays in the exception."""
        try:
            yield
        except InvalidInput:
            refused = _reports_in(given), self.title, short_id(self.stream_id)
            _LOG.warning("refused %d reports to %s of %s", *refused)
            raise

    def check_noise(self, names: Sequence[object]) -> None:
        """Refuse noise sources that do not exist, or that cannot have made reports private."""
        for name in names:
            if self.budget.is_local:
                check_protection(name)
            else:
                check_noise_name(name)

    def check_unnamed(self, what: str) -> None:
        """Refuse reports without the ids of who made them where contributions are counted by
        these."""
        if self.budget.is_central and (
            self.budget.max_contributions > 1 or self._contributions.came
        ):
            raise InvalidInput(
                f"{what} came without people; under {self.budget!r} contributions are counted"
                f"{' since the first report' if self._contributions.came else ''}: pass "
                "update(reports, people) with an id for each report."
            )

    def contributions(self, people: Any, sizes: Sequence[int]) -> tuple[list[str], list[BoolArray]]:
        """Who came, and which contributions of each batch are beyond those that the budget covers.

        Args:
            people: for each batch the ids of its people.
            sizes: of the batches.

        Raises:
            InvalidInput: for ids under local privacy, of some reports only, or malformed ones.
        """
        if not self.budget.is_central or self.budget.protects == "contribution":
            raise InvalidInput(
                f"people was given, but under {self.budget!r} a learner takes no ids of people; "
                "leave people out."
            )
        if self._contributions.came != self.people:
            raise InvalidInput(
                f"people was given, but the {self.people} earlier reports were added without ids; "
                "pass people with every update or with none."
            )
        if not isinstance(people, Sequence) or len(people) != len(sizes):
            raise InvalidInput(
                f"people was {people!r:.80} for {len(sizes)} batches of reports; give a list with "
                "the ids of each batch."
            )
        came = [read_ids(ids, size) for ids, size in zip(people, sizes, strict=True)]
        ids = [person for batch in came for person in batch]
        beyond = self._contributions.beyond(ids, self.budget.max_contributions)
        return ids, np.split(beyond, np.cumsum(sizes)[:-1])

    def releases(self) -> list[Release]:
        """The record of every release so far, under every noise source seen."""
        if self.drawn is not None:
            return self.drawn()
        names = self._sums.noise or ("no report yet",)
        releases = [policy.release(name) for policy in self.policies for name in names]
        return [release for release in releases if release is not None]

    def guarantee(self) -> Guarantee:
        """What one of its people is promised so far, derived from `releases`."""
        return derive_guarantee(
            self.releases(), self.budget.trust_model, self.record, self.budget.delta
        )

    def check_released(self, released: int) -> None:
        """Refuse a saved state that would release anyone twice.

        Everyone counted at the last publication has been released; no one outside the sums has.
        """
        if not self.published_at <= released <= self.people:
            raise InvalidInput(
                f"{self.title} released {released} people, but published its last policy from "
                f"{self.published_at}, and {self.people} reported; load a file as save() wrote it."
            )

    def saved(self) -> dict[str, Any]:
        """Policies, sums and contributions as JSON values."""
        named = (
            {"contributions": self._contributions.to_fields()} if self._contributions.came else {}
        )
        return {
            **named,
            **({} if self.name == TARGET_NAME else {"epsilon": self.budget.epsilon}),
            "policies": [to_json(policy) for policy in self.policies],
            "sums": to_json(self._sums),
            "published_at": self.published_at,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """The inverse of `saved`; the checksum of its file shows that nothing was changed.

        Raises:
            InvalidInput: where contributions are counted by person, and not all are: a person
                could then enter more releases than the budget covers.
        """
        policies: tuple[Any, ...] = from_json(saved["policies"], tuple[Policy, ...], "policies")  # type: ignore[type-arg]
        sums = from_json(saved["sums"], type(self._sums), "sums")
        # A server that is restored from a backup has a new identity, and the same sums.
        self._sums = self.marked(sums)
        for policy in policies:
            self._check_agrees(policy)
        self.check_groups(sums.reports)
        self.policies = list(policies)
        self.published_at = whole_number(saved["published_at"], "published_at")
        self._contributions = ContributionLedger.from_fields(saved.get("contributions", []))
        counts = self._contributions.came or (
            self.budget.is_central and self.budget.max_contributions > 1
        )
        if counts and self._contributions.came != sums.reports:
            raise InvalidInput(
                f"{self.title} had {sums.reports} reports, of which it is known who made "
                f"{self._contributions.came}; load a file as save() wrote it."
            )

    def _check_agrees(self, policy: P) -> None:
        """Refuse a policy whose certificate would count on other groups or contributions."""
        for name in ("group", "honest", "max_contributions"):
            offered = getattr(policy, "group_size" if name == "group" else name)
            if offered != getattr(self.budget, name):
                raise InvalidInput(
                    f"{policy.title} had {name} {offered}, but the budget of {self.title} is "
                    f"{self.budget!r}; take policies as this learner published them."
                )

    def register_policy(self, policy: P) -> None:
        """Add the next policy as it was published elsewhere; `InvalidInput` for another one."""
        self._check_agrees(policy)
        version = len(self.policies)
        if (policy.stream_id, policy.version) != (self.stream_id, version):
            raise InvalidInput(
                f"policy {policy.version} of {policy.stream_id!r:.120} stood as policy {version} "
                f"of {self.stream_id!r}; load a file as save() wrote it."
            )
        self.policies.append(policy)


def _reports_in(given: object) -> int:
    """How many reports there are in a batch, in several, or in statistics; 0 in anything else."""
    if isinstance(given, Statistics):
        return given.reports
    if isinstance(given, Reports):
        return len(given)
    batches = given if isinstance(given, Sequence) and not isinstance(given, str) else ()
    return sum(len(batch) for batch in batches if isinstance(batch, Reports))
