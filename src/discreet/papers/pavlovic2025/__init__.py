"""Pavlovic et al. (2025): CAPRI (cumulative regret) and USCA (simple regret)."""
