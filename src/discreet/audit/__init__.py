"""The audit: every promise attacked, exactly where that is possible and by trials besides.

A guarantee bounds from above what an adversary can learn. Exact replay measures it for two
neighbours, and counts of guesses bound it from below; either one above the guarantee proves that
the guarantee, or the code, is wrong.

| module                            | what it holds                                               |
|-----------------------------------|-------------------------------------------------------------|
| ledger.py, losses.py, laws.py     | runs recorded and played back, and their exact loss         |
| exact.py, values.py               | the worst neighbours of code in a state                     |
| people.py, runs.py, reports.py    | who takes part; runs of learners, and reports to them       |
| states.py, makers.py, learners.py | the states that learners are attacked in, and all learners  |
| mechanisms.py, streams.py, ...    | all mechanisms                                              |
| sources.py                        | noise sources                                               |
| outsourced.py                     | the curator                                                 |
| enumeration.py                    | the exact law of code with finitely many outcomes           |
| games.py, played.py               | checks; games of trials                                     |
| lower_bound.py, gaussian_bound.py | from counts of guesses to a bound on epsilon                |
| classifier.py                     | trained scores, where no likelihood is known                |
| specimens/                        | designs that are known to be broken                         |
| catalog.py, runner.py             | all checks by name; exact replay, trials and verdicts       |
"""
