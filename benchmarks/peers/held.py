"""What the noise of others' programs holds: derived from the noise that they draw.

Neighbours differ in one whole person (replace-one). A Gaussian release whose rows move by at most s
(in units where its noise has deviation 1) is s-GDP, and `gaussian_epsilon(1 / s, delta)` is the
exact epsilon at that delta (Balle and Wang 2018). In every program a symmetric matrix has noise of
the same deviation sigma in each entry that is not forced, or sigma / sqrt 2 off the diagonal.
"""

from __future__ import annotations

import math

from discreet.privacy.accounting import gaussian_epsilon

NOTHING = math.inf


def half_space(epsilon: float) -> float:
    """Han et al. (2021): a direction in the half space of the gradient, or in the other one.

    The density of a report is c e^epsilon / (1 + e^epsilon) or c / (1 + e^epsilon), whatever the
    gradient is: pure epsilon, as claimed.
    """
    return epsilon


def noisy_row(epsilon: float) -> float:
    """Chowdhury and Zhou (2022), local: (x x' + N, x r + n) at delta .1, |x|^2 = 2, r in {0, 1}.

    Noise has deviation sigma = sqrt(ln(2.5 / delta)) / epsilon, and N is symmetric with sigma^2 / 2
    off the diagonal, so the matrix moves by |x x' - z z'|^2 = 8 - 2 (x'z)^2 (Frobenius), and the
    vector by at most 4 - 2 x'z where both rewards are 1. Points have a last column of 1 and the
    rest on the unit sphere, so x'z >= 0, and together they move by sqrt 12 at x'z = 0.
    """
    sigma = math.sqrt(math.log(2.5 / 0.1)) / epsilon
    return gaussian_epsilon(sigma / math.sqrt(12.0), 0.1)


def repeated_noise(epsilon: float) -> float:
    """Chowdhury and Zhou (2022), joint: nothing that can be derived.

    Their program draws ln T + 1 noise matrices once and adds the first ln(1 + t) + 1 of them to the
    exact sums at time t. Between two t with equally many the difference of what is published is
    exact: one person's own row. (A tree would add other nodes.)
    """
    return NOTHING


def noisy_features(epsilon: float) -> float:
    """Zheng et al. (2020): (x x' + B, x y + b) at delta .1, |x| <= 1, |y| <= 1.

    Noise has deviation sigma = 4 sqrt(ln(1.25 / delta)) / epsilon in each entry on or above the
    diagonal. In the basis in which x x' - z z' is diagonal these entries move by 2 - 2 k^2 with
    k = x'z, and the vector by 2 - 2 k: 4.5 at k = -1/2.
    """
    sigma = 4.0 * math.sqrt(math.log(1.25 / 0.1)) / epsilon
    return gaussian_epsilon(sigma / math.sqrt(4.5), 0.1)


def trees_and_fits(epsilon: float) -> float:
    """Sarmasarkar et al. (2026): two trees of matrices and two series of fits, at delta .02.

    Each of the four takes epsilon / 3 and delta / 3 (their sum is 4 / 3 of what is claimed). The
    trees calibrate rho by epsilon / 3 = rho + 2 sqrt(rho ln(3 / delta)) for matrices that move by
    1 and 1 / kappa*; replacing a person moves x x' by sqrt 2, and the second one, which is divided
    by e, by sqrt 2 / e. So the trees are GDP with s^2 = 2 rho (2 + 2 / e^2). The fits (DP-SGD)
    hold what their accountant says, epsilon / 3 and delta / 3 each; all delta / 3 is left to the
    trees.
    """
    part, delta = epsilon / 3.0, 0.02 / 3.0
    log = math.log(1.0 / delta)
    rho = (math.sqrt(log + part) - math.sqrt(log)) ** 2
    moved = math.sqrt(2.0 * rho * (2.0 + 2.0 / math.e**2))
    return gaussian_epsilon(1.0 / moved, delta) + 2.0 * part
