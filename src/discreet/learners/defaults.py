"""The learner that a study gets where it names none.

`usual_learner` reads public declarations alone: whom people trust, what can be chosen, how many
arms, columns and people there are, and whether a kernel is given. It never sees data, so the
choice costs no privacy. The first rule of `_RULES` that fits decides; each carries its reason,
which reports repeat. Where the rules come from: docs/design/0004.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from discreet.people.domain import ActionSpace, ArmPoints, DecisionSets, arm_count


@dataclass(frozen=True)
class Declared:
    """What is public about a problem before the first person comes.

    Attributes:
        trust_model: local, joint or none.
        space: what people can be given.
        columns: of a context, or of a point.
        people: how many are expected.
        kernel: whether the study says how alike contexts and arms are.
    """

    trust_model: str
    space: ActionSpace
    columns: int
    people: int
    kernel: bool = False

    @property
    def arms(self) -> int | None:
        """The number of arms; None where actions are points."""
        return arm_count(self.space)


@dataclass(frozen=True)
class Choice:
    """A learner's registered name, and why it was chosen."""

    learner: str
    reason: str


@dataclass(frozen=True)
class _Rule:
    fits: Callable[[Declared], bool]
    choice: Choice


_MANY_COLUMNS = 6
_RULES = (
    _Rule(
        lambda declared: (
            isinstance(declared.space, DecisionSets) and declared.trust_model == "local"
        ),
        Choice(
            "private_glm",
            "each person reports few numbers, so that little noise hides what tells their points "
            "apart",
        ),
    ),
    _Rule(
        lambda declared: declared.arms is None,
        Choice("gp_ucb", "actions are points, which it compares by a kernel"),
    ),
    _Rule(
        lambda declared: isinstance(declared.space, ArmPoints) or declared.kernel,
        Choice(
            "released_thompson",
            "a kernel says how alike contexts and arms are, so a reward tells about its neighbours",
        ),
    ),
    _Rule(
        lambda declared: declared.trust_model == "joint",
        Choice(
            "released_thompson",
            "of the learners of arms under joint privacy it loses least, because an arm that was "
            "unlucky can come back",
        ),
    ),
    _Rule(
        lambda declared: declared.columns > _MANY_COLUMNS,
        Choice("partition", "of many columns it cuts those that matter, in little time"),
    ),
    _Rule(
        lambda declared: True,
        Choice(
            "local_kernel",
            "it learns most surfaces from the fewest people; try partition as well where arms "
            "change places within a tenth of one of several columns",
        ),
    ),
)


def usual_learner(declared: Declared) -> Choice:
    """The learner for what was declared, and the reason."""
    return next(rule.choice for rule in _RULES if rule.fits(declared))


def usual_trust_model(space: ActionSpace) -> str:
    """Whom people trust where a study does not say: nobody, or for points a learner that may see
    their reports, because noise on every report leaves little to learn from there."""
    return "joint" if arm_count(space) is None else "local"
