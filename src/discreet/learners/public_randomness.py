"""Public randomness from a seed and tickets, the same on every machine.

A ticket is drawn before anyone looks at the person. Whatever it decides (the arm offered in each
bin) can be worked out again by the learner, so it need not be reported and costs no privacy.
"""

from __future__ import annotations

import numpy as np

from discreet.validation import FloatArray, IntArray, TicketArray

# Tickets are below this: JSON readers in browsers hold whole numbers exactly up to here.
TICKETS = 2**53

_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: TicketArray) -> TicketArray:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014): a bijection of words."""
    mixed = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: TicketArray = mixed ^ (mixed >> np.uint64(31))
    return result


def public_uniforms(seed: int, version: int, tickets: TicketArray, places: IntArray) -> FloatArray:
    """Uniform numbers in [0, 1) that depend on seed, policy version, ticket and place.

    Args:
        seed: the learner's public seed.
        version: the policy's version.
        tickets: any shape that broadcasts with `places`.
        places: where the number is used, such as the node of a bin.
    """
    key = _mix(np.asarray([seed], dtype=np.uint64) * _STEP + np.uint64(version) + _STEP)
    word = _mix(_mix(tickets + key) + places.astype(np.uint64) * _STEP)
    uniforms: FloatArray = (word >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniforms
