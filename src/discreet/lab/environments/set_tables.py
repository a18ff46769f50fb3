"""Tables of decision sets: one row for each candidate of each visit.

    visit, film,   taste, liked               film,   year, popularity
    7,     Alien,   0.12, 1                   Alien,  1979, 0.71
    7,     Heat,   -0.05, 0                   Heat,   1995, 0.64
    8,     Alien,   0.31, 1

The long table on the left has what differs between visits, and what each candidate gave or would
have given; a table of candidates, which all share, may hold the rest. Visits stand in the order of
their first rows, and the points of a set in the order of the rows. Every visit is another person's,
unless a column says who comes.

A visit takes part with all its candidates or not at all: a rule that leaves one row out leaves the
visit out, which is counted, because a smaller set is another choice than the one they had.

| array   | shape    | meaning                                                        |
|---------|----------|----------------------------------------------------------------|
| points  | (R, d)   | the candidates of all visits, one visit after the other        |
| rewards | (R,)     | what each gives its person                                     |
| starts  | (n + 1,) | where each visit's candidates begin; R at the end              |
| ids     | (n,)     | who comes, where people come more than once                    |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from discreet.lab.environments.base import Metric, People, Problem
from discreet.people.columns import Column, label_text
from discreet.people.domain import Box, DecisionSets, RewardBounds
from discreet.people.tables import (
    MISSING_MARKS,
    RowCounts,
    column_of,
    encode_columns,
    kept_rows,
    person_numbers,
    sheet_row,
)
from discreet.validation import (
    FloatArray,
    IntArray,
    InvalidInput,
    Refusals,
    finite_matrix,
    finite_vector,
    freeze_arrays,
    whole_number,
    whole_vector,
)


@dataclass(frozen=True, eq=False)
class SetPeople(People):
    """People with decision sets; `rewards` is NaN where a set has no such place.

    `contexts` is an array (n, c, d) where all sets have c points, else (n,) of arrays (c_i, d).
    """

    def best_fixed(self) -> FloatArray:
        raise InvalidInput(
            "best_fixed was asked for, but every person brings other points here; remove it."
        )

    def oracle(self) -> FloatArray:
        """(n,) what the best candidate of each person gives, known in hindsight."""
        best: FloatArray = np.nanmax(self.rewards, axis=1)
        return best


class SetTableProblem(Problem):
    """Visits of a table with the candidates of each, drawn without replacement.

    Args:
        points, rewards, starts, ids: see the module.
        most: the largest number of candidates that anybody brings, a public fact.
        domain: the public bounds of a point.
        reward_bounds: the public bounds of a reward.
        source: one sentence for reports.
        rows: how many rows of the table take part.

    Raises:
        InvalidInput: for points or rewards outside their bounds, and empty or too large sets.
    """

    size: int

    def __init__(
        self,
        points: ArrayLike,
        rewards: ArrayLike,
        starts: ArrayLike,
        most: int,
        domain: Box,
        reward_bounds: RewardBounds,
        source: str,
        rows: RowCounts | None = None,
        ids: IntArray | None = None,
    ) -> None:
        self.points = finite_matrix(points, "points", domain.dimension)
        domain.to_unit(self.points)
        self.rewards = finite_vector(rewards, "rewards", len(self.points))
        reward_bounds.to_unit(self.rewards, len(self.rewards))
        self._space = DecisionSets(whole_number(most, "most", minimum=1))
        ends = np.asarray(starts)
        self.starts = whole_vector(ends, "starts", 0, len(self.points), ends.size)
        self.ids = None if ids is None else whole_vector(ids, "ids", 0, 2**53, ends.size - 1)
        freeze_arrays(self)
        sizes = np.diff(self.starts)
        if ends.size < 2 or self.starts[0] != 0 or self.starts[-1] != len(self.points):
            raise InvalidInput(
                f"starts were {ends.tolist()!r:.80}; they must begin at 0 and end at the "
                f"{len(self.points)} points."
            )
        if sizes.min() < 1 or sizes.max() > most:
            raise InvalidInput(
                f"decision sets had from {sizes.min()} to {sizes.max()} points; each must hold "
                f"from 1 to {most}."
            )
        self.size = len(sizes)
        self.domain, self.reward_bounds = domain, reward_bounds
        self.source, self.rows = source, rows

    @property
    def metric(self) -> Metric:
        return "reward"

    @property
    def visits(self) -> IntArray | None:
        return None if self.ids is None else np.unique(self.ids, return_counts=True)[1]

    def sample(self, people: int, rng: np.random.Generator) -> SetPeople:
        self.check_size(people)
        chosen = rng.permutation(self.size)[:people]
        first, sizes = self.starts[chosen], np.diff(self.starts)[chosen]
        width = int(sizes.max())
        places = np.minimum(np.arange(width), sizes[:, None] - 1) + first[:, None]
        rewards = np.where(np.arange(width) < sizes[:, None], self.rewards[places], np.nan)
        sets = self.points[places]
        ids = None if self.ids is None else self.ids[chosen]
        if (sizes < width).any():
            ragged = np.empty(people, dtype=object)
            ragged[:] = [points[:size] for points, size in zip(sets, sizes, strict=True)]
            return SetPeople(ragged, rewards, ids=ids)
        return SetPeople(sets, rewards, ids=ids)


def sets_from_table(
    frame: pd.DataFrame,
    visit: str,
    columns: Sequence[Column],
    reward: Column,
    most: int,
    source: str,
    candidate: str | None = None,
    candidates: pd.DataFrame | None = None,
    person: str | None = None,
    starts: Mapping[str, str] | None = None,
) -> SetTableProblem:
    """Decision sets from a long table (see the module).

    Args:
        frame: the long table.
        visit: its column that says to which visit a row belongs.
        columns: of a point, with their public bounds.
        reward: the column of rewards, with its bounds.
        most: the largest number of candidates that anybody brings.
        source: one sentence for reports.
        candidate: the column that names the candidate, in both tables; no visit has a candidate
            twice.
        candidates: the table that all share; columns that it has are read there.
        person: the column that says who comes, where people come more than once.
        starts: how messages about a column begin, by its name.

    Raises:
        InvalidInput: everything that is wrong with either table, with how many rows and visits.
    """
    domain = Box.of(columns)
    if reward.values or reward.name in domain.names:
        kind = "labels" if reward.values else "a column of points too"
        raise InvalidInput(
            f"the reward {reward.name!r} was {kind}; it must be a column of numbers with bounds, "
            "and no learner may see it before it chooses."
        )
    if candidates is not None and candidate is None:
        raise InvalidInput(
            "a table of candidates was given without candidate; name the column that says, in "
            "both tables, which candidate a row is about."
        )
    refusals = Refusals()
    visits: list[str] = []
    names: list[str] = []
    who: IntArray | None = None
    with refusals.collected():
        visits = _ids(frame, visit, "visit")
    if person is not None:
        with refusals.collected((starts or {}).get(person, "")):
            who = person_numbers(column_of(frame, person))
    if candidate is not None:
        with refusals.collected():
            names = _ids(frame, candidate, "candidate")
    joined = frame if candidates is None else None
    if candidates is not None and candidate is not None and visits and names:
        with refusals.collected("in the table of candidates: "):
            rows = _looked_up(names, _ids(candidates, candidate, "candidate"), visits)
            joined = _with_facts(frame, candidates.iloc[rows], domain.names)
    if joined is not None:
        with refusals.collected():
            values, counts = encode_columns(joined, [*columns, reward], starts=starts)
    refusals.raise_if_any()
    return _problem(visits, who, names, values, domain, reward, most, source, counts)


def _with_facts(frame: pd.DataFrame, facts: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The long table with those columns that the facts of each row's candidate have."""
    shared = [name for name in columns if name in facts.columns]
    both = [name for name in shared if name in frame.columns]
    if both:
        raise InvalidInput(
            f"column {both[0]!r} is in the table of visits too; remove it from one of them, or "
            "give it another name there."
        )
    return pd.concat([frame, facts[shared].set_index(frame.index)], axis=1)


