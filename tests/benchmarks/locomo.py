"""Times the whole command over LoCoMo, turn by turn: from the raw file to the table.

    python -m tests.benchmarks.locomo [--repeat 5]

Runs `harness run --dataset locomo --granularity turn` with each lexical retriever, each time with
an empty cache (cold) and then again (prepared), and prints medians beside the budget of 4 s.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.benchmarks.measure import DATA, Cost, harness, machine, markdown, median

RETRIEVERS = ("bm25", "bm25-okapi")
BUDGET = "4 s"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    source = str(DATA / "locomo" / "locomo10.json")
    costs: dict[str, list[Cost]] = {}
    print(f"medians of {options.repeat}; {machine()}\n")
    with tempfile.TemporaryDirectory() as scratch:
        home, out = Path(scratch) / "home", Path(scratch) / "results"
        for _ in range(options.repeat):
            for retriever in RETRIEVERS:
                shutil.rmtree(home, ignore_errors=True)
                for state in ("cold", "prepared"):
                    cost, _ = harness(
                        *("run", "--dataset", "locomo", "--granularity", "turn"),
                        *("--source", source, "--retriever", retriever, "--out", str(out)),
                        home=home,
                    )
                    costs.setdefault(f"{retriever}, {state}", []).append(cost)
                    shutil.rmtree(out)
    rows = []
    for name, measured in costs.items():
        cost = median(measured)
        rows.append([name, f"{cost.wall:.2f}", f"{cost.cpu:.2f}", f"{cost.peak:,.0f}", BUDGET])
    print(markdown(rows, ["LoCoMo, turn", "s", "cpu s", "peak MB", "budget"]))


if __name__ == "__main__":
    main()
