"""The locally private bandit on an adaptive partition of the contexts."""
