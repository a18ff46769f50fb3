"""Reports of a place and a sign: what the partition learner and the kernel bandit have in common.

What is private of a person is brought to one of G *places* (a bin, a cell of contexts, or a cell of
contexts and arms together) and a sign, that of the reward after randomised rounding. One of these
2G values is hidden by signed subset selection (privacy/frequency.py), of which 2G-ary randomised
response is the case of one place a report.

*Claim.* For any two people with contexts in the domain, arms and rewards in their bounds, and the
same public coin, which was drawn without looking at them, no report is more than e^epsilon times as
likely from one as from the other: the mechanism sees one of 2G values and reaches e^epsilon.
What it does not cover: public coins drawn again until arm or question pleases, a second report (it
costs a second epsilon), actions that others can watch (the public coin tells which places fit an
arm), and
silence: a person who refuses to report because of their data reveals something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.messages import PUBLIC_COINS, Reports
from discreet.learners.policy import Policy
from discreet.privacy import NoiseSource, Release
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import CoinArray, IntArray, InvalidInput, SignArray


@dataclass(frozen=True, eq=False)
class SignedReports(Reports):
    """Reports of n people: m places of the policy that made them, with a sign each.

    Attributes:
        public_coins: (n,) public coins, or numbers of public questions; two people may draw the
            same one.
        places: (n, m) reported places, increasing in each row.
        signs: (n, m) their signs, -1 or +1.
    """

    kind: ClassVar[str] = "signed-reports"

    public_coins: Annotated[CoinArray, Shape("n"), Range(0, PUBLIC_COINS - 1)]
    places: Annotated[IntArray, Shape("n", "m")]
    signs: Annotated[SignArray, Shape("n", "m"), Range(-1, 1)]

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True)
class SignedReporter:
    """How a policy hides places and signs.

    Attributes:
        mechanism: of one report.
        name: of the mechanism, in certificates.
        data: what of a person is hidden among the values.
        place_name: what messages call a place.
        public_coins: how many numbers a report's public coin may have.
    """

    mechanism: SignedSubsetSelection
    name: str
    data: str
    place_name: str
    public_coins: int = PUBLIC_COINS

    def hidden(
        self,
        policy: Policy[Any],
        places: IntArray,
        signs: SignArray,
        public_coins: CoinArray,
        noise: NoiseSource,
    ) -> SignedReports:
        """Reports of people with these places and signs (n,)."""
        reported, shown = self.mechanism.privatise(places, signs, noise)
        origin = policy.origin(noise.name)
        return SignedReports(**origin, public_coins=public_coins, places=reported, signs=shown)

    def release(self, policy: Policy[Any], noise: str) -> Release:
        """The record of one report."""
        mechanism = self.mechanism
        return Release(
            mechanism=self.name,
            event=policy.event(mechanism.epsilon),
            sensitivity=1.0,
            sensitivity_source=f"any two of the {2 * mechanism.bins} values ({self.place_name}, "
            "sign) are neighbours",
            scale=mechanism.epsilon,
            people=policy.group,
            data=self.data,
            noise=noise,
        )

    def check(self, policy: Policy[Any], reports: SignedReports) -> None:
        """Refuse reports that no person makes under this policy."""
        places, mechanism = reports.places, self.mechanism
        if places.shape != (len(reports), mechanism.size) or len(reports) == 0:
            raise InvalidInput(
                f"reports had places of shape {places.shape}; under {policy.title} the shape is "
                f"(people, {mechanism.size}), with at least one person."
            )
        inside = ((places >= 0) & (places < mechanism.bins)).all()
        if not inside or (np.diff(places, axis=1) <= 0).any():
            raise InvalidInput(
                f"reports had {self.place_name}s outside 0 .. {mechanism.bins - 1} or not "
                f"increasing; under {policy.title} each names {mechanism.size} of them in order."
            )
        if not (np.abs(reports.signs) == 1).all():
            raise InvalidInput("reports had signs other than -1 and +1; a sign says up or down.")
        if not (reports.public_coins < self.public_coins).all():
            raise InvalidInput(
                f"reports had questions outside 0 .. {self.public_coins - 1}, those of "
                f"{policy.title}; send them as the policy made them."
            )
