"""Ma et al. (2025): locally private nonparametric bandits with auxiliary data."""
