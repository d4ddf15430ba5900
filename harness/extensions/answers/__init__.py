"""Answers of readers and judges over what was retrieved, and their scores."""
