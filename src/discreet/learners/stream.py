"""A stream of people who report once each: policies, sums, releases and what they are promised.

The target of a learner is one stream, and each auxiliary source is another. A learner decides what
the next policy of a stream is; that reports find the policy that made them, that sums add, and that
the guarantee follows from everything that was ever published, is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from discreet.codec import from_json, to_json
from discreet.learners.messages import Reports, Statistics
from discreet.learners.terms import Offer
from discreet.privacy import Adjacency, Budget, Guarantee, Release, derive_guarantee
from discreet.privacy.noise import check_noise_name, check_protection
from discreet.validation import InvalidInput, whole_number

P = TypeVar("P", bound=Offer)
S = TypeVar("S", bound=Statistics)

# How files, feeders and messages call the stream whose actions the learner chooses.
TARGET_NAME = "target"
_DAMAGED = "The file is damaged; load one as save() wrote it."


@dataclass
class Stream(Generic[P, S]):
    """Policies and sums of one stream.

    Attributes:
        name: `target`, or that of a source.
        stream_id: by which reports find it (`Offer.stream_id`).
        budget: what one person may pay.
        record: what one person's record is.
        sums: of all reports so far.
        policies: all that were published, in order.
        published_at: how many people had reported when the last policy was published.
    """

    name: str
    stream_id: str
    budget: Budget
    record: Adjacency
    sums: S = field(repr=False)
    policies: list[P] = field(default_factory=list)
    published_at: int = 0

    @property
    def people(self) -> int:
        """How many people have reported."""
        return self.sums.reports

    def due(self, batch: int) -> bool:
        """Whether the next policy is due, which is so after `batch` new reports."""
        return not self.policies or self.people - self.published_at >= batch

    def publish(self, policy: P) -> None:
        """The next policy, decided on all sums so far."""
        self.policies.append(policy)
        self.published_at = self.people

    def fade(self, share: float) -> None:
        """People so far count `share` of what they did (forgetting.py)."""
        if share < 1.0:
            self.sums = self.sums.faded(share)

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

    def policy_of(self, reports: Reports) -> P:
        """The policy that made reports of this stream.

        Raises:
            InvalidInput: for a version that was never published, or a noise source that cannot
                have made them private.
        """
        policy = self.published(reports.policy_version)
        self.check_noise((reports.noise,))
        return policy

    def check_noise(self, names: Sequence[object]) -> None:
        """Refuse noise sources that do not exist, or that cannot have made reports private."""
        for name in names:
            if self.budget.protects_reports:
                check_protection(name)
            else:
                check_noise_name(name)

    def releases(self) -> list[Release]:
        """The record of every policy published so far, under every noise source seen."""
        names = self.sums.noise or ("no report yet",)
        releases = [policy.release(name) for policy in self.policies for name in names]
        return [release for release in releases if release is not None]

    def guarantee(self) -> Guarantee:
        """What one of its people is promised, where reports are private when they leave them."""
        return derive_guarantee(
            self.releases(), self.budget.trust_model, self.record, self.budget.delta
        )

    def check_released(self, released: int) -> None:
        """Refuse a saved state in which somebody would be released a second time, and promised
        nothing of it: whoever had reported when the last policy was published was released, and
        nobody was who is not in the sums, from which those released are taken."""
        if not self.published_at <= released <= self.people:
            raise InvalidInput(
                f"{self.title} released {released} people, but published its last policy from "
                f"{self.published_at}, and {self.people} reported; load a file as save() wrote it."
            )

    def saved(self) -> dict[str, Any]:
        """Policies and sums as JSON values."""
        return {
            "policies": [to_json(policy) for policy in self.policies],
            "sums": to_json(self.sums),
            "published_at": self.published_at,
        }

    def restore(self, saved: dict[str, Any], facts_of: Callable[[P], Mapping[str, Any]]) -> None:
        """The inverse of `saved`.

        Guarantees are derived from the policies that a file holds, so a file whose policies are not
        those that its people reported under would promise them something else.

        Args:
            saved: what `saved` gave.
            facts_of: what a policy of this stream must have beside its version, by the names of
                its attributes.

        Raises:
            InvalidInput: for what this stream cannot have saved.
        """
        policies: tuple[Any, ...] = from_json(saved["policies"], tuple[Offer, ...], "policies")
        sums = from_json(saved["sums"], type(self.sums), "sums")
        published_at = whole_number(saved["published_at"], "published_at")
        self.check_noise(sums.noise)
        for version, policy in enumerate(policies):
            for fact, wanted in {**facts_of(policy), "version": version}.items():
                given = getattr(policy, fact)
                if given != wanted:
                    raise InvalidInput(
                        f"policy {policy.version} of {self.title} had {fact} {given!r:.80}; it "
                        f"must be {wanted!r:.80}, as its learner has it. {_DAMAGED}"
                    )
        self._check_counts(len(policies), published_at, sums)
        self.policies, self.sums, self.published_at = list(policies), sums, published_at

    def _check_counts(self, policies: int, published_at: int, sums: S) -> None:
        """People report under a policy and with noise, at least one between two policies."""
        people, before = sums.reports, max(policies - 1, 0)
        in_order = before <= published_at <= people and (before > 0 or published_at == 0)
        if not in_order or (people > 0) > (policies > 0) or (people > 0) != bool(sums.noise):
            raise InvalidInput(
                f"{self.title} had {people} people, {published_at} of them when the last of its "
                f"{policies} policies was published, and the noise sources {tuple(sums.noise)}; "
                "the first policy comes before anybody reports, each other one after more people, "
                f"and there is noise if and only if anybody reported. {_DAMAGED}"
            )
