"""What each epsilon would cost, and how many people it takes, before anything is deployed.

design      the data, learners, epsilons and numbers of people of a plan
planner     their simulations: contenders are selected, winners measured
curves      gain against the number of people, with intervals
forecast    losses, verdicts and the answers to inverse questions
odds        what an epsilon means for one person
"""
