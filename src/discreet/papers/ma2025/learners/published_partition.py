"""Binned successive elimination, and Algorithms 2 and 3 of Ma et al. (2025) as published.

A dyadic partition has a set of active arms in every leaf. Arms are chosen uniformly among them
(eq. (8)), one whose confidence interval lies below another's is given up, and a leaf starts afresh
when it is split. This much ABSE (abse.py) and the published private learner have in
common; they differ in what a report holds and in the two rules.

| array   | shape  | sum over the people who took part while the node was a leaf          |
|---------|--------|----------------------------------------------------------------------|
| times   | (N,)   | 1 (t_s^j of eq. (9))                                                 |
| chosen  | (N, K) | U, the indicator that the person was in the node and got the arm     |
| rewards | (N, K) | V, their reward where U is 1                                         |

In the published learner every person reports, for every active bin and every arm active in it, the
pair U, V with Laplace(4 / epsilon) noise, whether they are in the bin or not, as silence in a bin
would reveal that they are not in it (eqs (8) to (17)). Auxiliary sources report likewise before the
target does (eqs (24) to (29)). It is kept as published for comparison; `Partition` loses about ten
times less at the same epsilon.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, TypeVar, Unpack

import numpy as np

from discreet.codec import Range, Shape
from discreet.learners.base import ArmLearner, Common
from discreet.learners.messages import Reports, Statistics, public_uniforms
from discreet.learners.partition.tree import Bins, splittable
from discreet.learners.policy import Actions, ArmPolicy
from discreet.learners.stream import Stream
from discreet.people.domain import Arms, Box
from discreet.privacy import Budget, Local, NoiseSource, Release
from discreet.privacy.frequency import LaplaceOnCells
from discreet.privacy.noise import laplace_epsilon
from discreet.validation import (
    BoolArray,
    CoinArray,
    FloatArray,
    IntArray,
    InvalidInput,
    positive_number,
    whole_number,
)


@dataclass(frozen=True, eq=False)
class CellSums(Statistics):
    """See the module's table."""

    kind: ClassVar[str] = "cell-sums"

    times: Annotated[FloatArray, Shape("N")]
    chosen: Annotated[FloatArray, Shape("N", "K")]
    rewards: Annotated[FloatArray, Shape("N", "K")]

    @classmethod
    def zeros(cls, nodes: int, arms: int) -> CellSums:
        """No report at all."""
        return cls(np.zeros(nodes), np.zeros((nodes, arms)), np.zeros((nodes, arms)), reports=0)

    def grown(self, nodes: int) -> CellSums:
        """The same sums for a tree that has more nodes by now."""
        more = nodes - len(self.times)
        if more <= 0:
            return self
        chosen, rewards = np.pad([self.chosen, self.rewards], [(0, 0), (0, more), (0, 0)])
        times = np.pad(self.times, (0, more))
        return replace(self, times=times, chosen=chosen, rewards=rewards)

    def __add__(self, other: CellSums) -> CellSums:
        nodes = max(len(self.times), len(other.times))
        return Statistics.__add__(self.grown(nodes), other.grown(nodes))


