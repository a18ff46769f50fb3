"""Table 2 of Ma et al. (2025) as printed: ratios of mean reward to that of ABSE.

Each row: data set, then with and without auxiliary data for LDPMAB, Linear and NN at t = n_P / 4,
and the same at t = n_P.
"""

from __future__ import annotations

from discreet.reproduction.ma2025.real_data import ADULT, AT_END, AT_QUARTER, JOBS, TAXI

LINEAR, NEURAL, PUBLISHED = "linear", "neural", "published"

_PRINTED: dict[tuple[float, float], dict[str, tuple[float, ...]]] = {
    (1.0, 1.0): {
        ADULT: (1.459, 0.987, 0.954, 0.950, 0.906, 0.935, 1.101, 0.795, 0.724, 0.715, 0.750, 0.784),
        JOBS: (0.801, 0.797, 0.786, 0.794, 0.800, 0.795, 0.694, 0.693, 0.684, 0.690, 0.700, 0.695),
        TAXI: (0.989, 0.976, 0.987, 0.984, 0.998, 0.989, 0.994, 0.992, 0.996, 0.993, 0.998, 0.995),
    },
    (1.0, 4.0): {
        ADULT: (1.602, 0.987, 0.988, 0.986, 1.110, 0.992, 1.210, 0.795, 0.782, 0.771, 0.871, 0.816),
        JOBS: (0.846, 0.797, 0.795, 0.804, 0.800, 0.798, 0.742, 0.693, 0.688, 0.704, 0.698, 0.695),
        TAXI: (0.997, 0.985, 0.976, 0.969, 0.990, 0.989, 0.996, 0.992, 0.992, 0.991, 0.996, 0.995),
    },
    (2.0, 1.0): {
        ADULT: (1.459, 0.986, 0.964, 0.986, 0.895, 0.930, 1.102, 0.919, 0.762, 0.772, 0.745, 0.808),
        JOBS: (0.819, 0.808, 0.788, 0.791, 0.800, 0.797, 0.719, 0.720, 0.683, 0.683, 0.705, 0.688),
        TAXI: (0.992, 0.974, 0.989, 0.989, 1.000, 0.996, 0.996, 0.992, 0.997, 0.997, 1.000, 0.999),
    },
    (2.0, 4.0): {
        ADULT: (1.602, 0.986, 0.964, 0.968, 0.895, 0.929, 1.210, 0.919, 0.762, 0.762, 0.745, 0.791),
        JOBS: (0.857, 0.808, 0.788, 0.785, 0.800, 0.792, 0.754, 0.720, 0.683, 0.674, 0.705, 0.696),
        TAXI: (1.001, 0.974, 0.989, 0.989, 1.000, 1.000, 1.002, 0.992, 0.997, 0.997, 1.000, 1.000),
    },
}
_METHODS = (PUBLISHED, LINEAR, NEURAL)


def printed(
    data_set: str, epsilon: float, epsilon_auxiliary: float, method: str, with_data: bool, at: str
) -> float | None:
    """The ratio in the paper; None where it has none. JOBS and TAXI there are other tables."""
    row = _PRINTED.get((epsilon, epsilon_auxiliary), {}).get(data_set)
    if row is None or method not in _METHODS or at not in (AT_QUARTER, AT_END):
        return None
    return row[6 * (at == AT_END) + 2 * _METHODS.index(method) + (not with_data)]
