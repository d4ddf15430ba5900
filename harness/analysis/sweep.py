"""Runs all settings, chooses the best on a development part, reports it on the held-out part."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.analysis.scored_run import ScoredRun, Values
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.records.run import Params
from harness.retrievers import calls
from harness.retrievers.contract import Corpus, Question
from harness.retrievers.ingest import ingest
from harness.retrievers.registry import RetrieverSpec, find
from harness.runs.folder.run_state import Mode
from harness.runs.folder.score_folder import score_run
from harness.runs.provenance import known_by, retriever_record
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Choices
from harness.scoring.score_columns import query_clusters
from harness.stats.intervals import MeanInterval, mean_intervals
from harness.stats.paired import PairedComparison, compare_paired

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tried:
    """One setting: its metric on the development part, and its run."""

    setting: Setting
    metric: str
    development: MeanInterval
    folder: Path


@dataclass(frozen=True)
class Chosen:
    """The best setting of one metric; `place` is among those that were tried.

    `held_out` is its value on the held-out part. `difference` is the difference to the setting
    `against`: the first one, or the second best if the first is the best. All are None without a
    held-out part. `tied` counts other settings that were as good on the development part.
    """

    place: int
    tied: int = 0
    held_out: MeanInterval | None = None
    against: int | None = None
    difference: PairedComparison | None = None


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep.

    `tried` is in the order of the settings. One is chosen for each metric: the cut-offs of a sweep
    over `k` are different metrics, and the best of them would always be the largest.
    `tuned_on_test`: settings are reported on the queries they were chosen by. `indexed` counts the
    built indexes, None if every run built its own.
    """

    tried: tuple[Tried, ...]
    chosen: tuple[Chosen, ...]
    tuned_on_test: bool
    development: str
    indexed: int | None


@dataclass(frozen=True)
class Part:
    """Queries to choose by: a share of the dataset's queries, or `dataset`, another split.

    With neither, the choice is made on the test queries, and the result is marked. `protocol` is
    that of the metric, by default the first that has it.
    """

    share: float | None = None
    dataset: Dataset | None = None
    protocol: str = ""


def sweep(
    dataset: Dataset,
    spec: RetrieverSpec,
    settings: Sequence[Setting],
    metric: Metric,
    part: Part,
    options: Settings,
    out: Path = Path("results"),
) -> Sweep:
    """Try every setting; the `k` of a setting replaces the cut-off of `metric`.

    Raises UsageError for invalid settings, and for a metric that is not scored.
    """
    if len(settings) < 2:
        raise UsageError("a sweep needs two settings or more: --grid name=value,value")
    metrics = [_metric(metric, setting) for setting in settings]
    deepest = max([options.k or 0, *(m.k or 0 for m in metrics)]) or None
    options = Settings(**{**vars(options), "k": deepest})
    tried_on = part.dataset or dataset
    runner = _Runner(spec, settings, options, part.protocol, out)
    chosen = np.ones(tried_on.n_queries, bool)
    if part.share is not None:
        chosen = development(dataset, part.share, options.seed)
    found = [runner.values(tried_on, s, m) for s, m in zip(settings, metrics, strict=True)]
    tried = []
    for setting, one, (folder, values) in zip(settings, metrics, found, strict=True):
        (interval,) = _intervals(tried_on, values, chosen)
        tried.append(Tried(setting, str(one), interval, folder))
    by_metric: dict[str, list[int]] = {}
    for place, this in enumerate(tried):
        by_metric.setdefault(this.metric, []).append(place)
    best, tied = {}, {}
    for places in by_metric.values():
        ordered = sorted(places, key=lambda place: -tried[place].development.value)
        place = ordered[0]
        best[place] = places[0] if place != places[0] else (ordered[1:] or [place])[0]
        top = tried[place].development.value
        tied[place] = sum(abs(tried[i].development.value - top) < 1e-12 for i in ordered[1:])
    if part.share is None and part.dataset is None:
        alone = tuple(Chosen(place, tied[place]) for place in best)
        return Sweep(tuple(tried), alone, True, "the test itself", runner.indexed)
    asked = np.isfinite(found[0][1])  # of a sample, and with evidence
    kept, named = ~chosen, f"{int((chosen & asked).sum())} of {int(asked.sum())} scored queries"
    held = {place: found[place][1] for pair in best.items() for place in pair}
    if part.dataset is not None:
        kept, named = np.ones(dataset.n_queries, bool), f"split {part.dataset.manifest.split}"
        held = {i: runner.values(dataset, settings[i], metrics[i])[1] for i in held}
    reported = tuple(
        _reported(dataset, place, other, tied[place], held, kept) for place, other in best.items()
    )
    return Sweep(tuple(tried), reported, False, named, runner.indexed)


