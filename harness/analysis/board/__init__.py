"""The leaderboard: one row a run."""
