"""What is concluded from scores: comparisons, boards, sweeps, causes, gates, verification."""
