"""Any dataset of ir_datasets (https://ir-datasets.com), by its id."""

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
from harness.errors import RunError, UsageError
from harness.io.packages import install_command

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

_BATCH = 512
_LICENCE = "see ir-datasets.com"
_EXAMPLES = {
    "vaswani": "93 queries on 11,429 abstracts of physics, small and quick to download",
    "antique/test": "questions to Yahoo Answers, 403,666 answers",
    "nfcorpus/test": "questions on medicine, NFCorpus in full",
}


@register_adapter("ir")
class Ir:
    """`ir/<id>`: a dataset of ir_datasets that has documents, queries and qrels."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """A few examples; every other id works too."""
        for name, about in _EXAMPLES.items():
            yield _variant(name, about)

    def variant(self, name: str) -> Variant | None:
        """Returns a dataset by id; an unknown id fails during preparation."""
        return _variant(name, f"{name}, through ir_datasets") if name else None

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds no files, because ir_datasets manages its own."""
        raise UsageError(
            f"ir/{variant.name} is read through ir_datasets, which manages its own files: omit "
            "--source, or read your files with the dataset `labelled`"
        )

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes documents, queries and qrels of the dataset."""
        write_ir_dataset(raw.variant.name, out, quiet=raw.quiet)


def write_ir_dataset(dataset_id: str, out: DatasetWriter, *, quiet: bool) -> None:
    """Writes a dataset of ir_datasets: documents, judged queries, qrels.

    Queries without a judgement are excluded and recorded. Raises UsageError when the package, the
    dataset or a part of it is missing, and RunError when a download fails.
    """
    dataset = _load(dataset_id)
    out.origin(f"ir_datasets {version('ir_datasets')}, {dataset_id}")
    try:
        _write_key(dataset, out)
        n = _write_documents(dataset.docs_iter(), out, quiet=quiet)
    except (OSError, RuntimeError) as error:
        if getattr(error, "errno", None) is not None:  # a disk error, not a download error
            raise
        raise RunError(
            f"ir_datasets could not load {dataset_id!r}: {error or type(error).__name__}"
        ) from error
    if not n:
        raise UsageError(f"ir/{dataset_id} contains no documents")
    out.haystack(HAYSTACK)


def _variant(name: str, about: str) -> Variant:
    # BEIR's evaluation removes a document with the id of the query from its ranking.
    return Variant(name, about, _LICENCE, k=1000, exclude_self=name.startswith("beir/"))


def _load(dataset_id: str) -> Any:
    try:
        import ir_datasets
    except ModuleNotFoundError:
        raise UsageError(
            f"{dataset_id!r} needs the package ir_datasets: {install_command('ir_datasets')}"
        ) from None
    try:
        dataset = ir_datasets.load(dataset_id)
    except KeyError:
        close = difflib.get_close_matches(dataset_id, ir_datasets.registry, n=3)
        advice = f"did you mean {', '.join(close)}?" if close else "see https://ir-datasets.com"
        raise UsageError(f"ir_datasets has no dataset {dataset_id!r}; {advice}") from None
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
    """Writes queries and judgements; keeps the highest grade of a document (subtopics)."""
    grades: dict[tuple[str, str], int] = {}
    for qrel in dataset.qrels_iter():
        pair = (qrel.query_id, qrel.doc_id)
        if pair in grades:
            out.repair(
                "documents judged more than once for a query: highest grade kept",
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
            out.repair("queries without a judgement: excluded", query.query_id)
    for (query_id, document), grade in grades.items():
        if query_id in known:
            out.qrel(query_id, document, grade)
        else:
            out.repair("judgements of unknown queries: excluded", query_id)


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
    """Splits title and text if the text in ir_datasets joins the two."""
    whole: str = document.default_text()
    title, text = getattr(document, "title", None), getattr(document, "text", None)
    if isinstance(title, str) and isinstance(text, str) and whole == f"{title} {text}":
        return title, text
    return "", whole
