"""A labelled set from documents: queries by template or language model, splits, leakage checks."""
