"""What each epsilon would cost, and how many people it takes, before anything is deployed.

planner     data, learners, epsilons and numbers of people, and their simulations
forecast    gain against the number of people, losses, verdicts, inverse questions
odds        what an epsilon means for one person
"""
