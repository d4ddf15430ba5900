"""Disks that are full: no half file, one line, and with room again the same as if nothing was."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forked import ended
from kills import RUN, left_over, two_runs

WRITERS: tuple[tuple[object, ...], ...] = (
    RUN,
    (*RUN, "--again"),
    (*RUN, "--workers", 2, "--again"),
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


def full_disks(n: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """`n` times a command that writes, with files that may not grow beyond a size by chance; and
    every command that prints, to an output that is full."""
    draw, found, wrong = random.Random(seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        made = two_runs(Path(name, "made"))
        for number in range(n):
            words = WRITERS[number % len(WRITERS)]
            place = Path(name, "tried")
            shutil.copytree(made, place)
            size = int(2 ** draw.uniform(5, 18))
            _try(words, place, limited(size), "", f"{words} with {size}", found, wrong)
            shutil.rmtree(place)
        for words in PRINTERS if n else ():
            place = Path(name, "tried")
            shutil.copytree(made, place)
            _try(words, place, None, "/dev/full", f"{words} to /dev/full", found, wrong)
            shutil.rmtree(place)
    return found, wrong


def _try(
    words: tuple[object, ...],
    place: Path,
    first: Callable[[], Any] | None,
    stdout: str,
    about: str,
    found: Counter[str],
    wrong: list[str],
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
    goes_on = words[:1] == ("run",) and not {"--again", "--help"} & {*words}
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
