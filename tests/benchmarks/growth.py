"""Measures how time and memory grow with the number of queries, haystacks, documents and runs.

    python -m tests.benchmarks.growth WORK [--only NAME ...] [--at-most N]
    python -m tests.benchmarks.growth WORK --show

Each size of each way runs in a new process, smallest first, and its figures are appended to
WORK/figures.jsonl. A way ends at the first size that takes more than `--seconds`: a larger one
would take longer. What is measured:

* queries: `run` over BEIR files of 1,000 documents, with a retriever that answers at once;
* scores: the scoring of such a run;
* haystacks: labelled data, with 10 documents and one query in each, prepared and run over;
* run file: TREC run files of 10 documents a query, scored by nine metrics, beside pytrec_eval,
  ranx and ir_measures;
* documents: labelled documents of 200 characters prepared from CSV and from JSONL, beside the
  standard library's csv and json into a dictionary;
* board: `harness leaderboard` over scored runs of `sample`.

Memory is the most that the process held, with the preparation of the data. `--show` prints the
table and draws WORK/growth.svg.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.evaluators import FROM_FILE
from tests.benchmarks.measure import Cost, in_fresh_process, machine, markdown, timed
from tests.benchmarks.overhead import AtOnce

DEPTH = 10
TEXT = "A sentence of a conversation that somebody had, and which is to be remembered. " * 3


def write_rows(path: Path, rows: Iterable[str]) -> None:
    """Writes lines to a file, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        file.writelines(rows)


def of_queries(folder: Path, n: int) -> Callable[[], Any]:
    """A run over `n` queries of 1,000 documents."""
    from harness.datasets.registry import open_dataset

    write_rows(folder / "corpus.jsonl", (f'{{"_id":"d{i}","text":"{i}"}}\n' for i in range(1000)))
    write_rows(folder / "queries.jsonl", (f'{{"_id":"q{i}","text":"{i}"}}\n' for i in range(n)))
    judged = (f"q{i}\td{i % 1000}\t1\n" for i in range(n))
    write_rows(folder / "qrels" / "test.tsv", chain(["query-id\tcorpus-id\tscore\n"], judged))
    return _run(open_dataset("beir", source=folder), folder)


def of_scores(folder: Path, n: int) -> Callable[[], Any]:
    """The scoring of a run over `n` queries."""
    from harness.runs.folder.run_dataset import dataset_of_run
    from harness.runs.folder.score_folder import score_run

    made = of_queries(folder, n)()
    return lambda: score_run(made, dataset_of_run(made))


def of_haystacks(folder: Path, n: int) -> Callable[[], Any]:
    """The preparation of `n` haystacks of 10 documents and one query, and a run over them."""
    from harness.datasets.registry import open_dataset

    document = '{{"id":"d{1}","haystack":"h{0}","text":"{1}"}}\n'
    rows = (document.format(i, j) for i in range(n) for j in range(10))
    write_rows(folder / "documents.jsonl", rows)
    query = '{{"id":"q{0}","haystack":"h{0}","text":"what?"}}\n'
    write_rows(folder / "queries.jsonl", (query.format(i) for i in range(n)))
    qrel = '{{"query":"q{0}","document":"d3"}}\n'
    write_rows(folder / "qrels.jsonl", (qrel.format(i) for i in range(n)))
    return lambda: _run(open_dataset("labelled", source=folder), folder)()


def _run(dataset: Any, folder: Path) -> Callable[[], Any]:
    from harness.runs.run import run
    from harness.runs.settings import Settings

    return lambda: run(dataset, AtOnce(), Settings(k=DEPTH), out=folder / "runs")


def of_run_file(evaluator: str) -> Callable[[Path, int], Callable[[], Any]]:
    """The scoring of a run file of `n` queries by an evaluator."""

    def made(folder: Path, n: int) -> Callable[[], Any]:
        scores = np.linspace(9, 1, DEPTH)
        rows = (f"q{i} Q0 d{i + j} {j} {scores[j]} x\n" for i in range(n) for j in range(DEPTH))
        write_rows(folder / "run.trec", rows)
        write_rows(folder / "qrels.txt", (f"q{i} 0 d{i + i % DEPTH} 1\n" for i in range(n)))
        return FROM_FILE[evaluator](folder)[0]

    return made


