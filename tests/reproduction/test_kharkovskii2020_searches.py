"""Methods, the runner, and the plans of the tables and figures."""

from __future__ import annotations

import math

import joblib
import numpy as np
import pytest

from discreet.reproduction.kharkovskii2020.data_sets import (
    DrawnFunction,
    FixedOutcome,
    synthetic,
)
from discreet.reproduction.kharkovskii2020.experiments import (
    PO_GP_UCB_FIGURES,
    PO_GP_UCB_TABLES,
    REFERENCES,
    Wish,
    searches_in,
)
from discreet.reproduction.kharkovskii2020.methods import (
    Method,
    NonPrivate,
    Ours,
    Published,
    Random,
    power,
)
from discreet.reproduction.kharkovskii2020.searches import (
    ABOVE,
    RAW_REGRET,
    REGRET,
    Entry,
    Line,
    Search,
    lines_of,
    run_all,
    run_search,
)
from discreet.validation import InvalidInput

NAME = "synthetic-5"
EPSILON = math.exp(1.1)
METHODS: tuple[Method, ...] = (
    Published(EPSILON, 10),
    Published(EPSILON, 10, "if"),
    Ours(EPSILON),
    Ours(EPSILON, published_rule=True),
    *REFERENCES,
)


@pytest.fixture(scope="module")
def data() -> DrawnFunction:
    return synthetic(5.0)


def search(method: Method, rounds: int = 6) -> Search:
    return Search(NAME, method, rounds)


def lines(data: DrawnFunction, runs: int = 3, rounds: int = 6) -> list[Line]:
    entries = [Entry("a table", search(method, rounds)) for method in METHODS]
    found = list(run_all([entry.search for entry in entries], {NAME: data}, runs, 5))
    return lines_of(entries, {NAME: data}, found)


def test_every_method_starts_with_the_same_row_of_the_same_function(data: DrawnFunction) -> None:
    made = [run_search(search(method), data, 5, 1) for method in METHODS]
    assert len({run.regret[0] for run in made}) == 1
    assert all(run.regret.shape == (6,) for run in made)
    assert all((np.diff(run.regret) <= 0.0).all() for run in made)
    other = run_search(search(METHODS[0]), data, 5, 2)
    assert other.regret[0] != made[0].regret[0]


def test_runs_are_repeatable_whatever_shares_the_work(data: DrawnFunction) -> None:
    searches = [search(method) for method in METHODS]
    serial = list(run_all(searches, {NAME: data}, 2, 5, jobs=1))
    with joblib.parallel_config(backend="threading"):
        shared = list(run_all(searches, {NAME: data}, 2, 5, jobs=2))
    found = {(run.search, run.number): run.regret.tolist() for run in shared}
    assert found == {(run.search, run.number): run.regret.tolist() for run in serial}


def test_equal_searches_run_once(data: DrawnFunction) -> None:
    twice = [search(Random()), search(Random()), search(Random(), rounds=3)]
    assert len(list(run_all(twice, {NAME: data}, 4, 5))) == 8


def test_random_rows_are_drawn_without_replacement(data: DrawnFunction) -> None:
    rows, outcome = data.rows[:30], np.random.default_rng(0).standard_normal(30)
    few = FixedOutcome(data.setting, "few", "", rows, 5.0, 1e-5, 1.0, outcome)
    # All rows of a table asked for: the best is among them.
    assert run_search(search(Random(), rounds=30), few, 5, 0).regret[-1] == 0.0


def test_what_is_promised_and_what_is_held(data: DrawnFunction) -> None:
    held = {line.method: line for line in lines(data)}
    published = held[Published(EPSILON, 10)]
    assert published.true_epsilon == math.inf
    assert published.facts["true_epsilon"] is None
    assert published.facts["trust_model"] == "none"
    assert published.facts["branch"] == "else"
    ours = held[Ours(EPSILON)]
    assert ours.true_epsilon == pytest.approx(EPSILON)
    assert ours.facts["trust_model"] == "outsourced"
    assert ours.facts["noise_scale"] == pytest.approx(1.389, abs=1e-3)
    assert ours.guarantee is not None
    assert "within distance 1" in ours.guarantee.sentence
    assert held[Random()].true_epsilon is None
    for wanted, scale in ((2.0, 0.641), (3.0, 0.289)):
        assert Ours(math.exp(wanted)).scale(data) == pytest.approx(scale, abs=1e-3)
    # A row that may move twice as far needs twice the noise.
    far = Ours(EPSILON, radius=2.0)
    assert far.scale(data) == pytest.approx(2.0 * Ours(EPSILON).scale(data))
    assert far.guarantee(data).epsilon == pytest.approx(EPSILON)


def test_records_of_a_line(data: DrawnFunction) -> None:
    found = {line.method: line for line in lines(data)}
    line = found[Ours(EPSILON)]
    regret, raw, above = line.records
    assert [one.metric for one in line.records] == [REGRET, RAW_REGRET, ABOVE]
    assert regret.mean == pytest.approx(line.final.mean())
    assert regret.standard_error == pytest.approx(line.final.std(ddof=1) / math.sqrt(3.0))
    assert raw.mean == regret.mean  # sigma_y is 1 here
    free = found[NonPrivate()]
    assert above.mean == pytest.approx((line.final - free.final).mean())
    assert regret.trials == 3
    for key in ("dataset", "rounds", "epsilon", "delta", "r", "radius", "true_epsilon", "sigma_y"):
        assert key in regret.setting
    assert [one.metric for one in free.records] == [REGRET, RAW_REGRET]
    assert free.records[0].setting["epsilon"] is None
    mean, error = line.band()
    assert mean.shape == error.shape == (6,)
    assert mean[-1] == pytest.approx(regret.mean)


