"""The published site, submissions, reported results and nightly history."""
