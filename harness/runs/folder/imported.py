"""Makes run folders from rankings or hits of other systems."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

import harness
from harness.datasets.export import has_unique_ids, unique_ids
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.files import digest, disk_errors, folder_aside
from harness.io.terminal import count_of
from harness.records.run import (
    ImportedFile,
    ImportSource,
    QueryCounts,
    RetrieverRecord,
    RunRecord,
    RunSettings,
)
from harness.runfiles.fields import HITS
from harness.runfiles.json_files import Shapes, hits_of, holds_queries
from harness.runfiles.rankings import Rankings
from harness.runfiles.raw import read_bytes, read_lines
from harness.runfiles.readers import read_rankings
from harness.runs.folder.hits import write_hit_rankings, write_resolved_hits
from harness.runs.folder.rankings import write_query_table, write_rankings
from harness.runs.folder.run_folder import dataset_ref, folder_name, write_record
from harness.runs.folder.run_state import OURS
from harness.schema import Ability
from harness.scoring.matching.matcher import Matching, TextHit
from harness.scoring.resolve import canonicalize, in_haystack, resolve

_log = logging.getLogger(__name__)

REPEATS = ("latest", "first", "refuse")
"""Which of several records of a query counts."""

_ALL_EVIDENCE = 1.5
"""Documents per query above which it is no coincidence that all are evidence."""


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import: the results folder `out`, the system's `name`, how to read rankings.

    `k` None: the depth of the rankings. `strict`: irregularities are errors. `matching`: how
    returned texts are resolved to documents. `quiet`: irregularities are not reported.
    `score_column`: the name of the score column, if not a usual one.
    """

    out: Path
    name: str
    k: int | None = None
    strict: bool = False
    matching: Matching | None = None
    quiet: bool = False
    score_column: str = ""

    def folder(self, dataset: Dataset, identity: object) -> Path:
        """Returns the run folder of rankings with this identity."""
        return self.out / folder_name(dataset, self.name or "run", identity)

    @contextmanager
    def written(self, folder: Path) -> Iterator[Path]:
        """Yields a folder that replaces the run folder, completely or not at all."""
        with (
            disk_errors(self.out, "name another folder with --out"),
            folder_aside(folder, ours=OURS) as aside,
        ):
            yield aside


def import_rankings(
    source: Path, dataset: Dataset, options: ImportOptions, *, unasked: bool = True
) -> Path:
    """Makes a run folder from another system's rankings; warns of irregularities.

    Returned texts (see HitsFile) are resolved to documents. Without `unasked`, queries that a file
    with one JSON object of queries does not name were not asked: it could name them with an empty
    list, unlike a file with a row per document.

    Raises UsageError for a file that cannot be read, one without any query of the dataset, and, if
    `strict`, for repeated documents and unknown queries.
    """
    if is_hits_file(source) and not options.score_column:
        return _import_hits(source, dataset, options)
    column = options.score_column
    rankings = read_rankings(source, score_column=column)
    rankings, notes = known_queries(rankings, dataset, source)
    say(source, notes, options.strict, quiet=options.quiet)
    deepest = int(np.diff(rankings.starts).max(initial=0))
    if options.k is not None and deepest > options.k:
        raise UsageError(
            f"{source}: holds rankings of {deepest} documents, more than --k {options.k}"
        )
    sha256 = digest(source)
    about = ImportedFile(file=source.name, sha256=sha256, notes=notes, score_column=column)
    asked = None
    if not unasked and holds_queries(source):
        named = set(rankings.query_ids)
        asked = [query for query in dataset.query_ids if query in named]
        about = replace(about, asked=len(asked), queries=dataset.n_queries)
    k = options.k or max(deepest, 1)
    identity: dict[str, object] = {"rankings": about.sha256, "k": k}
    identity |= {"score_column": column} if column else {}
    if asked is not None and len(asked) < dataset.n_queries:
        identity["asked"] = len(asked)
    folder = options.folder(dataset, identity)
    record = import_record(dataset, options.name, k, about, None if asked is None else len(asked))
    with options.written(folder) as aside:
        write_rankings(rankings, aside, options.name)
        if asked is not None:
            sizes = dict(zip(rankings.query_ids, np.diff(rankings.starts).tolist(), strict=True))
            write_query_table(aside, asked, [sizes[query] for query in asked])
        write_record(aside, record)
    return folder


