"""Leakage checks of a labelled set.

1. *quotes*: queries that share consecutive words with their document, or contain their answer. The
   share of the queries' words in their documents shows how much the set favours retrievers that
   match words.
2. *splits*: the same text in two splits: documents shared by queries of two splits, equal
   documents, and queries with the same content words.
3. *benchmarks*: documents and queries that are also in a public benchmark, which models may have
   seen. Texts are the same if their words are equal after normalisation; nearly the same if at
   least 70% of a text's 8-grams are in the benchmark's texts, the contamination test of PaLM
   (Chowdhery et al. 2022, section 8). A query is also nearly the same if it has the same content
   words in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import combinations, islice
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt

from harness.datasets.adapters import labelled_fields, labelled_files
from harness.datasets.adapters.formats.jsonl import optional_string, string
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.labelling.consensus import apply_policy, read_consensus
from harness.extensions.labelling.generate.write_project import SetQuery, normalised, rows_of
from harness.extensions.labelling.inputs import read_documents
from harness.extensions.labelling.project import (
    LabelDocument,
    LabelQuery,
    Project,
    ProposalReason,
    read_lines,
)
from harness.extensions.labelling.reports import (
    BenchmarkOverlap,
    LeakageReport,
    Quotation,
    QuoteCheck,
    SplitCheck,
    SplitFinding,
)
from harness.retrievers.bm25.tokenizer import Tokenizer
from harness.scoring.matching.words import WORD, plain

MIN_QUOTE = 5
"""Consecutive words that make a quotation; a query with so many is excluded."""
RUN_LENGTH = 8
"""Length in words of the runs that are compared with benchmarks."""
MIN_SHARE = 0.7
"""Minimum share of a text's runs to count as nearly the same."""
MAX_EXAMPLES = 50
"""Maximum number of examples per finding; the counts include all."""
LEAKAGE = "leakage.json"

MAX_MATCHING = 3
"""Maximum number of proposed documents with as many of a query's words as its own document."""
MAX_NEAR = 10
"""Maximum number of proposed near-duplicates, in addition to those with all of the text."""

_PORTION = 5000

Terms = list[npt.NDArray[np.int32]]
Weights = npt.NDArray[np.float64]


# -- Labelled sets ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedSet:
    """The documents and queries of a labelled set."""

    documents: Sequence[LabelDocument]
    queries: Sequence[SetQuery]


def read_set(folder: Path) -> CheckedSet:
    """Reads a labelling project, or all splits of a folder that the dataset `labelled` reads.

    Raises UsageError for any other folder.
    """
    if (folder / "label.json").is_file():
        return from_project(Project.read(folder))
    files = labelled_files.find(folder, "all")
    documents, _ = read_documents(files["documents"])
    rows = rows_of(documents)
    split: dict[str, str] = {}
    relevant: dict[str, dict[str, None]] = {}
    for one in labelled_fields.qrels(files):
        split.setdefault(one.query, one.split)
        if one.grade >= 1:
            relevant.setdefault(one.query, {})[one.document] = None
    exported = (folder / "labelling.json").is_file()
    made = read_lines(folder / "queries.jsonl", LabelQuery) if exported else ()
    origin = {one.id: one.generated for one in made}
    queries = []
    file = labelled_files.opened(files["queries"])
    for line, record in labelled_files.records("queries", files["queries"]):
        id_ = string(file, line, record, "id")
        text = string(file, line, record, "text")
        haystack = optional_string(file, line, record, "haystack")
        kept = tuple(rows[key] for one in relevant.get(id_, ()) if (key := (haystack, one)) in rows)
        answers = tuple(labelled_fields.texts(file, line, record, "answers"))
        rest = (kept, answers, None, origin.get(id_))
        queries.append(SetQuery(id_, text, haystack, split.get(id_) or None, *rest))
    return CheckedSet(documents, queries)


