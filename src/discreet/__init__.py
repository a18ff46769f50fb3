"""Differentially private bandits and Bayesian optimization, with guarantees you can check."""

