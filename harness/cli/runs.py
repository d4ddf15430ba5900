"""List, show, verify, rename, archive and remove runs.

Without a command: list the runs, newest first. RUN is a folder, a name (mine, mine@locomo), an id,
or a unique prefix of one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.cli.options import add_inner, add_results, run_folder
from harness.cli.output import add_output, emit, print_json
from harness.errors import UsageError
from harness.io.records import Output, OutputPart
from harness.records.run import RunRecord

if TYPE_CHECKING:
    from harness.runs.folder.listing import ListedRun


class RunRow(OutputPart):
    """A run in a list. `metric` is its main one, empty if it is not scored.

    If queries failed, `answered_only` is the mean over the `answered` ones. `reason` is the error
    of a broken run.
    """

    folder: str
    id: str
    name: str
    system: str
    dataset: str
    granularity: str
    state: Literal["done", "running", "stopped", "failed", "broken"]
    when: str
    queries: int
    done: int
    failed: int
    metric: str
    value: float | None
    low: float | None
    high: float | None
    answered_only: float | None
    answered: int | None
    commit: str
    reason: str


class RunsOutput(Output, tag="harness.runs/1"):
    """harness runs."""

    runs: list[RunRow]


class RunDetails(RunRow):
    """A run with its run.json, and the folders of its previous versions."""

    record: RunRecord
    previous: list[str]


class RunsShowOutput(Output, tag="harness.runs-show/1"):
    """harness runs show."""

    run: RunDetails


class RunsDoneOutput(Output, tag="harness.runs-done/1"):
    """harness runs name, archive, unarchive, remove, clear."""

    done: list[dict[str, str]]


class RunDamage(OutputPart):
    """The faults of the files in a run folder."""

    folder: str
    damage: list[str]


class RunsVerifyOutput(Output, tag="harness.runs-verify/1"):
    """harness runs verify."""

    runs: list[RunDamage]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("--archived", action="store_true", help="list archived runs")
    _add_common(parser)

    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for verb, about, call in (
        ("show", "show the settings and files of a run", call_show),
        ("verify", "check the files of runs against their checksums", call_verify),
        ("name", "rename a run", call_name),
        ("archive", "archive runs: hide them from lists, boards and pages", call_archive),
        ("unarchive", "restore archived runs", call_unarchive),
        ("remove", "delete runs, after a confirmation", call_remove),
        ("clear", "delete files of interrupted runs, after a confirmation", call_clear),
    ):
        one = add_inner(commands, verb, about)
        if verb in ("show", "name"):
            one.add_argument("run", metavar="RUN")
        elif verb != "clear":
            one.add_argument("runs", nargs="*" if verb == "verify" else "+", metavar="RUN")
        if verb == "name":
            one.add_argument("name", metavar="NAME")
        if verb in ("remove", "clear"):
            one.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        _add_common(one)
        one.set_defaults(call=call)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Prints every run, newest first."""
    from harness.runs.folder.listing import list_runs
    from harness.runs.folder.run_state import remove_empty

    remove_empty(Path(options.results))
    runs = list_runs(Path(options.results), archived=options.archived)
    if options.json:
        print_json(RunsOutput(runs=[RunRow(**_as_dict(run)) for run in runs]))
    elif options.quiet:
        return 0
    elif runs:
        print(_table(runs))
        if dead := sum(run.state in ("stopped", "failed") for run in runs):
            one = "one is" if dead == 1 else f"{dead} are"
            print(
                f"\n{one} not finished: the command that began it continues with --resume, and "
                "`harness runs clear` removes its files"
            )
        for run in runs:
            if run.reason:
                print(f"\n{run.name} is broken: {run.reason}")
    else:
        print(f"no run in {options.results}")
    return 0


def _table(runs: Sequence[ListedRun]) -> str:
    from harness.cli.run_summary_lines import ends
    from harness.io.terminal import grid

    rows = []
    for run in runs:
        interval = ""
        if run.low is not None and run.high is not None:
            interval = ends(run.low, run.high)
        rows.append(
            [
                run.name,
                run.dataset,
                run.granularity,
                "-" if run.value is None else f"{run.metric} {run.value:.4f}",
                interval,
                _state(run),
                run.when[:16].replace("T", " "),
                run.commit,
                run.id,
            ]
        )
    head = ["run", "dataset", "level", "main number", "95%", "state", "when (UTC)", "code", "id"]
    return grid(rows, head)


def _state(run: ListedRun) -> str:
    if run.state == "done":
        scored = "" if run.value is not None else ", not scored"
        if not run.failed:
            return f"done{scored}"
        only = f", answered only: {run.answered_only:.4f} ({run.answered})"
        return f"done, {run.failed} failed{'' if run.answered_only is None else only}{scored}"
    if run.state == "broken":
        return "broken"
    return f"{run.state} at {run.done} of {run.queries}"


def _as_dict(run: ListedRun) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(run), "folder": str(run.folder), "id": run.id}


