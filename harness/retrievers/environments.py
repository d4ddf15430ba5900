"""What a program runs in, and what it is made of as far as that can be seen."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from harness.errors import UsageError
from harness.io.files import digest
from harness.retrievers.sources import module_files, sources


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


def revision(command: Sequence[str], venv: str = "") -> str | None:
    """By what a run of this program is told from another: the files that the command names, those
    that they import, if they are Python's, and the packages of its environment with their versions.
    None where there is nothing of these.
    """
    files = [Path(part).absolute() for part in command if Path(part).is_file()]
    known = [digest(file)[:12] for file in files]
    scripts = [file for file in files if file.suffix == ".py"]
    modules = (module for option, module in pairwise(command) if option == "-m")
    for module in modules:
        scripts += [*module_files(module), *module_files(f"{module}.__main__")]
    if others := sorted({*sources(scripts)} - {*files}):
        hashes = "\0".join(f"{path.name} {digest(path)}" for path in others)
        known.append(hashlib.blake2b(hashes.encode(), digest_size=6).hexdigest())
    if venv:
        places = Path(venv).expanduser().glob("lib/python*/site-packages/*.dist-info")
        names = "\0".join(sorted(place.name for place in places))
        known.append(hashlib.blake2b(names.encode(), digest_size=6).hexdigest())
    return "+".join(known) or None
