"""Prepares a dataset: finds or downloads its raw files, converts them, and writes the manifest."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from harness.datasets.adapter import Adapter, DatasetConfig, SourceFiles, Variant, downloads_folder
from harness.datasets.manifest import HAYSTACKS, Manifest, RawFile
from harness.datasets.progress import progress
from harness.datasets.reader import BETWEEN
from harness.datasets.writer import DatasetWriter, columns
from harness.errors import FileUnavailableError, UsageError, require_names, require_regular
from harness.io.files import TemporaryFolder, digest, folder_aside, replace_folder, sweep
from harness.schema import as_datetime

if TYPE_CHECKING:
    from harness.runfiles.tables import Frame

_log = logging.getLogger(__name__)

_REVISION = re.compile(r"hf://|https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/")
"""Where a URL names the revision, a file from there is the publisher's, whatever its hash."""
_SHOWN = 3  # warnings about single files


@dataclass(frozen=True)
class PrepareRequest:
    """What is to be prepared, and where.

    `path` is the user's copy of the raw files, `known_source` that or an official copy that was
    used before. `official` is the folder for files with published hashes.
    """

    name: str
    adapter: Adapter
    variant: Variant
    config: DatasetConfig
    path: Path | None
    known_source: Path | None
    folder: Path
    official: Path
    downloads: Path
    quiet: bool

    @property
    def adapter_config(self) -> DatasetConfig:
        """The config as the adapter knows it."""
        return self.config.without_as_of


def build(request: PrepareRequest) -> Path:
    """Prepares a dataset; returns its folder. The caller holds the lock of the dataset's name.

    Raises UsageError for missing or broken raw files, RunError when a download fails.
    """
    adapter, variant, source = request.adapter, request.variant, request.known_source
    if source is None and not variant.files:
        source = getattr(adapter, "shipped", None)
    if source is None and (variant.files or hasattr(adapter, "remote_files")):
        source = request.downloads
        source.mkdir(parents=True, exist_ok=True)
        with FileLock(source / ".lock"):  # variants of a family may share a file
            sweep(source, again=True)
            variant = _download(request)
    files = {} if source is None else adapter.find_files(source, variant, request.adapter_config)
    require_names(*files.values())
    require_regular(*files.values())
    raw = SourceFiles(files, variant, request.downloads, request.quiet)
    manifest = _convert(request, raw, source or request.downloads)
    if variant.needs_source:
        for one in manifest.repairs:
            _log.warning(f"note: {source}: {one.count} x {one.kind} (first {one.examples[0]})")
    if request.path is not None and not variant.needs_source:
        if manifest.official:
            # With the published hashes a local copy is the official dataset: kept under that name.
            replace_folder(request.folder, request.official)
            return request.official
        _warn_unknown(manifest)
    return request.folder


def _download(request: PrepareRequest) -> Variant:
    """Downloads what the variant is read from; returns it with these files.

    For several files FileUnavailableError names their folder, which can be given instead.
    """
    from harness.datasets.download import fetch

    variant, config, downloads = request.variant, request.adapter_config, request.downloads
    listed = getattr(request.adapter, "remote_files", None)
    several = listed is not None
    try:
        if listed is not None:
            variant = replace(variant, files=tuple(listed(variant, config, downloads)))
        needed = [one for one in variant.files if not one.splits or config.split in one.splits]
        several = several or len(needed) > 1
        for file in needed:
            fetch(file, downloads, quiet=request.quiet)
    except FileUnavailableError as error:
        if not several:
            raise
        raise FileUnavailableError(str(error), "FOLDER") from None
    return variant


def _convert(request: PrepareRequest, raw: SourceFiles, source: Path) -> Manifest:
    config, variant = request.config, raw.variant
    writer = AsOfWriter if config.as_of else DatasetWriter
    # Hashing lets go of the interpreter lock, so it runs beside the parsing.
    with ThreadPoolExecutor(1) as pool, folder_aside(request.folder) as folder:
        records = pool.submit(_raw_records, raw)
        with (
            progress(0, "documents", f"prepare {request.name}", quiet=raw.quiet) as bar,
            writer(folder, unknown_documents=variant.unknown_documents, bar=bar) as out,
        ):
            request.adapter.convert(raw, request.adapter_config, out)
            out.finish()
            manifest = Manifest(
                name=request.name,
                granularity=config.granularity,
                text=config.text,
                split=config.split,
                licence=variant.licence,
                source=str(source),
                adapter_version=request.adapter.version,
                raw=records.result(),
                origin=out.origins,
                own_files=variant.needs_source,
                repairs=out.repairs,
                counts=out.counts,
                files=out.files,
                fingerprint=out.fingerprint,
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                exclude_self=variant.exclude_self,
                k=variant.depths.get(config.granularity, variant.k),
                qrels_sets=out.qrels_sets,
                mean_over=variant.mean_over,
            )
        manifest.write(folder)
    return manifest


