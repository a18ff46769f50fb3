"""Learners by name, as study files and saved files use them.

A name is one of the table below, or one that an installed package announces in its metadata (as
this one does for the learners of `papers`, which stand above the library),

    [project.entry-points."discreet.learners"]
    my_learner = "my_package.my_module:MyLearner"

    [project.entry-points."discreet.messages"]
    my-policy = "my_package.my_module"

or `module:Class` for a class that can be imported from the folder where discreet was started.

`usual_learner` is for studies that name none. It reads public declarations alone: trust model,
action space, numbers of arms, columns and people, and whether a kernel is given. It never sees
data, so the choice costs no privacy. The first rule of `_RULES` that fits decides; reports repeat
its reason. The rules are justified in docs/design/0004.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from typing import Any, Unpack

from discreet.learners.base import Common, Learner
from discreet.people.domain import (
    ActionSpace,
    Arms,
    Box,
    DecisionSets,
    PublicBox,
    PublicSet,
    arm_count,
)
from discreet.privacy import Budget
from discreet.validation import InvalidInput, instance_of, nearest

GROUP = "discreet.learners"
_HOMES = {
    "kernel": "discreet.learners.kernel.learner:LocalKernel",
    "partition": "discreet.learners.partition.learner:Partition",
    "gp_ucb": "discreet.learners.gp_ucb.learner:GPUCBLearner",
    "private_glm": "discreet.learners.glm.learner:PrivateGLM",
    "capri": "discreet.learners.epochs.capri:Capri",
    "usca": "discreet.learners.epochs.usca:Usca",
    "best_arm": "discreet.learners.references.best_arm:BestArm",
    "uniform": "discreet.learners.references.uniform:Uniform",
    "highest": "discreet.learners.references.highest:Highest",
}

# Names that stand for several classes, by kind of action space or by trust model.
_VARIANTS: dict[str, dict[type[Any] | str, str]] = {
    "gp_ucb": {
        DecisionSets: "discreet.learners.gp_ucb.sets.learner:SetsGPUCB",
        PublicSet: "discreet.learners.gp_ucb.public.learner:PublicGPUCB",
        PublicBox: "discreet.learners.gp_ucb.public.learner:PublicGPUCB",
    },
    "kernel": {"joint": "discreet.learners.kernel.joint:JointKernel"},
    "best_arm": {"joint": "discreet.learners.references.best_arm:JointBestArm"},
}
# Other names of learners.
_ALIASES = {"local_kernel": "kernel"}


class _Learners(Mapping[str, type[Learner[Any, Any, Any]]]):
    """Learners by name, of the library and announced; a module is imported at the first use."""

    def __getitem__(self, name: str) -> type[Learner[Any, Any, Any]]:
        name = _ALIASES.get(name, name)
        return _imported(_HOMES[name] if name in _HOMES else announced()[name])

    def __iter__(self) -> Iterator[str]:
        return iter({**_HOMES, **announced()})

    def __len__(self) -> int:
        return len({**_HOMES, **announced()})


LEARNERS = _Learners()


def learner_class(name: str, others: Iterable[str] = ()) -> type[Learner[Any, Any, Any]]:
    """The learner of that name (see the module).

    Args:
        name: as in a study file.
        others: what else a user could have meant, for the message.

    Raises:
        InvalidInput: where there is none of that name.
    """
    instance_of(name, "the name of a learner", str, "a text")
    if name in LEARNERS:
        return LEARNERS[name]
    if ":" in name:
        return _imported(name)
    known = sorted({*LEARNERS, *others})
    raise InvalidInput(
        f"the learner {name!r:.80} is unknown; known are {', '.join(known)}, and module:Class for "
        f"one of your own.{nearest(name, known)}"
    )


def variant(
    kind: type[Learner[Any, Any, Any]], space: object, trust_model: str
) -> type[Learner[Any, Any, Any]]:
    """The class registered under the name of `kind` for a trust model and a space (None: any).

    For most names that is `kind` itself.

    Raises:
        InvalidInput: where the name has a class for each kind of space, and none for this one.
    """
    homes = _VARIANTS.get(registered_name(kind), {})
    home = homes.get(type(space)) or homes.get(trust_model)
    if home is None and space is not None and isabstract(kind):
        allowed = ", ".join(each.__name__ for each in kind.spaces)
        raise InvalidInput(f"the action space was {space!r:.80}; {kind.name} takes {allowed}.")
    return kind if home is None else _imported(home)


@cache
def announced() -> dict[str, str]:
    """The `module:Class` of every learner that an installed package announces, by its name."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def class_in_file(name: str) -> type[Learner[Any, Any, Any]]:
    """The learner of that name, where a file says it: no module is imported because of a file,
    unless it is part of this package or an installed one announces it.

    Raises:
        InvalidInput: where there is none of that name, or its module was not imported.
    """
    module = name.partition(":")[0]
    if ":" in name and module not in sys.modules and name not in announced().values():
        raise InvalidInput(
            f"the file is of the learner {name!r:.80}, which is not part of discreet; import "
            f"{module:.80} yourself before you load it, if you trust where it comes from."
        )
    return learner_class(name)


