"""The audit: every promise attacked by exact replay, and whole runs by trials besides.

A guarantee bounds from above what an adversary can learn. Exact replay measures it for two
neighbours, and counts of guesses bound it from below; either one above the guarantee proves that
the guarantee, or the code, is wrong.

| module                       | what it holds                                                    |
|------------------------------|------------------------------------------------------------------|
| tape.py                      | runs recorded and played back, and their exact loss              |
| output_distributions.py      | output distributions of code, and tests of what sources draw     |
| replay.py                    | promises, and the worst neighbours of code in a state            |
| checks.py, trials.py         | what is checked; trials of whole runs, and what they prove       |
| mechanisms.py                | mechanisms that are used once; streams and composition           |
| outsourced.py                | the curator                                                      |
| runs.py                      | who takes part; runs of learners, reports to them, and rules     |
| learners.py                  | all learners, their states, and policies that are forged         |
| surfaces.py                  | searches, the estimator, devices, clients, contribution counters |
| known_broken.py              | designs that are known to be broken                              |
| randomness.py, observers.py  | what may draw or write; what others see of devices and servers   |
| runner.py                    | all checks by name; exact replay, trials and verdicts            |
"""

# Defaults: whole runs on each data set, confidence in all verdicts together, and the seed. They
# stand here so that the help of a command does not load what it runs.
TRIALS = 200
CONFIDENCE = 0.999
SEED = 2024