def call_show(options: argparse.Namespace) -> int:
    """Prints one run: what it is, the command to repeat it, and the files in its folder."""
    from harness.cli.run_summary_lines import size
    from harness.runs.folder.listing import describe_run
    from harness.runs.folder.run_folder import RunFolder
    from harness.runs.folder.run_state import RunStore
    from harness.scoring.scores import dataset_labels

    folder = run_folder(options, options.run)
    record = RunFolder(folder).record
    about = describe_run(folder, verify=True)
    previous = folder.with_name(f"{folder.name}.previous")
    kept = sorted(str(path) for path in previous.iterdir()) if previous.is_dir() else []
    if options.json:
        values = {**_as_dict(about), "folder": str(folder)}
        print_json(RunsShowOutput(run=RunDetails(**values, record=record, previous=kept)))
    if options.json or options.quiet:
        return 0
    retriever, dataset, git = record.retriever, record.dataset, record.git
    params = ", ".join(f"{k}={v}" for k, v in retriever.params.items())
    code = git.commit if git else "no git checkout"
    lines = {
        "run": record.name,
        "system": f"{retriever.name}{f' ({params})' if params else ''}",
        "version": retriever.version,
        "revision": retriever.revision,
        "files": ", ".join(f"{k} {v[:12]}" for k, v in retriever.files.items()),
        "dataset": f"{dataset.name}  {dataset_labels(dataset)}  data={dataset.fingerprint[:8]}",
        "state": f"{_state(about)}{about.reason and ': '}{about.reason}",
        "main number": f"{about.metric} {about.value:.4f}" if about.value is not None else None,
        "finished": record.finished,
        "submitted by": record.submitted_by,
        "code": f"{code}{', with changes' if git and git.changed else ''}",
        "command": record.command,
        "folder": f"{folder} ({size(sum(p.stat().st_size for p in folder.iterdir()))})",
        "other files": ", ".join(RunStore.of(folder).user_files()),
        "previous": ", ".join(kept),
    }
    for title, text in lines.items():
        if text:
            print(f"{title:12} {text}")
    return 0


def call_verify(options: argparse.Namespace) -> int:
    """Verifies these runs, or all; returns 1 if a file was changed since it was written."""
    from harness.runs.folder.listing import find_damage, list_runs

    folders = [run_folder(options, run) for run in options.runs]
    if not options.runs:
        runs = list_runs(Path(options.results))
        folders = [run.folder for run in runs if run.at_its_end]
    found = [RunDamage(folder=str(folder), damage=find_damage(folder)) for folder in folders]
    if options.json:
        print_json(RunsVerifyOutput(runs=found))
    elif not options.quiet:
        for one in found:
            print(f"{one.folder}: {'damaged' if one.damage else 'whole'}")
        if not found:
            print(f"no run in {options.results}")
    for said in dict.fromkeys(said for one in found for said in one.damage):
        print(f"harness: {said}", file=sys.stderr)
    return 1 if any(one.damage for one in found) else 0


def call_name(options: argparse.Namespace) -> int:
    """Renames a run."""
    from harness.runs.folder.run_folder import rename

    folder = run_folder(options, options.run)
    rename(folder, options.name)
    return _said(options, [{"folder": str(folder), "name": options.name}])


def call_archive(options: argparse.Namespace) -> int:
    """Archives runs."""
    from harness.runs.folder.run_state import RunStore

    results = Path(options.results)
    folders = [run_folder(options, run) for run in options.runs]
    return _said(options, [{"folder": str(RunStore.of(one).archive(results))} for one in folders])


def call_unarchive(options: argparse.Namespace) -> int:
    """Restores archived runs."""
    from harness.runs.folder.listing import find_run
    from harness.runs.folder.run_state import RunStore, archive_of

    results = Path(options.results)
    folders = [find_run(run, archive_of(results)) for run in options.runs]
    return _said(options, [{"folder": str(RunStore.of(one).restore(results))} for one in folders])


def call_remove(options: argparse.Namespace) -> int:
    """Removes runs with all files in their folders, after a confirmation."""
    from harness.runs.folder.run_state import RunStore, require_run

    folders = [run_folder(options, run) for run in options.runs]
    for folder in folders:
        require_run(folder)
    for folder in folders if not (options.yes and options.quiet) else ():
        found = RunStore.of(folder).user_files()
        theirs = f", and in it {', '.join(found)}" if found else ""
        print(f"{folder}{theirs}", file=sys.stderr)
    if not _agreed(options, "remove for good"):
        return 1
    for folder in folders:
        RunStore.of(folder).remove()
    return _said(options, [{"removed": str(folder)} for folder in folders])


def call_clear(options: argparse.Namespace) -> int:
    """Removes what stopped runs left, after a confirmation."""
    from harness.runs.folder.listing import clear, leftovers

    results = Path(options.results)
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    found = list(leftovers(results))
    for folder in found if not (options.yes and options.quiet) else ():
        print(folder, file=sys.stderr)
    if found and not _agreed(options, "remove"):
        return 1
    for folder in found:
        clear(folder)
    if not found and not options.quiet and not options.json:
        print(f"nothing is left over in {results}")
    return _said(options, [{"removed": str(folder)} for folder in found])


def _agreed(options: argparse.Namespace, what: str) -> bool:
    """Asks for a confirmation. Raises UsageError if stdin is not a terminal."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"cannot ask for confirmation to {what}: not a terminal; add --yes")
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _said(options: argparse.Namespace, done: list[dict[str, str]]) -> int:
    lines = [", ".join(f"{key} {value}" for key, value in one.items()) for one in done]
    return emit(options, RunsDoneOutput(done=done), "\n".join(lines))
