"""Datasets x systems from one TOML file: every pair is a run, whose failure ends no other.

Options at the top are for all. Each `[[datasets]]` and `[[retrievers]]` table has options of
`harness run` too, and goes over them; `only = ["locomo"]` keeps a retriever to some datasets, and
`name = "mine"` is what the history calls one. `[nightly]` says where the history is kept. A
`[[published]]` table takes in what a project published, and stands on the same board.
"""

from __future__ import annotations

import argparse
import copy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.config import apply_table, read_config
from harness.cli.published import of_config
from harness.errors import HarnessError, RunError, UsageError
from harness.runs.folder.run_folder import empty_haystacks

if TYPE_CHECKING:
    from harness.records.run import RunRecord
    from harness.records.scores import MetricResult, ScoreReport
    from harness.testing.nightly.nightly_run import NightlyRun
    from harness.testing.nightly.plan import Plan


@dataclass(frozen=True)
class Done:
    """One run of a suite: `report` is None where it failed, and `failure` says why.

    `empty` says in which haystacks nothing was found, unless that is allowed.
    """

    dataset: str
    retriever: str
    folder: Path | None
    report: ScoreReport | None
    record: RunRecord | None
    failure: str = ""
    empty: str = ""


def is_suite(path: str) -> bool:
    """Whether a config lists datasets or retrievers, or has a `[nightly]` table."""
    values = read_config(Path(path))
    return any(name in values for name in ("datasets", "retrievers", "nightly", "published"))


def nightly(options: argparse.Namespace, path: str) -> Plan | None:
    """Where the history of a list is kept, and when a drop fails it; None: there is none.

    Raises UsageError for a `[nightly]` table that is not as it must be.
    """
    from harness.testing.nightly.plan import read_plan

    values = read_config(Path(path))
    out = options.out or values.get("out") or "results"
    return read_plan(Path(path), values.get("nightly", {}), str(out))


def expand(options: argparse.Namespace, path: str, known: set[str]) -> list[argparse.Namespace]:
    """The options of every run in the file, datasets outermost; the command line wins.

    `series` of each are the names by which it is known from night to night. Raises UsageError for
    anything that is not as it must be, before anything is run.
    """
    file = Path(path)
    values = read_config(file)
    values.pop("nightly", None)
    published = values.pop("published", [])
    systems = {"datasets", "retrievers", "dataset", "retriever"}
    for_all = {key: value for key, value in values.items() if key not in systems}
    from_elsewhere = of_config(options, file, published, for_all, known)
    if from_elsewhere and not systems & set(values):
        return from_elsewhere
    datasets, retrievers = (
        _tables(file, values.pop(n, None), n) for n in ("datasets", "retrievers")
    )
    _refuse_unheard(file, values, datasets, retrievers)
    for kind, tables in (("dataset", datasets), ("retriever", retrievers)):
        if getattr(options, kind) and any(kind in table for table in tables):
            raise UsageError(
                f"--{kind} would go over the [[{kind}s]] of {file}, whose names stand in tables "
                f"and in the history: leave it out, or name a config without [[{kind}s]]"
            )
    names = {str(table.get("dataset")) for table in datasets}
    called = [
        _called(file, tables, options, values, kind)
        for tables, kind in ((datasets, "dataset"), (retrievers, "retriever"))
    ]
    runs: list[argparse.Namespace] = []
    taken: set[tuple[str, str]] = set()
    for dataset, first in zip(datasets, called[0], strict=True):
        for table, second in zip(retrievers, called[1], strict=True):
            only = table.get("only", [])
            if not isinstance(only, list) or set(only) - names:
                raise UsageError(
                    f"--config {file}: only = {only!r} must list datasets of this file: "
                    f"{', '.join(sorted(names))}"
                )
            if only and dataset.get("dataset") not in only:
                continue
            one = copy.copy(options)
            # What is filled first stays: the command line, then what is most particular.
            for part in (table, dataset, values):
                own = {key: value for key, value in part.items() if key not in ("only", "name")}
                apply_table(one, file, own, known)
            one.series = (first, second)
            one.name = table.get("name")
            if one.series in taken:
                raise UsageError(
                    f"--config {file}: {second} on {first} is in the list twice; give each a "
                    "name of its own: name = ..."
                )
            taken.add(one.series)
            runs.append(one)
    if any(table.get("only") == [] for table in retrievers):
        raise UsageError(
            f"--config {file}: only = [] names no dataset; leave it, or the table, out"
        )
    return [*runs, *from_elsewhere]


def _refuse_unheard(
    file: Path,
    values: dict[str, object],
    datasets: list[dict[str, object]],
    retrievers: list[dict[str, object]],
) -> None:
    """Raises UsageError for a key that would have no effect where it stands."""

    def refuse(key: str, where: str, why: str) -> None:
        raise UsageError(f"--config {file}: {key} {where} {why}")

    for key in ("name", "only"):
        if key in values:
            refuse(key, "at the top", "is of one [[retrievers]] table; write it there")
    for kind, mine, others in (
        ("dataset", datasets, retrievers),
        ("retriever", retrievers, datasets),
    ):
        if isinstance(values.get(kind), str) and all(kind in table for table in mine):
            refuse(kind, "at the top", f"is used by none: every [[{kind}s]] table has its own")
        if any(kind in table for table in others) and any(kind in table for table in mine):
            other = "retrievers" if kind == "dataset" else "datasets"
            refuse(kind, f"in [[{other}]]", f"would go over the [[{kind}s]]; write it there alone")
    if any("only" in table for table in datasets):
        refuse(
            "only", "in [[datasets]]", "keeps a retriever to datasets; write it in [[retrievers]]"
        )


