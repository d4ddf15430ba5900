"""The lines below a table: what a run says beside its protocols' numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.records.run import RunRecord
    from harness.records.scores import (
        ChangesResult,
        KnowledgeUpdateResult,
        PrecisionRecallF1,
        ScoreReport,
    )


Line = tuple[str, str]
"""A title, and what is said."""


def below(report: ScoreReport, record: RunRecord) -> list[Line]:
    """Titles and texts of all that there is something to say of."""
    of_scores = (hits, _updates, _changes, _abstention, _tokens)
    of_run = (_times, _used, _embeddings)
    found = [*(line(report) for line in of_scores), *(line(record) for line in of_run)]
    return [line for line in found if line is not None]


def notes(record: RunRecord) -> list[str]:
    """What the harness changed of the system's answers, and what approximate search left out."""
    k, said = record.settings.k, record.notes
    told = (
        (said.documents_beyond_k, f"results beyond k = {k} were left out"),
        (said.padding, "places of answers held -1, for nothing, and were left out"),
        (said.duplicate_documents, "documents stood in their ranking before and were left out"),
        (said.sorted_by_score, "answers were not in the order of their scores and were sorted"),
        (said.scores_dropped, "answers lost their scores, as others had none"),
    )
    found = [*_published(record)]
    found += [f"{n} {text}" for n, text in told if n]
    if record.hits is not None and (beyond := record.hits.documents_beyond_k):
        found.append(f"{beyond} documents of texts stood beyond k = {k} and were left out")
    return found + _approximate(record)


def _published(record: RunRecord) -> Iterator[str]:
    """Describes a published file: its format, which ranking was taken, and what was asked."""
    from harness.records.run import ImportedFile, PublishedFile

    about = record.imported_from
    if isinstance(about, PublishedFile):
        from harness.rankings.published.form import run_format

        others = [name for name in run_format(about.format).rankings if name != about.ranking]
        more = f"; it holds {', '.join(others)} too (--ranking)" if others else ""
        yield f"{about.ranking} of {about.file}, in the form {about.format}{more}"
    if not isinstance(about, PublishedFile | ImportedFile):
        return
    asked, queries = about.asked, about.queries
    if asked is not None and queries is not None and asked < queries:
        zero = record.queries.asked > asked
        scored = "the others count 0" if zero else "scores are over those"
        within = ""
        if isinstance(about, PublishedFile) and about.haystacks_asked < about.haystacks < queries:
            within = f", in {about.haystacks_asked} of {about.haystacks} haystacks"
        yield f"{asked} of {queries} questions{within} stand in the file: {scored}"


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
            f"search by {search} found {kept:.1%} of the documents of exact search, for the first "
            f"{n} questions; built in {sum(one.build_seconds for one in own):.1f} s"
        )
    return said


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
            (found.n_after_forget, "after a forgetting", (f"forgotten_returned@{k}",)),
            (found.n_with_future, "before the end", (f"future_returned@{k}",)),
        )
        if n
    ]
    return "changes", f"{'; '.join(parts)}; less is better"


def _with_random(found: KnowledgeUpdateResult | ChangesResult, names: Iterable[str]) -> str:
    """Returns the values of these metrics with their random baselines."""
    return ", ".join(
        f"{name.replace('_', ' ')} {_plain(found.values[name])} "
        f"(random {_plain(found.random_baseline[name])})"
        for name in names
    )


def _cut_off(names: Iterable[str]) -> int | None:
    """10 of the cut-offs in the names of metrics, or what is next to it."""
    ks = [int(k) for _, at, k in (name.partition("@") for name in names) if at]
    return max((k for k in ks if k <= 10), default=min(ks, default=None))


