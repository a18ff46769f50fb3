"""What requests hold; the store checks what only it can check."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from discreet.service.intake import MOST_REPORTS
from discreet.service.keys import Role

Name = Annotated[str, Field(min_length=1, max_length=100)]


class Body(BaseModel):
    """An object with just these fields, of just these types."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class ReportsBody(Body):
    """Reports as `encode` made them, as texts or objects."""

    reports: Annotated[list[str | dict[str, Any]], Field(min_length=1, max_length=MOST_REPORTS)]
    ids: Annotated[list[int], Field(max_length=MOST_REPORTS)] | None = None


class DecisionBody(Body):
    """A person who comes, or a decision set."""

    context: Any = None
    person: Name | None = None


class RewardBody(Body):
    """What followed."""

    reward: float


class StateBody(Body):
    """The state that a study shall be in."""

    state: Literal["running", "paused", "finished"]


class KeyBody(Body):
    """A key to be made."""

    role: Role
    study: Name | None = None
    label: Annotated[str, Field(max_length=100)] = ""
