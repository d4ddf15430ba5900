"""What a corpus too large for one machine takes on a cluster: some measured, the rest reckoned.

Measured, on the prepared MS MARCO of full size (made by make_msmarco.py): to index and search one
of 64, 16 and 4 shards, and to merge what so many shards find. Reckoned from that: MS MARCO v2's
138 million passages and ClueWeb12-B13's 52 million pages on 16 and 64 machines of 8 cores.

    HARNESS_HOME=WORK/home python -m tests.benchmarks.cluster WORK/collection-8841823

writes cluster.md beside this file. A shard of 138,000 to 2.2 million passages is indexed and
searched by one core, as on a cluster; nothing of a network is in it.
"""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.remote_store import DatasetLocation
from harness.extensions.cluster.shards import Shard, ShardAnswer, add_statistics, merge_answers
from harness.retrievers.contract import Question
from harness.retrievers.index_cache import folder as indexes
from harness.retrievers.registry import RetrieverSpec
from harness.runs.blinding import BlindedCorpus
from tests.benchmarks.measure import machine, markdown

TOP, QUERIES, ASKED, BATCH = 1000, 6980, 100, 512
CORES = 8
GIGABIT = 1e9 / 8
NETWORK = 10 * GIGABIT
PREPARED, PREPARED_BYTES = 212_000, 79e6  # a second, by size.py
PRICE = 0.40  # dollars an hour for a machine of 8 cores and 32 GB; assumed


@dataclass(frozen=True)
class Collection:
    """How large a collection is; `terms` and `bytes` are those of a document's text."""

    name: str
    documents: float
    terms: float
    bytes: float


V2_PASSAGES, B13_PAGES = 138_364_198, 52_343_021
PAGE_TERMS, PAGE_BYTES = 450, 5_000  # of a page's text; assumed


@dataclass(frozen=True)
class Rates:
    """What one core did with a shard."""

    shard: int
    index: float  # seconds
    disk: float  # bytes
    search: float  # seconds a question
    statistics: float  # seconds a question
    terms: float  # of a document


def measured(dataset: Dataset, n: int) -> Rates:
    """Index and search the first of n shards."""
    place = DatasetLocation.of(dataset)
    from harness.extensions.cluster.corpus_shards import split_corpus

    piece = split_corpus(BlindedCorpus(dataset, 0, 0).corpus, n)[0]
    before = set(indexes().glob("bm25-*"))
    shard = Shard(RetrieverSpec("bm25"), 0, 1, place, piece)
    start = time.process_time()
    assert shard.index() == len(piece.positions)
    index = time.process_time() - start
    (made,) = set(indexes().glob("bm25-*")) - before
    disk = sum(file.stat().st_size for file in made.iterdir())
    questions = [Question(text) for text in dataset.query_table["text"].slice(0, ASKED).to_pylist()]
    start = time.process_time()
    known = shard.statistics(questions)
    assert not isinstance(known, Exception)
    statistics = (time.process_time() - start) / ASKED
    whole = {name: n * count for name, count in known.items()}
    shard.search(questions[:10], TOP, whole)  # the pages of the index come into memory
    start = time.process_time()
    found = shard.search(questions, TOP, whole)
    assert isinstance(found, ShardAnswer)
    search = (time.process_time() - start) / ASKED
    shutil.rmtree(made)
    terms = known["terms"] / known["documents"]
    return Rates(len(piece.positions), index, disk, search, statistics, terms)


def merging(n: int) -> float:
    """Seconds a question to merge what n shards found."""
    rng = np.random.default_rng(0)
    asked = 8
    parts = []
    for _ in range(n):
        scores = -np.sort(-rng.gamma(2, 4, (asked, TOP)).astype(np.float32), axis=1)
        at = rng.integers(0, 1 << 30, asked * TOP, dtype=np.int32)
        parts.append(ShardAnswer(np.arange(1, asked + 1) * TOP, at, scores.ravel()))
    start = time.process_time()
    merge_answers(parts, TOP)
    return (time.process_time() - start) / asked


def gathering(n: int) -> float:
    """Seconds to add up what n shards say of the terms of a batch of questions."""
    parts = [{f"having term {i}": i for i in range(BATCH * 4)} for _ in range(n)]
    start = time.process_time()
    add_statistics(parts)
    return time.process_time() - start


