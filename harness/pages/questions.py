"""The queries of a report as columns: what was asked, its evidence, and where that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from harness.files import read_json
from harness.pages.answered import by_question
from harness.pages.material import Material, Shelf, Texts, moment
from harness.rankings.raw import read_lines
from harness.runs.answering.folder import AnswersFolder
from harness.runs.folder.run_folder import scores_by_query
from harness.scoring.arrays import Values
from harness.scoring.matching.hits import by_query
from harness.scoring.ranks import NOT_RETRIEVED
from harness.statistics.paired import outcomes


def questions(
    materials: Sequence[Material],
    shown: int,
    causes: Mapping[str, Any] | None,
    answers: Sequence[Sequence[AnswersFolder]],
    *,
    share: bool,
) -> dict[str, Any]:
    """Every query that was asked, with parallel lists in the order of the query table.

    `evidence` holds the documents of the answer key, with `rank` for each run (0: not returned) and
    `cause`, the place of that among the names of `causes` (-1: it is not missed);
    `rankings` the first `shown` places of each run; `start` says where a query's rows begin.
    `answers` are the folders of answers of each run.
    """
    dataset = materials[0].dataset
    asked = np.flatnonzero(materials[0].answered.asked)
    texts = Texts(share=share)
    shelf = Shelf(dataset, texts, share=share)
    table = dataset.query_table
    columns: dict[str, Any] = {
        "id": [dataset.query_ids[row] for row in asked],
        "ability": dataset.abilities[asked].tolist(),
        "category": dataset.categories[asked].tolist(),
        "haystack": [dataset.haystack_ids[dataset.query_haystack[row]] for row in asked],
    }
    if not share:
        columns["text"] = [texts.number(table["text"][row].as_py()) for row in asked.tolist()]
        columns["answers"] = [
            [texts.number(answer) for answer in table["answers"][row].as_py()]
            for row in asked.tolist()
        ]
        columns["date"] = [moment(table["timestamp"][row].as_py()) for row in asked.tolist()]
    return {
        "columns": columns,
        "evidence": _evidence(materials, asked, shelf, causes),
        "rankings": [_ranking(material, asked, shown, shelf) for material in materials],
        "runs": [_answers(material, asked, texts, share=share) for material in materials],
        "blocks": _blocks(materials, asked),
        "answered": [
            by_question(material, folders, asked, texts)
            for material, folders in zip(materials, answers, strict=True)
        ],
        "documents": shelf.columns(),
        "texts": texts.all,
    }


def _starts(query: Any, asked: Any) -> tuple[Any, list[int]]:
    """Which of the rows belong to the queries, and where each query's begin among those.

    `query` is ascending, as `asked` is.
    """
    mine = np.isin(query, asked)
    return mine, [*np.searchsorted(query[mine], asked).tolist(), int(mine.sum())]


def _evidence(
    materials: Sequence[Material], asked: Any, shelf: Shelf, causes: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Documents of the answer key with a grade of 1 or more, and their rank in each run."""
    dataset = materials[0].dataset
    judged = dataset.qrels()
    mine, _ = _starts(judged.query, asked)
    mine &= judged.grade >= 1
    query = judged.query[mine]
    names = judged.document_id.to_pylist()
    documents, pieces = [], []
    for at in np.flatnonzero(mine).tolist():
        pieces.append((int(judged.query[at]), names[at]))
        row = int(judged.document[at])
        haystack = int(dataset.query_haystack[judged.query[at]])
        documents.append(shelf.place(haystack, row) if row >= 0 else shelf.unknown(names[at]))
    return {
        "start": [*np.searchsorted(query, asked).tolist(), len(query)],
        "document": documents,
        "grade": judged.grade[mine].tolist(),
        "missing": (judged.document[mine] < 0).astype(int).tolist(),
        "rank": [
            np.where(m.ranked.rank[mine] == NOT_RETRIEVED, 0, m.ranked.rank[mine]).tolist()
            for m in materials
        ],
        "cause": [_causes(of, causes["names"], pieces) for of in causes["of"]] if causes else [],
    }


