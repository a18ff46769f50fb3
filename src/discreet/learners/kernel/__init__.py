"""The locally private kernel bandit."""
