"""Decision sets from tables: every row is a candidate, and nothing is left out silently.

Films: what is public, what is a person's history, and that nothing younger is seen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet.lab.environments.catalog import load_problem
from discreet.lab.environments.set_tables import MovieProblem, sets_from_table
from discreet.lab.experiments import Setting, simulate
from discreet.lab.results.run import meaning_of
from discreet.lab.studies import load_study
from discreet.learners.policy import Actions
from discreet.people.columns import Column
from discreet.people.domain import Candidates, DecisionSets
from discreet.privacy import Joint
from discreet.validation import InvalidInput

TASTE, YEAR = Column("taste", -1, 1), Column("year", 1920, 2020)
LIKED = Column("liked", 0, 1)
VISITS = {
    # Rows of a visit need not stand together.
    "visit": ["07", "7", "07", "7", "7"],
    "film": ["Alien", "Heat", "Heat", "Alien", "Ran"],
    "taste": [0.1, 0.2, 0.3, 0.4, 0.5],
    "year": [1979, 1995, 1995, 1979, 1985],
    "liked": [1, 0, 0, 1, 1],
}
FILMS = {"film": ["Ran", "Alien", "Heat", "Unseen"], "year": [1985, 1979, 1995, 2001]}


def visits(**changes: list) -> pd.DataFrame:
    return pd.DataFrame(VISITS | changes)


def problem_of(frame: pd.DataFrame, **changes):
    given = {
        "visit": "visit",
        "columns": [TASTE, YEAR],
        "reward": LIKED,
        "most": 3,
        "source": "A table.",
        "candidate": "film",
        **changes,
    }
    return sets_from_table(frame, **given)


def test_people_and_their_candidates() -> None:
    problem = problem_of(visits())
    assert (problem.size, problem.space, problem.metric) == (2, DecisionSets(3), "reward")
    assert problem.starts.tolist() == [0, 2, 5]
    people = problem.sample(2, np.random.default_rng(0))
    first = int(len(people.contexts[0]) == 3)
    np.testing.assert_array_equal(people.contexts[first], [[0.1, 1979], [0.3, 1995]])
    np.testing.assert_array_equal(
        people.contexts[1 - first], [[0.2, 1995], [0.4, 1979], [0.5, 1985]]
    )
    np.testing.assert_array_equal(people.rewards[first], [1.0, 0.0, np.nan])
    assert people.oracle().tolist() == [1.0, 1.0]
    read = Candidates.read(people.contexts, problem.domain, 3)
    assert read.present.sum() == 5
    actions = Actions(np.array([1, 1]), np.zeros(2, dtype=np.uint64), "")
    assert sorted(people.received(actions, 0)) == [0.0, 1.0]
    with pytest.raises(InvalidInput, match="other points"):
        people.best_fixed()
    with pytest.raises(InvalidInput, match="rounds was 3"):
        problem.sample(3, np.random.default_rng(0))


def test_a_shared_table_is_the_same_as_columns_of_ones_own() -> None:
    shared = problem_of(visits().drop(columns="year"), candidates=pd.DataFrame(FILMS))
    own = problem_of(visits())
    np.testing.assert_array_equal(shared.points, own.points)
    np.testing.assert_array_equal(shared.rewards, own.rewards)


def test_equal_sets_are_one_array() -> None:
    frame = visits().iloc[:4]
    people = problem_of(frame).sample(2, np.random.default_rng(0))
    assert people.contexts.shape == (2, 2, 2)


def test_a_rule_leaves_out_a_person_with_all_candidates_and_says_so() -> None:
    frame = visits(taste=[0.1, 0.2, 0.3, 0.4, np.nan])
    columns = [Column("taste", -1, 1, missing="drop"), YEAR]
    problem = problem_of(frame, columns=columns)
    assert problem.size == 1
    assert problem.rows.sentence.startswith("2 of 5 rows; 1 lacks taste")
    assert problem.warnings[0].startswith("3 of 5 rows (60%) are left out: 1 lacks taste")
    assert problem.warnings[1:] == (
        "1 of 2 visits were left out with all their candidates, because a rule leaves out 1 of "
        "these",
    )
    assert "1 of 2 visits have one candidate" in problem_of(visits().iloc[[0, 1, 3]]).warnings[0]


@pytest.mark.parametrize(
    ("frame", "changes", "message"),
    [
        (visits(visit=["07", "", "07", None, "7"]), {}, "no visit in 2 of 5 rows, first in row 3"),
        (visits(film=["NA", "a", "b", "c", "d"]), {}, "no candidate in 1 of 5 rows"),
        (visits(), {"most": 2}, "1 of 2 visits had more than the 2 .*first '7' with 3"),
        (visits(film=["a", "b", "a", "c", "b"]), {}, "2 of 2 visits had a candidate twice, first "),
        (visits(taste=[0, 0, 0, 2, 3]), {}, "'taste' was outside .* in 2 of 5 rows, first 2"),
        (visits(taste=[0, 0, np.nan, 0, 0]), {}, "'taste' had no value in 1 of 5 rows"),
        (visits(liked=[0, 1, np.nan, 1, 0]), {}, "'liked' had no value in 1 of 5 rows"),
        (visits(liked=[0, 1, 2, 1, 0]), {}, "'liked' was outside .* in 1 of 5 rows"),
        (visits(), {"visit": "user"}, "column 'user' is not in the table"),
        (visits(), {"reward": TASTE}, "was a column of points too"),
        (visits(), {"reward": Column("liked", values=("0", "1"))}, "was labels"),
        (visits(), {"candidates": pd.DataFrame(FILMS)}, "'year' is in the table of visits too"),
        (visits(), {"candidates": pd.DataFrame(FILMS), "candidate": None}, "without candidate"),
    ],
)
def test_tables_that_are_refused(frame: pd.DataFrame, changes: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        problem_of(frame, **changes)


@pytest.mark.parametrize(
    ("films", "message"),
    [
        (
            {"film": ["Ran", "Alien"], "year": [1985, 1979]},
            r"no row for the candidates of 2 of 5 rows \(2 of 2 visits\), first 'Heat' of '7' in "
            "row 3",
        ),
        (
            {"film": ["Ran", "Alien", "Ran"], "year": [1, 2, 3]},
            "1 of 2 candidates had several",
        ),
        ({"film": ["Ran", ""], "year": [1, 2]}, "table of candidates: column 'film' had no"),
        (FILMS | {"year": [1985, 1879, 1995, 2001]}, "'year' was outside .* in 2 of 5 rows"),
    ],
)
def test_tables_of_candidates_that_are_refused(films: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        problem_of(visits().drop(columns="year"), candidates=pd.DataFrame(films))


def test_people_who_come_more_than_once() -> None:
    frame = visits(visit=["1", "2", "1", "3", "2"]).assign(user=["b", "a", "b", "b", "a"])
    problem = problem_of(frame, person="user")
    assert problem.visits.tolist() == [1, 2]
    assert sorted(problem.sample(3, np.random.default_rng(0)).ids.tolist()) == [0, 1, 1]
    frame.loc[4, "user"] = "b"
    with pytest.raises(InvalidInput, match="1 of 3 visits had rows of several people, first '2'"):
        problem_of(frame, person="user")
    frame.loc[4, "user"] = ""
    with pytest.raises(InvalidInput, match="'user' says who a person is and is empty in 1 of 5"):
        problem_of(frame, person="user")


def test_everything_that_is_wrong_is_said_at_once() -> None:
    frame = visits(visit=["", "7", "7", "7", "7"], film=["a", "b", "c", "d", ""], taste=[9] * 5)
    wrong = r"(?s)3 things are wrong.*no visit.*no candidate.*'taste' was outside"
    with pytest.raises(InvalidInput, match=wrong):
        problem_of(frame)


STUDY = """
name = "films"
replicates = 2

