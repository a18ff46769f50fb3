"""Small invented tables in the form of those that pip does not install."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd

from discreet.papers.kharkovskii2020.data_sets import LOANS_FILE, PROPERTY_FILE

_COUNTRIES = (
    *["United-States"] * 30,
    *["Mexico", "Cuba", "Peru", "Canada", "Italy", "China", "India"] * 2,
)


def write_transfer_tables(folder: Path, people: int = 400) -> Path:
    """adult/, jobs/ and taxi/ in `folder`; the first column decides the class, mostly."""
    rng = np.random.default_rng(0)
    for name in ("adult", "jobs", "taxi"):
        (folder / name).mkdir()
    for stem, count in (("adult.data", people), ("adult.test", people // 2)):
        with gzip.open(folder / "adult" / f"{stem}.gz", "wt") as file:
            if stem == "adult.test":
                file.write("|1x3 Cross validator\n")
            for _ in range(count):
                file.write(_adult_line(rng) + ("." if stem == "adult.test" else "") + "\n")
    years = rng.integers(0, 50, people)
    jobs = {
        "Age": rng.choice(["<35", ">35"], people),
        "YearsCode": years,
        "YearsCodePro": years // 2,
        "ComputerSkills": rng.integers(0, 107, people),
        "Employed": (years + rng.integers(-5, 6, people) > 20).astype(int),
    }
    pd.DataFrame(jobs).to_csv(folder / "jobs" / "stackoverflow_subset.csv.gz", index=False)
    miles = rng.exponential(3.0, people).round(2)
    taxi = {
        "trip_distance": miles,
        "trip_duration": 4.0 * miles,
        "pickup_hour": rng.integers(0, 24, people),
        "pickup_day": rng.choice(["Mon", "Tue", "Sat", "Sun"], people),
        "tip": np.where(miles > 1.0, "Tip", "No Tip"),
    }
    pd.DataFrame(taxi).to_csv(folder / "taxi" / "nyc_yellow_2022_taxi.csv.gz", index=False)
    return folder


def _adult_line(rng: np.random.Generator) -> str:
    age = int(rng.integers(17, 91))
    work = "?" if rng.random() < 0.05 else "Private"
    label = ">50K" if age > 45 else "<=50K"
    fields = [
        age, work, 1, "HS-grad", int(rng.integers(1, 17)), "Divorced", "Sales", "Wife", "White",
        "Male", 0, 0, int(rng.integers(1, 100)), rng.choice(_COUNTRIES), label,
    ]  # fmt: skip
    return ", ".join(map(str, fields))


def write_search_tables(folder: Path, rows: int = 120) -> Path:
    """Loans and properties in `folder`; four loans are not like the others."""
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
