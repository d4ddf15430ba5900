"""Semantic accuracy: precision and recall by similarity of texts, where there are no ids.

A similar text is not the evidence. These numbers stand beside those by ids, with how far the two
agree, and never in their place.
"""

from harness.scoring.semantic.accuracy import THRESHOLD, SemanticAccuracy, semantic_accuracy

__all__ = ["THRESHOLD", "SemanticAccuracy", "semantic_accuracy"]
