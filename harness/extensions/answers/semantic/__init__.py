"""Semantic accuracy: precision and recall by similarity of texts, where there are no ids.

A similar text is not the evidence. These numbers stand beside those by ids, with how far the two
agree, and never in their place. The model that embeds is given by the caller.
"""
