"""Disks that are full: no half file, one line, and with room again the same as if nothing was."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from forked import ended
from kills import left_over, two_runs
from scenarios import RUN

WRITERS: tuple[tuple[object, ...], ...] = (
    RUN,
    (*RUN, "--overwrite"),
    (*RUN, "--workers", 2, "--overwrite"),
    ("score", "bm25", "--metrics", "recall@3"),
    ("score", "bm25", "--metrics", "recall@3,ndcg@10,mrr"),
    ("leaderboard",),
    ("report", "bm25", "--out", "report.html"),
    ("export", "bm25", "--format", "trec", "--out", "run.trec"),
    ("export", "bm25", "--format", "jsonl", "--out", "run.jsonl"),
    ("datasets", "prepare", "sample", "--rebuild"),
    ("sweep", "--dataset", "sample", "--retriever", "bm25", "--grid", "k1=0.9,1.2", "--limit", 20),
)
PRINTERS: tuple[tuple[object, ...], ...] = (
    (),
    ("--help",),
    ("run", "--help"),
    ("runs",),
    ("runs", "--json"),
    ("runs", "show", "bm25"),
    ("runs", "verify"),
    ("leaderboard",),
    ("leaderboard", "--json"),
    ("compare", "bm25", "random"),
    ("compare", "bm25", "random", "--json"),
    ("compare", "bm25", "random", "--format", "csv"),
    ("analyze", "bm25"),
    ("score", "bm25"),
    ("score", "bm25", "--json"),
    ("datasets",),
    ("datasets", "info", "sample"),
    ("retrievers",),
    ("verify", "bm25"),
    ("cache",),
    ("examples",),
    ("completion", "bash"),
    ("gate", "bm25", "--config", "gate.toml"),
    ("gate", "bm25", "--config", "gate.toml", "--json"),
    RUN,
)


def limited(size: int) -> Callable[[], None]:
    """No file of more bytes can be written: what a disk says that is full, wherever it is."""

    def first() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return first


@contextmanager
def small_disk(place: Path, made: Path, room: int) -> Iterator[Callable[[], None]]:
    """A copy of a folder on a file system of its own, with so many bytes of room; gives what makes
    room."""
    place.mkdir()
    pages = (path.stat().st_size // 4096 + 1 for path in made.rglob("*"))
    _mount(place, 4096 * sum(pages) + room)
    try:
        shutil.copytree(made, place, dirs_exist_ok=True)
        yield lambda: subprocess.run(["mount", "-o", "remount,size=1g", place], check=True)
    finally:
        subprocess.run(["umount", place], check=True)
        place.rmdir()


def _mount(place: Path, size: int) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place]
    subprocess.run(command, check=True, capture_output=True)


@cache
def may_mount() -> bool:
    """Whether this process may mount a file system."""
    with tempfile.TemporaryDirectory() as name:
        try:
            _mount(Path(name), 4096)
        except (OSError, subprocess.CalledProcessError):
            return False
        subprocess.run(["umount", name], check=True)
    return True


@contextmanager
def whole_disk(place: Path, made: Path) -> Iterator[None]:
    """A copy of a folder where there is room."""
    shutil.copytree(made, place)
    try:
        yield
    finally:
        shutil.rmtree(place)


def full_disks(n: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """`n` times a command that writes, by turns on a small file system (where this process may
    mount one) and with files that may not grow beyond a size, both by chance; and every command
    that prints, to an output that is full."""
    draw, found, wrong = random.Random(seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        made = two_runs(Path(name, "made"))
        place = Path(name, "tried")
        for number in range(n):
            words = WRITERS[number % len(WRITERS)]
            size = int(2 ** draw.uniform(5, 18))
            if number // len(WRITERS) % 2 == 0 and may_mount():
                with small_disk(place, made, size) as make_room:
                    about = f"{words} with room for {size}"
                    _try(words, place, None, "", about, found, wrong, make_room)
                found["small file systems"] += 1
                continue
            with whole_disk(place, made):
                about = f"{words} with files of {size}"
                _try(words, place, limited(size), "", about, found, wrong)
        for words in PRINTERS if n else ():
            with whole_disk(place, made):
                _try(words, place, None, "/dev/full", f"{words} to /dev/full", found, wrong)
    return found, wrong


def _try(
    words: tuple[object, ...],
    place: Path,
    first: Callable[[], Any] | None,
    stdout: str,
    about: str,
    found: Counter[str],
    wrong: list[str],
    make_room: Callable[[], object] = lambda: None,
) -> None:
    done = ended(words, place, first, stdout)
    found["tried"] += 1
    found["told"] += done.status != 0
    found["orphans"] += done.orphans
    if stdout and done.status == 0:
        found["silent"] += 1
        wrong.append(f"{about}: status 0")
    if done.traceback or len(done.err.strip().splitlines()) > 3:
        found["tracebacks"] += 1
        wrong.append(f"{about}: {done.status} {done.err[-600:]}")
    if words[:1] == ("export",) and done.status == 0:
        return
    goes_on = words[:1] == ("run",) and not {"--overwrite", "--help"} & {*words}
    make_room()
    again = ended((*words, "--resume") if goes_on else words, place)
    if again.status:
        found["not gone on"] += 1
        wrong.append(f"{about}: then {again.status} {again.err[-300:]}")
    if left := left_over(place):
        found["leftovers"] += 1
        wrong.append(f"{about}: left {left}")


if __name__ == "__main__":
    import sys

    counts, said = full_disks(int(sys.argv[1]))
    print(dict(counts))
    print("\n".join(said))
