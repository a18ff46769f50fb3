"""Learners by name, as study files and saved files use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Unpack

from discreet.action_space import ActionSpace
from discreet.domain import Box
from discreet.learners.base import Common, Learner
from discreet.privacy import Budget
from discreet.validation import InvalidInput, nearest


class _Learners(Mapping[str, type[Learner[Any, Any, Any]]]):
    """Learners by name; the module of one is imported when it is asked for."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> type[Learner[Any, Any, Any]]:
        module, attribute = self._homes[name].split(":")
        kind: type[Learner[Any, Any, Any]] = getattr(
            import_module(f"discreet.learners.{module}"), attribute
        )
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


LEARNERS = _Learners(
    {
        "local_kernel": "local_kernel.learner:LocalKernel",
        "partition": "partition.learner:Partition",
        "published_partition": "partition.published:PublishedPartition",
        "gp_ucb": "gp_ucb.learner:GPUCB",
        "released_thompson": "epochs.released_thompson:ReleasedThompson",
        "capri": "epochs.capri:Capri",
        "usca": "epochs.usca:Usca",
        "exact_gp_ucb": "baselines.exact_gp_ucb:ExactGPUCB",
        "private_linear": "baselines.gradients.learner:PrivateLinear",
        "private_neural": "baselines.gradients.learner:PrivateNeural",
        "abse": "baselines.abse:Abse",
        "uniform": "baselines.uniform:Uniform",
    }
)


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
