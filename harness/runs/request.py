"""Describes a run: its retriever, resolved and built, its queries, work items and identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.datasets.reader import Dataset, choose_queries, last_of_base
from harness.errors import UsageError
from harness.io.masking import environment_digests, refuse_secrets
from harness.io.plugins import preserve_process_state, provider
from harness.records.run import MatchingRecord, RetrieverRecord, RunPlan
from harness.retrievers.calls import can_serve, is_concurrent
from harness.retrievers.contract import Retriever
from harness.retrievers.outputs import check_ranked_by
from harness.retrievers.registry import FunctionRetriever, RetrieverSpec, wrapper_for
from harness.runs.folder.run_folder import folder_name
from harness.runs.provenance import known_by, named_files, retriever_record
from harness.runs.results import WorkItem
from harness.runs.settings import Settings

QUERIES_PER_ITEM = 512
"""An interrupted run repeats one item at worst."""


def work_items(dataset: Dataset, queries: npt.NDArray[np.int64], seed: int) -> list[WorkItem]:
    """Divides the queries into work items: one per haystack, or several if it has many queries.

    Items and their queries are in a seeded random order: files are grouped by question type, so in
    file order a system could infer the type from the number of its calls. Items of one haystack at
    several times are in order of time.
    """
    rng = np.random.default_rng(seed)
    queries = rng.permutation(queries)
    haystack = dataset.query_haystack[queries]
    order = np.argsort(haystack, kind="stable")
    cuts = np.flatnonzero(np.diff(haystack[order])) + 1
    groups = np.split(queries[order], cuts)
    shuffled = [groups[i] for i in rng.permutation(len(groups))]
    chain_of: dict[int, int] = {}
    if dataset.manifest.as_of:
        asked = [int(dataset.query_haystack[group[0]]) for group in shuffled]
        chain_of = {one: last_of_base(dataset.haystack_ids, one) for one in asked}
        place = {chain: i for i, chain in enumerate(dict.fromkeys(chain_of.values()))}
        in_time = sorted(range(len(asked)), key=lambda i: (place[chain_of[asked[i]]], asked[i]))
        shuffled = [shuffled[i] for i in in_time]
    planned: list[WorkItem] = []
    for group in shuffled:
        for start in range(0, len(group), QUERIES_PER_ITEM):
            part = group[start : start + QUERIES_PER_ITEM].tolist()
            its = int(dataset.query_haystack[part[0]])
            planned.append(WorkItem(len(planned), its, part, chain_of.get(its)))
    return planned


Tested = str | RetrieverSpec | Retriever | Callable[..., Any]
"""What can be run: a name, an object or a function of a text."""


class IsolatedSpec(RetrieverSpec):
    """A retriever in a separate process, made by the provider `isolation`."""

    @property
    def sandbox_name(self) -> str:
        """Name of the sandbox program."""
        raise NotImplementedError

    def record(self) -> RetrieverRecord:
        """Returns the retriever's record for run.json."""
        raise NotImplementedError


@dataclass(frozen=True)
class RunRequest:
    """A requested run: dataset, retriever, settings, plan and work items.

    `retriever` is the requested one, `isolation` the same in a sandbox (if requested), `built` that
    of this process. `sees_gold_labels` marks the built-in oracle; a flag set later is ignored.
    """

    dataset: Dataset
    retriever: RetrieverSpec | Retriever
    isolation: IsolatedSpec | None
    settings: Settings
    built: Retriever
    sees_gold_labels: bool
    batch_size: int
    plan: RunPlan
    items: list[WorkItem]

    @classmethod
    def create(
        cls, dataset: Dataset, retriever: Tested, settings: Settings, results: Path
    ) -> RunRequest:
        """Resolves and builds the retriever, chooses the queries and plans the run.

        Raises UsageError for an invalid dataset or retriever, and for settings that do not fit;
        RunError for a retriever that cannot be built.
        """
        _check(dataset, retriever)
        tested = resolve(retriever)
        isolation = None
        if settings.isolate:
            isolation = _in_sandbox(tested, dataset, results, settings.seed)
        builds = isolation or tested
        with preserve_process_state():
            built = builds.build(settings.seed) if isinstance(builds, RetrieverSpec) else builds
        sees_gold_labels = False
        if getattr(built, "sees_gold_labels", False):
            from harness.retrievers.baselines import is_oracle

            sees_gold_labels = is_oracle(built)
        batch_size = _batch_size(settings, built)
        _check_fit(settings, built)
        about = retriever_record(tested) if isolation is None else isolation.record()
        if isinstance(revision := getattr(built, "revision", None), str):
            about = replace(about, revision=revision)
        queries = choose_queries(dataset, settings.limit, settings.seed)
        matching = None
        if settings.matching is not None:
            matching = MatchingRecord(f1=settings.matching.f1, semantic=settings.matching.semantic)
        environment = (
            environment_digests(tested.params) if isinstance(tested, RetrieverSpec) else {}
        )
        plan = RunPlan(
            dataset=dataset.fingerprint,
            retriever=about,
            k=settings.k or dataset.manifest.k,
            # A sample of all queries is no limit.
            limit=settings.limit if len(queries) < dataset.n_queries else None,
            seed=settings.seed,
            queries=len(queries),
            isolate=settings.isolate,
            environment=environment,
            matching=matching,
        )
        items = work_items(dataset, queries, settings.seed)
        return cls(
            dataset=dataset,
            retriever=tested,
            isolation=isolation,
            settings=settings,
            built=built,
            sees_gold_labels=sees_gold_labels,
            batch_size=batch_size,
            plan=plan,
            items=items,
        )

    @property
    def is_named(self) -> bool:
        """Whether the retriever has a stable identity: it was named, and not built by a program."""
        return isinstance(self.retriever, RetrieverSpec)

    @property
    def builds(self) -> RetrieverSpec | Retriever:
        """The spec or the object from which each process gets its retriever."""
        return self.isolation or self.retriever

    @property
    def sandbox(self) -> str | None:
        """Name of the sandbox program; None without a sandbox."""
        return self.isolation.sandbox_name if self.isolation else None

    @property
    def about(self) -> RetrieverRecord:
        """The record of the retriever."""
        return self.plan.retriever

    @property
    def run_id(self) -> str:
        """Name of the run's folder; equal requests have equal names."""
        return folder_name(self.dataset, self.about.name, self.plan)

    @property
    def system(self) -> dict[str, object] | None:
        """Identity of the system in the index cache; None for an object without `params`, as its
        settings are unknown."""
        known = self.is_named or hasattr(self.built, "params")
        return known_by(self.about, self.built) if known else None