def _problem(
    visits: list[str],
    who: IntArray | None,
    names: list[str],
    values: FloatArray,
    domain: Box,
    reward: Column,
    most: int,
    source: str,
    rows: RowCounts,
) -> SetTableProblem:
    """Bring each visit's rows together, and leave out those that a rule leaves out."""
    codes, texts = pd.factorize(np.array(visits, dtype=object))
    codes = np.asarray(codes, dtype=np.int64)
    sizes = np.bincount(codes, minlength=len(texts))
    large = np.flatnonzero(sizes > most)
    if len(large):
        raise InvalidInput(
            f"{len(large)} of {len(sizes)} visits had more than the {most} candidates that most "
            f"declares, first {texts[large[0]]!r:.80} with {sizes[large[0]]}. Declare the largest "
            "number that a visit may have, or cut the sets by a public rule."
        )
    if names:
        _refuse_repeats(codes, texts, names)
    gone = ~kept_rows(values)
    left_out = np.zeros(len(sizes), dtype=np.bool_)
    left_out[codes[gone]] = True
    order = np.argsort(codes, kind="stable")
    kept = order[~left_out[codes[order]]]
    rows = replace(rows, used=len(kept))
    rows.check_any()
    starts = np.concatenate([[0], np.cumsum(sizes[~left_out])])
    ids = None if who is None else _one_person_each(codes, texts, who)[~left_out]
    bounds = RewardBounds(reward.lower, reward.upper)
    problem = SetTableProblem(
        values[kept, :-1], values[kept, -1], starts, most, domain, bounds, source, rows, ids
    )
    alone = int((np.diff(starts) == 1).sum())
    problem.warnings = rows.warnings + tuple(
        text
        for count, text in (
            (
                int(left_out.sum()),
                f"{int(left_out.sum()):,} of {len(sizes):,} visits were left out with all their "
                f"candidates, because a rule leaves out {int(gone.sum()):,} of these",
            ),
            (alone, f"{alone:,} of {problem.size:,} visits have one candidate: no choice"),
        )
        if count
    )
    return problem


