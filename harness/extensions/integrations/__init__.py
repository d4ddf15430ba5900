"""Retrievers for third-party stores, frameworks and memories, and readers of run formats."""
