"""Private GP-UCB on finite feature maps: joint, local joint and public-domain privacy."""
