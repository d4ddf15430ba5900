"""The output of `harness label generate` and `check` as text."""

from __future__ import annotations

from collections.abc import Iterator

from harness.extensions.labelling.generate.records import (
    EndpointUsage,
    GenerateReport,
    LeakageReport,
)
from harness.scoring.grid import grid


def render_generated(found: GenerateReport) -> str:
    """Returns what was generated, proposed and excluded, and what it cost."""
    before = found.queries - found.new_queries
    new = f", {found.new_queries} of them new" if before else ""
    several = found.multi_document_queries
    parts = ", ".join(f"{name} {n}" for name, n in found.leakage.splits.queries.items())
    lines = [
        f"{found.queries} queries from {found.documents} documents in {found.folder}{new}",
        f"splits: {parts}, by groups that share no document (the largest has {found.largest_group} "
        "queries)",
        "judged by construction: the document of each query, grade 3"
        + (f"; {several} queries were made from several" if several else ""),
        _proposals(found),
    ]
    if found.queries < found.requested:
        lines.append(f"fewer than the {found.requested} requested queries (--queries)")
    if 2 * found.largest_group > found.queries > 1:
        lines.append("note: more than half of the queries are connected and in one split")
    if found.excluded or found.empty:
        lines += ["", "excluded"]
        lines += [f"  {reason}: {n}" for reason, n in found.excluded.items()]
    if found.endpoint:
        lines += ["", *_usage(found.endpoint)]
    return "\n".join(lines)


def _proposals(found: GenerateReport) -> str:
    if not found.proposals:
        return "proposed: nothing; no other document has the same text or the same topic"
    by = ", ".join(f"{n} by {why}" for why, n in sorted(found.proposals_by_reason.items()))
    return (
        f"proposed: {found.proposals} documents ({by}); none is relevant before a person says so: "
        f"harness label open {found.folder}"
    )


def _usage(usage: EndpointUsage) -> Iterator[str]:
    cached = f"; {usage.cached_answers} answers were cached" if usage.cached_answers else ""
    yield (
        f"{usage.model} at {usage.endpoint}: {usage.calls} calls, {usage.prompt_tokens} "
        f"prompt and {usage.completion_tokens} completion tokens{cached}"
    )
    if usage.calls_without_usage:
        yield f"  {usage.calls_without_usage} answers did not report their tokens"
    for refusal in usage.refused[:3]:
        yield f"  refused: {refusal}"


def render_checks(leakage: LeakageReport) -> str:
    """Returns the checks as a table, with examples."""
    n = leakage.leaks
    result = (
        f"{n} leak{'' if n == 1 else 's'} found: quotes, splits and public texts above"
        if n
        else "no leak was found in what was compared"
    )
    table = grid(list(_rows(leakage)), ["leakage", "what", "found", "of"])
    return "\n".join([table, *_notes(leakage), result])


def _rows(leakage: LeakageReport) -> Iterator[list[str | int]]:
    quotes, splits = leakage.quotes, leakage.splits
    mean = quotes.shared_words
    yield [
        "quotes",
        f"queries with {quotes.min_run} words and more in a row of their document",
        quotes.quoting,
        f"{quotes.n} queries",
    ]
    yield [
        "",
        "share of a query's words that its document has, by rarity, mean",
        "-" if mean is None else f"{mean:.2f}",
        f"{quotes.shared_words_n} queries",
    ]
    of = f"{sum(splits.queries.values())} queries in {len(splits.queries)} splits"
    yield ["splits", "documents of queries in two splits", len(splits.documents), of]
    yield ["", "different documents with the same text", len(splits.same_texts), of]
    yield ["", "queries with the same content words", len(splits.same_queries), of]
    for at, one in enumerate(leakage.benchmarks):
        yield [
            "" if at else "public",
            f"the same + nearly the same in {one.dataset}",
            f"{one.same_documents} + {one.similar_documents} documents, "
            f"{one.same_queries} + {one.similar_queries} queries",
            f"{one.dataset_documents} documents, {one.dataset_queries} queries",
        ]


def _notes(leakage: LeakageReport) -> Iterator[str]:
    quotes, splits = leakage.quotes, leakage.splits
    mean = quotes.shared_words
    if mean is not None and mean >= 0.5:
        yield (
            f"note: documents have {mean:.0%} of their queries' words, which favours retrievers "
            "that match words, BM25 among them"
        )
    for one in quotes.examples[:3]:
        yield f"note: {one.query} quotes: {one.quoted!r}"
    if n := len(splits.proposed_documents):
        yield f"note: {n} proposed documents would be in two splits if they were accepted"
    for same in splits.same_queries[:3]:
        yield f"note: {' and '.join(same.ids)} ask the same, in two splits"
