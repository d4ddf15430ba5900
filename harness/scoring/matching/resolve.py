"""From hits to documents: by the sources a system names, else by the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.scoring.matching.found import Matching, Way
from harness.scoring.matching.hits import Hit
from harness.scoring.matching.matcher import Matcher

Embed = Callable[[Sequence[str]], npt.NDArray[np.floating[Any]]]


def resolve_hits(
    dataset: Dataset, hits: Sequence[Hit], settings: Matching, embed: Embed | None = None
) -> None:
    """Fill `documents`, `way` and `f1` of every hit.

    Sources come first. What names none is looked for by its text in the haystack of its query: one
    index a haystack, each distinct text once. `embed` is needed where `settings.semantic` is set.
    """
    by_text: dict[int, list[Hit]] = {}
    for hit in hits:
        hit.documents, hit.way, hit.f1 = list(hit.sources), Way.SOURCES, float("nan")
        if not hit.sources:
            hit.way = Way.NONE
            if hit.text.strip():
                by_text.setdefault(int(dataset.query_haystack[hit.query]), []).append(hit)
    for haystack, mine in by_text.items():
        rows = dataset.haystack_rows(haystack)
        speakers = dataset.documents.column("speaker", rows).unique().drop_null().to_pylist()
        matcher = Matcher(dataset.documents.contents(rows), settings, embed, speakers)
        texts = list(dict.fromkeys(hit.text for hit in mine))
        found = dict(zip(texts, matcher.find(texts), strict=True))
        for hit in mine:
            match = found[hit.text]
            hit.documents = rows[match.positions].tolist()
            hit.way, hit.f1 = match.way, match.f1
