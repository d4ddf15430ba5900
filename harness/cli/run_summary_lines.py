"""Lines above and below the tables of a run, and how their numbers are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.io.plugins import provider_or_none
from harness.io.terminal import count_of, digits

if TYPE_CHECKING:
    from harness.records.run import RunRecord
    from harness.records.scores import (
        Interval,
        MetricResult,
        ProtocolResult,
        ScoreReport,
        SemanticResult,
    )

Line = tuple[str, str]
"""A title and its text."""


def notes(record: RunRecord) -> list[str]:
    """Returns notes on results that the harness changed, and on what approximate search missed."""
    k, counts = record.settings.k, record.notes
    changes = (
        (counts.documents_beyond_k, f"results after rank k = {k} were removed"),
        (counts.padding, "results were -1, which means no document, and were removed"),
        (counts.duplicate_documents, "repeated documents in a ranking were removed"),
        (counts.scores_dropped, "rankings lost their scores, because others have none"),
    )
    found = [*_published(record)]
    found += [f"{n} {text}" for n, text in changes if n]
    if record.hits is not None and (beyond := record.hits.documents_beyond_k):
        found.append(f"{beyond} documents resolved from texts after rank k = {k} were removed")
    return found + _approximate(record)


def _published(record: RunRecord) -> Iterator[str]:
    """Describes a published file: its format, the ranking used, and its number of questions."""
    from harness.records.run import ImportedFile, PublishedFile

    about = record.imported_from
    if isinstance(about, PublishedFile):
        from harness.runfiles.run_formats import run_format

        others = [name for name in run_format(about.format).rankings if name != about.ranking]
        more = f"; it also contains {', '.join(others)} (--ranking)" if others else ""
        yield f"scored {about.ranking} of {about.file}, format {about.format}{more}"
    if not isinstance(about, PublishedFile | ImportedFile):
        return
    asked, queries = about.asked, about.queries
    if asked is not None and queries is not None and asked < queries:
        zero = record.queries.asked > asked
        scored = "the others count as 0" if zero else "only these are scored"
        within = ""
        if isinstance(about, PublishedFile) and about.haystacks_asked < about.haystacks < queries:
            within = f", in {about.haystacks_asked} of {about.haystacks} haystacks"
        yield f"the file contains {asked} of {queries} questions{within}: {scored}"


def _approximate(record: RunRecord) -> list[str]:
    from harness.records.run import embedder_reports

    reported = embedder_reports(record.reported)
    checked = [one for one in reported if one.checked_questions]
    said = []
    for search in sorted({one.search for one in checked}):
        own = [one for one in checked if one.search == search]
        n = sum(one.checked_questions for one in own)
        kept = sum(one.checked_questions * one.recall_of_exact for one in own) / n
        said.append(
            f"{search} found {kept:.1%} of the documents of exact search (first {n} questions); "
            f"built in {sum(one.build_seconds for one in own):.1f} s"
        )
    return said


def hits(report: ScoreReport) -> Line | None:
    """Describes by which methods returned texts were resolved to documents."""
    found = report.hits
    if not found:
        return None
    n = found.returned
    by_method = {way: count for way, count in found.by_method.items() if way != "none"}
    ways = ", ".join(f"{count / n:.1%} by {way}" for way, count in by_method.items())
    text = f"{n} texts returned; resolved {ways or 'none'}" if n else "no text was returned"
    if lost := found.by_method.get("none"):
        text += f"; {lost / n:.1%} not resolved"
    if found.unmeasurable_queries:
        text += f"; {count_of(found.unmeasurable_queries, 'questions')} not measurable"
    if found.matched_by_text:
        said = found.token_f1_at_least.items()
        text += "; token F1 at least " + ", ".join(f"{t}: {count}" for t, count in said)
    if found.unknown_sources:
        text += f"; {found.unknown_sources} sources are not in the haystack"
    return "hits", text


def usage(record: RunRecord) -> Line | None:
    """Describes the usage of ingestion and search, as the system counts it."""
    from harness.records.run import Measured
    from harness.runs.usage import SILENT, USED, format_usd

    measured = record.measured or Measured()
    parts = []
    for name, used in (("ingestion", measured.ingestion), ("searching", measured.searching)):
        if used is None:
            continue
        counts = {what: getattr(used, what) for what in (*USED, SILENT)}
        said = [f"{n:,.0f} {what.replace('_', ' ')}" for what, n in counts.items() if n]
        if used.usd is not None:
            said.append(f"{format_usd(used.usd)} USD")
        if used.usd_per_1000_queries is not None:
            said.append(f"{format_usd(used.usd_per_1000_queries)} USD per 1,000 questions")
        parts.append(f"{name} {', '.join(said) or 'nothing'}")
    text = f"{'; '.join(parts)}; as counted by the system"
    if n := record.cut_off_attempts:
        text += f", without the calls cut off in {count_of(n, 'attempts')}"
    return ("cost", text) if parts else None


def cost(record: RunRecord) -> Line | None:
    """Returns `usage`, if its cost in US dollars is known."""
    measured = record.measured
    used = (measured.ingestion, measured.searching) if measured else ()
    return usage(record) if any(one is not None and one.usd is not None for one in used) else None


def ends(low: float, high: float, between: str = " to ") -> str:
    """Formats an interval as `.457 to .599`, short enough for a column."""
    first, last = (f"{end:.3f}".replace("0.", ".", 1) for end in (low, high))
    return f"{first}{between}{last}"


def size(n: int | None) -> str:
    """Formats a number of bytes."""
    if not n:
        return "-"
    value = float(n)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


_OTHERS = (
    *("hit", "recall_all", "ndcg_b2", "recall", "ndcg", "mrr"),
    *("success", "token_f1", "rouge_l", "bleu1"),
    *("leak_rate", "query_leak_rate", "recall_in_scope"),
    *("retrieval_precision", "retrieval_recall"),
)


def head(report: ScoreReport, record: RunRecord, *, params: bool = True) -> str:
    """Formats the lines above a table: the system, the data, the queries and the protocol."""
    from harness.datasets.manifest import IDS_ONLY
    from harness.scoring.scores import dataset_labels, depth_message, main_protocol

    d, q = report.dataset, report.queries
    given = record.retriever.params
    system = record.retriever.name
    name = f"{record.name} ({system})" if record.name else system
    main = main_protocol(report.protocols)
    lines = [
        f"{name} on {d.name}  {dataset_labels(d)}  queries={q.asked}"
        + (f" of {q.in_dataset}" if q.asked != q.in_dataset else "")
        + f"  failed={q.failed}"
        + _empty(q.without_ranking, report.missing, own_run=record.measured is not None),
        depth_message(report.returned, report.depth, requested=record.executed),
        (f"protocol={main.name}  " if main else "")
        + f"data={d.fingerprint[:8]}"
        + (" (NOT the published files)" if d.published_files is False else ""),
    ]
    if given and params:
        lines.insert(1, "parameters: " + ", ".join(f"{k}={v}" for k, v in given.items()))
    if empty := record.empty_haystacks:
        lines.append(f"in {empty.n} of {empty.total} haystacks no query returned a document")
    if record.retriever.sees_gold_labels:
        lines.append("this retriever is given the gold labels: a reference, not a competitor")
    if d.text == IDS_ONLY:
        lines.append(
            "the dataset has ids only, no texts: unknown ids count as other documents of the "
            "haystack; there is no random baseline and no prompt cost"
        )
    elif report.unknown_documents:
        lines.append(
            f"{report.unknown_documents} returned documents are not in the haystack of their query"
        )
    if d.excludes_own_document:
        lines.append("excluded documents whose id equals the query's, as BEIR does")
    return "\n".join(lines)


def _empty(n: int, missing: str, *, own_run: bool) -> str:
    """Counts queries without a ranking; a run file does not show why they have none."""
    if not n:
        return ""
    how = "excluded" if missing == "skip" else "counted as 0"
    return f"  empty={n}" if own_run else f"  missing={n} ({how})"


def ties_line(metric: str, result: MetricResult, least: float) -> str:
    """Describes how far another order of ties could move a number, if that is `least` or more."""
    ties = result.ties
    if ties is None or ties.best - ties.worst < least:
        return ""
    return (
        f"\nties could move {metric} from {ties.worst:.4f} to {ties.best:.4f} "
        f"(expected {ties.expected:.4f})"
    )


def semantic(found: SemanticResult) -> str:
    """Formats the table of accuracy by text similarity; a note if no installed package does."""
    table = provider_or_none("semantic_table")
    if table is None:
        return "semantic: measured, see scores.json; no installed package shows it as a table"
    return str(table(found))


def excluded_line(protocol: ProtocolResult) -> str:
    """Describes the queries that a table excludes, by reason; empty if none."""
    from harness.scoring.scores import excluded_message

    found = {why: n for why, n in protocol.excluded.items() if not why.startswith("not asked")}
    return f"\n{excluded_message(found)}" if found else ""


def interval_range(interval: Interval | None) -> str:
    """Formats an interval as `.457-.599`, short enough for a column."""
    return "-" if interval is None else ends(interval.low, interval.high, "-")


def protocol_line(protocol: ProtocolResult) -> str:
    """Formats a line per protocol: first metrics at k = 10 (or its largest), over all queries."""
    results = protocol.overall
    ks = sorted({int(m.rpartition("@")[2]) for m in results if "@" in m})
    usable = [
        k
        for k in ks
        if any(one.value is not None for m, one in results.items() if m.endswith(f"@{k}"))
    ]
    at = f"@{10 if 10 in usable else usable[-1]}" if usable else ""
    names = [f"{name}{at}" for name in _OTHERS if f"{name}{at}" in results][:4]
    if not names:
        return ""
    values = "  ".join(f"{name} {digits(results[name].value)}" for name in names)
    n = protocol.slices["all"].n
    lower = " (leaks: lower is better)" if f"leak_rate{at}" in names else ""
    return f"  {protocol.name:28} {protocol.level:14} n {n:<6} {values}{lower}"
