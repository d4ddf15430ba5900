"""Runs: plan, execute, checkpoint, time, record. One folder a run."""
