"""Times all-MiniLM-L6-v2 in NumPy beside sentence-transformers, and the cache of vectors.

    python -m tests.benchmarks.embedding [--repeat 3]

Texts are LoCoMo turns (short) and SciFact documents (long); sentence-transformers is left out where
it is not installed. OPENBLAS_CORETYPE reaches the NumPy way: try SkylakeX on a processor with
AVX-512 that NumPy's OpenBLAS takes for a Haswell.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from tests.benchmarks.measure import DATA, Cost, in_fresh_process, machine, markdown, median, timed

MODULE = "tests.benchmarks.embedding"
TURNS, PASSAGES, KEPT = 512, 128, 100_000
SETS = {"LoCoMo turns": TURNS, "SciFact documents": PASSAGES}


def texts(name: str) -> list[str]:
    """The first texts of a set, as they are indexed."""
    if name == "LoCoMo turns":
        conversations = json.loads((DATA / "locomo" / "locomo10.json").read_text())
        sessions = (s for c in conversations for s in c["conversation"].values())
        turns = (turn for session in sessions if isinstance(session, list) for turn in session)
        return [f'{t["speaker"]} said, "{t["text"]}"' for t in islice(turns, TURNS)]
    lines = (DATA / "beir" / "scifact" / "corpus.jsonl").read_text().splitlines()[:PASSAGES]
    return [f"{d['title']} {d['text']}" for d in map(json.loads, lines)]


def numpy_way() -> Callable[[list[str]], Any]:
    """The encoder of `minilm`."""
    from harness.extensions.dense.minilm import PACKAGED, LightEncoder

    encoder = LightEncoder(PACKAGED)
    return lambda portion: encoder(portion, "")


def torch_way() -> Callable[[list[str]], Any]:
    """The encoder of `dense`."""
    from harness.extensions.dense.dense import SentenceEncoder
    from harness.extensions.dense.minilm import PACKAGED
    from harness.extensions.dense.models import locate

    encoder = SentenceEncoder(locate(PACKAGED), batch_size=32, device="cpu")
    return lambda portion: encoder(portion, "")


WAYS = {"NumPy": numpy_way, "sentence-transformers": torch_way}


def one(way: str) -> None:
    """Load, then embed each set in portions of 128; print the costs as JSON."""
    encode = WAYS[way]()
    load, _ = timed(lambda: encode(["warm"]))
    found = {"load": vars(load)}
    for name in SETS:
        given = texts(name)
        portions = [given[start : start + 128] for start in range(0, len(given), 128)]
        cost, _ = timed(lambda portions=portions: [encode(portion) for portion in portions])
        found[name] = vars(cost)
    print(json.dumps(found))


def cache() -> None:
    """Write and read 100,000 vectors, in portions of 128 and at once; print the costs as JSON."""
    from harness.extensions.dense.embeddings import Store, digests

    vectors = np.random.default_rng(0).standard_normal((KEPT, 384), dtype=np.float32)
    with tempfile.TemporaryDirectory() as home:
        os.environ["HARNESS_HOME"] = home
        store = Store("benchmark", "r")
        store.create(384)
        keys = digests(f"text {i}" for i in range(KEPT))

        def write() -> None:
            for start in range(0, KEPT, 128):
                with store.alone():
                    store.add(keys[start : start + 128], vectors[start : start + 128])

        written, _ = timed(write)
        into = np.empty_like(vectors)
        read, _ = timed(lambda: store.read(store.find(keys), into))
        assert (into == vectors).all()
        print(json.dumps({"write": vars(written), "read": vars(read), "bytes": store.bytes()}))


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--cache", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.one)
    if options.cache:
        return cache()
    print(f"medians of {options.repeat}; {machine()}\n")
    costs: dict[tuple[str, str], list[Cost]] = {}
    for _ in range(options.repeat):
        for way in WAYS:
            for name, cost in (in_fresh_process(MODULE, "--one", way) or {}).items():
                costs.setdefault((way, name), []).append(Cost(**cost))
    rows = []
    for (way, name), measured in costs.items():
        cost = median(measured)
        n = SETS.get(name)
        rate = [f"{n / cost.wall:.1f}", f"{n / cost.cpu:.1f}"] if n else ["", ""]
        rows.append([f"{way}, {name}", f"{cost.wall:.2f}", *rate, f"{cost.peak:,.0f}"])
    print(markdown(rows, ["all-MiniLM-L6-v2", "s", "texts/s", "texts/cpu s", "peak MB"]))
    kept = in_fresh_process(MODULE, "--cache") or {}
    megabytes = kept["bytes"] / 1e6
    print(
        f"\ncache: {KEPT:,} vectors written in {kept['write']['wall']:.1f} s, read in "
        f"{kept['read']['wall']:.2f} s, {megabytes:.0f} MB"
    )
    return None


if __name__ == "__main__":
    main()
