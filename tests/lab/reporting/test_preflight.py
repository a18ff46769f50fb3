"""What a study asks for, before anything is simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType
from scipy.stats import binom

from discreet.codec import decode, encode
from discreet.lab.reporting.plan import plan
from discreet.lab.reporting.preflight import (
    MOST_ROWS,
    Issue,
    Preflight,
    arm_table,
    budget_notes,
    column_table,
    difference_that_shows,
    issues_text,
    line_table,
    people_text,
    preflight,
    worth_of_reports,
    worth_of_sums,
)
from discreet.lab.studies import Study, load_study
from discreet.privacy import Joint
from discreet.privacy.accounting import GaussianEvent, PureEvent
from discreet.privacy.frequency import SignedSubsetSelection
from discreet.validation import FloatArray, InvalidInput

PEOPLE = 1200
STUDY = """
name = "small"
title = "A small study"
replicates = 3
[problem]
name = "table"
path = "people.csv"
label = { column = "y", classes = ["a", "b", "rare"] }
columns = [
  { name = "x", lower = 0, upper = 9, levels = 10, outside = "drop" },
  { name = "z", values = ["u", "v"], missing = "drop" },
]
[[learners]]
name = "partition"
epsilon = [0.5, 3]
non_private = true
[[learners]]
name = "capri"
trust_model = "joint"
epsilon = 1
delta = 1e-6
[[learners]]
name = "uniform"
[[learners]]
name = "best_fixed"
"""


def study(folder: Path, text: str = STUDY) -> Study:
    """1,200 rows: 100 have no z, 12 more an x beyond its bounds; 11 are rare; 400 people."""
    rows = [
        (
            99 if 100 <= row < 112 else row % 10,
            "" if row < 100 else "uv"[row % 2],
            "rare" if row >= PEOPLE - 11 else "ab"[row % 2],
            row % 400,
        )
        for row in range(PEOPLE)
    ]
    lines = ["x,z,y,who", *(",".join(map(str, row)) for row in rows)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    path = folder / "study.toml"
    path.write_text(text)
    return load_study(path)


def checked(folder: Path, text: str = STUDY) -> Preflight:
    return preflight("study.toml", study(folder, text))


def printed(shown: RenderableType) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()


def test_people_columns_and_arms(tmp_path: Path) -> None:
    facts = checked(tmp_path)
    assert facts.can_run
    assert (facts.people, facts.replicates, facts.people_of_arm) == (1088, 3, 1088 / 3)
    assert facts.rows == "1,088 of 1,200 rows; 100 lack z, 12 outside the declared x"
    x, z = facts.columns
    assert (x.lower, x.upper, x.levels, x.missing, x.outside) == (0.0, 9.0, 10, 0, 12)
    assert (z.categories, z.missing, z.outside) == (("u", "v"), 100, 0)
    assert [arm.people for arm in facts.arms] == [539, 538, 11]


def test_values_that_are_moved_to_a_bound_are_counted(tmp_path: Path) -> None:
    text = STUDY.replace('levels = 10, outside = "drop"', 'outside = "clip"')
    assert [column.clipped for column in checked(tmp_path, text).columns] == [12, 0]
    assert "12" in printed(column_table(checked(tmp_path, text))).splitlines()[2]
    narrow = checked(tmp_path, text.replace("upper = 9", "upper = 3"))
    assert narrow.warnings[0].startswith("726 of 1,200 values of column 'x' lie beyond its declar")


def test_lines_say_what_their_data_are_worth_at_most(tmp_path: Path) -> None:
    low, high, free, joint, uniform, fixed = checked(tmp_path).lines
    for line, epsilon in ((low, 0.5), (high, 3.0)):
        # One class of three is right, so an arm pays at a mean rate of 1/3.
        worth = worth_of_reports(PureEvent(epsilon), 1088.0, 1 / 3)
        assert line.worth == pytest.approx(worth)
        assert line.worth_of_arm == pytest.approx((line.worth or 0.0) / 3.0)
        assert line.promise is not None
        assert line.promise.epsilon == epsilon  # derived from the first policy
        assert f"epsilon = {epsilon:g}; local" in line.sentence
    assert (free.worth, free.worth_of_arm, free.promise, free.sentence) == (
        1088,
        1088 / 3,
        None,
        "",
    )
    assert joint.promise is not None
    assert (joint.promise.epsilon, joint.promise.delta) == (1.0, 1e-6)
    multiplier = joint.promise.epsilon and study(tmp_path).settings[3].budget.noise_multiplier
    assert joint.worth_of_arm == pytest.approx(worth_of_sums(multiplier, 1088 / 3, 1 / 3))
    for line in (uniform, fixed):
        assert (line.worth, line.worth_of_arm, line.difference, line.epsilon) == (None,) * 4


def test_rare_arms_are_named_at_the_epsilons_that_hide_them(tmp_path: Path) -> None:
    facts = checked(tmp_path)
    assert [arm.hidden_at for arm in facts.arms] == [(), (), (0.5, 1.0, 3.0)]
    hidden = facts.lines[1]
    assert 11 / 1088 < (hidden.difference or 0.0) / math.sqrt(2.0) < 539 / 1088
    shown = printed(arm_table(checked(tmp_path)) or "")
    assert "11" in shown
    assert "0.5, 1 and 3" in shown


@pytest.mark.parametrize(
    ("epsilon", "upper", "bound", "times"),
    [(1.0, 200, 12.5, 16), (8.0, 200, 100, 2), (8.0, 40, None, 1)],
)
def test_advice_for_a_range_that_is_too_wide(
    epsilon: float, upper: float, bound: float | None, times: int, tmp_path: Path
) -> None:
    """4% of an arm's rewards are 60, the others at most 9. At epsilon 1 so many may be cut, because
    sqrt(2 / 1200) / (2 tanh(1 / 2)) = .044, and not at epsilon 8, where it is .020."""
    rows = [f"{row % 7},{60 if row % 25 == 0 else row % 10},{row % 5}" for row in range(PEOPLE)]
    (tmp_path / "people.csv").write_text("\n".join(["x,a,b", *rows]) + "\n")
    text = f"""