def known_queries(rankings: Rankings, dataset: Dataset, source: Path) -> tuple[Rankings, list[str]]:
    """Returns the rankings as they are scored, and notes on irregularities.

    Raises UsageError if none of the queries, or none of the documents, is in the dataset.
    """
    notes: list[str] = []
    known = set(dataset.query_ids)
    unknown = [query for query in rankings.query_ids if query not in known]
    if len(unknown) == len(rankings.query_ids):
        raise UsageError(
            f"{source}: none of its {len(unknown)} queries is in {dataset.name}, first "
            f"{unknown[0]!r} where the dataset has {dataset.query_ids[0]!r}"
            if unknown
            else f"{source}: holds no ranking"
        )
    if unknown:
        said = count_of(len(unknown), "queries")
        notes.append(f"{said} that {dataset.name} does not have, ignored")
    rankings, repeated = canonicalize(_with_own_ids(rankings, dataset), dataset)
    resolved = resolve(rankings, dataset)
    absent, n = resolved.unknown_documents, len(resolved.row)
    if n and absent == n:
        manifest = dataset.manifest
        raise UsageError(
            f"{source}: none of its documents is in the haystack of its query, first "
            f"{rankings.document[0].as_py()!r} where {dataset.name} has "
            f"{dataset.documents[0].id!r} at granularity {manifest.granularity}, text "
            f"{manifest.text}; choose another with --granularity or --text"
        )
    if dataset.manifest.ids_only and not absent and n > _ALL_EVIDENCE * len(rankings.query_ids):
        notes.append(
            "all that was returned is evidence: was it asked over the evidence alone (`oracle`)?"
        )
    if absent and not dataset.manifest.ids_only:
        notes.append(f"{absent} of its {n} documents are not in the haystack of their query")
    if repeated:
        said = count_of(repeated, "rows")
        notes.append(f"{said} with a document that is already in the ranking; the best rank counts")
    return rankings, notes


def _with_own_ids(rankings: Rankings, dataset: Dataset) -> Rankings:
    """Replaces the ids `haystack/id` of exported datasets by the dataset's ids."""
    if has_unique_ids(dataset) or not pc.any(pc.match_substring(rankings.document, "/")).as_py():
        return rankings
    row_of = dataset.query_rows
    query = np.array([row_of.get(name, -1) for name in rankings.query_ids], np.int32)
    query = query[rankings.query]
    named = pc.index_in(rankings.document, pa.array(unique_ids(dataset)))
    row = np.where(query < 0, -1, pc.fill_null(named, -1).to_numpy()).astype(np.int32)
    there = pa.array(in_haystack(dataset, np.maximum(query, 0), row))
    own = dataset.documents.column("id", np.maximum(row, 0))
    document = pc.if_else(pa.chunked_array([there]), own, rankings.document)
    return Rankings(rankings.query_ids, rankings.query, document, rankings.score)


def say(source: Path, notes: list[str], strict: bool, *, quiet: bool = False) -> None:
    """Warns of irregularities of a file; raises UsageError instead if `strict`."""
    if strict and notes:
        raise UsageError(f"{source}: {'; '.join(notes)} (--strict)")
    for note in () if quiet else notes:
        _log.warning(f"warning: {source}: {note}")


def import_record(
    dataset: Dataset, name: str, k: int, source: ImportSource, asked: int | None = None
) -> RunRecord:
    """Creates run.json for imported rankings; `asked` None: every query of the dataset."""
    n = dataset.n_queries if asked is None else asked
    return RunRecord(
        run_version=1,
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        dataset=dataset_ref(dataset),
        retriever=RetrieverRecord(name=name),
        settings=RunSettings(k=k),
        queries=QueryCounts(asked=n, answered=n, failed=0, abstained=0),
        imported_from=source,
        versions={"harness": harness.__version__},
    )


