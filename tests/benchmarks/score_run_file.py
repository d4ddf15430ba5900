"""Times scoring a TREC run file, beside other evaluators, and compares every value.

    python -m tests.benchmarks.score_run_file [--queries 6980] [--depth 1000] [--repeat 3]

Makes a seeded run from the official qrels of MS MARCO's dev set in a temporary folder (7 million
lines, 250 MB). Then each way runs in a fresh process, all in turn, as often as `--repeat` says:

* from the file: reading run and qrels, and evaluating; ranx compiles its kernels in it;
* from dictionaries: they are made first and not timed; the peak has them too, and the column before
  it says how much of it was there before evaluating began.

Prints medians and ratios to the harness (how many times its time each takes), and whether the means
and, where the library gives them, the values of each query are equal to 1e-9. No two scores of a
query are equal: the libraries would order them differently.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.evaluators import GROUPS, Values
from tests.benchmarks.measure import (
    DATA,
    Cost,
    in_fresh_process,
    machine,
    markdown,
    median,
    timed,
)

SEED = 11
QRELS = DATA / "msmarco" / "official" / "qrels.msmarco-passage.dev-subset.txt"
PASSAGES = 8_841_823


def make(folder: Path, queries: int, depth: int) -> None:
    """Write `run.trec` and `qrels.txt`; a judged passage stands at a random rank, four times in
    five, and high ranks are likelier."""
    rng = np.random.default_rng(SEED)
    judged: dict[str, list[str]] = {}
    for line in QRELS.read_text().splitlines():
        query, _, document, _ = line.split()
        judged.setdefault(query, []).append(document)
    chosen = list(judged)[:queries]
    (folder / "qrels.txt").write_text(
        "".join(f"{query} 0 {document} 1\n" for query in chosen for document in judged[query])
    )
    with open(folder / "run.trec", "w") as file:
        for query in chosen:
            step = int(rng.integers(1, PASSAGES // depth))
            found = [str(n) for n in (rng.integers(PASSAGES) + step * np.arange(depth)) % PASSAGES]
            for document in judged[query]:
                rank = int(depth * rng.random() ** 3)
                if (
                    rng.random() < 0.8
                    and document not in found
                    and found[rank] not in judged[query]
                ):
                    found[rank] = document
            # Steps of a thousandth or more: no two are equal, not even as float32.
            scores = 35 - np.cumsum(rng.integers(1, 40, depth)) / 1000
            ranked = enumerate(zip(found, scores.tolist(), strict=True), 1)
            file.writelines(
                f"{query} Q0 {document} {rank} {score:.6f} bm25\n"
                for rank, (document, score) in ranked
            )


def differences(ours: Values, theirs: Values) -> str:
    """Where two evaluators disagree by more than 1e-9, in words."""
    found = []
    compared = 0
    for name, value in theirs.items():
        if isinstance(value, dict):
            if value.keys() != ours[name].keys():
                return "other queries"
            off = [abs(value[query] - mine) for query, mine in ours[name].items()]
        else:
            off = [abs(value - float(np.mean(list(ours[name].values()))))]
        compared += len(off)
        if max(off) > (6e-6 if _rounded(value) else 1e-9):
            found.append(f"{name} by {max(off):.1e}")
    return "; ".join(found) or f"{compared:,} values"


def _rounded(value: Any) -> bool:
    """BEIR rounds its means to five digits."""
    return not isinstance(value, dict) and round(value, 5) == value


def rows(folder: Path, group: str, repeat: int) -> Iterator[list[str]]:
    """One row a way, the harness first."""
    costs: dict[str, list[Cost]] = {name: [] for name in GROUPS[group]}
    values: dict[str, Values] = {}
    before: dict[str, float] = {}
    for _ in range(repeat):
        for name in GROUPS[group]:
            found = in_fresh_process(
                "tests.benchmarks.score_run_file", "--folder", str(folder), "--way", group, name
            )
            if found is not None:
                costs[name].append(Cost(**found["cost"]))
                before[name] = found["before"]
                values[name] = json.loads((folder / "values.json").read_text())
    ours = median(costs["harness"])
    for name, measured in costs.items():
        if not measured:
            yield [name, "not installed", *[""] * 6]
            continue
        cost = median(measured)
        yield [
            name,
            f"{cost.wall:.2f}",
            f"{cost.cpu:.2f}",
            f"{before[name]:,.0f}",
            f"{cost.peak:,.0f}",
            f"{cost.wall / ours.wall:.1f}",
            f"{cost.cpu / ours.cpu:.1f}",
            differences(values["harness"], values[name]) if name != "harness" else "",
        ]


def main() -> None:
    """Make the files, measure every way, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, default=6980)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--way", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        group, name = options.way
        work, values_of = GROUPS[group][name](options.folder)
        before = timed(lambda: None)[0].peak
        cost, found = timed(work)
        (options.folder / "values.json").write_text(json.dumps(values_of(found)))
        print(json.dumps({"cost": vars(cost), "before": before}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder, options.queries, options.depth)
        size = (folder / "run.trec").stat().st_size / 1e6
        print(f"{options.queries:,} queries x {options.depth:,} documents, {size:.0f} MB; ", end="")
        print(f"medians of {options.repeat}; {machine()}")
        for group in GROUPS:
            headers = [f"from {group}", "s", "cpu s", "MB before", "peak MB"]
            headers += ["x time", "x cpu", "equal to 1e-9"]
            print(f"\n{markdown(list(rows(folder, group, options.repeat)), headers)}", flush=True)


if __name__ == "__main__":
    main()
