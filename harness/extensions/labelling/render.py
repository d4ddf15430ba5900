"""Formats the status of a project, and the README of an exported dataset, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.extensions.labelling.annotations import MEANINGS
from harness.extensions.labelling.reports import (
    AgreementMeasure,
    EndpointUsage,
    ExportCounts,
    ExportManifest,
    GenerateReport,
    LeakageReport,
    ScoreStatus,
    StatusReport,
    SystemStatus,
)
from harness.io.terminal import grid

_NONE = "-"


def render_status(found: StatusReport) -> str:
    """Formats the output of `harness label status`."""
    parts = [_head(found), _annotators(found), _agreement(found), _conflicts(found)]
    if found.target == "document":
        parts += [_progress(found), _scores(found)]
    parts.append(f"next: {found.next_command}")
    return "\n\n".join(part for part in parts if part)


def _head(found: StatusReport) -> str:
    if found.target == "answer":
        answers = f"{_n(found.candidates, 'answer')} of {', '.join(found.systems)}"
        return f"{found.folder}: {_n(found.queries, 'question')}, {answers}"
    lines = [
        f"{found.folder}: {_n(found.queries, 'query', 'queries')}, "
        f"{_n(found.candidates, 'candidate')}, {_n(found.documents, 'document')}"
    ]
    if found.systems:
        lines.append(f"pooled to depth {found.depth}: {', '.join(found.systems)}")
    if len(found.systems) == 1:
        lines.append("only one system is pooled, so the qrels favour it")
    if found.without_candidates:
        lines.append(f"{found.without_candidates} queries have no candidate")
    if found.overlap < 1:
        lines.append(f"{found.shared_queries} queries are judged by every annotator")
    if found.unreviewed:
        lines.append(
            f"{found.unreviewed} generated queries are unreviewed (not judged by a person)"
        )
    return "\n".join(lines)


def _annotators(found: StatusReport) -> str:
    if not found.annotators:
        return "no judgements yet"
    rows = [
        [
            one.name,
            one.grades,
            one.remaining,
            f"{one.queries - one.queries_remaining} of {one.queries}",
            one.unanswerable,
            one.rejected,
            one.abilities,
        ]
        for one in found.annotators
    ]
    marks = ["unanswerable", "rejected", "abilities"]
    headers = ["annotator", "grades", "left", "queries done", *marks]
    if found.target == "answer":
        rows, headers = [row[:4] for row in rows], [*headers[:3], "questions done"]
    return grid(rows, headers)


def _agreement(found: StatusReport) -> str:
    if not found.agreement:
        return "agreement: not measurable, fewer than two annotators"
    table = _agreement_table(found.agreement, style="simple")
    return (
        f"{table}\nn: judged by two or more annotators. Alpha (ordinal) of grades: reliable from "
        "0.80, tentative from\n0.667 (Krippendorff, 2004)"
    )


def _agreement_table(measures: Sequence[AgreementMeasure], *, style: str) -> str:
    rows = [
        [
            one.variable,
            one.measure,
            " ".join(one.annotators) if len(one.annotators) == 2 else "all",
            _value(one.value),
            _interval(one),
            one.n,
            one.queries,
            one.note,
        ]
        for one in measures
    ]
    headers = ["agreement on", "measure", "between", "value", "95% interval", "n", "queries", ""]
    return grid(rows, headers, style=style)


def _conflicts(found: StatusReport) -> str:
    kinds, resolved = found.conflicts.open, found.conflicts.resolved
    n = sum(kinds.values())
    if not n:
        return f"conflicts: none open, {resolved} resolved" if resolved else ""
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"conflicts: {n} open ({counts}), {resolved} resolved"


def _progress(found: StatusReport) -> str:
    done = found.progress
    n = done.unanswerable_unconfirmed
    given = f" ({n} by the query file only)" if n else ""
    return (
        f"queries: finished={done.scorable}  without_relevant={done.without_relevant}  "
        f"unanswerable={done.unanswerable}{given}  rejected={done.rejected}  "
        f"unfinished={done.unfinished}"
    )


def _scores(found: StatusReport) -> str:
    scores = found.scores
    if scores is None:
        return ""
    metric, wanted = scores.metric, f"±{scores.target_half_width:g}"
    clusters = "haystacks" if scores.systems[0].clustered else "queries"
    rows = [
        [
            one.system,
            one.n,
            _value(one.value),
            _interval(one),
            _value(one.judged),
            _NONE if one.required is None else one.required,
        ]
        for one in scores.systems
    ]
    cutoff = metric.partition("@")[2]
    headers = ["system", "n", metric, "95% interval", f"judged@{cutoff} of all"]
    lines = [grid(rows, [*headers, f"{clusters} for {wanted}"]), *_notes(scores)]
    if n := found.conflicts.grades:
        lines.append(f"{n} open conflicts count as the lower grade")
    if any(one.required is None for one in scores.systems):
        lines.append(f"the {clusters} needed for {wanted} cannot be estimated yet")
    return "\n".join(lines)


def _notes(scores: ScoreStatus) -> list[str]:
    if not scores.n:
        return [f"{scores.metric}: no finished query with a relevant document yet"]
    methods = ", ".join(sorted({one.method for one in scores.systems if one.method}))
    notes = "; ".join(sorted({one.note for one in scores.systems if one.note}))
    approximate = f"; approximate: {notes}" if notes else ""
    return [f"intervals: {methods or 'none'}{approximate}"]


def _interval(one: AgreementMeasure | SystemStatus) -> str:
    return _NONE if one.low is None else f"{one.low:.3f} to {one.high:.3f}"


def _value(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _n(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


# -- README of an exported dataset -----------------------------------------------------------------

_POLICIES = {
    "lower": "the lower grade counts, and a mark as unanswerable counts",
    "higher": "the higher grade counts, and a mark as unanswerable does not count",
}

_COUNTS = {
    "unreviewed": "UNREVIEWED generated queries, with grades by construction only",
    "judged_by_two_or_more": "query-document pairs judged by two or more annotators",
    "without_relevant": "queries without a relevant document in the pool",
    "unanswerable": "unanswerable queries (ability abstention)",
    "unanswerable_unconfirmed": "of these by the query file only",
    "lowered_to_0": "grades of unanswerable queries that were set to 0",
    "unfinished": "unfinished queries, exported; unjudged documents count as not relevant",
    "excluded": "unfinished queries, excluded",
    "rejected": "rejected queries, excluded",
    "edited": "queries whose text an annotator changed (`edits` in queries.jsonl)",
    "ability_unknown": "queries without an ability, exported as lookup",
}

_README = """# {name}

