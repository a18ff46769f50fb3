"""What a person can be given: a few arms, or points of the public domain.

| action space     | what a person brings            | an action                              |
|------------------|---------------------------------|----------------------------------------|
| an int K, or K   | a context                       | one of K arms                          |
| names of arms    |                                 |                                        |
| `ArmPoints`      | a context                       | one of K arms, which are public points |
| `DecisionSets`   | their own finite set of points  | one of those points                    |
| `PublicSet`      | nothing                         | one of the same public points          |
| `PublicBox`      | nothing                         | any point of the domain                |

Decision sets depend on the person; all others are the same for everyone and public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.codec import ADDED, Coded, Range
from discreet.people.domain import Box
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    a_kind,
    finite_matrix,
    nearest,
    whole_number,
    whole_vector,
)

# The most arms that an exponential mechanism draws from.
MOST_ARM_POINTS = 65_536


# Names of arms, in the order of their numbers; () for arms without names.
ArmNames = tuple[Annotated[str, Range(1, 100)], ...]


@dataclass(frozen=True)
class _Points:
    """A finite set of public points of one or more coordinates each."""

    points: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        rows = [tuple(row) for row in self.points]
        array = finite_matrix(rows, "points", len(rows[0]) if rows else 0)
        object.__setattr__(self, "points", tuple(map(tuple, array.tolist())))

    @classmethod
    def of(cls, points: ArrayLike) -> Self:
        """The points at the rows of an array (k, d), or at k numbers."""
        array = np.asarray(points, dtype=np.float64)
        return cls(tuple(map(tuple, (array[:, None] if array.ndim == 1 else array).tolist())))

    def __len__(self) -> int:
        return len(self.points)

    @property
    def array(self) -> FloatArray:
        """(k, d) the points."""
        return np.array(self.points, dtype=np.float64)


@dataclass(frozen=True)
class ArmPoints(_Points):
    """K arms that are public points, such as doses: a kernel can tell how alike two of them are.

    Learners that know nothing of kernels take them as K arms. All points are different.

    Attributes:
        names: of the arms, or ().
    """

    names: ArmNames = field(default=(), metadata=ADDED)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", check_arm_names(self.names, len(self.points)))
        if len(self.points) < 2 or len(set(self.points)) < len(self.points):
            raise InvalidInput(
                f"arm points were {self.points!r:.80}; give at least two, all different."
            )

    @classmethod
    def of(cls, points: ArrayLike, names: Sequence[str] = ()) -> Self:
        """The arms at the rows of an array (k, d), or at k numbers, with their names."""
        return replace(super().of(points), names=tuple(names))

    @classmethod
    def grid(
        cls, lower: Sequence[float], upper: Sequence[float], counts: Sequence[int]
    ) -> ArmPoints:
        """A fine public grid in place of a box of arms: `counts` equally spaced values a column."""
        if not len(lower) == len(upper) == len(counts) or len(lower) == 0:
            raise InvalidInput(
                f"a grid of arms had {len(lower)} lower bounds, {len(upper)} upper bounds and "
                f"{len(counts)} counts; give one of each for every column."
            )
        box = Box(tuple(lower), tuple(upper))
        sizes = [whole_number(count, "counts", minimum=2) for count in counts]
        if math.prod(sizes) > MOST_ARM_POINTS:
            raise InvalidInput(
                f"counts were {sizes}, {math.prod(sizes)} arms in all; the largest number is "
                f"{MOST_ARM_POINTS}."
            )
        mesh = np.meshgrid(*(np.linspace(0.0, 1.0, size) for size in sizes), indexing="ij")
        return cls.of(box.from_unit(np.stack(mesh, axis=-1).reshape(-1, len(sizes))))


@dataclass(frozen=True)
class PublicSet(_Points):
    """The same finite set of points for everyone, in the units of the domain."""


@dataclass(frozen=True)
class DecisionSets(Coded):
    """Every person brings a finite set of points of the domain.

    Attributes:
        most: the largest number of points in one set.
    """

    most: Annotated[int, Range(1)]


@dataclass(frozen=True)
class PublicBox:
    """Every point of the domain, for everyone."""


ActionSpace = Annotated[int, Range(2)] | ArmPoints | DecisionSets | PublicSet | PublicBox
# How arms are given to a learner: their number, their names, or their points.
Arms = int | ArmPoints | Sequence[str]


def check_arm_names(names: Any, arms: int | None = None) -> ArmNames:
    """Names of arms as a tuple; `InvalidInput` unless each arm has a text of its own, or none."""
    given = tuple(names) if isinstance(names, Sequence) and not isinstance(names, str) else None
    proper = given is not None and all(isinstance(n, str) and 0 < len(n) <= 100 for n in given)
    if given == ():
        return ()
    if given is None or not proper or len(set(given)) < len(given) or len(given) < 2:
        raise InvalidInput(
            f"the names of arms were {names!r:.200}; give at least two different texts of 1 to 100 "
            'characters, such as ["call", "visit"].'
        )
    if arms is not None and len(given) != arms:
        raise InvalidInput(
            f"there were {len(given)} names, {', '.join(given)[:200]}, for {arms} arms; give one "
            "for each."
        )
    return given


def with_names(space: Any) -> tuple[Any, ArmNames]:
    """What can be chosen, and the names of its arms; a list of names is that many arms."""
    if isinstance(space, ArmPoints):
        return space, space.names
    if isinstance(space, Sequence) and not isinstance(space, str | bytes):
        names = check_arm_names(space)
        return len(names), names
    return space, ()


def arm_numbers(arms: Any, names: ArmNames) -> NDArray[Any]:
    """(n,) arms that may be given by name, as numbers; NaN for a name that no arm has. Without
    names the arms are returned as given."""
    if isinstance(arms, str):
        raise InvalidInput(f"arms was {arms!r:.80}; give one for each person, in a list.")
    given = np.asarray(arms)
    if not names or given.ndim != 1 or given.dtype.kind not in "UO":
        return given
    places = {name: place for place, name in enumerate(names)}
    if not any(isinstance(each, str) for each in given):
        return given
    numbers = [places.get(each, math.nan) if isinstance(each, str) else each for each in given]
    return np.array(numbers, dtype=object)


def arm_count(space: ActionSpace) -> int | None:
    """The number of arms, or None where actions are points of the domain."""
    if isinstance(space, int):
        return space
    return len(space) if isinstance(space, ArmPoints) else None


def whole_names(arms: Any, names: ArmNames, count: int) -> IntArray:
    """(n,) arms that may be given by name as numbers below `count`; `InvalidInput` for others."""
    numbers = arm_numbers(arms, names)
    if numbers.dtype.kind != "O":
        return whole_vector(numbers, "arms", 0, count - 1)
    wrong = [place for place, number in enumerate(numbers) if number != number]
    if wrong:
        given = np.asarray(arms, dtype=object)[wrong[0]]
        raise InvalidInput(
            f"arms was {given!r:.80} at position {wrong[0]}; it must be one of "
            f"{', '.join(names)}, or a number from 0 to {count - 1}.{nearest(given, names)}"
        )
    return whole_vector(numbers.tolist(), "arms", 0, count - 1)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Decision sets of n people, padded to c points each, the most that a set may have.

    This width is public, so scores do not depend, in their last bits, on how many points others
    bring.

    Attributes:
        points: (n, c, d) in the units of the domain; rows that are absent repeat the last one.
        present: (n, c) which rows are there.
    """

    points: FloatArray
    present: BoolArray

    def __len__(self) -> int:
        return len(self.points)

    @classmethod
    def read(cls, sets: Any, domain: Box, most: int) -> Candidates:
        """Decision sets as an array (n, c, d), or as a list of n arrays (c_i, d), data frames or
        lists of dictionaries.

        Raises:
            InvalidInput: no people, an empty or too large set, or points that are not finite or
                lie outside the domain.
        """
        array = sets if isinstance(sets, np.ndarray) else None
        if array is not None and array.ndim == 3 and array.dtype.kind in "biuf":
            people, count = array.shape[:2]
            _check_count(people, count, most, 0)
            domain.to_unit(array.reshape(people * count, -1))
            return cls._of_array(array.astype(np.float64), most)
        rows = []
        for person, points in enumerate(_one_each(sets, repr)):
            several = hasattr(points, "__len__") and not isinstance(points, Mapping)
            _check_count(1, len(points) if several else 1, most, person)
            domain.to_unit(points)
            rows.append(np.asarray(domain.in_order(points), dtype=np.float64))
        return cls._of_rows(rows, most)

    @classmethod
    def nearest(cls, sets: Any, domain: Box, most: int) -> Candidates:
        """Like `read`, but refuses shapes and types only: points outside the domain are moved to
        the nearest within, and of a set that is too large the first points count."""
        array = sets if isinstance(sets, np.ndarray) else None
        if array is not None and array.ndim == 3 and array.dtype.kind in "biuf" and array.size:
            flat = domain.nearest(array.reshape(-1, array.shape[2]))
            return cls._of_array(flat.reshape(array.shape)[:, :most], most)
        # The message holds nothing of a person.
        each = _one_each(sets, a_kind)
        return cls._of_rows([domain.nearest(points)[:most] for points in each], most)

    @classmethod
    def _of_array(cls, points: FloatArray, most: int) -> Candidates:
        people, count = points.shape[:2]
        places = np.minimum(np.arange(most), count - 1)
        present = np.broadcast_to(np.arange(most) < count, (people, most)).copy()
        return cls(points[:, places], present)

    @classmethod
    def _of_rows(cls, rows: Sequence[FloatArray], most: int) -> Candidates:
        points = np.stack([row[np.minimum(np.arange(most), len(row) - 1)] for row in rows])
        return cls(points, np.arange(most) < np.array([len(row) for row in rows])[:, None])


