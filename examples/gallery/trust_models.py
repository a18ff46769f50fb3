"""
Whom must people trust?
=======================

Reward per person at epsilon = 1 under local privacy (no one is trusted), with shuffled reports (two
operators who do not conspire), under joint privacy (the organisation is trusted) and without
privacy, on a table of the US Current Population Survey. Bands are 95% intervals.
"""

from discreet import run_study

private = {"name": "kernel", "epsilon": 1.0}
result = run_study(
    {
        "name": "trust",
        "problem": {"name": "earnings"},
        "rounds": 4_000,
        "replicates": 3,
        "learners": [
            private | {"label": "local", "non_private": True},
            private | {"label": "shuffled", "trust_model": "shuffled", "delta": 1e-6},
            private | {"label": "joint", "trust_model": "joint", "delta": 1e-6},
            {"name": "uniform"},
        ],
    },
    jobs=1,
    progress=False,
)
print(result)
figure = result.plot.progress()
