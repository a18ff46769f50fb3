"""What tests of tables share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from discreet.people.columns import Column
from discreet.people.domain import Box
from discreet.people.tables import encode_columns, kept_rows


def read_contexts(frame: pd.DataFrame, columns: Sequence[Column]) -> tuple[np.ndarray, Box]:
    """The contexts (m, d) of the people who fit the declared columns, and their domain."""
    domain = Box.of(columns)
    values, rows = encode_columns(frame, columns)
    rows.check_any()
    return values[kept_rows(values)], domain
