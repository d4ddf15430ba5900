"""MTEB tasks: LMEB's from a table, others from the installed mteb or by repository.

A name is a task name (`LoCoMo`; for LMEB also `LMEB-LoCoMo`) or a repository on the hub
(`OWNER/NAME@REVISION`). The suffix `:SUBSET` selects one subset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from harness.errors import UsageError, suggest
from harness.io.packages import install_command
from harness.io.records import Record, read_toml_record
from harness.schema import Ability

_TABLE = Path(__file__).with_name("tasks.toml")
_PREFIX = "LMEB"
_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})")
_NAME = re.compile(r"[^\W_][\w.+-]{0,95}")
_READING = ("load_data", "dataset_transform")
_SPLITS = ("test", "dev", "validation", "train")


@dataclass(frozen=True)
class Task:
    """Metadata of a task, known before its files are.

    `repository` is on the hub, at the commit `revision`, and empty for local files. `subsets` are
    those that MTEB evaluates; empty means all in the files. `abilities` apply to subsets that name
    one. `languages` are the known ones, over all subsets.
    """

    name: str
    about: str
    licence: str
    repository: str = ""
    revision: str = ""
    splits: tuple[str, ...] = _SPLITS
    subsets: tuple[str, ...] = ()
    abilities: Mapping[str, Ability] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    ignore_identical_ids: bool = False


def listed() -> Iterator[Task]:
    """Returns the tasks of LMEB, in its order."""
    return iter(_table().values())


def find(name: str) -> Task | None:
    """Finds the task called `name`; an unknown name gives a task without a repository.

    Returns None for an invalid name. Raises UsageError for a repository without a commit, a task of
    mteb with another file layout, and an unknown subset.
    """
    whole, colon, subset = name.partition(":")
    if "/" in whole:
        task: Task | None = _of_hub(whole)
    else:
        task = _known(whole) if _NAME.fullmatch(whole) else None
    if task is None:
        return None
    if not colon:
        return _of_one_language(task)
    if task.subsets and subset not in task.subsets:
        raise UsageError(f"mteb/{whole} has no subset {subset!r}{suggest(subset, [*task.subsets])}")
    return replace(task, name=f"{task.name}:{subset}", subsets=(subset,)) if subset else None


def unknown(name: str) -> str:
    """Returns the error message for an unknown task name without files."""
    more = "" if find_spec("mteb") else f"; {install_command('mteb')} for all tasks of mteb"
    return (
        f"mteb/{name}: unknown task{suggest(name, [*_table()])}; pass the folder of its repository "
        f"with --source PATH, or use mteb/OWNER/NAME@COMMIT{more}"
    )


@cache
def _table() -> dict[str, Task]:
    table = read_toml_record(_TABLE, _TaskTable)
    return {row.name: _of_row(row) for row in table.task}


class _TaskRow(Record):
    """A task in tasks.toml; `abilities` maps each ability to its subsets."""

    name: str
    repository: str
    revision: str
    licence: str
    memory: str
    queries: int
    subsets: list[str]
    abilities: dict[Ability, list[str]] = msgspec.field(default_factory=dict)


class _TaskTable(Record):
    """The file tasks.toml."""

    task: list[_TaskRow]


def _of_row(row: _TaskRow) -> Task:
    n = len(row.subsets)
    about = f"LMEB, {row.memory} memory, {row.queries:,} queries"
    return Task(
        row.name,
        f"{about} in {n} subsets" if n > 1 else about,
        row.licence,
        row.repository,
        row.revision,
        ("test",),
        tuple(row.subsets),
        {subset: ability for ability, subsets in row.abilities.items() for subset in subsets},
    )


def _known(name: str) -> Task:
    if name in _table():
        return _table()[name]
    if name.startswith(_PREFIX):
        for task in listed():
            if _plain(task.name) == _plain(name):
                return task
    if find_spec("mteb") is not None:
        found = _of_mteb(name)
        if found is not None:
            return found
    return Task(name, "your own files in MTEB's layout", "yours")


def _plain(name: str) -> str:
    """Normalizes the spelling of an LMEB name."""
    return re.sub("[-_]", "", name.removeprefix(_PREFIX)).lower()


def _of_hub(name: str) -> Task:
    match = _REPOSITORY.fullmatch(name)
    if match is None:
        raise UsageError(
            f"mteb/{name}: a repository on the hub needs a commit to make results reproducible: "
            "use mteb/OWNER/NAME@COMMIT (40 hexadecimal digits, shown on its page)"
        )
    about = f"the repository {match[1]} of the hub, in MTEB's layout"
    return Task(name, about, f"see {match[1]} on the hub", match[1], match[2])


def _of_mteb(name: str) -> Task | None:
    """Returns the task of the installed mteb, or None.

    Raises UsageError for a task that is not text retrieval, or that mteb loads with custom code.
    """
    import mteb
    from mteb.abstasks import AbsTaskRetrieval

    try:
        task = mteb.get_task(name)
    except KeyError:
        return None
    about = task.metadata
    if not isinstance(task, AbsTaskRetrieval) or [*about.modalities] != ["text"]:
        raise UsageError(
            f"mteb/{name} is {about.type} of {', '.join(about.modalities)}, not text retrieval"
        )
    kind = type(task)
    own = [n for n in _READING if getattr(kind, n) is not getattr(AbsTaskRetrieval, n)]
    own += ["skip_first_result"] * task.skip_first_result
    if own:
        raise UsageError(
            f"mteb/{name}: mteb loads it with a custom {own[0]}, so its files alone would give "
            "other results; write what mteb loads in MTEB's layout, and pass the folder with "
            "--source under another name"
        )
    langs = about.eval_langs if isinstance(about.eval_langs, dict) else {}
    people = {one for of in langs.values() for one in of if not one.endswith("-Code")}
    return Task(
        about.name,
        f"MTEB, {about.type}: {' '.join(about.description.split())}",
        about.license or "see MTEB",
        about.dataset["path"],
        about.dataset["revision"],
        tuple(about.eval_splits),
        tuple(langs),
        languages=tuple(sorted({one.partition("-")[0] for one in people})),
        ignore_identical_ids=task.ignore_identical_ids,
    )


def _of_one_language(task: Task) -> Task:
    if len(task.languages) > 1:
        shown = ", ".join(task.languages[:5]) + (", ..." if len(task.languages) > 5 else "")
        raise UsageError(
            f"mteb/{task.name} has {len(task.languages)} languages ({shown}): choose a subset, "
            f"such as mteb/{task.name}:{task.subsets[0]}"
        )
    return task
