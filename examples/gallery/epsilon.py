"""
What an epsilon costs
=====================

Regret against epsilon under local privacy, with 95% intervals over four replicates; the lines are
references without a budget.
"""

from discreet import run_study

learner = {"name": "partition", "epsilon": [0.5, 1, 2, 4], "non_private": True}
result = run_study(
    {
        "name": "epsilons",
        "problem": {"name": "exponential", "dimension": 2},
        "rounds": 3_000,
        "replicates": 4,
        "learners": [learner, {"name": "best_fixed"}, {"name": "uniform"}],
    },
    jobs=1,
    progress=False,
)
figure = result.plot.epsilon()
