"""Settings of a run, each defined once: name, default, bounds and help texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.io import plugins
from harness.records.settings import check_settings, setting

if TYPE_CHECKING:
    from harness.runs.usage import Prices
    from harness.scoring.matching.matcher import Matching

PROCESSES = "processes"
"""The executor of processes on this machine."""

EXECUTORS = "harness.executors"
"""Entry-point group of executors from other packages."""


@dataclass(frozen=True)
class Limits:
    """Seconds that a `search` and an `index` call may take (None: no limit), and the number of
    `retries` of a failed search."""

    query: float | None = None
    index: float | None = None
    retries: int = 0

    @property
    def in_time(self) -> bool:
        """Whether any call has a time limit."""
        return self.query is not None or self.index is not None

    def record(self) -> dict[str, float]:
        """Returns the limits that are set, by the names of the settings."""
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
    """Settings of a run. `k` None: the dataset's default depth.

    `matching`: how returned texts are resolved to documents. `workers` None: 1, or
    as many as a cluster has processors for. `query_timeout` and `index_timeout` are seconds. Raises
    UsageError for a number that is too small and an invalid name.
    """

    k: int | None = setting(None, "documents to return per query (default: the dataset's)", least=1)
    limit: int | None = setting(
        None, "run only a random sample of N queries, stratified by ability", metavar="N", least=1
    )
    seed: int = setting(
        0, "seed of sampling, document handles and retrievers (default: 0)", least=0
    )
    workers: int | None = setting(
        None,
        "parallel processes, each for some haystacks (default: 1)",
        metavar="N",
        least=1,
    )
    backend: str = setting(
        PROCESSES,
        "where to run: processes of this machine (default), or a backend of an extension",
        metavar="NAME",
        reference="`processes` of this machine, or a backend of an extension "
        "([a cluster](../../how-to/cluster.md))",
    )
    backend_options: Mapping[str, object] = setting(
        help="options of the backend, such as num_gpus=1 for Ray; repeatable",
        factory=dict,
        metavar="KEY=VALUE",
        kind="pairs",
    )
    isolate: bool = setting(
        False, "run the retriever in a sandbox that cannot read the dataset's files (Linux)"
    )
    concurrency: int = setting(
        1,
        "concurrent search calls per process, of an async or thread_safe retriever (default: 1)",
        metavar="N",
        least=1,
    )
    query_timeout: float | None = setting(
        None,
        "time limit of a query, after which it fails: 30 (seconds)",
        metavar="TIME",
        kind="time",
        above_zero="seconds",
    )
    index_timeout: float | None = setting(
        None,
        "time limit of indexing a haystack, after which its queries fail: 20m",
        metavar="TIME",
        kind="time",
        above_zero="seconds",
    )
    retries: int = setting(
        0,
        "retries of a failed search (default: 0); rate limits are always waited for",
        metavar="N",
        least=0,
    )
    prices: Prices = setting(
        help="prices in US dollars per million tokens, by model",
        factory=dict,
        metavar="FILE.toml",
        kind="prices",
        reference="[US dollars per million tokens](../../how-to/slow-and-paid.md#what-it-costs) by "
        'model: `[prices."gpt-4.1-mini"]`; or a file of such tables',
    )
    max_usd: float | None = setting(
        None,
        "stop before the cost exceeds this many US dollars",
        metavar="USD",
        above_zero="US dollars",
    )
    batch_size: int | None = setting(
        None,
        "queries per search call",
        metavar="N",
        least=1,
        reference="queries per search call; for models that embed the queries of a call together "
        "(minilm, dense) another size can change the last digits of scores, and so the order of "
        "near ties: it is part of a run's settings",
    )
    name: str = setting(
        "",
        "name of the run, for tables and other commands",
        metavar="NAME",
        reference="name of the run, for tables and other commands; in a list of runs below "
        "`[[retrievers]]`",
    )
    submitted_by: str = setting("", "submitter shown on a leaderboard", metavar="NAME")
    require_cached_index: bool = setting(False, "use cached indexes only; fail if one is missing")
    strict: bool = setting(False, "stop at the first failed query")
    allow_empty: bool = setting(False, "do not fail if no query of a haystack returns a document")
    matching: Matching | None = field(default=None)

    @property
    def limits(self) -> Limits:
        """Time limits of calls, and the number of retries."""
        return Limits(self.query_timeout, self.index_timeout, self.retries)

    def __post_init__(self) -> None:
        from harness.runs.folder.run_folder import run_name
        from harness.runs.usage import checked_prices

        if self.name:
            run_name(self.name)
        self._check_backend()
        check_settings(self)
        checked_prices(self.prices, "prices")

    def _check_backend(self) -> None:
        if self.backend == PROCESSES:
            if self.backend_options:
                raise UsageError("--backend-options need --backend, such as a cluster")
            return
        if self.isolate:
            raise UsageError(
                f"--isolate works on this machine only: remove --backend {self.backend}"
            )
        names = sorted({PROCESSES, *plugins.names(EXECUTORS)})
        if self.backend not in names:
            raise UsageError(f"--backend must be {' or '.join(names)}, not {self.backend!r}")
