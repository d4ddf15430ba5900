"""Times preparing repositories in MTEB's layout of the size of LMEB's largest.

    python -m tests.benchmarks.prepare_mteb

Makes, of invented words, one of MemBench's size (ten subsets, 929,000 documents, a list of 93 for
each of 10,000 queries) and one of LongMemEval's (the same 237,000 documents in six subsets, lists
of 475), and prepares each in a fresh process, so that its peak memory is its own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 7
VOCABULARY = 20_000
ROW_GROUP = 1_000


class Form(NamedTuple):
    """How a made repository is: per subset, `documents` and `queries`; lists of `listed`."""

    name: str
    subsets: int
    documents: int
    words: int
    queries: int
    listed: int
    shared: bool


FORMS = (
    Form("MemBench", 10, 92_900, 35, 1_000, 93, shared=False),
    Form("LongMemEval", 6, 237_000, 60, 83, 475, shared=True),
)


def make(folder: Path, form: Form) -> None:
    """Write the repository."""
    rng = np.random.default_rng(SEED)
    words = np.array([f"w{i}" for i in range(VOCABULARY)])
    card = "---\nconfigs:\n"
    ids = texts = np.zeros(0, object)
    for number in range(form.subsets):
        if not (form.shared and number):
            picked = rng.integers(0, VOCABULARY, (form.documents, form.words))
            texts = np.array([" ".join(words[row]) for row in picked], object)
            ids = np.array([f"{number}_{i}" for i in range(form.documents)], object)
        queries = [f"{number}_q{i}" for i in range(form.queries)]
        lists = [
            ids[(at := i * form.listed % (form.documents - form.listed)) : at + form.listed]
            for i in range(form.queries)
        ]
        tables = {
            "corpus": {"id": ids, "title": [""] * len(ids), "text": texts},
            "queries": {"id": queries, "text": [text[:60] for text in texts[: form.queries]]},
            "qrels": {
                "query-id": queries,
                "corpus-id": [one[0] for one in lists],
                "score": [1] * form.queries,
            },
            "top_ranked": {"query-id": queries, "corpus-ids": lists},
        }
        for name, columns in tables.items():
            config = f"s{number}-{name}"
            (folder / config).mkdir()
            path = folder / config / "test-00000-of-00001.parquet"
            pq.write_table(pa.table(columns), path, row_group_size=ROW_GROUP)
            card += f"- config_name: {config}\n  data_files:\n"
            card += f"  - split: test\n    path: {config}/test-*\n"
    (folder / "README.md").write_text(card + "---\n")


def prepare(folder: Path) -> None:
    """Prepare it, and print what came of it, seconds and peak memory."""
    from harness.datasets.registry import open_dataset

    start = time.perf_counter()
    dataset = open_dataset("mteb/made", source=folder)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{dataset.manifest.counts}: {seconds:.1f} s, {peak:.0f} MB")


def main() -> None:
    """Make and prepare each form, in processes of their own: peaks are handed on to children."""
    for form in FORMS:
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work, "repository")
            folder.mkdir()
            environment = os.environ | {"HARNESS_HOME": str(Path(work, "home"))}
            print(form.name, end=" ", flush=True)
            for arguments in ([str(folder), form.name], [str(folder)]):
                command = [sys.executable, __file__, *arguments]
                subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        make(Path(sys.argv[1]), next(form for form in FORMS if form.name == sys.argv[2]))
    elif len(sys.argv) == 2:
        prepare(Path(sys.argv[1]))
    else:
        main()