def resolve(retriever: Tested) -> RetrieverSpec | Retriever:
    """Converts a name, an object or a function to a retriever. Raises UsageError for anything else,
    and for a parameter that is a secret."""
    if isinstance(retriever, str):
        return RetrieverSpec(retriever)
    if isinstance(retriever, RetrieverSpec):
        refuse_secrets(f"retriever {retriever.name!r}: the parameter", retriever.params)
        return retriever
    serves = wrapper_for(retriever)
    if serves is not None:
        return serves()
    if isinstance(retriever, Retriever) or can_serve(retriever):
        return retriever  # type: ignore[return-value]  # a streaming memory has no index()
    if not callable(retriever):
        lacks = [name for name in ("index", "search") if not hasattr(retriever, name)]
        raise UsageError(
            f"a {type(retriever).__qualname__} is no retriever: it lacks {' and '.join(lacks)}; "
            "give one with index(corpus) and search(queries, k), or a function of a text"
        )
    return FunctionRetriever(retriever, {})


def _check(dataset: Dataset, retriever: Tested) -> None:
    """Raises UsageError for a dataset that cannot be run on, and for a class."""
    if not isinstance(dataset, Dataset):
        raise UsageError(f"run takes an opened dataset: open_dataset({dataset!r}), or like it")
    if isinstance(retriever, type):
        name = retriever.__name__
        raise UsageError(f"run takes a retriever that is built, {name}(), or a name, not a class")
    if dataset.manifest.ids_only:
        raise UsageError(
            f"{dataset.name} has ids alone, and nothing to search in: score rankings on it "
            "(`harness score FILE --dataset ...`), or run on the dataset with the texts"
        )


def _in_sandbox(
    retriever: RetrieverSpec | Retriever, dataset: Dataset, results: Path, seed: int
) -> IsolatedSpec:
    """Returns the retriever in a sandbox. Raises UsageError for one that is already built."""
    if not isinstance(retriever, RetrieverSpec):
        raise UsageError(
            "a retriever that was built or loaded here cannot be isolated any more: name it as "
            "file.py:Class"
        )
    isolation: IsolatedSpec = provider("isolation")(
        retriever, named_files(retriever), dataset, results, seed
    )
    return isolation


def _batch_size(settings: Settings, retriever: Any) -> int:
    """Returns the batch size of the settings, else the retriever's, else 1. Raises UsageError for
    an invalid one."""
    size = settings.batch_size
    if size is None:
        size = getattr(retriever, "batch_size", 1)
    if not isinstance(size, int) or size < 1:
        raise UsageError(f"the batch size must be a whole number of 1 or more, not {size!r}")
    return size


def _check_fit(settings: Settings, built: Retriever) -> None:
    """Raises UsageError for settings that the retriever does not support, or a bad `ranked_by`."""
    check_ranked_by(built)
    if settings.concurrency > 1 and not is_concurrent(built):
        raise UsageError(
            f"--concurrency {settings.concurrency}: the retriever does not say that its search may "
            "be called several times at once; if it may, give it thread_safe = True, or make its "
            "search asynchronous (async def)"
        )
    if settings.max_usd is not None and not callable(getattr(built, "report", None)):
        raise UsageError(
            "--max-usd: the retriever has no report(), so its cost is unknown; add one, or omit "
            "--max-usd"
        )
