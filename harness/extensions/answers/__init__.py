"""Answers of reader models over retrieved documents, and their scores."""
