"""Builds the queries of a report as columns: their texts, evidence, and its ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import orjson
from msgspec.structs import replace

from harness.analysis.analyze.analyze import PROTOCOL, Seen, misses
from harness.analysis.analyze.causes import Cause, Place, QueryMisses, bands, rules
from harness.io.files import read_json
from harness.reports.material import Material, Shelf, Texts, moment
from harness.reports.records import (
    EvidenceColumns,
    MissCauses,
    MissedEvidence,
    QueryColumns,
    QueryOutcomes,
    QueryValues,
    RankingColumns,
    ReportQueries,
)
from harness.runfiles.raw import read_lines
from harness.runs.folder.run_folder import RunFolder, scores_by_query
from harness.scoring.arrays import Flags, Values
from harness.scoring.matching.matcher import by_query
from harness.scoring.ranks import NOT_RETRIEVED
from harness.stats.paired import outcomes

Rows = npt.NDArray[np.integer]
"""Rows of the query table, ascending."""


def questions(
    materials: Sequence[Material],
    shown: int,
    names: Sequence[str],
    causes: Sequence[CauseOf],
    texts: Texts,
    *,
    share: bool,
) -> ReportQueries:
    """Returns every query that was asked, with the first `shown` documents of each ranking.

    `names` are those of all causes, `causes` has those of missed documents for each run.
    `texts` are those that the page holds; others may be added to them later.
    """
    dataset = materials[0].dataset
    asked = np.flatnonzero(materials[0].answered.asked)
    shelf = Shelf(dataset, texts, share=share)
    table = dataset.query_table
    columns = QueryColumns(
        id=[dataset.query_ids[row] for row in asked],
        ability=dataset.abilities[asked].tolist(),
        category=dataset.categories[asked].tolist(),
        haystack=[dataset.haystack_ids[dataset.query_haystack[row]] for row in asked],
    )
    if not share:
        rows = asked.tolist()
        columns = replace(
            columns,
            text=[texts.number(table["text"][row].as_py()) for row in rows],
            answers=[[texts.number(one) for one in table["answers"][row].as_py()] for row in rows],
            date=[moment(table["timestamp"][row].as_py()) for row in rows],
        )
    return ReportQueries(
        columns=columns,
        evidence=_evidence(materials, asked, shelf, names, causes),
        rankings=[_ranking(material, asked, shown, shelf) for material in materials],
        runs=[_outcomes(material, asked, texts, share=share) for material in materials],
        protocols=_values(materials, asked),
        documents=shelf.columns(),
        texts=texts.all,
    )


def _starts(query: Rows, asked: Rows) -> tuple[Flags, list[int]]:
    """Returns the mask of rows that belong to the queries, and each query's start among those.

    `query` is ascending, as `asked` is.
    """
    mine = np.isin(query, asked)
    return mine, [*np.searchsorted(query[mine], asked).tolist(), int(mine.sum())]


def _evidence(
    materials: Sequence[Material],
    asked: Rows,
    shelf: Shelf,
    names: Sequence[str],
    causes: Sequence[CauseOf],
) -> EvidenceColumns:
    """Returns the documents with a grade of 1 or more, and their rank in each run."""
    dataset = materials[0].dataset
    judged = dataset.qrels()
    mine, _ = _starts(judged.query, asked)
    mine &= judged.grade >= 1
    query = judged.query[mine]
    ids = judged.document_id.to_pylist()
    documents, pieces = [], []
    for at in np.flatnonzero(mine).tolist():
        pieces.append((int(judged.query[at]), ids[at]))
        row = int(judged.document[at])
        haystack = int(dataset.query_haystack[judged.query[at]])
        documents.append(shelf.place(haystack, row) if row >= 0 else shelf.unknown(ids[at]))
    position = {name: at for at, name in enumerate(names)}
    return EvidenceColumns(
        start=[*np.searchsorted(query, asked).tolist(), len(query)],
        document=documents,
        grade=judged.grade[mine].tolist(),
        missing=(judged.document[mine] < 0).astype(int).tolist(),
        rank=[
            np.where(m.ranked.rank[mine] == NOT_RETRIEVED, 0, m.ranked.rank[mine]).tolist()
            for m in materials
        ],
        cause=[[position[of[one]] if one in of else -1 for one in pieces] for of in causes],
    )


def _ranking(material: Material, asked: Rows, shown: int, shelf: Shelf) -> RankingColumns:
    """Returns the first documents of every ranking with their grades."""
    dataset, resolved = material.dataset, material.resolved
    inside = resolved.rank <= shown
    query, rows = resolved.query[inside], resolved.row[inside]
    mine, starts = _starts(query, asked)
    query, rows = query[mine], rows[mine]
    judged = dataset.qrels()
    grades = {
        (q, d): g
        for q, d, g in zip(
            judged.query.tolist(), judged.document.tolist(), judged.grade.tolist(), strict=True
        )
        if d >= 0
    }
    haystacks = dataset.query_haystack[query].tolist()
    pairs = list(zip(query.tolist(), rows.tolist(), strict=True))
    documents = [-1] * len(pairs)
    for at in np.argsort(resolved.rank[inside][mine], kind="stable").tolist():  # first ranks first
        if pairs[at][1] >= 0:
            documents[at] = shelf.place(haystacks[at], pairs[at][1])
    return RankingColumns(
        start=starts,
        document=documents,
        grade=[max(0, grades.get(pair, 0)) for pair in pairs],
    )


def _outcomes(material: Material, asked: Rows, texts: Texts, *, share: bool) -> QueryOutcomes:
    """Returns the outcome of each query in one run."""
    answered, dataset = material.answered, material.dataset
    place = {int(row): at for at, row in enumerate(asked)}
    hits: list[list[tuple[int, str, list[str]]]] = []
    if material.hits and not share:
        hits = [[] for _ in asked]
        for query, mine in by_query(material.hits):
            names = dataset.documents.column("id")
            hits[place[query]] = [
                (
                    texts.number(hit.text),
                    str(hit.way),
                    [names[row].as_py() for row in hit.documents],
                )
                for hit in mine
            ]
    return QueryOutcomes(
        ms=_rounded(material.seconds[asked] * 1000),
        returned=material.ranked.returned[asked].tolist(),
        first=_first(material)[asked].tolist(),
        confidence=_rounded(answered.confidence[asked]),
        abstained=answered.abstained[asked].astype(int).tolist(),
        failed=answered.failed[asked].astype(int).tolist(),
        errors={} if share else _errors(material, place, texts),
        hits=hits,
    )


def _first(material: Material) -> npt.NDArray[np.int64]:
    """Returns the rank of each query's first evidence, 0 if none was returned."""
    ranked = material.ranked
    first = np.full(ranked.n, NOT_RETRIEVED)
    gold = ranked.grade >= 1
    np.minimum.at(first, ranked.query[gold], ranked.rank[gold])
    return np.where(first == NOT_RETRIEVED, 0, first)


