"""Sums over everybody so far, released again and again with Gaussian noise.

    BufferedToeplitz(rows)     prefix sums over a known horizon: the default
    GeometricEpochs(growth)    a weighted sum of which only the latest value matters: less noise
    SeparateEpochs(growth)     each epoch's sum alone: nothing of two epochs is mixed
    DiscountedEpochs(half_life)    the same, of which the estimate counts old ones less and less
    BinaryTree(rows)           the published mechanism
    Independent()              fresh noise on every row: the local model's error

`PrivateStream` draws the noise; system.py says what is promised and why.
"""

from discreet.privacy.prefix_sums.epochs import DiscountedEpochs, GeometricEpochs, SeparateEpochs
from discreet.privacy.prefix_sums.strategies import (
    MECHANISMS,
    BinaryTree,
    BufferedToeplitz,
    Independent,
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
    "DiscountedEpochs",
    "Estimate",
    "GeometricEpochs",
    "Independent",
    "LinearStream",
    "PrefixMechanism",
    "PrivateStream",
    "SeparateEpochs",
]
