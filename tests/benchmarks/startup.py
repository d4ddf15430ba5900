"""Times starting up: the command's help and listings, and what each import loads.

    python -m tests.benchmarks.startup [--repeat 9]

Each line is a fresh process, medians; the last column names the large packages that it loaded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from tests.benchmarks.measure import Cost, command, machine, markdown, median

LARGE = ("numpy", "pyarrow", "pandas", "datasets", "ir_datasets", "scipy", "torch")
COMMANDS = {
    "harness --help": ("0.3 s", ["--help"]),
    "harness run --help": ("", ["run", "--help"]),
    "harness datasets": ("", ["datasets"]),
    "harness retrievers": ("", ["retrievers"]),
}
IMPORTS = {
    "python -c pass": "pass",
    "import numpy": "import numpy",
    "import pyarrow": "import pyarrow",
    "import harness": "import harness",
    "from harness import open_dataset": "from harness import open_dataset",
    "from harness import evaluate": "from harness import evaluate",
    "from harness import run, score": "from harness import run, score",
    "import harness.datasets.adapters": "import harness.datasets.adapters",
}
_LOADED = f"; import sys; print(*[m for m in {LARGE!r} if m in sys.modules])"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    started = machine()
    costs: dict[str, list[Cost]] = {}
    loaded: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as home:
        environment = {"HARNESS_HOME": home}
        for _ in range(options.repeat):
            for name, (_, arguments) in COMMANDS.items():
                cost, _ = command([sys.executable, "-m", "harness", *arguments], environment)
                costs.setdefault(name, []).append(cost)
            for name, code in IMPORTS.items():
                cost, output = command([sys.executable, "-c", code + _LOADED], environment)
                costs.setdefault(name, []).append(cost)
                loaded[name] = output.strip()
    rows = []
    for name, measured in costs.items():
        cost = median(measured)
        budget = COMMANDS[name][0] if name in COMMANDS else ""
        rows.append(
            [
                name,
                *(f"{cost.wall:.3f}", f"{cost.cpu:.3f}", f"{cost.peak:.0f}"),
                *(budget, loaded.get(name, "")),
            ]
        )
    print(f"medians of {options.repeat}; {started}\n")
    print(markdown(rows, ["start", "s", "cpu s", "peak MB", "budget", "loads"]))


if __name__ == "__main__":
    main()
