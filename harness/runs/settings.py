"""Settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.masking import refuse_text
from harness.runs.folder.run_folder import run_name
from harness.runs.usage import Prices, checked_prices

if TYPE_CHECKING:
    from harness.scoring.matching.found import Matching

PROCESSES = "processes"
"""The executor of processes on this machine."""

EXECUTORS = "harness.executors"
"""The group of entry points by which packages bring executors."""

_MOST = 2**62
"""What a setting that counts may be: records hold 64 bits."""

_LEAST = {
    "k": 0,
    "limit": 1,
    "seed": 0,
    "workers": 1,
    "batch_size": 1,
    "concurrency": 1,
    "retries": 0,
}
_ABOVE_0 = {"query_timeout": "seconds", "index_timeout": "seconds", "max_usd": "US dollars"}


@dataclass(frozen=True)
class Limits:
    """Seconds that a call of `search`, and of `index`, may take (None: any); `retries` of a search
    that failed."""

    query: float | None = None
    index: float | None = None
    retries: int = 0

    @property
    def in_time(self) -> bool:
        """Whether any call has to be in time."""
        return self.query is not None or self.index is not None

    def record(self) -> dict[str, float]:
        """Return what is chosen of it, as settings are called."""
        return {
            name: value
            for name, value in (
                ("query_timeout", self.query),
                ("index_timeout", self.index),
                ("retries", self.retries),
            )
            if value
        }


@dataclass(frozen=True)
class Settings:
    """What a run may be asked for. `k` 0: the dataset's default depth.

    `submitted_by`: who submits it to a leaderboard. `name`: what the run is called in tables (see
    run_name). `matching`: how returned texts are resolved to documents (see Matching).
    `isolate`: a process for each haystack, without the dataset's files in reach (see isolated.py).
    `backend`: the executor, by its name (see executors.py); `ray_options`: Ray's for each worker
    (num_cpus, num_gpus, memory, ...). `workers` None: 1, or as many as the cluster has
    processors for; one large haystack is cut into as many shards. `allow_empty`: it is as it should
    be that a haystack's queries are all answered with nothing. `require_cached_index`: nothing is
    indexed; a haystack without a cached index is an error. `concurrency`: concurrent `search` calls
    in each process, of a `thread_safe` retriever. `query_timeout` and `index_timeout`: seconds
    that a question, and a haystack's `index`, may take. `retries`: how often a search that failed
    is made again, after a pause. `prices`: US dollars a million tokens, by model (see usage.py);
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
    backend: str = PROCESSES
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
        self._check_backend()
        self._check_numbers()
        checked_prices(self.prices, "prices")

    def _check_backend(self) -> None:
        if self.ray_options and self.backend != "ray":
            raise UsageError("--ray-options are for --backend ray")
        if self.backend == PROCESSES:
            return
        if self.isolate:
            raise UsageError(
                f"--isolate needs sandboxes on this machine: leave out --backend {self.backend}"
            )
        names = sorted({PROCESSES, *(entry.name for entry in entry_points(group=EXECUTORS))})
        if self.backend not in names:
            raise UsageError(f"--backend must be {' or '.join(names)}, not {self.backend!r}")

    def _check_numbers(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            option = name.replace("_", "-")
            if value is not None and value < least:
                raise UsageError(f"--{option} must be {least or '0'} or more, not {value}")
            if value is not None and value > _MOST:
                raise UsageError(f"--{option} must be {_MOST:,} or less")
        for name, unit in _ABOVE_0.items():
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                option = name.replace("_", "-")
                raise UsageError(f"--{option} must be {unit} above 0, not {value}")
