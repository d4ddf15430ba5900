"""Selects the executor (in-process, multiprocessing or Ray) for a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from harness.dataset.reader import Dataset
from harness.dataset.remote_store import DatasetLocation
from harness.records.run import ClusterRecord
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.runs.execute import Executor, InProcess, Processes
from harness.runs.isolated import Isolation
from harness.runs.plan import Settings
from harness.runs.shards import can_be_cut


@dataclass(frozen=True)
class Crew:
    """What runs the work items: where, and with which retriever.

    `batch_size`: how many questions the retriever is asked at once, whatever was chosen.
    """

    executor: Executor
    retriever: RetrieverSpec | Isolation | Retriever
    place: DatasetLocation
    workers: int
    cluster: ClusterRecord | None = None
    batch_size: int | None = None


@contextmanager
def crew_of(
    settings: Settings,
    builds: RetrieverSpec | Isolation | Retriever,
    built: Retriever,
    dataset: Dataset,
    haystacks: set[int],
    batch_size: int,
    executor: Executor | None,
) -> Iterator[Crew]:
    """What runs work items on this machine, or on a cluster for as long as the block takes."""
    place, n = DatasetLocation.of(dataset), settings.workers or 1
    if executor is None and settings.backend == "ray" and not isinstance(builds, Isolation):
        from harness.runs.on_ray import TASK, Haystacks, cluster
        from harness.runs.shards_on_ray import SHARD, Shards

        in_shards = len(haystacks) == 1 and can_be_cut(built)
        with cluster(settings.ray_options, SHARD if in_shards else TASK) as ray:
            place.put()
            n = settings.workers or ray.processors
            if not in_shards:
                yield Crew(Haystacks(ray, n), builds, place, n, ray.about())
                return
            n = max(1, min(n, *map(dataset.haystack_size, haystacks)))
            shards = Shards(ray, n, builds, settings.seed, batch_size, place)
            about = msgspec.structs.replace(ray.about(), shards=n)
            try:
                yield Crew(InProcess(), shards, place, n, about, shards.batch_size)
            finally:
                shards.close()
        return
    if executor is None:
        executor = Processes(n) if n > 1 else InProcess()
    # In this process the retriever that was built already serves; others build their own, and so
    # does a thread in which all its calls are made.
    yield Crew(executor, builds if n > 1 or settings.limits.in_time else built, place, n)
