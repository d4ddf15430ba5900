"""What a labelling project is made of: the top k of the pooled systems, and a file of queries."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.dataset.adapter import Raw, Variant, View, by_name
from harness.dataset.adapters import labelled_fields as fields
from harness.dataset.adapters.formats import jsonl
from harness.dataset.adapters.formats.delimited import csv_records, tsv
from harness.dataset.adapters.formats.text import TextFile
from harness.dataset.catalogue import register_adapter
from harness.errors import UsageError
from harness.files import fsync_path, write_bytes
from harness.labelling.folder import Record, as_lines
from harness.labelling.generate.splits import NAMES
from harness.rankings.fields import QUERIES
from harness.retrievers.registry import RetrieverSpec

if TYPE_CHECKING:
    from harness.dataset.writer import DatasetWriter


_FAMILY = "label-pool"
_VARIANT = Variant(
    "",
    "documents and queries of a labelling project, without judgements",
    "yours",
    granularities=("document",),
    needs_source=True,
)
_ENDINGS = ".jsonl, .csv, .tsv or .txt"


@dataclass(frozen=True)
class System:
    """One system of a pool: its name there (`bm25:k1=0.9`), and how it is built again."""

    name: str
    spec: RetrieverSpec

    @classmethod
    def of(cls, name: str, params: Mapping[str, Any], plugins: Iterable[str] = ()) -> System:
        """From a retriever's name and parameters. Raises UsageError for one that there is not."""
        spec = RetrieverSpec(name, dict(params), tuple(plugins))
        spec.check()
        said = ",".join(f"{key}={_said(value)}" for key, value in sorted(params.items()))
        return cls(f"{name}:{said}" if said else name, spec)


@dataclass(frozen=True)
class Pooled:
    """What a system found: `ranks[query][document]` is the place from 1.

    `record` is what label.json says of it; `failed`: how many queries it failed on.
    """

    ranks: dict[str, dict[str, int]]
    record: Record
    failed: int


def top_k(
    systems: Iterable[System],
    documents: list[Record],
    queries: list[Record],
    *,
    k: int,
    seed: int,
    place: Path,
    quiet: bool = True,
) -> list[Pooled]:
    """The top k of each system, run as `harness run` runs it: over opaque handles, without a key.

    `place` is a folder for what is needed meanwhile; it is removed. Raises what a run raises, and
    UsageError for a retriever that is made of the answer key.
    """
    from harness.dataset.prepare import open_dataset

    shutil.rmtree(place, ignore_errors=True)
    try:
        write_bytes(place / "documents.jsonl", as_lines(documents))
        kept = {*QUERIES.names} - {"relevant"}  # nothing is judged here
        known = [{name: query[name] for name in query if name in kept} for query in queries]
        write_bytes(place / "queries.jsonl", as_lines(known))
        fsync_path(place)
        dataset = open_dataset(_FAMILY, source=place, quiet=quiet)
        try:
            return [_run(system, dataset, k, seed, place / "runs", quiet) for system in systems]
        finally:
            shutil.rmtree(dataset.folder, ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(system: System, dataset: Any, k: int, seed: int, out: Path, quiet: bool) -> Pooled:
    from harness.rankings.arrow import read_parquet
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.plan import Settings
    from harness.runs.runner import run
    from harness.scoring.matching.hits import UNRESOLVED

    folder = RunFolder(
        run(dataset, system.spec, Settings(k=k, seed=seed, allow_empty=True), out=out, quiet=quiet)
    )
    about = folder.record.retriever
    if about.sees_gold_labels:
        raise UsageError(f"--retriever {system.name}: is shown the answer key, which there is not")
    ranks: dict[str, dict[str, int]] = {}
    table = read_parquet(folder.rankings)
    for query, document, rank in zip(
        *(table[name].to_pylist() for name in ("query", "document", "rank")), strict=True
    ):
        if not document.startswith(UNRESOLVED):  # a text of its own that stands for no document
            ranks.setdefault(query, {}).setdefault(document, rank)
    record = {
        "system": system.name,
        "name": system.spec.name,
        "params": dict(system.spec.params),
        "plugins": list(system.spec.plugins),
        "version": about.version,
    }
    return Pooled(ranks, record, folder.record.queries.failed)


def _said(value: Any) -> str:
    import orjson

    return value if isinstance(value, str) else orjson.dumps(value).decode()


@register_adapter(_FAMILY)
class LabelPool:
    """Documents and queries as `labelled` reads them, of which nothing was judged yet."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """The only one."""
        return [_VARIANT]

    def variant(self, name: str) -> Variant | None:
        """The only one, under no name."""
        return by_name([_VARIANT], name)

    def locate(self, source: Path, variant: Variant, view: View) -> Mapping[str, Path]:
        """Both files."""
        return {name: source / f"{name}.jsonl" for name in ("documents", "queries")}

    def normalise(self, raw: Raw, view: View, out: DatasetWriter) -> None:
        """As `labelled` does it."""
        from harness.dataset.adapters.labelled import Labelled

        Labelled().normalise(raw, view, out)


# -- The queries to label --------------------------------------------------------------------------


def read_queries(path: Path) -> list[Record]:
    """The queries of a file, in its order; those without an id have none yet.

    .jsonl and .csv have the fields that `labelled` reads, `text` at least, and may have `split`;
    .tsv is id and text; .txt is one query a line. Raises UsageError, naming the line, for a field
    that is not as it must be, an id that stands twice, and a file without a query.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; a file of queries ({_ENDINGS}) is needed")
    file = TextFile(path)
    lines: dict[str, int] = {}
    found = []
    for line, record in _records(file):
        query = _checked(file, line, record)
        if "id" in query:
            before = lines.setdefault(query["id"], line)
            if before != line:
                raise file.error(
                    line, f"the query id {query['id']!r} stands on line {before} already; rename it"
                )
        found.append(query)
    if not found:
        raise UsageError(f"{path}: holds no queries")
    return found


def _records(file: TextFile) -> Iterator[tuple[int, dict[str, Any]]]:
    ending = Path(file.path.name.removesuffix(".gz")).suffix.lower()
    if ending == ".jsonl":
        yield from jsonl.records(file)
    elif ending == ".csv":
        yield from csv_records(file, ("text",))
    elif ending == ".tsv":
        for line, (id_, text) in tsv(file, ("query id", "text")):
            yield line, {"id": id_, "text": text}
    elif ending == ".txt":
        for line, text in file.lines():
            if text.strip():
                yield line, {"text": text}
    else:
        raise UsageError(f"{file}: the queries must be a file that ends in {_ENDINGS}")


def _checked(file: TextFile, line: int, record: dict[str, Any]) -> Record:
    """The record with its id and text as text, and whatever else it holds."""
    query: Record = {name: value for name, value in record.items() if name not in ("_id", "id")}
    given = {"id": record.get("id", record.get("_id"))}
    id_ = jsonl.optional_string(file, line, given, "id")
    query["text"] = jsonl.string(file, line, record, "text").strip()
    if not query["text"]:
        raise file.error(line, "the query has no text; write it, or take the line out")
    for name in ("haystack", "category"):
        jsonl.optional_string(file, line, record, name)
    split = jsonl.optional_string(file, line, record, "split")
    if split is not None and split not in NAMES:
        raise file.error(line, f"the split {split!r} is none of {', '.join(NAMES)}; choose one")
    if record.get("ability"):
        fields.ability(file, line, record)
    fields.answers(file, line, record)
    fields.timestamp(file, line, record.get("timestamp"))
    return query if id_ is None else {"id": id_, **query}
