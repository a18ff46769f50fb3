"""What each epsilon would cost, and how many people it takes, before anything is deployed.

stage       which learners are tried under which budgets, with how many people
results     what was simulated, within a limit on time
race        which learner a budget gets, with early stopping of what is clearly behind
curves      gain against the number of people, with intervals, as far as it may be read
forecast    what follows: losses, people until, and the answers to inverse questions
odds        what an epsilon means for one person
planner     all of it for one study
"""
