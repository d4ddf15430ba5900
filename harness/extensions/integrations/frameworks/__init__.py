"""Bridges to retrieval frameworks: any retriever or store of theirs can be put under test."""
