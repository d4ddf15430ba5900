"""The leaderboard, with one row per run."""
