"""
Whom must people trust?
=======================

Mean reward per person under local privacy (no one is trusted: ``partition``), under joint privacy
(the organisation is trusted: ``kernel``) and without privacy, on a table of the US Current
Population Survey. Bands are 95% intervals.
"""

from discreet import run_study

result = run_study(
    {
        "name": "trust",
        "problem": {"name": "earnings"},
        "rounds": 2_500,
        "replicates": 3,
        "learners": [
            {"name": "partition", "label": "local", "epsilon": 4, "non_private": True},
            {
                "name": "kernel",
                "label": "joint",
                "trust_model": "joint",
                "epsilon": 4,
                "delta": 1e-6,
            },
            {"name": "uniform"},
        ],
    },
    jobs=1,
    progress=False,
)
print(result)
figure = result.plot.progress()