def from_project(project: Project) -> CheckedSet:
    """Returns the current state of a project, without rejected queries; open conflicts count as the
    higher grade."""
    rows = rows_of(project.documents)
    agreed = apply_policy(project, read_consensus(project), "higher")
    queries = []
    for query in project.queries:
        if query.id in agreed.rejected:
            continue
        relevant = [
            rows[query.haystack or None, one.document]
            for one in project.candidates[query.id]
            if agreed.grades.get((query.id, one.document), 0) >= project.settings.relevance_level
        ]
        queries.append(SetQuery.of(query, relevant))
    return CheckedSet(project.documents, queries)


# -- The checks ------------------------------------------------------------------------------------


def check_folder(folder: Path, against: Sequence[str] = (), *, quiet: bool = True) -> LeakageReport:
    """Checks a labelling project, or a folder that the dataset `labelled` reads.

    `against` are datasets: NAME, NAME=SOURCE, or the folder of a labelled set. Raises UsageError
    for any other folder, and for an unknown dataset.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name a labelling project or a labelled set")
    return check(read_set(folder), [open_benchmark(name, quiet=quiet) for name in against])


def check(labelled: CheckedSet, against: Sequence[Dataset] = ()) -> LeakageReport:
    """Runs the three checks."""
    quoted, across = find_quotes(labelled), compare_splits(labelled)
    overlaps = [find_overlap(labelled, dataset) for dataset in against]
    leaks = (
        quoted.quoting
        + quoted.with_answer
        + len(across.documents)
        + len(across.same_texts)
        + len(across.same_queries)
        + sum(one.same_documents + one.similar_documents for one in overlaps)
        + sum(one.same_queries + one.similar_queries for one in overlaps)
    )
    return LeakageReport(quotes=quoted, splits=across, benchmarks=overlaps, leaks=leaks)


def find_quotes(labelled: CheckedSet) -> QuoteCheck:
    """Finds queries that quote a relevant document or contain their answer. Measures the mean share
    of words in a relevant document, over queries with one and with a word of any document."""
    asked = [query for query in labelled.queries if query.relevant]
    contents = [document.content for document in labelled.documents]
    found = [quotation(query, labelled.documents) for query in asked]
    flagged = [
        Quotation(query=query.id, text=query.text, run_length=length, quoted=words)
        for query, (length, words) in zip(asked, found, strict=True)
        if length >= MIN_QUOTE
    ]
    measured = shared_words(
        [query.text for query in asked], [query.relevant for query in asked], contents
    )
    shares = [share for share in measured if share is not None]
    terms = Tokenizer()
    answering = [q.id for q in labelled.queries if contains_answer(q.text, q.answers, terms)]
    return QuoteCheck(
        n=len(asked),
        min_run=MIN_QUOTE,
        quoting=len(flagged),
        shared_words=fmean(shares) if shares else None,
        shared_words_n=len(shares),
        examples=flagged[:MAX_EXAMPLES],
        with_answer=len(answering),
        with_answer_n=sum(bool(query.answers) for query in labelled.queries),
        with_answer_examples=answering[:MAX_EXAMPLES],
    )


def fault_of_text(labelled: CheckedSet, query: str, text: str) -> str:
    """Returns the reason why a query cannot get this new text; empty if it can."""
    (new,) = (replace(one, text=text) for one in labelled.queries if one.id == query)
    length, words = quotation(new, labelled.documents)
    if length >= MIN_QUOTE:
        return f"the new one quotes its document, {words!r}"
    if contains_answer(text, new.answers, Tokenizer()):
        return "the new one contains its answer"
    others = [one for one in labelled.queries if one.id != query]
    same = next((one for one in asking_the_same([new, *others]) if new in one), None)
    return f"{same[1].id!r} asks the same as the new one" if same else ""


def contains_answer(query: str, answers: Iterable[str], terms: Tokenizer) -> bool:
    """Tests whether a query has all content words of an answer, in any order and inflection."""

    def words(text: str) -> set[object]:
        # The search tokenizer drops single digits.
        digits = {word for word in WORD.findall(text) if len(word) == 1 and word.isdigit()}
        return {*content_words(text, terms), *digits}

    asked = words(query)
    return any(asked.issuperset(own) for one in answers if (own := words(one)))


def quotation(query: SetQuery, documents: Sequence[LabelDocument]) -> tuple[int, str]:
    """Returns the longest run of words that a query shares with its relevant documents.

    A template names a document by its title, so the title does not count as a quotation, not even
    at the start of the text.
    """
    own = [documents[row] for row in query.relevant]
    if query.origin is None or query.origin.method != "template":
        return longest_run(query.text, [one.content for one in own])
    texts = [normalised(one.text).removeprefix(normalised(one.title or "")) for one in own]
    return longest_run(query.text, texts)


def longest_run(query: str, documents: Iterable[str]) -> tuple[int, str]:
    """Returns the length and the words of the longest run that a query shares with a document."""
    written = WORD.findall(query)
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2([plain(word) for word in written])
    best = (0, "")
    for document in documents:
        matcher.set_seq1([plain(word) for word in WORD.findall(document)])
        match = matcher.find_longest_match()
        if match.size > best[0]:
            best = (match.size, " ".join(written[match.b : match.b + match.size]))
    return best


def shared_words(
    queries: Sequence[str], relevant: Sequence[Sequence[int]], documents: Sequence[str]
) -> list[float | None]:
    """Returns the share of each query's words that its documents have, the maximum over documents.

    Words are stems without stop words, as in the lexical retrievers, weighted by ln(1 + N / df),
    since these rely on rare words. Excluded are words that no document has, and words of more than
    a fifth of the queries (and of more than five), which come from a template and do not
    distinguish queries; None if no other word is left. `relevant` are rows of `documents`.
    """
    of_query, of_document, weight = _weighted(queries, documents)
    found: list[float | None] = []
    for asked, rows in zip(of_query, relevant, strict=True):
        total = float(weight[asked].sum())
        held = (float(weight[np.intersect1d(asked, of_document[row])].sum()) for row in rows)
        found.append(max(held, default=0.0) / total if total and rows else None)
    return found


def _weighted(queries: Sequence[str], documents: Sequence[str]) -> tuple[Terms, Terms, Weights]:
    """Returns the terms of each query and document, and the weight of each term."""
    terms = Tokenizer()
    of_query = [np.unique(terms.terms(query)) for query in queries]
    of_document = [np.unique(terms.terms(text)) for text in documents]
    nothing = np.zeros(0, np.int32)
    every = np.concatenate([nothing, *of_query, *of_document])
    size = int(every.max(initial=0)) + 1
    frequency = np.bincount(np.concatenate([nothing, *of_document]), minlength=size)
    weight = np.where(frequency > 0, np.log1p(len(documents) / np.maximum(frequency, 1)), 0.0)
    asking = np.bincount(np.concatenate([nothing, *of_query]), minlength=size)
    weight[asking > max(len(queries) / 5, 5)] = 0
    return of_query, of_document, weight


def matching_as_well(
    queries: Sequence[SetQuery], documents: Sequence[LabelDocument]
) -> list[list[int]]:
    """Returns, for each query, up to three other documents of its haystack with different texts
    that have at least as many of its words, weighted by rarity, as its own best document."""
    contents = [document.content for document in documents]
    of_query, of_document, weight = _weighted([query.text for query in queries], contents)
    rows_with: dict[int, list[int]] = {term: [] for terms in of_query for term in terms.tolist()}
    for row, terms in enumerate(of_document):
        for term in terms.tolist():
            if term in rows_with:
                rows_with[term].append(row)
    found = []
    for query, terms in zip(queries, of_query, strict=True):
        shares = np.zeros(len(documents))
        for term in terms.tolist():
            shares[rows_with[term]] += weight[term]
        least = shares[list(query.relevant)].max(initial=0)
        better = np.flatnonzero((shares > 0) & (shares >= least - 1e-9))
        order = better[np.argsort(-shares[better], kind="stable")].tolist()
        own = {contents[row] for row in query.relevant}
        others = (
            row
            for row in order
            if contents[row] not in own and query.haystack in (None, *documents[row].haystacks)
        )
        found.append(list(islice(others, MAX_MATCHING)))
    return found


def compare_splits(labelled: CheckedSet) -> SplitCheck:
    """Finds what two splits have in common."""
    by_split: dict[str, list[SetQuery]] = {}
    for query in labelled.queries:
        if query.split is not None:
            by_split.setdefault(query.split, []).append(query)
    found = SplitCheck(
        queries={name: len(queries) for name, queries in sorted(by_split.items())},
        documents=[],
        same_texts=[],
        same_queries=[],
    )
    name = [document.id for document in labelled.documents]
    for both in map(list, combinations(sorted(by_split), 2)):
        sides = (by_split[both[0]], by_split[both[1]])
        gold = [sorted({row for query in side for row in query.relevant}) for side in sides]
        found.documents.extend(
            SplitFinding(splits=both, ids=[name[row]])
            for row in sorted({*gold[0]}.intersection(gold[1]))
        )
        found.same_texts.extend(
            SplitFinding(splits=both, ids=[name[a], name[b]])
            for a, b in _same_texts(labelled, gold)
        )
        found.same_queries.extend(
            SplitFinding(splits=both, ids=[a.id, b.id])
            for together in asking_the_same([*sides[0], *sides[1]])
            for a, b in combinations(together, 2)
            if a.split != b.split
        )
    return found


def _same_texts(labelled: CheckedSet, gold: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yields rows of the first split and others of the second that have the same words.

    Both rows share a haystack; otherwise they do not compete.
    """
    documents = labelled.documents
    by_text: dict[str, list[int]] = {}
    for row in gold[0]:
        by_text.setdefault(normalised(documents[row].content), []).append(row)
    for b in gold[1]:
        for a in by_text.get(normalised(documents[b].content), ()):
            one, other = (set(documents[row].haystacks) for row in (a, b))
            if a != b and (not one or not other or one & other):
                yield a, b


