"""Sums over everybody so far, released again and again with Gaussian noise.

    BufferedToeplitz(rows)     prefix sums over a known horizon: the default
    Doubling()                 prefix sums over an unknown horizon
    GeometricEpochs(growth)    a weighted sum of which only the latest value matters: less noise
    FadingEpochs(half_life)    a weighted sum in which old rows count less and less
    BinaryTree, Honaker        the published mechanism, and its better decoder
    SquareRootToeplitz(rows)   a reference that keeps every row
    Independent()              fresh noise on every row: the local model's error

`PrivateStream` draws the noise; system.py says what is promised and why.
"""

from discreet.privacy.prefix_sums.epochs import GeometricEpochs
from discreet.privacy.prefix_sums.fading import FadingEpochs
from discreet.privacy.prefix_sums.strategies import (
    MECHANISMS,
    BinaryTree,
    BufferedToeplitz,
    Doubling,
    Honaker,
    Independent,
    SquareRootToeplitz,
)
from discreet.privacy.prefix_sums.system import (
    Estimate,
    LinearStream,
    PrefixMechanism,
    PrivateStream,
)

__all__ = [
    "MECHANISMS",
    "BinaryTree",
    "BufferedToeplitz",
    "Doubling",
    "Estimate",
    "FadingEpochs",
    "GeometricEpochs",
    "Honaker",
    "Independent",
    "LinearStream",
    "PrefixMechanism",
    "PrivateStream",
    "SquareRootToeplitz",
]
