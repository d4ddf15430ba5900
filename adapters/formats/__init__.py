"""Readers of the formats that test collections come in, one reader a format.

Each is a generator that holds one block at a time and raises UsageError with `file:line`, what is
wrong there and what to do.
"""
