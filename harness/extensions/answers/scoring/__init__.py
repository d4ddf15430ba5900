"""Scores of answers: against references, by LoCoMo's official F1, and by judges.

`texts` detects answers that abstain, `error_attribution` tells retrieval errors from reader errors,
`score` builds scores with intervals and signatures, as for rankings.
"""
