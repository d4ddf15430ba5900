"""A second way to a run's numbers: plain Python of their definitions, and trec_eval.

Nothing here imports `harness.scoring` or `harness.statistics`: what is to be checked takes no part
in the check. Speed matters less than that a reader can follow every step: lists, sets, loops.

| file | what |
|---|---|
| rankings.py | the rankings, read from their files, and the order of equal scores |
| key.py | the answer key, from the dataset's export, and what became of each query in the run |
| rules.py | the protocols in plain words: which queries count, which slices there are |
| formulas.py | the metrics, from their definitions in docs/reference/metrics.md |
| sessions.py | turns scored as sessions, by LongMemEval's rule |
| levels.py | chance, ceiling, and what ties could have done |
| sections.py, answers.py | knowledge update, abstention, prompt cost; texts against answers |
| trec_eval.py | pytrec_eval, and the program trec_eval, as further witnesses |
| published.py | what the run's files say, and whether they belong together |
| verify.py, render.py | all of it held against each other, and the verdict in words |
"""
