"""What each epsilon would cost, and how many people it takes, before anything is deployed.

design      the learners, epsilons and numbers of people of a plan
grid        their simulations, and successive halving of contenders
planner     all of it for one study, within a limit on time
curves      gain against the number of people, with intervals
forecast    losses, verdicts and the answers to inverse questions
odds        what an epsilon means for one person
"""
