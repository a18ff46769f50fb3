"""A shuffler: holds private reports until a group is whole, and passes it on in random order.

    shuffler = Shuffler(learner.terms().group_size)
    for group in shuffler.add(reports, policy.digest):     # of one person or many
        learner.update(group)

People trust its operator not to conspire with the learner's; in one process with the learner it is
for simulations. The reports that it keeps are private by themselves, with the report epsilon.
The group of a report follows from its policy and its time of arrival, which must not depend on the
data. Reports that never fill a group are never passed on.
"""

from __future__ import annotations

import secrets

import numpy as np

from discreet.learners.messages import Reports
from discreet.validation import IntArray, InvalidInput, whole_number


class Shuffler:
    """Groups of reports in random order.

    Args:
        group: how many reports are passed on together.
        rng: draws the order; leave it out for people, whose order the system's randomness draws.
    """

    def __init__(self, group: int, rng: np.random.Generator | None = None) -> None:
        if not isinstance(rng, np.random.Generator | None):
            raise InvalidInput(
                f"rng was {rng!r:.80}; pass numpy.random.default_rng(), or leave it."
            )
        self.group = whole_number(group, "group", minimum=1)
        self._rng = rng
        self._held: dict[tuple[object, ...], Reports] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __repr__(self) -> str:
        return f"Shuffler(group={self.group}, held={len(self)})"

    def add(self, reports: Reports, digest: str) -> list[Reports]:
        """Take reports, and return the groups that are whole with them, in which each of their
        orders is equally likely.

        Args:
            reports: of one policy.
            digest: of that policy, as their senders know it: a learner that shows one person
                another policy of the same version would single them out.

        Raises:
            InvalidInput: for anything but reports, of which then none is taken.
        """
        if not isinstance(reports, Reports):
            raise InvalidInput(
                f"reports was {reports!r:.80}; pass what policy.report() made, of one policy."
            )
        rows = ((name, each.shape[1:], each.dtype.str) for name, each in reports._rows().items())
        key = digest, reports.policy_version, reports.source, reports.noise, reports.kind, *rows
        held = self._held.get(key)
        all_of_them = reports if held is None else type(reports).joined([held, reports])
        whole = len(all_of_them) // self.group * self.group
        groups = [all_of_them.of(start + self._order()) for start in range(0, whole, self.group)]
        self._held.pop(key, None)
        if whole < len(all_of_them):
            self._held[key] = all_of_them.of(np.arange(whole, len(all_of_them)))
        return groups

    def _order(self) -> IntArray:
        if self._rng is not None:
            return self._rng.permutation(self.group)
        order = list(range(self.group))
        secrets.SystemRandom().shuffle(order)
        return np.array(order)
