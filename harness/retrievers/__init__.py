"""Retrievers: the contract (contract.py), the registry, and the built-in retrievers."""
