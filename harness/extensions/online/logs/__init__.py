"""Reads requests from logs of systems in production, and joins them to labels."""
