"""Semantic accuracy of a run, compared with its scores by ids, and of plain lists of texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import harness
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.semantic.accuracy import (
    THRESHOLD,
    Asked,
    Embed,
    HaystackTexts,
    SemanticAccuracy,
    SimilarityModel,
    measured,
    one_haystack,
    sample_of,
)
from harness.extensions.answers.semantic.section import BY_ID, PROTOCOL, section
from harness.records.scores import SemanticResult
from harness.runs.folder.rankings import read_run_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.scoring.arrays import Values
from harness.scoring.matching.matcher import by_query, expand, read_hits
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Choices
from harness.scoring.ranks import Ties, from_dataset, rank_judged
from harness.scoring.resolve import canonicalize, resolve
from harness.scoring.score_columns import QueryStatus, query_clusters, slices
from harness.scoring.signatures import Signature, digest

KS = (1, 5, 10)


def minilm() -> SimilarityModel:
    """Returns the packaged all-MiniLM-L6-v2, with its cache; texts are cut at 256 word pieces.

    Raises UsageError, with the command to install it, if it is missing.
    """
    from harness.extensions.dense.embedder import Embedder
    from harness.extensions.dense.minilm import PACKAGED, LightEncoder, need_minilm

    need_minilm("semantic accuracy")
    encoder = LightEncoder(PACKAGED)
    embedder = Embedder(encoder)
    return SimilarityModel(encoder.model, encoder.revision, lambda texts: embedder(list(texts)))


def semantic_accuracy(
    retrieved_texts: Sequence[Sequence[str]],
    gold_texts: Sequence[Sequence[str]],
    k: int = 10,
    threshold: float = THRESHOLD,
    embed: Embed | None = None,
    *,
    model: str = "",
    haystack: Sequence[str] | None = None,
) -> SemanticAccuracy:
    """Measures the similarity of retrieved to expected texts, by cosines of text vectors.

    `retrieved_texts` has a list of texts, best first, for each query, `gold_texts` the expected
    texts; a query without expected texts is excluded. `embed` returns vectors of shape (texts,
    dimension), and `model` is the name of its model; the default is MiniLM. The random baseline is
    the score of random texts of `haystack`, by default of all retrieved texts. No
    substitute for recall by ids.
    Raises UsageError for invalid shapes, and for a threshold that is not above 0 and at most 1.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UsageError(f"k must be a whole number, 1 or more, not {k!r}")
    for name, lists in (("retrieved_texts", retrieved_texts), ("gold_texts", gold_texts)):
        if isinstance(lists, str) or any(
            isinstance(one, str) or not all(isinstance(text, str) for text in one) for one in lists
        ):
            raise UsageError(f"{name} must be a list of lists of texts, one list a query")
    if len(retrieved_texts) != len(gold_texts):
        raise UsageError(
            f"{len(retrieved_texts)} queries in retrieved_texts, {len(gold_texts)} in gold_texts"
        )
    asked = [
        Asked(texts[:k], gold, range(len(gold)), len(gold))
        for texts, gold in zip(retrieved_texts, gold_texts, strict=True)
    ]
    if haystack is None:
        haystack = list(dict.fromkeys(text for texts in retrieved_texts for text in texts))
    find = (
        minilm
        if embed is None
        else partial(SimilarityModel, model or "a model of your own", "", embed)
    )
    return measured(asked, one_haystack(haystack, k), (k,), threshold, find)


def semantic_of_run(
    run: RunFolder,
    dataset: Dataset,
    answered: QueryStatus,
    choices: Choices,
    threshold: float,
) -> tuple[SemanticResult, pa.Table]:
    """Returns the `semantic` section of scores.json, and the values of each query.

    The text at each rank is the one that the system returned, else that of the document. Gold texts
    are those of the relevant documents in the default qrels; evidence items are counted as for
    recall. A query counts if it was asked and has evidence with a text, whether or not its texts
    could be resolved to documents; a failed query counts 0. Raises UsageError if the model is
    missing or the threshold is invalid.
    """
    record = run.record
    depth = record.settings.k
    ks = tuple(k for k in sorted({*KS, *choices.ks}) if k <= depth) or (1,)
    rankings, _ = canonicalize(read_run_rankings(run.rankings), dataset)
    ranked = rank_judged(rankings, from_dataset(dataset), Ties.ORDER)
    if run.hits.is_file():
        returned = _texts_of_hits(dataset, run, depth, max(ks))
    else:
        returned = _texts_of_documents(dataset, rankings, max(ks))
    counted = answered.asked & ~answered.skipped(ranked.answered, choices.missing)
    asked = _asked(dataset, returned, counted & ranked.has_relevant)
    sizes = dataset.haystack_sizes.tolist()
    rows = sample_of(sizes, max(ks), seed=0)
    texts = [
        dataset.documents.contents(dataset.haystack_rows(h)[some]) for h, some in enumerate(rows)
    ]
    sampled = any(len(some) < size for some, size in zip(rows, sizes, strict=True))
    found = measured(asked, HaystackTexts(texts, sampled), ks, threshold, minilm)
    by_id = {
        f"{name}@{k}": np.where(answered.counted & counted, Metric(name, k)(ranked), np.nan)
        for name in BY_ID.values()
        for k in ks
    }
    has_text = np.array([bool(one.gold) for one in asked])
    left_out = {
        "without relevant documents": int((counted & ~ranked.has_relevant).sum()),
        "the evidence has no text in the corpus": int(
            (counted & ranked.has_relevant & ~has_text).sum()
        ),
    }
    result = section(
        found,
        slices(dataset),
        query_clusters(dataset),
        _template(dataset, counted, depth, choices.missing, found),
        {reason: n for reason, n in left_out.items() if n},
        answered.failed,
        by_id,
    )
    return result, _table(dataset, counted, found.per_query | by_id)


