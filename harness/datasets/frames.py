"""Keeps tables in memory (pandas, polars, Arrow, Hugging Face) as files that an adapter reads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.datasets.adapter import downloads_folder
from harness.errors import UsageError
from harness.io.files import TemporaryFolder, digest
from harness.runfiles.tables import Frame, as_table

ROLES = ("documents", "queries", "qrels", "changes")


@contextmanager
def frames_folder(frames: Mapping[str, Frame], name: str, home: Path) -> Iterator[Path]:
    """Writes the tables for the dataset `name` into the cache at `home`, and yields the folder.

    Rewords UsageErrors about its files to name the tables. Raises as `write_frames` does.
    """
    if name.partition("/")[0] != "labelled":
        raise UsageError(f"only the dataset 'labelled' reads tables, not {name!r}")
    folder = write_frames(frames, downloads_folder(home, "labelled"))
    try:
        yield folder
    except UsageError as error:
        raise _about_tables(error, folder) from None


def write_frames(frames: Mapping[str, Frame], folder: Path) -> Path:
    """Writes the tables to a new subfolder of `folder`, and returns its path.

    Equal tables have the same subfolder, so the dataset prepared from them is reused. Raises
    UsageError for names other than ROLES, missing documents or queries, and invalid tables.
    """
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
                # Structs without fields, such as BEIR's metadata, cannot be written to Parquet.
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


def _is_empty(type_: pa.DataType) -> bool:
    return bool(pa.types.is_struct(type_) and type_.num_fields == 0)


def _about_tables(error: UsageError, folder: Path) -> UsageError:
    """Rewords an error about the files of such a folder to name the tables."""
    said = str(error)
    for name in ROLES:
        said = said.replace(str(folder / f"{name}.parquet"), f"source[{name!r}]")
    return UsageError(said.replace(str(folder), "source"))
