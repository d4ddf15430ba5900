"""Retrievers: the contract on one page (contract.py), the registry, and one file a built-in."""