[problem]
name = "decision_sets"
path = "visits.csv"
visit = "visit"
candidate = "film"
candidates_path = "films.csv"
columns = [{ name = "taste", lower = -1, upper = 1 }, { name = "year", lower = 1920, upper = 2020 }]
reward = { name = "liked", lower = 0, upper = 1 }
most = 8

[[learners]]
epsilon = 4.0
delta = 1e-5

[[learners]]
name = "highest"
options = { column = "year" }

[[learners]]
name = "uniform"
"""


def write_study(folder: Path, people: int, rng: np.random.Generator) -> Path:
    """Visits of 3 to 8 of 40 films each; those are liked that suit the taste."""
    films = pd.DataFrame({"film": np.arange(40), "year": rng.integers(1920, 2021, 40)})
    films.to_csv(folder / "films.csv", index=False)
    rows = []
    for visit in range(people):
        for film in rng.choice(40, rng.integers(3, 9), replace=False):
            taste = rng.uniform(-1, 1)
            rows.append([visit, film, taste, int(rng.random() < 0.5 + 0.5 * taste)])
    table = pd.DataFrame(rows, columns=["visit", "film", "taste", "liked"])
    table.to_csv(folder / "visits.csv", index=False)
    path = folder / "study.toml"
    path.write_text(STUDY)
    return path


def test_a_study_of_ones_own_table(tmp_path: Path, rng: np.random.Generator) -> None:
    study = load_study(write_study(tmp_path, 800, rng))
    assert study.rounds == 800
    assert [path.name for path in study.files] == ["study.toml", "visits.csv", "films.csv"]
    meaning = meaning_of(study)
    assert not {"path", "candidates_path"} & set(meaning["problem"])
    assert len(meaning["data"]) == 2
    learner, highest, chance = (
        simulate(study.problem, setting, study.rounds, 5, 0).record.value / study.rounds
        for setting in study.settings
    )
    assert isinstance(study.settings[0].budget, Joint)
    assert learner > 0.6
    assert abs(chance - 0.5) < 0.1
    assert abs(highest - 0.5) < 0.1


def test_a_column_that_a_rule_of_thumb_does_not_have(tmp_path: Path, rng) -> None:
    problem = load_study(write_study(tmp_path, 20, rng)).problem
    setting = Setting("highest", "highest", options={"column": "size"})
    with pytest.raises(InvalidInput, match="column was 'size'"):
        simulate(problem, setting, 5, 0, 0)


def test_options_that_are_refused() -> None:
    with pytest.raises(InvalidInput, match="most was 0; it must be 1 or more"):
        load_problem("decision_sets", {"path": "a.csv", "visit": "v", "most": 0})


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
