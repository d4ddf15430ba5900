"""A gate before a release: thresholds to reach, and no drop against a baseline."""
