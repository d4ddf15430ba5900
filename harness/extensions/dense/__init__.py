"""Embedding models, a vector cache on disk, and exact and approximate search."""
