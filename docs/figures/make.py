"""Writes the figures that pages of the documentation quote: `python docs/figures/make.py`.

They are scores of runs that take seconds. A key is retriever, protocol, slice, metric:
`bm25.memory.all.recall@10`; `memory>session` is turns scored as sessions. Beside the metrics of a
slice stands `n`; in the slice `all` also `random_baseline`, `upper_bound`, `low` and `high`, each
by metric.
LoCoMo is read from the cache, or from the file that --locomo names.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import RetrieverSpec, Settings, open_dataset, run, score_run
from harness.records.scores import MetricResult

HERE = Path(__file__).parent

_SAMPLE = {
    "bm25": RetrieverSpec("bm25"),
    "tfidf": RetrieverSpec("tfidf"),
    "random": RetrieverSpec("random"),
}
_LOCOMO = {
    "bm25-okapi": RetrieverSpec("bm25-okapi", {"tokens": "words"}),
}
_LOCOMO_DEPTH = 50
_KS = ("", "1", "5", "10", "100")


def sample() -> dict[str, Any]:
    """Scores of several retrievers over the sample, as `harness run` has them."""
    return {name: _scores("sample", spec, Settings()) for name, spec in _SAMPLE.items()}


def locomo(source: Path | None = None) -> dict[str, Any]:
    """Scores of BM25 over LoCoMo's turns, 50 deep, as in configs/locomo-reference.toml."""
    settings = Settings(k=_LOCOMO_DEPTH)
    return {name: _scores("locomo", spec, settings, source) for name, spec in _LOCOMO.items()}


def _scores(
    name: str, spec: RetrieverSpec, settings: Settings, source: Path | None = None
) -> dict[str, Any]:
    dataset = open_dataset(name, source=source, quiet=True)
    with TemporaryDirectory() as out:
        folder = run(dataset, spec, settings, out=Path(out), quiet=True)
        report = score_run(folder, dataset).report
    found = {}
    for protocol in report.protocols:
        of_sessions = ">session" if ">" in protocol.level else ""
        found[protocol.protocol + of_sessions] = {
            name: _slice(part.metrics, whole=name == "all")
            for name, part in protocol.slices.items()
            if ":" not in name  # categories of the dataset's own
        }
    return found


def _slice(results: Mapping[str, MetricResult], whole: bool) -> dict[str, Any]:
    """Values of the metrics of a slice and, of the whole, what stands beside them."""
    found: dict[str, Any] = {"n": next(iter(results.values())).n}
    for metric, result in results.items():
        if metric.partition("@")[2] not in _KS:
            continue
        found[metric] = _rounded(result.value)
        beside = {"random_baseline": result.random_baseline, "upper_bound": result.upper_bound}
        if result.interval is not None:
            beside |= {"low": result.interval.low, "high": result.interval.high}
        for what, value in beside.items():
            if whole and value is not None:
                found.setdefault(what, {})[metric] = _rounded(value)
    return found


def _rounded(value: float | None) -> Any:
    """To five digits: more than any page shows, fewer than machines differ in."""
    return None if value is None else round(value, 5)


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="locomo10.json, to read")
    options = parser.parse_args()
    for name, figures in (("sample", sample()), ("locomo", locomo(options.locomo))):
        text = json.dumps(figures, indent=1, sort_keys=True)
        (HERE / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
