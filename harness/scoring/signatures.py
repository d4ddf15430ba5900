"""Signatures of numbers.

A signature is one short string with everything that could change a number:
`recall@10|protocol:memory/1|data:locomo#ff853148|level:turn|text:official|split:test|slice:all|
n:1982|queries:all|ties:order|depth:50|missing:zero|v:0.1.0`. Two numbers compare when their
signatures agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any
from urllib.parse import unquote

from harness.errors import UsageError
from harness.records.scores import quote_part
from harness.scoring.metrics import Metric
from harness.scoring.protocols import PROTOCOLS

_MEANING = {
    "metric": "what was computed, and its cut-off",
    "protocol": "which queries count, by which answer key and rules; the number is its version",
    "data": "dataset, and the first digits of its content's fingerprint",
    "level": "what a document is (granularity); `turn>session` is turns scored as sessions",
    "text": "which text of a document was shown",
    "split": "which part of the dataset",
    "slice": "which of the scored queries the mean is over",
    "n": "how many queries that is",
    "queries": "which were asked and can be measured: all, or a digest of their ids",
    "ties": "order of equal scores: trec (float32, id descending), trec64, or order as returned",
    "depth": "how many documents a ranking could hold",
    "missing": "what a query without a ranking or an answer counts: zero, or skip (left out)",
    "v": "version of the harness",
    "match": "how texts of the system's own were resolved to documents, where it returned such; of "
    "semantic metrics the least cosine of similar texts, and the model",
    "reader": "of answers: by which prompt, and which model was asked",
    "judge": "of judged answers: which prompt was put to which model",
}

_OTHER_PROTOCOLS = {
    "knowledge-update": "updates whose gold documents have different dates",
    "changes": "questions asked after an update or a forgetting of a document that is judged for "
    "them, or before the last document was said; less is better",
    "abstention": "queries without an answer, and those that have evidence",
    "answers": "returned texts against the reference answers; queries that have some",
    "semantic": "similarity of texts; queries that have evidence with a text. No substitute for "
    "the same metric by ids",
    "answers-text": "answers of a reader against the references, without a model",
    "locomo-answers": "LoCoMo's F1 of answers (task_eval/evaluation.py)",
    "tokens": "answerable queries that have evidence; cost by the words+marks tokenizer",
}


@dataclass(frozen=True)
class Signature:
    """The parts of a signature, in the order in which they are printed."""

    metric: str
    protocol: str
    data: str
    level: str
    text: str
    split: str
    slice: str
    n: int
    queries: str
    ties: str
    depth: int
    missing: str
    v: str
    match: str = ""
    reader: str = ""
    judge: str = ""

    def __str__(self) -> str:
        parts = [f"{f.name}:{quote_part(str(getattr(self, f.name)))}" for f in self._parts()[1:]]
        return "|".join([quote_part(self.metric), *parts])

    @property
    def template(self) -> str:
        """This signature with placeholders for metric, slice and n; see `fill_signature`."""
        parts = {"metric": "{metric}", "slice": "{slice}", "n": "{n}"}
        return "|".join(
            (parts[f.name] if f.name == "metric" else f"{f.name}:{parts[f.name]}")
            if f.name in parts
            else f"{f.name}:{quote_part(str(getattr(self, f.name)))}"
            for f in self._parts()
        )

    def _parts(self) -> list[Field[Any]]:
        """Returns its parts; those that most numbers lack only where they hold something."""
        return [f for f in fields(self) if f.default is MISSING or getattr(self, f.name)]

    @classmethod
    def parse(cls, text: str) -> Signature:
        """The inverse of `str()`. Raises UsageError for anything that is not a signature."""
        metric, *parts = text.strip().split("|")
        values = {name: unquote(value) for name, _, value in (p.partition(":") for p in parts)}
        needed = [f.name for f in fields(cls)[1:] if f.default is MISSING]
        missing = [name for name in needed if name not in values]
        unknown = [name for name in values if name not in _MEANING]
        if missing or unknown or not metric:
            raise UsageError(
                f"not a signature: {f'lacks {missing[0]!r}' if missing else f'has {unknown}'}; "
                "paste the whole string, in quotes"
            )
        try:
            numbers = {"n": int(values["n"]), "depth": int(values["depth"])}
        except ValueError as error:
            raise UsageError(f"not a signature: n and depth must be numbers ({error})") from None
        found = cls(**{**values, **numbers, "metric": unquote(metric)})  # type: ignore[arg-type]
        if str(found) != text.strip():
            raise UsageError("not a signature: its parts are not as they are printed; paste it")
        return found

    def explain(self) -> list[tuple[str, str, str]]:
        """(part, value, meaning) of every part."""
        return [(f.name, str(getattr(self, f.name)), _MEANING[f.name]) for f in self._parts()]

    @property
    def formula(self) -> str:
        """What the metric computes. Raises UsageError for one that nobody knows."""
        from harness.scoring.metrics.described import DESCRIBED, OF_ANSWERS

        name = self.metric.partition("@")[0]
        others = OF_ANSWERS if self.reader else DESCRIBED
        found = next((one for one in others if one.name == name), None)
        return (found or Metric.parse(self.metric).definition).formula_and_source

    @property
    def rules(self) -> str:
        """What the protocol is about."""
        name = self.protocol.partition("/")[0]
        if name in PROTOCOLS:
            return PROTOCOLS[name].about
        if self.judge:
            return "answers of a reader, as the judge calls them"
        return _OTHER_PROTOCOLS.get(name, "a protocol that this version does not know")


def digest(ids: Sequence[str]) -> str:
    """Eight hexadecimal digits that stand for these ids, in this order."""
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:8]
