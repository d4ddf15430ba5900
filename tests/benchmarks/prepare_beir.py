"""Times preparing a large BEIR corpus, beside other ways to read it.

    python tests/benchmarks/prepare_beir.py [--documents 500000] [--repeat 3]

Makes a corpus.jsonl of documents of about 1 KB in a temporary folder, then runs each way in a
fresh process, so that its peak memory is its own, and prints medians:

* prepare: `open_dataset` from the raw file to the cache, every hash included;
* open again: the prepared dataset, milliseconds; fetch: one document by position, microseconds;
* an orjson loop that keeps nothing; a json loop that keeps a dictionary, as BEIR's loader does
  (BEIR's own where it is installed); ir_datasets' document store, where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

SEED = 7
WORDS = 20_000
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def make(folder: Path, n: int) -> None:
    """Write a dataset in BEIR's format: `n` documents of about 1 KB, 1,000 queries."""
    rng = random.Random(SEED)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(2, 10))) for _ in range(WORDS)]
    pool = " ".join(rng.choices(words, k=400_000))
    with open(folder / "corpus.jsonl", "wb") as file:
        for i in range(n):
            at = rng.randrange(len(pool) - 1000)
            title, text = pool[at : at + 40], pool[at + 40 : at + 950]
            record = {"_id": f"d{i}", "title": title, "text": text, "metadata": {}}
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
    queries = [{"_id": f"q{i}", "text": pool[50 * i : 50 * i + 50]} for i in range(1000)]
    (folder / "queries.jsonl").write_bytes(b"".join(orjson.dumps(q) + b"\n" for q in queries))
    (folder / "qrels").mkdir()
    rows = [f"q{i}\td{rng.randrange(n)}\t1\n" for i in range(1000)]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))


def prepare(folder: Path) -> dict[str, float]:
    """Prepare the dataset in a cache of its own, open it again, fetch documents at random."""
    from harness.datasets.registry import open_dataset

    start = time.perf_counter()
    dataset = open_dataset("beir/fiqa", source=folder)
    seconds = time.perf_counter() - start
    peak = peak_mb()
    start = time.perf_counter()
    dataset = open_dataset("beir/fiqa", source=folder)
    again = time.perf_counter() - start
    rng = random.Random(SEED)
    rows = [rng.randrange(len(dataset.documents)) for _ in range(20_000)]
    start = time.perf_counter()
    for row in rows:
        dataset.documents[row]
    fetch = (time.perf_counter() - start) / len(rows)
    return {"seconds": seconds, "peak": peak, "open ms": again * 1e3, "fetch us": fetch * 1e6}


def orjson_loop(folder: Path) -> dict[str, float]:
    """Parse every line and keep nothing: the least that reading can cost."""
    start = time.perf_counter()
    with open(folder / "corpus.jsonl", "rb") as file:
        for line in file:
            orjson.loads(line)
    return {"seconds": time.perf_counter() - start}


def json_dictionary(folder: Path) -> dict[str, float]:
    """Parse with the standard library into a dictionary of documents."""
    start = time.perf_counter()
    corpus: dict[str, dict[str, Any]] = {}
    with open(folder / "corpus.jsonl", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            corpus[record["_id"]] = {"text": record["text"], "title": record["title"]}
    return {"seconds": time.perf_counter() - start}


def beir_loader(folder: Path) -> dict[str, float]:
    """BEIR's own loader."""
    from beir.datasets.data_loader import GenericDataLoader

    start = time.perf_counter()
    GenericDataLoader(str(folder)).load(split="test")
    return {"seconds": time.perf_counter() - start}


def ir_datasets_store(folder: Path) -> dict[str, float]:
    """ir_datasets' document store, built from the same file; then documents by id."""
    import ir_datasets
    from ir_datasets.datasets.beir import BeirDocs, BeirTitleDoc

    local = ir_datasets.util.LocalDownload(folder / "corpus.jsonl", mkdir=False)
    start = time.perf_counter()
    store = BeirDocs("benchmark", local, BeirTitleDoc).docs_store()
    store.build()
    seconds = time.perf_counter() - start
    peak, rng = peak_mb(), random.Random(SEED)
    ids = [f"d{rng.randrange(store.count())}" for _ in range(200)]
    start = time.perf_counter()
    for id_ in ids:
        store.get(id_)
    fetch = (time.perf_counter() - start) / len(ids)
    return {"seconds": seconds, "peak": peak, "fetch us": fetch * 1e6}


WAYS: dict[str, Callable[[Path], dict[str, float]]] = {
    "harness: prepare": prepare,
    "orjson loop": orjson_loop,
    "json into a dictionary": json_dictionary,
    "BEIR's loader": beir_loader,
    "ir_datasets' store": ir_datasets_store,
}


def peak_mb() -> float:
    """Most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_fresh_process(way: str, folder: Path) -> dict[str, float] | None:
    """Measurements of one way; None where a package is missing."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as home:
        done = subprocess.run(
            [sys.executable, __file__, "--way", way, "--folder", str(folder)],
            env={**os.environ, "HARNESS_HOME": home, "IR_DATASETS_HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, float] = orjson.loads(done.stdout.splitlines()[-1])
    return found


def table(folder: Path, n: int, repeat: int) -> Iterator[str]:
    """The lines of the table."""
    yield f"{'way':<24}{'s':>8}{'documents/s':>14}{'peak MB':>10}{'open ms':>10}{'fetch us':>10}"
    for way in WAYS:
        runs = [in_fresh_process(way, folder) for _ in range(repeat)]
        measured = [run for run in runs if run is not None]
        if not measured:
            yield f"{way:<24}  not installed"
            continue
        middle = {name: statistics.median(run[name] for run in measured) for name in measured[0]}
        cells = f"{middle['seconds']:>8.2f}{n / middle['seconds']:>14,.0f}{middle['peak']:>10.0f}"
        for name in ("open ms", "fetch us"):
            cells += f"{middle[name]:>10.1f}" if name in middle else f"{'':>10}"
        yield f"{way:<24}{cells}"


def main() -> None:
    """Make the corpus, measure every way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        found = WAYS[options.way](options.folder)
        print(json.dumps({"peak": peak_mb(), **found}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "corpus"
        folder.mkdir()
        make(folder, options.documents)
        size = (folder / "corpus.jsonl").stat().st_size / 1e6
        print(f"{options.documents:,} documents, {size:.0f} MB, medians of {options.repeat}")
        for line in table(folder, options.documents, options.repeat):
            print(line, flush=True)


if __name__ == "__main__":
    main()
