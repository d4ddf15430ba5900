"""The reference implementation of all scores, which the tests compare the scorer with.

Plain Python of the definitions in docs/reference/metrics.md. Nothing here imports `harness.scoring`
or `harness.stats`. Speed matters less than that a reader can follow every step.

| file | what |
|---|---|
| export_qrels.py | judgements, queries and named documents as JSON lines |
| rankings.py | the rankings, read from their files, and the order of equal scores |
| key.py | the qrels, what became of each query, and which ones a protocol counts |
| formulas.py | the metrics |
| levels.py | random baseline, upper bound, and the best and worst order of equal scores |
| blocks.py | a protocol at a level: a value a query, for every metric |
| sections.py, changes.py, texts.py | knowledge update, abstention, tokens, changes, answers |
| beside.py | intervals and macro averages |
| published.py | the numbers of scores.json by their path, and its signatures |
| hearing.py | compares published numbers with recomputed ones |
| verify.py | all of it for one folder |
"""
