"""Table 2: splits, ratios and the test between methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import wilcoxon

from discreet.privacy import NonPrivate
from discreet.reproduction.cases import lines_of
from discreet.reproduction.ma2025.real_data import (
    ADULT,
    AT_END,
    AT_QUARTER,
    DATA_SETS,
    JOBS,
    TAXI,
    Split,
    TableSources,
    load,
)
from discreet.reproduction.ma2025.table import (
    ABSE,
    Ratio,
    Wish,
    _p_value,
    _ratio,
    methods,
    plan,
    ratios,
    run,
)
from discreet.validation import InvalidInput
from tests.reproduction.transfer_tables import write_tables

QUICK = Wish(methods=["ours", "published"], epsilons=[2.0], rounds=80)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    folder = write_tables(tmp_path_factory.mktemp("data"))
    return {name: load(name, folder) for name in DATA_SETS}


def test_targets_and_sources_share_nobody(splits: dict[str, Split]) -> None:
    adult = splits[ADULT]
    assert len(adult.sources) == 7
    for split in splits.values():
        domain = split.target.domain
        assert domain.dimension == 3
        for source in split.sources.values():
            assert source.domain == domain
            assert source.arm_names == split.target.arm_names
    # Rows with a question mark are left out, all others are somewhere.
    people = adult.target.size + sum(one.size for one in adult.sources.values())
    assert 0.9 * 600 < people < 600
    for name in (JOBS, TAXI):
        sizes = [one.size for one in splits[name].sources.values()]
        assert splits[name].target.size + sum(sizes) == 400


def test_values_beyond_the_public_bounds_are_moved_to_them(splits: dict[str, Split]) -> None:
    contexts = splits[JOBS].target.contexts
    assert contexts[:, 2].max() == 40.0
    assert splits[TAXI].target.contexts[:, 1].max() <= 60.0


def test_sources_report_each_row_once(splits: dict[str, Split]) -> None:
    split = splits[JOBS]
    (source,) = TableSources(split.sources, 4.0)(np.random.default_rng(0))
    assert source.epsilon == 4.0
    table = split.sources[source.name]
    assert len(source.data) == table.size
    assert sorted(map(tuple, source.data.contexts)) == sorted(map(tuple, table.contexts))


def test_both_times_are_measured(splits: dict[str, Split]) -> None:
    target = splits[TAXI].target
    values = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    found = target.metrics(target.sample(8, np.random.default_rng(0)), values)
    assert {name: one.sum() for name, one in found.items()} == {AT_END: 3 / 8, AT_QUARTER: 1.0}


def test_every_method_runs_with_and_without(splits: dict[str, Split]) -> None:
    cases = plan(Wish(), [splits[ADULT]])
    assert {"ours", "published"} <= set(methods())
    for method in methods():
        mine = [case for case in cases if case.method == method]
        settings = [(c.budget.epsilon, c.setting["epsilon_auxiliary"]) for c in mine]
        assert {one for one in settings if one[1] is None} == {(1.0, None), (2.0, None)}
        assert {(1.0, 1.0), (1.0, 4.0), (2.0, 1.0), (2.0, 4.0)} <= set(settings)
    assert [case.budget for case in cases if case.method == ABSE] == [NonPrivate()]


def test_ratios_and_tests_come_from_the_same_trials(splits: dict[str, Split]) -> None:
    cases = plan(QUICK, [splits[ADULT]])
    lines = lines_of(cases, list(run(cases, 7)))
    found = ratios(lines, QUICK)
    assert len(found) == 2 * 2 * 4  # cells, times, methods with and without
    base = next(line for line in lines if line.case.method == ABSE)

    def rewards(one: Ratio) -> np.ndarray:
        for line in lines:
            auxiliary = line.case.setting["epsilon_auxiliary"]
            wanted = one.epsilon_auxiliary if one.with_data else None
            if line.case.method == one.method and auxiliary == wanted:
                return np.array([trial.totals[one.at] for trial in line.trials])
        raise AssertionError

    below = {at: np.array([t.totals[at] for t in base.trials]) for at in (AT_END, AT_QUARTER)}
    for one in found:
        assert one.ratio == pytest.approx(rewards(one).mean() / below[one.at].mean())
        assert one.trials == 7
        assert one.true_epsilon == pytest.approx(2.0)
        assert one.true_epsilon_auxiliary == (
            pytest.approx(one.epsilon_auxiliary) if one.with_data else None
        )
        assert one.record.to_dict()["true_epsilon_auxiliary"] == one.true_epsilon_auxiliary
        assert one.paper is None  # these are not all people of the target
    for cell in {(one.epsilon_auxiliary, one.at) for one in found}:
        mine = [one for one in found if (one.epsilon_auxiliary, one.at) == cell]
        (best,) = [one for one in mine if one.best]
        assert best.ratio == max(one.ratio for one in mine)
        others = [one for one in mine if not one.best]
        for one in others:
            expected = _p_value(rewards(best), rewards(one))
            assert one.p_value == pytest.approx(expected)
        assert best.p_value == max(one.p_value for one in others)
        assert best.significant == all(one.p_value < 0.05 for one in others)
    record = found[0].record.to_dict()
    assert record["dataset"] == ADULT
    assert record["metric"] == f"ratio of {AT_QUARTER} to ABSE"


def test_the_error_of_a_ratio() -> None:
    rng = np.random.default_rng(3)
    draws = []
    for _ in range(2000):
        below = rng.normal(1.0, 0.1, 50)
        draws.append(_ratio(0.8 * below + rng.normal(0.0, 0.05, 50), below))
    spread = np.std([ratio for ratio, _ in draws])
    assert np.mean([error for _, error in draws]) == pytest.approx(spread, rel=0.05)


def test_p_values_are_those_of_wilcoxon() -> None:
    rng = np.random.default_rng(4)
    one, two = rng.random((2, 20))
    assert _p_value(one, two) == pytest.approx(wilcoxon(one, two).pvalue)
    assert _p_value(one, one) == 1.0


def test_bad_wishes_and_files_are_refused(tmp_path: Path) -> None:
    for name, message in ((ADULT, "adult.data"), (JOBS, "not a file"), (TAXI, "not a file")):
        with pytest.raises(InvalidInput, match=message):
            load(name, tmp_path)
    with pytest.raises(InvalidInput, match="the data set was 'census'"):
        load("census", tmp_path)
    with pytest.raises(InvalidInput, match="method was 'theirs'"):
        Wish(methods=["theirs"])
    with pytest.raises(InvalidInput, match="epsilon was 0"):
        Wish(epsilons=[0.0])
    with pytest.raises(InvalidInput, match="rounds was 4"):
        Wish(rounds=4)
