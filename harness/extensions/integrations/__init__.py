"""Retrievers that wrap other people's stores, frameworks and memories, and run formats."""
