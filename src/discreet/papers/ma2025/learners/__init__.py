"""Learners that Ma et al. (2025) publish or compare with."""
