"""The runs below a results folder, finished or not, and which of them a name stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import read_json
from harness.runs.folder.run_folder import (
    RUN_AGAIN,
    RUN_VERSION,
    RunFolder,
    called,
    read_scores,
    scores_by_query,
)
from harness.scoring.scores import all_cells, main_block, main_metrics
from harness.seals import SEAL, check_file, read_sealed

ARCHIVE = "archive"
"""The folder below the results that holds archived runs; no list looks into it."""


@dataclass(frozen=True)
class ListedRun:
    """A run in a list.

    `name` is what it is called, `id` the digest at the end of its folder's name. `state` is done,
    running, stopped, failed (no query was answered) or broken (its files cannot be read, finished
    or not, and `why` says what is the matter with them). `when` is when it was finished, or begun
    where it is not. `metric` is its main one, over everything, with value and interval; empty where
    it was not scored. Where queries failed, `answered_only` is its mean over the `answered` ones.
    `commit` is that of the folder it was run in, with a + where that had
    changes.
    """

    folder: Path
    name: str
    system: str
    dataset: str
    granularity: str
    state: str
    when: str
    queries: int
    done: int
    failed: int
    metric: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    answered_only: float | None = None
    answered: int | None = None
    commit: str = ""
    why: str = ""

    @property
    def id(self) -> str:
        """The digest of its settings, data and code: the end of its folder's name."""
        return self.folder_name.rpartition("-")[2]

    @property
    def folder_name(self) -> str:
        """The folder's name; of an unfinished run the one that it will have."""
        return self.folder.name.removeprefix(".").removesuffix(".tmp")

    @property
    def at_its_end(self) -> bool:
        """Whether it is finished, going by its folder's name; it may be broken all the same."""
        return not self.folder.name.startswith(".")

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that it may be called by, or by the beginning of."""
        return (self.name, f"{self.name}@{self.dataset}", self.folder_name, self.id)


def list_runs(results: Path, *, archived: bool = False, numbers: bool = True) -> list[ListedRun]:
    """Runs below `results`, the newest first; with `archived` those in the archive.

    Without `numbers` no scores are read, which are most of what there is to read.

    Raises UsageError where there is no such folder.
    """
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    if archived:
        results = results / ARCHIVE
    found = [listed(path.parent, numbers=numbers) for path in results.glob("[!.]*/run.json")]
    found += unfinished(results)
    return sorted(found, key=lambda run: (run.when, run.folder_name), reverse=True)


@dataclass
class Journal:
    """What stands in the journal of an unfinished run, read on from where it was read before.

    `units` has of each query whether it failed; a unit that is run again takes the other's place.
    """

    offset: int = 0
    queries: dict[int, bool] = field(default_factory=dict)

    def read(self, path: Path) -> list[bool]:
        """Of each query that was answered whether it failed; a half line is left for later.

        Raises UsageError for a line that is JSON and no unit.
        """
        import orjson

        size = path.stat().st_size if path.is_file() else 0
        if size < self.offset:  # it was begun again
            self.offset, self.queries = 0, {}
        if size > self.offset:
            with open(path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            for line in whole.splitlines():
                try:
                    unit = orjson.loads(line)
                except orjson.JSONDecodeError:
                    break
                try:
                    for answer in unit["answers"]:
                        self.queries[answer["query"]] = answer["error"] is not None
                except (LookupError, TypeError) as error:
                    raise UsageError(_not_ours(path, error)) from None
            self.offset += len(whole)
        return [*self.queries.values()]


def unfinished(results: Path, journals: dict[Path, Journal] | None = None) -> list[ListedRun]:
    """Runs below `results` that are not at their end, whether a process is at them or not.

    `journals` keeps how far each was read, for who asks again and again.
    """
    journals = {} if journals is None else journals
    plans = sorted(results.glob(".*.tmp/plan.json"))
    for gone in journals.keys() - {plan.parent for plan in plans}:
        del journals[gone]
    found = []
    for plan in plans:
        try:
            found.append(_unfinished(plan.parent, journals.setdefault(plan.parent, Journal())))
        except FileNotFoundError:  # it has just been finished
            continue
        except _BROKEN as error:
            if plan.exists():
                found.append(_broken(plan.parent, plan, error))
    return found


def find_run(given: str, results: Path, what: str = "run folder") -> Path:
    """The run folder that `given` stands for: a path, or a name or a unique beginning of one.

    A name is looked for below `results`: what a run is called (`mine`, `mine@locomo`), its folder's
    name, or its id. A path that there is not is given back as it is. Raises UsageError for a name
    that is nothing of it, or of several runs.
    """
    if Path(given).exists():
        return Path(given)
    runs = list_runs(results, numbers=False) if results.is_dir() else []
    runs = [run for run in runs if run.at_its_end]
    meant = [run for run in runs if given in run.names]
    meant = meant or [run for run in runs if given == f"{run.system}@{run.dataset}"]
    meant = meant or [run for run in runs if any(one.startswith(given) for one in run.names)]
    if len(meant) == 1:
        return meant[0].folder
    if meant:
        told = [f"{run.folder_name} ({run.when[:16].replace('T', ' ')})" for run in meant[:5]]
        more = f"; and {len(meant) - 5} more" if len(meant) > 5 else ""
        raise UsageError(
            f"{given}: {len(meant)} runs in {results} are called so or begin so; name one by more "
            f"of its folder: {'; '.join(told)}{more}"
        )
    _refuse_unfinished(given, results)
    if "/" in given:  # meant as a path, of which whoever reads it says more
        return Path(given)
    close = near(given, sorted({name for run in runs for name in (run.name, run.folder_name)}))
    if not close.startswith("; did"):
        close = "; `harness runs` lists those there are" if runs else ""
    raise UsageError(
        f"{given}: no such {what}, and no run in {results} is called so{close}; --results "
        "names another folder with runs"
    )


def _refuse_unfinished(given: str, results: Path) -> None:
    """Raises UsageError where a run of that name is not finished, or is archived."""
    if not results.is_dir():
        return
    for run in unfinished(results):
        if given in run.names:
            todo = {
                "running": "wait for it",
                "stopped": "the same command with --resume goes on, `harness runs clear` removes "
                "what there is",
                "failed": f"its errors are in {run.folder / 'errors.jsonl'}, `harness runs clear` "
                "removes it",
            }
            if run.state == "broken":
                raise UsageError(
                    f"{given}: is not finished, and what there is of it is broken: {run.why}; "
                    "`harness runs clear` removes it"
                )
            raise UsageError(
                f"{given}: is {run.state} at {run.done} of {run.queries} queries, so there is no "
                f"run to read yet; {todo[run.state]}"
            )
    away = list_runs(results, archived=True, numbers=False)
    if any(given in run.names for run in away):
        raise UsageError(f"{given}: is archived; `harness runs unarchive {given}` restores it")


def is_running(partial: Path) -> bool:
    """Whether a process is at the run that this folder is kept by."""
    from filelock import FileLock, Timeout

    if not (partial / "lock").is_file():  # to take it would make it, and its folder
        return False
    try:
        with FileLock(partial / "lock", timeout=0):
            return False
    except Timeout:
        return True


def listed(folder: Path, *, numbers: bool = True) -> ListedRun:
    """A finished run as it stands in a list; `broken` where its files cannot be read."""
    try:
        record = read_sealed(folder / "run.json")
        if record.get("run_version") != RUN_VERSION:
            raise UsageError(f"{folder}: not a run folder of this version of the harness")
        scores = folder / "scores.json"
        main = _main(read_scores(folder, record)) if numbers and scores.is_file() else {}
        queries = record["queries"]
        git = record.get("git") or {}
        changed = "+" if git.get("changed") else ""
        return _in_shape(
            folder,
            called(record),
            record["retriever"]["name"],
            record["dataset"]["name"],
            record["dataset"]["granularity"],
            "done",
            record["finished"],
            queries["asked"],
            queries["asked"],
            queries["failed"],
            commit=f"{git['commit'][:7]}{changed}" if git.get("commit") else "",
            **main,
        )
    except _BROKEN as error:
        return _broken(folder, folder / "run.json", error)


_BROKEN = (UsageError, LookupError, TypeError, ValueError, AttributeError)
"""What reading a record of another shape raises."""


def _broken(folder: Path, record: Path, error: Exception) -> ListedRun:
    """A run of which `record` cannot be read, or what lies beside it."""
    when = datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="seconds")
    name = folder.name.removeprefix(".").removesuffix(".tmp")
    why = str(error) if isinstance(error, UsageError) else _not_ours(record, error)
    return ListedRun(folder, name, "", "", "", "broken", when, 0, 0, 0, why=why)


def _not_ours(path: Path, error: Exception) -> str:
    return f"{path}: is not as the harness writes it ({error!r})"


_KINDS: dict[str, tuple[type, ...]] = {
    "Path": (Path,),
    "str": (str,),
    "int": (int,),
    "float | None": (float, int, type(None)),
    "int | None": (int, type(None)),
}


def _in_shape(*values: Any, **more: Any) -> ListedRun:
    """A run of the values that its files have. Raises TypeError where one is of another kind."""
    run = ListedRun(*values, **more)
    for one in fields(run):
        value = getattr(run, one.name)
        if isinstance(value, bool) or not isinstance(value, _KINDS[str(one.type)]):
            raise TypeError(f"{one.name} is {value!r:.60}")
    return run


def _main(scores: dict[str, Any]) -> dict[str, Any]:
    """The number that a run is known by, and its interval."""
    block = main_block(scores["protocols"])
    cells = all_cells(block) if block else {}
    metric = next(iter(main_metrics(cells)), None)
    if metric is None:
        return {}
    interval = cells[metric].get("interval") or {}
    return {
        "metric": metric,
        "value": cells[metric]["value"],
        "low": interval.get("low"),
        "high": interval.get("high"),
        "answered_only": (answered := cells[metric].get("answered_only") or {}).get("value"),
        "answered": answered.get("n"),
    }


def _unfinished(partial: Path, journal: Journal) -> ListedRun:
    when = datetime.fromtimestamp((partial / "plan.json").stat().st_mtime, UTC)
    plan = read_json(partial / "plan.json")
    begun = partial / "begun.json"
    said = read_json(begun) if begun.is_file() else {}
    for path, value in ((partial / "plan.json", plan), (begun, said)):
        if not isinstance(value, dict):
            raise UsageError(f"{path}: a JSON object was expected")
    answers = journal.read(partial / "journal.jsonl")
    state = "failed" if (partial / "errors.jsonl").is_file() else "stopped"
    system = said.get("system") or plan["retriever"]["name"]
    return _in_shape(
        partial,
        said.get("name") or system,
        system,
        said.get("dataset", ""),
        said.get("granularity", ""),
        "running" if is_running(partial) else state,
        said.get("begun") or when.isoformat(timespec="seconds"),
        plan["queries"],
        len(answers),
        sum(answers),
    )


def damage(folder: Path) -> list[str]:
    """What is wrong with a run's sealed files, a line each; empty where all are as they were
    written: rankings, queries, hits, answers, scores, and what belongs to them."""
    told = []

    def held(check: Callable[[], Any]) -> Any:
        try:
            return check()
        except UsageError as error:
            told.append(str(error))

    if (record := held(lambda: RunFolder(folder).record)) is None:
        return told
    if SEAL not in record:
        told.append(f"{folder / 'run.json'}: has no seal, so nothing can be held against it")
    for name in record.get(SEAL, {}).get("files", {}):
        held(partial(check_file, folder / name, record, RUN_AGAIN))
    if (folder / "scores.json").is_file():
        scores = held(lambda: read_scores(folder, record)) or {}
        for name in scores.get(SEAL, {}).get("files", {}):
            held(partial(scores_by_query, folder, scores, name))
    return told
