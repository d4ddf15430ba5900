"""Run folders: what is in one, and scores from its rankings."""