def content_words(text: str, terms: Tokenizer) -> tuple[int, ...]:
    """Returns the distinct stems of a text, as sorted numbers in `terms`.

    Equal for texts with the same content words in any order; empty for a text of stop words only.
    """
    return tuple(np.unique(terms.terms(text)).tolist())


def asking_the_same(queries: Iterable[SetQuery]) -> list[list[SetQuery]]:
    """Groups queries of one haystack with the same content words in any order, or, without content
    words, with the same words."""
    terms = Tokenizer()
    found: dict[tuple[object, ...], list[SetQuery]] = {}
    for query in queries:
        words = content_words(query.text, terms) or normalised(query.text)
        found.setdefault((query.haystack, words), []).append(query)
    return [together for together in found.values() if len(together) > 1]


# -- Public benchmarks -----------------------------------------------------------------------------


def open_benchmark(text: str, *, quiet: bool) -> Dataset:
    """Opens a dataset of `--against`. Raises UsageError for an unknown one."""
    from harness.datasets.registry import open_dataset

    name, _, source = text.partition("=")
    if not source and Path(text).exists():
        name, source = "labelled", text
    split = "all" if name == "labelled" else ""
    try:
        return open_dataset(name, source=source or None, split=split, quiet=quiet)
    except UsageError as error:
        raise UsageError(f"--against {text}: {error}") from None


