"""All specimens."""

from __future__ import annotations

from discreet.audit.games import Check
from discreet.audit.specimens import (
    classical_gaussian,
    column_space,
    lemma_5,
    own_bin,
    restart,
    reused_seed,
    scale_of_data,
    silent_bin,
)


def specimen_checks() -> list[Check]:
    """One check for every specimen, two for Lemma 5."""
    return [
        own_bin.check(),
        column_space.check(),
        *lemma_5.checks(),
        classical_gaussian.check(),
        restart.check(),
        scale_of_data.check(),
        silent_bin.check(),
        reused_seed.check(),
    ]
