"""What an engineer would build first: contexts in a few public cells, and a mean for each arm."""
