"""README of an exported dataset: how its qrels were made, with every n."""

from __future__ import annotations

from harness.labelling.annotations import MEANINGS
from harness.labelling.reports import ExportManifest

_POLICIES = {
    "refuse": "",
    "lower": "the lower grade was taken, and a query that somebody marked as unanswerable is so",
    "higher": "the higher grade was taken, and a query for which somebody found an answer has one",
}


def readme(made: ExportManifest) -> str:
    """Returns the text, from the manifest of `export`."""
    counts = made.counts
    parts = [
        f"# {made.project}",
        f"{counts.queries} queries over {counts.documents} documents, "
        f"{counts.judgements} judgements.",
        _command(made),
        "## How it was judged",
        "\n".join(f"* {line}" for line in _judged(made)),
        "## Agreement",
        _agreement(made),
        "## Limits of its numbers",
        "\n".join(f"* {line}" for line in _limits(made)),
        "## Grades",
        _grades(made),
    ]
    return "\n\n".join(parts) + "\n"


def split_option(splits: dict[str, int] | None) -> str:
    """Returns the option that `harness run` needs for a dataset without the split test."""
    return f" --split {next(iter(splits))}" if splits and "test" not in splits else ""


def _command(made: ExportManifest) -> str:
    splits = made.splits or {}
    counts = ", ".join(f"{n} {name}" for name, n in splits.items())
    command = "    harness run --dataset labelled --source FOLDER --retriever bm25"
    return (f"Splits: {counts}.\n\n" if splits else "") + command + split_option(splits)


def _judged(made: ExportManifest) -> list[str]:
    pool, counts, conflicts = made.pool, made.counts, made.conflicts
    systems = [f"`{one.name}` {one.version or ''}".strip() for one in pool.systems]
    lines = []
    if systems:
        lines.append(f"Pool: the top {pool.depth} of {', '.join(systems)}; seed {pool.seed}.")
    if counts.by_construction:
        lines.append(f"{counts.by_construction} judgements are by construction, no person's.")
    people = [f"{one.name} ({one.grades} grades)" for one in made.annotators]
    lines.append(f"Annotators: {', '.join(people) or 'none'}.")
    lines.append(
        f"{counts.judged_by_two_or_more} of the {counts.judgements} pairs were judged by two "
        "or more."
    )
    if conflicts.total:
        lines.append(f"Conflicts: {conflicts.total}, of which {conflicts.resolved} resolved.")
    if conflicts.open:
        lines.append(f"Of the {conflicts.open} open ones {_POLICIES[conflicts.policy]}.")
    lines.append("Annotators saw no system, no rank, and no judgement of another.")
    return lines


def _agreement(made: ExportManifest) -> str:
    if not made.agreement:
        return "Not measurable: fewer than two annotators judged."
    # Not by tabulate: it would pad the columns, and exported files would change.
    lines = ["| on | measure | between | value | 95% interval | n | queries |"]
    lines.append("|---|---|---|---|---|---|---|")
    for one in made.agreement:
        value = "not measurable" if one.value is None else f"{one.value:.3f}"
        interval = "-" if one.low is None else f"{one.low:.3f} to {one.high:.3f}"
        between = ", ".join(one.annotators)
        lines.append(
            f"| {one.variable} | {one.measure} | {between} | {value} | {interval} | {one.n} "
            f"| {one.queries} |"
        )
    notes = sorted({one.note for one in made.agreement if one.note})
    about_some = f" Of some: {'; '.join(notes)}." if notes else ""
    return "\n".join(lines) + f"\n\nIntervals resample whole queries.{about_some}"


def _limits(made: ExportManifest) -> list[str]:
    counts = made.counts
    lines = [
        "Recall is of the relevant documents in the pool; nobody looked for others. A system that "
        "was not pooled may find documents that nobody judged: `judged@k` shows how many."
    ]
    if len(made.pool.systems) == 1:
        lines.append("Only one system was pooled, so the qrels favour it.")
    for words, n in (
        (
            "Queries without a relevant document in the pool that nobody marked as unanswerable; "
            "`memory` excludes them from its means, `trec` counts them as 0",
            counts.without_relevant,
        ),
        (
            "Queries that cannot be answered: of ability abstention, without a relevant document",
            counts.unanswerable,
        ),
        ("Of these as given or generated, judged by nobody", counts.unanswerable_unconfirmed),
        (
            f"Grades of {made.relevance_level} or more of such queries that became 0",
            counts.lowered_to_0,
        ),
        ("Proposed documents that nobody judged: not relevant here", counts.unjudged_proposals),
        (
            "Unfinished queries, whose unjudged documents count as not relevant",
            counts.unfinished,
        ),
        ("Unfinished queries, excluded", made.excluded.unfinished_queries),
        ("Queries without an ability, which count as lookup", counts.ability_unknown),
    ):
        if n:
            lines.append(f"{words}: {n}.")
    return lines


def _grades(made: ExportManifest) -> str:
    lines = [
        f"* {grade} {name}: {about} ({made.counts.grades[str(grade)]})"
        for grade, (name, about) in MEANINGS.items()
    ]
    if (least := made.relevance_level) > 1:
        lines.append(
            f"\nGrades from {least} on count as evidence; lower ones are exported as 0 (the "
            "project's annotations keep them)."
        )
        return "\n".join(lines)
    lines.append(
        "\nBinary metrics count grades from 1 on as relevant; TREC's Deep Learning track counts "
        "from 2 on, which is `--metrics 'recall(rel=2)@10'`."
    )
    return "\n".join(lines)
