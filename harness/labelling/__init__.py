"""Labelling a set of one's own: pool several systems, judge, agree, export a `labelled` dataset."""
