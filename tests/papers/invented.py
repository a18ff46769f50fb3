"""Results of figures with random curves in place of trials, to see how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from discreet.papers.reproduction import Case, PaperResults, results_of

PEOPLE = 32
PROMISE = {
    "excess_noise": None,
    "true_epsilon_auxiliary": None,
    "true_epsilon": 1.0,
    "protects": "reward",
    "seconds": 0.1,
}


def invented_results(cases: Sequence[Case], trials: int = 2) -> PaperResults:
    """Total regret and its trace for every case and trial."""
    rng, rows = np.random.default_rng(0), []
    for place, trial in np.ndindex(len(cases), trials):
        trace = np.cumsum(rng.random(PEOPLE)) * (1.0 + place % 7)
        row = {"case": place, "trial": trial, "metric": "regret", "value": trace[-1]}
        rows.append({**row, "final": False, "along": np.arange(1, PEOPLE + 1), "trace": trace})
    return results_of(cases, pd.DataFrame(rows).assign(**PROMISE))
