"""Lists of runs, night after night: one summary, what changed since the last time, a history."""
