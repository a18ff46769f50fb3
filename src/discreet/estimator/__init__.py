"""A bandit with scikit-learn's conventions."""

from discreet.estimator.bandit import PrivateBandit

__all__ = ["PrivateBandit"]
