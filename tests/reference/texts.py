"""Texts: the rankings that hits.parquet makes of them, and texts against the reference answers.

Which documents a text stands for was found by matching, which is not done again here. Of the top k
texts the best value counts: plain Python of SQuAD's script (success, exact_match, token_f1) and of
ROUGE-L; BLEU is sacrebleu's own, where that is installed. A reference of which nothing is left as a
metric reads it (`the`, once articles are gone) is left out.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reference.key import Key
from reference.rankings import Run, parquet_rows
from reference.sections import Numbers, token_count

UNRESOLVED = "unresolved:"
"""How an id begins that stands for a text of which no document was found."""

_DEEPEST = 10
"""No metric of texts looks below this rank."""


@dataclass(frozen=True)
class Hits:
    """What was returned as texts, by query: the documents it makes, what each costs, and texts."""

    rankings: dict[str, list[str]]
    costs: dict[str, list[int]]
    texts: dict[str, list[str]]
    numbers: Numbers


def read_hits(path: Path, key: Key, k: int) -> Hits:
    """The hits of a run of depth `k`."""
    columns = ("query", "hit", "text", "documents", "unknown_sources", "token_f1", "way")
    rows = parquet_rows(path, columns)
    found = Hits({}, {}, {}, _counts(rows))
    beyond = 0
    by_query: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["hit"]):
        by_query.setdefault(row["query"], []).append(row)
    for query, hits in by_query.items():
        ranking: list[str] = []
        costs: list[int] = []
        for hit in hits:
            # Each document that does not stand higher takes a place of its own; a text of which no
            # document is known takes one in which nothing is found.
            new = [d for d in dict.fromkeys(hit["documents"]) if d not in ranking]
            if not hit["documents"]:
                new = [f"{UNRESOLVED}{len(ranking) + 1}"]
            ranking += new
            if hit["text"]:  # costs once, where its first document stands
                costs += [token_count(hit["text"]), *[0] * (len(new) - 1)][: len(new)]
            else:
                costs += [_cost(key, query, document) for document in new]
        beyond += max(0, len(ranking) - k)
        found.rankings[query], found.costs[query] = ranking[:k], costs[:k]
        found.texts[query] = [
            hit["text"] or " ".join(_text(key, query, d) for d in hit["documents"]) for hit in hits
        ]
    found.numbers["documents_beyond_k",] = beyond
    return found


def document_texts(key: Key, run: Run) -> dict[str, list[str]]:
    """The texts of a ranking of documents, best first; one that the haystack lacks has none."""
    return {
        query: [_text(key, query, d) for d in ranking.documents[:_DEEPEST] if d in key.held(query)]
        for query, ranking in run.items()
    }


def same_rankings(hits: Hits, run: Run) -> list[str]:
    """Queries whose ranking is not what their hits make."""
    queries = dict.fromkeys((*hits.rankings, *run))
    return [
        query
        for query in queries
        if hits.rankings.get(query, []) != (run[query].documents if query in run else [])
    ]


def _counts(rows: Sequence[Mapping[str, Any]]) -> Numbers:
    """What scores.json says of the hits, by the keys below `hits`."""
    resolved = {row["query"] for row in rows if row["documents"]}
    looked = [row["token_f1"] for row in rows if row["token_f1"] is not None]
    numbers: Numbers = {
        ("returned",): len(rows),
        ("resolved",): sum(bool(row["documents"]) for row in rows),
        ("unknown_sources",): sum(row["unknown_sources"] for row in rows),
        ("matched_by_text",): len(looked),
        ("unmeasurable_queries",): len({row["query"] for row in rows} - resolved),
    }
    for way, n in Counter(row["way"] for row in rows).items():
        numbers["by_method", way] = n
    for least in (0.1, 0.3, 0.5):
        numbers["token_f1_at_least", str(least)] = sum(one >= least for one in looked)
    return numbers


def _cost(key: Key, query: str, document: str) -> int:
    held = key.held(query).get(document)
    return token_count(held.text) + token_count(held.title) if held else 0


def _text(key: Key, query: str, document: str) -> str:
    held = key.held(query).get(document)
    if held is None:
        return ""
    return f"{held.title} {held.text}".strip() if held.title else held.text or ""


Value = Callable[[str, str], float | None]
"""Of a text and a reference; None where nothing is left of the reference."""


@lru_cache(1 << 16)
def squad_words(text: str) -> tuple[str, ...]:
    """Lower case, no punctuation, no articles (evaluate-v1.1.py)."""
    kept = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return tuple(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def success(text: str, answer: str) -> float | None:
    """1 where the answer's words stand in the text, one behind the other."""
    words, wanted = squad_words(text), squad_words(answer)
    starts = range(len(words) - len(wanted) + 1)
    if not wanted:
        return None
    return float(any(words[i : i + len(wanted)] == wanted for i in starts))


def exact_match(text: str, answer: str) -> float | None:
    """1 where the words are the same."""
    return float(squad_words(text) == squad_words(answer)) if squad_words(answer) else None


def token_f1(text: str, answer: str) -> float | None:
    """Harmonic mean of precision and recall of the words."""
    words, wanted = squad_words(text), squad_words(answer)
    if not wanted:
        return None
    same = (Counter(words) & Counter(wanted)).total()
    if not same:
        return 0.0
    precision, recall = same / len(words), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def rouge_l(text: str, answer: str) -> float | None:
    """Harmonic mean of the longest common subsequence's shares of both (Lin 2004), ASCII words."""
    words, wanted = (re.findall(r"[a-z0-9]+", t.lower()) for t in (text, answer))
    if not wanted:
        return None
    longest = [0] * (len(wanted) + 1)  # with the first i words of the answer
    for word in words:
        if word in wanted:
            last = longest[:]
            for i, other in enumerate(wanted, 1):
                longest[i] = last[i - 1] + 1 if word == other else max(last[i], longest[i - 1])
    if not longest[-1]:
        return 0.0
    precision, recall = longest[-1] / len(words), longest[-1] / len(wanted)
    return 2 * precision * recall / (precision + recall)


PLAIN: Mapping[str, Value] = {
    "success": success,
    "exact_match": exact_match,
    "token_f1": token_f1,
    "rouge_l": rouge_l,
}


@cache
def bleu() -> Mapping[str, Value]:
    """Sentence BLEU and BLEU-1 as sacrebleu has them; nothing where it is not installed."""
    if find_spec("sacrebleu") is None:
        return {}
    from sacrebleu.metrics.bleu import BLEU

    scorers: dict[str, Any] = {
        "bleu": BLEU(effective_order=True),
        "bleu1": BLEU(effective_order=True, max_ngram_order=1, lowercase=True),
    }

    def of(scorer: Any) -> Value:
        def value(text: str, answer: str) -> float | None:
            return scorer.sentence_score(text, [answer]).score / 100 if answer.split() else None

        return value

    return {name: of(scorer) for name, scorer in scorers.items()}


def by_rank(value: Value, texts: Sequence[str], answers: Sequence[str]) -> list[float] | None:
    """The best over the references, of no text, of the first, of the second...; None without
    references that count."""
    counted = [answer for answer in answers if value("", answer) is not None]
    if not counted:
        return None
    return [max(value(text, answer) or 0.0 for answer in counted) for text in ("", *texts)]
