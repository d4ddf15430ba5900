"""The commands below `harness label`."""
