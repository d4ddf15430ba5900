"""Scores of answers: against references, by LoCoMo's official F1, and by judges.

`error_attribution` detects abstentions and separates retrieval errors from reader errors;
`score` builds scores with intervals and signatures, like those of rankings.
"""
