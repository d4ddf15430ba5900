"""Adapters: one file a family of datasets, and the readers that they share.

Imported as `harness.datasets.adapters`: the name `adapters` belongs to another package.
"""
