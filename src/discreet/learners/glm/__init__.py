"""A generalised linear bandit for decision sets, learnt from pure local reports."""
