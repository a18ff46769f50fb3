"""Discounting: with a half-life, old reports weigh less than new ones.

With a half-life of h people, a report has the weight w = 2^(-a / h) after a more people
(discounted sums: Garivier and Moulines 2011; Russac, Vernade and Cappe 2019). Sums are discounted
when a policy is published, by the number of reports since the previous one (`Stream.discount`);
in between reports add in any order. Merged statistics have weight 1 at the time of the merge.

Discounting is post-processing of private reports or of releases that each person enters once, so
no guarantee changes.

**Effective sample size.** With n reports of variance s^2 each, a weighted mean has the variance
s^2 sum w^2 / (sum w)^2, which is that of (sum w)^2 / sum w^2 reports. For t reports that arrive one
by one this exceeds sum w by the factor

    sum w / sum w^2 = 2 / (1 + 2^(-t / h)),

which grows from 1 to 2 (`effective_sample_factor`). Priors are not discounted: without new reports
posteriors return to them. Reports of auxiliary sources are discounted by the target's people,
without that factor: all of them are equally old, and their noise counts as grown by 1 / w.
"""

from __future__ import annotations

import math

from discreet.validation import InvalidInput, positive_number

# With fewer people reports are discounted before they matter; more are never counted.
LEAST_HALF_LIFE, MOST_HALF_LIFE = 10.0, 2.0**53


def check_half_life(half_life: object) -> float | None:
    """The option `half_life`, in people; None without discounting.

    Raises:
        InvalidInput: for another value than None or a number from 10 to 2^53.
    """
    if half_life is None:
        return None
    people = positive_number(half_life, "half_life")
    if not LEAST_HALF_LIFE <= people <= MOST_HALF_LIFE:
        raise InvalidInput(
            f"half_life was {people:g}; it must be a number of people from {LEAST_HALF_LIFE:g} to "
            f"{MOST_HALF_LIFE:g}. Leave it out if rewards do not change over time."
        )
    return people


def discount_factor(half_life: float | None, people: float) -> float:
    """The weight of a report after this many more people."""
    return 1.0 if half_life is None else 0.5 ** (people / half_life)


def effective_sample_factor(half_life: float | None, people: float) -> float:
    """Effective sample size over sum w, for this many people (see the module)."""
    return 2.0 / (1.0 + discount_factor(half_life, people))


def longest(half_life: float | None, people: int, share: float = 0.05) -> int:
    """The number of people a policy serves: at most `people` and at most a share of a half-life,
    because its reports age until the next policy."""
    return people if half_life is None else min(people, max(1, int(share * half_life)))


def portion(people: int, share: float) -> int:
    """The next batch: a share of the people, and beyond 2,000 more by the root of their number."""
    return int(people * share * math.sqrt(min(max(1.0, people / 2000), 40.0)))