name = "wide"
title = "Wide"
[problem]
name = "table"
path = "people.csv"
rewards = {{ columns = ["a", "b"], lower = 0, upper = {upper}, outside = "clip" }}
columns = [{{ name = "x", lower = 0, upper = 6 }}]
[[learners]]
name = "kernel"
epsilon = {epsilon}
"""
    (tmp_path / "study.toml").write_text(text)
    warnings = preflight("study.toml", load_study(tmp_path / "study.toml")).warnings
    advice = [each for each in warnings if "noise is as wide" in each]
    if bound is None:
        assert advice == []
    else:
        (one,) = advice
        assert f"state upper = {bound}" in one
        assert f"{times} times smaller" in one
    if epsilon == 1.0:  # a plan of 200 of these people may cut more
        made = plan(tmp_path / "study.toml", people=200, epsilons=[1.0], replicates=2)
        assert any("state upper" in each for each in made.left_out), made.left_out


def test_differences_are_in_units_of_the_reward(tmp_path: Path) -> None:
    (tmp_path / "paid").mkdir()
    text = STUDY.replace(
        'label = { column = "y", classes = ["a", "b", "rare"] }',
        'rewards = { columns = ["who", "w"], lower = 0, upper = 400 }',
    )
    rows = [f"{row % 10},u,{row % 400},{row % 7}" for row in range(300)]
    (tmp_path / "people.csv").write_text("\n".join(["x,z,who,w", *rows]))
    path = tmp_path / "study.toml"
    path.write_text(text)
    loaded = load_study(path)
    facts = preflight("study.toml", loaded)
    line = facts.lines[0]
    assert line.difference == pytest.approx(400.0 * min(1.0, math.sqrt(2.0 / line.worth_of_arm)))  # type: ignore[operator]
    assert [arm.people for arm in facts.arms] == [None, None]
    assert arm_table(facts) is None


def test_visits_beyond_those_that_are_covered_tell_nothing(tmp_path: Path) -> None:
    text = STUDY.replace("epsilon = [0.5, 3]", "epsilon = [0.5]\nmax_contributions = 2")
    facts = checked(tmp_path, text.replace("[[learners]]", '[people]\nid = "who"\n[[learners]]', 1))
    private = facts.lines[0]
    visits = [sum(row % 400 == who for row in range(112, PEOPLE)) for who in range(400)]
    assert facts.people == sum(visits)
    assert private.reports == pytest.approx(sum(min(count, 2) for count in visits))
    worth = worth_of_reports(PureEvent(0.25), private.reports, 1 / 3)
    assert private.worth == pytest.approx(worth)
    assert facts.lines[1].reports == facts.people
    note = next(budget_notes(facts))
    assert note.startswith("partition, epsilon 0.5: 2 visits of a person are learnt from, in all")


def test_in_words(tmp_path: Path) -> None:
    facts = checked(tmp_path)
    assert people_text(facts) == (
        "1,088 people, 3 replicates; 3 arms: a, b, rare; 363 people for each arm; each is right "
        "for 11 or more."
    )
    columns = printed(column_table(facts))
    assert "0 to 9, 10 values" in columns
    assert "2: u, v" in columns
    lines = printed(line_table(facts)).splitlines()
    (low,) = [line for line in lines if line.startswith("partition") and " 0.5 " in line]
    assert low.split() == ["partition", "0.5", "58", "19", "0.3"]
    assert not any("best_fixed" in line for line in lines)  # it learns from no one
    assert any("this is the budget" in text for text in budget_notes(facts))


def test_lines_of_the_same_numbers_share_a_row(tmp_path: Path) -> None:
    text = STUDY.replace('name = "capri"\ntrust_model = "joint"\nepsilon = 1\ndelta = 1e-6',
                         'name = "best_arm"\nepsilon = [0.5, 3]')  # fmt: skip
    rows = printed(line_table(checked(tmp_path, text))).splitlines()
    assert [row.split()[:3] for row in rows if "best_arm" in row] == [
        ["partition;", "best_arm", "0.5"],
        ["partition;", "best_arm", "3"],
    ]


def test_long_tables_are_cut_and_say_where_the_rest_is(tmp_path: Path) -> None:
    facts = checked(tmp_path)
    columns = facts.columns * 5
    short = printed(column_table(replace(facts, columns=columns))).splitlines()
    assert short[-1].split() == ["...", "2", "more:", "--details"]
    assert len(short) == 2 + MOST_ROWS + 1
    full = printed(column_table(replace(facts, columns=columns), len(columns)))
    assert len(full.splitlines()) == 2 + len(columns)


def test_problems_without_a_table_or_arms(tmp_path: Path) -> None:
    text = """
