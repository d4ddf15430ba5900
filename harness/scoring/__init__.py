"""Scores from rankings: ranks of judged documents, metrics, protocols, slices, signatures."""
