"""Agents' memories, run on equal terms: what they are told, and what it costs."""
