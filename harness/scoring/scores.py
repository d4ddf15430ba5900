"""Scores of a run: `scores["recall@10"]`, `scores["recall@10", "temporal"]`, tables of all results.

`report` is the content of scores.json: protocols x slices x metrics, each result with its value, n,
interval, random baseline, upper bound and signature. This module provides lookups in it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.errors import UsageError, suggest
from harness.io.terminal import digits
from harness.records.scores import MetricResult, ProtocolResult, ReturnedStats, ScoreReport
from harness.schema import Ability

if TYPE_CHECKING:
    from pandas import DataFrame

    from harness.records.run import DatasetRef
    from harness.records.scores import ScoredDataset

MAIN = ("recall@10", "hit@10", "ndcg@10", "mrr@10")
"""Main metrics, shown in one line if they were scored."""

MAIN_OF_ANSWERS = ("accuracy", "f1", "token_f1")
"""Main metrics of answers."""


@dataclass(frozen=True, repr=False)
class Scores:
    """Scores of one run on one dataset.

    `scores[metric]`, `scores[metric, slice]` and `scores[metric, slice, protocol]` are numbers.
    `metric` is a name as printed (`recall@10`). `slice` is `all` by default, `answerable`, an
    ability, or a category of the dataset. `protocol` is a name (`trec`, `locomo-official`), with
    the suffix `:turn>session` for rankings of turns scored as sessions; by default the one that
    `harness run` shows by ability. NaN is a mean over no query.

    `report` has all results, `per_query` one row per query and protocol, `excluded` the ids that a
    protocol did not score, by protocol and reason.
    """

    report: ScoreReport
    per_query: pa.Table
    excluded: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        """Returns a mean. Raises UsageError with similar names if it was not scored."""
        value = self.result(*((key,) if isinstance(key, str) else key)).value
        return math.nan if value is None else value

    def result(self, metric: str, slice: str = "all", protocol: str = "") -> MetricResult:
        """Returns a result: value, n, interval, random baseline, upper bound and signature.

        Raises UsageError, with similar names, if it was not scored.
        """
        slices = self._protocol(protocol).slices
        if slice not in slices:
            raise UsageError(f"no slice {slice!r}{suggest(slice, list(slices))}")
        metrics = slices[slice].metrics
        if metric not in metrics:
            raise UsageError(f"no metric {metric!r} was scored{suggest(metric, list(metrics))}")
        return metrics[metric]

    def signature(self, metric: str, slice: str = "all", protocol: str = "") -> str:
        """Returns the signature of a result. Raises UsageError as `result` does."""
        return self.result(metric, slice, protocol).signature

    @property
    def protocols(self) -> list[str]:
        """Names of the scored protocols, as the third part of a key."""
        return [one.key for one in self.report.protocols]

    @property
    def slices(self) -> list[str]:
        """Slices of the default protocol."""
        return list(self._protocol("").slices)

    @property
    def metrics(self) -> list[str]:
        """Metrics of the default protocol."""
        return list(self._protocol("").overall)

    def to_arrow(self) -> pa.Table:
        """Returns a row per result: protocol, slice, metric, value, n, low, high, random_baseline,
        upper_bound, signature. Missing values are null."""
        return pa.Table.from_pylist(list(self._rows()), _COLUMNS)

    def to_pandas(self) -> DataFrame:
        """Returns the rows of `to_arrow` as a data frame; needs pandas, which is not a dependency.

        Raises UsageError if pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise UsageError("to_pandas needs pandas: pip install pandas, or take to_arrow()")
        frame: DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        """Summary of the main results."""
        dataset = self.report.dataset
        head = f"Scores on {dataset.name}, {dataset.granularity}"
        if (main := main_protocol(self.report.protocols)) is None:
            return f"<{head}: nothing could be scored>"
        results = main.overall
        names = [name for name in MAIN if name in results] or list(results)[:4]
        shown = "  ".join(f"{name} {digits(results[name].value)}" for name in names)
        n = main.slices["all"].n if results else 0
        others = [name for name in self.protocols if name != main.key]
        also = f"; also {', '.join(others)}" if others else ""
        return f"<{head}; {main.key}, n {n}: {shown}{also}>"

    def _repr_html_(self) -> str | None:
        """Returns the main results by slice as a table, for notebooks."""
        from harness.scoring.notebook import scores_table

        return scores_table(self.report.dataset, main_protocol(self.report.protocols), MAIN)

    def _protocol(self, name: str) -> ProtocolResult:
        """Returns a protocol; the default one for an empty name. Raises UsageError."""
        protocols = self.report.protocols
        named = (one for one in protocols if name in (one.key, one.name))
        found = next(named, None) if name else main_protocol(protocols)
        if found is None:
            raise UsageError(f"no protocol {name!r} was scored{suggest(name, self.protocols)}")
        return found

    def _rows(self) -> Iterator[dict[str, str | float | None]]:
        for protocol in self.report.protocols:
            for slice_, part in protocol.slices.items():
                for metric, result in part.metrics.items():
                    yield {
                        "protocol": protocol.key,
                        "slice": slice_,
                        "metric": metric,
                        "value": result.value,
                        "n": result.n,
                        "low": result.interval.low if result.interval else None,
                        "high": result.interval.high if result.interval else None,
                        "random_baseline": result.random_baseline,
                        "upper_bound": result.upper_bound,
                        "signature": result.signature,
                    }


