"""Dubey (2021), "No-Regret Algorithms for Private Gaussian Process Bandit Optimization"."""
