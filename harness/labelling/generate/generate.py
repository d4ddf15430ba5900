"""A labelled set from documents: queries, judgements by construction, proposals, a fixed split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.files import disk_errors, write_json
from harness.labelling.generate import written
from harness.labelling.generate.benchmarks import named
from harness.labelling.generate.from_model import FromModel
from harness.labelling.generate.labelled import of_project
from harness.labelling.generate.leakage import LEAKAGE, asking_the_same, check
from harness.labelling.generate.repeated import QUOTED, Embed, embedder, longest_runs, pairs
from harness.labelling.generate.sources import Read, Source, read
from harness.labelling.generate.splits import assign, fraction, groups
from harness.labelling.generate.templates import Dealer, Template, check_fields
from harness.labelling.generate.written import Made, merged
from harness.runs.answering.client import ModelClient
from harness.scoring.matching.words import WORD

SHORTEST = 8
"""Words that a document must have to be asked about."""

Found = dict[str, Any]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Choices:
    """How a set is made.

    `number` queries in all, at most `each` of a document. Documents with a cosine of `similarity`
    and more are proposed; None: nothing is embedded. `embedding`: a BERT model by name or folder
    (MiniLM if empty). `shares` of the queries by split. `client`: the model that writes the queries
    instead of the templates. `keep_quotes`: queries that quote their document stay. `against`:
    datasets to look for duplicates in, besides those prepared here.
    """

    templates: list[Template]
    shares: dict[str, float]
    number: int = 200
    each: int = 1
    similarity: float | None = 0.7
    embedding: str = ""
    seed: int = 0
    client: ModelClient | None = None
    keep_quotes: bool = False
    against: Sequence[str] = ()


class Deal(Protocol):
    """Makes queries; `left_out` counts, by reason, documents and questions that gave none."""

    left_out: Counter[str]

    def deal(self, rows: Sequence[int], each: int) -> list[Made]:
        """Up to `each` queries of each of these documents, in their order."""
        ...


def generate(place: Path, folder: Path, choices: Choices, *, quiet: bool = True) -> Found:
    """Make the labelling project `folder` from the documents at `place`, or add to it.

    A folder that was made so before keeps its queries, their splits and what people judged; new
    documents are asked about, and proposed for what is there. Returns what was made and left out,
    and what the leakage checks found (leakage.json). Raises UsageError for documents that cannot
    be read or have changed and for a folder that holds something else, RunError for an endpoint
    that fails.
    """
    from filelock import FileLock, Timeout

    found = read(place)
    written.check_folder(folder)
    with disk_errors(folder, "name another folder with --out"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / ".generate.lock", timeout=0):
                (folder / written.MARK).touch()
                return _generate(place, found, folder, choices, quiet)
        except Timeout:
            raise UsageError(
                f"{folder}: another `harness label generate` is at it; wait for it"
            ) from None


def _generate(place: Path, found: Read, folder: Path, choices: Choices, quiet: bool) -> Found:
    settings = {
        "similarity": choices.similarity,
        "embedding": choices.embedding,
        "split": choices.shares,
        "seed": choices.seed,
    }
    before = written.earlier(folder, settings)
    sources = written.with_earlier(before, found.sources) if before else found.sources
    check_fields(choices.templates, {name for source in sources for name in source.fields})
    what = "harness label generate (without --similarity off)"
    embed = embedder(what, choices.embedding) if choices.similarity is not None else None
    against = named(choices.against, quiet=quiet)  # wrong names are told before work is done
    same = _same_texts(sources)
    old = written.made_before(before, sources) if before else []
    new, left_out, cost = _new(sources, same, old, choices, quiet)
    queries = [*old, *new]
    queries = _with_same(queries, sources, same)
    if embed is not None and choices.similarity is not None:
        queries = _with_similar(queries, sources, embed, choices.similarity)
    known = before.queries if before else []
    split_of = {query["id"]: query["split"] for query in known if query.get("split")}
    placed, group_sizes = _placed(queries, sources, split_of, choices)
    if lost := len(queries) - len(placed):
        left_out["queries that would tie two splits together"] = lost
    if not placed:
        said = (
            "; ".join(f"{why}: {n}" for why, n in left_out.items()) or "none could be asked about"
        )
        raise UsageError(f"{place}: no query could be made of {len(sources)} documents: {said}")
    made_by = (
        {"endpoint": cost["endpoint"], "model": cost["model"]}
        if cost is not None
        else {"templates": [template.text for template in choices.templates]}
    )
    project = written.write(folder, before, sources, placed, settings, made_by)
    leakage = check(of_project(project), embed, choices.similarity, against)
    write_json(folder / LEAKAGE, leakage)
    return {
        "folder": str(folder),
        "documents": len(sources),
        "empty": len(found.empty),
        "queries": len(placed),
        "new_queries": len(placed) - len(old),
        "asked_for": choices.number,
        "several_documents": sum(len(made.golds) > 1 for made, _ in placed),
        "proposed": written.unjudged_proposals(project),
        "proposed_by": dict(
            Counter(str(why["by"]) for made, _ in placed for why in made.proposed.values())
        ),
        "queries_with_proposals": sum(bool(made.proposed) for made, _ in placed),
        "groups": len(group_sizes),
        "largest_group": max(group_sizes),
        "left_out": dict(left_out),
        "endpoint": cost,
        "leakage": leakage,
    }


def _new(
    sources: Sequence[Source],
    same: Int64,
    old: Sequence[Made],
    choices: Choices,
    quiet: bool,
) -> tuple[list[Made], Counter[str], Found | None]:
    """New queries, what was left out by reason, and what an endpoint has cost."""
    left_out: Counter[str] = Counter()
    asked = {row for made in old for row in made.golds}
    rows = []
    for row, source in enumerate(sources):
        if int(same[row]) != row:
            left_out["documents with the text of another"] += 1
        elif len(WORD.findall(source.content)) < SHORTEST:
            left_out[f"documents with fewer than {SHORTEST} words"] += 1
        elif row not in asked:
            rows.append(row)
    # By hash, not by place: a document that is added later moves no other.
    rows.sort(key=lambda row: fraction(choices.seed, f"document\0{sources[row].key}"))
    dealer: Deal
    if choices.client is None:
        dealer = Dealer(sources, same, choices.templates, choices.seed)
        at_once = max(choices.number, 64)
    else:
        dealer = FromModel(choices.client, sources, quiet=quiet)
        # Asked once: what a model leaves out is not made up for with more calls.
        rows = rows[: -(-max(choices.number - len(old), 0) // choices.each)]
        at_once = max(len(rows), 1)
    kept: dict[str, Made] = {made.id: made for made in old}
    for start in range(0, len(rows), at_once):
        for made in dealer.deal(rows[start : start + at_once], choices.each):
            if len(kept) >= choices.number and made.id not in kept:
                break
            if not choices.keep_quotes and _quotes(made, sources):
                left_out[f"queries that quote {QUOTED} words and more of their document"] += 1
                continue
            kept[made.id] = merged([kept[made.id], made])[0] if made.id in kept else made
        if len(kept) >= choices.number:
            break
    left_out.update(dealer.left_out)
    known = {made.id for made in old}
    cost = dealer.cost() if isinstance(dealer, FromModel) else None
    return [kept[id_] for id_ in sorted(set(kept) - known)], left_out, cost


def _quotes(made: Made, sources: Sequence[Source]) -> bool:
    documents = [sources[row].content for row in made.golds]
    return longest_runs([made.text], [documents])[0].length >= QUOTED


def _same_texts(sources: Sequence[Source]) -> Int64:
    """For each document the first one of its haystacks that has the same words."""
    first: dict[tuple[object, ...], int] = {}
    return np.array(
        [
            first.setdefault((source.haystacks, source.normalised or row), row)
            for row, source in enumerate(sources)
        ],
        np.int64,
    )


def _with_same(queries: Sequence[Made], sources: Sequence[Source], same: Int64) -> list[Made]:
    """The queries with every document proposed that has the words of theirs."""
    having: dict[int, list[int]] = {}
    for row, first in enumerate(same.tolist()):
        having.setdefault(first, []).append(row)
    why = {"by": "same text", "similarity": 1.0}
    return [
        made.with_proposed({row: why for gold in made.golds for row in having[int(same[gold])]})
        for made in queries
    ]


def _with_similar(
    queries: Sequence[Made], sources: Sequence[Source], embed: Embed, least: float
) -> list[Made]:
    """The queries with every document of their haystack proposed that is near to theirs."""
    golds = sorted({row for made in queries for row in made.golds})
    vectors = embed([source.content for source in sources])
    near_to: dict[int, list[tuple[int, float]]] = {}
    found = pairs(vectors[golds], vectors, least)
    for one, other, value in zip(*(column.tolist() for column in found), strict=True):
        near_to.setdefault(golds[one], []).append((other, value))
    proposed = []
    for made in queries:
        more: dict[int, float] = {}
        for gold in made.golds:
            for row, value in near_to.get(gold, ()):
                if made.haystack is None or made.haystack in sources[row].haystacks:
                    more[row] = max(value, more.get(row, value))
        why = {row: {"by": "similarity", "similarity": value} for row, value in more.items()}
        proposed.append(made.with_proposed(why))
    return proposed


def _placed(
    queries: Sequence[Made],
    sources: Sequence[Source],
    before: dict[str, str],
    choices: Choices,
) -> tuple[list[tuple[Made, str]], list[int]]:
    """The queries with their splits, less those that would tie two; and queries by group."""
    ties = [[*made.golds, *made.proposed] for made in queries] + asking_the_same(queries)
    of = groups(len(sources), ties)
    group = [of[made.golds[0]] for made in queries]
    keys = [min(sources[row].key for row in made.golds) for made in queries]
    fixed = [(g, before[q.id]) for g, q in zip(group, queries, strict=True) if q.id in before]
    splits = assign(group, keys, choices.shares, choices.seed, fixed)
    placed = [
        (made, before.get(made.id) or split) for made, split in zip(queries, splits, strict=True)
    ]
    kept = [(made, split) for made, split in placed if split is not None]
    return kept, list(Counter(group).values()) or [0]
