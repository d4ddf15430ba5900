"""Answers of a reader against the reference answers, and what judges said of them.

`locomo` is LoCoMo's official F1, `texts` tells answers that decline, `score` makes the blocks of
scores, with intervals and signatures, as rankings have theirs.
"""
