"""Adapters: one file a family of datasets. They know `harness`'s schema and nothing else of it.

Imported as `harness.dataset.adapters`: the name `adapters` belongs to another package.
"""