def _called(
    file: Path,
    tables: list[dict[str, object]],
    options: argparse.Namespace,
    values: dict[str, object],
    kind: str,
) -> list[str]:
    """What each table's dataset or retriever is called in tables and in the history."""
    from harness.testing.nightly.plan import labels

    for table in tables:
        name = table.get("name", "x")
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"--config {file}: name must be a text, not {name!r}")
    given = [getattr(options, kind) or t.get(kind) or values.get(kind) or "" for t in tables]
    bases = [Path(str(one)).name if kind == "retriever" else str(one) for one in given]
    return labels(tables, bases)


def _tables(file: Path, found: object, name: str) -> list[dict[str, object]]:
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
    run_one: Callable[[argparse.Namespace], tuple[Path, ScoreReport, RunRecord]],
    night: NightlyRun | None = None,
) -> list[Done]:
    """Run one after the other, a line each on stderr; what fails is kept, and the rest goes on.

    `night` is told of each as soon as it is done.
    """
    done = []
    for number, options in enumerate(runs, 1):
        dataset, system = options.series
        title = f"[{number}/{len(runs)}] {system} on {dataset}"
        if not options.quiet:
            print(title, file=sys.stderr, flush=True)
        try:
            folder, report, record = run_one(options)
            if night is not None and not options.published:
                if options.resume and night.is_of_another_night(folder, record):
                    options = copy.copy(options)
                    options.resume = False  # a run that an earlier list measured is measured again
                    folder, report, record = run_one(options)
                _tell(night, options, folder, report)
        except Exception as error:  # the rest of the list goes on
            why = str(error).splitlines()[0] if isinstance(error, HarnessError) else repr(error)
            if not isinstance(error, HarnessError):
                traceback.print_exc()
            print(f"harness: {title}: {error}", file=sys.stderr, flush=True)
            if night is not None and not options.published:
                night.add_failure(options.series, error)
            done.append(Done(dataset, system, None, None, None, why))
            continue
        empty = "" if options.allow_empty else empty_haystacks(record.empty_haystacks)
        if empty:
            print(f"harness: {title}: {empty}", file=sys.stderr, flush=True)
        done.append(Done(dataset, system, folder, report, record, empty=empty))
    return done


def _tell(
    night: NightlyRun, options: argparse.Namespace, folder: Path, report: ScoreReport
) -> None:
    """The protocol that is followed over time is the one that the table shows."""
    from harness.cli.options import scoring_choices
    from harness.scoring.scores import main_protocol

    main = main_protocol(report.protocols)
    if main is None:
        raise RunError(f"{folder}: no protocol fits the dataset, so nothing was scored")
    asked = [str(metric) for metric in scoring_choices(options).metrics]
    night.add_run(options.series, folder, (main.protocol, main.level), asked)


def status(done: list[Done]) -> int:
    """1 where a run failed, some of its queries did, or a haystack came out empty."""
    return int(any(one.record is None or one.record.queries.failed or one.empty for one in done))


def table(done: list[Done], asked: Sequence[str] = ()) -> str:
    """One line a run: its leading metrics over everything scored, then those asked for, its times.

    Of `asked`, `@5` is every leading metric at that cut-off.
    """
    from harness.cli.options import of_kinds
    from harness.scoring.grid import grid
    from harness.scoring.scores import MAIN, main_metrics, main_protocol

    mains = [main_protocol(one.report.protocols) if one.report else None for one in done]
    found = [main.overall if main else {} for main in mains]
    more = of_kinds(asked, (name.partition("@")[0] for name in MAIN))
    metrics = (
        list(dict.fromkeys(m for results in found for m in main_metrics(results, more))) or MAIN
    )
    lines = []
    for one, results in zip(done, found, strict=True):
        line: list[Any] = [one.dataset, one.retriever]
        if one.report is None or one.record is None:
            lines.append([*line, "failed", "", *("-" for _ in metrics), "-", "-"])
            continue
        values = [results[m].value if m in results else None for m in metrics]
        measured = one.record.measured
        index, search = (measured.index, measured.search_ms) if measured else (None, None)
        lines.append(
            [
                *line,
                one.report.dataset.granularity,
                max((result.n for result in results.values()), default=0),
                *("-" if value is None else f"{value:.4f}" for value in values),
                "-" if index is None else f"{index.seconds:.1f}",
                "-" if search is None else f"{search.p50:.1f}",
            ]
        )
    headers = ["dataset", "system", "level", "n", *metrics, "index s", "p50 ms"]
    return grid(lines, headers, keys=2) + "".join(_answered_only(done, found, metrics))


def _answered_only(
    done: Sequence[Done], found: Sequence[Mapping[str, MetricResult]], metrics: Sequence[str]
) -> Iterator[str]:
    """A line for each run in which queries failed: its means over the others."""
    for one, results in zip(done, found, strict=True):
        values = {
            m: answered
            for m in metrics
            if m in results and (answered := results[m].answered_only) is not None
        }
        if values and one.record is not None:
            said = ", ".join(
                f"{m} {'-' if v.value is None else format(v.value, '.4f')} ({v.n})"
                for m, v in values.items()
            )
            failed = one.record.queries.failed
            yield (
                f"\n{one.retriever} on {one.dataset}: {failed} queries failed and count 0; "
                f"answered only: {said}"
            )
