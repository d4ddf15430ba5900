"""Pooling: what goes into a project, what is shown of it, and adding to it later."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation
from harness.extensions.labelling.pool import pooled_system
from harness.extensions.labelling.project import Project
from harness.extensions.labelling.reports import Added
from harness.extensions.labelling.session import AnnotationSession
from harness.extensions.labelling.start import StartOptions, start

pytestmark = pytest.mark.usefixtures("home")

Sources = tuple[Path, Path]
BM25, TFIDF = pooled_system("bm25", {}), pooled_system("tfidf", {})


def test_the_pool_is_the_union_of_every_systems_top_k(tmp_path: Path, sources: Sources) -> None:
    (tmp_path / "mine.py").write_text(
        "def last(text, k, corpus):\n    return [corpus[-1].id]\n", "utf-8"
    )
    mine = pooled_system(f"{tmp_path / 'mine.py'}:last", {})
    made = start(tmp_path / "labels", *sources, [BM25, mine], options=StartOptions(depth=2))
    assert (made.new, made.warnings) == (True, [])
    project = Project.read(tmp_path / "labels")
    assert [query.id for query in project.queries] == ["q1", "q2", "q3"]
    ranks = {one.document: dict(one.ranks) for one in project.candidates["q1"]}
    assert set(ranks) >= {"d1", "d3"}
    assert ranks["d1"]["bm25"] == 1
    assert sum(mine.name in one.ranks for one in project.pool) == 3
    assert all(rank <= 2 for one in project.pool for rank in one.ranks.values())
    assert project.settings.sources[0].file == "documents.jsonl"
    assert not (tmp_path / "labels" / ".pooling").exists()


def test_it_goes_on_and_grows_without_losing_a_judgement(tmp_path: Path, sources: Sources) -> None:
    folder = tmp_path / "labels"
    first = start(folder, *sources, [BM25], options=StartOptions(depth=1))
    assert "only bm25 is pooled" in first.warnings[0]
    kept = first.project.pool[0]
    first.project.annotation_log("ann").append(
        Annotation(query=kept.query, document=kept.document, grade=2)
    )
    before = (folder / "pool.jsonl").read_bytes()
    again = start(folder, *sources)
    assert again.added == Added()
    assert (folder / "pool.jsonl").read_bytes() == before

    documents, queries = sources
    queries.write_text("Who was late?\n" + queries.read_text("utf-8"), "utf-8")
    with open(documents, "ab") as file:
        file.write(b'\n{"id": "d5", "text": "The captain of the ferry is Liv."}\n')
    grown = start(folder, documents, queries, [TFIDF], options=StartOptions(depth=3))
    assert grown.added == Added(
        documents=1,
        queries=1,
        systems=1,
        depth=2,
        candidates=len(grown.project.pool) - len(first.project.pool),
    )
    assert grown.project.query["q4"].text == "Who was late?"  # the others keep their ids
    assert {(c.query, c.document) for c in first.project.pool} <= {
        (c.query, c.document) for c in grown.project.pool
    }
    assert grown.project.annotation_log("ann").current.grades == {(kept.query, kept.document): 2}


def test_an_edited_query_is_pooled_again_and_keeps_its_judgements(
    tmp_path: Path, sources: Sources
) -> None:
    folder = tmp_path / "labels"
    start(folder, *sources, [BM25], options=StartOptions(depth=1))
    ann = AnnotationSession(folder, "ann")
    kept = ann.project.candidates["q1"][0].document
    ann.annotate(Annotation(query="q1", document=kept, grade=2))
    ann.reword("q1", "Which day is the dentist?")
    assert ann.project.query["q1"].pool_is_older
    again = start(folder, *sources)  # the query file has the text before the edit
    project = Project.read(folder)
    assert again.added.candidates == 1
    assert project.query["q1"].text == "Which day is the dentist?"
    assert not project.query["q1"].pool_is_older
    assert {one.document for one in project.candidates["q1"]} == {kept, "d4"}
    assert project.annotations()["ann"].grades == {("q1", kept): 2}
    assert start(folder, *sources).added == Added()


def test_what_would_change_a_judgement_is_refused(tmp_path: Path, sources: Sources) -> None:
    folder, (documents, queries) = tmp_path / "labels", sources
    start(folder, documents, queries, [BM25, TFIDF], options=StartOptions(depth=2))
    with pytest.raises(UsageError, match="cannot shrink"):
        start(folder, documents, queries, options=StartOptions(depth=1))
    with pytest.raises(UsageError, match="created with seed 0"):
        start(folder, documents, queries, options=StartOptions(seed=1))
    documents.write_text('{"id": "d1", "text": "Another text."}\n', "utf-8")
    with pytest.raises(UsageError, match="the document 'd1' has another text"):
        start(folder, documents, queries)


def test_queries_that_no_system_answers_are_said(tmp_path: Path, sources: Sources) -> None:
    (tmp_path / "mine.py").write_text("def none(text, k, corpus):\n    return []\n", "utf-8")
    none = pooled_system(f"{tmp_path / 'mine.py'}:none", {})
    made = start(tmp_path / "labels", *sources, [none])
    assert any("3 of the 3 queries have no candidate" in warning for warning in made.warnings)


def test_documents_of_other_haystacks_are_never_candidates(tmp_path: Path) -> None:
    documents, queries = tmp_path / "documents.jsonl", tmp_path / "queries.jsonl"
    documents.write_text(
        "".join(
            f'{{"id": "d1", "text": "the ferry of {who}", "haystack": "{who}"}}\n'
            for who in ("ann", "bob")
        ),
        "utf-8",
    )
    queries.write_text(
        '{"id": "q1", "text": "the ferry", "haystack": "bob", "split": "dev"}\n', "utf-8"
    )
    made = start(tmp_path / "labels", documents, queries, [BM25, TFIDF])
    assert len(made.project.pool) == 1
    assert made.project.document("q1", "d1").text == "the ferry of bob"
    queries.write_text('{"id": "q2", "text": "x", "haystack": "cid"}\n', "utf-8")
    with pytest.raises(UsageError, match="haystack 'cid', in which there is no document"):
        start(tmp_path / "labels", documents, queries)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("queries.txt", "\n \n", "contains no queries"),
        ("queries.jsonl", '{"id": "q1"}', "no field 'text'"),
        ("queries.jsonl", '{"id": "q1", "text": " "}', "has no text"),
        ("queries.jsonl", '{"id": "q1", "text": "a"}\n{"id": "q1", "text": "b"}', "line 1 already"),
        (
            "queries.jsonl",
            '{"id": "q1", "text": "a", "ability": "magic"}',
            "unknown ability 'magic'",
        ),
        ("queries.jsonl", '{"id": "q1", "text": "a", "split": "mine"}', "'mine' is none of"),
        ("queries.csv", "id,words\nq1,a\n", "no column 'text'"),
        ("queries.doc", "a", "must be a file that ends in"),
        ("queries.txt", b"\xff\xfe", "not UTF-8"),
    ],
)
def test_wrong_queries_are_one_line(
    tmp_path: Path, sources: Sources, name: str, text: str | bytes, words: str
) -> None:
    path = tmp_path / "wrong" / name
    path.parent.mkdir()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=words):
        start(tmp_path / "labels", sources[0], path, [BM25])
    assert not (tmp_path / "labels" / "label.json").exists()


def test_the_qrels_cannot_be_pooled(tmp_path: Path, sources: Sources) -> None:
    with pytest.raises(UsageError, match="reads the qrels"):
        start(tmp_path / "labels", *sources, [pooled_system("oracle", {})])


def test_the_files_are_plain(tmp_path: Path, sources: Sources) -> None:
    start(
        tmp_path / "labels",
        *sources,
        [BM25, TFIDF],
        options=StartOptions(depth=1, seed=3, overlap=0.5),
    )
    settings = orjson.loads((tmp_path / "labels" / "label.json").read_bytes())
    assert {name: settings[name] for name in ("version", "depth", "seed", "overlap")} == {
        "version": 1,
        "depth": 1,
        "seed": 3,
        "overlap": 0.5,
    }
    line = orjson.loads((tmp_path / "labels" / "pool.jsonl").read_bytes().splitlines()[0])
    assert set(line) == {"query", "document", "ranks"}
