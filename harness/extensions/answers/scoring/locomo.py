"""LoCoMo's official answer metric: F1 of stemmed words, with a rule per category.

The rules are those of task_eval/evaluation.py (snap-research/locomo, 3eb6f2c), with the same
stemmer, NLTK's. Tests compare every rule with an independent implementation.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from functools import lru_cache

import numpy as np

from harness.errors import UsageError

MULTI_HOP, TEMPORAL, OPEN_DOMAIN, SINGLE_HOP, ADVERSARIAL = range(1, 6)
CATEGORIES = {
    "multi-hop": MULTI_HOP,
    "temporal": TEMPORAL,
    "open-domain": OPEN_DOMAIN,
    "single-hop": SINGLE_HOP,
    "adversarial": ADVERSARIAL,
}
"""LoCoMo's category numbers, by category name."""

_ARTICLES = re.compile(r"\b(a|an|the|and)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_REFUSALS = ("no information available", "not mentioned")


def f1(answer: str, reference: str, category: int) -> float:
    """Scores an answer from 0 to 1, by the category number of its question.

    2, 3 and 4: F1 of the words with the reference; in 3 only the reference's text before the first
    semicolon is used. 1: both texts are split at commas; the score is the mean, over the parts of
    the reference, of the best F1 with a part of the answer. 5: 1 if the answer states that nothing
    is mentioned, else 0. Raises ValueError for another category.
    """
    if category == ADVERSARIAL:
        return float(any(words in answer.lower() for words in _REFUSALS))
    if category == OPEN_DOMAIN:
        reference = reference.split(";")[0].strip()
    if category == MULTI_HOP:
        given = [part.strip() for part in answer.split(",")]
        expected = [part.strip() for part in reference.split(",")]
        return float(np.mean([max(_f1(one, part) for one in given) for part in expected]))
    if category not in (TEMPORAL, OPEN_DOMAIN, SINGLE_HOP):
        raise ValueError(f"LoCoMo has no category {category}")
    return _f1(answer, reference)


def normalised(text: str) -> list[str]:
    """Returns the words to compare: commas removed, lower case, no other ASCII punctuation, no a,
    an, the, and. Commas are removed first, as in the authors' script: `1,000` is one word."""
    lower = text.replace(",", "").lower().translate(_NO_PUNCTUATION)
    return _ARTICLES.sub(" ", lower).split()


def _f1(answer: str, reference: str) -> float:
    given, expected = ([*map(_stem, normalised(text))] for text in (answer, reference))
    common = sum((Counter(given) & Counter(expected)).values())
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(expected)
    return 2 * precision * recall / (precision + recall)


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    return str(_stemmer().stem(word))


@lru_cache(maxsize=1)
def _stemmer():  # type: ignore[no-untyped-def]
    """Returns NLTK's Porter stemmer, which extends Porter's algorithm."""
    try:
        from nltk.stem.porter import PorterStemmer
    except ModuleNotFoundError:
        raise UsageError(
            "LoCoMo's F1 needs the package 'nltk': pip install -e '.[answers]'"
        ) from None
    return PorterStemmer()