def development(dataset: Dataset, share: float, seed: int) -> Flags:
    """Queries of the development part: a seeded random sample of about `share` of them.

    Questions that share one of several haystacks stay together, since they are not independent.
    Raises UsageError for a share that leaves a part empty.
    """
    if not 0 < share < 1:
        raise UsageError(f"--dev-share must be between 0 and 1, not {share}")
    clusters = query_clusters(dataset)
    units = np.arange(dataset.n_queries) if clusters is None else clusters
    distinct = np.unique(units)
    order = np.random.default_rng(seed).permutation(distinct)
    taken = order[: round(share * len(distinct))]
    chosen = np.isin(units, taken)
    if chosen.all() or not chosen.any():
        raise UsageError(
            f"--dev-share {share} of {len(distinct)} "
            f"{'queries' if clusters is None else 'haystacks'} leaves one part empty"
        )
    return chosen


def _reported(
    dataset: Dataset, place: int, other: int, tied: int, held: dict[int, Values], kept: Flags
) -> Chosen:
    mine, first = held[place], held[other]
    (held_out,) = _intervals(dataset, mine, kept)
    if place == other:
        return Chosen(place, tied, held_out)
    clusters = query_clusters(dataset)
    (difference,) = compare_paired(
        first[kept], mine[kept], None if clusters is None else clusters[kept], bounds=(-1, 1)
    )
    return Chosen(place, tied, held_out, other, difference)


class _Runner:
    """Runs settings, with shared indexes if only search-time parameters are swept over."""

    def __init__(
        self,
        spec: RetrieverSpec,
        settings: Sequence[Setting],
        options: Settings,
        protocol: str,
        out: Path,
    ) -> None:
        self._spec, self._options, self._protocol, self._out = spec, options, protocol, out
        swept = {name for setting in settings for name in setting} - {"k"}
        self._keeping: Keeping | None = None
        if (
            swept
            and swept <= tunable(spec)
            and (options.workers or 1) == 1
            and options.backend == "processes"
        ):
            self._keeping = Keeping(spec, options.seed)

    @property
    def indexed(self) -> int | None:
        """The number of built indexes; None if every run built its own."""
        return None if self._keeping is None else self._keeping.indexed

    def values(self, dataset: Dataset, setting: Setting, metric: Metric) -> tuple[Path, Values]:
        """The run of a setting, and its metric by query; NaN if it was not scored."""
        params = {name: value for name, value in setting.items() if name != "k"}
        under_test: Any
        if self._keeping is not None:
            under_test = self._keeping.set_params(params)
        else:
            merged = {**self._spec.params, **params}
            under_test = RetrieverSpec(self._spec.name, merged, self._spec.plugins)
        folder = run(dataset, under_test, self._options, out=self._out, mode=Mode.RESUME)
        score_run(folder, dataset, Choices(metrics=(metric,)))
        scored = ScoredRun.read(folder)
        for block, found in scored.blocks.items():
            protocol, level = block
            if level == "turn>session" or self._protocol not in ("", protocol):
                continue
            if str(metric) in found.overall:
                rows = scored.rows(block)
                at = dataset.query_rows
                values = np.full(dataset.n_queries, np.nan)
                values[[at[query] for query in rows.queries]] = rows.values(str(metric))
                return folder, values
        raise UsageError(f"{metric} is not scored by {self._protocol or 'any protocol'}")


def _metric(metric: Metric, setting: Setting) -> Metric:
    k = cut_off(setting)
    return metric if k is None else Metric.parse(f"{str(metric).partition('@')[0]}@{k}")


