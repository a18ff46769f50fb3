"""The audit: every promise attacked, exactly where that is possible and by trials besides.

A guarantee bounds from above what an adversary can learn. Exact replay measures it for two
neighbours, and counts of guesses bound it from below; either one above the guarantee proves that
the guarantee, or the code, is wrong.

| module                       | what it holds                                                    |
|------------------------------|------------------------------------------------------------------|
| ledger.py                    | runs recorded and played back, and their exact loss              |
| laws.py                      | the exact law of code that draws, and of what sources draw       |
| exact.py                     | promises, and the worst neighbours of code in a state            |
| games.py                     | checks, designs, and games of trials                             |
| lower_bound.py               | from counts of guesses to a bound on epsilon                     |
| mechanisms.py, releases.py   | mechanisms that are used once; streams and composition           |
| outsourced.py                | the curator                                                      |
| people.py, runs.py           | who takes part; runs of learners, reports to them, and rules     |
| learners.py                  | all learners, their states, and policies that are forged         |
| surfaces.py                  | searches, the estimator, devices, clients, visit counters        |
| specimens.py                 | designs that are known to be broken                              |
| runner.py                    | all checks by name; exact replay, trials and verdicts            |
"""

# Of trials on each data set, confidence in all verdicts together, and the seed: what is usual. They
# stand here because whoever only asks how a command is called need not load what runs it.
TRIALS = 100_000
CONFIDENCE = 0.999
SEED = 2024
