"""Comparisons of scored runs: refused where they would be nonsense, paired by query elsewhere."""
