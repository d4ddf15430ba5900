"""A second way to a run's numbers: plain Python of their definitions, and trec_eval.

Nothing here imports `harness.scoring` or `harness.statistics`: what is to be checked takes no part
in the check. Speed matters less than that a reader can follow every step: lists, sets, loops.

| file | what |
|---|---|
| rankings.py | the rankings, read from their files, and the order of equal scores |
| key.py | the answer key, what became of each query, and which ones a protocol counts |
| formulas.py | the metrics, from their definitions in docs/reference/metrics.md |
| levels.py | random baseline, upper bound, and what ties could have done |
| blocks.py | a protocol at a unit: a value a query, for every metric |
| sections.py, texts.py | knowledge update, abstention, prompt cost; texts against answers |
| trec_eval.py | pytrec_eval, and the program trec_eval, as further witnesses |
| published.py | what the run's files say, and whether its signatures say the same |
| hearing.py | published numbers held against recomputed ones |
| verify.py, render.py | all of it for one folder, and the verdict in words |
"""
