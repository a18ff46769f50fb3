"""Joint privacy: what leaves the learner, when, and what one person can change of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.codec import encode
from discreet.learners.policy import Terms
from discreet.learners.saving import load, save
from discreet.privacy import Joint, NonPrivate, SecureNoise, SimulatedNoise
from discreet.privacy.accounting import GaussianEvent, composed_epsilon
from discreet.privacy.noise import NO_NOISE
from discreet.privacy.prefix_sums import PrivateStream
from discreet.validation import InvalidInput

from ..source_scene import at_once
from ..spy import SlowSpy, Spy, breaking
from .cases import SPACES, People, learner, observe, serve

PEOPLE = 120
STREAMS = {
    "epochs": {"growth": 1.3},
    "epochs, no horizon": {"growth": 1.3, "horizon": None},
    "discounted epochs": {"half_life": 40.0},
    "toeplitz": {"mechanism_name": "buffered_toeplitz", "every": 10},
    "tree": {"mechanism_name": "binary_tree", "every": 10},
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
every_stream = pytest.mark.parametrize("options", STREAMS.values(), ids=STREAMS.keys())


def joint(space: Any, noise: Any, **options: Any) -> Any:
    return learner(space, noise=noise, **{"horizon": PEOPLE, **options})


def stream_of(made: Any) -> PrivateStream:
    assert made._stream is not None
    return made._stream


def noted_rows(made: Any) -> list[np.ndarray]:
    """The row of all reports that will come, as it adds up; the learner keeps none of it."""
    rows: list[np.ndarray] = []
    statistics = made._statistics

    def noted(policy: Any, reports: Any) -> Any:
        added = statistics(policy, reports)
        rows.append(added.row)
        return added

    made.__dict__["_statistics"] = noted
    return rows


def encoder_matrix(made: Any) -> np.ndarray:
    """H (vectors released, rows) by pushing one unit row after the other through the encoder."""
    columns = []
    for row in range(len(made._counts)):
        mechanism = stream_of(made).mechanism
        held, parts = mechanism.start()[0], []
        for j, count in enumerate(made._counts):
            held, due = mechanism.encode(held, np.array([1.0 if j == row else 0.0]), count)
            parts.append(due)
        columns.append(np.concatenate(parts)[:, 0])
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    ("space", "options"),
    [
        pytest.param(space, options, id=f"{name}-{stream}")
        for name, space in SPACES.items()
        for stream, options in STREAMS.items()
        if name == "sets" or stream == "epochs"  # the streams are the same for every space
    ],
)
def test_one_person_moves_what_gets_noise_by_no_more_than_was_paid_for(
    space: Any, options: dict[str, Any]
) -> None:
    """Given the same earlier outputs, replacing a person moves the vectors by H's column times
    the difference of the rows, whose length is within the sensitivity. Policies and all else are
    functions of what was released and of public counts, whoever the people are."""
    people, first = People(PEOPLE, 5), Spy(1)
    one = joint(space, first, **options)
    mine = serve(one, people)
    assert len(mine) > 3
    matrix = encoder_matrix(one)
    for person in (33, PEOPLE - 1, None):
        second = Spy(2, replay=first.handed)
        two = joint(space, second, **options)
        others = People(PEOPLE, 6) if person is None else people.replaced(person, 77)
        theirs = serve(two, others)
        assert [encode(policy) for policy in mine] == [encode(policy) for policy in theirs]
        assert one.guarantee() == two.guarantee()
        assert one.batch_size == two.batch_size
        assert len(first.given) == len(second.given)
        moved = np.concatenate(first.given) - np.concatenate(second.given)
        if person is None:
            assert moved.any()
            continue
        stream = stream_of(one)
        row = int(np.searchsorted(np.cumsum(one._counts), person, side="right"))
        if row == len(one._counts):
            assert np.all(moved == 0.0), "who came after the last release is not in it"
            continue
        column = matrix[:, row]
        strongest = int(np.abs(column).argmax())
        difference = moved[strongest] / column[strongest]
        assert np.allclose(moved, np.outer(column, difference), atol=1e-9 * np.abs(moved).max())
        assert 0.0 < np.linalg.norm(difference) <= stream.sensitivity
        allowed = stream.sensitivity * stream.mechanism.column_norm
        assert np.linalg.norm(moved) <= allowed * (1.0 + 1e-9)


@every_space
def test_nobody_keeps_the_sums_of_those_who_were_released(space: Any) -> None:
    """So no edit of a file's secret sums or counts makes them be released a second time."""
    made, people = joint(space, SimulatedNoise(0)), People(PEOPLE, 5)
    serve(made, people, 40)
    assert made._released > 0
    while made._released < made.people:
        made.update(observe(made, people, made.people, made.people + made.batch_size))
        made.policy()
    assert not made._sums.row.any()
    assert not made._sums.design.any()
    pending = observe(made, people, made.people, made.people + 1)
    alone = made.statistics(pending).row
    made.update(pending)
    assert (made._sums.row == alone).all()