@dataclass(frozen=True)
class HitsFile:
    """Hits of a system that ran elsewhere: lines of {"query": id, "hits": [{text, sources}, ...]}.

    A hit may have `id`, `sources` (ids of the dataset), `text` and `score`. `queries` are those of
    the dataset that the file answers, `unknown` those of the file that the dataset lacks.
    """

    hits: list[TextHit]
    queries: dict[str, None]
    unknown: dict[str, None]


def is_hits_file(path: Path) -> bool:
    """Tests whether a file holds hits, by its name and its first line."""
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        return False
    return b'"hits"' in read_bytes(path, 1 << 16).partition(b"\n")[0]


def read_hits_file(path: Path, dataset: Dataset) -> HitsFile:
    """Reads hits. Raises UsageError with file and line number for an invalid line."""
    import orjson

    known = dataset.query_rows
    places: dict[int, dict[str, int]] = {}
    file, shapes = HitsFile([], {}, {}), Shapes(HITS)
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            name, hits = hits_of(orjson.loads(line), shapes)
            if (query := known.get(name)) is None:
                file.unknown[str(name)] = None
                continue
            if name in file.queries:
                raise ValueError(f"the query {name!r} is on a line above; keep one")
            file.queries[name] = None
            haystack = int(dataset.query_haystack[query])
            if haystack not in places:
                places[haystack] = dataset.rows_by_id(haystack)
            for place, one in enumerate(hits, 1):
                file.hits.append(_hit(query, place, one, places[haystack]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f'{path}, line {number}: expected {{"query": id, "hits": [{{"text": ..., '
                f'"sources": [id, ...], "score": number}}, ...]}} ({error})'
            ) from None
    shapes.end(str(path))
    return file


def _hit(query: int, place: int, one: dict[str, Any], rows: dict[str, int]) -> TextHit:
    named, score, text = one.get("sources", []), one.get("score"), one.get("text", "")
    if not isinstance(named, list):  # the letters of a text would count as ids
        raise TypeError("sources must be a list of ids")
    if not isinstance(text, str):
        raise TypeError("a text must be a text")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise TypeError("a score must be a number")
    named = [*([one["id"]] if "id" in one else []), *named]
    sources = list(dict.fromkeys(rows[name] for name in named if name in rows))
    unknown = sum(name not in rows for name in named)
    return TextHit(query, place, text, sources, None if score is None else float(score), unknown)


def _import_hits(source: Path, dataset: Dataset, options: ImportOptions) -> Path:
    file = read_hits_file(source, dataset)
    if not file.queries:
        raise UsageError(f"{source}: none of its queries is in {dataset.name}")
    notes = []
    if file.unknown:
        said = count_of(len(file.unknown), "queries")
        notes.append(f"{said} that {dataset.name} does not have, ignored")
    if lost := sum(hit.unknown for hit in file.hits):
        notes.append(f"{lost} of its sources are not in the haystack of their query")
    say(source, notes, options.strict, quiet=options.quiet)
    depth = options.k or max((hit.place for hit in file.hits), default=1)
    about = ImportedFile(file=source.name, sha256=digest(source), notes=notes)
    identity: dict[str, object] = {"rankings": about.sha256, "k": depth}
    if options.matching is not None:
        identity["matching"] = asdict(options.matching)
    folder = options.folder(dataset, identity)
    hits = [hit for hit in file.hits if hit.place <= depth]
    with options.written(folder) as aside:
        ranked, resolved = write_resolved_hits(aside, dataset, hits, depth, options.matching)
        write_hit_rankings(aside, dataset, ranked, list(file.queries), options.name)
        record = import_record(dataset, options.name, depth, about)
        write_record(aside, replace(record, hits=resolved))
    return folder


def unasked_rows(asked: Container[int], dataset: Dataset) -> list[int]:
    """Returns queries that were not asked, to count them as empty rankings.

    Unanswerable queries are excluded: an empty ranking would be right for them.
    """
    without = dataset.abilities == str(Ability.ABSTENTION)
    return [row for row in range(dataset.n_queries) if row not in asked and not without[row]]
