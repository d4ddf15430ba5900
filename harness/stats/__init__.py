"""Intervals, paired and unpaired tests, corrections, power: pure functions on arrays.

Nothing here knows what a query, a dataset or a run is. Values come as a matrix of shape
(observations, metrics), NaN where an observation has no value; a vector is one metric. `clusters`
is a label for each observation, where observations that share one are not independent: whole
clusters are then resampled, flipped and counted. Results come as one record a metric. Bad shapes
raise ValueError.

* Means: `intervals`, on the sums and counts of `clusters`; tests by exchange: `resampling`.
* Two systems: `paired` on the same observations, `unpaired` on different ones; `proportions` has
  the corrections for many tests, `power` for what could have been shown.
* Many differences over the same units as one family, and ranges of ranks: `joint`.
* Looked at while data come in: `betting`. Counts: `proportions`.
* Two measures or two annotators: `correlation`, `agreement`. What a judge that errs says of a rate:
  `judged`. What varies from one repetition to the next: `repeats`.

Distributions and tests are SciPy's where it has them; a line beside each that is not says why.
"""