@every_space
def test_only_policy_draws_and_only_when_a_release_is_due(space: Any, tmp_path: Path) -> None:
    spy = Spy(1)
    made = joint(space, spy)
    people = People(PEOPLE, 5)
    serve(made, people, 40)
    drawn = len(spy.given)
    before = spy._rng.bit_generator.state
    policy = made.policy()
    for seed in range(5):
        other = People(9, seed)
        contexts = other.sets if space is SPACES["sets"] else 9
        policy.act(contexts, np.random.default_rng(seed))
        made.policy()
    made.guarantee()
    _ = made.releases
    made.model.predict([[0.5, 0.5]])
    save(made, tmp_path / "learner")
    load(tmp_path / "learner", spy).policy()
    made.statistics(observe(made, people, 40, 41))
    stream = stream_of(made)
    if stream.due - 1 > 40:
        made.update(observe(made, people, 40, stream.due - 1))
        made.policy()
    assert len(spy.given) == drawn
    assert spy._rng.bit_generator.state == before


@every_space
def test_releases_cover_each_person_once(space: Any) -> None:
    """Late batches, batches in another order and batches larger than due."""
    spy = Spy(1)
    made = joint(space, spy)
    rows = noted_rows(made)
    people = People(PEOPLE, 5)
    old = observe(made, people, 0, 5)  # held back
    at, held = 5, []
    for size in (30, 2, 50, 1, 1, 20):
        held.append(observe(made, people, at, at + size))
        at += size
        if len(held) == 2:
            made.update(held[::-1])
            held = []
            made.policy()
    made.update(old)
    made.policy()
    stream = stream_of(made)
    assert sum(made._counts) == stream.people
    assert made.people == 109
    released = np.linalg.solve(encoder_matrix(made), np.concatenate(spy.given))
    wanted = made._row(sum(rows) - made._sums.row)
    assert np.allclose(released.sum(axis=0), wanted, rtol=1e-9)
    assert made.guarantee().epsilon <= 1.0


class TestPublicPoints:
    @pytest.mark.parametrize("space", [SPACES["set"], SPACES["box"]], ids=["set", "box"])
    def test_one_reward_alone_changes_the_sums(self, space: Any) -> None:
        """Not the points that a report names, and nothing public."""
        made = joint(space, SimulatedNoise(0))
        one = observe(made, People(20, 1), 0, 20)
        assert one.points.shape == (20, 0)
        rewards = one.rewards.copy()
        rewards[7] = 1.0 - rewards[7]
        a, b, forged = (
            made.statistics(replace(one, **change))
            for change in ({}, {"rewards": rewards}, {"points": np.full((20, 2), 0.99)})
        )
        assert np.array_equal(a.row, forged.row)
        assert np.array_equal(a.design, forged.design)
        assert np.array_equal(a.design, b.design)
        moved = made._row(a.row) - made._row(b.row)
        assert 0.0 < np.linalg.norm(moved) <= made.sensitivity

    def test_the_guarantee_names_the_reward_only(self) -> None:
        made = joint(SPACES["box"], SimulatedNoise(0))
        serve(made, People(PEOPLE, 5))
        guarantee = made.guarantee()
        assert guarantee.adjacency.record == "reward"
        assert "any other reward of that person" in guarantee.sentence
        assert "public coins" in guarantee.data[0]


