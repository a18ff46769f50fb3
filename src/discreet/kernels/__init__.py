"""Kernels as finite feature maps with certified norms; `feature_map` makes one from a kernel.

| module      | content                                                                |
|-------------|------------------------------------------------------------------------|
| `build`     | `feature_map`: from a scikit-learn kernel to a map with a stated error |
| `base`      | the contract `FeatureMap`; public points                               |
| `fourier`   | Fourier features by quadrature                                         |
| `linear`    | dot products and their powers                                          |
| `nystrom`   | projection onto public points, and exact features on a finite set      |
| `compose`   | coordinate groups side by side, scaling, principal axes                |
| `text`      | kernels as text; kernels on groups of columns                          |
"""

from discreet.kernels.base import FeatureMap, public_points
from discreet.kernels.build import feature_map
from discreet.kernels.compose import AdditiveFeatures, scaled
from discreet.kernels.fourier import FourierFeatures
from discreet.kernels.nystrom import (
    FiniteFeatures,
    NystromFeatures,
    finite_features,
    nystrom_features,
)
from discreet.kernels.text import Additive, kernel_from_text, kernel_to_text, read_kernel

__all__ = [
    "Additive",
    "AdditiveFeatures",
    "FeatureMap",
    "FiniteFeatures",
    "FourierFeatures",
    "NystromFeatures",
    "feature_map",
    "finite_features",
    "kernel_from_text",
    "kernel_to_text",
    "nystrom_features",
    "public_points",
    "read_kernel",
    "scaled",
]
