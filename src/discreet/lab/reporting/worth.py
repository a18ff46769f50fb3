"""Upper bounds on the information in private data, as an equivalent number of people.

Noise bounds what can be learnt, whatever a learner does with what it gets. Let theta be what the
rewards of an arm depend on, and I(n) what n people tell about it without privacy (Fisher
information, n times that of one). What n people tell through noise is worth m people if it is no
more than I(m): no learner does better than with m people whose data it sees. Contexts that are
hidden as well, and questions that did not help, leave less.

*Local.* A report is a channel K from a person's data, and what data tell about theta shrinks in a
channel by its chi^2-contraction coefficient at most, which is the largest that two of its inputs
reach (Ordentlich and Polyanskiy, "Strong data processing constant is achieved by binary inputs"):
with densities p and q, sup over b of

    b (1 - b) int (p - q)^2 / (b p + (1 - b) q)  =  int p + q - w - p q / w,  w = b p + (1 - b) q.

Any two inputs of a private report are a processing of a worst pair, which can only lower this:
randomised response for a pure report (Kairouz, Oh and Viswanath 2017), N(0, 1) and N(mu, 1) for a
Gaussian one (Dong, Roth and Su 2022). The right side is concave in b, and both pairs are symmetric,
so the supremum is at b = 1/2, the mean of tanh^2(L / 2) with L the log of p / q:

    pure       tanh^2(epsilon / 2)
    Gaussian   E tanh^2(mu X / 2),  X ~ N(mu / 2, 1),  mu = 1 / noise multiplier

*Joint.* Rewards of n people enter Gaussian releases C r + z, where replacing one person's reward by
another moves C r by 1 at least where its noise has the deviation m, the noise multiplier. Of all
such C a single sum tells most about a mean of normal rewards: n^2 / (n v + m^2), with v <= 1/4 the
variance of a reward in [0, 1]; without noise n / v. The ratio grows with v, so n / (1 + 4 m^2 / n)
people. Rewards of 0 and 1 tell a little more, because little noise leaves steps that can be seen:
of a single person E tanh^2 as above, with mu = 1 / m, not 1 / (1 + 4 m^2). So noise counts as the
normal noise that leaves of one person as much,

    n / (1 + a / n) people,  a = 1 / E tanh^2(mu X / 2) - 1 <= 4 m^2,

which is exact for one person, and at most a fifth of a person above the other. That it bounds
what sums of such rewards tell is not proved for n > 1; a test works these out.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.privacy.accounting import Event, PureEvent
from discreet.validation import number_from, positive_number

# The grid for the mean over X: half-width in deviations, and number of steps. The sum is exact to
# rounding: tanh^2 is smooth over a step wherever it is not 1.
_FAR, _STEPS = 12.0, 4_000
# From so large a mu on the mean is 1 to rounding.
_LARGEST = 1e3
_VARIANCE = 0.25  # at most, of a reward in [0, 1]
# Of less, 1 / share is lost in rounding, and normal noise is what it is.
_LEAST = 1e-6


def worth_of_reports(event: Event, people: float) -> float:
    """At most how many people without privacy tell as much as reports of `people`.

    Args:
        event: what one report costs, as its release records it.
        people: how many report, one report each; at least 0.
    """
    count = number_from(people, "people", 0.0)
    if isinstance(event, PureEvent):
        return count * math.tanh(event.epsilon / 2.0) ** 2
    return count * _gaussian_share(event.noise_multiplier)


def _gaussian_share(noise_multiplier: float) -> float:
    """E tanh^2(mu X / 2) of the module."""
    mu = min(1.0 / noise_multiplier, _LARGEST)
    nodes = np.linspace(-_FAR, _FAR, _STEPS + 1)
    weights = np.exp(-0.5 * nodes**2)
    squares = np.tanh(mu * (nodes + mu / 2.0) / 2.0) ** 2
    return float(weights @ squares / weights.sum())


def worth_of_sums(noise_multiplier: float, people: float) -> float:
    """At most how many people without privacy tell as much as Gaussian releases about `people`.

    Args:
        noise_multiplier: the deviation of the noise over the sensitivity to one contribution, above
            0.
        people: how many enter the releases; at least 0.
    """
    count = number_from(people, "people", 0.0)
    multiplier = positive_number(noise_multiplier, "noise_multiplier")
    share = _gaussian_share(multiplier)
    noise = multiplier**2 / _VARIANCE if share < _LEAST else 1.0 / share - 1.0
    return count * count / (count + noise)


def difference_that_shows(people: float) -> float:
    """The difference of two arms' mean rewards that is two standard errors wide.

    Args:
        people: how many people without privacy each arm has, above 0.

    Returns:
        The difference for rewards in [0, 1], 1 at most: 2 sqrt(2 v / people), v = 1/4.
    """
    return min(1.0, 2.0 * math.sqrt(2.0 * _VARIANCE / number_from(people, "people", 1e-300)))
