"""Empirical lower bounds on epsilon, by attack.

A guarantee bounds from above what an adversary can learn; an attack bounds it from below. An attack
that reaches further than the guarantee proves that the guarantee, or the code, is wrong.

| module                            | what it holds                                               |
|-----------------------------------|-------------------------------------------------------------|
| lower_bound.py, gaussian_bound.py | from counts of guesses to a bound on epsilon                |
| enumeration.py                    | the exact law of code with finitely many outcomes           |
| replay.py                         | the exact likelihood of runs whose noise is additive        |
| classifier.py                     | trained scores, where no likelihood is known                |
| games.py, people.py               | what a game is; who takes part, and the worst neighbours    |
| played.py, mechanisms.py          | games of mechanisms, and all mechanisms                     |
| local.py, joint.py, outsourced.py | the game of each trust model                                |
| makers.py, learners.py            | all registered learners, and those that a study deploys     |
| specimens/                        | designs that are known to be broken                         |
| catalog.py, runner.py             | all checks by name; trials, confidence and verdicts         |
"""
