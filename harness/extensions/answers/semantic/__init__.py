"""Semantic accuracy: precision and recall by similarity of texts, for results without ids.

A similar text is not the evidence. Semantic scores are shown next to scores by ids, with the
agreement of the two, and never replace them. The caller supplies the embedding model.
"""
