"""What a person reads after generating, and after the leakage checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.labelling.generate.leakage import leaks
from harness.labelling.generate.repeated import QUOTED
from harness.scoring.grid import grid

MANY = 10
"""Proposals a query from which on a word is said about how many they are."""

Found = Mapping[str, Any]
Row = list[Any]


def made(found: Found) -> str:
    """What was made, what is proposed, what was left out, and what it cost."""
    parts = found["leakage"]["splits"]["queries"]
    before = found["queries"] - found["new_queries"]
    new = f", {found['new_queries']} of them new" if before else ""
    lines = [
        f"{found['queries']} queries from {found['documents']} documents in {found['folder']}{new}",
        f"splits: {', '.join(f'{name} {n}' for name, n in parts.items())}, by {found['groups']} "
        f"groups that share no document (the largest has {found['largest_group']} queries)",
        "judged by construction: the document of each query, grade 3"
        + (
            f"; {found['several_documents']} queries were made from several"
            if found["several_documents"]
            else ""
        ),
        *_proposed(found),
    ]
    if found["queries"] < found["asked_for"]:
        lines.append(f"fewer than the {found['asked_for']} queries that were asked for (--queries)")
    if 2 * found["largest_group"] > found["queries"] > 1:
        lines.append(
            "note: more than half of the queries hang together and are in one split; a higher "
            "--similarity parts them"
        )
    if found["left_out"] or found["empty"]:
        lines += ["", "left out"]
        lines += [f"  {why}: {n}" for why, n in found["left_out"].items()]
    if found["endpoint"]:
        lines += ["", *_cost(found["endpoint"])]
    return "\n".join(lines)


def _proposed(found: Found) -> list[str]:
    if not found["proposed"]:
        return ["proposed: nothing; no other document is near, has the same text or the same topic"]
    by = ", ".join(f"{n} by {why}" for why, n in sorted(found["proposed_by"].items()))
    lines = [
        f"proposed: {found['proposed']} documents for {found['queries_with_proposals']} queries "
        f"({by}); none is relevant before a person says so: harness label open {found['folder']}"
    ]
    if found["proposed"] > MANY * found["queries_with_proposals"]:
        lines.append(
            f"note: that is {found['proposed'] / found['queries_with_proposals']:.0f} a query to "
            "judge; a higher --similarity proposes fewer"
        )
    return lines


def _cost(cost: Found) -> Iterator[str]:
    from_before = cost["answers_from_before"]
    yield (
        f"{cost['model']} at {cost['endpoint']}: {cost['calls']} calls, {cost['prompt_tokens']} "
        f"prompt and {cost['completion_tokens']} completion tokens"
        + (f"; {from_before} answers were there from before" if from_before else "")
    )
    if cost.get("calls_without_usage"):
        yield f"  {cost['calls_without_usage']} answers did not say how many tokens they took"
    for refusal in cost.get("refused", [])[:3]:
        yield f"  refused: {refusal}"


def checks(leakage: Found) -> str:
    """The three checks as a table, examples of what was found, and what was not looked at."""
    rows = [*_quotes(leakage["quotes"]), *_splits(leakage["splits"]), *_public(leakage["public"])]
    lines = [grid(rows, ["leakage", "what", "found", "of"])]
    lines += _notes(leakage)
    n = leaks(leakage)
    if not n:
        lines.append("no leak was found in what was looked at")
    else:
        lines.append(
            f"{n} leak{'' if n == 1 else 's'} found: quotes, splits and public texts above"
        )
    return "\n".join(lines)


def _quotes(found: Found) -> Iterator[Row]:
    yield [
        "quotes",
        f"queries with {QUOTED} words and more in a row of their document",
        found["quoting"],
        f"{found['n']} queries",
    ]
    shared = found["words_shared"]
    yield [
        "",
        "share of a query's words that its document has, by rarity, mean",
        _plain(shared["mean"]),
        f"{shared['n']} queries",
    ]


def _splits(found: Found) -> Iterator[Row]:
    n = sum(found["queries"].values())
    of = f"{n} queries in {len(found['queries'])} splits"
    near = found["near_documents"]
    yield ["splits", "documents of queries in two splits", len(found["documents"]), of]
    yield ["", "different documents with the same text", len(found["same_texts"]), of]
    yield [
        "",
        f"documents with a similarity of {found['similarity']} and more"
        if near is not None
        else "documents that are near by their vectors",
        "not measured" if near is None else len(near),
        of,
    ]
    yield ["", "queries with the same content words", len(found["same_queries"]), of]


def _public(found: Found) -> Iterator[Row]:
    for at, row in enumerate(found["looked_at"]):
        counts = [
            f"{row[f'same_{what}']} + {row[f'near_{what}']} {what}"
            for what in ("documents", "queries")
        ]
        of = row["of"]
        yield [
            "" if at else "public",
            f"the same + nearly the same in {row['dataset']}",
            ", ".join(counts),
            f"{of['documents']} documents, {of['queries']} queries",
        ]


def _notes(leakage: Found) -> Iterator[str]:
    quotes, splits, public = leakage["quotes"], leakage["splits"], leakage["public"]
    mean = quotes["words_shared"]["mean"]
    if mean is not None and mean >= 0.5:
        yield (
            f"note: documents have {mean:.0%} of their queries' words, which favours retrievers "
            "that match words, BM25 among them"
        )
    for one in quotes["examples"][:3]:
        yield f"note: {one['query']} quotes: {one['quoted']!r}"
    if splits["proposed_documents"]:
        n = len(splits["proposed_documents"])
        yield f"note: {n} proposed documents would stand in two splits if they were accepted"
    for one in splits["same_queries"][:3]:
        yield f"note: {' and '.join(one['queries'])} stand in two splits: {one['texts'][0]!r}"
    if not public["looked_at"]:
        yield "note: no public dataset is prepared here to compare with; --against NAME names one"
    for one in public["not_looked_at"]:
        yield f"note: not compared with {one['dataset']}: {one['why']}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
