"""Generates a labelled set from documents: queries, grades by construction, proposals, splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.answers.answering.client import ModelClient
from harness.extensions.labelling.generate import write_project
from harness.extensions.labelling.generate.from_model import ModelGenerator
from harness.extensions.labelling.generate.leakage import (
    LEAKAGE,
    MIN_QUOTE,
    asking_the_same,
    check,
    from_project,
    longest_run,
)
from harness.extensions.labelling.generate.templates import (
    QueryTemplate,
    TemplateAssigner,
    check_fields,
    template_fields,
)
from harness.extensions.labelling.generate.write_project import (
    GeneratedQuery,
    assign,
    fraction,
    groups,
    normalised,
)
from harness.extensions.labelling.inputs import read_documents
from harness.extensions.labelling.project import (
    GenerationBatch,
    GenerationSettings,
    LabelDocument,
    Project,
    ProposalReason,
    Split,
)
from harness.extensions.labelling.reports import EndpointUsage, GenerateReport
from harness.extensions.labelling.start import exclusive, merged_documents
from harness.io.files import disk_errors
from harness.io.records import write_json_record
from harness.scoring.matching.words import WORD

SHORTEST = 8
"""Words that a document needs to get a query."""


@dataclass(frozen=True)
class GenerateOptions:
    """Options of `generate`.

    `number` queries in all, at most `each` of a document. `shares` of the queries by split.
    `client`: the model that writes the queries instead of the templates. `keep_quotes` keeps
    queries that quote their document.
    """

    templates: list[QueryTemplate]
    shares: dict[Split, float]
    number: int = 200
    each: int = 1
    seed: int = 0
    client: ModelClient | None = None
    keep_quotes: bool = False


def generate(
    path: Path, folder: Path, options: GenerateOptions, *, quiet: bool = True
) -> GenerateReport:
    """Generates the labelling project `folder` from the documents at `path`, or adds to it.

    A generated folder keeps its queries, their splits and all annotations; new documents get
    queries, and are proposed for old ones. Returns counts, and what the leakage checks found
    (leakage.json). Raises UsageError for documents that cannot be read or have changed and for a
    folder that contains something else, RunError for an endpoint that fails.
    """
    documents, empty = read_documents(path)
    settings = GenerationSettings(splits=options.shares, seed=options.seed)
    with disk_errors(folder, "name another folder with --out"), exclusive(folder):
        earlier = write_project.read_earlier(folder, settings)
        documents = merged_documents(earlier.documents, documents, path)
        report = _generate(earlier, documents, settings, options, quiet)
        write_json_record(folder / LEAKAGE, report.leakage)
    return replace(report, empty=len(empty))


def _generate(
    earlier: Project,
    documents: Sequence[LabelDocument],
    settings: GenerationSettings,
    options: GenerateOptions,
    quiet: bool,
) -> GenerateReport:
    check_fields(options.templates, {name for one in documents for name in template_fields(one)})
    same = _same_texts(documents)
    old = write_project.earlier_queries(earlier, documents)
    new, excluded, usage = _new_queries(documents, same, old, options, quiet)
    queries = _with_same([*old, *new], same)
    split_of = {query.id: query.split for query in earlier.queries if query.split}
    placed, largest_group = _placed(queries, documents, split_of, options)
    if lost := len(queries) - len(placed):
        excluded["queries that would tie two splits together"] = lost
    if not placed:
        reasons = "; ".join(f"{why}: {n}" for why, n in excluded.items()) or "none has a question"
        raise UsageError(f"no query can be made of {len(documents)} documents: {reasons}")
    batch = GenerationBatch(
        queries=0,
        templates=None if usage else [one.text for one in options.templates],
        endpoint=usage.endpoint if usage else None,
        model=usage.model if usage else None,
    )
    project = write_project.write(earlier, documents, placed, settings, batch)
    written = from_project(project)
    reasons_of = Counter(str(reason) for query, _ in placed for reason in query.proposed.values())
    return GenerateReport(
        folder=str(project.folder),
        documents=len(documents),
        empty=0,
        queries=len(placed),
        new_queries=len(placed) - len(old),
        requested=options.number,
        multi_document_queries=sum(len(query.golds) > 1 for query, _ in placed),
        proposals=sum(len(query.proposed) for query in written.queries),
        proposals_by_reason=dict(reasons_of),
        largest_group=largest_group,
        excluded=dict(excluded),
        endpoint=usage,
        leakage=check(written),
    )


def _new_queries(
    documents: Sequence[LabelDocument],
    same: Sequence[int],
    old: Sequence[GeneratedQuery],
    options: GenerateOptions,
    quiet: bool,
) -> tuple[list[GeneratedQuery], Counter[str], EndpointUsage | None]:
    """Returns new queries, the number of excluded documents and queries by reason, and the
    usage."""
    excluded = Counter[str]()
    rows = _rows_to_ask(documents, same, old, options.seed, excluded)
    generator: TemplateAssigner | ModelGenerator
    if options.client is None:
        generator = TemplateAssigner(documents, same, options.templates, options.seed)
        at_once = max(options.number, 64)
    else:
        generator = ModelGenerator(options.client, documents, quiet=quiet)
        # Asked once: what a model does not answer is not replaced with more calls.
        rows = rows[: -(-max(options.number - len(old), 0) // options.each)]
        at_once = max(len(rows), 1)
    kept = {query.id: query for query in old}
    for start in range(0, len(rows), at_once):
        for query in generator.generate(rows[start : start + at_once], options.each):
            if len(kept) >= options.number and query.id not in kept:
                break
            texts = [documents[row].content for row in query.golds]
            if not options.keep_quotes and longest_run(query.text, texts)[0] >= MIN_QUOTE:
                excluded[f"queries that quote {MIN_QUOTE} words and more of their document"] += 1
                continue
            before = kept.get(query.id)
            kept[query.id] = query if before is None else before.merged(query)
        if len(kept) >= options.number:
            break
    excluded.update(generator.excluded)
    known = {query.id for query in old}
    usage = generator.usage() if isinstance(generator, ModelGenerator) else None
    return [kept[id_] for id_ in sorted(set(kept) - known)], excluded, usage


def _rows_to_ask(
    documents: Sequence[LabelDocument],
    same: Sequence[int],
    old: Sequence[GeneratedQuery],
    seed: int,
    excluded: Counter[str],
) -> list[int]:
    """Returns documents without a query, in a fixed random order; counts those that cannot get
    one."""
    asked = {row for query in old for row in query.golds}
    rows = []
    for row, document in enumerate(documents):
        if same[row] != row:
            excluded["documents with the text of another"] += 1
        elif len(WORD.findall(document.content)) < SHORTEST:
            excluded[f"documents with fewer than {SHORTEST} words"] += 1
        elif row not in asked:
            rows.append(row)
    # By hash, not by position: a document that is added later moves no other.
    return sorted(rows, key=lambda row: fraction(seed, f"document\0{documents[row].key}"))


def _same_texts(documents: Sequence[LabelDocument]) -> list[int]:
    """Returns, for each document, the first one of its haystacks that has the same words."""
    first: dict[tuple[object, ...], int] = {}
    return [
        first.setdefault((*one.haystacks, normalised(one.content) or row), row)
        for row, one in enumerate(documents)
    ]


def _with_same(queries: Sequence[GeneratedQuery], same: Sequence[int]) -> list[GeneratedQuery]:
    """Returns the queries with every document proposed that has the words of theirs."""
    having: dict[int, list[int]] = {}
    for row, first in enumerate(same):
        having.setdefault(first, []).append(row)
    reason: ProposalReason = "same text"
    return [
        query.with_proposed(
            dict.fromkeys((row for gold in query.golds for row in having[same[gold]]), reason)
        )
        for query in queries
    ]


def _placed(
    queries: Sequence[GeneratedQuery],
    documents: Sequence[LabelDocument],
    before: Mapping[str, Split],
    options: GenerateOptions,
) -> tuple[list[tuple[GeneratedQuery, Split]], int]:
    """Returns the queries with their splits, less those that would tie two, and the number of
    queries in the largest group."""
    ties = [[*query.golds, *query.proposed] for query in queries] + asking_the_same(queries)
    group_of = groups(len(documents), ties)
    group = [group_of[query.golds[0]] for query in queries]
    keys = [min(documents[row].key for row in query.golds) for query in queries]
    fixed = [(g, before[q.id]) for g, q in zip(group, queries, strict=True) if q.id in before]
    splits = assign(group, keys, options.shares, options.seed, fixed)
    placed = [
        (query, before.get(query.id) or split) for query, split in zip(queries, splits, strict=True)
    ]
    kept = [(query, split) for query, split in placed if split is not None]
    return kept, max(Counter(group).values(), default=0)
