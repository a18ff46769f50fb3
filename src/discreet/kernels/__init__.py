"""Kernels as finite feature maps with certified norms; `feature_map` makes one from a kernel.

| room        | what lives there                                                        |
|-------------|-------------------------------------------------------------------------|
| `build`     | `feature_map`: from a scikit-learn kernel to a map with a stated error  |
| `base`      | what every map owes: `FeatureMap`; public points; maps as JSON values   |
| `fourier`   | Fourier features by quadrature and at random                            |
| `linear`    | dot products and their powers                                           |
| `nystrom`   | projection onto public points, for any kernel                           |
| `finite`    | exact features on a finite public set                                   |
| `compose`   | coordinate groups side by side, scaling, principal axes                 |
| `additive`  | the scikit-learn kernel on column groups                                |
| `text`      | kernels as text                                                         |
"""

from discreet.kernels.additive import Additive
from discreet.kernels.base import (
    FeatureMap,
    Group,
    OutOfReach,
    decode_map,
    encode_map,
    public_points,
    sub_box,
)
from discreet.kernels.build import feature_map
from discreet.kernels.compose import (
    AdditiveFeatures,
    RotatedFeatures,
    principal_axes,
    rotate,
    scaled,
    sum_features,
)
from discreet.kernels.finite import FiniteFeatures, finite_features
from discreet.kernels.fourier import FourierFeatures, quadrature_features, random_features
from discreet.kernels.linear import LinearFeatures
from discreet.kernels.nystrom import NystromFeatures, nystrom_features
from discreet.kernels.text import kernel_from_text, kernel_to_text, read_kernel

__all__ = [
    "Additive",
    "AdditiveFeatures",
    "FeatureMap",
    "FiniteFeatures",
    "FourierFeatures",
    "Group",
    "LinearFeatures",
    "NystromFeatures",
    "OutOfReach",
    "RotatedFeatures",
    "decode_map",
    "encode_map",
    "feature_map",
    "finite_features",
    "kernel_from_text",
    "kernel_to_text",
    "nystrom_features",
    "principal_axes",
    "public_points",
    "quadrature_features",
    "random_features",
    "read_kernel",
    "rotate",
    "scaled",
    "sub_box",
    "sum_features",
]
