"""Downloads of raw files: pinned, resumable, into the cache."""

from __future__ import annotations

from pathlib import Path

from harness.dataset.adapter import RemoteFile


def downloads_folder(home: Path, name: str) -> Path:
    """Where the raw files of the dataset `name` are kept."""
    return home / "downloads" / name.replace("/", "__")


def fetch(file: RemoteFile, folder: Path, *, quiet: bool = True) -> Path:
    """Download `file` into `folder` unless it is there, check its hash, and return its path."""
    raise NotImplementedError
