"""MTEB retrieval tasks on the hub, including LMEB's memory tasks.

The layout is mteb's (abstasks/retrieval_dataset_loaders.py at 2.26): tables `corpus`, `queries`,
`qrels` and optionally `top_ranked` and `instruction`, each a config of a dataset repository,
prefixed with the name of the subset if there are several. Evaluation follows mteb: judged queries
only, answered from their `top_ranked` if it exists, else from the corpus of their subset. A subset
is the category of a query, and mteb's score is the mean over subsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.mteb import repository, tasks
from harness.datasets.adapters.mteb.subsets import (
    CorpusWriter,
    HaystackWriter,
    Subset,
    read_questions,
    write_subset,
)
from harness.datasets.adapters.mteb.tasks import Task
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


@register_adapter("mteb")
class MtebAdapter:
    """`mteb/<task>`: a task name, a repository on the hub, or a folder in MTEB's layout."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the tasks of LMEB; other names work too."""
        return map(_variant, tasks.listed())

    def variant(self, name: str) -> Variant | None:
        """Returns the task of that name; an unknown name needs --source."""
        task = tasks.find(name)
        return None if task is None else _variant(task)

    def remote_files(
        self, variant: Variant, config: DatasetConfig, downloads: Path
    ) -> list[RemoteFile]:
        """Returns the files of the task's repository at its commit."""
        from harness.datasets.download import fetch, hub_files

        task = _task(variant)
        named = f"{_folder(task)}/{repository.CARD}"
        url = f"hf://datasets/{task.repository}@{task.revision}/{repository.CARD}"
        card = fetch(RemoteFile(named, url), downloads)
        there = {
            file.name: replace(file, name=f"{_folder(task)}/{file.name}")
            for file in hub_files(task.repository, task.revision)
        }
        parts = _parts(card, [*there], task, config, f"{task.repository} on the hub")
        return [there[name] for name in _wanted(parts, [*there])]

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds the files in a folder of the repository: a clone, snapshot, export or download."""
        task = _task(variant)
        if not source.is_dir():
            raise UsageError(f"{source}: not a folder; pass the folder of the repository")
        within = _folder(task) if task.repository else ""
        root, before = source, ""
        if within and (source / within).is_dir():
            root, before = source / within, f"{within}/"
        names = repository.names_in(root)
        card = root / repository.CARD if repository.CARD in names else None
        parts = _parts(card, names, task, config, str(root))
        return {before + name: root / name for name in _wanted(parts, names)}

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes the documents of each subset, and its judged queries with their haystacks."""
        task = _task(raw.variant)
        before = f"{_folder(task)}/" if task.repository else ""
        paths = {name.removeprefix(before): path for name, path in raw.files.items()}
        parts = _parts(paths.get(repository.CARD), [*paths], task, config, raw.variant.name)
        subsets = []
        for name, tables in parts.items():
            files = {part: [paths[one] for one in of.files] for part, of in tables.items()}
            if (split := tables["qrels"].split) != config.split:
                out.repair(f"judgements without a split {config.split!r}: only split used", split)
            ability = task.abilities.get(name, Ability.LOOKUP)
            subsets.append(Subset(name, files, read_questions(files, out), ability))
        counts = Counter(query for subset in subsets for query in subset.questions.texts)
        shared = {query for query, n in counts.items() if n > 1}
        if shared and task.ignore_identical_ids:
            raise UsageError(
                f"mteb/{task.name} removes documents with the id of the query, but {len(shared)} "
                "query ids occur in several subsets: choose one, mteb/NAME:SUBSET"
            )
        documents, haystacks = CorpusWriter(out, several=len(subsets) > 1), HaystackWriter(out)
        for subset in subsets:
            write_subset(subset, shared, documents, haystacks, out)


def _variant(task: Task) -> Variant:
    return Variant(
        task.name,
        task.about,
        task.licence,
        granularities=("document",),
        splits=task.splits,
        k=1000,
        exclude_self=task.ignore_identical_ids,
        needs_source=not task.repository,
        without_source="" if task.repository else tasks.unknown(task.name),
        mean_over="categories",
    )


def _task(variant: Variant) -> Task:
    task = tasks.find(variant.name)
    assert task is not None, f"{variant.name} was a task when it was named"
    return task


def _folder(task: Task) -> str:
    """Returns the folder that stores the files of a repository."""
    return f"{task.repository}@{task.revision}"


def _parts(
    card: Path | None, names: list[str], task: Task, config: DatasetConfig, where: str
) -> repository.Parts:
    configs = repository.configs(card, names, where)
    parts = repository.parts(configs, task.subsets, config.split, where)
    if not task.repository:  # a known task's metadata names the split to evaluate
        there = {tables["qrels"].split for tables in parts.values()}
        if len(there) == 1 and (split := there.pop()) in task.splits and split != config.split:
            raise UsageError(
                f"{where}: has judgements of the split {split} only; add --split {split}"
            )
    return parts


def _wanted(parts: repository.Parts, names: list[str]) -> list[str]:
    """Returns the files to read, once each, starting with the card."""
    read = (name for tables in parts.values() for of in tables.values() for name in of.files)
    return list(dict.fromkeys([*(n for n in names if n == repository.CARD), *read]))
