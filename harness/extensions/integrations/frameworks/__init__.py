"""Bridges to retrieval frameworks, which put their retrievers and stores under test."""