def registered_name(kind: type[Learner[Any, Any, Any]]) -> str:
    """The name by which `learner_class` finds a class."""
    home = f"{kind.__module__}:{kind.__qualname__}"
    homes = _HOMES.get(kind.name), announced().get(kind.name)
    return kind.name if home in (*homes, *_VARIANTS.get(kind.name, {}).values()) else home


def _imported(home: str) -> type[Learner[Any, Any, Any]]:
    """The class at `module:Class`."""
    kind = imported(home, "the learner")
    if not isinstance(kind, type) or not issubclass(kind, Learner):
        raise InvalidInput(f"{home} is {kind!r:.80}; it must be a subclass of Learner.")
    return kind


def imported(home: str, what: str) -> Any:
    """The object at `module:name`; the module may lie in the folder where discreet was started.

    Args:
        home: `module:name`.
        what: what messages call it, such as "the learner".

    Raises:
        InvalidInput: where it cannot be imported, whatever its module raises.
    """
    module, _, attribute = home.partition(":")
    if module.startswith("."):
        raise InvalidInput(
            f"{what} {home!r:.80} cannot be imported, as its module begins with a dot; name the "
            "module in full, such as mine:Name or package.mine:Name."
        )
    if "" not in sys.path:
        sys.path.append("")  # as for python -m: modules beside a study file
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"{what} {home!r:.80} cannot be imported ({error}); start discreet in the folder "
            "of its module, or install its package."
        ) from error
    except Exception as error:  # a user's module may raise anything
        raise InvalidInput(
            f"{what} {home!r:.80} cannot be imported ({type(error).__name__}: "
            f"{error!s:.200}); its module fails when it is imported: mend it."
        ) from error


def make_learner(
    name: str,
    domain: Box,
    arms: ActionSpace | Arms,
    budget: Budget,
    *,
    options: Mapping[str, Any] | None = None,
    **common: Unpack[Common],
) -> Learner[Any, Any, Any]:
    """A new learner from its name and the options of a study file.

    Raises:
        InvalidInput: an unknown learner or option, or a budget that the learner does not take.
    """
    kind = variant(learner_class(name), arms, getattr(budget, "trust_model", ""))
    return kind(domain, arms, budget, **common, **kind.read_options(options or {}))


# The learner that a study gets where it names none.


@dataclass(frozen=True)
class Declared:
    """What is public about a problem before the first person comes.

    Attributes:
        trust_model: local, shuffled, joint or none.
        space: what people can be given.
        columns: of a context, or of a point.
        people: how many are expected.
        kernel: whether the study says how alike contexts and arms are.
        indicators: how many of the columns are indicators of a number.
    """

    trust_model: str
    space: ActionSpace
    columns: int
    people: int
    kernel: bool = False
    indicators: int = 0

    @property
    def arms(self) -> int | None:
        """The number of arms; None where actions are points."""
        return arm_count(self.space)


@dataclass(frozen=True)
class Choice:
    """A learner's registered name, and why it was chosen."""

    learner: str
    reason: str


# Kernel takes no more than _MOST_COLUMNS.
_MANY_COLUMNS, _MOST_COLUMNS, _MANY_ARMS = 6, 32, 60
# Trust models in which private reports leave people.
_REPORTED = ("local", "shuffled")
_RULES: tuple[tuple[Callable[[Declared], bool], Choice], ...] = (
    (
        lambda declared: (
            isinstance(declared.space, DecisionSets) and declared.trust_model in _REPORTED
        ),
        Choice(
            "private_glm",
            "each person reports few numbers, so that little noise hides what tells their points "
            "apart",
        ),
    ),
    (
        lambda declared: declared.arms is None,
        Choice("gp_ucb", "actions are points, which it compares by a kernel"),
    ),
    (
        lambda declared: declared.kernel,
        Choice(
            "kernel",
            "a kernel says how alike contexts and arms are, so a reward tells about its neighbours",
        ),
    ),
    (
        lambda declared: (
            declared.trust_model == "joint"
            and declared.columns <= _MOST_COLUMNS
            and (declared.arms or 0) <= _MANY_ARMS
        ),
        Choice(
            "kernel",
            "under joint privacy it alone estimates the distribution of contexts",
        ),
    ),
    (
        lambda declared: declared.trust_model == "joint",
        Choice("best_arm", "kernel takes at most 32 columns, and minutes for more than 60 arms"),
    ),
    (
        lambda declared: (
            declared.columns > _MOST_COLUMNS
            or (
                declared.trust_model in _REPORTED
                and declared.columns - declared.indicators > _MANY_COLUMNS
            )
        ),
        Choice("partition", "of many columns it cuts those that matter, in little time"),
    ),
    (
        lambda declared: True,
        Choice(
            "kernel",
            "it learns most reward functions from the fewest people; try partition as well at "
            "epsilon 4 and more, and where the best arm changes within a tenth of a column's range",
        ),
    ),
)


def usual_learner(declared: Declared) -> Choice:
    """The learner for what was declared, and the reason."""
    return next(choice for fits, choice in _RULES if fits(declared))


def usual_trust_model(space: ActionSpace) -> str:
    """The trust model of a study that names none: local, and joint where actions are points,
    because local noise leaves little to learn from there."""
    return "joint" if arm_count(space) is None else "local"
