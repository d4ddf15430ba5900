"""What a run is asked for: its settings, which queries are run, and its work items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset, last_of_base
from harness.errors import UsageError
from harness.masking import refuse_text
from harness.runs.folder.run_folder import run_name
from harness.runs.money import Prices, checked_prices
from harness.runs.results import WorkItem
from harness.runs.timeouts import Limits

if TYPE_CHECKING:
    from harness.scoring.matching.found import Matching


BACKENDS = ("processes", "ray")
"""What executes a run: processes of this machine, or a Ray cluster."""

QUERIES_PER_ITEM = 512
"""An interrupted run repeats one item at worst."""


_MOST = 2**62
"""What a setting that counts may be: records hold 64 bits."""


@dataclass(frozen=True)
class Settings:
    """What a run may be asked for. `k` 0: the dataset's default depth.

    `submitted_by`: who submits it to a leaderboard. `name`: what the run is called in tables (see
    run_name). `matching`: how returned texts are resolved to documents (see Matching).
    `isolate`: a process for each haystack, without the dataset's files in reach (see isolated.py).
    `backend`: processes of this machine, or a cluster of ray; `ray_options`: Ray's for each worker
    (num_cpus, num_gpus, memory, ...). `workers` None: 1, or as many as the cluster has
    processors for; one large haystack is cut into as many shards. `allow_empty`: it is as it should
    be that a haystack's queries are all answered with nothing. `require_cached_index`: nothing is
    indexed; a haystack without a cached index is an error. `concurrency`: concurrent `search` calls
    in each process, of a `thread_safe` retriever. `query_timeout` and `index_timeout`: seconds
    that a question, and a haystack's `index`, may take. `retries`: how often a search that failed
    is made again, after a pause. `prices`: US dollars a million tokens, by model (see money.py);
    `max_usd`: how many may be spent.
    Raises UsageError for a number that is too small and a name that cannot be.
    """

    k: int = 0
    limit: int | None = None
    seed: int = 0
    workers: int | None = None
    batch_size: int | None = None
    strict: bool = False
    submitted_by: str = ""
    name: str = ""
    matching: Matching | None = None
    isolate: bool = False
    backend: str = "processes"
    ray_options: Mapping[str, object] = field(default_factory=dict, hash=False)
    allow_empty: bool = False
    require_cached_index: bool = False
    concurrency: int = 1
    query_timeout: float | None = None
    index_timeout: float | None = None
    retries: int = 0
    prices: Prices = field(default_factory=dict, hash=False)
    max_usd: float | None = None

    @property
    def limits(self) -> Limits:
        """What calls may take, and how often they are made again."""
        return Limits(self.query_timeout, self.index_timeout, self.retries)

    def __post_init__(self) -> None:
        refuse_text("--name", self.name)
        refuse_text("--submitted-by", self.submitted_by)
        if self.name:
            run_name(self.name)
        if self.backend not in BACKENDS:
            raise UsageError(f"--backend must be {' or '.join(BACKENDS)}, not {self.backend!r}")
        if self.backend == "ray" and self.isolate:
            raise UsageError("--isolate needs sandboxes on this machine: leave out --backend ray")
        if self.ray_options and self.backend != "ray":
            raise UsageError("--ray-options are for --backend ray")
        for name, least in (
            ("k", 0),
            ("limit", 1),
            ("seed", 0),
            ("workers", 1),
            ("batch_size", 1),
            ("concurrency", 1),
            ("retries", 0),
        ):
            value = getattr(self, name)
            option = name.replace("_", "-")
            if value is not None and value < least:
                raise UsageError(f"--{option} must be {least or '0'} or more, not {value}")
            if value is not None and value > _MOST:
                raise UsageError(f"--{option} must be {_MOST:,} or less")
        for name, unit in (
            ("query_timeout", "seconds"),
            ("index_timeout", "seconds"),
            ("max_usd", "US dollars"),
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                option = name.replace("_", "-")
                raise UsageError(f"--{option} must be {unit} above 0, not {value}")
        checked_prices(self.prices, "prices")


def choose_queries(dataset: Dataset, limit: int | None, seed: int) -> npt.NDArray[np.int64]:
    """Rows of the queries to run, in the dataset's order.

    With a limit: a seeded sample, stratified by ability (the files are grouped by type, so the
    first N would be one ability). Each ability gets its share, rounded by largest remainder, and at
    least one query where the limit allows. Raises UsageError for a dataset without queries.
    """
    n = dataset.n_queries
    if n == 0:
        raise UsageError(f"{dataset.name} has no queries")
    if limit is None or limit >= n:
        return np.arange(n)
    rng = np.random.default_rng(seed)
    names, ability = np.unique(dataset.abilities, return_inverse=True)
    sizes = np.bincount(ability)
    shares = sizes * limit / n
    take = np.floor(shares).astype(int)
    if limit >= len(names):
        take = np.maximum(take, 1)
    while take.sum() < limit:
        take[np.argmax(np.where(take < sizes, shares - take, -np.inf))] += 1
    while take.sum() > limit:
        take[np.argmax(np.where(take > 1, take - shares, -np.inf))] -= 1
    chosen = [rng.permutation(np.flatnonzero(ability == i))[:count] for i, count in enumerate(take)]
    return np.sort(np.concatenate(chosen))


def work_items(dataset: Dataset, queries: npt.NDArray[np.int64], seed: int) -> list[WorkItem]:
    """Divides the queries into work items: one a haystack, several where it has many queries.

    Items, and the queries in each, come in a seeded random order: the files are grouped by type, so
    that in their order a system could tell from the number of its calls what it is asked. Those of
    a haystack as of several times come in the order of time.
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
