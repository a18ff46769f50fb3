"""References of studies: learners that learn nothing."""