def _raw_records(raw: SourceFiles) -> list[RawFile]:
    return [_raw_record(name, path, raw) for name, path in raw.files.items()]


def _raw_record(name: str, path: Path, raw: SourceFiles) -> RawFile:
    variant = raw.variant
    remote = next((file for file in variant.files if file.name == name), None)
    published = {file.sha256 for file in variant.files if file.sha256} | {*variant.pinned.values()}
    sha256 = digest(path)
    status = "unknown"
    if sha256 in published or (remote and remote.md5 and digest(path, "md5") == remote.md5):
        status = "pinned"
    elif remote and _REVISION.match(remote.url) and path.is_relative_to(raw.downloads):
        status = "revision"
    stat = path.stat()
    return RawFile(
        name=name,
        path=str(path.absolute()),
        bytes=stat.st_size,
        modified_ns=stat.st_mtime_ns,
        sha256=sha256,
        status=status,
    )


def _warn_unknown(manifest: Manifest) -> None:
    unknown = [raw for raw in manifest.raw if raw.status != "pinned"]
    for raw in unknown[:_SHOWN]:
        _log.warning(
            f"warning: {raw.path} (sha256 {raw.sha256[:12]}...) is not a published file of "
            f"{manifest.name}: its numbers do not compare with others', and results say so"
        )
    if len(unknown) > _SHOWN:
        _log.warning(f"warning: nor are {len(unknown) - _SHOWN} other files of it")


