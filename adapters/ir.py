"""Any dataset that ir_datasets knows (https://ir-datasets.com), by its id there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters.one_corpus import HAYSTACK, progress
from harness.datasets.registry import register_adapter
from harness.errors import RunError, UsageError, install

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

_BATCH = 512
_LICENCE = "see ir-datasets.com"
_EXAMPLES = {
    "vaswani": "93 queries on 11,429 abstracts of physics, small and quick to get",
    "antique/test": "questions to Yahoo Answers, 403,666 answers",
    "nfcorpus/test": "questions on medicine, NFCorpus in full",
}


@register_adapter("ir")
class Ir:
    """`ir/<id>`: the id of any dataset of ir_datasets with documents, queries and qrels."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """A few of them; every other id works too."""
        for name, about in _EXAMPLES.items():
            yield _variant(name, about)

    def variant(self, name: str) -> Variant | None:
        """A dataset by its id. Whether there is one shows when it is prepared."""
        return _variant(name, f"{name}, through ir_datasets") if name else None

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Nothing: ir_datasets finds its own files."""
        raise UsageError(
            f"ir/{variant.name} comes through ir_datasets, which keeps its own files: leave out "
            "--source, or read your files with the dataset `labelled`"
        )

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Everything that ir_datasets has of it."""
        write_ir_dataset(raw.variant.name, out, quiet=raw.quiet)


def write_ir_dataset(dataset_id: str, out: DatasetWriter, *, quiet: bool) -> None:
    """Write a dataset of ir_datasets: documents, judged queries, qrels.

    Queries without a judgement are left out and recorded. Raises UsageError when the package, the
    dataset, or a part of it is missing, RunError when ir_datasets cannot get its files.
    """
    dataset = _load(dataset_id)
    out.origin(f"ir_datasets {version('ir_datasets')}, {dataset_id}")
    try:
        _write_key(dataset, out)
        n = _write_documents(dataset.docs_iter(), out, quiet=quiet)
    except (OSError, RuntimeError) as error:
        if getattr(error, "errno", None) is not None:  # of the disk, not of a download
            raise
        raise RunError(
            f"ir_datasets cannot get {dataset_id!r}: {error or type(error).__name__}"
        ) from error
    if not n:
        raise UsageError(f"ir/{dataset_id} holds no documents")
    out.haystack(HAYSTACK)


def _variant(name: str, about: str) -> Variant:
    # BEIR leaves a document whose id is the query's out of a ranking; ir_datasets has BEIR's sets.
    return Variant(name, about, _LICENCE, k=1000, exclude_self=name.startswith("beir/"))


def _load(dataset_id: str) -> Any:
    try:
        import ir_datasets
    except ModuleNotFoundError:
        raise UsageError(
            f"{dataset_id!r} comes through the package ir_datasets: {install('ir')}"
        ) from None
    try:
        dataset = ir_datasets.load(dataset_id)
    except KeyError:
        close = difflib.get_close_matches(dataset_id, ir_datasets.registry, n=3)
        advice = f"did you mean {', '.join(close)}?" if close else "see https://ir-datasets.com"
        raise UsageError(f"ir_datasets knows no dataset {dataset_id!r}; {advice}") from None
    for part, there in (
        ("documents", dataset.has_docs()),
        ("queries", dataset.has_queries()),
        ("relevance judgements", dataset.has_qrels()),
    ):
        if not there:
            raise UsageError(
                f"ir/{dataset_id} has no {part}; choose one of its subsets, see "
                f"https://ir-datasets.com/{dataset_id.partition('/')[0]}"
            )
    return dataset


def _write_key(dataset: Any, out: DatasetWriter) -> None:
    """Write queries and judgements; of several grades of a document (subtopics) the highest."""
    grades: dict[tuple[str, str], int] = {}
    for qrel in dataset.qrels_iter():
        pair = (qrel.query_id, qrel.doc_id)
        if pair in grades:
            out.repair(
                "documents judged more than once for a query: the highest grade holds",
                " ".join(pair),
            )
        grades[pair] = max(int(qrel.relevance), grades.get(pair, int(qrel.relevance)))
    judged = {query for query, _ in grades}
    known = set()
    for query in dataset.queries_iter():
        if query.query_id in judged:
            out.query(query.query_id, query.default_text(), HAYSTACK)
            known.add(query.query_id)
        else:
            out.repair("queries without a judgement: left out", query.query_id)
    for (query_id, document), grade in grades.items():
        if query_id in known:
            out.qrel(query_id, document, grade)
        else:
            out.repair("judgements of queries that are not there: left out", query_id)


def _write_documents(documents: Iterator[Any], out: DatasetWriter, *, quiet: bool) -> int:
    n = 0
    with progress(quiet=quiet) as bar:
        while batch := list(islice(documents, _BATCH)):
            contents = [_title_and_text(document) for document in batch]
            out.documents(
                [document.doc_id for document in batch],
                [text for _, text in contents],
                [title for title, _ in contents],
            )
            n += len(batch)
            bar.update(len(batch))
    return n


def _title_and_text(document: Any) -> tuple[str, str]:
    """Title and text apart where ir_datasets' own text of the document is the two joined."""
    whole: str = document.default_text()
    title, text = getattr(document, "title", None), getattr(document, "text", None)
    if isinstance(title, str) and isinstance(text, str) and whole == f"{title} {text}":
        return title, text
    return "", whole
