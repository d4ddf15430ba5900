"""Generates a labelled set from documents: queries, grades by construction, proposals, splits."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.client import ModelClient
from harness.extensions.labelling.generate import write_project
from harness.extensions.labelling.generate.from_model import ModelGenerator
from harness.extensions.labelling.generate.leakage import (
    LEAKAGE,
    MIN_QUOTE,
    asking_the_same,
    check,
    contains_answer,
    from_project,
    matching_as_well,
    near_duplicates,
    open_benchmark,
    quotation,
)
from harness.extensions.labelling.generate.templates import (
    QueryTemplate,
    TemplateAssigner,
    check_fields,
    field_names,
    template_fields,
)
from harness.extensions.labelling.generate.write_project import (
    SetQuery,
    assign,
    fraction,
    groups,
    normalised,
)
from harness.extensions.labelling.inputs import read_documents
from harness.extensions.labelling.project import (
    CONSTRUCTION,
    GenerationBatch,
    GenerationSettings,
    LabelDocument,
    Project,
    Split,
)
from harness.extensions.labelling.reports import EndpointUsage, GenerateReport
from harness.extensions.labelling.start import exclusive, merged_documents
from harness.io.files import disk_errors
from harness.io.records import write_json_record
from harness.retrievers.bm25.tokenizer import Tokenizer
from harness.scoring.matching.words import WORD

SHORTEST = 8
"""Minimum number of words of a document that gets a query."""


@dataclass(frozen=True)
class GenerateOptions:
    """Options of `generate`.

    `number` queries in total, at most `each` per document. `shares` of the queries by split.
    `client`: the model that writes the queries instead of the templates. `against`: public datasets
    to compare texts with.
    """

    templates: list[QueryTemplate]
    shares: dict[Split, float]
    number: int = 200
    each: int = 1
    seed: int = 0
    client: ModelClient | None = None
    against: Sequence[str] = ()


def generate(
    path: Path, folder: Path, options: GenerateOptions, *, quiet: bool = True
) -> GenerateReport:
    """Generates the labelling project `folder` from the documents at `path`, or extends it.

    An existing project keeps its queries, their splits and all annotations; new documents get
    queries, and are proposed for old ones. Returns counts, and the findings of the leakage checks
    (leakage.json). Raises UsageError for documents that cannot be read or have changed and for a
    folder with other content, RunError if the endpoint fails.
    """
    documents, empty = read_documents(path)
    benchmarks = [open_benchmark(name, quiet=quiet) for name in options.against]
    settings = GenerationSettings(splits=options.shares, seed=options.seed)
    with disk_errors(folder, "name another folder with --out"), exclusive(folder):
        earlier = write_project.read_earlier(folder, settings)
        documents = merged_documents(earlier.documents, documents, path)
        report = _generate(earlier, documents, settings, options, benchmarks, quiet)
        write_json_record(folder / LEAKAGE, report.leakage)
    return replace(report, empty=len(empty))


def _generate(
    earlier: Project,
    documents: Sequence[LabelDocument],
    settings: GenerationSettings,
    options: GenerateOptions,
    benchmarks: Sequence[Dataset],
    quiet: bool,
) -> GenerateReport:
    check_fields(options.templates, {name for one in documents for name in template_fields(one)})
    same = _same_texts(documents)
    old = write_project.earlier_queries(earlier, documents)
    assigner = TemplateAssigner(documents, same, options.templates, options.seed)
    new, excluded, usage = _new_queries(documents, same, old, options, assigner, quiet)
    queries = _with_proposals([*old, *new], documents, assigner)
    placed, largest_group = _placed(queries, documents, options)
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
    proposals = Counter(
        str(one.proposal)
        for one in project.pool
        if one.proposal not in (None, CONSTRUCTION)
        and project.judged_as[one.query, one.document] == one.document
    )
    return GenerateReport(
        folder=str(project.folder),
        documents=len(documents),
        empty=0,
        queries=len(placed),
        new_queries=len(placed) - len(old),
        requested=options.number,
        proposals=proposals.total(),
        proposals_by_reason=dict(proposals),
        largest_group=largest_group,
        excluded=dict(excluded),
        endpoint=usage,
        leakage=check(from_project(project), benchmarks),
    )


def _new_queries(
    documents: Sequence[LabelDocument],
    same: Sequence[int],
    old: Sequence[SetQuery],
    options: GenerateOptions,
    assigner: TemplateAssigner,
    quiet: bool,
) -> tuple[list[SetQuery], Counter[str], EndpointUsage | None]:
    """Returns new queries, the number of excluded documents and queries by reason, and the
    usage."""
    excluded = Counter[str]()
    rows = _rows_to_ask(documents, same, old, options.seed, excluded)
    generator: TemplateAssigner | ModelGenerator = assigner
    if options.client is None:
        at_once = max(options.number, 64)
    else:
        generator = ModelGenerator(options.client, documents, quiet=quiet)
        # One round of calls: documents without a usable reply are not replaced by others.
        rows = rows[: -(-max(options.number - len(old), 0) // options.each)]
        at_once = max(len(rows), 1)
    kept = {query.id: query for query in old}
    terms = Tokenizer()
    for start in range(0, len(rows), at_once):
        for query in generator.generate(rows[start : start + at_once], options.each):
            if len(kept) >= options.number and query.id not in kept:
                break
            if quotation(query, documents)[0] >= MIN_QUOTE:
                excluded[f"queries that quote {MIN_QUOTE} words and more of their document"] += 1
                continue
            if contains_answer(query.text, query.answers, terms):
                excluded["queries that contain their answer"] += 1
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
    old: Sequence[SetQuery],
    seed: int,
    excluded: Counter[str],
) -> list[int]:
    """Returns documents without a query, in a fixed random order; counts those that cannot get
    one."""
    asked = {same[row] for query in old for row in query.relevant}
    rows = []
    for row, document in enumerate(documents):
        if same[row] != row:
            excluded["documents with the text of another"] += 1
        elif len(WORD.findall(document.content)) < SHORTEST:
            excluded[f"documents with fewer than {SHORTEST} words"] += 1
        elif same[row] not in asked:
            rows.append(row)
    # By hash, not by position, so that adding a document does not move others.
    return sorted(rows, key=lambda row: fraction(seed, f"document\0{documents[row].key}"))


def _same_texts(documents: Sequence[LabelDocument]) -> list[int]:
    """Returns, for each document, the first one of its haystacks that has the same words,
    preferring one with a title."""
    first: dict[tuple[object, ...], int] = {}
    keys = [(*one.haystacks, normalised(one.content) or at) for at, one in enumerate(documents)]
    for row in sorted(range(len(keys)), key=lambda row: not documents[row].title):
        first.setdefault(keys[row], row)
    return [first[key] for key in keys]


def _with_proposals(
    queries: Sequence[SetQuery],
    documents: Sequence[LabelDocument],
    assigner: TemplateAssigner,
) -> list[SetQuery]:
    """Returns the queries with proposed documents: those that fit the query's template, have most
    of the text of its documents, or as many of the query's words."""
    near = near_duplicates(documents, {row for query in queries for row in query.relevant})
    found = []
    for query, matching in zip(queries, matching_as_well(queries, documents), strict=True):
        query = query.with_proposed(dict.fromkeys(matching, "words"))
        if query.origin is not None and query.origin.template:
            fitting = assigner.fitting(field_names(query.origin.template), query.relevant[0])
            query = query.with_proposed(dict.fromkeys(fitting, "field"))
        for row in query.relevant:
            query = query.with_proposed(near[row])
        found.append(query)
    return found


def _placed(
    queries: Sequence[SetQuery],
    documents: Sequence[LabelDocument],
    options: GenerateOptions,
) -> tuple[list[SetQuery], int]:
    """Returns the queries with their splits, except those that would connect two splits, and the
    number of queries in the largest group."""
    # Shared words do not connect documents: few would stay separate.
    near = [[row for row, why in one.proposed.items() if why != "words"] for one in queries]
    ties = [[*one.relevant, *rows] for one, rows in zip(queries, near, strict=True)]
    ties += [[one.relevant[0] for one in together] for together in asking_the_same(queries)]
    group_of = groups(len(documents), ties)
    group = [group_of[query.relevant[0]] for query in queries]
    keys = [min(documents[row].key for row in query.relevant) for query in queries]
    fixed = [(g, q.split) for g, q in zip(group, queries, strict=True) if q.split]
    splits = assign(group, keys, options.shares, options.seed, fixed)
    placed = [
        dataclasses.replace(query, split=query.split or split)
        for query, split in zip(queries, splits, strict=True)
    ]
    return [one for one in placed if one.split], max(Counter(group).values(), default=0)
