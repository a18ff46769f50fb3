"""Contribution bounds: a person acts any number of times and reports at most
`Budget.max_contributions` times.

* **Local privacy: the person's own side counts.** A `ContributionCounter` beside the client makes
  the first reports and none afterwards. A server sees how many reports a person made, never who
  they are; whether a report is made depends only on how many were made before.
* **Joint privacy: the learner counts**, which is trusted and receives an id with each report
  (`update(reports, people)`). Its `ContributionLedger` is as secret as its sums. Contributions
  beyond the bound add rows of 0, so that the number of rows in a release is the number of
  contributions: who exceeded the bound is personal data too, and must not show in what is public.

Notes
-----
*Claim (joint).* Fix the rounds of one person's k contributions and everyone else's data. Replace
that person's contexts, actions and rewards by any others, and the id by an unused one; later ones
may depend on earlier releases. The joint law of releases, policies, other people's actions and
public counts changes by at most (epsilon, delta).

*Proof.* 1. Rows are numbered by rounds, and their number does not depend on ids: a contribution
beyond the k-th adds a row of 0. So two neighbours differ in at most k rows of the same numbers,
each by at most s, the sensitivity of one row.
2. Releases are C x + noise. If c_j of the k contributions fall into row j of the stream, the
outputs move by |C dx| <= sum_j |C_j| c_j s <= k s max_j |C_j|, reached where all k are in the row
with the largest column (a norm is convex in c, so its maximum is at a corner).
3. Given earlier outputs each release is a Gaussian mechanism, and mu^2 adds up to at most
(k s |C|)^2 on every path. Adaptive Gaussian mechanisms whose mu^2 never exceed B in total are
sqrt(B)-GDP (Smith and Thakurta 2022). With scale = k m s |C|, m the multiplier of
(epsilon, delta), the whole is (1 / m)-GDP.
4. An exponential mechanism on a secret sum (`usca` with `predictions`) costs k times as much for k
rows (group privacy), so each has epsilon / k.
5. Other people's actions are functions of releases, of their own contexts and public coins. The
actions of the person's own rounds are not covered.

*Claim (local).* Given all that was public before, the reports of a person in up to k rounds change
by at most (epsilon, delta) in law. *Proof.* Each report has randomness of its own. Gaussian
reports: mu^2 adds, so each has sqrt(k) times the noise. Pure reports: epsilon / k each, or at a
delta the optimal composition (Kairouz, Oh and Viswanath 2017, Theorem 3.3; `repeated_epsilon`).
Whether a person reports depends on how many reports they made before, which is public.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.codec import Range, from_json
from discreet.learners.messages import Reports
from discreet.learners.policy import Actions, Policy, Terms
from discreet.privacy import NoiseSource, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent
from discreet.validation import BoolArray, IntArray, InvalidInput, whole_number

_LONGEST = 200
# The least whole number that is longer; with a minus sign a tenth of it is.
_BEYOND = 10**_LONGEST
# Held while a device counts: of two threads that find one report left, one makes it.
_COUNTING = threading.Lock()
_SAVED: Any = Mapping[Annotated[str, Range(1, _LONGEST)], Annotated[int, Range(1)]]


def earlier_contributions(ids: ArrayLike) -> IntArray:
    """(n,) how many earlier ones of n contributions were by the same person."""
    _, people, counts = np.unique(np.asarray(ids), return_inverse=True, return_counts=True)
    order = np.argsort(people, kind="stable")
    first = np.repeat(np.cumsum(counts) - counts, counts)
    numbers = np.empty(len(people), dtype=np.int64)
    numbers[order] = np.arange(len(people)) - first
    return numbers


@dataclass
class ContributionLedger:
    """How often each person came to a learner that is trusted; SECRET.

    Attributes:
        counts: contributions by the id of a person, those beyond the bound included.
    """

    counts: dict[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.came = sum(self.counts.values())

    def beyond(self, ids: Sequence[str], covered: int) -> BoolArray:
        """(n,) which of n more contributions are beyond the `covered` ones of their person."""
        before = np.array([self.counts.get(person, 0) for person in ids], dtype=np.int64)
        # Not an array of texts, which would drop zeros at their end and take two people for one.
        return before + earlier_contributions(np.array(ids, dtype=object)) >= covered

    def add(self, ids: Sequence[str]) -> None:
        """Count more contributions."""
        for person in ids:
            self.counts[person] = self.counts.get(person, 0) + 1
        self.came += len(ids)

    def to_fields(self) -> list[list[Any]]:
        """JSON values for the file that says that it is secret."""
        return [[person, count] for person, count in self.counts.items()]

    @classmethod
    def from_fields(cls, saved: Any) -> Self:
        """The inverse of `to_fields`; `InvalidInput` for anything else."""
        read = from_json(saved, _SAVED, "contributions")
        return cls(dict(read))


def read_ids(people: Any, contributions: int) -> list[str]:
    """Ids of people as texts: whole numbers, or texts that are not empty, one for each
    contribution.

    Raises:
        InvalidInput: for ids that are missing, of another type, or not as many as there are
            contributions.
    """
    if isinstance(people, np.ndarray):
        people = people.tolist() if people.ndim == 1 else None
    if isinstance(people, str | bytes | Mapping) or not isinstance(people, Iterable):
        raise InvalidInput(
            f"people was {people!r:.80}; give one id, a text or a whole number, for each "
            "contribution."
        )
    ids = [_id(given, place) for place, given in enumerate(people)]
    if len(ids) != contributions:
        raise InvalidInput(
            f"people had {len(ids)} ids for {contributions} contributions; give one for each."
        )
    return ids


def _id(given: Any, place: int) -> str:
    # The number 7 and the text "7" are one person: taking two for one costs reports, never privacy.
    missing = given is None or (isinstance(given, float) and math.isnan(given))
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    # Python neither writes nor shows whole numbers of thousands of digits.
    long = whole and not -_BEYOND < 10 * int(given) < 10 * _BEYOND
    fits = isinstance(given, str) and given.strip() and len(given) <= _LONGEST
    if fits or (whole and not long):
        return str(given).strip()
    what = "missing" if missing or given == "" else "a longer number" if long else f"{given!r:.80}"
    raise InvalidInput(
        f"the id of contribution {place} (the first is 0) is {what}; an id is a whole number, or a "
        f"text, of 1 to {_LONGEST} characters."
    )


@dataclass
class ContributionCounter:
    """The reports of one person on their own device, under local privacy.

    It counts a report before it is drawn, so that an interruption never causes a second one; keep
    `made` with the person before a report is sent. There is one for each agreement: it counts
    reports to whatever learner, for one that calls itself another has no second budget.

    Reports of one kind, pure or Gaussian, are within the terms together if each is within its share
    of them. Of both kinds they would not be: with a delta, half of the pure ones and half of the
    Gaussian ones cost up to a fifth more than was agreed. So the kind of the first is that of all.

    Attributes:
        terms: what this side agreed to; `terms.max_contributions` reports and no more.
        made: how many were made.
        gaussian: whether these carry Gaussian noise; None before the first. Keep it with `made`
            where the terms have a delta.
    """

    terms: Terms
    made: int = 0
    gaussian: bool | None = None

    def __post_init__(self) -> None:
        self.made = whole_number(self.made, "made")
        if (
            self.left < self.terms.max_contributions
            and self.gaussian is None
            and self.terms.delta > 0.0
        ):
            raise InvalidInput(
                f"gaussian was None with made = {self.made}, but with delta = {self.terms.delta:g} "
                "all reports of a person must be of one kind; pass True if those that were made "
                "carry Gaussian noise, or False."
            )

    @property
    def left(self) -> int:
        """How many reports this person may still make."""
        return max(self.terms.max_contributions - self.made, 0)

    def report(
        self, policy: Policy[Any], contexts: Any, actions: Actions, rewards: Any, noise: NoiseSource
    ) -> Reports | None:
        """The report of one contribution (`Policy.report`); None for a contribution beyond those
        agreed to.

        Raises:
            InvalidInput: for actions of more than one contribution, reports of another kind than
                those before, and as `Policy.report`.
        """
        if not isinstance(actions, Actions) or len(actions) != 1:
            raise InvalidInput(
                "actions must be what act() returned for one contribution of one person."
            )
        with _COUNTING:
            if not self.left:
                return None
            self.gaussian = self._kind(policy)
            self.made += 1
        return policy.report(contexts, actions, rewards, noise, self.terms)

    def _kind(self, policy: Policy[Any]) -> bool:
        """Whether reports are Gaussian, `policy`'s included; `InvalidInput` for another kind."""
        # The kind is the same under every noise source, and this one needs no further package.
        release = policy.release(SimulatedNoise.name)
        gaussian = release is not None and isinstance(release.event, GaussianEvent)
        # Without a delta the terms refuse Gaussian reports.
        if self.terms.delta > 0.0 and self.gaussian not in (None, gaussian):
            kinds = ("pure", "Gaussian")
            raise InvalidInput(
                f"{policy.title} has {kinds[gaussian]} reports, but this side made {self.made} "
                f"{kinds[not gaussian]} ones; all must be of one kind, because of two kinds they "
                "cost more than was agreed. Do not report under it."
            )
        return gaussian
