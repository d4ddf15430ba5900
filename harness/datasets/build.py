"""Prepares a dataset: finds or downloads its raw files, converts them, and writes the manifest."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from harness.datasets.adapter import Adapter, DatasetConfig, SourceFiles, Variant
from harness.datasets.manifest import Manifest, RawFile, injected_part
from harness.datasets.writer import DatasetWriter
from harness.errors import FileUnavailableError, require_names, require_regular
from harness.io.files import digest, folder_aside, replace_folder, sweep
from harness.io.progress import progress

_log = logging.getLogger(__name__)

_REVISION = re.compile(r"hf://|https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/")
"""Where a URL names the revision, a file from there is the publisher's, whatever its hash."""
_SHOWN = 3  # warnings about single files


@dataclass(frozen=True)
class PrepareRequest:
    """Request to prepare a dataset in a folder.

    `path` is the user's copy of the raw files, `known_source` that or an official copy used before.
    `official` is the folder for files with published hashes.
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
        return self.config.for_adapter


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
            # A local copy with the published hashes is stored as the official dataset.
            replace_folder(request.folder, request.official)
            return request.official
        _warn_unknown(manifest)
    return request.folder


def _download(request: PrepareRequest) -> Variant:
    """Downloads the variant's raw files; returns the variant with these files.

    For several files, FileUnavailableError asks for a folder with all of them.
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
    writer: Callable[..., DatasetWriter] = DatasetWriter
    if injected := injected_part(config.split):
        from harness.datasets.inject import injecting_writer

        writer = injecting_writer(injected, as_of=config.as_of)
    elif config.as_of:
        from harness.datasets.as_of import AsOfWriter

        writer = AsOfWriter
    # Hashing releases the interpreter lock, so it runs while the files are parsed.
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
    elif not (remote.sha256 or remote.md5 if remote else published):
        status = "unchecked"
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
    unknown = [raw for raw in manifest.raw if raw.status == "unknown"]
    for raw in unknown[:_SHOWN]:
        _log.warning(
            f"warning: {raw.path} (sha256 {raw.sha256[:12]}...) is not a published file of "
            f"{manifest.name}: its numbers do not compare with others', and results say so"
        )
    if len(unknown) > _SHOWN:
        _log.warning(f"warning: nor are {len(unknown) - _SHOWN} other files of it")
    unchecked = [raw for raw in manifest.raw if raw.status == "unchecked"]
    if unchecked:
        _log.warning(
            f"note: {len(unchecked)} of {len(manifest.raw)} files of {manifest.name} are unchecked:"
            f" no checksum is published for them (first: {unchecked[0].path})"
        )
