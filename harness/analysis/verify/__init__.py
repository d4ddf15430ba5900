"""Recomputes the published numbers of a run with pytrec_eval, SciPy and NumPy.

Nothing here imports `harness.scoring` or `harness.stats`: the code that computed the numbers
takes no part in checking them.

| file | what |
|---|---|
| inputs.py | rankings, qrels and the outcome of each query, read from the files |
| metrics.py | metrics of each query; random baselines, upper bounds, orders of equal scores |
| columns.py | a protocol: which queries it scores, and the values of all its metrics |
| means.py | means by slice with their intervals; counts, knowledge update, abstention |
| published.py | what the folder publishes, and whether its files belong together |
| verify.py, render.py | all of it for one folder, and the result as text |
"""
