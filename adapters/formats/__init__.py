"""Readers of test collection formats, one module per format.

Each reader is a generator that holds one block in memory. It raises UsageError with `file:line`,
the problem and the fix.
"""