class TestGuarantee:
    @every_stream
    @pytest.mark.parametrize(
        ("space", "budget"),
        [
            (SPACES["sets"], Joint(1.0, 1e-5)),
            (SPACES["sets"], Joint(10.0, 0.1)),
            (SPACES["box"], Joint(1.0, 1e-5)),
        ],
    )
    def test_epsilon_is_that_of_the_worst_person(
        self, space: Any, options: dict[str, Any], budget: Joint
    ) -> None:
        """Against the accounting of each release by itself, from explicit columns of H."""
        made = joint(space, SimulatedNoise(0), budget=budget, **options)
        serve(made, People(PEOPLE, 5))
        stream = stream_of(made)
        worst = 0.0
        for column in encoder_matrix(made).T:
            moved = [abs(entry) * stream.sensitivity for entry in column if entry != 0.0]
            events = [GaussianEvent(stream.scale / one) for one in moved]
            worst = max(worst, composed_epsilon(events, budget.delta))
        guarantee = made.guarantee()
        assert worst <= guarantee.epsilon <= budget.epsilon
        assert guarantee.epsilon >= budget.epsilon * (1.0 - 1e-6)
        assert guarantee.trust_model == "joint"
        assert guarantee.delta == budget.delta
        assert "Nothing that other people can see" in guarantee.sentence
        assert made.adjacency.record in guarantee.sentence

    @pytest.mark.chance(0)
    @pytest.mark.parametrize("name", ["sets", "set"])
    @pytest.mark.parametrize("options", [{}, {"mechanism_name": "binary_tree", "every": 6}])
    def test_with_secure_noise(self, name: str, options: dict[str, Any], tmp_path: Path) -> None:
        pytest.importorskip("opendp")
        made = learner(SPACES[name], noise=SecureNoise(), horizon=12, **options)
        serve(made, People(12, 5))
        guarantee = made.guarantee()
        assert 0.999 <= guarantee.epsilon <= 1.0
        assert guarantee.noise == (SecureNoise.name,)
        assert "simulated" not in guarantee.sentence
        save(made, tmp_path / "learner")
        assert load(tmp_path / "learner", SecureNoise()).guarantee() == guarantee
        with pytest.raises(InvalidInput, match="noise source"):
            load(tmp_path / "learner", SimulatedNoise(0))

    def test_terms_of_a_device_refuse_plain_observations(self) -> None:
        """Under joint privacy the report is the observation: no device that wants its own noise
        takes part by mistake."""
        policy = joint(SPACES["sets"], SimulatedNoise(0)).policy()
        with pytest.raises(InvalidInput, match="inf"):
            Terms(policy.domain, policy.space, 1e6, delta=1e-5).check(policy)


