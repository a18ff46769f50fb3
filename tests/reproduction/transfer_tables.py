"""Small invented tables in the form of ADULT, JOBS and TAXI."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd

_COUNTRIES = (
    *["United-States"] * 30,
    *["Mexico", "Cuba", "Peru", "Canada", "Italy", "China", "India"] * 2,
)


def write_tables(folder: Path, people: int = 400) -> Path:
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
