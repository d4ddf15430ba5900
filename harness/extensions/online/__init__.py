"""After the benchmark: what a system in use logged, how it does now, and A/B tests of two."""