class TestFailures:
    """What is left when something breaks: nobody's data may be released a second time."""

    def test_a_policy_that_cannot_be_made_leads_to_no_second_draw(self) -> None:
        spy, people = Spy(1), People(PEOPLE, 5)
        made = joint(SPACES["sets"], spy)
        rows = noted_rows(made)
        serve(made, people, 40)
        due = made.batch_size
        made.update(observe(made, people, 40, 40 + due))
        drawn, old = len(spy.given), made._policies[-1]

        with breaking(made, "_policy", np.linalg.LinAlgError("not positive definite")):
            made.policy()
        assert len(spy.given) == drawn + 1
        for _ in range(3):
            assert made.policy() is old
        made.guarantee()
        assert len(spy.given) == drawn + 1
        stream = stream_of(made)
        assert stream.people == sum(made._counts)
        at = made.people
        made.update(observe(made, people, at, at + made.batch_size))
        assert made.policy() is not old
        assert made.policy().version == old.version + 1
        given = np.linalg.solve(encoder_matrix(made), np.concatenate(spy.given))
        assert np.allclose(given.sum(axis=0), made._row(sum(rows)), rtol=1e-9)

    @pytest.mark.parametrize("reloaded", [False, True])
    def test_what_a_release_says_is_noted_later_if_that_failed(
        self, reloaded: bool, tmp_path: Path
    ) -> None:
        """Fault once found: people whose release was drawn were left out of what is believed."""
        spy, people = Spy(1), People(PEOPLE, 5)
        made = joint(SPACES["set"], spy)
        serve(made, people, 40)
        made.update(observe(made, people, made.people, made.people + made.batch_size))
        with breaking(made, "_evidence_with", np.linalg.LinAlgError("not positive definite")):
            made.policy()
        drawn, missing = len(spy.given), made._counts[-1]
        if reloaded:
            save(made, tmp_path / "learner")
            made = load(tmp_path / "learner", spy)
        assert made._evidence.came == made._released - missing
        made.update(observe(made, people, made.people, made.people + made.batch_size))
        made.policy()
        assert len(spy.given) == drawn + 1
        assert made._evidence.came == sum(made._counts)

    def test_the_last_policy_can_be_made_again_from_what_was_released(self) -> None:
        """Fault once found: after a failure at the horizon, `policy` could never succeed again."""
        spy, people = Spy(1), People(PEOPLE, 5)
        made = joint(SPACES["box"], spy)
        serve(made, people, PEOPLE - 1)
        while made.people < PEOPLE:
            made.update(observe(made, people, made.people, PEOPLE))

        with breaking(made, "_policy", np.linalg.LinAlgError("not positive definite")):
            made.policy()
        drawn = len(spy.given)
        policy = made.policy()
        assert len(spy.given) == drawn
        reference = joint(SPACES["box"], Spy(1))
        serve(reference, people, PEOPLE - 1)
        while reference.people < PEOPLE:
            reference.update(observe(reference, people, reference.people, PEOPLE))
        assert encode(policy) == encode(reference.policy())

    def test_noise_that_fails_changes_nothing(self) -> None:
        spy, people = Spy(1), People(PEOPLE, 5)
        made = joint(SPACES["sets"], spy)
        serve(made, people, 40)
        made.update(observe(made, people, 40, 40 + made.batch_size))
        before = made.secret_fields()

        with breaking(spy, "add_gaussian", OSError("no entropy")):
            made.policy()
        assert made.secret_fields() == before
        assert made.policy().version > 0

    def test_a_release_that_was_interrupted_is_never_repeated(self) -> None:
        """As if the process was told to stop right after the draw, before the learner noted it."""
        spy, people = Spy(1), People(PEOPLE, 5)
        made = joint(SPACES["sets"], spy)
        serve(made, people, 40)
        made.update(observe(made, people, 40, 40 + made.batch_size))
        stream = stream_of(made)
        new = made.people - made._released
        stream.release(made._row(made._sums.row), new)
        made.update(observe(made, people, made.people, made.people + made.batch_size + 40))
        drawn = len(spy.given)
        with pytest.raises(InvalidInput, match="interrupted"):
            made.policy()
        assert len(spy.given) == drawn

    @every_space
    def test_a_release_that_was_half_noted_is_never_used(self, space: Any, tmp_path: Path) -> None:
        """Fault once found: its people counted as released, and what they had been asked was
        forgotten; a file of it was read."""
        spy, people = Spy(1), People(PEOPLE, 5)
        made = joint(space, spy)
        serve(made, people, 40)
        made.update(observe(made, people, made.people, made.people + made.batch_size))
        with breaking(made._design, "release", MemoryError("told to stop")):
            made.policy()
        drawn = len(spy.given)
        made.update(observe(made, people, made.people, PEOPLE))
        with pytest.raises(InvalidInput, match="interrupted"):
            made.policy()
        assert len(spy.given) == drawn
        save(made, tmp_path / "learner")
        with pytest.raises(InvalidInput, match="must agree"):
            load(tmp_path / "learner", spy)

    def test_threads_that_ask_at_once_share_one_draw(self) -> None:
        """Fault once found: every thread drew noise of its own for the same people."""

        spy = SlowSpy(1)
        made = joint(SPACES["sets"], spy)
        made.policy()
        made.update(observe(made, People(PEOPLE, 5), 0, made.batch_size))
        seen = at_once([made.policy] * 4)
        assert len(spy.given) == 1
        assert all(policy is seen[0] for policy in seen)

    def test_sums_may_come_before_the_first_policy_was_asked_for(self) -> None:
        """Fault once found: fewer people than due made `policy` fail."""
        worker, made = (joint(SPACES["sets"], Spy(1), growth=1.2) for _ in range(2))
        stream = stream_of(made)
        few = stream.due - 1
        assert few > 0
        made.merge(worker.statistics(observe(worker, People(few, 5), 0, few)))
        assert made.policy().version == 0
        assert stream.rows == 0
        assert made.batch_size == 1

    def test_damaged_saves_are_refused(self) -> None:
        made = joint(SPACES["sets"], SimulatedNoise(0))
        serve(made, People(60, 5))

        def less_noise(own: dict[str, Any]) -> None:
            own["stream"]["began"]["scale"] /= 10.0

        def more_noise(own: dict[str, Any]) -> None:
            """Than was drawn: its certificate would promise too much."""
            own["stream"]["began"]["scale"] *= 100.0

        def unreleased(own: dict[str, Any]) -> None:
            """Fault once found: 60 people whose sums were released were promised epsilon 0, and
            were released again."""
            own.update(joint(SPACES["sets"], SimulatedNoise(0)).secret_fields()["own"])

        for change in (less_noise, more_noise, unreleased):
            fields = copy.deepcopy(made.secret_fields())
            change(fields["own"])
            with pytest.raises(InvalidInput):
                joint(SPACES["sets"], SimulatedNoise(0)).restore_fields(fields)

    @every_space
    def test_sums_older_than_what_was_released_are_refused(self, space: Any) -> None:
        """Fault once found: such a file was read, and the next release was of what came, less the
        rows of people who had been released, under new noise: their second release."""
        made, people = joint(space, SimulatedNoise(0)), People(PEOPLE, 5)
        serve(made, people, 40)
        older = made.secret_fields()
        serve(made, people, 100)
        assert made._released > older["target"]["sums"]["reports"]
        fields = {**made.secret_fields(), "target": older["target"]}
        with pytest.raises(InvalidInput, match="40 reported"):
            joint(space, SimulatedNoise(0)).restore_fields(fields)


