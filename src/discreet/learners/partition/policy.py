"""The partition learner's policy and reports: what runs on a person's side.

*Public arms.* A ticket, drawn before anyone looks at the person, and the policy fix one arm for
every open bin. Given the bin, the arm is public, so what must be protected is only (bin, reward):
the person looks up their bin, takes the arm offered there, turns the reward into a sign by
randomised rounding, and reports (bin, sign) by signed subset selection. All resolved bins, where
one arm is left, count as one bin whose sign is always +.

*Claim.* For a ticket drawn without looking at the person, any two contexts in the domain and
rewards in their bounds, with the arms that follow, make no report more than e^epsilon times as
likely under one as under the other: the mechanism sees one of 2J values and reaches e^epsilon.
What it does not cover: tickets drawn again until the arm pleases, a second report (it costs a
second epsilon), actions that others can watch (the ticket tells which bins fit an arm), and
silence: a person who refuses to report because of their data reveals something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from discreet.learners.messages import TICKETS, Actions, ArmPolicy, Reports
from discreet.learners.partition.bins import Bins
from discreet.learners.partition.statistics import TARGET, NodeSums, PartitionStatistics
from discreet.learners.partition.tree import Tree
from discreet.learners.public_randomness import public_uniforms
from discreet.privacy import NoiseSource, Release
from discreet.privacy.accounting import PureEvent
from discreet.privacy.frequency import SignedSubsetSelection, round_to_signs
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    SignArray,
    TicketArray,
    positive_number,
    read_array,
    whole_vector,
)

# People are counted in portions of this many (person, bin) pairs, which bounds memory.
_CELLS_AT_ONCE = 2**21


@dataclass(frozen=True, eq=False)
class PartitionReports(Reports):
    """Reports of n people: their tickets, and m reported bins with signs each.

    Attributes:
        tickets: (n,) public tickets.
        bins: (n, m) reported bins of the policy that made them, increasing in each row.
        signs: (n, m) their signs, -1 or +1.
    """

    kind: ClassVar[str] = "partition-reports"

    tickets: TicketArray
    bins: IntArray
    signs: SignArray

    def __len__(self) -> int:
        return len(self.tickets)

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.origin_fields(),
            "tickets": self.tickets.tolist(),
            "bins": self.bins.tolist(),
            "signs": self.signs.tolist(),
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        tickets = whole_vector(fields["tickets"], "tickets", 0, TICKETS - 1)
        return cls(
            **cls.read_origin(fields),
            tickets=tickets.astype(np.uint64),
            bins=read_array(fields["bins"], "bins", "whole", 2),
            signs=read_array(fields["signs"], "signs", "whole", 2).clip(-2, 2).astype(np.int8),
        )


@dataclass(frozen=True, eq=False)
class PartitionPolicy(ArmPolicy):
    """A tree, and for each of its leaves the probabilities with which arms are offered there.

    Attributes:
        tree: the partition.
        active: (L, K) the arms left in each leaf, in the order of `tree.leaves`.
        offers: (L, K) the probabilities with which arms are offered there.
        epsilon: budget of one report; infinity for a non-private reference.
    """

    kind: ClassVar[str] = "partition-policy"

    tree: Tree
    active: BoolArray
    offers: FloatArray
    epsilon: float

    def regions(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The boxes of [0, 1]^d where people are treated alike: their lower and upper corners
        (L, d), and the arms (L, K) that are left there."""
        leaves = self.tree.leaves
        return self.tree.lower[leaves], self.tree.upper[leaves], self.active

    @cached_property
    def open_leaves(self) -> BoolArray:
        """(L,) whether more than one arm is left."""
        return np.asarray(self.active.sum(axis=1) > 1)

    @cached_property
    def open_nodes(self) -> IntArray:
        """(J',) the nodes of the open bins; bin j of a report is the j-th of them."""
        nodes: IntArray = self.tree.leaves[self.open_leaves]
        return nodes

    @cached_property
    def mechanism(self) -> SignedSubsetSelection:
        """Signed subset selection over the open bins, and one for all resolved leaves."""
        bins = len(self.open_nodes) + int(not self.open_leaves.all())
        return SignedSubsetSelection.best(bins, self.epsilon)

    @cached_property
    def _bin_of_leaf(self) -> IntArray:
        bins: IntArray = np.full(len(self.open_leaves), len(self.open_nodes))
        bins[self.open_leaves] = np.arange(len(self.open_nodes))
        return bins

    @cached_property
    def _thresholds(self) -> FloatArray:
        """(L, K) cumulative probabilities; the last is 1 exactly."""
        cumulative = np.cumsum(self.offers, axis=1)
        # From the last arm that is offered on the sum is 1, whatever was lost in rounding, so an
        # arm of probability 0 is never reached.
        last = self.arms - 1 - np.argmax(self.offers[:, ::-1] > 0.0, axis=1)
        cumulative[np.arange(self.arms) >= last[:, None]] = 1.0
        return cumulative

    def offered(self, tickets: TicketArray, leaves: IntArray) -> IntArray:
        """The arm that a ticket offers in a leaf (position among `tree.leaves`), broadcasting."""
        nodes: IntArray = self.tree.leaves[leaves]
        uniforms = public_uniforms(self.public_seed, self.version, tickets, nodes)
        thresholds = self._thresholds[leaves]
        arms = np.zeros(uniforms.shape, dtype=np.int64)
        for k in range(self.arms - 1):
            arms += uniforms >= thresholds[..., k]
        return arms

    def _probabilities(self, unit: FloatArray) -> FloatArray:
        offers: FloatArray = self.offers[self.tree.leaf_position[self.tree.locate(unit)]]
        return offers

    def _choose(self, unit: FloatArray, tickets: TicketArray) -> tuple[IntArray, FloatArray]:
        leaves = self.tree.leaf_position[self.tree.locate(unit)]
        arms = self.offered(tickets, leaves)
        return arms, self.offers[leaves, arms]

    @property
    def reports_are_private(self) -> bool:
        return True

    def _report(
        self, unit: FloatArray, actions: Actions, rewards: FloatArray, noise: NoiseSource
    ) -> PartitionReports:
        leaves = self.tree.leaf_position[self.tree.locate(unit)]
        bins = self._bin_of_leaf[leaves]
        signs = round_to_signs(rewards, noise)
        signs[~self.open_leaves[leaves]] = 1
        chosen, reported = self.mechanism.privatise(bins, signs, noise)
        return PartitionReports(
            **self.origin(noise.name), tickets=actions.tickets, bins=chosen, signs=reported
        )

    def release(self, noise: str) -> Release | None:
        mechanism = self.mechanism
        values = 2 * mechanism.bins
        return Release(
            mechanism=f"signed subset selection, {mechanism.size} of {mechanism.bins} bins",
            event=PureEvent(mechanism.epsilon),
            sensitivity=1.0,
            sensitivity_source=f"any two of the {values} values (bin, sign) are neighbours",
            scale=mechanism.epsilon,
            people=self.group,
            data="the bin of the context and the sign of the rounded reward",
            noise=noise,
        )

    def sums(self, reports: PartitionReports) -> PartitionStatistics:
        """What checked reports of this policy add to the statistics."""
        mechanism = self.mechanism
        open_bins, arms, nodes = len(self.open_nodes), self.arms, len(self.tree)
        counts, signed = np.zeros((2, open_bins, arms))
        shown = np.zeros(open_bins)
        most = max(1, _CELLS_AT_ONCE // max(open_bins, 1))
        for start in range(0, len(reports), most):
            people = slice(start, start + most)
            part = self._count(reports.tickets[people], reports.bins[people], reports.signs[people])
            counts += part[0]
            signed += part[1]
            shown += part[2]

        sums = NodeSums.zeros(nodes, arms)
        at = self.open_nodes
        q, contrast, gain = mechanism.other_probability, mechanism.contrast, mechanism.mass_contrast
        own = mechanism.true_probability + mechanism.false_probability
        sums.offered[at] = counts
        sums.signed[at] = signed / contrast
        sums.noise_other[at] = counts * (2.0 * q / contrast**2)
        sums.noise_own[at] = counts * (own / contrast**2)
        if mechanism.bins > 1 and gain > 0.0:
            typical = 2.0 * q + gain / mechanism.bins
            variance = max(typical * (1.0 - typical), 1e-12)
            sums.mass_weight[at] = len(reports) * gain**2 / variance
            sums.mass_sum[at] = gain * (shown - len(reports) * 2.0 * q) / variance
        return PartitionStatistics(arms, {TARGET: sums}, reports=len(reports))

    def _count(
        self, tickets: TicketArray, bins: IntArray, signs: SignArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of some people: offers (J', K), sums of signs (J', K) and reports of each bin (J',)."""
        open_bins, arms = len(self.open_nodes), self.arms
        offered = self.offered(tickets[:, None], np.flatnonzero(self.open_leaves)[None, :])
        counts = np.stack([(offered == k).sum(axis=0) for k in range(arms)], axis=1)
        # Bins beyond the open ones stand for all resolved leaves; nothing is learnt there.
        used = bins < open_bins
        row = np.broadcast_to(np.arange(len(bins))[:, None], bins.shape)[used]
        cell = bins[used] * arms + offered[row, bins[used]]
        signed = np.bincount(cell, signs[used].astype(np.float64), minlength=open_bins * arms)
        shown = np.bincount(bins[used], minlength=open_bins)
        return (
            counts.astype(np.float64),
            signed.astype(np.float64).reshape(open_bins, arms),
            shown.astype(np.float64),
        )

    def check(self, reports: PartitionReports) -> None:
        """Refuse reports that this policy cannot have made."""
        shape = (len(reports), self.mechanism.size)
        bins, signs = reports.bins, reports.signs
        if bins.shape != shape or signs.shape != shape:
            raise InvalidInput(
                f"reports had bins of shape {bins.shape} and signs of shape {signs.shape}; under "
                f"policy {self.version} both must have shape {shape}."
            )
        if shape[0] == 0:
            raise InvalidInput("reports was empty; pass at least one report.")
        inside = ((bins >= 0) & (bins < self.mechanism.bins)).all()
        if not inside or (np.diff(bins, axis=1) <= 0).any():
            raise InvalidInput(
                f"reports had bins outside 0 .. {self.mechanism.bins - 1} or not increasing; under "
                f"policy {self.version} each names {self.mechanism.size} different bins in order."
            )
        if not (np.abs(signs) == 1).all():
            raise InvalidInput("reports had signs other than -1 and +1; a sign says up or down.")

    def to_fields(self) -> dict[str, Any]:
        return {
            **self.header(),
            "tree": self.tree.to_fields(),
            "active": self.active.tolist(),
            "offers": self.offers.tolist(),
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        header = cls.read_header(fields)
        bins = Bins.from_fields(fields, header["domain"].dimension, header["arms"])
        offers = read_array(fields["offers"], "offers", "number", 2)
        active, leaves = bins.active, len(bins.tree.leaves)
        proper = (
            offers.shape == active.shape == (leaves, header["arms"])
            and bool((offers >= 0.0).all())
            and bool((offers[~active] == 0.0).all())
            and bool(np.allclose(offers.sum(axis=1), 1.0, rtol=0.0, atol=1e-9))
        )
        if not proper:
            raise InvalidInput(
                f"the policy had offers of shape {offers.shape} for {leaves} leaves and "
                f"{header['arms']} arms; each leaf needs one row that adds up to 1 over its active "
                "arms."
            )
        epsilon = fields["epsilon"]
        return cls(
            **header,
            tree=bins.tree,
            active=active,
            offers=offers,
            epsilon=math.inf if epsilon is None else positive_number(epsilon, "epsilon"),
        )
