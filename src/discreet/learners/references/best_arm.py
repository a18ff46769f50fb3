"""The private baseline that ignores contexts: one best arm for everyone.

The kernel bandit with the constant as its only feature, so privacy, posterior and queries are those
of `kernel`. Under local privacy a person reports the sign of the rounded reward, times a public
sign for the arm, by randomised response on two values; under joint privacy an epoch releases a
noisy sum of rewards for each arm.
"""

from __future__ import annotations

from typing import ClassVar

from discreet.learners.kernel.joint import JointKernel
from discreet.learners.kernel.learner import LocalKernel


class BestArm(LocalKernel):
    """Learns which arm is best for everyone together; contexts are not looked at.

    See `LocalKernel` for the arguments.
    """

    name: ClassVar[str] = "best_arm"
    varies: ClassVar[bool] = False


class JointBestArm(JointKernel):
    """`BestArm` for people who trust the learner with their reports; see `JointKernel`."""

    name: ClassVar[str] = "best_arm"
    varies: ClassVar[bool] = False
