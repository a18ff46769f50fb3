"""Ask and tell: what is learnt, released, refused and saved."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import (
    InvalidInput,
    Joint,
    Local,
    NonPrivate,
    Search,
    SecureNoise,
    SimulatedNoise,
    Unprotected,
)

COLUMNS = {"units": {"lower": 4, "upper": 64, "levels": 16, "log": True}, "form": ["pill", "drop"]}
JOINT = Joint(2.0, 1e-6)


def worth(params: dict[str, Any]) -> float:
    """The best setting is 16 units as a drop."""
    return float(0.8 - 0.2 * abs(np.log2(params["units"] / 16)) - 0.2 * (params["form"] == "pill"))


def search(budget: Any = JOINT, **options: Any) -> Search:
    """With so many trials that joint noise is drawn on sums."""
    return Search(COLUMNS, budget, **{"noise": SimulatedNoise(3), "trials": 5000, **options})


def run(searched: Search, values: int, sign: float = 1.0) -> Search:
    """Several open at a time, told in another order."""
    rng = np.random.default_rng(5)
    while searched.observed < values:
        trials = [searched.ask() for _ in range(min(7, values - searched.observed))]
        for trial in reversed(trials):
            value = float(np.clip(worth(trial.params) + rng.normal(0.0, 0.1), 0.0, 1.0))
            searched.tell(trial, sign * value)
    return searched


@pytest.mark.parametrize(
    ("budget", "values"),
    [
        pytest.param(NonPrivate(), 150, marks=pytest.mark.slow),
        (JOINT, 600),
        pytest.param(Local(4.0), 1500, marks=pytest.mark.slow),
    ],
)
def test_the_best_setting_is_learnt(budget: Any, values: int) -> None:
    best = run(search(budget, trials=values), values).best()
    assert worth(best.params) >= 0.7
    assert best.value == pytest.approx(worth(best.params), abs=6 * best.deviation + 0.05)
    assert 0 < best.released <= values


def test_the_least_is_the_largest_of_what_is_turned() -> None:
    most = run(search(trials=150), 150)
    least = run(search(trials=150, bounds=(-1.0, 0.0), direction="minimize"), 150, -1.0)
    assert least.best().params == most.best().params
    assert least.best().value == pytest.approx(-most.best().value)
    assert least.bounds == (-1.0, 0.0)
    mean, deviation = least.predict({"units": 16, "form": "drop"})
    other = most.predict([{"form": "drop", "units": 16}])
    np.testing.assert_allclose([mean, deviation], [-other[0], other[1]])


def test_settings_tell_nothing_of_values_that_were_not_released() -> None:
    """Two searches whose values differ ask the same until the release, and believe the same."""
    searches = [search(trials=1000) for _ in range(2)]
    first = searches[0].learner.batch_size
    for step in range(first - 1):
        trials = [each.ask() for each in searches]
        assert trials[0] == trials[1]
        for each, trial, value in zip(searches, trials, (0.0, 1.0), strict=True):
            each.tell(trial, value)
        if step % 50 == 0:
            for each in searches:
                with pytest.raises(InvalidInput, match="nothing was released yet of"):
                    each.best()
    means = [each.predict({"units": 16, "form": "drop"})[0][0] for each in searches]
    assert means[0] == means[1]


class TestPromise:
    def test_joint(self) -> None:
        guarantee = run(search(trials=150), 150).guarantee
        assert guarantee.epsilon <= 2.0 + 1e-9
        assert guarantee.epsilon > 1.9

    def test_local_values_are_hidden_when_they_are_told(self) -> None:
        searched = search(Local(1.5))
        searched.tell(searched.ask(), 0.3)
        assert searched.guarantee.epsilon == pytest.approx(1.5)
        assert searched.guarantee.trust_model == "local"

    def test_secure_noise_is_what_draws_unless_asked_otherwise(self) -> None:
        searched = Search(COLUMNS, Local(1.0))
        searched.tell(searched.ask(), 1.0)
        assert searched.guarantee.noise == (SecureNoise.name,)

    def test_it_is_not_left_out(self) -> None:
        with pytest.raises(InvalidInput, match=r"or the budget NonPrivate\(\)"):
            search(noise=Unprotected())


class TestRefused:
    def test_a_trial_is_told_once(self) -> None:
        searched = search()
        trial = searched.ask()
        searched.tell(trial, 0.5)
        with pytest.raises(InvalidInput, match="trial 0 has its value already"):
            searched.tell(trial, 0.6)
        assert searched.observed == 1
        assert searched.learner.people == 1

    @pytest.mark.parametrize("value", [-3.0, 7, float("nan"), float("inf")])
    def test_no_value_where_it_is_private_when_it_is_told(self, value: float) -> None:
        searched = search(Local(1.0))
        searched.tell(searched.ask(), value)
        assert searched.observed == 1
        with pytest.raises(InvalidInput, match="value was 'x'"):
            searched.tell(searched.ask(), "x")  # type: ignore[arg-type]


class TestFile:
    @pytest.mark.parametrize("budget", [JOINT, Local(4.0), NonPrivate()])
    def test_it_goes_on_where_it_stopped(self, budget: Any, tmp_path: Path) -> None:
        searched = run(search(budget, trials=5000), 250)
        waiting = [searched.ask() for _ in range(3)]
        searched.save(tmp_path / "search.json")
        again = Search.load(tmp_path / "search.json", SimulatedNoise(3))
        assert again.open_trials == tuple(waiting)
        assert again.observed == 250
        assert repr(again) == repr(searched)
        settings = {"units": 12, "form": "pill"}
        np.testing.assert_array_equal(again.predict(settings), searched.predict(settings))
        for trial in waiting:
            again.tell(trial, 0.25)
        assert again.ask() == searched.ask()
        with pytest.raises(InvalidInput, match="has its value already"):
            again.tell(waiting[0], 0.5)

    def test_it_says_that_it_is_secret(self, tmp_path: Path) -> None:
        search().save(tmp_path / "search.json")
        text = (tmp_path / "search.json").read_text()
        assert text.startswith('{"notice": "SECRET')
        assert (tmp_path / "search.json").stat().st_mode & 0o077 == 0

    def test_a_damaged_one_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "search.json"
        run(search(), 20).save(path)
        text = path.read_text()
        path.write_text(text.replace('"asked": 20', '"asked": 21'))
        with pytest.raises(InvalidInput, match=r"the search in .* is damaged: its checksum"):
            Search.load(path)
        path.write_text(json.dumps({"kind": "learner"}))
        with pytest.raises(InvalidInput, match="holds no search"):
            Search.load(path)
        with pytest.raises(InvalidInput, match=r"the folder of .* does not exist"):
            search().save(tmp_path / "none" / "search.json")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_joint_one_is_not_copied(copied: Any) -> None:
    """Two copies that wait for a release would both make it, with noise of their own."""
    waiting = search()
    waiting.tell(waiting.ask(), 1.0)
    with pytest.raises(InvalidInput, match="people would pay twice"):
        copied(waiting)
    assert waiting.observed == 1


@pytest.mark.parametrize("budget", [NonPrivate(), Local(1.0)])
def test_others_are(budget: Any) -> None:
    asked = run(search(budget, trials=20), 20)
    assert pickle.loads(pickle.dumps(asked)).best() == asked.best()


def test_contributions_that_nobody_counts_are_refused_at_once() -> None:
    with pytest.raises(
        InvalidInput, match="max_contributions was 2; a search does not know whose a value is"
    ):
        search(Joint(1.0, 1e-6, max_contributions=2))


def test_nobody_tries_a_setting_whose_value_could_not_be_told() -> None:
    noise = SimulatedNoise(1)
    search = Search({"x": [0, 1]}, Joint(1.0, 1e-6), trials=250, noise=noise)
    for _ in range(250):
        search.tell(search.ask(), 1.0)
    with pytest.raises(InvalidInput, match=r"there are 250 values, .* declared for 250 trials"):
        search.ask()
    assert search.observed == 250
    assert not search.open_trials
    free = Search({"x": [0, 1, 2]}, Local(2.0), trials=2, noise=noise)
    for _ in range(3):  # a horizon that is expected, not a limit
        free.tell(free.ask(), 1.0)
    assert free.observed == 3


class TestWhereNoiseIsDrawn:
    """Noise on each value keeps a joint budget, and is less than noise on sums for few trials."""

    @pytest.mark.parametrize(("trials", "kept"), [(None, "local"), (300, "local"), (5000, "joint")])
    def test_few_trials_get_noise_on_each_value(self, trials: int | None, kept: str) -> None:
        searched = search(trials=trials)
        assert searched.learner.budget.trust_model == kept
        guarantee = run(searched, 60).guarantee
        assert guarantee.epsilon <= JOINT.epsilon
        assert guarantee.delta <= JOINT.delta

    def test_a_joint_search_of_few_trials_equals_the_local_one(self) -> None:
        joint, local = (run(search(each, trials=150), 150) for each in (JOINT, Local(2.0)))
        assert joint.best() == local.best()

    def test_a_promise_to_a_contribution_remains_one(self) -> None:
        searched = search(Joint(2.0, 1e-6, protects="contribution"), trials=300)
        assert searched.learner.budget == Local(2.0, protects="contribution")
