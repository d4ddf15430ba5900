"""Comparisons of scored runs, paired by query; runs that do not compare are refused."""
