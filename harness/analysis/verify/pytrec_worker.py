"""Computes measures with pytrec_eval in a separate process, since errors in C would end the caller.

It reads JSON from standard input, writes JSON, and imports nothing of the harness.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Evaluates the grades of each ranking, best first, and of other documents; -1 is unjudged."""
    import pytrec_eval

    given = json.load(sys.stdin)
    qrels, run = {}, {}
    for query, (ranked, others) in given["queries"].items():
        grades = enumerate([*ranked, *others])
        qrels[query] = {str(i): grade for i, grade in grades if grade >= 0}
        run[query] = {str(i): -float(i) for i in range(len(ranked))}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, set(given["measures"]), relevance_level=given["relevance_level"]
    )
    json.dump(evaluator.evaluate(run), sys.stdout)


if __name__ == "__main__":
    main()