def _one_each(sets: Any, shown: Callable[[Any], str]) -> Sequence[Any]:
    """Decision sets that come one by one; `InvalidInput` unless there is one at least."""
    if not isinstance(sets, list | tuple | np.ndarray) or len(sets) == 0:
        raise InvalidInput(
            f"contexts was {shown(sets):.80}; give the decision set of each person: an array of "
            "shape (people, candidates, columns), or a list of arrays (candidates, columns), data "
            "frames or lists of dictionaries, none of them empty."
        )
    return sets  # type: ignore[return-value]


def _check_count(people: int, count: int, most: int, person: int) -> None:
    if people == 0:
        raise InvalidInput("contexts was empty; give the decision set of at least one person.")
    if not 1 <= count <= most:
        raise InvalidInput(
            f"contexts gave person {person} a decision set of {count} points; it must hold from 1 "
            f"to {most}."
        )


def people_count(contexts: Any) -> int:
    """The number of people without contexts: an int, or an array (n, 0)."""
    if isinstance(contexts, np.ndarray) and contexts.ndim == 2 and contexts.shape[1] == 0:
        contexts = len(contexts)
    if isinstance(contexts, int | np.integer) and not isinstance(contexts, bool):
        return whole_number(contexts, "contexts (the number of people)", minimum=1)
    raise InvalidInput(
        f"contexts was {contexts!r:.80}; what can be chosen is the same for everyone here, so give "
        "the number of people."
    )
