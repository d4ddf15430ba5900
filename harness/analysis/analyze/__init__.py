"""Causes of missed evidence by fixed rules, and errata of qrels."""
