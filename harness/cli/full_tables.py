"""The tables of --full: every ability, metric and protocol of a scored run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from harness.cli.options import only_kinds
from harness.cli.run_summary_lines import (
    excluded_line,
    head,
    hits,
    interval_range,
    notes,
    protocol_line,
    semantic,
    size,
    ties_line,
    usage,
)
from harness.io.terminal import count_of, digits, grid
from harness.records.run import RunRecord, embedder_reports
from harness.records.scores import (
    ChangesResult,
    Interval,
    KnowledgeUpdateResult,
    MetricResult,
    PrecisionRecallF1,
    ProtocolResult,
    ScoreReport,
)
from harness.schema import Ability
from harness.scoring.scores import main_protocol

Line = tuple[str, str]
"""A title and its text."""

_COLUMNS = {
    "memory": ("recall@5", "recall@10", "hit@10", "recall_all@10", "ndcg@10", "mrr@10"),
    "trec": ("ndcg@10", "mrr@10", "map@100", "recall@10", "recall@100", "precision@10"),
}


def print_scores(report: ScoreReport, record: RunRecord, folder: Path, columns: list[str]) -> None:
    """Prints the head, the table by ability, other protocols, abstention, updates, tokens, and
    warnings."""
    print(head(report, record))
    main = main_protocol(report.protocols)
    if main is not None:
        print()
        print(_ability_table(main, columns))
    others = [protocol_line(one) for one in report.protocols if one is not main]
    if any(others):
        print("\nalso scored as")
        print("\n".join(line for line in others if line))
    if report.semantic is not None:
        print(f"\n{semantic(report.semantic)}")
    extra = _below(report, record)
    if extra:
        print()
        print("\n".join(f"{title:17} {text}" for title, text in extra))
    for note in [*report.warnings, *notes(record)]:
        print(f"note: {note}")
    if main is not None and main.overall:
        first = _columns(main.protocol, main.overall, columns)[0]
        print(f"\nsignature of {first}, all: {main.overall[first].signature}")
    print(f"files in {folder}: rankings.parquet, scores.json, scores.parquet, run.json")


def _ability_table(protocol: ProtocolResult, columns: list[str]) -> str:
    slices = protocol.slices
    if not slices:
        return "no query could be scored; see excluded.json"
    known = next(iter(slices.values())).metrics
    shown = _columns(protocol.protocol, known, columns)
    order = [str(a) for a in Ability] + ["answerable", "all"]
    names = [name for name in order if name in slices]
    if "answerable" in names and slices["answerable"].n == slices["all"].n:
        names.remove("answerable")
    if len(names) == 2:  # one ability: the same row twice
        names = ["all"]
    rows: list[list[str | int]] = []
    for name in names:
        of_slice = slices[name].metrics
        rows.append([name, slices[name].n, *(_value(of_slice.get(m)) for m in shown)])
    results = protocol.overall
    answered = [results[m].answered_only for m in shown]
    if some := next(filter(None, answered), None):
        rows.append(
            [
                "  answered only",
                some.n,
                *("-" if a is None else digits(a.value) for a in answered),
            ]
        )
    if any(results[m].interval for m in shown):
        rows.append(["  95% interval", "", *(interval_range(results[m].interval) for m in shown)])
    macros = [results[m].macro_haystack for m in shown]
    if some_macro := next(filter(None, macros), None):
        # Differs from `all` if large haystacks and small ones differ.
        once = ["-" if one is None else digits(one.value) for one in macros]
        rows.append(["  mean of haystacks", some_macro.groups, *once])
    macros = [results[m].macro_category for m in shown]
    if some_macro := next(filter(None, macros), None):
        once = ["-" if one is None else digits(one.value) for one in macros]
        rows.append(["  mean of categories", some_macro.groups, *once])
    rows.append(["random", "", *(digits(results[m].random_baseline) for m in shown)])
    bounds = [results[m].upper_bound for m in shown]
    if any(bound is not None and bound < 0.99995 for bound in bounds):
        inexact = any(results[m].upper_bound_method for m in shown)
        rows.append(["max (at most)" if inexact else "max", "", *map(digits, bounds)])
    text = grid(rows, [protocol.name, "n", *shown], keys=2)
    if said := _how(results[shown[0]].interval):
        text += f"\n{said}"
    tied = next((m for m in shown if results[m].ties), None)
    if tied is not None:
        # Smaller effects are below the precision of the table.
        text += ties_line(tied, results[tied], 0.0005)
    return text + excluded_line(protocol)


def _columns(protocol: str, known: Iterable[str], asked: list[str]) -> list[str]:
    """Returns at most eight metrics: requested ones (`@5`: at this cut-off), then the headline ones
    of the protocol; if the rankings are too short for those, its metrics at k = 10 or the deepest
    k."""
    names = list(known)
    headline = _COLUMNS.get(protocol, ())
    kinds = dict.fromkeys(name.partition("@")[0] for name in headline or names)
    shown = [name for name in (*only_kinds(asked, kinds), *headline) if name in names]
    if sum(name in names for name in headline) < len(headline):
        ks = sorted({int(name.rpartition("@")[2]) for name in names if "@" in name}, reverse=True)
        k10 = sorted(ks, key=lambda k: (k != 10, -k))  # 10 first, then the deepest
        shown += [f"{kind}@{k}" for k in k10 for kind in kinds if f"{kind}@{k}" in names]
    return list(dict.fromkeys(shown or names))[:8]


def _how(interval: Interval | None) -> str:
    """Describes how the intervals were computed."""
    if interval is None:
        return ""
    from harness.stats.intervals import METHOD_NAMES

    method = METHOD_NAMES[interval.method]
    said = f"intervals: {method} over {count_of(interval.clusters, interval.cluster_by)}"
    if interval.cluster_by == "haystacks":
        said += ", as questions to one haystack are not independent"
    return said + (f"; approximate ({interval.approximate})" if interval.approximate else "")


def _value(result: MetricResult | None) -> str:
    return "-" if result is None else digits(result.value)


def _below(report: ScoreReport, record: RunRecord) -> list[Line]:
    """Returns titles and texts of the results that a run has."""
    of_scores = (hits, _updates, _changes, _abstention, _tokens)
    of_run = (_times, usage, _embeddings)
    found = [*(line(report) for line in of_scores), *(line(record) for line in of_run)]
    return [line for line in found if line is not None]


def _updates(report: ScoreReport) -> Line | None:
    found = report.knowledge_update
    k = _cut_off(found.values) if found else None
    if found is None or k is None:
        return None
    names = (f"update_recall@{k}", f"stale_only_rate@{k}", "update_ranked_first")
    return "knowledge update", f"n {found.n}: {_with_random(found, names)}"


def _changes(report: ScoreReport) -> Line | None:
    found = report.changes
    k = _cut_off(found.values) if found else None
    if found is None or k is None:
        return None
    parts = [
        f"{what}, n {n}: {_with_random(found, names)}"
        for n, what, names in (
            (
                found.n_after_update,
                "after an update",
                (f"outdated_returned@{k}", f"outdated_above@{k}"),
            ),
            (found.n_after_forget, "after a deletion", (f"forgotten_returned@{k}",)),
            (found.n_with_future, "before the end", (f"future_returned@{k}",)),
        )
        if n
    ]
    return "changes", f"{'; '.join(parts)}; less is better"


def _with_random(found: KnowledgeUpdateResult | ChangesResult, names: Iterable[str]) -> str:
    """Returns the values of these metrics with their random baselines."""
    return ", ".join(
        f"{name.replace('_', ' ')} {digits(found.values[name])} "
        f"(random {digits(found.random_baseline[name])})"
        for name in names
    )


def _cut_off(names: Iterable[str]) -> int | None:
    """Returns the largest cut-off up to 10 in the names of metrics, else the smallest."""
    ks = [int(k) for _, at, k in (name.partition("@") for name in names) if at]
    return max((k for k in ks if k <= 10), default=min(ks, default=None))


def _abstention(report: ScoreReport) -> Line | None:
    found = report.abstention
    if found is None:
        return None
    text = (
        f"{found.n_unanswerable} unanswerable, {found.n_answerable} answerable: "
        f"false positive rate {digits(found.false_positive_rate)}"
    )
    if found.as_returned.recall:
        text += f"; as returned {_prf(found.as_returned)}"
    if confidence := found.confidence:
        text += (
            f"; by {found.confidence_source}: AUROC {confidence.auroc:.4f}, cross-validated "
            f"{_prf(confidence.at_threshold)}, AURC {confidence.aurc:.4f}"
        )
    return "abstention", text


def _prf(found: PrecisionRecallF1) -> str:
    """Formats precision, recall and F1 of abstaining."""
    return f"P {digits(found.precision)} R {digits(found.recall)} F1 {digits(found.f1)}"


def _tokens(report: ScoreReport) -> Line | None:
    tokens = report.tokens
    if tokens is None:
        return "prompt cost", "unknown: the dataset has ids only, no texts"
    mean = tokens.per_query_top_10.mean
    if mean is None:
        return None
    within = tokens.recall_within_budget
    parts = [
        f"{budget}: {digits(one.recall)}{'*' if one.ended else ''}"
        for budget, one in within.items()
    ]
    text = f"{mean:.0f} {tokens.tokenizer} tokens in the top 10; recall by tokens: "
    text += ", ".join(parts)
    text += f"; random {', '.join(digits(one.random_baseline) for one in within.values())}"
    if any(part.endswith("*") for part in parts):
        text += " (* some rankings end earlier)"
    return "prompt cost", text


def _times(record: RunRecord) -> Line | None:
    measured = record.measured
    if measured is None or measured.search_ms is None:
        return None
    search, index = measured.search_ms, measured.index
    text = f"search p50 {search.p50:.2f}, p95 {search.p95:.2f}, p99 {search.p99:.2f} ms"
    if index is not None:
        text += f"; indexing {index.seconds:.2f} s over {count_of(index.haystacks, 'haystacks')}"
    return "time", text


def _embeddings(record: RunRecord) -> Line | None:
    """Describes how many texts were in the vector cache, and its size."""
    reported = embedder_reports(record.reported)
    asked = sum(one.texts_asked for one in reported)
    if not asked:
        return None
    embedded = sum(one.texts_embedded for one in reported)
    seconds = sum(one.embedding_seconds for one in reported)
    took = f" in {seconds:.1f} s" if embedded else ""
    kept = size(max(one.cache_bytes for one in reported))
    return (
        "embeddings",
        f"{asked:,} texts, {1 - embedded / asked:.1%} from the cache ({kept}), "
        f"{embedded:,} embedded{took}",
    )