class AsOfWriter(DatasetWriter):
    """Writes a dataset whose questions are asked as of their own time."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._said: list[int | None] = []
        self._ids: list[str] = []

    def document(self, id: str, text: str, *, timestamp: int | None = None, **about: Any) -> int:
        """Add one document and return its row."""
        self._said.append(timestamp)
        self._ids.append(id)
        return super().document(id, text, timestamp=timestamp, **about)

    def documents(
        self, ids: Sequence[str], texts: Sequence[str], titles: Sequence[str | None] | None = None
    ) -> None:
        """Add many plain documents at once; none of them is dated."""
        self._said += [None] * len(ids)
        self._ids += ids
        super().documents(ids, texts, titles)

    def drop_documents(self, rows: Sequence[int]) -> None:
        """Take documents out again."""
        super().drop_documents(rows)
        for row in sorted(rows, reverse=True):
            del self._said[row], self._ids[row]

    def finish(self) -> None:
        """As a writer does; raises UsageError where no question is dated, or nothing was said."""
        asked = dict(zip(self._queries, self._query_columns["timestamp"], strict=True))
        haystack_of = dict(zip(self._queries, self._query_haystack, strict=True))
        whole, changes = self._haystack_columns, self._changes
        self._haystacks, self._haystack_columns, self._changes = {}, columns(HAYSTACKS), []
        if all(when is None for when in asked.values()):
            raise UsageError("--as-of: none of these questions has a date; leave it out")
        if all(when is None for when in self._said) and not any(whole["timestamps"]):
            raise UsageError("--as-of: none of these documents has a date; leave it out")
        times: dict[str, set[int | None]] = {}
        for query, name in haystack_of.items():
            times.setdefault(name, set()).add(asked[query])
        there: dict[str, set[int]] = {}
        for name, rows, stamps in zip(*(whole[c] for c in HAYSTACKS.names), strict=True):
            for when in sorted(times.get(name, ()), key=lambda t: (t is None, t or 0)):
                kept = _until(rows, stamps, when, self._said)
                there[_named(name, when)] = {*kept[0]}
                self.haystack(_named(name, when), *kept)
                for change, where in changes:
                    if change.haystack == name and (when is None or change.timestamp <= when):
                        self.change(replace(change, haystack=_named(name, when)), where)
        self._query_haystack = [_named(name, asked[q]) for q, name in haystack_of.items()]
        self._leave_out_what_came_later(there)
        super().finish()

    def _leave_out_what_came_later(self, there: dict[str, set[int]]) -> None:
        """Judgements of documents that were said after the question was asked."""
        haystack = dict(zip(self._queries, self._query_haystack, strict=True))
        rows = {id_: row for row, id_ in enumerate(self._ids)}
        judged, kept = self._judged, []
        for i, query in enumerate(self._judged_query):
            row = judged["document"][i]
            row = rows.get(judged["document_id"][i], -1) if row is None else row
            later = row >= 0 and row not in there.get(haystack.get(query, ""), {row})
            if later:
                self.repair("evidence that was said after the question was asked: left out", query)
            else:
                kept.append(i)
        self._judged_query = [self._judged_query[i] for i in kept]
        self._judged = {
            name: [column[i] for i in kept] if column else [] for name, column in judged.items()
        }


def _named(haystack: str, when: int | None) -> str:
    moment = "end" if when is None else as_datetime(when).isoformat()
    return f"{haystack}{BETWEEN}{moment}"


def _until(
    rows: Sequence[int] | None,
    stamps: Sequence[int] | None,
    when: int | None,
    said: Sequence[int | None],
) -> tuple[list[int], list[int] | None]:
    """Rows of what was said until `when` (None: all), and their dates where the haystack has its
    own."""
    chosen = range(len(said)) if rows is None else rows
    dates = [said[row] for row in chosen] if stamps is None else stamps
    kept = [i for i, t in enumerate(dates) if when is None or t is None or t <= when]
    return [chosen[i] for i in kept], None if stamps is None else [stamps[i] for i in kept]


ROLES = ("documents", "queries", "qrels", "changes")


@contextmanager
def frames_folder(frames: Mapping[str, Frame], name: str, home: Path) -> Iterator[Path]:
    """Writes the tables for the dataset `name` into the cache at `home`, and yields the folder.

    UsageErrors about its files become errors about the tables. Raises what `write_frames` raises.
    """
    if name.partition("/")[0] != "labelled":
        raise UsageError(f"tables are read by the dataset 'labelled' alone, not by {name!r}")
    folder = write_frames(frames, downloads_folder(home, "labelled"))
    try:
        yield folder
    except UsageError as error:
        raise _about_tables(error, folder) from None


def write_frames(frames: Mapping[str, Frame], folder: Path) -> Path:
    """Write the tables into a folder of their own below `folder`, which it returns.

    Equal tables have the same folder, so that what was made of them is found again. Raises
    UsageError for other names than ROLES, without documents or queries, and for what is no table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from harness.runfiles.tables import as_table

    for name in frames:
        if name not in ROLES:
            raise UsageError(f"source: {name!r} is none of the tables {', '.join(ROLES)}")
    for name in ROLES[:2]:
        if name not in frames:
            raise UsageError(f"source: the table {name!r} is missing; it has {', '.join(frames)}")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFolder("frames", folder) as aside:
        whole = hashlib.sha256()
        for name in ROLES:
            if name in frames:
                path = Path(aside) / f"{name}.parquet"
                table = as_table(frames[name], f"source[{name!r}]").replace_schema_metadata(None)
                # Objects without a field, as BEIR's metadata, say nothing and cannot be written.
                said = [i for i, one in enumerate(table.schema.types) if not _is_empty(one)]
                table = table.select(said)
                try:
                    pq.write_table(table, path)
                except (pa.ArrowException, NotImplementedError) as error:
                    why = " ".join(str(error).split())
                    raise UsageError(f"source[{name!r}] cannot be written ({why})") from None
                whole.update(f"{name}:{digest(path)}\n".encode())
        target = folder / whole.hexdigest()[:16]
        if not target.is_dir():
            os.replace(aside, target)
        return target


def _is_empty(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_struct(type_) and type_.num_fields == 0)


def _about_tables(error: UsageError, folder: Path) -> UsageError:
    """An error about the files in such a folder as one about the tables."""
    said = str(error)
    for name in ROLES:
        said = said.replace(str(folder / f"{name}.parquet"), f"source[{name!r}]")
    return UsageError(said.replace(str(folder), "source"))
