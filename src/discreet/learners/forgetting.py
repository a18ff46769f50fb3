"""Forgetting: where rewards change over time, what people reported counts less with time.

With a half-life of h people, what somebody reported counts w = 2^(-a / h) after a more people
(discounted sums: Garivier and Moulines 2011; Russac, Vernade and Cappe 2019). Sums fade when a
policy is published, by the people who came since the one before (`Stream.fade`), and what is added
between two policies adds as ever: in any order, one by one, in batches or summed elsewhere.
Whatever is merged counts as new when it is merged, and what was said earlier fades from then on.

All of it is post-processing of private reports, or of releases: everybody is in one of them, as
before, so no promise changes.

**What faded sums say.** With n reports of variance s^2 each, a weighted mean has the variance
s^2 sum w^2 / (sum w)^2, so it tells as much as (sum w)^2 / sum w^2 reports do, and not sum w.
For people who come one by one until t came that is more by the factor

    sum w / sum w^2 = 2 / (1 + 2^(-t / h)),

1 at first and soon 2 (`sharpness`). Priors do not fade: where nothing new comes in, beliefs return
to them. What auxiliary sources reported fades with the target's people, without that factor: all
of it is as old, and is believed as if its noise had grown by 1 / w.
"""

from __future__ import annotations

from discreet.validation import InvalidInput, positive_number

# As few people as that tell nothing before they are forgotten.
LEAST_HALF_LIFE = 10.0


def half_life(drift: object) -> float | None:
    """The option `drift`, in people; None for rewards that stay as they are.

    Raises:
        InvalidInput: for another value than None or a number of at least 10.
    """
    if drift is None:
        return None
    people = positive_number(drift, "drift")
    if people < LEAST_HALF_LIFE:
        raise InvalidInput(
            f"drift was {people:g}; it is after how many people a report counts half, at least "
            f"{LEAST_HALF_LIFE:g}. Leave it out where rewards stay as they are."
        )
    return people


def kept(drift: float | None, people: float) -> float:
    """What a report counts after so many more people."""
    return 1.0 if drift is None else 0.5 ** (people / drift)


def sharpness(drift: float | None, people: float) -> float:
    """How much more than sum w reports the reports of so many people say (see the module)."""
    return 2.0 / (1.0 + kept(drift, people))


def longest(drift: float | None, people: int, share: float = 0.05) -> int:
    """How many people a policy is for: `people`, or at most a share of a half-life, because a
    policy is as old as its first reports when the next one comes."""
    return people if drift is None else min(people, max(1, int(share * drift)))