def reckoned(one: Collection, machines: int, rates: list[Rates], shards: int) -> list[str]:
    """A row: a collection on some machines, with so many shards on each."""
    n = machines * shards
    documents = one.documents / n
    longer = one.terms / rates[-1].terms
    # By the number of terms: to index is to count them, to search is to read their postings.
    size = documents * longer
    sizes = [rate.shard for rate in rates]
    index = size * float(np.interp(size, sizes, [r.index / r.shard for r in rates]))
    search = float(np.interp(size, sizes, [r.search for r in rates]))
    search *= max(1.0, size / sizes[-1])
    disk = size * rates[-1].disk / rates[-1].shard
    merge = merging(n)
    wire = n * TOP * 8 / NETWORK
    put = one.documents * one.bytes / NETWORK
    copy = put / machines
    prepare = max(one.documents / PREPARED, one.documents * one.bytes / PREPARED_BYTES)
    # Of a batch the shards answer eight parts, one is merged while they are at the next.
    slow, quick = max(search, merge + wire), min(search, merge + wire)
    asking = QUERIES * (slow + quick / 8) + QUERIES / BATCH * gathering(n)
    together = copy + index + asking
    first = "the shards' search" if search > merge + wire else "the one that merges"
    return [
        one.name,
        f"{machines} x {shards}",
        f"{documents / 1e6:.2f} M",
        f"{(prepare + put) / 60:.0f}",
        f"{copy / 60:.1f}",
        f"{index / 60:.1f}",
        f"{disk * shards / 1e9:.1f}",
        f"{search * 1e3:.1f}",
        f"{merge * 1e3:.1f} + {wire * 1e3:.1f}",
        f"{asking / 60:.1f}",
        f"{together / 60:.0f}",
        f"{(together * machines + prepare + put) / 3600 * PRICE:.2f}",
        first,
    ]


def main() -> None:
    """Measure, reckon, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path)
    options = parser.parse_args()
    dataset = open_dataset("msmarco/dev", source=options.collection)
    rates = [measured(dataset, n) for n in (64, 16, 4)]
    rows = [
        [
            f"{rate.shard:,}",
            f"{rate.index:.1f}",
            f"{rate.shard / rate.index:,.0f}",
            f"{rate.disk / rate.shard:.0f}",
            f"{rate.search * 1e3:.1f}",
            f"{rate.statistics * 1e3:.2f}",
        ]
        for rate in rates
    ]
    texts = pc.sum(pc.binary_length(dataset.documents.table["text"])).as_py()
    planned = (
        Collection(
            "MS MARCO v2 passages", V2_PASSAGES, rates[-1].terms, texts / len(dataset.documents)
        ),
        Collection("ClueWeb12-B13", B13_PAGES, PAGE_TERMS, PAGE_BYTES),
    )
    plans = [
        reckoned(one, machines, rates, shards)
        for one in planned
        for machines in (16, 64)
        for shards in (1, CORES)
    ]
    text = [
        "# Corpora larger than a machine\n\n"
        f"By `python -m tests.benchmarks.cluster`; {machine()}.\n",
        f"## Measured\n\nOne core, one shard of {len(dataset.documents):,} passages, the best "
        f"{TOP:,} of each of {ASKED} questions; processor seconds.\n",
        markdown(
            rows,
            [
                "documents",
                "index s",
                "documents/s",
                "bytes each on disk",
                "search ms",
                "statistics ms",
            ],
        ),
        f"\nTo merge what shards found takes {merging(16) * 1e3:.1f} ms a question for 16, "
        f"{merging(128) * 1e3:.1f} for 128, {merging(512) * 1e3:.1f} for 512.\n",
        f"## Reckoned\n\n{QUERIES:,} questions, the best {TOP:,}. Machines of {CORES} cores with "
        f"{NETWORK / GIGABIT:.0f} Gbit/s each (assumed), at {PRICE:.2f} dollars an hour (assumed). "
        f"MS MARCO v2's passages are taken to be as long as the first version's, ClueWeb12-B13's "
        f"pages to have {PAGE_TERMS} terms and {PAGE_BYTES / 1e3:.0f} kB of text "
        "(assumed). `prepare, put` is one machine, before there is a cluster: the dataset prepared "
        f"({PREPARED:,} documents or {PREPARED_BYTES / 1e6:.0f} MB a second, by size.py) and "
        "written to an object store; `copy` is each shard's documents read from there; `search` is "
        "of a shard, one core; `merge` is processor time and network of the one process that "
        "merges, a question; `run` is copy, index and questions together.\n\n"
        "Not in it: that shards on one machine share its memory and disk, the slowest of many, "
        f"calls of Ray (a batch of {BATCH} questions is 10 calls a shard), time for starting. "
        "Rates beyond the largest shard measured are taken to stay (index) or to grow with its "
        "size (search).\n",
        markdown(
            plans,
            [
                "collection",
                "machines x shards",
                "a shard",
                "prepare, put min",
                "copy min",
                "index min",
                "index GB a machine",
                "search ms",
                "merge ms",
                "questions min",
                "run min",
                "dollars",
                "what limits the questions",
            ],
        ),
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
