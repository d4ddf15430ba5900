"""Datasets x systems from one TOML file: every pair is a run, whose failure ends no other.

Options at the top are for all. Each `[[datasets]]` and `[[retrievers]]` table has options of
`harness run` too, and goes over them; `only = ["locomo"]` keeps a retriever to some datasets.
"""

from __future__ import annotations

import argparse
import copy
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cli.config import apply_table, read_config
from harness.errors import HarnessError, UsageError


@dataclass(frozen=True)
class Done:
    """One run of a suite: `summary` is None where it failed, and `failure` says why."""

    dataset: str
    retriever: str
    folder: Path | None
    summary: dict[str, Any] | None
    record: dict[str, Any] | None
    failure: str = ""


def is_suite(path: str) -> bool:
    """Whether a config lists datasets or retrievers."""
    values = read_config(Path(path))
    return "datasets" in values or "retrievers" in values


def expand(options: argparse.Namespace, path: str, known: set[str]) -> list[argparse.Namespace]:
    """The options of every run in the file, datasets outermost; the command line wins.

    Raises UsageError for anything that is not as it must be, before anything is run.
    """
    file = Path(path)
    values = read_config(file)
    datasets, retrievers = (
        _tables(file, values.pop(n, None), n) for n in ("datasets", "retrievers")
    )
    names = {str(table.get("dataset")) for table in datasets}
    runs = []
    for dataset in datasets:
        for table in retrievers:
            only = table.get("only", [])
            unknown = set(only) - names if isinstance(only, list) else {"only"}
            if unknown:
                raise UsageError(
                    f"--config {file}: only = {only!r} must list datasets of this file: "
                    f"{', '.join(sorted(names))}"
                )
            if only and dataset.get("dataset") not in only:
                continue
            one = copy.copy(options)
            own = {key: value for key, value in table.items() if key != "only"}
            # What is filled first stays: the command line, then what is most particular.
            for part in (own, dataset, values):
                apply_table(one, file, part, known)
            runs.append(one)
    return runs


def _tables(file: Path, found: Any, name: str) -> list[dict[str, Any]]:
    """`[[name]]`; one table without anything where the file has none."""
    if found is None:
        return [{}]
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        raise UsageError(f"--config {file}: {name} must be tables: [[{name}]]")
    if not found:
        raise UsageError(f"--config {file}: {name} lists nothing")
    return found


def run_all(
    runs: list[argparse.Namespace],
    run_one: Callable[[argparse.Namespace], tuple[Path, dict[str, Any], dict[str, Any]]],
) -> list[Done]:
    """Run one after the other, a line each on stderr; what fails is kept, and the rest goes on."""
    done = []
    for number, options in enumerate(runs, 1):
        name = Path(options.retriever).name
        title = f"[{number}/{len(runs)}] {name} on {options.dataset}"
        print(title, file=sys.stderr, flush=True)
        try:
            folder, summary, record = run_one(options)
        except Exception as error:  # the rest of the list goes on
            why = str(error).splitlines()[0] if isinstance(error, HarnessError) else repr(error)
            if not isinstance(error, HarnessError):
                traceback.print_exc()
            print(f"harness: {title}: {error}", file=sys.stderr, flush=True)
            done.append(Done(options.dataset, name, None, None, None, why))
            continue
        done.append(Done(options.dataset, name, folder, summary, record))
    return done


def status(done: list[Done]) -> int:
    """1 where a run failed, or some of its queries did."""
    return int(any(one.record is None or one.record["queries"]["failed"] for one in done))


def table(done: list[Done]) -> str:
    """One line a run: its leading metrics over everything scored, and its times."""
    from tabulate import tabulate

    from harness.cli.tables import main_block

    shown = ("recall@10", "hit@10", "ndcg@10", "mrr@10")
    lines = []
    for one in done:
        line: list[Any] = [one.dataset, one.retriever]
        if one.summary is None or one.record is None:
            lines.append([*line, "failed", "", *("-" for _ in shown), "-", "-"])
            continue
        block = main_block(one.summary["protocols"])
        cells = block["slices"].get("all", {}).get("metrics", {}) if block else {}
        values = [cells.get(metric, {}).get("value") for metric in shown]
        measured = one.record.get("measured", {})
        index = measured.get("index", {}).get("seconds")
        search = (measured.get("search_ms") or {}).get("p50")
        lines.append(
            [
                *line,
                one.summary["dataset"]["granularity"],
                max((cell["n"] for cell in cells.values()), default=0),
                *("-" if value is None else f"{value:.4f}" for value in values),
                "-" if index is None else f"{index:.1f}",
                "-" if search is None else f"{search:.1f}",
            ]
        )
    headers = ["dataset", "system", "unit", "n", *shown, "index s", "p50 ms"]
    return str(tabulate(lines, headers, disable_numparse=True))
