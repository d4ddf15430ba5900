"""What the benchmarks share: a fresh process for each way, its cost, and a Markdown table."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HARNESS_TEST_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True)
class Cost:
    """Wall-clock and processor seconds, and the most memory that was held, in MB."""

    wall: float
    cpu: float
    peak: float


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each part."""
    return Cost(*(statistics.median(getattr(c, p) for c in costs) for p in ("wall", "cpu", "peak")))


def command(
    arguments: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> tuple[Cost, str]:
    """Run a command from a checkout's root; what it cost with all its processes, and its output.

    Ends the benchmark with the command's own words when it fails.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        arguments, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"failed: {' '.join(arguments)}\n{output}")
    cost = Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    return cost, output


def harness(*arguments: str, home: Path) -> tuple[Cost, str]:
    """Run `python -m harness` with a cache folder of its own."""
    return command([sys.executable, "-m", "harness", *arguments], {"HARNESS_HOME": str(home)})


def timed(work: Callable[[], Any]) -> tuple[Cost, Any]:
    """What `work` costs in this process, and its result; the peak is that of the whole process."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Cost(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), result


def in_fresh_process(module: str, *arguments: str) -> dict[str, Any] | None:
    """The JSON that `python -m module arguments` prints last; None where a package is missing."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def markdown(rows: Sequence[Sequence[Any]], headers: Sequence[str]) -> str:
    """A Markdown table; numbers are given as text."""
    align = ["left", *["right"] * (len(headers) - 1)]
    return tabulate(rows, headers, "pipe", disable_numparse=True, colalign=align)


def machine() -> str:
    """Cores, and how busy they were; ratios of processor time bear that best."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start"
