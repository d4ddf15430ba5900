"""Adapters: one file a family of datasets. They know `harness`'s schema and nothing else of it."""

BUILT_IN = {
    "sample": "adapters.sample",
    "longmemeval": "adapters.longmemeval",
    "locomo": "adapters.locomo",
    "beir": "adapters.beir",
    "msmarco": "adapters.msmarco",
    "ir": "adapters.ir",
    "labelled": "adapters.labelled",
}
"""Module of each family that comes with the harness; imported when it is named."""