def _abstention(report: ScoreReport) -> Line | None:
    found = report.abstention
    if found is None:
        return None
    text = (
        f"{found.n_unanswerable} unanswerable, {found.n_answerable} answerable: "
        f"false positive rate {_plain(found.false_positive_rate)}"
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
    """Precision, recall and F1 of abstaining."""
    return f"P {_plain(found.precision)} R {_plain(found.recall)} F1 {_plain(found.f1)}"


def _tokens(report: ScoreReport) -> Line | None:
    tokens = report.tokens
    if tokens is None:
        return "prompt cost", "not known: the dataset has ids alone, no texts"
    mean = tokens.per_query_top_10.mean
    if mean is None:
        return None
    within = tokens.recall_within_budget
    parts = [
        f"{budget}: {_plain(one.recall)}{'*' if one.ended else ''}"
        for budget, one in within.items()
    ]
    text = f"{mean:.0f} {tokens.tokenizer} tokens in the top 10; recall by tokens: "
    text += ", ".join(parts)
    text += f"; random {', '.join(_plain(one.random_baseline) for one in within.values())}"
    if any(part.endswith("*") for part in parts):
        text += " (* some rankings ended before)"
    return "prompt cost", text


def _times(record: RunRecord) -> Line | None:
    from harness.scoring.uncertainty import counted

    measured = record.measured
    if measured is None or measured.search_ms is None:
        return None
    search, index = measured.search_ms, measured.index
    text = f"search p50 {search.p50:.2f}, p95 {search.p95:.2f}, p99 {search.p99:.2f} ms"
    if index is not None:
        text += f"; indexing {index.seconds:.2f} s over {counted(index.haystacks, 'haystacks')}"
    return "time", text


def _embeddings(record: RunRecord) -> Line | None:
    """How many texts came from the cache of vectors, and its size."""
    from harness.records.run import embedder_reports

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


def hits(report: ScoreReport) -> Line | None:
    """By which way texts of the system's own became documents."""
    from harness.scoring.uncertainty import counted

    found = report.hits
    if not found:
        return None
    n = found.returned
    by_method = {way: count for way, count in found.by_method.items() if way != "none"}
    ways = ", ".join(f"{count / n:.1%} by {way}" for way, count in by_method.items())
    text = f"{n} texts returned; resolved {ways or 'none'}" if n else "no text was returned"
    if lost := found.by_method.get("none"):
        text += f"; {lost / n:.1%} could not be"
    if found.unmeasurable_queries:
        text += f"; {counted(found.unmeasurable_queries, 'questions')} not measurable"
    if found.matched_by_text:
        said = found.token_f1_at_least.items()
        text += "; token F1 at least " + ", ".join(f"{t}: {count}" for t, count in said)
    if found.unknown_sources:
        text += f"; {found.unknown_sources} sources are not in the haystack"
    return "hits", text


def _used(record: RunRecord) -> Line | None:
    """Describes what ingestion and search have used, as the system counts it."""
    from harness.records.run import Measured
    from harness.runs.usage import USED

    measured = record.measured or Measured()
    parts = []
    for name, used in (("ingestion", measured.ingestion), ("searching", measured.searching)):
        if used is None:
            continue
        counts = {what: getattr(used, what) for what in USED}
        said = [f"{n:,.0f} {what.replace('_', ' ')}" for what, n in counts.items() if n]
        if used.usd is not None:
            said.append(f"{money(used.usd)} USD")
        if used.usd_per_1000_queries is not None:
            said.append(f"{money(used.usd_per_1000_queries)} USD a thousand questions")
        parts.append(f"{name} {', '.join(said) or 'nothing'}")
    return ("cost", f"{'; '.join(parts)}; as the system counts") if parts else None


def cost(record: RunRecord) -> Line | None:
    """`_used`, where it is known in money."""
    measured = record.measured
    used = (measured.ingestion, measured.searching) if measured else ()
    return _used(record) if any(one is not None and one.usd is not None for one in used) else None


def money(dollars: float) -> str:
    """US dollars: cents, or of small sums four digits."""
    return f"{dollars:,.2f}" if dollars >= 10 or not dollars else f"{dollars:.4g}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def ends(low: float, high: float, between: str = " to ") -> str:
    """`.457 to .599`: an interval, short enough for a column."""
    first, last = (f"{end:.3f}".replace("0.", ".", 1) for end in (low, high))
    return f"{first}{between}{last}"


def size(n: int | None) -> str:
    """A number of bytes for people."""
    if not n:
        return "-"
    value = float(n)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")