{n_queries} queries over {n_documents} documents, {n_judgements} judgements.

    harness run --dataset labelled --source FOLDER --retriever bm25{option}

## How it was judged

{judged}

Recall is relative to the pool. A system outside the pool may find unjudged documents: `judged@k` is
the judged share of its ranking.

## Agreement

{agreement}

## Grades

{grades}

Grades from {least} count as evidence (TREC Deep Learning: from 2). Lower grades are exported as 0.
"""


def count_lines(counts: ExportCounts, names: Iterable[str] = _COUNTS) -> list[str]:
    """Returns a line for each of these counts that is not 0."""
    found = ((_COUNTS[name], getattr(counts, name)) for name in names)
    return [f"{words}: {n}" for words, n in found if n]


def split_option(splits: dict[str, int] | None) -> str:
    """Returns the `--split` option of `harness run` for a dataset without the split test."""
    return f" --split {next(iter(splits))}" if splits and "test" not in splits else ""


def readme(made: ExportManifest) -> str:
    """Returns the README of an exported dataset."""
    counts, pool, conflicts = made.counts, made.pool, made.conflicts
    systems = ", ".join(f"`{one.name}` {one.version or ''}".strip() for one in pool.systems)
    people = ", ".join(f"{one.name} ({one.grades} grades)" for one in made.annotators)
    splits = ", ".join(f"{n} {name}" for name, n in (made.splits or {}).items())
    judged = [
        f"pool: the top {pool.depth} of {systems}; seed {pool.seed}" if systems else "",
        "only one system was pooled, so the qrels favour it" if len(pool.systems) == 1 else "",
        f"annotators: {people}; systems, ranks and other judgements were hidden"
        if people
        else "annotators: none",
        f"conflicts: {conflicts.total}, resolved: {conflicts.resolved}",
        f"open conflicts: {conflicts.open}; {_POLICIES[conflicts.policy]}"
        if conflicts.open
        else "",
        f"queries by split: {splits}" if splits else "",
        *count_lines(counts),
    ]
    agreement = "Not measurable: fewer than two annotators judged."
    if made.agreement:
        table = _agreement_table(made.agreement, style="github")
        agreement = f"{table}\n\nIntervals are over whole queries (jackknife)."
    grades = [
        f"{grade} {name}: {about} ({counts.grades[str(grade)]})"
        for grade, (name, about) in MEANINGS.items()
    ]
    return _README.format(
        name=made.project,
        n_queries=counts.queries,
        n_documents=counts.documents,
        n_judgements=counts.judgements,
        option=split_option(made.splits),
        judged=_list(judged),
        agreement=agreement,
        grades=_list(grades),
        least=made.relevance_level,
    )


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"* {line}" for line in lines if line)


# -- Output of harness label generate and check ----------------------------------------------------


def render_generated(found: GenerateReport) -> str:
    """Formats what was generated, proposed and excluded, and the cost."""
    before = found.queries - found.new_queries
    new = f", {found.new_queries} of them new" if before else ""
    parts = ", ".join(f"{name} {n}" for name, n in found.leakage.splits.queries.items())
    lines = [
        f"{found.queries} queries from {found.documents} documents in {found.folder}{new}",
        f"splits: {parts}; queries that share a document are in one split (largest group: "
        f"{found.largest_group} queries)",
        "the document of each query has grade 3 by construction until a person judges it",
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
        return "proposed: no further documents"
    by = ", ".join(f"{n} by {why}" for why, n in sorted(found.proposals_by_reason.items()))
    return f"proposed: {found.proposals} documents to judge ({by})"


def _usage(usage: EndpointUsage) -> Iterator[str]:
    cached = f"; {usage.cached_answers} answers were cached" if usage.cached_answers else ""
    yield (
        f"{usage.model} at {usage.endpoint}: {usage.calls} calls, {usage.prompt_tokens} "
        f"prompt and {usage.completion_tokens} completion tokens{cached}"
    )
    if usage.calls_without_usage:
        yield f"  {usage.calls_without_usage} answers without token counts"
    for refusal in usage.refused[:3]:
        yield f"  refused: {refusal}"


def render_checks(leakage: LeakageReport) -> str:
    """Formats the checks as a table, with examples."""
    n = leakage.leaks
    result = f"{n} leak{'' if n == 1 else 's'} found" if n else "no leak found"
    if not leakage.benchmarks:
        result += "; public benchmarks were not compared (--against NAME)"
    table = grid(list(_leakage_rows(leakage)), ["leakage", "what", "found", "of"])
    return "\n".join([table, *_leakage_notes(leakage), result])


def _leakage_rows(leakage: LeakageReport) -> Iterator[list[str | int]]:
    quotes, splits = leakage.quotes, leakage.splits
    mean = quotes.shared_words
    what = f"queries with {quotes.min_run} or more consecutive words of their document"
    yield ["quotes", what, quotes.quoting, f"{quotes.n} queries"]
    of = f"{quotes.with_answer_n} queries with an answer"
    yield ["", "queries with all content words of their answer", quotes.with_answer, of]
    what, share = "mean share of a query's words in its document, weighted by rarity", "-"
    if mean is not None:
        share = f"{mean:.2f}"
    yield ["", what, share, f"{quotes.shared_words_n} queries"]
    of = f"{sum(splits.queries.values())} queries in {len(splits.queries)} splits"
    yield ["splits", "documents of queries in two splits", len(splits.documents), of]
    yield ["", "different documents with the same text", len(splits.same_texts), of]
    yield ["", "queries with the same content words", len(splits.same_queries), of]
    for at, one in enumerate(leakage.benchmarks):
        yield [
            "" if at else "public",
            f"equal + nearly equal in {one.dataset}",
            f"{one.same_documents} + {one.similar_documents} documents, "
            f"{one.same_queries} + {one.similar_queries} queries",
            f"{one.dataset_documents} documents, {one.dataset_queries} queries",
        ]


def _leakage_notes(leakage: LeakageReport) -> Iterator[str]:
    quotes, splits = leakage.quotes, leakage.splits
    mean = quotes.shared_words
    if mean is not None and mean >= 0.5:
        yield (
            f"note: documents contain {mean:.0%} of their queries' words, which favours lexical "
            "retrievers such as BM25"
        )
    for one in quotes.examples[:3]:
        yield f"note: {one.query} quotes: {one.quoted!r}"
    if examples := quotes.with_answer_examples[:3]:
        yield f"note: queries with their answer: {', '.join(examples)}"
    for same in splits.same_queries[:3]:
        yield f"note: {' and '.join(same.ids)} have the same words and different splits"
