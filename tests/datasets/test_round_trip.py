"""What an adapter writes is what the harness reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import Fill, prepared

from harness.datasets.manifest import Repair
from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError
from harness.schema import Ability, Document, Query

ODD = 'Zoë’s naïve café ☕ 東京 🦊 \u0000 \u2028 \\n "quoted"\r\n\ttab'


def test_every_field_of_a_document_comes_back(tmp_path: Path) -> None:
    whole = Document("d1", ODD, "Title " + ODD, 1_700_000_000, "s1", "Zoë", 7)
    dated_before_1970 = Document("d2", "", "", -86_400, "", "", 0)
    bare = Document("d3", "only text")

    def fill(out: DatasetWriter) -> None:
        rows = [
            out.document(
                d.id,
                d.text,
                title=d.title,
                timestamp=d.timestamp,
                session=d.session,
                speaker=d.speaker,
                position=d.position,
            )
            for d in (whole, dated_before_1970, bare)
        ]
        assert rows == [0, 1, 2]

    documents = prepared(tmp_path / "data", fill).documents
    assert list(documents) == [whole, dated_before_1970, bare]
    assert [documents[row] for row in range(3)] == [whole, dated_before_1970, bare]
    assert documents.contents() == [whole.content, "", "only text"]
    with pytest.raises(IndexError, match="row 3 of 3 documents"):
        documents[3]


def test_every_field_of_a_query_comes_back(tmp_path: Path) -> None:
    queries = [
        Query("q1", ODD, "h2", Ability.KNOWLEDGE_UPDATE, "knowledge-update", 5, ("a", "", ODD)),
        Query("q2", "bare", "h1"),
    ]

    def fill(out: DatasetWriter) -> None:
        for q in queries:
            out.query(
                q.id,
                q.text,
                q.haystack,
                ability=q.ability,
                category=q.category,
                timestamp=q.timestamp,
                answers=q.answers,
            )
        out.haystack("h1", [])
        out.haystack("h2", [])

    dataset = prepared(tmp_path / "data", fill)
    assert [dataset.query(row) for row in range(dataset.n_queries)] == queries
    assert dataset.abilities.tolist() == ["knowledge-update", "lookup"]
    assert dataset.query_haystack.tolist() == [1, 0]


def test_haystacks_share_documents_and_may_date_them_otherwise(tmp_path: Path) -> None:
    def fill(out: DatasetWriter) -> None:
        for i in range(4):
            out.document(f"d{i}", "text", timestamp=None if i == 3 else 100 + i)
        out.haystack("own dates", [3, 0, 2])
        out.haystack("other dates", [2, 0], [7, 8])
        out.haystack("empty", [])
        out.haystack("all")

    dataset = prepared(tmp_path / "data", fill)
    assert dataset.haystack_ids == ["own dates", "other dates", "empty", "all"]
    rows = [dataset.haystack_rows(h).tolist() for h in range(4)]
    assert rows == [[3, 0, 2], [2, 0], [], [0, 1, 2, 3]]
    assert dataset.haystack_sizes.tolist() == [3, 2, 0, 4]
    dates = [dataset.haystack_timestamps(h).to_pylist() for h in range(4)]
    assert dates == [[None, 100, 102], [7, 8], [], [100, 101, 102, None]]


def judged(dataset: Dataset, key: str = "default") -> list[tuple[str, int, str, int]]:
    found = dataset.qrels(key)
    ids = [dataset.query_ids[q] for q in found.query]
    return list(
        zip(
            ids,
            found.document.tolist(),
            found.document_id.to_pylist(),
            found.grade.tolist(),
            strict=True,
        )
    )


def test_judgements_by_row_and_by_id_come_back_sorted_by_query_and_by_key(tmp_path: Path) -> None:
    def fill(out: DatasetWriter) -> None:
        for i in range(3):
            out.document(f"d{i}", "text")
        out.haystack("all")
        out.qrel("q2", 2, 0)
        out.qrel("q1", "d1", -2)
        out.qrel("q2", "d0", 3)
        out.qrel("q1", 0, qrels_set="official")
        out.query("q1", "?", "all")
        out.query("q2", "?", "all")

    dataset = prepared(tmp_path / "data", fill)
    assert dataset.qrels_sets == ["default", "official"]
    assert judged(dataset) == [("q1", 1, "d1", -2), ("q2", 2, "d2", 0), ("q2", 0, "d0", 3)]
    assert judged(dataset, "official") == [("q1", 0, "d0", 1)]
    assert judged(dataset, "no such key") == []


def test_documents_that_carry_one_piece_of_evidence_share_its_unit(tmp_path: Path) -> None:
    def fill(out: DatasetWriter) -> None:
        for i in range(3):
            out.document(f"d{i}", "text")
        out.haystack("all")
        for query in ("q1", "q2"):
            out.query(query, "?", "all")
            out.qrel(query, 0, evidence_id="D1:3")
            out.qrel(query, 1, evidence_id="D1:3")
            out.qrel(query, 1, evidence_id="D1:4")
            out.qrel(query, 2)

    judgements = prepared(tmp_path / "data", fill).qrels()
    a, b, c, d, e, f, g, h = judgements.evidence_id.tolist()
    assert (a, e) == (b, f)
    assert len({a, c, d, e, g, h}) == 6


def test_a_judgement_of_a_document_that_is_not_there_is_refused_or_kept(tmp_path: Path) -> None:
    def fill(out: DatasetWriter) -> None:
        out.document("d0", "text")
        out.haystack("all")
        out.query("q", "?", "all")
        out.qrel("q", "d0")
        out.qrel("q", "gone")
        out.qrel("q", -1, document_id="known")  # the adapter knows, and has said why

    with pytest.raises(UsageError, match=r"1 judgements name documents .* first 'gone'"):
        prepared(tmp_path / "refused", fill)
    dataset = prepared(tmp_path / "kept", fill, unknown_documents="keep")
    assert judged(dataset) == [("q", 0, "d0", 1), ("q", -1, "gone", 1), ("q", -1, "known", 1)]
    assert [(r.count, r.examples) for r in dataset.manifest.repairs] == [(1, ["gone"])]


@pytest.mark.parametrize("rows", [[], [0], [0, 1, 2]])
def test_a_dataset_without_judgements_or_queries_or_documents_can_be_read(
    tmp_path: Path, rows: list[int]
) -> None:
    dataset = prepared(tmp_path / "data", lambda out: [out.document(str(i), "") for i in rows])
    assert len(list(dataset.documents)) == len(rows)
    assert dataset.n_queries == len(dataset.qrels()) == 0


def test_what_must_be_unique_is_refused_when_it_stands_twice(tmp_path: Path) -> None:
    def twice(what: Fill) -> Fill:
        def fill(out: DatasetWriter) -> None:
            what(out)
            what(out)
            out.haystack("all")

        return fill

    for number, (what, message) in enumerate(
        [
            (lambda out: out.query("q", "?", "all"), "query id 'q' occurs twice"),
            (lambda out: out.haystack("h", []), "haystack 'h' is defined twice"),
            (lambda out: out.document("d", "text"), "1 document ids .* first 'd'"),
        ]
    ):
        with pytest.raises(UsageError, match=message):
            prepared(tmp_path / str(number), twice(what))


def test_names_that_nothing_stands_behind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="query 'q' names the haystack 'none'"):
        prepared(tmp_path / "haystack", lambda out: out.query("q", "?", "none"))
    with pytest.raises(UsageError, match=r"1 judgements name queries .* first 'none'"):
        prepared(tmp_path / "query", lambda out: out.qrel("none", "d"))


def test_repairs_are_counted_whole_and_shown_by_their_first_examples(tmp_path: Path) -> None:
    def fill(out: DatasetWriter) -> None:
        for i in range(50):
            out.repair("an odd date: kept", f"record {i}")

    (repair,) = prepared(tmp_path / "data", fill).manifest.repairs
    assert repair == Repair(
        kind="an odd date: kept", count=50, examples=[f"record {i}" for i in range(20)]
    )


def test_many_documents_are_read_across_batches(tmp_path: Path) -> None:
    n = 70_000  # three batches

    def fill(out: DatasetWriter) -> None:
        for i in range(n):
            out.document(f"d{i}", f"text {i}", position=i % 9)
        out.haystack("all")
        out.query("q", "?", "all")
        out.qrel("q", "d69999")
        out.qrel("q", 32_768)

    dataset = prepared(tmp_path / "data", fill)
    for row in (0, 32_767, 32_768, 65_536, n - 1):
        assert dataset.documents[row] == Document(f"d{row}", f"text {row}", position=row % 9)
    assert judged(dataset) == [("q", n - 1, "d69999", 1), ("q", 32_768, "d32768", 1)]
