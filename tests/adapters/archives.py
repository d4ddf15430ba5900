"""Real data that lies in archives, unpacked for the tests."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpacked(archive: Path, folder: Path) -> Path:
    """The files of an archive, in `folder`."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder
