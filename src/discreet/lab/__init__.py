"""Simulated studies: environments, experiments, study files, plans, reports and results."""
