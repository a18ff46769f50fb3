"""Studies run from Python or the command line, and results that show themselves."""
