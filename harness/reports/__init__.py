"""Runs as a page: one JSON object is made from run folder and dataset, and the page draws it."""
