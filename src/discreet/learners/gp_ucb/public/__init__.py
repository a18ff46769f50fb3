"""Private GP-UCB on points that everyone can be given."""
