"""
A plan before the data
======================

How much of the gain of personal choices an epsilon keeps, against the number of people: simulated
people with the declared columns, so that no one's data are read.
"""

import discreet

study = discreet.Study.from_dict(
    {
        "name": "calls",
        "problem": {"name": "exponential", "dimension": 1},
        "rounds": 800,
        "learners": [{"name": "partition", "epsilon": 1}],
    }
)
plan = discreet.plan(study, epsilons=[2, 4], replicates=6)
print(plan.recommendation)
figure = plan.plot.people()
