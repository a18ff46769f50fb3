"""What an attack proves where the promise is one of Gaussian differential privacy.

A release with certificate mu is mu-GDP: no test of size a has more power than that of N(0, 1)
against N(mu, 1) (Dong, Roth and Su 2022, Definition 4). So for every test

    Phi^-1(TPR) - Phi^-1(FPR) <= mu,

and counts of guesses bound mu from below; (epsilon, delta) follow as for the certificate (Nasr et
al. 2023, "Tight auditing", section 5). Unlike the bound on counts alone this needs no rare events:
a test that errs in one case of five says as much as one that errs once in a million. It refutes a
promise of Gaussian DP, and it bounds (epsilon, delta) itself where the mechanism is Gaussian noise.
"""

from __future__ import annotations

from discreet.audit.lower_bound import Attack, rate_bounds
from discreet.privacy.accounting import GaussianEvent, composed_epsilon
from discreet.validation import probability


def empirical_mu(counted: Attack) -> float:
    """The mu below which the mechanism cannot be Gaussian-DP, with the attack's confidence.

    Args:
        counted: guesses on trials that the threshold was not chosen on.

    Returns:
        At least 0.
    """
    from scipy.special import ndtri

    failure = 0.5 * (1.0 - probability(counted.confidence, "confidence"))
    least_right, _ = rate_bounds(counted.true_positives, counted.trials, failure)
    _, most_wrong = rate_bounds(counted.false_positives, counted.trials, failure)
    if least_right <= 0.0 or most_wrong >= 1.0:
        return 0.0
    return max(0.0, float(ndtri(least_right) - ndtri(most_wrong)))


def gaussian_lower_bound(counted: Attack) -> float:
    """The epsilon, at the attack's delta, of `empirical_mu`."""
    mu = empirical_mu(counted)
    return 0.0 if mu == 0.0 else composed_epsilon([GaussianEvent(1.0 / mu)], counted.delta)
