"""What every reproduction owes: a command with known options, a form, and results in one shape."""

from __future__ import annotations

import pytest

from discreet.cli.reproduce import OPTIONS
from discreet.records import REPRODUCED
from discreet.reporting.forms import FORMS
from discreet.reproduction.registry import REPRODUCTIONS

# The smallest wish of each kind of reproduction.
QUICK = {
    "dubey-figure-2": {"trials": 2, "rounds": [32], "method": ["ours", "uniform"]},
    "ldpmab-figure-9c": {"repetitions": 2, "rounds": [100], "auxiliary": [60], "epsilon": [2.0]},
    "po-gp-ucb-figures": {"runs": 2, "rounds": 3, "only": ["synthetic-5"], "method": ["random"]},
    "po-gp-ucb-attack": {"trials": 40},
}
IN_ENDS = {"case", "panel", "label", "half_width", "epsilon", "true_epsilon", *REPRODUCED}
IN_CURVES = {"case", "panel", "label", "method", "epsilon", "metric", "at", "mean", "half_width"}


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_reproductions_are_commands_with_options_and_a_form(name: str) -> None:
    what = REPRODUCTIONS[name]
    assert what.name == name
    assert what.title
    assert set(what.options) <= set(OPTIONS)
    assert what.form == "drawing" or what.form in FORMS
    parameters = [OPTIONS[option][0] for option in what.options]
    assert len(set(parameters)) == len(parameters)
    assert all(isinstance(size, int) for size in what.sizes)


@pytest.mark.parametrize("name", QUICK)
def test_results_have_one_shape(name: str) -> None:
    plan = REPRODUCTIONS[name].plan(**QUICK[name])
    assert plan.total == len(plan.settings) * plan.trials
    assert len(plan.names) == len(plan.settings)
    results = plan.results()
    assert len(results.ends) == len(results.records)
    for record in results.records:
        assert set(REPRODUCED) <= set(record)
    needed = IN_ENDS if len(results.curves) else {*REPRODUCED, "epsilon", "true_epsilon"}
    assert needed <= set(results.ends.columns)
    assert not len(results.curves) or set(results.curves.columns) >= IN_CURVES
    # Whatever was finished before an interruption has results, too.
    done = list(plan.run())
    assert len(plan.finish(done[:1]).records) >= 1
