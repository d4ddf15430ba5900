"""Metrics: values that parse from and print to the text people type, and their pure functions.

One family a file; each function takes Ranked and a cut-off and gives one value a query, NaN where
the query has nothing relevant (a protocol says what becomes of those).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.errors import UsageError, near
from harness.scoring.arrays import Ints, Values
from harness.scoring.metrics import counted, ranked
from harness.scoring.ranks import NOT_RETRIEVED, Ranked

Function = Callable[[Ranked, Ints], Values]

FUNCTIONS: dict[str, Function] = {
    "recall": counted.recall,
    "hit": counted.hit,
    "recall_all": counted.recall_all,
    "precision": counted.precision,
    "precision_returned": counted.precision_returned,
    "f1": counted.f1,
    "rprec": counted.r_precision,
    "judged": counted.judged,
    "mrr": ranked.reciprocal_rank,
    "map": ranked.average_precision,
    "ndcg": ranked.ndcg,
    "ndcg_exp": ranked.ndcg_exponential,
    "ndcg_b2": ranked.ndcg_b2,
}
NEEDS_K = {"recall", "hit", "recall_all", "precision", "precision_returned", "f1", "judged"}
ALIASES = {
    "r": "recall",
    "success": "hit",
    "recall_any": "hit",
    "p": "precision",
    "rr": "mrr",
    "recip_rank": "mrr",
    "ap": "map",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    "r-precision": "rprec",
}
"""Names that other tools use, and ours. `recall_any@k` of LongMemEval is `hit@k`."""

_TREC_EVAL = re.compile(r"(ndcg_cut|map_cut|p|recall|success)_(\d+)", re.IGNORECASE | re.ASCII)
"""What trec_eval writes for a measure at a cut-off: `ndcg_cut_10`, `P_5`."""
_TEXT = re.compile(r"([A-Za-z_0-9\-]+)(?:\(rel=(\d+)\))?(?:@(.*))?", re.ASCII)


@dataclass(frozen=True, order=True)
class Metric:
    """A metric: name, cut-off (None: the whole ranking) and the grade from which on is relevant.

    `Metric.parse("recall(rel=2)@100")` and `str()` are inverse.
    """

    name: str
    k: int | None = None
    rel: int = 1

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Raises UsageError for an unknown name (with the near ones), a bad or missing cut-off."""
        if not isinstance(text, str):
            raise UsageError(f"a metric is a text, as in ndcg@10, not {text!r:.60}")
        found = _TEXT.fullmatch(_TREC_EVAL.sub(r"\1@\2", text.strip()))
        name = found[1].lower() if found else text
        name = ALIASES.get(name, name)
        if found is None or name not in FUNCTIONS:
            raise UsageError(f"unknown metric {text!r}{near(name, [*FUNCTIONS, *ALIASES])}")
        _, level, cut = found.groups()
        if cut is None and name in NEEDS_K:
            raise UsageError(f"the metric {name!r} needs a cut-off, for instance {name}@10")
        if cut is not None and name == "rprec":
            raise UsageError("rprec cuts at the number of relevant documents and takes no @k")
        if cut is not None and not (_whole(cut) and int(cut) >= 1):
            raise UsageError(
                f"the cut-off of {text!r:.60} must be a whole number, 1 or more, in 18 digits"
            )
        if level is not None and not (_whole(level) and int(level) >= 1):
            raise UsageError(
                f"{text!r:.60}: relevant is grade 1 or more, so rel must be that too, in 18 digits"
            )
        return cls(name, None if cut is None else int(cut), int(level or 1))

    def __str__(self) -> str:
        rel = f"(rel={self.rel})" if self.rel != 1 else ""
        return f"{self.name}{rel}" + (f"@{self.k}" if self.k is not None else "")

    def __call__(self, ranked: Ranked, cut: Ints | None = None) -> Values:
        """One value a query; NaN where the query has nothing relevant.

        `cut`, shape (n,), replaces the cut-off k by one of each query's own.
        """
        if cut is None:
            cut = np.full(ranked.n, self.k if self.k is not None else NOT_RETRIEVED - 1)
        if self.rel != 1 and not self.name.startswith("ndcg"):
            # Binary metrics: below `rel` is judged and not relevant. nDCG keeps the grades.
            grade = np.where(ranked.grade >= self.rel, 1, np.minimum(ranked.grade, 0))
            ranked = replace(ranked, grade=grade.astype(np.int32))
        return FUNCTIONS[self.name](ranked, cut)

    @property
    def function(self) -> Function:
        """The function behind the name; its docstring has formula and source."""
        return FUNCTIONS[self.name]


def _whole(text: str) -> bool:
    """True for the digits of a whole number that fits 64 bits."""
    return text.isdecimal() and text.isascii() and len(text) <= 18


def parse_metrics(texts: str | list[str]) -> list[Metric]:
    """Metrics from `"ndcg@10,recall@5"` or a list, each once, in order."""
    parts: list[Any] = texts.split(",") if isinstance(texts, str) else texts
    return list(dict.fromkeys(Metric.parse(part) for part in parts))