name = "points"
rounds = 300
[problem]
name = "dose"
[[learners]]
epsilon = 1
delta = 1e-6
"""
    facts = checked(tmp_path, text)
    assert (facts.rows, facts.arms, facts.people_of_arm) == ("", (), None)
    (line,) = facts.lines
    assert (line.worth_of_arm, line.difference) == (None, None)
    assert line.worth is not None
    assert facts.choices
    assert facts.choices[0].startswith("gp_ucb was chosen")
    assert people_text(facts).endswith("every person brings up to 8 points of their own.")
    assert "dose_mg" in printed(column_table(facts))


def test_what_is_wrong_is_numbered_where_there_are_several_things() -> None:
    one, two = Issue(3, "x was 1."), Issue(None, "y is missing.")
    assert issues_text(Preflight("s.toml", (one,))) == "line 3: x was 1."
    several = Preflight("s.toml", (one, two))
    assert issues_text(several) == "1. line 3: x was 1.\n2. y is missing."
    assert not several.can_run


def test_facts_are_written_and_read_again(tmp_path: Path) -> None:
    for facts in (checked(tmp_path), Preflight("s.toml", (Issue(None, "wrong"),))):
        assert decode(encode(facts), Preflight) == facts


def test_predictions_that_are_drawn_one_by_one_have_no_such_bound(tmp_path: Path) -> None:
    """An exponential mechanism tells more about few people than a Gaussian sum may."""
    text = STUDY.replace('name = "capri"', 'name = "usca"')
    sums = checked(tmp_path, text).lines[3]
    assert sums.worth is not None
    drawn = text.replace("delta = 1e-6", "delta = 1e-6\noptions = { predictions = 3 }")
    line = checked(tmp_path, drawn).lines[3]
    assert (line.learner, line.worth, line.worth_of_arm) == ("usca", None, None)


# The worth of reports and sums.


EPSILONS = (0.1, 1.0, 3.0)
RATES = (0.5, 0.2, 0.02, 0.999)


def share(epsilon: float) -> float:
    return worth_of_reports(PureEvent(epsilon), 1.0)


def information(before: FloatArray, score: FloatArray, channel: FloatArray) -> float:
    """What a channel (x, y) leaves of the Fisher information of scores (x,), as a share."""
    shown = before @ channel
    passed = (before * score) @ channel
    return float((passed**2 / shown).sum() / (before @ score**2))


def channels(epsilon: float, rng: np.random.Generator) -> FloatArray:
    """A random channel in which no two inputs are told apart by more than e^epsilon."""
    inputs, outputs = rng.integers(2, 6, 2)
    ratios = np.exp(epsilon * rng.integers(0, 2, (inputs, outputs)))
    base = rng.dirichlet(np.ones(outputs))
    channel: FloatArray = ratios * base
    # Normalised rows could differ by more; what each lacks is put on an output of its own kind.
    rest = channel.sum(axis=1).max() - channel.sum(axis=1)
    low = channel.sum(axis=1).max() / math.expm1(epsilon)
    return np.column_stack([channel, rest + low]) / (channel.sum(axis=1).max() + low)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_pure_report_tells_more(epsilon: float) -> None:
    rng = np.random.default_rng(1)
    most = share(epsilon)
    for _ in range(300):
        channel = channels(epsilon, rng)
        largest = np.log(channel.max(axis=0) / channel.min(axis=0)).max()
        assert largest <= epsilon + 1e-9
        before = rng.dirichlet(np.ones(len(channel)))
        score = rng.normal(size=len(channel))
        score -= before @ score
        assert information(before, score, channel) <= most + 1e-12
        for rate in RATES:
            told = information(*of_rate(rate), channel[:2])
            assert told <= worth_of_reports(PureEvent(epsilon), 1.0, rate) + 1e-12


def of_rate(rate: float) -> tuple[FloatArray, FloatArray]:
    """Rewards of 0 and 1 with that mean, and their scores."""
    return np.array([1.0 - rate, rate]), np.array([-1.0 / (1.0 - rate), 1.0 / rate])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomised_response_tells_as_much(epsilon: float) -> None:
    keep = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    channel = np.array([[keep, 1.0 - keep], [1.0 - keep, keep]])
    for rate in RATES:
        told = information(*of_rate(rate), channel)
        assert told == pytest.approx(worth_of_reports(PureEvent(epsilon), 1.0, rate), rel=1e-9)
    # The report of a sign, as learners make it where nothing else is hidden.
    sign = SignedSubsetSelection.best(1, epsilon)
    assert sign.contrast**2 == pytest.approx(share(epsilon), rel=1e-6)


@pytest.mark.parametrize("scale", [0.05, 0.22, 0.3, 1.0, 8.0])
def test_gaussian_reports(scale: float) -> None:
    """Two values with Gaussian noise, integrated on a grid."""
    x = np.linspace(-12.0 * scale, 12.0 * scale + 1.0, 200_001)
    p, q = (np.exp(-0.5 * ((x - value) / scale) ** 2) for value in (0.0, 1.0))
    for rate in RATES:
        variance = rate * (1.0 - rate)
        told = variance * ((p - q) ** 2 / (rate * p + (1.0 - rate) * q)).sum() / p.sum()
        worth = worth_of_reports(GaussianEvent(scale), 1.0, rate)
        assert worth == pytest.approx(told, rel=1e-8)


@pytest.mark.parametrize("visits", [1, 4])
def test_released_sums(visits: int) -> None:
    """The mean of n rewards of variance 1/4, from their sum with noise."""
    multiplier, people = Joint(1.0, 1e-6, max_contributions=visits).noise_multiplier, 1000.0
    without = 0.25 / people
    released = (0.25 * people + multiplier**2) / people**2
    normal = people * without / released
    assert worth_of_sums(multiplier, people) == pytest.approx(normal, rel=1e-4)
    assert worth_of_sums(multiplier, people) >= normal
    # Neither noise on each reward nor on sums over parts of the people tells more.
    for parts in (10.0, 1000.0):
        each = people / parts
        assert parts * each**2 / (0.25 * each + multiplier**2) <= 1.0 / released


@pytest.mark.parametrize("people", [1, 2, 5, 30])
@pytest.mark.parametrize("multiplier", [0.1, 0.3, 0.5, 1.0, 4.0])
def test_sums_of_rewards_of_0_and_1(people: int, multiplier: float) -> None:
    """Their steps show through little noise, so they tell more than normal rewards would."""
    worth = worth_of_sums(multiplier, people)
    normal = people / (1.0 + 4.0 * multiplier**2 / people)
    assert normal <= worth <= normal + 0.2
    x = np.arange(-9.0 * multiplier, people + 9.0 * multiplier, multiplier / 25.0)
    values = np.arange(people + 1)
    density = np.exp(-0.5 * ((x - values[:, None]) / multiplier) ** 2)
    density /= math.sqrt(2.0 * math.pi) * multiplier
    for mean in (0.5, 0.3, 0.1, 0.01):
        law = binom.pmf(values, people, mean)
        score = (values - people * mean) / math.sqrt(mean * (1.0 - mean))
        shown, passed = law @ density, (law * score) @ density
        told = float((passed**2 / np.maximum(shown, 1e-300)).sum() * multiplier / 25.0)
        assert told <= worth_of_sums(multiplier, people, mean) * (1.0 + 1e-9) <= worth * (1 + 2e-9)
    # Nor does noise on each reward tell more.
    assert people * worth_of_reports(GaussianEvent(multiplier), 1.0) <= worth * (1.0 + 1e-9)


def test_more_noise_is_worth_less() -> None:
    sums = [worth_of_sums(noise, 500.0) for noise in (8.0, 1.0, 0.1)]
    gaussian = [worth_of_reports(GaussianEvent(noise), 500.0) for noise in (8.0, 1.0, 0.1)]
    pure = [worth_of_reports(PureEvent(epsilon), 500.0) for epsilon in EPSILONS]
    for worth in (sums, gaussian, pure):
        assert 0.0 < worth[0] < worth[1] < worth[2] <= 500.0
    assert worth_of_sums(1.0, 0.0) == worth_of_reports(PureEvent(1.0), 0.0) == 0.0


def test_rare_rewards_keep_little() -> None:
    """Reports of rewards with a mean of 2% keep a twelfth of what those with a mean of 1/2 do."""
    usual, rare = (worth_of_reports(PureEvent(1.0), 1.0, rate) for rate in (0.5, 0.02))
    assert (usual, rare) == pytest.approx((0.2136, 0.0208), abs=5e-5)
    assert worth_of_reports(PureEvent(1.0), 1.0, 0.0) < 1e-8
    # A difference hides behind noise alike, whatever the rate.
    assert difference_that_shows(1e4 * rare, 0.02) == pytest.approx(
        difference_that_shows(1e4 * usual), rel=0.15
    )


def test_differences_that_show() -> None:
    assert difference_that_shows(200.0) == pytest.approx(0.1)
    assert difference_that_shows(200.0, 0.1) == pytest.approx(0.06)
    assert difference_that_shows(0.5) == 1.0


def test_numbers_that_are_none_are_refused() -> None:
    for people in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="people was"):
            worth_of_reports(PureEvent(1.0), people)
        with pytest.raises(InvalidInput, match="people was"):
            worth_of_sums(1.0, people)
    with pytest.raises(InvalidInput, match="rate was"):
        worth_of_reports(PureEvent(1.0), 1.0, 1.1)
    with pytest.raises(InvalidInput, match="noise_multiplier was"):
        worth_of_sums(0.0, 10.0)
    with pytest.raises(InvalidInput, match="people was"):
        difference_that_shows(0.0)
