"""The public domain of contexts and rewards, and the actions that can be chosen.

Learners work on the unit cube; a `Box` maps declared bounds onto it. Bounds are public facts (an
age lies between 21 and 64), never read from the data, because a bound taken from data would leak
the extreme person.

| action space     | a person brings                 | an action                              |
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
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.codec import OPTIONAL_FIELD, Range, Serializable
from discreet.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    InvalidInput,
    a_kind,
    finite_matrix,
    finite_number,
    finite_vector,
    nearest,
    number_from,
    number_matrix,
    number_vector,
    ordered,
    whole_number,
    whole_vector,
)

if TYPE_CHECKING:
    from discreet.people.columns import Column, Declared, Extra

# Columns are imported where they are used: a device that passes arrays loads none.

# So much of the length of a point of a ball is taken for rounding.
_ROUNDING = 1e-9
_LEAST_RADIUS = 1e-100


@dataclass(frozen=True)
class Box:
    """A product of closed intervals, one for each column of a context.

    Attributes:
        lower: d lower bounds.
        upper: d upper bounds, each above its lower bound.
        names: d column names, shown in plots and messages.
        levels: for each column the number of equally spaced values it can take, from `lower` to
            `upper` (2 for a yes/no column), or None for a continuous column. A learner never
            splits between two levels that do not exist.
        categories: for each column the labels of its levels, or () where they have none.
        unknown: for each column whether a missing value counts as unknown (`Column.missing`): as
            the label `unknown`, or as the middle of the bounds and `yes` in the next column, its
            indicator; () where none does.
        indicators: for each column the numbers that have indicators of their own behind it
            (`Column.indicators`); () where none has.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    names: tuple[str, ...] = ()
    levels: tuple[int | None, ...] = ()
    categories: tuple[tuple[str, ...], ...] = ()
    unknown: tuple[bool, ...] = field(default=(), repr=False, metadata=OPTIONAL_FIELD)
    indicators: tuple[tuple[float, ...], ...] = field(
        default=(), repr=False, metadata=OPTIONAL_FIELD
    )

    def __post_init__(self) -> None:
        lower = tuple(finite_number(value, "a lower bound") for value in self.lower)
        upper = tuple(finite_number(value, "an upper bound") for value in self.upper)
        dimension = len(lower)
        if dimension == 0 or len(upper) != dimension:
            raise InvalidInput(
                f"a domain got {dimension} lower and {len(upper)} upper bounds; give at least one "
                "column, and one lower and one upper bound for each."
            )
        names = tuple(self.names) or tuple(f"x{i + 1}" for i in range(dimension))
        levels = tuple(self.levels) or (None,) * dimension
        categories = tuple(map(tuple, self.categories)) or ((),) * dimension
        if not len(names) == len(levels) == len(categories) == dimension:
            raise InvalidInput(
                f"a domain of {dimension} columns got {len(names)} names, {len(levels)} levels and "
                f"{len(categories)} lists of categories; give one of each for every column, or "
                "none at all."
            )
        if len(set(names)) < dimension:
            raise InvalidInput(f"a domain had the columns {names}; give each its own name.")
        columns = zip(names, lower, upper, levels, categories, strict=True)
        for name, low, high, count, labels in columns:
            ordered(low, high, f"column {name!r} had bounds")
            if count is not None:
                whole_number(count, f"the levels of column {name!r}", minimum=2)
            if labels and len(labels) != count:
                raise InvalidInput(
                    f"column {name!r} had the categories {labels} for {count} levels; give one "
                    "label for each level, or none."
                )
        unknown = tuple(self.unknown) if any(self.unknown) else ()
        indicators = tuple(map(tuple, self.indicators)) if any(self.indicators) else ()
        for key, given in (("unknown", unknown), ("indicators", indicators)):
            if given and len(given) != dimension:
                raise InvalidInput(
                    f"a domain of {dimension} columns got {len(given)} values of {key}; give one "
                    "for each column, or none at all."
                )
        whole = {"lower": lower, "upper": upper, "names": names, "levels": levels}
        whole |= {"categories": categories, "unknown": unknown, "indicators": indicators}
        for key, value in whole.items():
            object.__setattr__(self, key, value)
        for place, column in enumerate(self.columns if unknown or indicators else ()):
            behind, lacks = column.indicator_names, len(column.values) > len(categories[place])
            if lacks or names[place + 1 :][: len(behind)] != behind:
                wanted = "the label 'unknown'" if lacks else f"{', '.join(behind)} behind it"
                raise InvalidInput(
                    f"column {column.name!r} lacked {wanted}, which its missing values or "
                    "indicators need; declare columns with Box.of, which adds it."
                )

    @classmethod
    def of(cls, columns: Declared, radius: float | None = None) -> Box:
        """The public domain that columns declare, or with a radius the ball of rows of that length.

        A column of numbers has its indicators behind it.

        Args:
            columns: a list of `Column`, or a dictionary such as
                `{"age": (18, 90), "region": ["north", "south"]}` (`columns.declared_columns`).
            radius: the largest length of a row, where all columns go from -radius to radius.

        Raises:
            InvalidInput: for columns that are declared wrongly, that are measured by logarithms, or
                that do not fit the radius.
        """
        from discreet.people.columns import UNKNOWN, declared_columns, with_indicators

        declared = with_indicators(declared_columns(columns), stated=True)
        for column in declared:
            if column.log:
                raise InvalidInput(
                    f"column {column.name!r} has log = True, which columns of a Search have; "
                    "declare the logarithm as a column of its own, with its bounds."
                )
            if radius is not None and (
                column.values or column.levels or (column.lower, column.upper) != (-radius, radius)
            ):
                raise InvalidInput(
                    f"radius was {radius:g}, but column {column.name!r} is not of numbers from "
                    f"{-radius:g} to {radius:g}; give all columns of a ball these bounds, or leave "
                    "the radius out."
                )
        names = tuple(column.name for column in declared)
        if radius is not None:
            return Ball(radius, names=names)
        return Box(
            tuple(column.lower for column in declared),
            tuple(column.upper for column in declared),
            names,
            tuple(column.levels for column in declared),
            tuple(column.values for column in declared),
            tuple(column.missing == UNKNOWN for column in declared),
            tuple(column.indicators for column in declared),
        )

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The inverse of `of`: columns with the bounds, levels and categories of the box; labels
        are numbered 0 .. m - 1, as everywhere."""
        from discreet.people.columns import UNKNOWN, Column

        columns = []
        for place, (name, labels) in enumerate(zip(self.names, self.categories, strict=True)):
            bounds = self.lower[place], self.upper[place], self.levels[place]
            rule = UNKNOWN if any(self.unknown[place : place + 1]) else "error"
            numbers = self.indicators[place] if self.indicators else ()
            given: dict[str, Any] = {"values": labels, "missing": rule, "indicators": numbers}
            columns.append(Column(name, *(() if labels else bounds), **given))
        return tuple(columns)

    @cached_property
    def implied(self) -> tuple[tuple[int, int, float], ...]:
        """For each indicator its column, the column of its number, and the value in [0, 1] of that
        number when the indicator is yes."""
        found = []
        for at, column in enumerate(self.columns if self.unknown or self.indicators else ()):
            numbers, low, high = [*column.indicators], self.lower[at], self.upper[at]
            if any(self.unknown[at : at + 1]) and not column.values:
                numbers.insert(0, column.if_unknown)
            for behind, number in enumerate(numbers, at + 1):
                found.append((behind, at, (number - low) / (high - low)))
        return tuple(found)

    @property
    def dimension(self) -> int:
        """The number of columns d."""
        return len(self.lower)

    @property
    def largest_squares(self) -> tuple[float, ...]:
        """Numbers that add up to the largest squared length of a point."""
        ends = zip(self.lower, self.upper, strict=True)
        return tuple(max(abs(low), abs(high)) ** 2 for low, high in ends)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """(d,) and (d,) lower and upper bounds, as arrays."""
        return np.asarray(self.lower), np.asarray(self.upper)

    def to_unit(self, contexts: ArrayLike) -> FloatArray:
        """Contexts (n, d) mapped onto [0, 1]^d; `InvalidInput` when one lies outside the box.

        Contexts with names, in a data frame or dictionaries, are read by these (`in_order`).
        """
        array = finite_matrix(self.in_order(contexts), "contexts", self.dimension)
        low, high = self._ends
        outside = (array < low) | (array > high)
        if outside.any():
            row, column = (int(i) for i in np.argwhere(outside)[0])
            labels = ", ".join(self.categories[column])
            numbered = f", the codes of its labels {labels:.80}" if labels else ""
            raise InvalidInput(
                f"contexts had {array[row, column]} in column {self.names[column]!r}, row {row}; "
                f"the declared bounds are [{self.lower[column]}, {self.upper[column]}]{numbered}. "
                "Declare wider bounds if such people exist, or leave them out."
            )
        return (array - low) / (high - low)

    def in_order(self, contexts: Any, extra: Extra = "refuse", lenient: bool = False) -> ArrayLike:
        """Contexts with names (a data frame, dictionaries) as an array (n, d) with the columns of
        the box; all else as it is. Missing values count as unknown where columns say so, and
        indicators that are not given follow from values.

        Args:
            contexts: see columns.py.
            extra: whether columns that the box lacks are refused or ignored.
            lenient: for reports that are private: refuse nothing for what a value is.

        Raises:
            InvalidInput: for columns that are missing or too many, and for values that a column
                does not take; with their column, their row and what is allowed.
        """
        fills = bool(self.unknown or self.indicators)
        if isinstance(contexts, np.ndarray) and not fills:
            return contexts
        from discreet.people.columns import has_names, rows_by_name

        if not has_names(contexts):
            if not fills:
                return contexts  # type: ignore[no-any-return]
            return self._filled(number_matrix(contexts, "contexts", self.dimension).copy())
        rows = rows_by_name(contexts, self.columns, extra, lenient)
        for place, labels in enumerate(self.categories):
            if labels:  # from 0 .. m - 1 to the units of the box
                low, high = self.lower[place], self.upper[place]
                rows[:, place] = low + rows[:, place] * ((high - low) / (len(labels) - 1))
        return self._filled(rows) if fills else rows

    def _filled(self, rows: FloatArray) -> FloatArray:
        """The rows (n, d), in which missing values that count as unknown are replaced, and
        indicators follow from values where they are not given."""
        from discreet.people.columns import UNKNOWN

        for place, column in enumerate(self.columns):
            given = rows[:, place].copy()
            if column.missing == UNKNOWN:
                middle = self.number(place, UNKNOWN) if column.values else column.if_unknown
                rows[np.isnan(given), place] = middle
            for behind, shown in enumerate(column.indicated(given).T, place + 1):
                follows = np.isnan(given) | np.isnan(rows[:, behind])
                implied = np.where(shown, self.upper[behind], self.lower[behind])
                rows[:, behind] = np.where(follows, implied, rows[:, behind])
        return rows

    def people_to_unit(self, contexts: ArrayLike) -> FloatArray:
        """`to_unit` for contexts of people, whose columns with levels take no value between them.

        Raises:
            InvalidInput: as `to_unit`, or for a value between two levels.
        """
        unit = self.to_unit(contexts)
        for column, count in enumerate(self.levels):
            if count is None:
                continue
            steps = unit[:, column] * (count - 1)
            between = np.abs(steps - np.round(steps)) > 1e-6
            if between.any():
                row = int(np.argmax(between))
                low, high = self.lower[column], self.upper[column]
                value = low + unit[row, column] * (high - low)
                raise InvalidInput(
                    f"contexts had {value:g} in column {self.names[column]!r}, row {row}; it takes "
                    f"{count} values from {low:g} to {high:g} in steps of "
                    f"{(high - low) / (count - 1):g}. Round by a public rule, or declare no levels."
                )
            # Rounding errors must not carry a level over a threshold between bins.
            unit[:, column] = np.round(steps) / (count - 1)
        return unit

    def nearest(self, contexts: ArrayLike) -> FloatArray:
        """(n, d) contexts in declared units, each value moved to the nearest within its bounds."""
        given = self.in_order(contexts, lenient=True)
        array = number_matrix(given, "contexts", self.dimension)
        low, high = self._ends
        inside: FloatArray = np.where(np.isnan(array), low + (high - low) / 2.0, array)
        return np.clip(inside, low, high)

    def nearest_unit(self, contexts: ArrayLike) -> FloatArray:
        """Like `people_to_unit`, but refuses shapes and types only.

        A value outside the box counts as the nearest one within it, one between two levels as the
        nearest level, and NaN as the middle of its column. For reports that are private when they
        leave a person, where a refusal would tell something about them.
        """
        low, high = self._ends
        unit: FloatArray = (self.nearest(contexts) - low) / (high - low)
        for column, count in enumerate(self.levels):
            if count is not None:
                unit[:, column] = np.round(unit[:, column] * (count - 1)) / (count - 1)
        return unit

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """Points of [0, 1]^d mapped back to the declared units."""
        low, high = self._ends
        # Rounding must not carry a corner of the cube past a bound.
        return np.clip(low + unit * (high - low), low, high)

    def text(self, column: int, value: float) -> str:
        """A value of a column as people call it: its category, or the number."""
        labels, count = self.categories[column], self.levels[column]
        if not labels or count is None:
            return f"{value:g}"
        low, high = self.lower[column], self.upper[column]
        return labels[round((value - low) / (high - low) * (count - 1))]

    def number(self, column: int, value: float | bool | str) -> float:
        """The inverse of `text`: a number of a column as it is, a category as its number.

        Raises:
            InvalidInput: for a category that the column lacks, or a number outside its bounds.
        """
        name, labels = self.names[column], self.categories[column]
        low, high = self.lower[column], self.upper[column]
        text = value if isinstance(value, str) else f"{value:g}"
        text = str(value).lower() if isinstance(value, bool) else text
        if text in labels:
            return low + labels.index(text) * (high - low) / (len(labels) - 1)
        if isinstance(value, str | bool):
            numbers = f"a number from {low:g} to {high:g}"
            allowed = f"one of {', '.join(labels)}" if labels else numbers
            raise InvalidInput(f"{name} was {text!r}; it must be {allowed}.")
        if not low <= value <= high:
            categories = f", or one of {', '.join(labels)}" if labels else ""
            raise InvalidInput(
                f"{name} was {value:g}; the declared bounds are [{low:g}, {high:g}]{categories}."
            )
        return value


@dataclass(frozen=True, init=False)
class Ball(Box):
    """Points of length at most `radius`, such as embeddings of length 1.

    It is a box from -radius to radius in each column whose corners are missing, so every feature
    that grows with the length of a point has a certified norm that is sqrt(d) times smaller than
    on the box.

    Args:
        radius: the largest Euclidean length, from 1e-100 to 1e100.
        dimension: the number of columns; that of the names where it is left out.
        names: d column names.
    """

    kind: ClassVar[str] = "ball"

    lower: tuple[float, ...] = field(init=False, repr=False)
    upper: tuple[float, ...] = field(init=False, repr=False)
    levels: tuple[int | None, ...] = field(init=False, repr=False)
    categories: tuple[tuple[str, ...], ...] = field(init=False, repr=False)
    unknown: tuple[bool, ...] = field(init=False, repr=False)
    indicators: tuple[tuple[float, ...], ...] = field(init=False, repr=False)
    radius: float = 1.0

    def __init__(
        self, radius: float, dimension: int | None = None, names: Sequence[str] = ()
    ) -> None:
        size = whole_number(len(names) if dimension is None else dimension, "dimension", minimum=1)
        # Squares of lengths must be numbers, or a point of a corner would pass for one of the ball.
        radius = number_from(radius, "radius", _LEAST_RADIUS, 1.0 / _LEAST_RADIUS)
        ends = {"radius": radius, "lower": (-radius,) * size, "upper": (radius,) * size}
        unstated = dict.fromkeys(("levels", "categories", "unknown", "indicators"), ())
        for key, value in {**ends, "names": tuple(names), **unstated}.items():
            object.__setattr__(self, key, value)
        self.__post_init__()

    @property
    def largest_squares(self) -> tuple[float, ...]:
        return ((self.radius * (1.0 + _ROUNDING)) ** 2,)

    def to_unit(self, contexts: ArrayLike) -> FloatArray:
        """As `Box.to_unit`; `InvalidInput` also for a point longer than the radius by more than
        rounding."""
        array = finite_matrix(self.in_order(contexts), "contexts", self.dimension)
        with np.errstate(over="ignore"):
            lengths = np.sqrt(np.einsum("nd,nd->n", array, array))
        beyond = lengths > self.radius * (1.0 + _ROUNDING)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise InvalidInput(
                f"contexts had a point of length {lengths[row]:g} in row {row}; the declared ball "
                f"has radius {self.radius:g}. Declare a larger radius if such people exist, or "
                "divide points by a public number."
            )
        return super().to_unit(np.clip(array, -self.radius, self.radius))

    def nearest(self, contexts: ArrayLike) -> FloatArray:
        """(n, d) contexts in declared units; after each value was moved into its column's bounds,
        rows that are longer than the radius are shortened to it."""
        return self._shortened(super().nearest(contexts))

    def from_unit(self, unit: FloatArray) -> FloatArray:
        """As `Box.from_unit`; what lies in a corner is moved to the sphere, towards the centre."""
        return self._shortened(super().from_unit(unit))

    def _shortened(self, points: FloatArray) -> FloatArray:
        # Squares in order: a device that adds up one row, in any language, finds the same bits.
        lengths = np.sqrt(np.cumsum(points * points, axis=-1)[..., -1])
        return points / np.maximum(lengths / self.radius, 1.0)[..., None]


def unit_cube(dimension: int, names: Sequence[str] = ()) -> Box:
    """The box [0, 1]^d of the papers."""
    size = whole_number(dimension, "dimension", minimum=1)
    return Box((0.0,) * size, (1.0,) * size, tuple(names))


@dataclass(frozen=True)
class RewardBounds:
    """The declared interval of rewards; learners see rewards mapped onto [0, 1]."""

    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        lower = finite_number(self.lower, "the lower reward bound")
        upper = finite_number(self.upper, "the upper reward bound")
        ordered(lower, upper, "reward bounds were")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def clip(self, rewards: ArrayLike) -> FloatArray:
        """Rewards moved to the nearest bound; for data whose tails you mean to cut."""
        return np.clip(np.asarray(rewards, dtype=np.float64), self.lower, self.upper)

    def to_unit(self, rewards: ArrayLike, people: int) -> FloatArray:
        """Rewards (people,) mapped onto [0, 1]; `InvalidInput` for one outside the bounds."""
        array = finite_vector(rewards, "rewards", people)
        outside = (array < self.lower) | (array > self.upper)
        if outside.any():
            first = int(np.argmax(outside))
            raise InvalidInput(
                f"rewards had {array[first]} at position {first}; the declared bounds are "
                f"[{self.lower}, {self.upper}]. Declare wider bounds, or cut the tails with "
                "RewardBounds.clip, which is part of what you then optimise."
            )
        return self._scaled(array)

    def nearest_unit(
        self, rewards: ArrayLike, people: int, missing: float | FloatArray = 0.5
    ) -> FloatArray:
        """Like `to_unit`, with a reward outside the bounds moved to the nearest and NaN to the
        place `missing` on [0, 1], of all or of each; see `Box.nearest_unit`."""
        array = number_vector(rewards, "rewards", people)
        place = self.lower + missing * (self.upper - self.lower)
        return self._scaled(self.clip(np.where(np.isnan(array), place, array)))

    def _scaled(self, rewards: FloatArray) -> FloatArray:
        return np.clip((rewards - self.lower) / (self.upper - self.lower), 0.0, 1.0)


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
    """K arms that are public points, such as doses: `kernel`, `best_arm` and the epoch learners
    compare them. Others take them as K arms. All points are different.

    Attributes:
        names: of the arms, or ().
    """

    names: ArmNames = field(default=(), metadata=OPTIONAL_FIELD)

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


@dataclass(frozen=True)
class PublicSet(_Points):
    """The same finite set of points for everyone, in the units of the domain."""


@dataclass(frozen=True)
class DecisionSets(Serializable):
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
    """The action space without names, and the names of its arms."""
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
            flat = np.asarray(domain.in_order(array.reshape(people * count, -1)), dtype=np.float64)
            domain.to_unit(flat)
            return cls._of_array(flat.reshape(array.shape), most)
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
