"""Small tables in the form of the loans and properties, for tests that need no real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from discreet.reproduction.kharkovskii2020.data_sets import LOANS_FILE, PROPERTY_FILE


def write_tables(folder: Path, rows: int = 120) -> Path:
    """Both files under `folder`; returns it."""
    rng = np.random.default_rng(0)
    funded = np.round(rng.uniform(1000.0, 35_000.0, rows), 2)
    loans = pd.DataFrame(
        {
            "funded_amnt": funded,
            "funded_amnt_inv": funded * rng.uniform(0.5, 1.0, rows),
            "int_rate": rng.uniform(5.0, 25.0, rows),
            "annual_inc": np.exp(rng.normal(11.0, 0.5, rows)),
            "total_payment": funded * rng.uniform(0.1, 1.6, rows),
            "loan_status": "Fully Paid",
        }
    )
    loans.loc[0, "funded_amnt_inv"] = 0.0
    loans.loc[1, "loan_status"] = "Current"
    loans.loc[2, "total_payment"] = 0.0
    loans.loc[3, "loan_status"] = "Charged Off"
    longitude, latitude = rng.uniform(103.7, 104.0, rows), rng.uniform(1.24, 1.45, rows)
    properties = pd.DataFrame(
        {
            "project": [f"project {i}" for i in range(rows)],
            "lat": latitude,
            "long": longitude,
            "avg_price_per_sqm": 10_000.0 * np.exp(2.0 * latitude + rng.normal(0.0, 0.1, rows)),
        }
    )
    for file, frame in ((LOANS_FILE, loans), (PROPERTY_FILE, properties)):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(folder / file, index=False)
    return folder
