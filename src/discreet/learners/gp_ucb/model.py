"""What has been learnt about a reward function, as one public object that predicts anywhere.

The mean reward is f(x) = 1/2 + (1, phi(x))' theta on the scale [0, 1] of the reward bounds, with
theta ~ N(mean, root root') given everything released so far (Dubey 2021, Remark 1: the parameters
are private already, so they can be given away).

| array | shape            | meaning                                                         |
|-------|------------------|-----------------------------------------------------------------|
| mean  | (m + 1,)         | posterior mean of theta; the first entry belongs to a constant  |
| root  | (m + 1, r)       | a square root of its covariance                                 |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.domain import RewardBounds
from discreet.kernels import FeatureMap, decode_map, encode_map
from discreet.learners.messages import Message
from discreet.validation import FloatArray, InvalidInput, freeze_arrays, positive_number, read_array

CENTRE = 0.5


@dataclass(frozen=True, eq=False)
class KernelModel(Message):
    """The released posterior of a reward function; public.

    Attributes:
        features: the feature map, on the public domain.
        norm: what its features are divided by, so that their norm is at most 1.
        mean, root: see the module's table.
        reward_bounds: the units of rewards.
    """

    kind: ClassVar[str] = "kernel-model"

    features: FeatureMap
    norm: float
    mean: FloatArray
    root: FloatArray
    reward_bounds: RewardBounds

    def __post_init__(self) -> None:
        size = self.features.features + 1
        if self.mean.shape != (size,) or self.root.ndim != 2 or len(self.root) != size:
            raise InvalidInput(
                f"a kernel model had a mean of shape {self.mean.shape} and a root of shape "
                f"{self.root.shape}; with {size - 1} features they must be ({size},) and "
                f"({size}, any)."
            )
        bound = self.features.norm_bound
        if bound is None or not bound * (1.0 - 1e-12) <= self.norm:
            raise InvalidInput(
                f"a kernel model divides features by {self.norm}, but their norm may be {bound}; "
                "noise is sized for a norm of at most 1."
            )
        freeze_arrays(self)

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:  # noqa: N803
        """Mean reward and its standard deviation at points of the domain.

        Args:
            X: (n, d), in the units of the domain.

        Returns:
            (n,) posterior means and (n,) posterior standard deviations, in units of rewards. The
            deviation speaks of f, not of a single reward.

        Raises:
            InvalidInput: for a wrong shape, NaN, or a point outside the domain.
        """
        mean, deviation = self.unit(self.features.transform(X))
        width = self.reward_bounds.upper - self.reward_bounds.lower
        return self.reward_bounds.lower + width * mean, width * deviation

    def unit(self, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and deviations on the scale [0, 1], from features (n, m) of the map."""
        scaled = phi / self.norm
        mean: FloatArray = CENTRE + self.mean[0] + scaled @ self.mean[1:]
        return mean, np.sqrt(np.sum((self.root[0] + scaled @ self.root[1:]) ** 2, axis=1))

    @cached_property
    def covariance(self) -> FloatArray:
        """(m + 1, m + 1) the posterior covariance of theta."""
        covariance: FloatArray = self.root @ self.root.T
        return covariance

    def to_fields(self) -> dict[str, Any]:
        return {
            "features": encode_map(self.features),
            "norm": self.norm,
            "mean": self.mean.tolist(),
            "root": self.root.tolist(),
            "reward_bounds": [self.reward_bounds.lower, self.reward_bounds.upper],
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        return cls(
            features=decode_map(fields["features"]),
            norm=positive_number(fields["norm"], "norm"),
            mean=read_array(fields["mean"], "mean", "number", 1),
            root=read_array(fields["root"], "root", "number", 2),
            reward_bounds=RewardBounds(*fields["reward_bounds"]),
        )