def _texts_of_documents(dataset: Dataset, rankings: Any, deepest: int) -> list[list[str]]:
    """Returns the text at each rank of each query's ranking; blank for an unknown document."""
    resolved = resolve(rankings, dataset)
    top = np.flatnonzero(resolved.rank <= deepest)
    row = resolved.row[top]
    texts = dataset.documents.contents(np.maximum(row, 0))
    returned: list[list[str]] = [[] for _ in range(dataset.n_queries)]
    for query, known, text in zip(
        resolved.query[top].tolist(), (row >= 0).tolist(), texts, strict=True
    ):
        returned[query].append(text if known else "")
    return returned


def _texts_of_hits(dataset: Dataset, run: RunFolder, depth: int, deepest: int) -> list[list[str]]:
    """Returns the same for a system that returned texts; a text of several documents is repeated
    at the rank of each."""
    returned: list[list[str]] = [[] for _ in range(dataset.n_queries)]
    for query, mine in by_query(read_hits(dataset, run.hits)):
        for row in expand(mine, depth)[0][:deepest]:
            text = row.hit.text
            if not text and row.document >= 0:
                text = dataset.documents[row.document].content
            returned[query].append(text)
    return returned


def _asked(
    dataset: Dataset, returned: Sequence[Sequence[str]], counted: npt.NDArray[np.bool_]
) -> list[Asked]:
    """Returns returned and gold texts by query; no gold texts for a query that does not count."""
    judged = dataset.qrels()
    relevant = np.flatnonzero((judged.grade >= 1) & counted[judged.query])
    ends = np.searchsorted(judged.query[relevant], np.arange(dataset.n_queries + 1))
    texts = dataset.documents.contents(np.maximum(judged.document[relevant], 0))
    there = judged.document[relevant] >= 0
    asked = []
    for query, (start, end) in enumerate(pairwise(ends.tolist())):
        units, piece = np.unique(judged.evidence_id[relevant[start:end]], return_inverse=True)
        mine = np.flatnonzero(there[start:end])
        gold = [texts[start + at] for at in mine.tolist()]
        haystack = int(dataset.query_haystack[query])
        asked.append(Asked(returned[query], gold, piece[mine].tolist(), len(units), haystack))
    return asked


def _template(
    dataset: Dataset,
    counted: npt.NDArray[np.bool_],
    depth: int,
    missing: str,
    found: SemanticAccuracy,
) -> str:
    """Returns the signature template of this run's semantic scores; `match` names threshold and
    model."""
    m = dataset.manifest
    ids = [dataset.query_ids[i] for i in np.flatnonzero(counted)]
    return Signature(
        metric="",
        protocol=PROTOCOL,
        data=f"{m.name}#{m.fingerprint[:8]}",
        level=m.granularity,
        text=m.text,
        split=m.split,
        slice="",
        n=0,
        queries="all" if counted.all() else digest(ids),
        ties=str(Ties.ORDER),
        depth=depth,
        missing=missing,
        v=harness.__version__,
        match=f"cosine>={found.threshold:g},{found.model}",
    ).template


def _table(
    dataset: Dataset, counted: npt.NDArray[np.bool_], columns: dict[str, Values]
) -> pa.Table:
    """Returns a row per counted query: its id, ability, and every value; null without a
    value."""
    rows = np.flatnonzero(counted)
    return pa.table(
        {
            "query": [dataset.query_ids[i] for i in rows],
            "ability": dataset.abilities[rows],
            **{name: pa.array(v[rows], from_pandas=True) for name, v in columns.items()},
        }
    )