def find_overlap(labelled: CheckedSet, dataset: Dataset) -> BenchmarkOverlap:
    """Counts the documents and queries of the set that are also in a benchmark."""
    manifest, n, n_queries = dataset.manifest, len(dataset.documents), dataset.n_queries
    texts = (
        text
        for start in range(0, n, _PORTION)
        for text in dataset.documents.contents(
            np.arange(start, min(start + _PORTION, n), dtype=np.int32)
        )
    )
    mine = [document.content for document in labelled.documents]
    same, similar = texts_within(mine, texts)
    asked = [query.text for query in labelled.queries]
    theirs = dataset.query_table["text"].to_pylist()
    same_queries, similar_queries = texts_within(asked, theirs, any_order=True)
    return BenchmarkOverlap(
        dataset=f"{manifest.name} {manifest.granularity}-{manifest.text}-{manifest.split}",
        dataset_documents=n,
        dataset_queries=n_queries,
        same_documents=len(same),
        similar_documents=len(similar),
        same_queries=len(same_queries),
        similar_queries=len(similar_queries),
    )


def texts_within(
    texts: Sequence[str], others: Iterable[str], *, any_order: bool = False
) -> tuple[set[int], set[int]]:
    """Returns the rows of texts that are also in `others`, and of those nearly the same.

    `any_order`: texts with the same content words are nearly the same.
    """
    terms = Tokenizer()
    whole: dict[str, set[int]] = {}
    for row, text in enumerate(texts):
        whole.setdefault(normalised(text), set()).add(row)
    runs = [_runs(text) for text in texts]
    wanted = {run for of_text in runs for run in of_text}
    seen: set[int] = set()
    same: set[int] = set()
    contents: set[tuple[int, ...]] = set()
    for text in others:
        words = normalised(text)
        if words:
            same |= whole.get(words, set())
        seen.update(wanted.intersection(_runs(text)))
        if any_order:
            contents.add(content_words(text, terms))
    similar = {
        row
        for row, of_text in enumerate(runs)
        if of_text and sum(run in seen for run in of_text) >= MIN_SHARE * len(of_text)
    }
    if any_order:
        of_texts = (content_words(text, terms) for text in texts)
        similar |= {row for row, words in enumerate(of_texts) if words and words in contents}
    return same, similar - same


