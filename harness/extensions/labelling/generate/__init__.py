"""Generates labelled sets from documents: queries by template or model, splits, leakage checks."""
