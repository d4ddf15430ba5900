"""Everything that is tried with faults, and the table of what survived.

    python tests/faults/run.py --share 1.0     # about two hours: the table in the docs
    python tests/faults/run.py --share 0.02    # some minutes

Prints a row a kind: how often it was tried, and how often something was silently another number, a
traceback, a process or a half-made file that stayed, or a command that could not be gone on with.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from damages import caches, damages  # noqa: E402 - found by the line above
from forms import forms, silently_other, try_form  # noqa: E402
from full_disks import full_disks  # noqa: E402
from hostile import hostile  # noqa: E402
from kills import kills  # noqa: E402
from other_folders import other_folders  # noqa: E402

COLUMNS = ("tried", "told", "silent", "tracebacks", "orphans", "leftovers", "not gone on")
_MEMORY = 4 << 30  # bytes that nothing of these sizes needs

Found = tuple[Mapping[str, int], list[str]]


def files(n: int, seed: int = 1) -> Found:
    """`n` damaged files of every form that is read from elsewhere, and harmless changes of them."""
    found, wrong, every = Counter[str](), list[str](), [*forms()]
    for form in every:
        tried = try_form(form, -(-n // len(every)), seed)
        other = silently_other(form, seed) if n else []
        found.update(tried=tried.tried, told=tried.refused, silent=len(other))
        found["tracebacks"] += len(tried.broken)
        wrong += tried.broken + other
    return found, wrong


KINDS: Mapping[str, tuple[int, Callable[[int, int], Found]]] = {
    "kills": (1000, kills),
    "files from elsewhere": (5000, files),
    "run folders": (2000, damages),
    "answers, labels, lists, boards, monitors": (500, other_folders),
    "prepared datasets and caches": (1000, caches),
    "full disks and outputs": (300, full_disks),
    "systems and services": (360, hostile),
}
"""What is tried, how often in a whole run, and by what."""


def table(rows: Iterable[tuple[str, Mapping[str, int]]]) -> str:
    """The table of the docs."""
    lines = [f"| what | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    for name, found in rows:
        cells = " | ".join(f"{found.get(column, 0):,}" for column in COLUMNS)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def main() -> int:
    """Try, print, and give status 1 where something did not survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[*KINDS], help=", ".join(KINDS))
    parser.add_argument("--share", type=float, default=1.0, help="of the whole (1.0)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.RLIM_INFINITY))
    rows, bad = [], 0
    for name in options.kinds:
        most, tries = KINDS[name]
        found, wrong = tries(max(1, round(most * options.share)), options.seed)
        rows.append((name, found))
        print(f"{name}: {dict(found)}", *wrong, sep="\n  ", flush=True)
        bad += len(wrong)
    print(table(rows))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
