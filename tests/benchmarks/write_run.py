"""Times writing the rankings of a run, and exporting them: 6,980 queries x 1,000 documents.

    python -m tests.benchmarks.write_run [--queries 6980] [--depth 1000] [--repeat 3]

Makes the run of score_run_file.py, and from it, in a temporary folder, the folder of a run. Then
each way runs in a fresh process, all in turn: writing rankings.trec and rankings.parquet from
columns in memory, as a run does when it is finished, and `export_run` in each format. `before` is
the memory that was held when it began.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.datasets.registry import open_dataset
from harness.runfiles.readers import read_rankings
from harness.runfiles.write import blocks, write_parquet, write_trec
from harness.runs.folder.export import FLAT, export_run
from harness.runs.run import run
from tests.benchmarks.measure import Cost, in_fresh_process, machine, markdown, median, timed
from tests.benchmarks.score_run_file import make
from tests.resealed import reseal

WAYS = ("write trec", "write parquet", *(f"export {format}" for format in FLAT))


def way(name: str, folder: Path) -> Callable[[], None]:
    """What is timed."""
    verb, _, format = name.partition(" ")
    out = folder / f"{verb}.{format}"
    out.unlink(missing_ok=True)
    if verb == "export":
        return lambda: export_run(folder, out, format)
    rankings = read_rankings(folder / "run.trec")
    if format == "trec":
        return lambda: write_trec(blocks(rankings), out, "bm25")
    return lambda: write_parquet(rankings, out)


def main() -> None:
    """Make the run, measure every way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, default=6980)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--way", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        work = way(options.way[0], Path(options.way[1]))
        before = timed(lambda: None)[0].peak
        print(json.dumps({"cost": vars(timed(work)[0]), "before": before}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        made = run(open_dataset("sample"), "bm25", out=Path(scratch))
        folder = made.rename(Path(scratch, "run"))
        make(folder, options.queries, options.depth)
        # In another process too: a process's peak begins with that of the one it was forked from.
        in_fresh_process("tests.benchmarks.write_run", "--way", "write parquet", str(folder))
        (folder / "write.parquet").rename(folder / "rankings.parquet")
        reseal(folder)
        costs: dict[str, list[Cost]] = {name: [] for name in WAYS}
        before: dict[str, float] = {}
        print(f"{options.queries:,} x {options.depth:,}; {machine()}", flush=True)
        for _ in range(options.repeat):
            for name in WAYS:
                this = ("tests.benchmarks.write_run", "--way", name, str(folder))
                found = in_fresh_process(*this)
                assert found is not None
                costs[name].append(Cost(**found["cost"]))
                before[name] = found["before"]
        rows = []
        for name, measured in costs.items():
            cost = median(measured)
            times = f"{cost.wall:.2f}", f"{cost.cpu:.2f}"
            rows.append([name, *times, f"{before[name]:,.0f}", f"{cost.peak:,.0f}"])
        print(markdown(rows, ["way", "s", "cpu s", "MB before", "peak MB"]))


if __name__ == "__main__":
    main()
