"""Shares prepared datasets and indexes between machines, in a folder or an object store.

HARNESS_SHARED is a location for pyarrow's file systems: a folder, `s3://bucket/prefix`, `gs://...`
or `abfs://...`. A machine downloads what it lacks. The file that lists the others is uploaded last,
so incomplete uploads are never used.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.datasets.manifest import DOCUMENTS, Manifest
from harness.datasets.manifest import NAME as MANIFEST
from harness.datasets.reader import Dataset, Documents
from harness.datasets.registry import home
from harness.errors import UsageError
from harness.io.files import disk_errors, folder_aside, sweep
from harness.io.records import decode

VARIABLE = "HARNESS_SHARED"
OF_A_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}


class Shared:
    """A folder tree shared by several machines."""

    def __init__(self, uri: str) -> None:
        """Raises UsageError for a location that pyarrow does not support."""
        from pyarrow import fs

        self._uri = uri
        # An address may contain a password, which must not appear in messages.
        self.shown = re.sub(r"//.*@", "//", uri.partition("?")[0])
        try:
            self._files, self._root = fs.FileSystem.from_uri(uri)
        except (pa.ArrowInvalid, ValueError, OSError, NotImplementedError) as error:
            raise self._error(error) from None

    def has(self, name: str, last: str) -> bool:
        """Tests whether a complete folder exists; `last` is the file that is uploaded last."""
        from pyarrow import fs

        with self._reached():
            info = self._files.get_file_info(f"{self._root}/{name}/{last}")
        return bool(info.type == fs.FileType.File)

    def put(self, folder: Path, name: str, last: str) -> None:
        """Uploads a folder and its subfolders, unless it exists."""
        from pyarrow import fs

        if self.has(name, last):
            return
        files = [path for path in folder.rglob("*") if path.is_file()]
        files.sort(key=lambda path: path == folder / last)
        with self._reached():
            for path in files:
                target = f"{self._root}/{name}/{path.relative_to(folder).as_posix()}"
                self._files.create_dir(target.rpartition("/")[0])
                # Objects appear in a store when complete; files in a folder appear at once.
                aside = f"{target}.{uuid.uuid4().hex[:8]}" if self._is_folder else target
                fs.copy_files(
                    str(path),
                    aside,
                    source_filesystem=fs.LocalFileSystem(),
                    destination_filesystem=self._files,
                )
                if self._is_folder:
                    self._files.move(aside, target)

    def get(self, name: str, into: Path) -> None:
        """Downloads a folder into an empty one. Raises OSError if the local disk is full."""
        from pyarrow import fs

        with self._reached():
            fs.copy_files(
                f"{self._root}/{name}",
                str(into),
                source_filesystem=self._files,
                destination_filesystem=fs.LocalFileSystem(),
            )

    def remove(self, name: str, last: str) -> None:
        """Marks a shared folder as incomplete, so that it is uploaded again."""
        with self._reached(), suppress(FileNotFoundError):  # another machine has removed it
            self._files.delete_file(f"{self._root}/{name}/{last}")

    @contextmanager
    def opened(self, name: str) -> Iterator[Any]:
        """Opens a shared file for random access."""
        with self._reached(), self._files.open_input_file(f"{self._root}/{name}") as file:
            yield file

    @property
    def _is_folder(self) -> bool:
        from pyarrow import fs

        return isinstance(self._files, fs.LocalFileSystem)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowInvalid) as error:
            if getattr(error, "errno", None) in OF_A_FULL_DISK and not self._is_folder:
                raise  # the local disk
            raise self._error(error) from None

    def _error(self, error: BaseException) -> UsageError:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        return UsageError(f"{VARIABLE}={self.shown}: {said.replace(self._uri, self.shown)}")


def shared() -> Shared | None:
    """Returns the store that HARNESS_SHARED names; None if unset. Raises UsageError."""
    uri = os.environ.get(VARIABLE, "")
    return Shared(uri) if uri else None


@dataclass(frozen=True)
class DatasetLocation:
    """Location of a prepared dataset, for processes on this and on other machines.

    `starts`: the first row of each batch of the document file, and the number of rows.
    """

    folder: Path
    fingerprint: str
    starts: Sequence[int]

    @classmethod
    def of(cls, dataset: Dataset) -> DatasetLocation:
        """Returns the location of an open dataset."""
        return cls(dataset.folder, dataset.fingerprint, dataset.documents.starts)

    def put(self) -> None:
        """Uploads the dataset to the shared store, if there is one. Raises UsageError."""
        there = shared()
        if there is not None:
            if not self._is(self.folder):
                raise UsageError(
                    f"{self.folder}: was prepared again in the meantime; repeat the command"
                )
            there.put(self.folder, self._name, MANIFEST)

    def open(self) -> Dataset:
        """Opens the dataset in this folder, else a local copy from the shared store.

        Raises UsageError if it is in neither, and for a full disk.
        """
        here = self._here()
        if here is not None:
            return here
        there = self._there()
        from filelock import FileLock

        target = self._copy
        with disk_errors(home(), "set HARNESS_HOME to a folder that can be written"):
            target.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(target.with_name(f".{target.name}.lock")):
                if not self._is(target):
                    sweep(target.parent, again=True)
                    with folder_aside(target) as aside:
                        there.get(self._name, aside)
                        if not self._is(aside):
                            raise self._damaged(there)
        return Dataset(target)

    def documents(self, low: int, high: int) -> Documents:
        """Returns a range of documents without ids and sessions; copies only these rows.

        Raises as `open` does.
        """
        here = self._here()
        if here is not None:
            return here.shown_documents.part(low, high)
        columns = [i for i, name in enumerate(DOCUMENTS.names) if name not in ("id", "session")]
        options = pa.ipc.IpcReadOptions(included_fields=columns)
        first, last = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)
        there = self._there()
        with there.opened(f"{self._name}/{MANIFEST}") as file:
            manifest = decode(file.read(), Manifest, f"{there.shown}/{self._name}/{MANIFEST}")
        with there.opened(f"{self._name}/documents.arrow") as file:
            if (manifest.fingerprint, manifest.files.get("documents.arrow")) != (
                self.fingerprint,
                file.size(),
            ):
                raise self._damaged(there)
            reader = pa.ipc.open_file(file, options=options)
            batches = [reader.get_batch(number) for number in range(first, last)]
            table = pa.Table.from_batches(batches, reader.schema)
        for at, name in enumerate(DOCUMENTS.names):
            if at not in columns:
                table = table.add_column(at, name, pa.nulls(len(table)))
        return Documents(table.slice(low - self.starts[first], high - low))

    @property
    def _name(self) -> str:
        return f"datasets/{self.fingerprint}"

    @property
    def _copy(self) -> Path:
        return home() / "shared" / self._name

    def _here(self) -> Dataset | None:
        for folder in (self.folder, self._copy):
            if self._is(folder):
                return Dataset(folder)
        return None

    def _is(self, folder: Path) -> bool:
        try:
            manifest = Manifest.read(folder)
        except UsageError:  # missing, or of another version
            return False
        return manifest.fingerprint == self.fingerprint and manifest.matches(folder)

    def _damaged(self, there: Shared) -> UsageError:
        return UsageError(
            f"{VARIABLE}={there.shown}: the files of {self._name} are not those of its manifest; "
            "remove the folder there"
        )

    def _there(self) -> Shared:
        there = shared()
        if there is None or not there.has(self._name, MANIFEST):
            at = "it is not there" if there is None else f"nor is it in {VARIABLE}"
            raise UsageError(
                f"{self.folder}: this machine ({platform.node()}) does not have the dataset "
                f"{self.fingerprint[:8]}: {at}; let HARNESS_HOME be a folder that all machines "
                f"see, or set {VARIABLE} to a folder or an object store that they all reach"
            )
        return there
