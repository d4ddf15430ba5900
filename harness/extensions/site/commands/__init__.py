"""The commands board, claims and serve."""