def write_documents(folder: Path, n: int, form: str) -> None:
    """Writes `n` labelled documents as csv or jsonl, and 100 queries."""
    texts = ((f"d{i}", f"{i} {TEXT}"[:200]) for i in range(n))
    if form == "csv":
        rows: Iterable[str] = (f"{id_},{text!r}\n".replace("'", '"') for id_, text in texts)
        write_rows(folder / "documents.csv", chain(["id,text\n"], rows))
    else:
        rows = (json.dumps({"id": id_, "text": text}) + "\n" for id_, text in texts)
        write_rows(folder / "documents.jsonl", rows)
    write_rows(folder / "queries.jsonl", (f'{{"id":"q{i}","text":"{i}"}}\n' for i in range(100)))
    judged = (f'{{"query":"q{i}","document":"d{i}"}}\n' for i in range(100))
    write_rows(folder / "qrels.jsonl", judged)


def of_documents(form: str) -> Callable[[Path, int], Callable[[], Any]]:
    """The preparation of `n` documents."""

    def made(folder: Path, n: int) -> Callable[[], Any]:
        from harness.datasets.registry import open_dataset

        write_documents(folder, n, form)
        return lambda: open_dataset("labelled", source=folder)

    return made


def of_csv(folder: Path, n: int) -> Callable[[], Any]:
    """A dictionary of `n` documents, by the standard library's csv."""
    write_documents(folder, n, "csv")

    def work() -> dict[str, str]:
        with open(folder / "documents.csv", newline="") as file:
            return {row["id"]: row["text"] for row in csv.DictReader(file)}

    return work


def of_json(folder: Path, n: int) -> Callable[[], Any]:
    """A dictionary of `n` documents, by the standard library's json."""
    write_documents(folder, n, "jsonl")

    def work() -> dict[str, str]:
        with open(folder / "documents.jsonl") as file:
            return {row["id"]: row["text"] for row in map(json.loads, file)}

    return work


def of_board(folder: Path, n: int) -> Callable[[], Any]:
    """A leaderboard of `n` runs, each of rankings drawn at random."""
    from harness.__main__ import main as harness
    from harness.datasets.registry import open_dataset
    from harness.runs.folder.imported import ImportOptions, import_rankings
    from harness.runs.folder.score_folder import score_run

    dataset = open_dataset("sample")
    rng = np.random.default_rng(5)
    documents = np.array(dataset.documents.column("id").to_pylist())
    at = [dataset.haystack_rows(haystack) for haystack in dataset.query_haystack.tolist()]
    for number in range(n):
        found = [documents[rng.choice(rows, DEPTH, replace=False)].tolist() for rows in at]
        rows = (
            f"{query} Q0 {id_} {rank} {-rank} x\n"
            for query, ids in zip(dataset.query_ids, found, strict=True)
            for rank, id_ in enumerate(ids)
        )
        write_rows(folder / "run.trec", rows)
        options = ImportOptions(folder / "runs", f"system-{number}")
        score_run(import_rankings(folder / "run.trec", dataset, options), dataset)
    written = ["--out", str(folder / "board.json"), "--quiet"]

    def work() -> None:
        assert harness(["leaderboard", "--results", str(folder / "runs"), *written]) == 0

    return work


WAYS: dict[tuple[str, str], tuple[Callable[[Path, int], Callable[[], Any]], list[int]]] = {
    ("queries", "harness"): (of_queries, [10**4, 10**5, 10**6, 10**7]),
    ("scores, queries", "harness"): (of_scores, [10**4, 10**5, 10**6]),
    ("haystacks", "harness"): (of_haystacks, [1, 10**2, 10**3, 10**4, 10**5]),
    **{
        ("run file, queries", name): (of_run_file(name), [10**4, 10**5, 10**6])
        for name in FROM_FILE
        if name != "BEIR"  # pytrec_eval, five times
    },
    ("documents, CSV", "harness"): (of_documents("csv"), [50_000, 500_000, 5_000_000]),
    ("documents, CSV", "csv"): (of_csv, [50_000, 500_000, 5_000_000]),
    ("documents, JSONL", "harness"): (of_documents("jsonl"), [50_000, 500_000, 5_000_000]),
    ("documents, JSONL", "json"): (of_json, [50_000, 500_000, 5_000_000]),
    ("board, runs", "harness"): (of_board, [10, 100, 1000]),
}