def _intervals(dataset: Dataset, values: Values, part: Flags) -> list[MeanInterval]:
    clusters = query_clusters(dataset)
    used = part & ~np.isnan(values)
    if not used.any():
        raise UsageError("no query of the part that settings are judged on could be scored")
    return mean_intervals(values[used], None if clusters is None else clusters[used], bounds=(0, 1))


# -- Settings to try, from `--grid` ----------------------------------------------------------------


Setting = Params
"""Parameters of the retriever, and the cut-off `k` of a sweep over it."""


def grid(axes: Sequence[str]) -> list[Setting]:
    """All combinations of `name=value,value,...`. Raises UsageError for another form."""
    parsed: dict[str, list[Any]] = {}
    for axis in axes:
        name, equals, values = axis.partition("=")
        if not equals or not name or not values:
            raise UsageError(f"--grid takes name=value,value,..., not {axis!r}")
        if name in parsed:
            raise UsageError(f"--grid {name} is given twice")
        parsed[name] = _values(values)
    return [dict(zip(parsed, chosen, strict=True)) for chosen in product(*parsed.values())]


def _values(text: str) -> list[Any]:
    """Parse JSON (`[[1,2],[2,1]]` for lists), else texts separated by commas."""
    import orjson

    try:
        found = orjson.loads(text if text.startswith("[") else f"[{text}]")
        return found if isinstance(found, list) and found else [text]
    except orjson.JSONDecodeError:
        return [_value(part) for part in text.split(",")]


def _value(text: str) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def cut_off(setting: Setting) -> int | None:
    """The `k` of a setting. Raises UsageError for other values."""
    k = setting.get("k")
    if k is not None and (type(k) is not int or k < 1):
        raise UsageError(f"k must be a whole number of 1 or more, not {k!r}")
    return k


def said(setting: Setting) -> str:
    """Format a setting as in `--grid`."""
    return " ".join(f"{name}={value}" for name, value in setting.items()) or "defaults"


# -- A retriever that keeps its indexes between settings -------------------------------------------

_MOST_KEPT = 64
"""Maximum number of indexes in memory."""


def tunable(spec: RetrieverSpec) -> set[str]:
    """Parameters that the retriever can change without indexing again."""
    set_params = getattr(find(spec.name), "set_params", None)
    return (
        set(inspect.signature(set_params).parameters) - {"self"}
        if set_params is not None
        else set()
    )


class Keeping:
    """A retriever that indexes each haystack once for several settings.

    `set_params` sets the parameters of the next run; the retriever must be able to change them
    without indexing again. `indexed` counts the built indexes.
    """

    batch_size: int

    def __init__(self, spec: RetrieverSpec, seed: int) -> None:
        self._spec, self._seed = spec, seed
        self._indexed: dict[bytes, Any] = {}
        self.indexed = 0
        self.name = spec.name
        self.set_params({})

    def set_params(self, setting: Setting) -> Keeping:
        """Use this setting for searches; other parameters are those of the spec."""
        self._setting = {**self._spec.params, **setting}
        known = tunable(self._spec)
        self._tuned = {name: value for name, value in self._setting.items() if name in known}
        self.params = dict(self._setting)
        probe = RetrieverSpec(self._spec.name, self._setting, self._spec.plugins).build(self._seed)
        self.batch_size = int(getattr(probe, "batch_size", 1))
        self.revision = getattr(probe, "revision", None)
        return self

    def index(self, corpus: Corpus) -> None:
        """Use the index of this corpus, or build it."""
        key = corpus.key
        if key not in self._indexed:
            if len(self._indexed) >= _MOST_KEPT:
                self._indexed.clear()
            spec = RetrieverSpec(self._spec.name, self._setting, self._spec.plugins)
            self._indexed[key] = spec.build(self._seed)
            one = self._indexed[key]
            ingest(one, corpus, known_by(retriever_record(spec), one))
            self.indexed += 1
        self._current = self._indexed[key]
        self._current.set_params(**self._tuned)

    def search(self, queries: Sequence[Question], k: int) -> Any:
        """Search with the retriever and the present setting."""
        return calls.search(self._current, queries, k)