@dataclass(frozen=True, eq=False)
class LaplaceReports(Reports):
    """Noisy U and V of n people.

    Attributes:
        values: (n, 2C) for the C active (bin, arm) pairs, C columns of U and then C of V.
    """

    kind: ClassVar[str] = "laplace-reports"

    values: Annotated[FloatArray, Shape("n", "c")]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class EliminationPolicy(ArmPolicy):
    """Choose uniformly among the active arms of the leaf that holds the context.

    Under local privacy people report U and V of every active (bin, arm) pair with Laplace noise.
    Who got an arm that was given up in their bin is in none of the pairs, and all their numbers
    are 0 (24). So are those of people of a source, whose arms were chosen elsewhere (25).

    *Claim.* Any two people with contexts in the domain, any arms and rewards in [0, 1], have
    numbers that differ by at most 4 in all, so no report is more than e^epsilon times as likely
    under one.

    Attributes:
        bins: the partition and the arms left in each leaf.
        epsilon: of one report; infinity where people report what happened as it was.
    """

    kind: ClassVar[str] = "elimination-policy"
    for_sources: ClassVar[bool] = True

    bins: Bins
    epsilon: Annotated[float, Range(above=0.0, infinite=True)]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bins.check(self.domain.dimension, self.arms)

    @property
    def reports_are_private(self) -> bool:
        return self.epsilon < math.inf

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        active = self.bins.active[self.bins.leaf_of(unit)]
        shares: FloatArray = active / active.sum(axis=1, keepdims=True)
        return shares

    def _choose(self, unit: FloatArray, public_coins: CoinArray) -> tuple[IntArray, FloatArray]:
        active = self.bins.active[self.bins.leaf_of(unit)]
        count = active.sum(axis=1)
        uniforms = public_uniforms(
            self.public_seed, self.version, public_coins, np.zeros(len(unit), dtype=np.int64)
        )
        rank = np.minimum((uniforms * count).astype(np.int64), count - 1)
        # The arm that is the (rank + 1)-th active one.
        arms = (np.cumsum(active, axis=1) <= rank[:, None]).sum(axis=1)
        return arms, 1.0 / count

    @cached_property
    def mechanism(self) -> LaplaceOnCells:
        """The noise on the active pairs."""
        return LaplaceOnCells(int(self.bins.active.sum()), self.epsilon, partial=True)

    @cached_property
    def _cell(self) -> IntArray:
        """(L, K) the number of each active pair, -1 for others."""
        cell = np.full(self.bins.active.shape, -1)
        cell[self.bins.active] = np.arange(self.mechanism.cells)
        return cell

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> Reports:
        if not self.reports_are_private:
            return super()._report(unit, actions, rewards, noise)
        cells = self._cell[self.bins.leaf_of(unit), actions.arms]
        values = self.mechanism.privatise(cells, rewards, noise)
        return LaplaceReports(**self.origin(noise.name), values=values)

    def release(self, noise: str) -> Release | None:
        if not self.reports_are_private:
            return super().release(noise)
        mechanism = self.mechanism
        sensitivity, scale = mechanism.sensitivity, mechanism.scale
        held = laplace_epsilon(noise, sensitivity, scale, 2 * mechanism.cells)
        equation = "(12)" if self.chooses else "(25)"
        pairs = f"{mechanism.cells} (bin, arm) pairs"
        return Release(
            mechanism=f"Laplace on U and V of {pairs}, eq. {equation}",
            event=self.event(held),
            sensitivity=sensitivity,
            sensitivity_source="largest l1 distance of (U, V) over records at the reward bounds",
            scale=scale,
            people=self.group,
            data="the bin of the context, the arm and the reward",
            noise=noise,
        )

    def sums(self, reports: LaplaceReports) -> CellSums:
        """The sums of reports; `InvalidInput` for reports that this policy cannot make.

        Laplace noise exceeds 60 scales with probability e^-60; one such value could undo everything
        that others reported.
        """
        values, cells = reports.values, self.mechanism.cells
        if values.shape[1] != 2 * cells or len(values) == 0:
            raise InvalidInput(
                f"reports had values of shape {values.shape}; under {self.title} it must be "
                f"(people, {2 * cells}) with at least one person."
            )
        most = 1.0 + 60.0 * self.mechanism.scale
        if not (np.abs(values) <= most).all():
            raise InvalidInput(
                f"reports had values beyond {most:g}, which the noise of {self.title} does not "
                "reach; send them as the policy made them."
            )
        tree, active = self.bins.tree, self.bins.active
        times = np.zeros(len(tree))
        chosen, rewards = np.zeros((2, len(tree), active.shape[1]))
        leaf, arm = np.nonzero(active)
        node, total = tree.leaves[leaf], values.sum(axis=0)
        chosen[node, arm], rewards[node, arm] = total[:cells], total[cells:]
        times[tree.leaves] = len(values)
        return CellSums(times, chosen, rewards, reports=len(values))


R = TypeVar("R", bound=Reports)