def measure_one(what: str, way: str, n: int) -> dict[str, float]:
    """Returns the cost of one way at one size; the data are made in a temporary folder."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HARNESS_HOME"] = str(Path(scratch) / "home")
        work = WAYS[what, way][0](Path(scratch) / "data", n)
        cost, _ = timed(work)
    return vars(cost)


def slope(points: list[tuple[int, float]]) -> float:
    """Returns the exponent of growth from the last size but one to the last: 1 is linear."""
    (n, y), (larger, most) = points[-2:]
    return math.log(most / y) / math.log(larger / n)


def show(work: Path) -> None:
    """Prints the table of all figures, and draws WORK/growth.svg."""
    import matplotlib.pyplot as plt

    last: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for line in (work / "figures.jsonl").read_text().splitlines():
        figure = json.loads(line)
        last.setdefault((figure["what"], figure["way"]), {})[figure["n"]] = figure
    rows = []
    for (what, way), sizes in last.items():
        ordered = [sizes[n] for n in sorted(sizes)]
        grows = f"{slope([(f['n'], f['cpu']) for f in ordered]):.2f}" if len(ordered) > 1 else ""
        for figure in ordered:
            cells = (f"{figure['n']:,}", f"{figure['cpu']:.2f}", f"{figure['wall']:.2f}")
            rows.append([what, way, *cells, f"{figure['peak']:,.0f}"])
        rows[-1].append(grows)
    print(markdown(rows, ["of", "way", "n", "processor s", "s", "peak MB", "exponent"]))
    plt.rcParams |= {"svg.hashsalt": "growth", "svg.fonttype": "none"}  # the same file each time
    groups = list(dict.fromkeys(what for what, _ in last))
    size = (9, 2.2 * len(groups))
    figure, panels = plt.subplots(len(groups), 2, figsize=size, layout="constrained")
    for pair, what in zip(panels, groups, strict=True):
        for panel, part, label in zip(
            pair, ("cpu", "peak"), ("processor s", "peak MB"), strict=True
        ):
            for (of, way), sizes in last.items():
                if of == what:
                    n = sorted(sizes)
                    panel.plot(n, [sizes[i][part] for i in n], "o-", markersize=4, label=way)
            panel.set(title=what, xscale="log", yscale="log", ylabel=label)
            panel.minorticks_off()
            panel.grid(alpha=0.3)
        pair[0].legend(fontsize=8)
        pair[1].set_ylim(10, 10_000)
    figure.savefig(work / "growth.svg", metadata={"Date": None})


def main() -> None:
    """Measures each way at each size, or shows what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", nargs="+", choices=sorted({what for what, _ in WAYS}))
    parser.add_argument("--at-most", type=int, default=10**7)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, way, n = options.one
        print(json.dumps(measure_one(what, way, int(n))))
        return
    if options.show:
        show(options.work)
        return
    options.work.mkdir(parents=True, exist_ok=True)
    print(machine())
    for (what, way), (_, sizes) in WAYS.items():
        if options.only and what not in options.only:
            continue
        for n in sizes:
            if n > options.at_most:
                break
            of = (str(options.work), "--one", what, way, str(n))
            found = in_fresh_process("tests.benchmarks.growth", *of)
            if found is None:
                print(f"{way} is not installed", file=sys.stderr)
                break
            with open(options.work / "figures.jsonl", "a") as file:
                file.write(json.dumps({"what": what, "way": way, "n": n, **found}) + "\n")
            print(
                f"{what}, {way}, {n:,}: {Cost(**found)}",
                flush=True,
            )
            if found["cpu"] > options.seconds:
                break


if __name__ == "__main__":
    main()
