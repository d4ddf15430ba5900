"""Times the cache of vectors, exact search at size, and approximate search beside it.

    python -m tests.benchmarks.vectors cache
    python -m tests.benchmarks.vectors exact [--documents 8841823] [--dtype float16]

The vectors are random and the encoder hands them out, so that the harness's own work is measured.
`exact` needs 1.5 KB of disk a document (half of it with float16), in --home. Vectors that fit in
memory are searched by NumPy too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.measure import in_fresh_process, machine, markdown, timed

MODULE = "tests.benchmarks.vectors"
DIMENSION = 384
CHUNK = 16_384
QUESTIONS = (1, 64, 1024)
CASES = {
    # texts in all, characters of each, haystacks, texts of each
    "19,000 sessions, 500 haystacks of 48": (19_000, 8_000, 500, 48),
    "19,000 turns, 500 haystacks of 490": (19_000, 200, 500, 490),
    "1,000,000 passages, one haystack": (1_000_000, 330, 1, 1_000_000),
}


class Cheap:
    """Hands out random vectors; `seconds` a text."""

    model, revision, at_once = "cheap", "r", 128

    def __init__(self) -> None:
        self._table = np.random.default_rng(0).standard_normal((4096, DIMENSION), np.float32)

    def __call__(self, texts: list[str], prompt: str) -> Any:
        """Vectors of shape (texts, DIMENSION)."""
        return self._table[np.arange(len(texts)) + len(texts[0]) % 1000]


def cache(name: str) -> None:
    """Ask for the texts of each haystack in turn; print what it cost as JSON."""
    from harness.extensions.dense.embedder import Embedder

    n, length, haystacks, size = CASES[name]
    filling = "of " * (length // 3)
    texts = [f"{i} {filling}" for i in range(n)]
    rng = np.random.default_rng(1)
    chosen = [
        rng.choice(n, size, replace=False) if size < n else range(n) for _ in range(haystacks)
    ]
    embed = Embedder(Cheap())

    def ask() -> None:
        for haystack in chosen:
            embed([texts[i] for i in haystack])

    cost, _ = timed(ask)
    report = embed.report()
    print(json.dumps({**vars(cost), "embedded": report["texts_embedded"]}))


def measure_cache(repeat: int) -> None:
    """A first and a second process over the same texts, for each case."""
    rows = []
    for name in CASES:
        found = []
        for _ in range(repeat):
            with tempfile.TemporaryDirectory() as home:
                os.environ["HARNESS_HOME"] = home
                found.append([in_fresh_process(MODULE, "cache", "--one", name) for _ in range(2)])
                size = sum(path.stat().st_size for path in Path(home).rglob("*.*"))
                files = len([*Path(home).rglob("*.*")])
        for when, costs in zip(("embeds", "finds all"), zip(*found, strict=True), strict=True):
            median = {
                key: float(np.median([cost[key] for cost in costs if cost])) for key in costs[0]
            }
            row = [f"{median[key]:,.1f}" for key in ("wall", "cpu")]
            row += [f"{median['peak']:,.0f}", f"{size / 1e6:,.0f}", str(files)]
            rows.append([name, when, *row])
    headers = ["texts", "a process that", "s", "cpu s", "peak MB", "MB on disk", "files"]
    print(markdown(rows, headers))


def fill(n: int, dtype: str) -> None:
    """Keep n random vectors."""
    from harness.extensions.dense.embeddings import Store, digests

    store = Store("random", "r", dtype)
    rng = np.random.default_rng(2)
    for start in range(0, n, CHUNK):
        vectors = rng.standard_normal((min(CHUNK, n - start), DIMENSION), np.float32)
        with store.alone():
            store.add(digests(map(str, range(start, start + len(vectors)))), vectors)


def exact(n: int, dtype: str, shuffled: bool) -> None:
    """Open, check and search what `fill` kept; print what each step cost as JSON."""
    from harness.extensions.dense.embeddings import Store, digests
    from harness.extensions.dense.exact_search import HELD, PIECE, Passages, nearest

    memory = Memory()
    store = Store("random", "r", dtype)
    steps = {}

    def step(name: str, work: Callable[[], Any]) -> Any:
        cost, made = timed(work)
        steps[name] = vars(cost)
        return made

    files = sorted(store.path.glob("*.npy"))
    step("read the files, plainly", lambda: [read(path) for path in files])
    step("the same again", lambda: [read(path) for path in files])
    keys = [digests(map(str, range(i, min(i + CHUNK, n)))) for i in range(0, n, CHUNK)]
    places = step("find the places", lambda: np.concatenate([store.find(part) for part in keys]))
    if shuffled:
        places = np.random.default_rng(4).permutation(places)
    made = step("check, and measure lengths", lambda: Passages(store.read, places, DIMENSION, True))
    questions = np.random.default_rng(3).standard_normal((max(QUESTIONS), DIMENSION), np.float32)
    for q in QUESTIONS:
        step(f"search {q:,}", lambda q=q: nearest(questions[:q], made.pieces(q), 1000))
    if n * DIMENSION * 4 <= HELD:
        (whole,) = (vectors for _, vectors in made.pieces(1))
        for q in QUESTIONS[:2]:
            step(f"NumPy, {q:,}", lambda q=q: np.argpartition(questions[:q] @ whole.T, -1000))
    piece = questions[:1].repeat(PIECE, axis=0)

    def multiply() -> None:
        for start in range(0, n, PIECE):
            questions @ piece[: n - start].T

    step(f"the multiplication alone, {max(QUESTIONS):,}", multiply)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(path.stat().st_size for path in files)
    print(json.dumps({"steps": steps, "bytes": size, "anonymous": memory.stop(), "peak": peak}))


def read(path: Path) -> None:
    """Read a file through a buffer, as fast as it comes."""
    buffer = bytearray(1 << 24)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


class Memory:
    """The most anonymous memory of this process, in MB, looked at every 20 ms."""

    def __init__(self) -> None:
        self._most, self._on = 0.0, True
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while self._on:
            said = Path("/proc/self/status").read_text()
            self._most = max(self._most, int(said.split("RssAnon:")[1].split()[0]) / 1024)
            time.sleep(0.02)

    def stop(self) -> float:
        """The figure."""
        self._on = False
        self._thread.join()
        return self._most


def measure_exact(n: int, dtype: str, home: Path, shuffled: bool) -> None:
    """Keep the vectors unless they are there, then search them in a fresh process."""
    os.environ["HARNESS_HOME"] = str(home)
    if not home.is_dir():
        fill(n, dtype)
    options = ["--documents", str(n), "--dtype", dtype, *["--shuffled"] * shuffled]
    found = in_fresh_process(MODULE, "exact", "--one", "exact", *options)
    assert found
    print(f"{n:,} vectors of {DIMENSION} numbers, {dtype}, {found['bytes'] / 1e9:.1f} GB\n")
    rows = []
    for name, cost in found["steps"].items():
        rate = found["bytes"] / 1e9 / cost["wall"]
        rows.append([name, f"{cost['wall']:.1f}", f"{cost['cpu']:.1f}", f"{rate:.2f}"])
    print(markdown(rows, ["step", "s", "cpu s", "GB a second"]))
    print(
        f"\npeak: {found['anonymous']:,.0f} MB anonymous, {found['peak']:,.0f} MB with mapped pages"
    )


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["cache", "exact"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--documents", type=int, default=8_841_823)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    parser.add_argument("--home", type=Path, default=Path("vectors-home"))
    parser.add_argument("--shuffled", action="store_true", help="in another order than is kept")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one == "exact":
        return exact(options.documents, options.dtype, options.shuffled)
    if options.one:
        return cache(options.one)
    print(f"{machine()}\n")
    if options.what == "cache":
        measure_cache(options.repeat)
    else:
        measure_exact(options.documents, options.dtype, options.home, options.shuffled)
    return None


if __name__ == "__main__":
    main()
