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

    `matching`: how returned texts are resolved to documents (see Matching). `workers` None: 1, or
    as many as a cluster has processors for. `query_timeout` and `index_timeout` are seconds. Raises
    UsageError for a number that is too small and an invalid name.
    """

    k: int | None = setting(None, "documents a query (default: the dataset's)", least=1)
    limit: int | None = setting(
        None, "a seeded sample of N queries, stratified by ability", metavar="N", least=1
    )
    seed: int = setting(0, "of sampling, handles and seeded retrievers (0)", least=0)
    workers: int | None = setting(
        None,
        "processes, over haystacks (1); on a cluster also shards of one large haystack",
        metavar="N",
        least=1,
    )
    backend: str = setting(
        PROCESSES,
        "processes of this machine (default), or what an extension adds",
        metavar="NAME",
        reference="`processes` of this machine, or what an extension adds "
        "([a cluster](../../how-to/cluster.md))",
    )
    backend_options: Mapping[str, object] = setting(
        help="options for --backend: num_gpus=1 on a Ray cluster",
        factory=dict,
        metavar="KEY=VALUE",
        kind="pairs",
    )
    isolate: bool = setting(
        False, "each haystack in a process of its own, without the dataset's files in reach (Linux)"
    )
    concurrency: int = setting(
        1,
        "concurrent search calls in each process; the retriever must be thread_safe (1)",
        metavar="N",
        least=1,
    )
    query_timeout: float | None = setting(
        None,
        "a question that takes longer failed: 30 (seconds)",
        metavar="TIME",
        kind="time",
        above_zero="seconds",
    )
    index_timeout: float | None = setting(
        None,
        "a haystack whose indexing takes longer failed: 20m",
        metavar="TIME",
        kind="time",
        above_zero="seconds",
    )
    retries: int = setting(
        0,
        "ask again, after pauses, where search fails (0); rate limits are always waited for",
        metavar="N",
        least=0,
    )
    prices: Prices = setting(
        help="US dollars a million tokens, by model; see the reference of --config",
        factory=dict,
        metavar="FILE.toml",
        kind="prices",
        reference="[US dollars a million tokens](../../how-to/slow-and-paid.md#what-it-costs), by "
        'model: `[prices."gpt-4.1-mini"]`; or a file of such tables',
    )
    max_usd: float | None = setting(
        None, "stop before more than this is spent", metavar="USD", above_zero="US dollars"
    )
    batch_size: int | None = setting(
        None,
        "queries to a search call",
        metavar="N",
        least=1,
        reference="queries to a search call; of models that embed a call's questions together "
        "(minilm, dense) another size can change the last digits of scores, and so the order of "
        "near ties: it is part of a run's settings",
    )
    name: str = setting(
        "",
        "what the run is called in tables",
        metavar="NAME",
        reference="what the run is called in tables; in a list it stands below `[[retrievers]]`",
    )
    submitted_by: str = setting("", "who submits it to a leaderboard", metavar="NAME")
    require_cached_index: bool = setting(False, "use cached indexes only; fail if one is missing")
    strict: bool = setting(False, "stop at the first failed query")
    allow_empty: bool = setting(
        False, "a haystack of which all queries are answered with nothing is no failure"
    )
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
                f"--isolate needs sandboxes on this machine: leave out --backend {self.backend}"
            )
        names = sorted({PROCESSES, *plugins.names(EXECUTORS)})
        if self.backend not in names:
            raise UsageError(f"--backend must be {' or '.join(names)}, not {self.backend!r}")
