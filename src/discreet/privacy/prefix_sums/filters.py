"""Coefficients of buffered Toeplitz factorisations, and how they were fitted.

With poles lambda_j of C(z) and zeros h_j that interlace, 1 > lambda_1 > h_1 > lambda_2 > .. > 0,

    C(z) = prod (1 - h_j z) / prod (1 - lambda_j z),   B(z) = 1 / ((1 - z) C(z)),

and partial fractions give, with p = (1, h_1, .., h_d) and every weight positive,

    c_0 = 1,  c_k = sum_j alpha_j lambda_j^(k-1),  alpha_j = prod_i (lambda_j - h_i) / prod_(i != j)
    (lambda_j - lambda_i);   b_k = sum_j r_j p_j^k,  r_j = prod_i (p_j - lambda_i) / prod_(i != j)
    (p_j - p_i)

(Dvijotham, McMahan, Pillutla, Steinke and Thakurta 2024, sections 4 and 5). Poles and zeros are
e^(-1 / span), where a span is how many rows a discounted sum looks back. `_LOG_SPANS` holds the
natural logs of the spans of lambda_1, h_1, lambda_2, h_2, .., found by `fit_log_spans`. Three
decimals cost less than a part in 10^5 of the variance.

| name            | shape          | meaning                    | symbol  |
|-----------------|----------------|----------------------------|---------|
| poles           | (buffers,)     | discounts of the encoder   | lambda  |
| encoder_weights | (buffers,)     |                            | alpha   |
| decoder_poles   | (buffers + 1,) | discounts of the decoder   | p       |
| decoder_weights | (buffers + 1,) |                            | r       |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from discreet.validation import FloatArray, freeze_arrays

_GRID_START, _GRID_STOP = 3, 24  # powers of 2
MOST_ROWS = 2**_GRID_STOP


@dataclass(frozen=True, eq=False)
class Filter:
    """One C and its B. Arrays are read-only; the module has their shapes.

    Attributes:
        poles: discounts of the encoder.
        encoder_weights: what each discounted sum adds to the next release.
        decoder_poles: discounts of the decoder, the first of them 1.
        decoder_weights: what each discounted sum of releases counts in the estimate.
    """

    poles: FloatArray
    encoder_weights: FloatArray
    decoder_poles: FloatArray
    decoder_weights: FloatArray

    def __post_init__(self) -> None:
        freeze_arrays(self)

    @classmethod
    def from_log_spans(cls, log_spans: FloatArray) -> Filter:
        """The filter of lambda_1, h_1, lambda_2, .. = exp(-1 / span), given ln(span), falling."""
        discounts = np.exp(-np.exp(-log_spans))
        poles, zeros = discounts[0::2], discounts[1::2]
        steps = np.concatenate([[1.0], zeros])
        return cls(poles, _residues(poles, zeros), steps, _residues(steps, poles))

    def encoder_energy(self, rows: int) -> float:
        """c_0^2 + .. + c_(rows-1)^2, in closed form; all terms are positive."""
        weights = self.encoder_weights
        return 1.0 + float(weights @ _geometric(self.poles, rows - 1) @ weights)

    def decoder_energy(self, rows: int) -> float:
        """b_0^2 + .. + b_(rows-1)^2, in closed form; all terms are positive."""
        weights = self.decoder_weights
        return float(weights @ _geometric(self.decoder_poles, rows) @ weights)

    def decoder_impulse(self, rows: int) -> FloatArray:
        """(rows,) b_0, b_1, .."""
        k = np.arange(rows)
        impulse = np.zeros(rows)
        for pole, weight in zip(self.decoder_poles, self.decoder_weights, strict=True):
            impulse += weight * pole**k
        return impulse


def _residues(at: FloatArray, zeros: FloatArray) -> FloatArray:
    """prod_i (at_j - zeros_i) / prod_(i != j) (at_j - at_i) for each j."""
    others = [np.delete(at, j) for j in range(len(at))]
    return np.array([np.prod(p - zeros) / np.prod(p - q) for p, q in zip(at, others, strict=True)])


def _geometric(poles: FloatArray, count: int) -> FloatArray:
    """(n, n) sums over k < count of (p_i p_j)^k."""
    # 1 - p_i p_j from the gaps 1 - p, because poles lie as near to 1 as 1e-7.
    gap = 1.0 - poles
    short = gap[:, None] + gap - gap[:, None] * gap
    still = short == 0.0
    sums: FloatArray = -np.expm1(count * np.log1p(-short)) / np.where(still, 1.0, short)
    return np.where(still, float(count), sums)


@lru_cache(maxsize=64)
def _on_grid(power: int, buffers: int) -> Filter:
    return Filter.from_log_spans(table_log_spans(power, buffers))


def fitted_filter(rows: int, buffers: int) -> Filter:
    """The filter fitted to the least power of 2 that is at least `rows` (and at least 8)."""
    return _on_grid(max((rows - 1).bit_length(), _GRID_START), buffers)


def table_log_spans(power: int, buffers: int) -> FloatArray:
    """(2 buffers,) what is in the table for 2^power rows."""
    line = _LOG_SPANS[buffers].strip().splitlines()[power - _GRID_START]
    return np.array([float(number) for number in line.split()])


def fit_log_spans(rows: int, buffers: int) -> FloatArray:
    """(2 buffers,) the spans that minimise the worst row's variance times |C|^2.

    Takes up to a minute, and may differ in the last digits between versions of SciPy. A saved
    stream needs the very C that it began with, so the table is used and must never be changed: new
    numbers would be a new mechanism.
    """
    from scipy.optimize import minimize

    def log_spans(log_steps: FloatArray) -> FloatArray:
        # The rates 1 / span are sums of positive steps, which keeps them in order.
        logs: FloatArray = -np.log(np.cumsum(np.exp(log_steps)))
        return logs

    def loss(log_steps: FloatArray) -> float:
        used = Filter.from_log_spans(log_spans(log_steps))
        energy = used.encoder_energy(rows) * used.decoder_energy(rows)
        return float(np.log(energy)) if np.isfinite(energy) and energy > 0.0 else 1e3

    guess = np.geomspace(0.3 / rows, 3.0, 2 * buffers)
    steps = np.log(np.diff(guess, prepend=0.0))
    for _ in range(2):
        for method in ("BFGS", "Nelder-Mead"):
            steps = minimize(loss, steps, method=method, options={"maxiter": 2000}).x
    return log_spans(steps)


# One line for each power of 2 from 8 to 16,777,216.
_LOG_SPANS: dict[int, str] = {
    2: """
        2.589 1.119 0.148 -0.718
        3.064 1.535 0.459 -0.534
        3.596 1.999 0.801 -0.340
        4.142 2.472 1.144 -0.154
        4.684 2.932 1.471 0.020
        5.216 3.373 1.779 0.180
        5.741 3.794 2.068 0.329
        6.271 4.209 2.348 0.472
        6.812 4.627 2.627 0.614
        7.363 5.052 2.911 0.757
        7.922 5.482 3.197 0.902
        8.485 5.916 3.486 1.047
        9.051 6.351 3.775 1.192
        9.618 6.786 4.065 1.338
        10.184 7.220 4.353 1.482
        10.749 7.652 4.641 1.627
        11.313 8.082 4.928 1.770
        11.875 8.511 5.213 1.913
        12.436 8.937 5.497 2.055
        12.996 9.363 5.781 2.197
        13.556 9.787 6.063 2.338
        14.114 10.210 6.345 2.479
    """,
    3: """
        3.063 1.647 0.782 0.121 -0.462 -1.066
        3.522 2.084 1.179 0.455 -0.209 -0.905
        4.020 2.554 1.598 0.800 0.044 -0.752
        4.544 3.040 2.017 1.130 0.274 -0.620
        5.109 3.562 2.460 1.473 0.509 -0.489
        5.694 4.103 2.918 1.824 0.747 -0.359
        6.287 4.649 3.378 2.174 0.984 -0.232
        6.880 5.191 3.832 2.519 1.215 -0.110
        7.470 5.725 4.276 2.855 1.440 0.007
        8.053 6.248 4.706 3.179 1.657 0.119
        8.631 6.757 5.123 3.493 1.866 0.227
        9.205 7.256 5.528 3.798 2.069 0.331
        9.781 7.751 5.927 4.097 2.269 0.433
        10.362 8.246 6.325 4.396 2.469 0.534
        10.949 8.745 6.725 4.696 2.669 0.635
        11.541 9.248 7.127 4.998 2.870 0.737
        12.138 9.754 7.532 5.301 3.072 0.839
        12.738 10.262 7.938 5.606 3.276 0.941
        13.340 10.773 8.346 5.912 3.479 1.044
        13.943 11.284 8.754 6.219 3.684 1.147
        14.547 11.795 9.163 6.525 3.888 1.249
        15.151 12.306 9.571 6.831 4.092 1.352
    """,
    4: """
        3.692 2.560 1.928 1.276 0.623 0.037 -0.510 -1.093
        3.854 2.443 1.588 0.946 0.405 -0.091 -0.581 -1.131
        4.339 2.913 2.031 1.347 0.750 0.188 -0.376 -1.000
        4.876 3.434 2.520 1.785 1.119 0.476 -0.171 -0.876
        5.423 3.959 3.007 2.216 1.478 0.753 0.022 -0.762
        5.981 4.489 3.488 2.632 1.818 1.012 0.200 -0.660
        6.565 5.042 3.984 3.055 2.160 1.270 0.376 -0.562
        7.168 5.613 4.495 3.488 2.509 1.533 0.554 -0.464
        7.781 6.193 5.013 3.926 2.861 1.798 0.732 -0.367
        8.399 6.775 5.532 4.363 3.212 2.062 0.909 -0.272
        9.017 7.357 6.048 4.798 3.560 2.323 1.084 -0.179
        9.634 7.935 6.559 5.227 3.904 2.581 1.257 -0.088
        10.249 8.508 7.063 5.649 4.242 2.835 1.427 0.000
        10.860 9.073 7.559 6.063 4.574 3.084 1.593 0.086
        11.466 9.629 8.045 6.469 4.899 3.327 1.755 0.170
        12.068 10.178 8.522 6.867 5.217 3.566 1.915 0.252
        12.670 10.720 8.991 7.259 5.530 3.801 2.072 0.332
        13.271 11.259 9.456 7.647 5.841 4.034 2.227 0.411
        13.876 11.798 9.920 8.034 6.150 4.266 2.382 0.490
        14.484 12.339 10.384 8.421 6.460 4.498 2.536 0.569
        15.096 12.882 10.850 8.809 6.770 4.731 2.692 0.647
        15.711 13.427 11.317 9.199 7.082 4.965 2.848 0.726
    """,
    5: """
        3.742 2.909 2.472 1.828 1.322 0.894 0.388 -0.146 -0.665 -1.211
        4.442 3.505 3.022 2.348 1.698 1.163 0.666 0.157 -0.384 -1.001
        4.992 4.061 3.519 2.754 2.007 1.367 0.786 0.225 -0.345 -0.980
        5.810 4.647 3.880 3.107 2.383 1.722 1.090 0.465 -0.173 -0.875
        5.806 4.383 3.507 2.827 2.225 1.646 1.061 0.460 -0.170 -0.871
        6.240 4.794 3.874 3.131 2.454 1.803 1.160 0.516 -0.140 -0.857
        6.818 5.355 4.405 3.617 2.883 2.166 1.453 0.739 0.014 -0.767
        7.399 5.915 4.927 4.088 3.294 2.511 1.730 0.948 0.157 -0.685
        7.997 6.489 5.457 4.560 3.702 2.852 2.004 1.154 0.297 -0.605
        8.611 7.077 5.998 5.041 4.117 3.198 2.281 1.363 0.439 -0.527
        9.234 7.674 6.547 5.528 4.536 3.548 2.561 1.573 0.581 -0.449
        9.865 8.278 7.102 6.018 4.957 3.900 2.842 1.785 0.723 -0.372
        10.497 8.883 7.656 6.508 5.378 4.250 3.123 1.995 0.865 -0.296
        11.131 9.487 8.208 6.995 5.797 4.599 3.402 2.205 1.005 -0.221
        11.764 10.091 8.759 7.479 6.212 4.946 3.679 2.413 1.144 -0.147
        12.396 10.691 9.305 7.960 6.624 5.289 3.954 2.619 1.282 -0.075
        13.025 11.286 9.845 8.435 7.032 5.629 4.226 2.823 1.418 -0.004
        13.652 11.877 10.380 8.904 7.434 5.964 4.494 3.024 1.553 0.066
        14.276 12.462 10.908 9.367 7.831 6.295 4.758 3.222 1.685 0.134
        14.898 13.041 11.430 9.824 8.223 6.622 5.020 3.418 1.816 0.201
        15.516 13.614 11.944 10.275 8.610 6.944 5.278 3.612 1.945 0.268
        16.134 14.184 12.454 10.722 8.993 7.263 5.533 3.803 2.073 0.333
    """,
    6: """
        3.892 3.127 2.745 2.175 1.791 1.395 0.916 0.515 0.154 -0.249 -0.700 -1.217
        4.496 3.691 3.274 2.655 2.197 1.777 1.257 0.744 0.286 -0.140 -0.585 -1.118
        5.140 4.271 3.804 3.150 2.596 2.119 1.599 1.059 0.530 0.014 -0.507 -1.085
        5.828 4.847 4.349 3.665 2.954 2.342 1.792 1.267 0.743 0.209 -0.350 -0.981
        6.329 5.420 4.868 4.075 3.312 2.655 2.055 1.477 0.902 0.320 -0.279 -0.942
        6.964 6.013 5.376 4.545 3.758 3.059 2.404 1.766 1.132 0.496 -0.155 -0.866
        7.760 6.199 5.186 4.393 3.699 3.045 2.405 1.772 1.140 0.502 -0.152 -0.865
        7.877 6.444 5.542 4.815 4.138 3.465 2.784 2.098 1.409 0.713 -0.001 -0.775
        8.210 6.748 5.800 5.014 4.282 3.568 2.859 2.151 1.442 0.731 0.009 -0.770
        8.806 7.327 6.347 5.519 4.737 3.968 3.202 2.437 1.671 0.904 0.127 -0.702
        9.418 7.919 6.904 6.029 5.195 4.370 3.547 2.724 1.902 1.078 0.245 -0.635
        10.037 8.517 7.464 6.540 5.651 4.770 3.890 3.010 2.131 1.250 0.362 -0.569
        10.668 9.127 8.034 7.058 6.114 5.175 4.238 3.301 2.363 1.425 0.481 -0.504
        11.306 9.743 8.610 7.582 6.581 5.584 4.588 3.592 2.597 1.600 0.599 -0.439
        11.946 10.361 9.186 8.106 7.048 5.993 4.939 3.885 2.830 1.776 0.717 -0.375
        12.589 10.981 9.764 8.630 7.515 6.401 5.289 4.176 3.064 1.951 0.835 -0.312
        13.234 11.602 10.343 9.155 7.982 6.811 5.640 4.469 3.298 2.126 0.953 -0.249
        13.876 12.219 10.916 9.673 8.443 7.214 5.986 4.757 3.528 2.299 1.069 -0.187
        14.519 12.836 11.489 10.190 8.903 7.617 6.331 5.045 3.758 2.472 1.184 -0.126
        15.161 13.451 12.058 10.705 9.362 8.018 6.674 5.331 3.987 2.644 1.299 -0.066
        15.801 14.063 12.624 11.216 9.816 8.415 7.015 5.615 4.215 2.814 1.413 -0.007
        16.439 14.671 13.186 11.723 10.267 8.810 7.353 5.897 4.440 2.983 1.526 0.052
    """,
}
BUFFERS = tuple(_LOG_SPANS)
