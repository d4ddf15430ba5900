"""Runs over a Ray cluster, and corpora in shards."""
