"""Embedding models, vectors cached on disk, exact and approximate search over them."""
