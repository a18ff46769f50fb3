"""Learners and budgets by name, as study files and saved files use them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Unpack

from discreet.action_space import ActionSpace
from discreet.domain import Box
from discreet.learners.base import Common, Learner
from discreet.learners.baselines.abse import Abse
from discreet.learners.baselines.exact_gp_ucb import ExactGPUCB
from discreet.learners.baselines.gradients.linear import PrivateLinear
from discreet.learners.baselines.gradients.neural import PrivateNeural
from discreet.learners.baselines.uniform import Uniform
from discreet.learners.epochs.capri import Capri
from discreet.learners.epochs.released_thompson import ReleasedThompson
from discreet.learners.epochs.usca import Usca
from discreet.learners.gp_ucb.learner import GPUCB
from discreet.learners.local_kernel.learner import LocalKernel
from discreet.learners.partition.learner import Partition
from discreet.learners.partition.published import PublishedPartition
from discreet.privacy import Budget, Joint, Local, NonPrivate, Outsourced
from discreet.validation import InvalidInput, nearest

LEARNERS: dict[str, type[Learner[Any, Any, Any]]] = {
    kind.name: kind
    for kind in (
        LocalKernel,
        Partition,
        PublishedPartition,
        GPUCB,
        ReleasedThompson,
        Capri,
        Usca,
        ExactGPUCB,
        PrivateLinear,
        PrivateNeural,
        Abse,
        Uniform,
    )
}

_BUDGETS: dict[str, type[Budget]] = {
    kind.trust_model: kind for kind in (Local, Joint, Outsourced, NonPrivate)
}


def learner_class(name: str) -> type[Learner[Any, Any, Any]]:
    """The learner registered under `name`."""
    if name not in LEARNERS:
        known = sorted(LEARNERS)
        raise InvalidInput(
            f"the learner {name!r} is unknown; known are {', '.join(known)}.{nearest(name, known)}"
        )
    return LEARNERS[name]


def make_learner(
    name: str,
    domain: Box,
    arms: ActionSpace,
    budget: Budget,
    *,
    options: Mapping[str, Any] | None = None,
    **common: Unpack[Common],
) -> Learner[Any, Any, Any]:
    """A new learner from its name and the options of a study file.

    Raises:
        InvalidInput: an unknown learner or option, or a budget that the learner does not take.
    """
    kind = learner_class(name)
    return kind(domain, arms, budget, **common, **kind.read_options(options or {}))


def budget_to_fields(budget: Budget) -> dict[str, Any]:
    """A budget as JSON values."""
    if isinstance(budget, NonPrivate):
        return {"trust_model": budget.trust_model}
    return {"trust_model": budget.trust_model, **vars(budget)}


def budget_from_fields(fields: Mapping[str, Any]) -> Budget:
    """The inverse of `budget_to_fields`; `InvalidInput` for an unknown trust model or field."""
    rest = dict(fields)
    trust_model = rest.pop("trust_model", None)
    if trust_model not in _BUDGETS:
        raise InvalidInput(
            f"the trust model was {trust_model!r}; it must be one of {', '.join(_BUDGETS)}."
        )
    kind = _BUDGETS[trust_model]
    allowed = list(inspect.signature(kind).parameters)
    if not set(rest) <= set(allowed):
        raise InvalidInput(
            f"the trust model {trust_model} got {', '.join(sorted(rest))}; it takes "
            f"{', '.join(allowed)}."
        )
    needed = inspect.signature(kind).parameters.values()
    missing = [one.name for one in needed if one.default is one.empty and one.name not in rest]
    if missing:
        raise InvalidInput(
            f"{missing[0]} is missing, which the trust model {trust_model} needs; give "
            f"{', '.join(allowed)} (a delta of 0 for learners whose releases are pure)."
        )
    return kind(**rest)
