"""
A learner of your own
=====================

Epsilon-greedy by randomised response (``examples/greedy.py``, one file) beside ``partition``
on the same people.
"""

import sys

from discreet import Study, run_study

sys.path.insert(0, "..")  # the folder of greedy.py
study = Study.from_dict(
    {
        "name": "own",
        "problem": {"name": "exponential"},
        "rounds": 3_000,
        "replicates": 4,
        "learners": [
            {"name": "greedy:Greedy", "epsilon": 2, "options": {"groups": 4}},
            {"name": "partition", "epsilon": 2},
            {"name": "uniform"},
        ],
    },
)
result = run_study(study, jobs=1, progress=False)
print(result)
figure = result.plot.progress()
