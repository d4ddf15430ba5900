"""Returned texts against the reference answers: of the top k texts the best value counts.

Plain Python of SQuAD's script (success, exact_match, token_f1) and of ROUGE-L; BLEU is sacrebleu's
own, where that is installed. A reference of which nothing is left as a metric reads it (`the`, once
articles are gone) is left out.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

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


def best(value: Value, texts: Sequence[str], answers: Sequence[str]) -> float | None:
    """The best over texts and references: 0 without a text, None without references that count."""
    found = [value(text, answer) for text in ("", *texts) for answer in answers]
    return max((one for one in found if one is not None), default=None)
