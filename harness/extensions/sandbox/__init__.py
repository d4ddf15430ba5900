"""Runs third-party code in a separate process, with `--isolate`."""
