"""Lets the tests in folders below import what stands here: corpora, small models, servers."""
