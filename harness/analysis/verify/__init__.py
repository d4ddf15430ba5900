"""Recomputes the published numbers of a run with pytrec_eval, SciPy and NumPy.

Independent of `harness.scoring` and `harness.stats`, which computed the numbers.

| file | content |
|---|---|
| inputs.py | rankings, qrels and the outcome of each query, read from the files |
| metrics.py | metrics of each query; random baselines, upper bounds, orders of equal scores |
| columns.py | the scored queries of a protocol, and the values of all its metrics |
| means.py | means by slice with their intervals; counts, knowledge update, abstention |
| published.py | the published numbers, and whether the files of the folder are consistent |
| verify.py, render.py | the checks of one folder, and the result as text |
"""