class EliminationLearner(ArmLearner[EliminationPolicy, R, CellSums]):
    """Eliminate and split after every `batch_size` reports; subclasses give the rules.

    Args:
        horizon: the number of people n, which the confidence bounds need. Later people are not
            refused, as each pays with their own report alone: n grows with them.
        batch_size: after how many people the rules are checked.
    """

    statistics_type = CellSums
    batch_size: int = 100
    saved = ("_bins",)
    _bins: Bins

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Budget,
        *,
        batch_size: int = 100,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, **common)
        self.batch_size = whole_number(batch_size, "batch_size", minimum=1)
        self._bins = Bins.whole(self.domain.dimension, self.arms)
        if self.horizon is None:
            raise InvalidInput(
                f"horizon was not given; {self.name} needs the number of people, because its "
                "confidence bounds depend on it."
            )

    @property
    def expected(self) -> int:
        """n: the horizon, or the people so far where more have come."""
        return max(self.horizon or 0, self.people)

    def _check_sums(self, statistics: CellSums) -> None:
        nodes, arms = statistics.chosen.shape
        if arms != self.arms or nodes > len(self._bins.tree) or (statistics.times < 0.0).any():
            raise InvalidInput(
                f"statistics had {nodes} nodes and {arms} arms, or negative times; {self.name} has "
                f"{len(self._bins.tree)} nodes and {self.arms} arms."
            )

    def _empty(self) -> CellSums:
        return CellSums.zeros(1, self.arms)

    @abstractmethod
    def _beaten(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        """(L, K) the active arms that another one beats, given the sums of the leaves."""

    @abstractmethod
    def _known(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        """(L,) the leaves that are known well enough to be split."""

    def _publish(self) -> EliminationPolicy:
        self._decide()
        epsilon = self.budget.contribution_epsilon
        return EliminationPolicy(**self.policy_header(), bins=self._bins, epsilon=epsilon)

    def _decide(self) -> None:
        tree, active = self._bins.tree, self._bins.active
        leaves = tree.leaves
        sums = self._sums.grown(len(tree))
        active = active & ~self._beaten(leaves, sums)
        self._bins = Bins(tree, active)
        allowed = splittable(tree, leaves, self.domain.levels)
        chosen = self._known(leaves, sums) & allowed.any(axis=1)
        self._bins = self._bins.split(chosen, self._longest_edges(leaves, allowed))
        self.log_learnt("number of bins", self._bins.tree.leaf_count)

    def _longest_edges(self, leaves: IntArray, allowed: BoolArray) -> IntArray:
        """(L,) one of the longest edges that can be halved, at public random (Algorithm 1)."""
        tree = self._bins.tree
        edges = np.where(allowed, tree.upper[leaves] - tree.lower[leaves], -1.0)
        longest = edges >= edges.max(axis=1, keepdims=True)
        lots = public_uniforms(
            self.public_seed,
            0,
            np.arange(edges.shape[1], dtype=np.uint64)[None, :],
            leaves[:, None],
        )
        chosen: IntArray = np.where(longest, lots, -1.0).argmax(axis=1)
        return chosen


def several_sources(
    epsilons: FloatArray,
    times: FloatArray,
    chosen: FloatArray,
    rewards: FloatArray,
    log_people: float,
    constant: float,
) -> tuple[FloatArray, FloatArray]:
    """(L, K) estimates and radii from several sources of different noise, eqs (26) to (28).

        lambda = min(|epsilon_m^2 U / t|, 1) where t >= log(n)^2, otherwise 0               (27)
        estimate = sum_m lambda V / sum_m lambda U                                          (26)
        radius = sqrt(C_n sum_m lambda^2 max(t / epsilon_m^2, U)) / |sum_m lambda U|        (28)

    A pair for which all weights lambda are 0 has no estimate: its radius is infinity here, where
    the paper writes 0 / 0 = 0 and asks for a radius above 0 (29).

    Args:
        epsilons: (M + 1,) the budgets epsilon_m, the target's first.
        times: (M + 1, L) t: people of each source since a leaf was made.
        chosen: (M + 1, L, K) U: noisy numbers of those in the leaf who got the arm.
        rewards: (M + 1, L, K) V: noisy sums of their rewards.
        log_people: log(n).
        constant: C_n = c log(n).
    """
    t, squared = times[:, :, None], epsilons[:, None, None] ** 2
    informed = squared * np.abs(chosen)
    share = np.divide(informed, t, out=np.zeros_like(informed), where=t > 0.0)
    weights = np.where(t >= log_people**2, np.minimum(share, 1.0), 0.0)
    below, above = (weights * chosen).sum(axis=0), (weights * rewards).sum(axis=0)
    estimate = np.divide(above, below, out=np.zeros_like(above), where=below != 0.0)
    spread = (weights**2 * np.maximum(t / squared, chosen)).sum(axis=0)
    radius = np.full(below.shape, np.inf)
    np.divide(np.sqrt(constant * spread), np.abs(below), out=radius, where=below != 0.0)
    return estimate, radius


class PublishedPartition(EliminationLearner[LaplaceReports]):
    """The paper's learner.

    With sums U and V over the t people since a leaf was made: estimate V / U (13), radius
    `r = sqrt(C_n max(t / epsilon^2, U)) / |U|` with C_n = confidence_constant x log(n) (14). An arm
    is given up once t >= log(n)^2 and its upper bound estimate + 2 r lies below another's
    estimate - 2 r (16); a leaf is split when r < 2 sqrt(d) 2^(-depth/d) for an active arm (17).

    From the first source on that is opened, estimates and radii are those of Algorithm 3
    (`several_sources`). Sources share the target's bins and are used in the order in which they
    report; their reports on a leaf are discarded once it is split. Algorithm 3 takes all of them
    before the target's first person; here they may also report while the target runs, since (26)
    and (28) do not ask which came first (the multi-task setting that the paper's section 5
    outlines). n is the largest of the horizon, `source_horizon` and the number of people that any
    source has had so far.

    Args:
        confidence_constant: c in C_n = c log(n); the paper leaves its value to the supplement.
        source_horizon: the number of people of the largest source, where it is known beforehand.
        horizon, batch_size: see `EliminationLearner`; a batch of 1 is the paper to the letter.
    """

    name: ClassVar[str] = "published_partition"
    trust_models: ClassVar[tuple[str, ...]] = ("local", "shuffled")
    reports_type = LaplaceReports
    takes_sources: ClassVar[bool] = True

    def __init__(
        self,
        domain: Box,
        arms: Arms,
        budget: Local,
        *,
        confidence_constant: float = 1.0,
        source_horizon: int = 0,
        batch_size: int = 100,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(domain, arms, budget, batch_size=batch_size, **common)
        self.confidence_constant = positive_number(confidence_constant, "confidence_constant")
        self.source_horizon = whole_number(source_horizon, "source_horizon")

    @property
    def log_people(self) -> float:
        """log(n)."""
        people = [source.people for source in self._sources.values()]
        largest = [self.source_horizon, *people] if people else []
        return math.log(max(self.expected, 2, *largest))

    def _statistics(self, policy: EliminationPolicy, reports: LaplaceReports) -> CellSums:
        return policy.sums(reports)

    # Sources.

    def _source_batch(self, source: Stream[EliminationPolicy, CellSums]) -> int:
        return self.batch_size

    def _publish_source(self, source: Stream[EliminationPolicy, CellSums]) -> EliminationPolicy:
        self._decide()
        return EliminationPolicy(**self.policy_header(source), bins=self._bins)

    # Rules.

    def _bounds(self, leaves: IntArray, sums: CellSums) -> tuple[FloatArray, FloatArray]:
        """(L, K) estimates, and radii: infinity where nothing is known or the arm is given up."""
        constant = self.confidence_constant * self.log_people
        if self._sources:  # (26), (28)
            sources, nodes = self._sources.values(), len(self._bins.tree)
            everyone = [sums, *(source._sums.grown(nodes) for source in sources)]
            estimate, radius = several_sources(
                np.array(
                    [
                        self.budget.contribution_epsilon,
                        *(source.budget.epsilon for source in sources),
                    ]
                ),
                np.stack([known.times[leaves] for known in everyone]),
                np.stack([known.chosen[leaves] for known in everyone]),
                np.stack([known.rewards[leaves] for known in everyone]),
                self.log_people,
                constant,
            )
            return estimate, np.where(self._bins.active, radius, np.inf)
        chosen, times = sums.chosen[leaves], sums.times[leaves][:, None]
        spread = np.maximum(times / self.budget.contribution_epsilon**2, chosen)
        known = self._bins.active & (chosen != 0.0)
        radius = np.full(chosen.shape, np.inf)
        np.divide(np.sqrt(constant * spread), np.abs(chosen), out=radius, where=known)
        estimate = np.divide(
            sums.rewards[leaves], chosen, out=np.zeros_like(chosen), where=chosen != 0.0
        )
        return estimate, radius  # (13), (14)

    def _beaten(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        estimate, radius = self._bounds(leaves, sums)
        lower = np.where(np.isfinite(radius), estimate - 2.0 * radius, -np.inf)
        upper = np.where(np.isfinite(radius), estimate + 2.0 * radius, np.inf)
        beaten: BoolArray = upper < lower.max(axis=1, keepdims=True)
        if self._sources:  # (29); the weights see to it that there were enough people.
            return beaten
        explored = sums.times[leaves] >= self.log_people**2
        return beaten & explored[:, None]  # (16)

    def _known(self, leaves: IntArray, sums: CellSums) -> BoolArray:
        dimension = self.domain.dimension
        depth = self._bins.tree.depth[leaves]
        error = 2.0 * math.sqrt(dimension) * 2.0 ** (-depth / dimension)
        sharp = self._bounds(leaves, sums)[1] < error[:, None]
        return np.asarray(sharp.any(axis=1))
