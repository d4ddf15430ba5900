"""Intervals, paired and unpaired tests, corrections, power: pure functions on arrays.

Values are a matrix of shape (observations, metrics), NaN for missing ones; a vector is one metric.
`clusters` has a label for each observation; observations with the same label are not independent,
so whole clusters are resampled, flipped and counted. Functions return one record per metric, and
raise ValueError for bad shapes.

* Means: `intervals`, on the sums and counts of `clusters`; tests by exchange: `resampling`.
* Two systems: `paired` on the same observations, `unpaired` on different ones; `proportions` has
  Holm's correction, `power` detectable differences.
* Many differences over the same units as one family, and ranges of ranks: `joint`.
* Sequential tests: `betting`, `detector`. Counts: `proportions`.
* Two measures or annotators: `correlation`, `agreement`. Rates behind an imperfect judge: `judged`.
  Variance between repetitions: `repeats`.

Distributions and tests are SciPy's; a comment gives the reason for each that is not.
"""
