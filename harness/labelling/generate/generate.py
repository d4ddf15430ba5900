"""Generates a labelled set from documents: queries, grades by construction, proposals, splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.files import disk_errors
from harness.labelling.generate import write_project
from harness.labelling.generate.benchmarks import named
from harness.labelling.generate.from_model import ModelGenerator
from harness.labelling.generate.labelled import from_project
from harness.labelling.generate.leakage import LEAKAGE, asking_the_same, check
from harness.labelling.generate.near_duplicates import (
    MIN_QUOTE,
    Embed,
    embedder,
    longest_runs,
    pairs,
)
from harness.labelling.generate.records import EndpointUsage, GenerateReport
from harness.labelling.generate.sources import SourceDocument, SourceDocuments, read
from harness.labelling.generate.splits import assign, fraction, groups
from harness.labelling.generate.templates import Template, TemplateAssigner, check_fields
from harness.labelling.generate.write_project import GeneratedQuery, merged
from harness.labelling.records import GenerationBatch, GenerationSettings, Proposal, Split
from harness.records.base import write_json_record
from harness.runs.answering.client import ModelClient
from harness.scoring.matching.words import WORD

SHORTEST = 8
"""Words that a document needs to get a query."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GenerateOptions:
    """Options of `generate`.

    `number` queries in all, at most `each` of a document. Documents with a cosine of `similarity`
    and more are proposed; None: nothing is embedded. `embedding`: a BERT model by name or folder
    (MiniLM if empty). `shares` of the queries by split. `client`: the model that writes the queries
    instead of the templates. `keep_quotes` keeps queries that quote their document. `against`:
    datasets to look for duplicates in, besides those prepared here.
    """

    templates: list[Template]
    shares: dict[Split, float]
    number: int = 200
    each: int = 1
    similarity: float | None = 0.7
    embedding: str = ""
    seed: int = 0
    client: ModelClient | None = None
    keep_quotes: bool = False
    against: Sequence[str] = ()


class QueryGenerator(Protocol):
    """Generates queries; `excluded` counts documents and questions without one, by reason."""

    excluded: Counter[str]

    def generate(self, rows: Sequence[int], each: int) -> list[GeneratedQuery]:
        """Returns up to `each` queries of each of these documents, in their order."""
        ...


