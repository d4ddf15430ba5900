"""Typed records of the files and messages that the harness writes and reads."""