_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("protocol", "slice", "metric")),
        ("value", pa.float64()),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in ("low", "high", "random_baseline", "upper_bound")),
        ("signature", pa.string()),
    ]
)


def main_protocol(protocols: Sequence[ProtocolResult]) -> ProtocolResult | None:
    """Returns the protocol to show by ability: `memory` if there are several abilities, else
    `trec`; for answers, the last judge's, else LoCoMo's, else that of plain texts."""
    if protocols and protocols[0].level == "answer":
        judges = [one for one in protocols if one.protocol.startswith("judge:")]
        return [protocols[0], *protocols[1:2], *judges][-1]
    by_name = {one.protocol: one for one in reversed(protocols) if one.level != "turn>session"}
    memory = by_name.get("memory")
    abilities = [name for name in (memory.columns if memory else ()) if name in set(Ability)]
    if memory and (len(abilities) > 1 or "trec" not in by_name):
        return memory
    return by_name.get("trec") or next(iter(protocols), None)


def range_over_judges(protocols: Sequence[ProtocolResult]) -> tuple[float, float] | None:
    """Returns the minimum and maximum accuracy of a set of answers over its judges; None for fewer
    than two judges. Human labels, which cover a sample, are not included."""
    judged = [one.overall for one in protocols if one.protocol.startswith("judge:")]
    found = [
        results["accuracy"].value
        for results in judged
        if "accuracy" in results and results["accuracy"].value is not None
    ]
    return (min(found), max(found)) if len(found) > 1 else None


def main_metrics(
    metrics: Collection[str], asked: Sequence[str] = (), main: Sequence[str] = MAIN
) -> list[str]:
    """Returns the main metrics of a slice, then the requested ones.

    If a family has no cutoff of 10, its deepest cutoff is used.
    """
    found = []
    for name in main:
        family = name.partition("@")[0]
        deep = [m for m in metrics if m.partition("@")[0] == family and m.partition("@")[2]]
        deepest = max(deep, key=lambda m: int(m.partition("@")[2]), default=None)
        if name in metrics:
            found.append(name)
        elif deepest is not None:
            found.append(deepest)
    if not found:
        found = [name for name in MAIN_OF_ANSWERS if name in metrics][:1]
    return list(dict.fromkeys([*found, *(name for name in asked if name in metrics)]))


def depth_message(returned: ReturnedStats | None, depth: int, *, requested: bool) -> str:
    """Describes the number of returned documents per query.

    `requested`: `depth` is the requested depth. For imported rankings it is unknown, and `depth`
    is the largest depth of any of them.
    """
    asked = f"{'requested' if requested else 'max'} {depth}"
    if returned is None:
        return f"returned no documents ({asked})"
    if returned.min == depth:
        return f"returned {depth} documents per query"
    least = f"min {returned.min}{'' if returned.shorter else ' = whole haystack'}"
    return f"returned {returned.mean:.1f} documents per query on average ({least}, {asked})"


def dataset_labels(d: ScoredDataset | DatasetRef) -> str:
    """Formats the form of a dataset as `granularity=turn  text=official  split=test`."""
    return f"granularity={d.granularity}  text={d.text}  split={d.split}"


def excluded_message(excluded: Mapping[str, int]) -> str:
    """Describes the queries that are excluded from means, by the reasons in scores.json."""
    return f"excluded queries: {'; '.join(f'{n} {reason}' for reason, n in excluded.items())}"


def unreached_message(returned: ReturnedStats | None, metrics: Iterable[str] | None = None) -> str:
    """Describes the cutoffs that exceed the number of returned documents; empty if none does.

    `metrics`: restricts it to their cutoffs (None: all scored cutoffs).
    """
    cutoffs = returned.unreached_cutoffs if returned else []
    if metrics is not None:
        cuts = {name.rpartition("@")[2] for name in metrics}
        cutoffs = [cutoff for cutoff in cutoffs if str(cutoff) in cuts]
    if returned is None or not cutoffs:
        return ""
    exceed = "exceeds" if len(cutoffs) == 1 else "exceed"
    return (
        f"k = {', '.join(map(str, cutoffs))} {exceed} the number of documents returned for more "
        "than 10% of queries"
    )
