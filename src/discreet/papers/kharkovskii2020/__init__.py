"""Kharkovskii, Dai and Low (2020), "Private Outsourced Bayesian Optimization" (PO-GP-UCB)."""
