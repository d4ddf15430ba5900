"""Analysis of scored runs: comparisons, boards, sweeps, causes, gates, verification."""
