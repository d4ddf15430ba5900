"""Checks a prepared dataset, its content and its raw files, against their hashes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from harness.datasets.columns import ContentHash, fingerprint
from harness.datasets.manifest import TABLES
from harness.datasets.reader import Dataset
from harness.io.checksums import DamagedError
from harness.io.files import digest
from harness.io.records import Record


class Finding(Record, omit_defaults=False):
    """The result of one check: of the content, or of a raw file."""

    what: str
    ok: bool
    message: str


def verify(dataset: Dataset) -> list[Finding]:
    """Checks the content, then the raw files.

    A missing raw file is not an error, since the prepared dataset does not need it.
    """
    manifest = dataset.manifest
    try:
        dataset.documents.check()  # other tables were checked when opened
    except DamagedError as error:
        return [Finding(what="content", ok=False, message=str(error))]
    content = _fingerprint(dataset.folder, manifest.files)
    wrong = f"not {manifest.fingerprint[:16]}; prepare it with --rebuild"
    findings = [
        Finding(
            what="content",
            ok=content == manifest.fingerprint,
            message=content[:16] + ("" if content == manifest.fingerprint else f", {wrong}"),
        )
    ]
    for raw in manifest.raw:
        path = Path(raw.path)
        if not path.is_file():
            findings.append(Finding(what=raw.path, ok=True, message="no longer there"))
            continue
        found = digest(path)
        right = found == raw.sha256
        kind = _KINDS.get(raw.status, "the published file")
        note = f"unchanged since it was prepared, {kind}"
        if not right:
            note = f"changed since it was prepared: sha256 is {found[:16]}"
        findings.append(Finding(what=raw.path, ok=right, message=note))
    return findings


_KINDS = {
    "unknown": "not a published file",
    "unchecked": "unchecked: the publisher gives no checksum",
}


def _fingerprint(folder: Path, files: Collection[str]) -> str:
    contents = {name: ContentHash(schema) for name, schema in TABLES.items() if name in files}
    for name, content in contents.items():
        with pa.memory_map(str(folder / name)) as source:
            reader = pa.ipc.open_file(source)
            for i in range(reader.num_record_batches):
                content.update(reader.get_batch(i))
    return fingerprint(contents)
