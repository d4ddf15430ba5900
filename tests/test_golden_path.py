"""How much of the harness the first command of the documentation loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULES, LINES = 93, 19_589
"""The most that may be loaded; whoever loads less may lower them."""

COUNT = """
import sys
from pathlib import Path
from harness.__main__ import main

status = main(sys.argv[1:])
for name, module in sorted(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if file and name.partition(".")[0] in ("harness", "adapters"):
        print("loaded", len(Path(file).read_bytes().splitlines()), name, file=sys.stderr)
sys.exit(status)
"""


def test_a_run_of_the_sample_loads_few_modules_and_lines(tmp_path: Path) -> None:
    home = str(tmp_path / "home")  # the dataset is prepared too
    done = subprocess.run(
        [sys.executable, "-c", COUNT, "run", "--dataset", "sample", "--retriever", "bm25"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HARNESS_HOME": home},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = [
        (int(line.split()[1]), line.split()[2])
        for line in done.stderr.splitlines()
        if line.startswith("loaded ")
    ]
    lines = sum(number for number, _ in loaded)
    shown = "\n".join(f"{number:6} {name}" for number, name in loaded)
    assert len(loaded) <= MODULES, f"{len(loaded)} modules\n{shown}"
    assert lines <= LINES, f"{lines} lines\n{shown}"