def _ids(frame: pd.DataFrame, name: str, kind: str) -> list[str]:
    """The ids in a column as texts; `InvalidInput` where there are none."""
    series = column_of(frame, name)
    texts = [label_text(value) for value in series.tolist()]
    absent = series.isna().to_numpy(dtype=np.bool_)
    absent = absent | np.array([text in MISSING_MARKS for text in texts], dtype=np.bool_)
    if absent.any():
        raise InvalidInput(
            f"column {name!r} had no {kind} in {int(absent.sum())} of {len(texts)} rows, first in "
            f"{sheet_row(np.argmax(absent))}; give every row its {kind}."
        )
    return texts


def _one_person_each(codes: IntArray, texts: Any, who: IntArray) -> IntArray:
    """(n,) whose each visit is; `InvalidInput` where the rows of one are of several people."""
    _, first = np.unique(codes, return_index=True)
    other = who != who[first][codes]
    if other.any():
        row = int(np.argmax(other))
        raise InvalidInput(
            f"{len(set(codes[other].tolist()))} of {len(texts)} visits had rows of several people, "
            f"first {texts[codes[row]]!r:.80} in {sheet_row(row)}; a visit is one "
            "person's."
        )
    return who[first]


def _looked_up(names: list[str], known: list[str], visits: list[str]) -> IntArray:
    """(R,) the rows of the table of candidates; `InvalidInput` for those that it lacks."""
    index = pd.Index(known)
    if index.has_duplicates:
        twice = index[index.duplicated()]
        raise InvalidInput(
            f"{len(twice.unique())} of {index.nunique()} candidates had several rows, first "
            f"{twice[0]!r:.80}; give each one row."
        )
    rows = np.asarray(index.get_indexer(pd.Index(names)), dtype=np.int64)
    missing = np.flatnonzero(rows < 0)
    if len(missing):
        first = int(missing[0])
        whose = len({visits[row] for row in missing})
        raise InvalidInput(
            f"there was no row for the candidates of {len(missing)} of {len(rows)} rows ({whose} "
            f"of {len(set(visits))} visits), first {names[first]!r:.80} of {visits[first]!r:.80} "
            f"in {sheet_row(first)}. Add the candidates."
        )
    return rows


def _refuse_repeats(codes: IntArray, texts: Any, names: list[str]) -> None:
    pairs = pd.DataFrame({"visit": codes, "candidate": names})
    again = pairs.duplicated().to_numpy()
    if again.any():
        first = int(np.argmax(again))
        raise InvalidInput(
            f"{len(set(codes[again].tolist()))} of {len(texts)} visits had a candidate twice, "
            f"first {texts[codes[first]]!r:.80} the candidate {names[first]!r:.80} in "
            f"{sheet_row(first)}; give each candidate of a visit one row."
        )
