"""Private GP-UCB on people's own decision sets."""