def generate(
    path: Path, folder: Path, options: GenerateOptions, *, quiet: bool = True
) -> GenerateReport:
    """Generates the labelling project `folder` from the documents at `path`, or adds to it.

    A generated folder keeps its queries, their splits and all annotations; new documents get
    queries, and are proposed for old ones. Returns counts, and what the leakage checks found
    (leakage.json). Raises UsageError for documents that cannot be read or have changed and for a
    folder that contains something else, RunError for an endpoint that fails.
    """
    from filelock import FileLock, Timeout

    documents = read(path)
    write_project.check_folder(folder)
    with disk_errors(folder, "name another folder with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / ".generate.lock", timeout=0):
                (folder / write_project.MARK).touch()
                return _generate(path, documents, folder, options, quiet)
        except Timeout:
            raise UsageError(
                f"{folder}: another `harness label generate` uses it; wait for it"
            ) from None


def _generate(
    path: Path, documents: SourceDocuments, folder: Path, options: GenerateOptions, quiet: bool
) -> GenerateReport:
    settings = GenerationSettings(
        similarity=options.similarity,
        embedding=options.embedding,
        splits=options.shares,
        seed=options.seed,
    )
    before = write_project.read_earlier(folder, settings)
    sources = documents.sources
    if before:
        sources = write_project.with_earlier(before, sources)
    check_fields(options.templates, {name for source in sources for name in source.fields})
    what = "harness label generate (without --similarity off)"
    embed = embedder(what, options.embedding) if options.similarity is not None else None
    against = named(options.against, quiet=quiet)  # wrong names are an error before work is done
    same = _same_texts(sources)
    old = write_project.earlier_queries(before, sources) if before else []
    new, excluded, usage = _new(sources, same, old, options, quiet)
    queries = _with_same([*old, *new], sources, same)
    if embed is not None and options.similarity is not None:
        queries = _with_similar(queries, sources, embed, options.similarity)
    known = before.queries if before else []
    split_of = {query.id: query.split for query in known if query.split}
    placed, group_sizes = _placed(queries, sources, split_of, options)
    if lost := len(queries) - len(placed):
        excluded["queries that would tie two splits together"] = lost
    if not placed:
        reasons = "; ".join(f"{why}: {n}" for why, n in excluded.items()) or "none has a question"
        raise UsageError(f"{path}: no query can be made of {len(sources)} documents: {reasons}")
    batch = (
        GenerationBatch(queries=0, endpoint=usage.endpoint, model=usage.model)
        if usage is not None
        else GenerationBatch(queries=0, templates=[one.text for one in options.templates])
    )
    project = write_project.write(folder, before, sources, placed, settings, batch)
    leakage = check(from_project(project), embed, options.similarity, against)
    write_json_record(folder / LEAKAGE, leakage)
    proposals = [one for query, _ in placed for one in query.proposed.values()]
    return GenerateReport(
        folder=str(folder),
        documents=len(sources),
        empty=len(documents.empty),
        queries=len(placed),
        new_queries=len(placed) - len(old),
        requested=options.number,
        multi_document_queries=sum(len(query.golds) > 1 for query, _ in placed),
        proposals=write_project.unjudged_proposals(project),
        proposals_by_reason=dict(Counter(str(one.reason) for one in proposals)),
        queries_with_proposals=sum(bool(query.proposed) for query, _ in placed),
        groups=len(group_sizes),
        largest_group=max(group_sizes),
        excluded=dict(excluded),
        endpoint=usage,
        leakage=leakage,
    )


def _new(
    sources: Sequence[SourceDocument],
    same: Int64,
    old: Sequence[GeneratedQuery],
    options: GenerateOptions,
    quiet: bool,
) -> tuple[list[GeneratedQuery], Counter[str], EndpointUsage | None]:
    """New queries, the number of excluded documents and queries by reason, and the usage."""
    excluded: Counter[str] = Counter()
    rows = _rows_to_ask(sources, same, old, options.seed, excluded)
    generator: QueryGenerator
    if options.client is None:
        generator = TemplateAssigner(sources, same, options.templates, options.seed)
        at_once = max(options.number, 64)
    else:
        generator = ModelGenerator(options.client, sources, quiet=quiet)
        # Asked once: what a model does not answer is not replaced with more calls.
        rows = rows[: -(-max(options.number - len(old), 0) // options.each)]
        at_once = max(len(rows), 1)
    kept: dict[str, GeneratedQuery] = {query.id: query for query in old}
    for start in range(0, len(rows), at_once):
        for query in generator.generate(rows[start : start + at_once], options.each):
            if len(kept) >= options.number and query.id not in kept:
                break
            if not options.keep_quotes and _quotes(query, sources):
                excluded[f"queries that quote {MIN_QUOTE} words and more of their document"] += 1
                continue
            before = kept.get(query.id)
            kept[query.id] = query if before is None else merged([before, query])[0]
        if len(kept) >= options.number:
            break
    excluded.update(generator.excluded)
    known = {query.id for query in old}
    usage = generator.usage() if isinstance(generator, ModelGenerator) else None
    return [kept[id_] for id_ in sorted(set(kept) - known)], excluded, usage


def _rows_to_ask(
    sources: Sequence[SourceDocument],
    same: Int64,
    old: Sequence[GeneratedQuery],
    seed: int,
    excluded: Counter[str],
) -> list[int]:
    """Documents without a query, in a fixed random order; counts those that cannot get one."""
    asked = {row for query in old for row in query.golds}
    rows = []
    for row, source in enumerate(sources):
        if int(same[row]) != row:
            excluded["documents with the text of another"] += 1
        elif len(WORD.findall(source.content)) < SHORTEST:
            excluded[f"documents with fewer than {SHORTEST} words"] += 1
        elif row not in asked:
            rows.append(row)
    # By hash, not by position: a document that is added later moves no other.
    return sorted(rows, key=lambda row: fraction(seed, f"document\0{sources[row].key}"))


def _quotes(query: GeneratedQuery, sources: Sequence[SourceDocument]) -> bool:
    documents = [sources[row].content for row in query.golds]
    return longest_runs([query.text], [documents])[0].length >= MIN_QUOTE


def _same_texts(sources: Sequence[SourceDocument]) -> Int64:
    """For each document the first one of its haystacks that has the same words."""
    first: dict[tuple[object, ...], int] = {}
    return np.array(
        [
            first.setdefault((source.haystacks, source.normalised or row), row)
            for row, source in enumerate(sources)
        ],
        np.int64,
    )


def _with_same(
    queries: Sequence[GeneratedQuery], sources: Sequence[SourceDocument], same: Int64
) -> list[GeneratedQuery]:
    """The queries with every document proposed that has the words of theirs."""
    having: dict[int, list[int]] = {}
    for row, first in enumerate(same.tolist()):
        having.setdefault(first, []).append(row)
    proposal = Proposal(reason="same text", similarity=1.0)
    return [
        query.with_proposed(
            {row: proposal for gold in query.golds for row in having[int(same[gold])]}
        )
        for query in queries
    ]


def _with_similar(
    queries: Sequence[GeneratedQuery], sources: Sequence[SourceDocument], embed: Embed, least: float
) -> list[GeneratedQuery]:
    """The queries with every document of their haystack proposed that is near to theirs."""
    golds = sorted({row for query in queries for row in query.golds})
    vectors = embed([source.content for source in sources])
    near_to: dict[int, list[tuple[int, float]]] = {}
    found = pairs(vectors[golds], vectors, least)
    for one, other, value in zip(*(column.tolist() for column in found), strict=True):
        near_to.setdefault(golds[one], []).append((other, value))
    proposed = []
    for query in queries:
        more: dict[int, float] = {}
        for gold in query.golds:
            for row, value in near_to.get(gold, ()):
                if query.haystack is None or query.haystack in sources[row].haystacks:
                    more[row] = max(value, more.get(row, value))
        proposals = {
            row: Proposal(reason="similarity", similarity=value) for row, value in more.items()
        }
        proposed.append(query.with_proposed(proposals))
    return proposed


def _placed(
    queries: Sequence[GeneratedQuery],
    sources: Sequence[SourceDocument],
    before: Mapping[str, Split],
    options: GenerateOptions,
) -> tuple[list[tuple[GeneratedQuery, Split]], list[int]]:
    """The queries with their splits, less those that would tie two; and queries by group."""
    ties = [[*query.golds, *query.proposed] for query in queries] + asking_the_same(queries)
    of = groups(len(sources), ties)
    group = [of[query.golds[0]] for query in queries]
    keys = [min(sources[row].key for row in query.golds) for query in queries]
    fixed = [(g, before[q.id]) for g, q in zip(group, queries, strict=True) if q.id in before]
    splits = assign(group, keys, options.shares, options.seed, fixed)
    placed = [
        (query, before.get(query.id) or split) for query, split in zip(queries, splits, strict=True)
    ]
    kept = [(query, split) for query, split in placed if split is not None]
    return kept, list(Counter(group).values()) or [0]