def test_a_search_finds_more_than_chance_where_it_can(data: DrawnFunction) -> None:
    methods = (NonPrivate(), Ours(math.exp(3.0), published_rule=True), Random())
    entries = [Entry("a table", search(method, 40)) for method in methods]
    runs = list(run_all([entry.search for entry in entries], {NAME: data}, 6, 11))
    free, ours, chance = (line.final.mean() for line in lines_of(entries, {NAME: data}, runs))
    assert free < 0.5 * chance
    assert ours < 0.5 * chance


def test_the_plan_of_a_table() -> None:
    wish = Wish(tables=[1])
    assert PO_GP_UCB_TABLES.needed(wish) == ["synthetic"]
    entries = PO_GP_UCB_TABLES.plan(wish, {"synthetic": synthetic()})
    stated = {
        one.search.method.columns: one.paper
        for one in entries
        if isinstance(one.search.method, Published) and one.search.method.branch == "as stated"
    }
    assert stated == {3: 0.073, 6: 0.038, 8: 0.018, 10: 0.014, 15: 0.118, 20: 0.137}
    forced = [
        (one.search.method.columns, one.search.method.branch)
        for one in entries
        if isinstance(one.search.method, Published) and one.search.method.branch != "as stated"
    ]
    assert forced == [(3, "if"), (6, "if"), (8, "if"), (10, "if")]
    rest = [one.search.method for one in entries if not isinstance(one.search.method, Published)]
    assert rest == [Ours(EPSILON), Ours(EPSILON, True), *REFERENCES]
    assert {one.search.rounds for one in entries} == {50}
    assert {one.setting["table"] for one in entries} == {1}
    # With another number of questions the printed numbers do not apply.
    assert all(one.paper is None for one in PO_GP_UCB_TABLES.plan(
        Wish(tables=[1], rounds=9), {"synthetic": synthetic()}
    ))  # fmt: skip


def test_the_plan_of_a_figure() -> None:
    entries = PO_GP_UCB_FIGURES.plan(Wish(["synthetic"]), {"synthetic": synthetic()})
    published = [one for one in entries if isinstance(one.search.method, Published)]
    assert [(power(one.search.method.epsilon), one.paper) for one in published] == [
        ("e^1.1", 0.011), ("e^0.9", 0.069), ("e^0", 0.099), ("e^1.1", 0.011)
    ]  # fmt: skip
    assert published[-1].search.method.name == "published, paper's branch"
    assert {one.metric for one in entries} == {ABOVE}
    # At length scale 5 the paper has no number; at e^3 the rule itself takes the branch "if".
    ours = PO_GP_UCB_FIGURES.plan(Wish([NAME]), {NAME: synthetic(5.0)})
    assert all(one.paper is None for one in ours)
    taken = [one.search.method.facts(synthetic(5.0)) for one in ours[:4]]
    assert [facts["branch"] for facts in taken] == ["if", "else", "else", "if"]


def test_plans_leave_out_what_is_not_there_and_share_references() -> None:
    small = {"synthetic": synthetic()}
    entries = PO_GP_UCB_TABLES.plan(Wish(), small)
    assert {one.search.data_set for one in entries} == {"synthetic"}
    # Three tables with 6 r each; r = 15 and 20 of Table 1 take "else" as in the paper.
    assert len(entries) == 3 * (6 + 5) + 12
    assert searches_in(entries) == len(entries) - 2 * len(REFERENCES)
    assert set(PO_GP_UCB_TABLES.needed(Wish())) == {
        "synthetic", "synthetic-5", "loans", "property", "branin"
    }  # fmt: skip
    assert PO_GP_UCB_TABLES.sizes == (50, 100)
    only = PO_GP_UCB_TABLES.plan(Wish(methods=["ours"]), small)
    assert {one.search.method.name for one in only} == {"ours"}


def test_bad_wishes_are_refused(data: DrawnFunction) -> None:
    small = {NAME: data}
    with pytest.raises(InvalidInput, match="the data set was 'adult'"):
        PO_GP_UCB_TABLES.needed(Wish(["adult"]))
    with pytest.raises(InvalidInput, match="the table was 13"):
        PO_GP_UCB_TABLES.needed(Wish(tables=[13]))
    with pytest.raises(InvalidInput, match="no table is left"):
        PO_GP_UCB_TABLES.needed(Wish(["loans"], [1]))
    with pytest.raises(InvalidInput, match="rounds"):
        PO_GP_UCB_TABLES.needed(Wish(rounds=0))
    with pytest.raises(InvalidInput, match="the method was 'theirs'"):
        PO_GP_UCB_TABLES.plan(Wish(methods=["theirs"]), small)
    with pytest.raises(InvalidInput, match="has 10000 rows"):
        run_all([search(Random(), 10_001)], small, 1, 0)
    with pytest.raises(InvalidInput, match="runs"):
        run_all([search(Random())], small, 0, 0)
    with pytest.raises(InvalidInput, match="jobs"):
        run_all([search(Random())], small, 1, 0, jobs=0)


def test_lines_of_a_reproduction_come_in_order(data: DrawnFunction) -> None:
    wish = Wish([NAME], methods=["random", "published"], rounds=4)
    found = PO_GP_UCB_FIGURES.lines(wish, {NAME: data}, runs=2)
    assert [line.method.name for line in found] == ["published"] * 3 + ["random"]
    assert all(len(line.runs) == 2 for line in found)
    # The search without privacy did not run, so nothing is above it.
    assert all(len(line.above) == 0 for line in found)
