"""Everything that `discreet audit` knows by name."""

from __future__ import annotations

from discreet.audit.composition import composition_checks
from discreet.audit.games import Check
from discreet.audit.learners import learner_checks
from discreet.audit.mechanisms import mechanism_checks
from discreet.audit.outsourced import outsourced_checks
from discreet.audit.specimens.registry import specimen_checks
from discreet.validation import InvalidInput

ALL = "all"
_KINDS = {"mechanisms": "mechanism", "learners": "learner", "specimens": "specimen"}


def all_checks() -> list[Check]:
    """Mechanisms, learners and specimens, in this order."""
    mechanisms = [*mechanism_checks(), *composition_checks(), *outsourced_checks()]
    return [*mechanisms, *learner_checks(), *specimen_checks()]


def checks_named(name: str) -> list[Check]:
    """The checks that a name means.

    Args:
        name: `all`; `mechanisms`, `learners` or `specimens`; a check's whole name; or what stands
            before its first comma, as `gp_ucb`.

    Raises:
        InvalidInput: for a name that means none.
    """
    known = all_checks()
    found = [
        check
        for check in known
        if name in (ALL, check.name, check.name.split(",")[0]) or _KINDS.get(name) == check.kind
    ]
    if not found:
        groups = dict.fromkeys(check.name.split(",")[0] for check in known)
        raise InvalidInput(
            f"there is nothing called {name!r} to audit; name a study file (.toml), {ALL}, "
            f"{', '.join(_KINDS)}, or one of {', '.join(groups)}."
        )
    return found
