"""Stores that people already run, as retrievers: one file a store."""
