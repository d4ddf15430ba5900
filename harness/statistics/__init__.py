"""Intervals, paired and unpaired tests, corrections, power: pure functions on arrays.

Nothing here knows what a query, a dataset or a run is. Values come as a matrix of shape
(observations, metrics), NaN where an observation has no value; a vector is one metric. `clusters`
is a label for each observation, where observations that share one are not independent: whole
clusters are then resampled, flipped and counted. Results come as one record a metric. Bad shapes
raise ValueError.
"""
