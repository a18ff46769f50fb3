"""Empirical lower bounds on epsilon, by attack.

A guarantee bounds from above what an adversary can learn; an attack bounds it from below. An attack
that reaches further than the guarantee proves that the guarantee, or the code, is wrong.
"""
