"""Compares two checkouts of the harness: the same commands in both, in turn, as ratios.

    python -m tests.benchmarks.against A B WORK [--repeat 5] [--groups startup locomo ...]

A and B are checkouts with an environment in `.venv`; WORK keeps made input files for the next call.
Each command runs in A and then in B, in every second round in B first, with an empty cache at the
start of a round. The table has A's medians and the ratio B / A of the medians and of the minima:
above 1, B needs more. Processor time bears other load on the machine best.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from tests.benchmarks.measure import DATA, Cost, command, machine, markdown, median

MADE = {
    "longmemeval": ["-m", "tests.benchmarks.make_longmemeval"],
    "bm25": ["-m", "tests.benchmarks.make_msmarco", "--passages", "300000", "--queries", "1000"],
    "evaluate": [
        "-c",
        "import sys; from pathlib import Path; from tests.benchmarks.score_run_file import make;"
        "folder = Path(sys.argv[1]); folder.mkdir(); make(folder, queries=6980, depth=1000)",
    ],
}
"""Group -> arguments of Python that make its input file or folder, but for the path."""
LOCOMO = DATA / "locomo" / "locomo10.json"
SCORE = f"""from pathlib import Path; from harness import open_dataset, score_run
dataset = open_dataset("locomo", granularity="turn", source="{LOCOMO}")
for _ in range(5): score_run(next(Path("SIDE/cached").glob("locomo*")), dataset)"""
EVALUATE = """from harness import evaluate
evaluate("MADE/qrels.txt", "MADE/run.trec", ["ndcg@10", "mrr@10", "map", "recall@1000"])"""


def commands(side: Path, work: Path) -> dict[str, list[list[str]]]:
    """Group -> arguments of Python, in order; `side` is the checkout's part of `work`."""

    def run(retriever: str, *dataset: str) -> list[list[str]]:
        start = ["-m", "harness", "run", "--quiet", "--retriever", retriever, "--dataset", *dataset]
        return [[*start, "--out", str(side / state)] for state in ("empty", "cached")]

    return {
        "startup": [["-m", "harness", "--help"], ["-c", "from harness import run, score_run"]],
        "sample": run("bm25", "sample"),
        "locomo": [
            *run("bm25", "locomo", "--granularity", "turn", "--source", str(LOCOMO)),
            ["-c", SCORE.replace("SIDE", str(side))],
        ],
        "longmemeval": run("bm25-okapi", "longmemeval/s", "--source", str(work / "longmemeval")),
        "bm25": run("bm25", "msmarco/dev", "--source", str(work / "bm25")),
        "evaluate": [["-c", EVALUATE.replace("MADE", str(work / "evaluate"))]],
    }


def main() -> None:
    """Makes the input files, measures every command in both checkouts and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("a", "b", "work"):
        parser.add_argument(name, type=lambda text: Path(text).resolve())
    parser.add_argument("--repeat", type=int, default=5)
    groups = list(commands(Path(), Path()))
    parser.add_argument("--groups", nargs="+", choices=groups, default=groups)
    options = parser.parse_args()
    work, started = options.work, machine()
    work.mkdir(parents=True, exist_ok=True)
    for group in options.groups:
        if group in MADE and not (work / group).exists():
            command([sys.executable, *MADE[group], str(work / "unfinished")])
            (work / "unfinished").rename(work / group)
    costs: dict[tuple[str, int], tuple[list[Cost], list[Cost]]] = {}
    for repetition in range(-1, options.repeat):  # the first is not counted: it compiles modules
        for side in ("a", "b"):
            shutil.rmtree(work / side, ignore_errors=True)
        for group in options.groups if repetition >= 0 else ("startup", "sample"):
            for step in range(len(commands(work, work)[group])):
                for side in ("a", "b") if repetition % 2 == 0 else ("b", "a"):
                    checkout: Path = getattr(options, side)
                    arguments = commands(work / side, work)[group][step]
                    env = {"HARNESS_HOME": f"{work}/{side}/home", "PYTHONDONTWRITEBYTECODE": ""}
                    cost, _ = command([f"{checkout}/.venv/bin/python", *arguments], env, checkout)
                    if repetition >= 0:
                        costs.setdefault((group, step), ([], []))[side == "b"].append(cost)
    rows = []
    for (group, step), (a, b) in costs.items():
        what = " ".join(commands(Path(), Path())[group][step][1:3]).partition("\n")[0]
        rows.append([f"{group} {step + 1}: {what}"])
        for part, form in (("cpu", ".2f"), ("wall", ".2f"), ("peak", ",.0f")):
            least = min(getattr(c, part) for c in b) / min(getattr(c, part) for c in a)
            middle = getattr(median(b), part) / getattr(median(a), part)
            rows[-1] += [f"{getattr(median(a), part):{form}}", f"{middle:.2f} ({least:.2f})"]
    print(f"{options.repeat} rounds; ratios B / A of medians (of minima); {started}\n")
    print(markdown(rows, ["command", "cpu s", "B / A", "wall s", "B / A", "peak MB", "B / A"]))


if __name__ == "__main__":
    main()
