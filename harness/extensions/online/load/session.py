"""Options, retriever and result file of load and lag measurements."""

from __future__ import annotations

import argparse
import inspect
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.cli.options import (
    add_options,
    add_param,
    add_view,
    parameters,
    prices,
    retriever_spec,
    view_arguments,
)
from harness.cli.output import add_output
from harness.cli.timeout import seconds
from harness.errors import UsageError
from harness.io.files import disk_errors
from harness.io.plugins import preserve_process_state
from harness.io.records import Output, write_json_record
from harness.runs.settings import Settings

if TYPE_CHECKING:
    from harness.runs.request import RunRequest
    from harness.runs.usage import RunUsage


def add_system(parser: argparse.ArgumentParser, folder: str, *settings: str) -> None:
    """Adds the options of the dataset, the retriever and the output; `settings` are of a run."""
    parser.add_argument("--dataset", metavar="NAME", required=True, help="name of a dataset")
    parser.add_argument(
        "--retriever", metavar="NAME", required=True, help="a retriever, as for `harness run`"
    )
    add_param(parser)
    add_view(parser)
    add_options(parser, Settings, only=("k", "seed", *settings))
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default=folder,
        help=f"folder for the file of the result (default: {folder})",
    )
    add_output(parser)


def request_of(options: argparse.Namespace) -> RunRequest:
    """Opens the dataset and builds the retriever. Raises UsageError as `harness run`."""
    from harness.datasets.registry import open_dataset
    from harness.runs.request import RunRequest

    given: dict[str, Any] = {}
    for name in ("k", "seed", "query_timeout", "index_timeout", "prices", "max_usd"):
        if (value := getattr(options, name, None)) is not None:
            given[name] = value
    for name in {"query_timeout", "index_timeout"} & {*given}:
        given[name] = seconds(given[name], name.replace("_", "-"))
    if "prices" in given:
        given["prices"] = prices(given["prices"])
    settings = Settings(**given)
    spec = retriever_spec(options, options.retriever, parameters(options.param))
    spec.check()
    dataset = open_dataset(options.dataset, **view_arguments(options))
    with preserve_process_state():
        return RunRequest.create(dataset, spec, settings, Path(options.out))


def endless_usage(settings: Settings, haystack: int, clients: int) -> RunUsage:
    """Returns the sum of costs of a measurement whose number of searches is not known before."""
    from harness.runs.results import WorkItem
    from harness.runs.usage import Budget, RunUsage

    # Its queries are never finished, so the limit holds until the end.
    item = WorkItem(0, haystack, cast("list[int]", range(1 << 62)))
    return RunUsage(Budget(settings.max_usd), settings.prices, [], [item], (1, clients), 0)


def is_concurrent(request: RunRequest) -> bool:
    """Tests whether several threads may call `search`: it is thread_safe, or asynchronous.

    Calls of an asynchronous one run in one event loop; with a query timeout, one at a time.
    """
    built: Any = request.built
    if getattr(built, "thread_safe", False):
        return True
    return inspect.iscoroutinefunction(built.search) and not request.settings.limits.in_time


def at_least(option: str, value: float, least: float) -> None:
    """Raises UsageError for an option below its minimum, or not above 0 if that is 0."""
    if value < least or value == 0:
        bound = "above 0" if least == 0 else f"{least:g} or more"
        raise UsageError(f"{option} must be {bound}, not {value:g}")


@dataclass(frozen=True)
class ResultFile:
    """The file of a result, named by system, dataset and time."""

    path: Path
    started: str

    @classmethod
    def create(cls, options: argparse.Namespace, request: RunRequest) -> ResultFile:
        """Names the file and creates its folder. Raises UsageError if that cannot be written."""
        now = datetime.now(UTC)
        system = request.about.name.rpartition("/")[2]
        words = f"{system}-{request.dataset.name}-{now:%Y%m%dT%H%M%S%f}"
        folder = Path(options.out)
        with disk_errors(folder, "name another folder with --out"):
            folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.-]+", "-", words)
        return cls(folder / f"{name}.json", now.isoformat(timespec="seconds"))

    def write(self, output: Output) -> None:
        """Writes the result, atomically."""
        with disk_errors(self.path.parent, "name another folder with --out"):
            write_json_record(self.path, output)
