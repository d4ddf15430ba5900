"""Formats an analysis for a terminal and as JSON; computes only sums of its records."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any

from harness.analysis.analyze.causes import (
    Above,
    Analysis,
    Cause,
    MissedPiece,
    Place,
    QueryMisses,
    bands,
)
from harness.analysis.analyze.errata import BothKeys
from harness.datasets.reader import Dataset
from harness.io.terminal import grid
from harness.records.scores import MetricResult
from harness.runs.folder.run_folder import RunFolder
from harness.schema import Ability
from harness.scoring.matching.matcher import by_query, expand, read_hits
from harness.scoring.scores import dataset_labels, excluded_message

WORST = 10
"""Number of queries in the table of the worst."""

_SHOWN_ABOVE = 3
_WIDTH = 100

LONGEST = 500
"""Number of characters of a displayed text."""


class ReportTexts:
    """Texts of queries, missed evidence, and results of a run.

    An analysis contains no texts, so it can be shared if the dataset's texts cannot.
    """

    def __init__(self, run: RunFolder, dataset: Dataset, depth: int) -> None:
        self._dataset = dataset
        self._own: dict[tuple[int, int], str] = {}
        if run.hits.is_file():
            for query, hits in by_query(read_hits(dataset, run.hits)):
                for rank, row in enumerate(expand(hits, depth)[0], 1):
                    self._own[query, rank] = row.hit.text

    def query(self, query: QueryMisses) -> str:
        """The text of a query."""
        return _cut(self._dataset.query_table["text"][query.row].as_py())

    def piece(self, piece: MissedPiece) -> str:
        """The text of missed evidence; empty if the dataset lacks it."""
        return self._document(piece.row)

    def above(self, query: QueryMisses, above: Above) -> str:
        """The system's own text of a result, else the document's."""
        return _cut(self._own.get((query.row, above.rank), "")) or self._document(above.row)

    def _document(self, row: int) -> str:
        return "" if row < 0 else _cut(self._dataset.documents[row].content)


def as_dict(analysis: Analysis, texts: ReportTexts | None) -> dict[str, Any]:
    """Values for JSON; without `texts` (None) there is no text of the dataset."""
    found = analysis.as_dict()
    for query, record in zip(analysis.queries, found["queries"], strict=True):
        if texts is not None:
            record["text"] = texts.query(query)
        for piece, inner in zip(query.missed, record["missed"], strict=True):
            inner["shared_words"] = len(piece.shared)
            if texts is None:
                del inner["shared"]
                continue
            inner["text"] = texts.piece(piece)
            for above, innermost in zip(piece.above, inner["above"], strict=True):
                innermost["text"] = texts.above(query, above)
    return found


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def render(analysis: Analysis, texts: ReportTexts | None, examples: int) -> str:
    """Format head, causes by ability, places, both qrels, the worst queries, examples.

    Without `texts` no text of the dataset is shown.
    """
    parts = [_head(analysis)]
    if analysis.queries:
        parts += [f"{_causes(analysis)}\n{_places(analysis)}"]
    if analysis.errata is not None:
        parts.append(_both_keys(analysis.errata, analysis.k))
    if analysis.queries:
        parts.append(_worst(analysis))
        parts += [_example(analysis, *one, texts) for one in chosen(analysis, examples)]
    parts.append(_signatures(analysis))
    return "\n\n".join(parts)


def _signatures(analysis: Analysis) -> str:
    """Recall over all queries, by both qrels."""
    metric, both = f"recall@{analysis.k}", analysis.errata
    keys = {"": analysis.results} | ({", corrected qrels": both.by_corrected} if both else {})
    return "\n".join(
        f"signature of {metric}, all{name}: {key['all'][metric].signature}"
        for name, key in keys.items()
        if "all" in key
    )


def _head(analysis: Analysis) -> str:
    d, k, total = analysis.dataset, analysis.k, sum(analysis.pieces.values())
    lines = [
        f"{analysis.system} on {d.name}  {dataset_labels(d)}  data={d.fingerprint[:8]}",
        analysis.depth_message,
        f"{len(analysis.missed):,} of {total:,} evidence items are not in the top {k}, in "
        f"{len(analysis.queries):,} of {analysis.scored:,} queries",
    ]
    if results := analysis.results.get("all"):
        lines.append(", ".join(f"{metric} {_number(one)}" for metric, one in results.items()))
    if left := analysis.excluded:
        lines.append(excluded_message(left))
    return "\n".join(lines)


def _causes(analysis: Analysis) -> str:
    """Causes that occur, by ability; the others in a line below."""
    by_ability, missed = analysis.causes, len(analysis.missed)
    abilities = list(by_ability)
    totals = Counter(piece.cause for piece in analysis.missed)
    rows: list[list[str]] = [
        [
            str(cause),
            *(_count(by_ability[ability].get(cause, 0)) for ability in abilities),
            _count(totals[cause]),
            f"{totals[cause] / missed:.0%}",
        ]
        for cause in Cause
        if totals[cause]
    ]
    of = [sum(by_ability[ability].values()) for ability in abilities]
    rows.append(["missed", *map(_count, of), _count(missed), "100%"])
    pieces = list(analysis.pieces.values())
    rows.append(["evidence items", *map(_count, pieces), _count(sum(pieces)), ""])
    headers = [f"missed at k = {analysis.k}", *abilities, "all", "share"]
    if len(abilities) == 1:  # the same column twice
        rows = [[row[0], *row[2:]] for row in rows]
        del headers[1]
    table = grid(rows, headers)
    asked = [c for c in Cause if _could_be(c, analysis) and not totals[c]]
    none = _folded(f"none: {', '.join(asked)}") + "\n" if asked else ""
    return f"{table}\n{none}the rules: harness analyze --rules"


def _could_be(cause: Cause, analysis: Analysis) -> bool:
    """Causes with a rule that was applied."""
    if cause is Cause.LABEL:
        return analysis.errata is not None
    if cause in (Cause.NEWER, Cause.OLDER):
        return str(Ability.KNOWLEDGE_UPDATE) in analysis.pieces
    return cause is not Cause.DISSIMILAR or analysis.similarity is not None


def _places(analysis: Analysis) -> str:
    """Places of missed evidence, and its neighbours in the top k."""
    k, depth, missed = analysis.k, analysis.depth, analysis.missed
    stood = [
        f"{n:,} at rank {low}-{high}"
        for low, high in bands(k, depth)
        if (n := analysis.ranks(low, high))
    ]
    places = Counter(piece.place for piece in missed)
    if n := places[Place.BEYOND]:
        stood.append(f"{n:,} beyond the {depth} that were returned")
    if n := places[Place.NOT_RETURNED]:
        stood.append(f"{n:,} not returned although there was room")
    if n := places[Place.NOT_INGESTED]:
        stood.append(f"{n:,} not in the haystack")
    lines = ["places of missed evidence: " + ", ".join(stood)]
    beside, session = sum(p.beside for p in missed), sum(p.session for p in missed)
    if session:
        lines.append(
            f"near misses: for {session:,} the top {k} contains a document of the same session, "
            f"for {beside:,} the document before or after"
        )
    return "\n".join(map(_folded, lines))


def _both_keys(both: BothKeys, k: int) -> str:
    """Numbers by the original and the corrected qrels."""
    metrics = (f"recall@{k}", f"hit@{k}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in both.kinds.items())
    said = f"errata {both.file} (#{both.sha256[:8]}) name {both.named} of these queries: {kinds}"
    what = (
        f"evidence of {both.corrected} corrected, of {both.confirmed} confirmed, of {both.unknown} "
        "unknown and excluded from the corrected qrels"
    )
    rows = []
    keys = (both.by_original, both.by_corrected)
    # Without scored abstention queries `answerable` is equal to `all`.
    answerable = ["answerable"] if str(Ability.ABSTENTION) in both.by_original else []
    for name in [*map(str, Ability), *answerable, "all"]:
        parts = [key.get(name, {}) for key in keys]
        if any(parts):
            rows.append([name])
            for results in parts:
                rows[-1].append(_count(results[metrics[0]].n) if results else "-")
                rows[-1] += [_number(results.get(m)) for m in metrics]
    rows.append(["  95% interval"])
    for key in keys:
        rows[-1] += ["", *(_interval(key.get("all", {}).get(metric)) for metric in metrics)]
    headers = ["qrels:", "original\nn", *(f"\n{m}" for m in metrics)]
    headers += ["corrected\nn", *(f"\n{m}" for m in metrics)]
    table = grid(rows, headers)
    return f"{_folded(said)}\n{_folded(what)}\n\n{table}"


def _number(result: MetricResult | None) -> str:
    return "-" if result is None or result.value is None else f"{result.value:.4f}"


def _interval(result: MetricResult | None) -> str:
    interval = result.interval if result else None
    return "-" if interval is None else f"{interval.low:.3f}-{interval.high:.3f}"


def _worst(analysis: Analysis) -> str:
    """The queries with most missed evidence."""
    rows = [
        [
            query.query,
            query.ability,
            f"{len(query.missed)} of {query.pieces}",
            f"{query.recall:.4f}",
            ", ".join(
                f"{n} {cause.removeprefix('outranked ')}" for cause, n in query.causes.items()
            ),
        ]
        for query in analysis.queries[:WORST]
    ]
    headers = ["worst queries", "ability", "missed", f"recall@{analysis.k}", "causes"]
    return grid(rows, headers, keys=1)


def chosen(analysis: Analysis, n: int) -> list[tuple[QueryMisses, MissedPiece]]:
    """Examples of each cause in turn, most frequent first; worst queries first.

    Queries are not repeated while a cause has others.
    """
    of: dict[Cause, list[tuple[QueryMisses, MissedPiece]]] = {}
    for query in analysis.queries:
        for piece in query.missed:
            of.setdefault(piece.cause, []).append((query, piece))
    taken: list[tuple[QueryMisses, MissedPiece]] = []
    seen: set[str] = set()
    queues = sorted(of.values(), key=len, reverse=True)
    while len(taken) < n and any(queues):
        for queue in filter(None, queues):
            fresh = (i for i, (query, _) in enumerate(queue) if query.query not in seen)
            taken.append(queue.pop(next(fresh, 0)))
            seen.add(taken[-1][0].query)
    return taken[:n]


def _example(
    analysis: Analysis, query: QueryMisses, piece: MissedPiece, texts: ReportTexts | None
) -> str:
    """A query, its missed evidence, and the first results."""
    k = analysis.k
    stood = piece.place if piece.rank is None else f"rank {piece.rank}"
    about = [", ".join(piece.documents), str(stood)]
    if texts is not None and piece.shared:
        about.append(f"shares {', '.join(piece.shared)}")
    elif piece.row >= 0:
        about.append(f"shares {len(piece.shared) or 'no'} word{'s' * (len(piece.shared) > 1)}")
    if piece.similarity is not None:
        about.append(f"cosine {piece.similarity:.2f}")
    lines = [f"example: {piece.cause}"]
    lines += _entry("query", f"{query.query}, {query.ability}, recall@{k} {query.recall:.4f}")
    lines += _quoted(texts.query(query) if texts else "")
    lines += _entry("missed", "; ".join(about))
    lines += _quoted(texts.piece(piece) if texts else "")
    for above in piece.above[:_SHOWN_ABOVE]:
        lines += _entry(f"rank {above.rank}", f"{above.document or '?'}, {above.relation}")
        lines += _quoted(texts.above(query, above) if texts else "")
    return "\n".join(lines)


def _entry(title: str, text: str) -> list[str]:
    return textwrap.wrap(f"  {title:8} {text}", _WIDTH, subsequent_indent=" " * 11)


def _quoted(text: str) -> list[str]:
    """The first three lines of a text."""
    indent = " " * 13
    if not text:
        return []
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, max_lines=3, placeholder=" …"
    )


def _count(n: int) -> str:
    return f"{n:,}"


def _folded(line: str) -> str:
    """A line, wrapped at the width of the page."""
    return textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
