"""Parses a signature, and explains its parts, its metric and its protocol."""

from __future__ import annotations

from dataclasses import MISSING, fields
from urllib.parse import unquote

from harness.errors import UsageError
from harness.scoring.metrics import Metric
from harness.scoring.protocols import PROTOCOLS
from harness.scoring.signatures import Signature

_MEANING = {
    "metric": "what was computed, and its cut-off",
    "protocol": "which queries, qrels and rules are used; the number is its version",
    "data": "dataset, and the first digits of its content's fingerprint",
    "level": "what a document is (granularity); `turn>session` is turns scored as sessions",
    "text": "which text of a document was indexed",
    "split": "which part of the dataset",
    "slice": "which of the scored queries the mean is over",
    "n": "how many queries that is",
    "queries": "which were asked and can be measured: all, or a digest of their ids",
    "ties": "order of equal scores: trec (float32, id descending), trec64, or order as returned",
    "depth": "how many documents a ranking could hold",
    "missing": "what a query without a ranking or an answer counts: zero, or skip (excluded)",
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
    "tokens": "answerable queries that have evidence; cost by the words+marks/2 tokenizer",
}


def parse_signature(text: str) -> Signature:
    """Reads a printed signature. Raises UsageError for anything that is not one."""
    metric, *parts = text.strip().split("|")
    values = {name: unquote(value) for name, _, value in (p.partition(":") for p in parts)}
    needed = [f.name for f in fields(Signature)[1:] if f.default is MISSING]
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
    found = Signature(**{**values, **numbers, "metric": unquote(metric)})  # type: ignore[arg-type]
    if str(found) != text.strip():
        raise UsageError("not a signature: its parts are not as they are printed; paste it")
    return found


def explain(signature: Signature) -> list[tuple[str, str, str]]:
    """Returns (part, value, meaning) of every part."""
    return [(f.name, str(getattr(signature, f.name)), _MEANING[f.name]) for f in signature.parts()]


def formula_of(signature: Signature) -> str:
    """Returns the formula of the metric. Raises UsageError for an unknown one."""
    from harness.scoring.metrics.described import DESCRIBED, OF_ANSWERS

    name = signature.metric.partition("@")[0]
    others = OF_ANSWERS if signature.reader else DESCRIBED
    found = next((one for one in others if one.name == name), None)
    return (found or Metric.parse(signature.metric).definition).formula_and_source


def rules_of(signature: Signature) -> str:
    """Describes the protocol."""
    name = signature.protocol.partition("/")[0]
    if name in PROTOCOLS:
        return PROTOCOLS[name].about
    if signature.judge:
        return "answers of a reader, as the judge calls them"
    return _OTHER_PROTOCOLS.get(name, "a protocol that this version does not know")
