"""Virtual environments of Python: what runs in one, and what is installed in it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from harness.errors import UsageError


def environment(venv: str) -> dict[str, str] | None:
    """The variables of a process in a virtual environment, as its `activate` sets them.

    None, for those of this process, where no folder is named. Raises UsageError for a folder that
    is none.
    """
    if not venv:
        return None
    folder = Path(venv).expanduser().absolute()
    programs = folder / "bin"
    if not folder.is_dir():
        raise UsageError(f"venv={venv}: there is no folder {folder}; python3 -m venv makes one")
    if not (folder / "pyvenv.cfg").is_file():
        raise UsageError(f"venv={venv}: {folder} is no virtual environment: it has no pyvenv.cfg")
    if not os.access(programs / "python", os.X_OK):
        raise UsageError(
            f"venv={venv}: {programs / 'python'} does not run, as where a virtual environment was "
            "moved or its Python removed; make it anew"
        )
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    path = os.pathsep.join([str(programs), *filter(None, [variables.get("PATH")])])
    return {**variables, "VIRTUAL_ENV": str(folder), "PATH": path}


def installed(venv: str) -> bytes:
    """A digest of the packages in a virtual environment, with their versions; empty for none."""
    if not venv:
        return b""
    places = Path(venv).expanduser().glob("lib/python*/site-packages/*.dist-info")
    names = sorted(place.name for place in places)
    return hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
