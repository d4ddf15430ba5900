"""The signature of a number: one short string with everything that could change it.

`recall@10|protocol:memory/1|data:locomo#ff853148|level:turn|text:official|split:test|slice:all|
n:1982|queries:all|ties:order|depth:50|missing:zero|v:0.1.0`. Two numbers compare when their
signatures agree.
"""

from __future__ import annotations

import hashlib
import inspect
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

_OTHER_METRICS = {
    "update_ranked_first": "share of queries whose newest gold document was returned above "
    "every older one",
    "update_recall": "share of queries with a gold document of the latest date in the top k",
    "stale_only_rate": "share of queries with an older gold document in the top k, and none of "
    "the latest date",
    "outdated_returned": "share of questions with a document in the top k that an update had "
    "replaced by then, and that is judged 0",
    "outdated_above": "share of questions with such a document in the top k, and what replaced it "
    "not above it",
    "forgotten_returned": "share of questions with a document in the top k that was to be "
    "forgotten by then",
    "future_returned": "share of questions with a document in the top k that was said after they "
    "were asked",
    "recall_in_tokens": "recall of the longest prefix of the ranking that costs at most that many "
    "tokens",
    "false_positive_rate": "share of queries without an answer for which documents were returned",
    "as_returned": "precision, recall and F1 of abstaining, by silence or by saying so",
    "auroc": "chance that an answerable query has a higher confidence than one without an answer, "
    "ties half",
    "at_threshold": "precision, recall and F1 of abstaining below a cross-validated threshold",
    "success": "share of queries with an answer that stands in one of the top k texts, both "
    "normalised as SQuAD does",
    "exact_match": "best of the top k texts: equal to an answer, normalised as SQuAD does",
    "token_f1": "best of the top k texts: SQuAD's F1 of words with an answer",
    "rouge_l": "best of the top k texts: ROUGE-L F with an answer, as rouge_score without stemming",
    "bleu": "best of the top k texts: sentence BLEU with an answer, as sacrebleu, over 100",
    "bleu1": "best of the top k texts: BLEU of single words with an answer, 13a tokens, lower case",
    "semantic_recall": "pieces of evidence that a text of the top k is similar to / pieces of "
    "evidence; similar is a cosine of at least `match`",
    "semantic_precision": "texts of the top k that are similar to a text of the evidence / k",
    "semantic_precision_returned": "texts of the top k that are similar to a text of the evidence "
    "/ texts returned there",
    "soft_recall": "mean over pieces of evidence of the highest cosine with a text of the top k",
    "soft_precision": "mean over the top k of the highest cosine with a text of the evidence",
    "accuracy": "share of answers that the judge called right",
    "containment": "share of answers in which the reference stands, both normalised as SQuAD does",
    "correct_given_evidence": "share of answers that are correct with all of the evidence in the "
    "context",
    "correct_without_evidence": "share of answers that are correct without all of the evidence",
    "reader_error": "share of answers that are wrong with all of the evidence in the context",
    "wrong_abstention": "share of answers that abstain with all of the evidence in the context",
    "partial_retrieval_error": "share of answers that are wrong with a part of the evidence",
    "retrieval_error": "share of answers that are wrong with none of the evidence",
    "correct_abstention": "share of answers to unanswerable questions that are correct",
    "hallucinated": "share of answers to unanswerable questions that are wrong",
    "accuracy_given_evidence": "accuracy of the answers with all of the evidence in the context",
    "accuracy_given_no_evidence": "accuracy of the answers with none of the evidence",
    "retrieval_headroom": "share of answers that are wrong without all of the evidence: the most "
    "that better retrieval can add with this reader",
    "reader_headroom": "share of answers that are wrong with all of the evidence: the most that a "
    "better reader can add with this retrieval",
    "abstained": "share of answers that say that the answer is not known",
    "f1": "F1 of stemmed words with the reference, by LoCoMo's rule for its category",
    "aurc": "area under the risk-coverage curve: mean share of wrong answers among the surest 1..n",
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
        name = self.metric.partition("@")[0]
        if name in _OTHER_METRICS:
            return _OTHER_METRICS[name]
        return inspect.getdoc(Metric.parse(self.metric).function) or ""

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