def _errors(material: Material, place: dict[int, int], texts: Texts) -> dict[str, int]:
    """Returns the text number of each failed query's trace, by position in the table."""
    path = material.run.folder / "errors.jsonl"
    if not path.is_file():
        return {}
    records = [orjson.loads(line) for line in read_lines(path) if line]
    return {
        str(place[material.dataset.query_rows[record["query"]]]): texts.number(
            record["error"][-600:]
        )
        for record in records
    }


def _values(materials: Sequence[Material], asked: Rows) -> list[QueryValues]:
    """Returns for each protocol the values of every query in every run, or why it has none."""
    place = materials[0].dataset.query_rows
    of_row = np.full(len(place), -1)
    of_row[asked] = np.arange(len(asked))
    found = []
    shared = [b for b in materials[0].run.blocks if all(b in m.run.blocks for m in materials)]
    for block in shared:
        metrics = [
            name
            for name in materials[0].metrics(block)
            if all(name in material.metrics(block) for material in materials)
        ]
        values = [{m: one.values(block, m)[asked] for m in metrics} for one in materials]
        reasons, why = [], []
        for material in materials:
            run = material.run
            path = scores_by_query(run.folder, run.scores, "excluded.json")
            excluded = read_json(path).get(block[0], {})
            reasons.append(list(excluded))
            mine = np.full(len(asked), -1)
            for at, ids in enumerate(excluded.values()):
                rows = of_row[[place[name] for name in ids]]
                mine[rows[rows >= 0]] = at
            why.append(mine.tolist())
        found.append(
            QueryValues(
                values=[{m: _rounded(v) for m, v in one.items()} for one in values],
                reasons=reasons,
                excluded=why,
                difference=_differences(values, metrics) if len(values) == 2 else None,
            )
        )
    return found


