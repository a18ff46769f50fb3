"""One large posterior of `local_kernel`, by NumPy and by another array library.

    python benchmarks/matrices.py [--library torch] [--device cuda] [--arms 50 200]

| column    | meaning                                                                        |
|-----------|--------------------------------------------------------------------------------|
| rows      | coefficients of all arms, two columns of contexts                              |
| posterior | seconds of a Cholesky factor and the mean; a policy takes four                 |
| draws     | seconds of 64 deviations from the mean                                         |
| apart     | the largest difference of the mean from NumPy's, over the largest mean         |

Seconds are of the clock, one thread each where that is the processor.
"""

from __future__ import annotations

import argparse
import importlib
import time
from contextlib import nullcontext
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from discreet.kernels import matrices_on
from discreet.learners.local_kernel.features import CosineFeatures
from discreet.learners.local_kernel.posterior import KernelPosterior
from discreet.learners.local_kernel.prior import Smooth
from discreet.learners.sources import Information

REPORTS = 2000


def measured(features: CosineFeatures, known: Information, place: Any) -> tuple[float, float, Any]:
    """Seconds of a posterior and of draws from it, and its mean."""
    prior = Smooth((0.2, 0.2), level=0.8, surface=0.8).prior(features)
    with place:
        started = time.perf_counter()
        posterior = KernelPosterior.of(features, prior, known)
        half = time.perf_counter()
        posterior.draws(np.random.default_rng(2).standard_normal((posterior.mean.size, 64)))
        return half - started, time.perf_counter() - half, posterior.mean


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default="torch")
    parser.add_argument("--device")
    parser.add_argument("--arms", type=int, nargs="+", default=[50, 200])
    given = parser.parse_args()
    library = importlib.import_module(given.library)
    if hasattr(library, "set_num_threads"):
        library.set_num_threads(1)
    places = {
        "numpy": nullcontext,
        given.library: lambda: matrices_on(library, given.device, least=0),
    }
    print(f"{'arms':>5}{'rows':>7}  {'library':12}{'posterior':>10}{'draws':>8}{'apart':>9}")
    for arms in given.arms:
        features = CosineFeatures.of((None, None), arms)
        seen = np.random.default_rng(1).standard_normal((REPORTS, arms * len(features)))
        known = Information(seen.T @ seen, seen[0] * 20.0)
        means = []
        for name, place in places.items():
            with threadpool_limits(1):
                posterior, draws, mean = measured(features, known, place())
            means.append(mean)
            apart = abs(mean - means[0]).max() / abs(means[0]).max()
            print(
                f"{arms:5}{mean.size:7}  {name:12}{posterior:10.2f}{draws:8.2f}{apart:9.0e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
