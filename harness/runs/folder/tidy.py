"""Archives, restores, renames and removes runs, and clears what killed runs left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness.errors import UsageError
from harness.leftovers import discard
from harness.runs.folder.listing import ARCHIVE, is_running
from harness.runs.folder.run_folder import (
    CHECKPOINT,
    CHECKPOINT_SUFFIX,
    OURS,
    PLAN,
    note_in,
    require_run,
    run_name,
)

_JUST_BEGUN = 60.0  # seconds in which a run that has nothing yet may not hold its folder either


def rename(folder: Path, name: str) -> None:
    """Call a run `name` from now on; its folder stays where it is. Raises UsageError."""
    run_name(name)
    require_run(folder)
    note_in(folder, name=name)


def archive(folder: Path, results: Path) -> Path:
    """Move a run where no list, board or page looks; returns the place. Raises UsageError."""
    return _moved(folder, results / ARCHIVE / folder.name)


def unarchive(folder: Path, results: Path) -> Path:
    """The other way. Raises UsageError where the run was made anew since."""
    return _moved(folder, results / folder.name)


def _moved(folder: Path, to: Path) -> Path:
    require_run(folder)
    if to.exists():
        raise UsageError(f"{to}: is there already; remove one of the two, or give it another name")
    to.parent.mkdir(exist_ok=True)
    os.replace(folder, to)
    return to


def not_ours(folder: Path) -> list[str]:
    """Names of what lies in a run's folder and the harness did not put there as part of it."""
    return sorted(path.name for path in folder.iterdir() if path.name not in OURS)


def remove(folder: Path) -> None:
    """Remove a run folder and everything in it. Raises UsageError for what is no run."""
    require_run(folder)
    discard(folder)


def leftovers(results: Path) -> Iterator[Path]:
    """What processes that are gone left below `results`: unfinished runs and half-made folders.

    A half-made folder (`.NAME.new`, `.old`) that does not say whose it is counts where it is a day
    old: one that is younger may be in the making. The others are removed by any command.
    """
    import time

    for partial in sorted(results.glob(f".*{CHECKPOINT_SUFFIX}")):
        if not is_running(partial):
            yield partial
    for pattern in (".*.new", ".*.old"):
        for path in sorted(results.glob(pattern)):
            if time.time() - path.stat().st_mtime > 86_400:
                yield path


def drop_empty(results: Path) -> None:
    """Remove what is left of runs that were killed before anything was answered, or when all was
    written; nobody is at them."""
    import time

    from filelock import FileLock, Timeout

    for partial in results.glob(f".*{CHECKPOINT_SUFFIX}"):
        checkpoint = partial / CHECKPOINT
        with suppress(OSError):
            begun = checkpoint.is_file() and checkpoint.stat().st_size
            goes_on = begun and (partial / PLAN).is_file()
            old = time.time() - partial.stat().st_mtime > _JUST_BEGUN
            if old and not goes_on:
                (partial / "lock").touch()
                with suppress(Timeout), FileLock(partial / "lock", timeout=0):
                    discard(partial)


def clear(folder: Path) -> None:
    """Remove one of `leftovers`. Raises UsageError where a process is at it again."""
    if folder.suffix == CHECKPOINT_SUFFIX and is_running(folder):
        raise UsageError(f"{folder}: a process is at this run; it is kept")
    shutil.rmtree(folder)