def _differences(
    values: Sequence[dict[str, Values]], metrics: Sequence[str]
) -> dict[str, list[float | None]]:
    """Returns the second run's value minus the first's, exactly 0 if they tie."""
    a, b = values
    tied = {m: outcomes(a[m][:, None], b[m][:, None])[:, 0] == 0 for m in metrics}
    return {m: _rounded(np.where(tied[m], 0.0, b[m] - a[m])) for m in metrics}


def _rounded(values: Values) -> list[float | None]:
    """Rounds values to four decimals; None for NaN, whole numbers as integers."""
    return [
        None if v != v else int(v) if v == int(v) else round(v, 4)
        for v in np.asarray(values, float).tolist()
    ]


# -- Why evidence was missed, by the rules of `harness analyze` ------------------------------------


K = 10
"""Evidence below this rank is missed, as in `harness analyze`; lower for short rankings."""


CauseOf = dict[tuple[int, str], str]
"""The cause of each missed document, by row of the query and id of the document."""


def causes(materials: Sequence[Material]) -> tuple[MissCauses | None, list[CauseOf]]:
    """Returns what each run missed, by cause and ability, with the rules; and all causes by run.

    None and an empty list if evidence is not scored as `harness analyze` requires.
    """
    block = (PROTOCOL, materials[0].dataset.manifest.granularity)
    if not all(block in one.run.blocks for one in materials):
        return None, []
    scored = set.intersection(*(set(one.metrics(block)) for one in materials))
    k = max((k for k in range(1, K + 1) if f"recall@{k}" in scored), default=None)
    if k is None:
        return None, []
    found = [misses(_seen(material, k)) for material in materials]
    missed = {cause for _, queries in found for query in queries for cause in query.causes}
    names = [cause for cause in Cause if cause in missed]
    report = MissCauses(
        k=k,
        names=[str(cause) for cause in names],
        rules=[rules()[cause] for cause in names],
        runs=[
            _run(*one, k, material.depth) for one, material in zip(found, materials, strict=True)
        ],
    )
    return report, [_of(queries) for _, queries in found]


def _seen(material: Material, k: int) -> Seen:
    dataset = material.dataset
    return Seen(
        dataset=dataset,
        k=k,
        depth=material.run.run_record.settings.k,
        texts=RunFolder(material.run.folder).hits.is_file(),
        resolved=material.resolved,
        ranked=material.ranked,
        recall=material.values((PROTOCOL, dataset.manifest.granularity), f"recall@{k}"),
    )


def _run(
    pieces: dict[str, int], queries: Sequence[QueryMisses], k: int, depth: int
) -> MissedEvidence:
    missed = [piece for query in queries for piece in query.missed]
    counts: dict[str, Counter[Cause]] = {ability: Counter() for ability in pieces}
    for query in queries:
        counts[query.ability].update(piece.cause for piece in query.missed)
    ranks = [piece.rank for piece in missed if piece.rank is not None]
    places = Counter(piece.place for piece in missed)
    return MissedEvidence(
        evidence=pieces,
        missed=len(missed),
        queries=len(queries),
        counts={
            ability: {str(cause): n for cause, n in mine.items()}
            for ability, mine in counts.items()
        },
        rank_bands=[
            (low, high, sum(low <= rank <= high for rank in ranks)) for low, high in bands(k, depth)
        ],
        not_ranked={str(place): places[place] for place in Place if place is not Place.BELOW},
        adjacent=sum(piece.beside for piece in missed),
        same_session=sum(piece.session for piece in missed),
    )


def _of(queries: Sequence[QueryMisses]) -> CauseOf:
    return {
        (query.row, name): str(piece.cause)
        for query in queries
        for piece in query.missed
        for name in piece.documents
    }
