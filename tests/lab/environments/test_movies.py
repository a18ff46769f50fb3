"""Films: what is public, what is a person's history, and that nothing younger is seen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from discreet.lab.environments.set_tables import MovieProblem
from discreet.validation import InvalidInput

BEFORE, AFTER = 900_000_000, 1_000_000_000


def ratings(seed: int = 0, people: int = 6, each: int = 40) -> pd.DataFrame:
    """Ratings of which most come after 2000, several in one second, in no order."""
    rng = np.random.default_rng(seed)
    rows = []
    for person in range(people):
        films = rng.choice(80, each, replace=False)
        times = AFTER + rng.integers(0, 3 * each, each)
        times[rng.random(each) < 0.3] = BEFORE
        rows += [(person, film, time) for film, time in zip(films, times, strict=True)]
    frame = pd.DataFrame(rows, columns=["userId", "movieId", "timestamp"])
    names = np.array(["Drama", "War", "Drama|War", "Comedy", "(no genres listed)"])
    frame["year"] = 1930.0 + frame.movieId
    frame["genres"] = names[frame.movieId % 5]
    frame["rating"] = rng.integers(1, 11, len(frame)) / 2
    return frame.sample(frac=1.0, random_state=1)


def test_a_visit_is_worked_out_by_hand() -> None:
    """Each film of a visit is found by its year; its columns are those of the module's text."""
    frame = ratings()
    problem = MovieProblem(frame, 4)
    people = problem.sample(60, np.random.default_rng(3))
    assert people.contexts.shape == (60, 4, 4)
    public = frame[frame.timestamp < 978_307_200]
    mean = (public.rating >= 4).mean()
    seen = set()
    for points, liked in zip(people.contexts, people.rewards, strict=True):
        films = (points[:, 2] - 1930).astype(int)
        for person in range(6):
            own = frame[frame.userId == person].set_index("movieId")
            if not set(films) <= set(own.index):
                continue
            start = own.timestamp[films].min()
            history = own[own.timestamp < start]
            tastes = [taste_by_hand(history, own.genres[film]) for film in films]
            if len(history) >= 10 and np.allclose(points[:, 3], tastes):
                seen.add(person)
                break
        else:
            raise AssertionError("no person has this visit")
        assert start >= AFTER
        assert (liked == (own.rating[films] >= 4)).all()
        for point, film in zip(points, films, strict=True):
            marks = public[public.movieId == film].rating >= 4
            assert point[0] == pytest.approx((marks.sum() + 5 * mean) / (len(marks) + 5))
            assert point[1] == pytest.approx(np.log10(1 + len(marks)))
    assert len(seen) == problem.people == 6


def taste_by_hand(history: pd.DataFrame, genres: str) -> float:
    likes = history.rating >= 4
    usual = (likes.sum() + 2.5) / (len(history) + 5)
    more = []
    for genre in genres.split("|"):
        of_it = history.genres.str.split("|").apply(lambda all_, genre=genre: genre in all_)
        more.append((likes[of_it].sum() - usual * of_it.sum()) / (of_it.sum() + 10))
    return float(np.clip(np.mean(more), -0.2, 0.2))


def test_what_comes_later_changes_nothing() -> None:
    """Ratings after a visit, and other people's after 2000, leave its columns as they are."""
    frame = ratings()
    last = frame.timestamp.max()
    later = frame.timestamp > last - 40
    other = frame.assign(rating=np.where(later, 5.5 - frame.rating, frame.rating))
    first, second = MovieProblem(frame, 4), MovieProblem(other, 4)
    people, others = (p.sample(300, np.random.default_rng(3)) for p in (first, second))
    np.testing.assert_array_equal(people.contexts[..., :3], others.contexts[..., :3])
    same = (people.contexts[..., 3] == others.contexts[..., 3]).all(axis=1)
    assert 0 < same.sum() < 300


def test_gaps_are_counted_and_too_few_ratings_refused() -> None:
    frame = ratings()
    frame.loc[frame.index[:3], "year"] = np.nan
    assert MovieProblem(frame).rows.sentence == "237 of 240 rows; 3 lack year"
    with pytest.raises(InvalidInput, match="no person in the table has rated 10 films"):
        MovieProblem(frame, 35)
    with pytest.raises(InvalidInput, match="'rating' is not in the table"):
        MovieProblem(frame.drop(columns="rating"))
