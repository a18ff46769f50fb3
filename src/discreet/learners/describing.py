"""What a learner says of itself: public facts, whatever it knows of people."""

from __future__ import annotations

from typing import Any

from discreet.codec import described
from discreet.people.domain import arm_count


def learner_text(learner: Any) -> str:
    """What a `Learner` is and, in a second line, how far: reports, version, what it holds."""
    name = type(learner).__name__
    if "_stream_of_target" not in vars(learner):
        return f"{name}(..)"  # while it is being made
    arms = arm_count(learner.space)
    what = described(
        name,
        arms=arms,
        actions=type(learner.space).__name__ if arms is None else None,
        columns=list(learner.domain.names),
        budget=learner.budget,
    )
    with learner.lock:
        policies, people = learner._policies, learner.people
        if not policies:
            return f"{what}\nno policy published yet"
        held = learner.guarantee().held
    return f"{what}\n{people:,} reports so far, policy {policies[-1].version}; {held}"