class TestWhatIsRefused:
    @pytest.mark.parametrize("came", [0, PEOPLE])
    def test_more_people_than_the_horizon(self, came: int) -> None:
        made, people = joint(SPACES["sets"], SimulatedNoise(0)), People(PEOPLE + 1, 5)
        serve(made, people, came)
        before = made.secret_fields()
        with pytest.raises(InvalidInput, match="horizon"):
            made.update(observe(made, people, came, PEOPLE + 1))
        assert made.secret_fields() == before
        assert made.batch_size > PEOPLE or not came

    def test_more_people_than_add_up_exactly(self) -> None:
        made = learner(budget=NonPrivate())
        huge = made._sums
        with pytest.raises(InvalidInput, match="exactly"):
            made.merge(replace(huge, reports=2**25 + 1, noise=(NO_NOISE,)))

    @pytest.mark.parametrize("bad", [np.nan, 1.5, -0.1])
    def test_observations_outside_their_bounds(self, bad: float) -> None:
        for space in SPACES.values():
            made = joint(space, SimulatedNoise(0))
            good = observe(made, People(4, 1), 0, 4)
            rewards = good.rewards.copy()
            rewards[2] = bad
            with pytest.raises(InvalidInput):
                made.update(replace(good, rewards=rewards))
            if good.points.shape[1]:
                points = good.points.copy()
                points[2, 0] = bad
                with pytest.raises(InvalidInput):
                    made.update(replace(good, points=points))
            assert made.people == 0

    def test_forged_sums_larger_than_their_count(self) -> None:
        made = joint(SPACES["sets"], SimulatedNoise(0))
        good = made.statistics(observe(made, People(10, 1), 0, 10))
        for forged in (
            replace(good, reports=1),
            replace(good, row=good.row * 2**20),
            replace(good, row=-good.row),
            replace(good, row=np.full_like(good.row, np.iinfo(np.int64).min)),
            replace(good, row=np.append(np.iinfo(np.int64).min, good.row[1:])),
            replace(good, row=np.concatenate([good.row[:1], [-(2**63)], good.row[2:]])),
            replace(good, row=good.row.astype(float)),
        ):
            with pytest.raises(InvalidInput):
                made.merge(forged)
        assert made.people == 0
