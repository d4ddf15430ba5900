"""Exports harness retrievers to other harnesses, as a BEIR search or an mteb search."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import harness
from harness.datasets.reader import Documents
from harness.errors import UsageError
from harness.io.packages import require_packages
from harness.io.plugins import iter_strings
from harness.retrievers.contract import Corpus, Question, Retriever
from harness.retrievers.hybrid import CandidateRanking, CandidateRetriever
from harness.retrievers.registry import RetrieverSpec, files_of, is_ours, wrapper_for

Named = str | RetrieverSpec | Retriever
"""A retriever object, or a name with parameters."""


def as_beir(retriever: Named, seed: int = 0) -> BeirSearch:
    """Wraps a retriever as a search of BEIR: `EvaluateRetrieval(as_beir("bm25"))`.

    `retriever` is a name as on the command line, a RetrieverSpec, or an object. Raises UsageError
    if it is not a retriever or cannot be nested.
    """
    return BeirSearch(ExportedRetriever(_built(retriever, seed), seed))


def as_mteb(retriever: Named, seed: int = 0) -> MtebSearch:
    """Wraps a retriever as a search of mteb: `mteb.evaluate(as_mteb("bm25"), task)`.

    `retriever` is a name as on the command line, a RetrieverSpec, or an object. Raises UsageError
    if it is not a retriever or cannot be nested, and if mteb is missing.
    """
    require_packages("as_mteb", "mteb")
    built = _built(retriever, seed)
    name, revision = _known_as(retriever, built, seed)
    return MtebSearch(ExportedRetriever(built, seed), name, revision)


class ExportedRetriever:
    """Runs a retriever on documents with third-party ids, under the same conditions as in a run."""

    def __init__(self, retriever: Retriever, seed: int) -> None:
        self._stage = CandidateRetriever(retriever, seed)
        self._seed = seed
        self._start = 0
        self.ids: list[str] = []

    def index(self, ids: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
        """Indexes rows with a text and optionally a title, shuffled and under new handles."""
        texts, titles = [], []
        for row in rows:
            texts.append(row["text"])
            titles.append(row.get("title") or "")
        rng = np.random.default_rng(self._seed)
        order = rng.permutation(len(ids))
        # Handles are unique across corpora.
        numbers = rng.permutation(len(ids)) + self._start
        self._start += len(ids)
        self.ids = [str(ids[i]) for i in order]
        self._stage.index(_corpus(texts, titles, order, numbers))

    def search(self, texts: Sequence[str], k: int) -> list[dict[str, float]]:
        """Returns scores by id, best first; without scores, numbers that fall with the rank."""
        if not self.ids:
            return [{} for _ in texts]
        found = self._stage.search([Question(text) for text in texts], min(k, len(self.ids)))
        return [self._by_id(ranking) for ranking in found]

    def _by_id(self, ranking: CandidateRanking) -> dict[str, float]:
        n = len(ranking.positions)
        scores = np.arange(n, 0, -1, dtype=float) if ranking.scores is None else ranking.scores
        named = [self.ids[i] for i in ranking.positions.tolist()]
        return dict(zip(named, scores.tolist(), strict=True))


class BeirSearch:
    """A retriever as BEIR's BaseSearch."""

    def __init__(self, given: ExportedRetriever) -> None:
        self._given = given

    def search(
        self,
        corpus: Mapping[str, Mapping[str, str]],
        queries: Mapping[str, str],
        top_k: int,
        score_function: str | None = None,
        **options: Any,
    ) -> dict[str, dict[str, float]]:
        """Returns scores of at most `top_k` documents per query; ignores `score_function`.

        A document with the id of the query is removed, as in BEIR's searches.
        """
        self._given.index([*corpus], corpus.values())
        found = self._given.search([*queries.values()], top_k + 1)
        results = {}
        for query, scores in zip(queries, found, strict=True):
            scores.pop(query, None)
            results[query] = _first(scores, top_k)
        return results


