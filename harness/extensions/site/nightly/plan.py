"""The `[nightly]` table of a list of runs, and what the list calls its datasets and systems.

[nightly]
history = "results/nightly"    # folder of history and summary; default: `out`; false: neither
max_drop = 0.02                # a main metric that falls by more, and significantly, fails it:
                               # status 1; 2 where no drop could have been shown, as at a gate
alpha = 0.05                   # for all tests of a night together (Holm)
cluster_by = "auto"            # what is independent: haystacks, queries, auto
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from harness.errors import UsageError
from harness.io.records import Record, convert


@dataclass(frozen=True)
class Plan:
    """`folder` holds history and summary; `max_drop` None: no drop fails the list."""

    folder: Path
    max_drop: float | None = None
    alpha: float = 0.05
    cluster_by: str = "auto"


class NightlyTable(Record):
    """The `[nightly]` table; `history` false: no history is kept, empty: in the folder of runs."""

    history: str | Literal[False] = ""
    max_drop: Annotated[float, Meta(ge=0, lt=1)] | None = None
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    cluster_by: Literal["auto", "haystacks", "queries"] = "auto"


def read_plan(file: Path, table: object, out: str) -> Plan | None:
    """Reads the table of a config; `out` is the folder of the runs. None: no history is kept.

    Raises UsageError for unknown keys and values of the wrong kind.
    """
    where = f"--config {file}: [nightly]"
    found = convert(table, NightlyTable, where)
    if found.history is not False:
        return Plan(Path(found.history or out), found.max_drop, found.alpha, found.cluster_by)
    if found != NightlyTable(history=False):
        raise UsageError(
            f"{where}: history = false keeps nothing that a last time could be compared with; "
            "leave it, or the other keys, out"
        )
    return None
