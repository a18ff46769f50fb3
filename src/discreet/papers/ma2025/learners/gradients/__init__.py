"""Learners that fit a model of each arm by stochastic gradient descent on private gradients."""