class MtebSearch:
    """A retriever as mteb's SearchProtocol."""

    def __init__(self, given: ExportedRetriever, name: str, revision: str) -> None:
        from mteb.models import ModelMeta

        self._given = given
        self.mteb_model_meta: Any = ModelMeta.create_empty(
            {"name": f"memory-retrieval-harness/{name}", "revision": revision}
        )

    def index(self, corpus: Any, **about: Any) -> None:
        """Indexes a corpus of mteb: rows with id, text and optionally title."""
        self._given.index([*corpus["id"]], corpus)

    def search(
        self,
        queries: Any,
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **about: Any,
    ) -> dict[str, dict[str, float]]:
        """Returns scores of at most `top_k` documents per query (of `top_ranked`, if given)."""
        ids = [str(id_) for id_ in queries["id"]]
        # The depth must reach the last candidate.
        k = len(self._given.ids) if top_ranked else top_k
        found = self._given.search([_with_instruction(row) for row in queries], k)
        results = {}
        for id_, scores in zip(ids, found, strict=True):
            if top_ranked:
                wanted = {*top_ranked.get(id_, ())}
                scores = {one: score for one, score in scores.items() if one in wanted}
            results[id_] = _first(scores, top_k)
        return results


def _first(scores: Mapping[str, float], k: int) -> dict[str, float]:
    return dict(islice(scores.items(), k))


def _built(given: Any, seed: int) -> Retriever:
    if isinstance(given, str):
        given = RetrieverSpec(given)
    if isinstance(given, RetrieverSpec):
        return given.build(seed)
    serves = wrapper_for(given)
    if serves is not None:
        return serves()
    if isinstance(given, type) or not isinstance(given, Retriever):
        kind = given.__name__ if isinstance(given, type) else f"a {type(given).__qualname__}"
        raise UsageError(
            f"{kind} is not a retriever object: pass its name, as on the command line, or an "
            "object with index(corpus) and search(queries, k)"
        )
    return given


def _known_as(given: Named, built: Retriever, seed: int) -> tuple[str, str]:
    """Returns the name and revision under which mteb caches results.

    Only built-in retrievers given by name have a stable identity. Any other object gets a new one,
    so that mteb never returns results of another retriever.
    """
    spec = RetrieverSpec(given) if isinstance(given, str) else given
    if not isinstance(spec, RetrieverSpec):
        said = getattr(built, "name", None)
        return (said if isinstance(said, str) else type(built).__qualname__), uuid4().hex
    # Files or services named in parameters may change.
    elsewhere = any(":" in one or files_of(one) for one in iter_strings(spec.params))
    if elsewhere or not is_ours(spec.name):
        return spec.name, uuid4().hex
    weights = str(getattr(built, "revision", ""))
    about = [harness.__version__, spec.name, dict(spec.params), weights, seed]
    plain = json.dumps(about, sort_keys=True, default=str)
    return spec.name, hashlib.sha256(plain.encode()).hexdigest()[:16]


def _corpus(
    texts: Sequence[str],
    titles: Sequence[str],
    order: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
) -> Corpus:
    """Returns undated documents in this order, with numbered handles."""
    n = len(texts)
    columns = {
        "id": pa.nulls(n, pa.string()),
        "text": pa.array(texts, pa.large_string()),
        "title": pa.array(titles, pa.large_string()),
        "timestamp": pa.nulls(n, pa.int64()),
        "session": pa.nulls(n, pa.string()),
        "speaker": pa.nulls(n, pa.string()),
        "position": pa.nulls(n, pa.int64()),
    }
    undated = np.full(n, np.nan)
    return Corpus(Documents(pa.table(columns)), order.astype(np.int32), numbers, undated, None)


def _with_instruction(row: Mapping[str, str]) -> str:
    """Appends the task's instruction to the text of a query, as mteb does for a search."""
    instruction = row.get("instruction")
    return f"{row['text']} {instruction}" if instruction else str(row["text"])
