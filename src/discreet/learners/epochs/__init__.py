"""Learners that give one policy to an epoch of people and then release one statistic of them."""
