"""Matches texts that a system returned with their source documents in the haystack."""
