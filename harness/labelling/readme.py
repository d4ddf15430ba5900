"""The README of an exported dataset: how its key was made, with every n, for people who use it."""

from __future__ import annotations

from typing import Any

from harness.labelling.records import MEANINGS

_RULES = {
    "refuse": "",
    "lower": "the lower grade was taken, and who said that a query cannot be answered was believed",
    "higher": "the higher grade was taken, and a query of which somebody found an answer has one",
}


def readme(made: dict[str, Any]) -> str:
    """The text, from the manifest of `export`."""
    counts = made["counts"]
    parts = [
        f"# {made['project']}",
        f"{counts['queries']} queries over {counts['documents']} documents, "
        f"{counts['judgements']} judgements.",
        _command(made),
        "## How it was judged",
        "\n".join(f"* {line}" for line in _judged(made)),
        "## Agreement",
        _agreement(made),
        "## What to know of its numbers",
        "\n".join(f"* {line}" for line in _beware(made)),
        "## Grades",
        _grades(made),
    ]
    return "\n\n".join(parts) + "\n"


def _command(made: dict[str, Any]) -> str:
    splits = made["splits"]
    more = f" --split {next(iter(splits))}" if splits and "test" not in splits else ""
    said = (
        f"Splits: {', '.join(f'{n} {name}' for name, n in splits.items())}.\n\n" if splits else ""
    )
    return f"{said}    harness run --dataset labelled --source FOLDER --retriever bm25{more}"


def _judged(made: dict[str, Any]) -> list[str]:
    pool, counts, conflicts = made["pool"], made["counts"], made["conflicts"]
    systems = [f"`{one['system']}` {one.get('version') or ''}".strip() for one in pool["systems"]]
    lines = []
    if systems:
        lines.append(f"Pool: the top {pool['k']} of {', '.join(systems)}; seed {pool['seed']}.")
    if counts["by_construction"]:
        lines.append(f"{counts['by_construction']} judgements are by construction, no person's.")
    people = [f"{one['name']} ({one['grades']} grades)" for one in made["annotators"]]
    lines.append(f"Annotators: {', '.join(people) or 'none'}.")
    lines.append(
        f"{counts['judged_by_two_or_more']} of the {counts['judgements']} pairs were judged by two "
        "or more."
    )
    if conflicts["found"]:
        lines.append(f"Conflicts: {conflicts['found']}, of which {conflicts['settled']} settled.")
    if conflicts["open"]:
        lines.append(f"Of the {conflicts['open']} open ones {_RULES[conflicts['rule']]}.")
    lines.append("Annotators saw no system, no rank, and no judgement of another.")
    return lines


def _agreement(made: dict[str, Any]) -> str:
    if not made["agreement"]:
        return "Not measurable: fewer than two annotators judged."
    # Not by tabulate: it would pad the columns, and exported files would change.
    lines = ["| on | measure | between | value | 95% interval | n | queries |"]
    lines.append("|---|---|---|---|---|---|---|")
    for one in made["agreement"]:
        value = "not measurable" if one["value"] is None else f"{one['value']:.3f}"
        span = "-" if one["low"] is None else f"{one['low']:.3f} to {one['high']:.3f}"
        between = ", ".join(one["between"])
        lines.append(
            f"| {one['of']} | {one['measure']} | {between} | {value} | {span} | {one['n']} "
            f"| {one['queries']} |"
        )
    notes = sorted({one["note"] for one in made["agreement"] if one["note"]})
    said = f" Of some: {'; '.join(notes)}." if notes else ""
    return "\n".join(lines) + f"\n\nIntervals resample whole queries.{said}"


def _beware(made: dict[str, Any]) -> list[str]:
    counts, left_out = made["counts"], made["left_out"]
    lines = [
        "Recall is of the relevant documents in the pool; nobody looked for others. A system that "
        "was not pooled may find documents that nobody judged: `judged@k` tells how many."
    ]
    if len(made["pool"]["systems"]) == 1:
        lines.append("Only one system was pooled, so the key favours it.")
    for words, n in (
        (
            "Queries without a relevant document in the pool, of which nobody said that they "
            "cannot be answered; `memory` leaves them out of its means, `trec` counts them 0",
            counts["without_relevant"],
        ),
        (
            "Queries that cannot be answered: of ability abstention, without a relevant document",
            counts["unanswerable"],
        ),
        (
            "Of these as given or made so, judged by nobody",
            counts["unanswerable_unconfirmed"],
        ),
        (
            f"Grades of {made['relevant_from']} or more of such queries that became 0",
            counts["lowered_to_0"],
        ),
        (
            "Proposed documents that nobody judged: not relevant here",
            counts["proposals_not_judged"],
        ),
        (
            "Queries not judged to the end: what is not judged counts as not relevant",
            counts["unfinished"],
        ),
        (
            "Queries not judged to the end, left out",
            left_out["queries_not_judged_to_the_end"],
        ),
        ("Queries without an ability, which count as lookup", counts["ability_unknown"]),
    ):
        if n:
            lines.append(f"{words}: {n}.")
    return lines


def _grades(made: dict[str, Any]) -> str:
    lines = [
        f"* {grade} {name}: {about} ({made['counts']['grades'][str(grade)]})"
        for grade, (name, about) in MEANINGS.items()
    ]
    if (least := made["relevant_from"]) > 1:
        lines.append(
            f"\nGrades from {least} on count as evidence; what annotators graded lower stands here "
            "as 0 (the journals of the project keep it)."
        )
        return "\n".join(lines)
    lines.append(
        "\nBinary metrics count grades from 1 on as relevant; TREC's Deep Learning track counts "
        "from 2 on, which is `--metrics 'recall(rel=2)@10'`."
    )
    return "\n".join(lines)
