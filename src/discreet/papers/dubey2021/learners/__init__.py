"""Learners that Dubey (2021) compares with."""
