"""Times the harness itself: a run over LoCoMo with a retriever that answers at once.

    python -m tests.benchmarks.overhead [--repeat 5]

The retriever notes when it is called and when it returns; all other time of the run is the
harness's own. What comes before a call of `index` is charged to the haystack's documents, the rest
of a unit's time to its queries; writing the run's folder stands apart, since it is paid once.
Second and third lines: a retriever that asks for all texts, and one that reads every record.
Processor time, since microseconds of wall-clock mean little on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from tests.benchmarks.measure import DATA, machine, markdown

BUDGET_QUERY, BUDGET_DOCUMENT = "30 us", "2 us"


class AtOnce:
    """Answers with the same positions whatever the question; reads nothing of the corpus."""

    def __init__(self) -> None:
        self.answer = np.arange(10)
        self.spent = 0.0
        self.calls: list[tuple[float, float]] = []

    def index(self, corpus: Any) -> None:
        """Note the time; `read` is what a retriever does here."""
        start = process_time()
        self.read(corpus)
        self.calls.append((start, process_time()))

    def read(self, corpus: Any) -> None:
        """Nothing."""

    def search(self, queries: Sequence[Any], k: int) -> list[Any]:
        """The same for every question."""
        start = process_time()
        found = [self.answer[:k]] * len(queries)
        self.spent += process_time() - start
        return found


class Texts(AtOnce):
    """Asks for all texts."""

    def read(self, corpus: Any) -> None:
        """Texts alone."""
        _ = corpus.contents


class Records(AtOnce):
    """Reads every document as a record."""

    def read(self, corpus: Any) -> None:
        """One by one."""
        for _ in corpus:
            pass


def measure(dataset: Any, retriever: AtOnce, out: Path) -> dict[str, float]:
    """Microseconds a document and a query of the harness's own time, and seconds of the rest."""
    from harness.datasets.reader import choose_queries
    from harness.datasets.remote_store import DatasetLocation
    from harness.runs.request import work_items
    from harness.runs.run import run
    from harness.runs.settings import Settings
    from harness.runs.worker import Worker, WorkerOptions

    start = process_time()
    run(dataset, retriever, Settings(k=10), out=out)
    whole = process_time() - start
    retriever.calls.clear()
    worker = Worker(DatasetLocation.of(dataset), retriever, WorkerOptions(k=10))
    planned = work_items(dataset, choose_queries(dataset, None, 0), 0)
    worker.run_item(planned[0])  # opens the dataset
    retriever.spent = before = after = read = 0.0
    retriever.calls.clear()
    documents = 0
    for unit in planned[1:]:
        start = process_time()
        outcome = worker.run_item(unit)
        end = process_time()
        documents += outcome.documents
        for called, returned in retriever.calls:
            before += called - start
            read += returned - called
            start = returned
        after += end - start
        retriever.calls.clear()
    queries = sum(len(unit.queries) for unit in planned[1:])
    return {
        "query": (after - retriever.spent) / queries * 1e6,
        "document": before / documents * 1e6,
        "reading": read / documents * 1e6,
        "run": whole,
    }


def main() -> None:
    """Prepare LoCoMo in a temporary cache, measure, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    started = machine()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HARNESS_HOME"] = scratch
        from harness.datasets.registry import open_dataset

        source = DATA / "locomo" / "locomo10.json"
        dataset = open_dataset("locomo", source=source, granularity="turn")
        rows = []
        for kind in (AtOnce, Texts, Records):
            found = [measure(dataset, kind(), Path(scratch) / "out") for _ in range(options.repeat)]
            middle = {name: statistics.median(f[name] for f in found) for name in found[0]}
            rows.append([kind.__name__, *(f"{middle[n]:.1f}" for n in ("query", "document"))])
            rows[-1] += [f"{middle['reading']:.1f}", f"{middle['run']:.2f}"]
    rows.append(["budget", BUDGET_QUERY, BUDGET_DOCUMENT, "", ""])
    print(f"{dataset.n_queries} queries; medians of {options.repeat}; {started}\n")
    headers = ["retriever", "us a query", "us a document", "us a document, read by it"]
    print(markdown(rows, [*headers, "whole run, s"]))


if __name__ == "__main__":
    main()