def near_duplicates(
    documents: Sequence[LabelDocument], rows: Iterable[int]
) -> dict[int, dict[int, ProposalReason]]:
    """Returns, for each of these rows, the other documents of its haystacks with at least half of
    its text: all with the same text or all of its word 3-grams, and the next ten with half of
    them (containment of shingles, Broder 1997)."""
    runs = {row: set(_runs(documents[row].content, 3)) for row in rows}
    having: dict[int, list[int]] = {}
    for row, of_row in runs.items():
        for run in of_row:
            having.setdefault(run, []).append(row)
    near: dict[int, list[tuple[float, int]]] = {row: [] for row in runs}
    for other, document in enumerate(documents):
        of_other = set(_runs(document.content, 3))
        shared = Counter(row for run in of_other for row in having.get(run, ()))
        for row, n in shared.items():
            names = documents[row].haystacks
            if (
                other != row
                and 2 * n >= len(runs[row])
                and (not names or set(names).intersection(document.haystacks))
            ):
                near[row].append((-n / len(runs[row]), other))
    return {
        row: {
            other: _reason(documents[row], documents[other])
            for at, (share, other) in enumerate(sorted(found))
            if share == -1 or at < MAX_NEAR
        }
        for row, found in near.items()
    }


def _reason(document: LabelDocument, other: LabelDocument) -> ProposalReason:
    haystack = next(iter(document.haystacks), None)
    same = document.text_key(haystack) == other.text_key(haystack)
    return "same text" if same else "near-duplicate"


def _runs(text: str, length: int = RUN_LENGTH) -> list[int]:
    """Returns a hash of each run of `length` words."""
    words = [plain(word) for word in WORD.findall(text)]
    return [hash(tuple(words[at : at + length])) for at in range(len(words) - length + 1)]