def _causes(
    of: Mapping[tuple[int, str], Any], names: Sequence[Any], pieces: Sequence[tuple[int, str]]
) -> list[int]:
    """The place of each piece's cause among the names, -1 for one that is not missed."""
    place = {name: at for at, name in enumerate(names)}
    return [place[of[piece]] if piece in of else -1 for piece in pieces]


def _ranking(material: Material, asked: Any, shown: int, shelf: Shelf) -> dict[str, Any]:
    """The first places of every ranking, as returned; `gold` is the grade in the answer key."""
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
    return {
        "start": starts,
        "document": [
            shelf.place(h, row) if row >= 0 else -1
            for h, (_, row) in zip(haystacks, pairs, strict=True)
        ],
        "gold": [max(0, grades.get(pair, 0)) for pair in pairs],
    }


def _answers(material: Material, asked: Any, texts: Texts, *, share: bool) -> dict[str, Any]:
    """What became of each query in one run: time, size, silence, failure, texts of its own."""
    answered, dataset = material.answered, material.dataset
    place = {int(row): at for at, row in enumerate(asked)}
    hits: list[list[list[Any]]] = []
    if material.hits and not share:
        hits = [[] for _ in asked]
        for query, mine in by_query(material.hits):
            names = dataset.documents.column("id")
            hits[place[query]] = [
                [
                    texts.number(hit.text),
                    str(hit.way),
                    [names[row].as_py() for row in hit.documents],
                ]
                for hit in mine
            ]
    return {
        "ms": _rounded(material.seconds[asked] * 1000),
        "returned": material.ranked.returned[asked].tolist(),
        "first": _first(material)[asked].tolist(),
        "confidence": _rounded(answered.confidence[asked]),
        "abstained": answered.abstained[asked].astype(int).tolist(),
        "failed": answered.failed[asked].astype(int).tolist(),
        "errors": {} if share else _errors(material, place, texts),
        "hits": hits,
    }


def _first(material: Material) -> Any:
    """Rank of the first piece of evidence of each query, 0 where none was returned."""
    ranked = material.ranked
    first = np.full(ranked.n, NOT_RETRIEVED)
    gold = ranked.grade >= 1
    np.minimum.at(first, ranked.query[gold], ranked.rank[gold])
    return np.where(first == NOT_RETRIEVED, 0, first)


def _errors(material: Material, place: dict[int, int], texts: Texts) -> dict[str, int]:
    """The trace of each failed query, by its place in the table."""
    path = material.run.folder / "errors.jsonl"
    if not path.is_file():
        return {}
    records = [orjson.loads(line) for line in read_lines(path) if line]
    return {
        str(place[material.row_of[record["query"]]]): texts.number(record["error"][-600:])
        for record in records
    }


def _blocks(materials: Sequence[Material], asked: Any) -> list[dict[str, Any]]:
    """Per protocol: values of every query in every run, why it has none, and who won."""
    place = {name: at for at, name in enumerate(materials[0].dataset.query_ids)}
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
            left_out = read_json(path).get(block[0], {})
            reasons.append(list(left_out))
            mine = np.full(len(asked), -1)
            for at, ids in enumerate(left_out.values()):
                rows = of_row[[place[name] for name in ids]]
                mine[rows[rows >= 0]] = at
            why.append(mine.tolist())
        found.append(
            {
                "values": [{m: _rounded(v) for m, v in one.items()} for one in values],
                "reasons": reasons,
                "left_out": why,
                **({"difference": _differences(values, metrics)} if len(values) == 2 else {}),
            }
        )
    return found


def _differences(values: Sequence[dict[str, Values]], metrics: Sequence[str]) -> dict[str, Any]:
    """The second run's value minus the first's, exactly 0 where they tie."""
    a, b = values
    tied = {m: outcomes(a[m][:, None], b[m][:, None])[:, 0] == 0 for m in metrics}
    return {m: _rounded(np.where(tied[m], 0.0, b[m] - a[m])) for m in metrics}


def _rounded(values: Values) -> list[float | None]:
    """Values to four decimals, None for NaN; whole numbers as such."""
    return [
        None if v != v else int(v) if v == int(v) else round(v, 4)
        for v in np.asarray(values, float).tolist()
    ]
