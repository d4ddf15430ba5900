"""The user's own files: BEIR's layout, JSONL, CSV and TREC's formats."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.verify import verify
from harness.errors import UsageError
from harness.schema import Ability, timestamp

DOCUMENTS: list[dict[str, Any]] = [
    {"id": "d1", "title": "Harbour", "text": "The ferry leaves at noon."},
    {"id": "d2", "text": "Bread rises overnight."},
]
QUERIES: list[dict[str, Any]] = [
    {"id": "q1", "text": "When does the ferry leave?"},
    {"id": "q2", "text": "What is the captain's name?", "ability": "abstention"},
]
JUDGEMENTS: list[dict[str, Any]] = [{"query": "q1", "document": "d1", "grade": 2}]


def write(folder: Path, files: dict[str, Any]) -> Path:
    """Records as JSON lines, anything else as it is."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(content), path)
            continue
        if isinstance(content, list):
            content = "".join(json.dumps(record) + "\n" for record in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def jsonl(**changed: Any) -> dict[str, Any]:
    files = {"documents": DOCUMENTS, "queries": QUERIES, "qrels": JUDGEMENTS, **changed}
    return {f"{name}.jsonl": records for name, records in files.items()}


def contents(dataset: Dataset) -> tuple[object, ...]:
    """Documents, queries and judgements, whatever file they came from."""
    key = dataset.qrels()
    return (
        [(d.id, d.title, d.text) for d in dataset.documents],
        [(q.id, q.text) for q in map(dataset.query, range(dataset.n_queries))],
        list(zip(key.document_id.to_pylist(), key.grade.tolist(), strict=True)),
    )


EXPECTED = (
    [("d1", "Harbour", "The ferry leaves at noon."), ("d2", "", "Bread rises overnight.")],
    [("q1", "When does the ferry leave?")],
    [("d1", 2)],
)


@pytest.mark.parametrize(
    "files",
    [
        jsonl(queries=QUERIES[:1]),
        {
            "corpus.jsonl": [
                {"_id": "d1", "title": "Harbour", "text": DOCUMENTS[0]["text"], "metadata": {}},
                {"_id": "d2", "title": "", "text": DOCUMENTS[1]["text"]},
            ],
            "queries.jsonl": [{"_id": "q1", "text": "When does the ferry leave?"}],
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\n",
        },
        {
            "documents.csv": "id,title,text\nd1,Harbour,The ferry leaves at noon.\nd2,,"
            '"Bread rises overnight."\n',
            "queries.csv": "text,id\nWhen does the ferry leave?,q1\n",
            "judgements.csv": "query,document,grade\r\nq1,d1,2\r\n",
        },
        {
            "documents.trec": "<DOC>\n<DOCNO> d1 </DOCNO>\n<TITLE>Harbour</TITLE>\n<TEXT>\n"
            "The ferry <b>leaves</b> at noon.\n</TEXT>\n</DOC>\n<DOC><DOCNO>d2</DOCNO>\n"
            "<TEXT>Bread rises overnight.</TEXT></DOC>\n",
            "topics.txt": "<top>\n<num> Number: q1\n<title> When does\nthe ferry leave?\n\n"
            "<desc> Description:\nA time.\n</top>\n",
            "qrels.txt": "q1 0 d1 2\n",
        },
        {
            "docs.csv": "doc_id,TITLE,contents\nd1,Harbour,The ferry leaves at noon.\n"
            "d2,,Bread rises overnight.\n",
            "queries.csv": "qid;question\nq1;When does the ferry leave?\n",
            "qrels.csv": "query_id,doc_id,relevance\nq1,d1,2.0\n",
        },
        {
            "corpus.tsv": "pid\tpassage\ttitle\nd1\tThe ferry leaves at noon.\tHarbour\n"
            "d2\tBread rises overnight.\t\n",
            "queries.tsv": "qid\tquery\nq1\tWhen does the ferry leave?\n",
            "qrels.tsv": "corpus-id\tscore\tquery-id\nd1\t2\tq1\n",
        },
        {
            "documents.json": json.dumps(DOCUMENTS, indent=1),
            "queries.json": json.dumps({"q1": "When does the ferry leave?"}),
            "qrels.json": json.dumps({"q1": {"d1": 2}}),
        },
        {
            "corpus.json": json.dumps({d["id"]: {**d, "id": None} for d in DOCUMENTS}).replace(
                '"id": null, ', ""
            ),
            "queries.json": json.dumps([{**QUERIES[0], "relevant_docs": {"d1": 2}}]),
        },
        {
            "documents.parquet": DOCUMENTS,
            "queries.parquet": [{"query_id": "q1", "text": "When does the ferry leave?"}],
            "judgements.parquet": [{"query_id": "q1", "doc_id": "d1", "score": 2.0}],
        },
        {
            "docs.jsonl": DOCUMENTS,
            "queries.csv": 'id,text,relevant\nq1,When does the ferry leave?,"{""d1"": 2}"\n',
        },
        {
            "documents.jsonl": DOCUMENTS,
            "topics.tsv": "q1\tWhen does the ferry leave?\n",
            "qrels.tsv": "q1\tQ0\td1\t2\n",
        },
    ],
    ids=[
        "jsonl",
        "beir",
        "csv",
        "trec",
        "usual csv",
        "usual tsv",
        "json",
        "json inline",
        "parquet",
        "cell inline",
        "mixed",
    ],
)
def test_every_format_gives_the_same_dataset(
    files: dict[str, Any], home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("labelled", source=write(tmp_path / "mine", files))
    documents, queries, key = contents(dataset)
    assert isinstance(documents, list)
    flat = [(id_, title, " ".join(text.split())) for id_, title, text in documents]
    assert (flat, queries, key) == EXPECTED
    assert dataset.manifest.repairs == []


def test_the_dl19_sample_is_read_without_losing_its_first_judgement(data: Path, home: Path) -> None:
    dataset = open_dataset("labelled", source=data / "msmarco" / "dl19_sample")
    counts = dataset.manifest.counts
    # Its qrels have no header line, and 7 of its 50 queries no judgement.
    assert (counts["documents"], counts["queries"], counts["qrels"]) == (5000, 43, 4102)
    assert dataset.manifest.repairs[0].count == 7


def test_haystacks_dates_abilities_and_answers_are_kept(home: Path, tmp_path: Path) -> None:
    documents = [
        {"id": "t1", "text": "I live in Oslo.", "haystack": "ann", "timestamp": "2023-05-08T13:56",
         "session": "s1", "speaker": "Ann", "position": 0},
        {"id": "t1", "text": "I live in Rome.", "haystack": "ben", "timestamp": 1683554160},
        {"id": "t2", "text": "Hello", "haystack": ["ann", "ben"], "timestamp": "2023-05-09"},
    ]  # fmt: skip
    queries = [
        {"id": "q1", "text": "Where does she live?", "haystack": "ann", "category": "home",
         "ability": "knowledge-update", "timestamp": "2023-06-01", "answers": ["Oslo"]},
        {"id": "q2", "text": "Where does he live?", "haystack": "ben", "answers": "Rome"},
    ]  # fmt: skip
    judgements = [{"query": q, "document": "t1"} for q in ("q1", "q2")]
    files = jsonl(documents=documents, queries=queries, qrels=judgements)
    dataset = open_dataset("labelled", source=write(tmp_path / "mine", files))
    assert [dataset.haystack_rows(h).tolist() for h in range(2)] == [[0, 2], [1, 2]]
    assert dataset.qrels().document.tolist() == [0, 1]
    first = dataset.documents[0]
    assert first.timestamp == timestamp(datetime(2023, 5, 8, 13, 56)) == 1683554160
    assert (first.session, first.speaker, first.position) == ("s1", "Ann", 0)
    query = dataset.query(0)
    assert (query.ability, query.category) == (Ability.KNOWLEDGE_UPDATE, "home")
    assert (query.answers, dataset.query(1).answers) == (("Oslo",), ("Rome",))
    assert query.timestamp == timestamp(datetime(2023, 6, 1))


def test_a_document_can_have_another_date_in_each_haystack(home: Path, tmp_path: Path) -> None:
    documents = [
        {"id": "t1", "text": "Hello", "haystack": {"a": "2023-01-02", "b": "2024-01-02"}},
        {"id": "t2", "text": "Again", "haystack": "b", "timestamp": "2024-01-03"},
    ]
    queries = [{"id": f"q{h}", "text": "Who?", "haystack": h} for h in "ab"]
    judgements = [{"query": "qa", "document": "t1"}, {"query": "qb", "document": "t2"}]
    files = jsonl(documents=documents, queries=queries, qrels=judgements)
    dataset = open_dataset("labelled", source=write(tmp_path / "mine", files))
    years = [[datetime.fromtimestamp(t.as_py()).year for t in dataset.haystack_timestamps(h)]
             for h in range(2)]  # fmt: skip
    assert years == [[2023], [2024, 2024]]


@pytest.mark.parametrize("grade", ["0", 0, False, "false", "0.0"])
@pytest.mark.parametrize("name", ["relevance", "GRADE", "Rel", "label", "score", "relevant"])
def test_a_grade_of_nothing_is_none_by_whatever_name(
    name: str, grade: object, home: Path, tmp_path: Path
) -> None:
    judgements = [{"query": "q1", "document": "d1", name: grade}]
    files = {**jsonl(qrels=judgements)}
    assert contents(open_dataset("labelled", source=write(tmp_path / "a", files)))[2] == [("d1", 0)]
    del files["qrels.jsonl"]
    files["judgements.csv"] = f"query,document,{name}\nq1,d1,{grade}\n"
    assert contents(open_dataset("labelled", source=write(tmp_path / "b", files)))[2] == [("d1", 0)]


def test_what_files_carry_besides_is_passed_over_and_said_and_what_is_declared_is_not_said(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [{**d, "url": "x", "author": "y", "metadata": {"a": 1}} for d in DOCUMENTS]
    judgements = [{**JUDGEMENTS[0], "annotator": "ann"}]
    queries = [{**QUERIES[0], "source": "mail", "metadata": {}}]
    files = jsonl(documents=documents, queries=queries, qrels=judgements)
    files["labelled.toml"] = (
        "[ignore]\ndocuments = ['author']\nqueries = ['source']\nqrels = ['annotator']\n"
    )
    folder = write(tmp_path / "mine", files)
    dataset = open_dataset("labelled", source=folder)
    assert contents(dataset) == EXPECTED
    (repair,) = dataset.manifest.repairs
    assert (repair.kind, repair.examples) == (
        "unknown fields of documents: ignored",
        ["url"],
    )
    (folder / "labelled.toml").write_text("[ignore]\nqueries = ['source']\n")
    again = open_dataset("labelled", source=folder, rebuild=True)
    assert [(r.kind, r.examples) for r in again.manifest.repairs] == [
        ("unknown fields of documents: ignored", ["author", "url"]),
        ("unknown fields of qrels: ignored", ["annotator"]),
    ]
    assert "2 x unknown fields of documents: ignored" in capsys.readouterr().err


def test_columns_with_unusual_names_are_renamed(home: Path, tmp_path: Path) -> None:
    queries = [{"nr" if name == "id" else name: v for name, v in q.items()} for q in QUERIES]
    files = {**jsonl(queries=queries), "documents.csv": "key,body_md\nd1,a\nd2,b\nd3,c\n"}
    del files["documents.jsonl"]
    folder = write(tmp_path / "mine", files)
    line = r'write \[rename.queries\] and "nr" = "id" into labelled.toml'
    with pytest.raises(UsageError, match=line):
        open_dataset("labelled", source=folder)
    (folder / "labelled.toml").write_text(
        '[rename.queries]\nnr = "id"\n[rename.documents]\nkey = "id"\nbody_md = "text"\n'
    )
    dataset = open_dataset("labelled", source=folder)
    assert [*dataset.query_ids] == [query["id"] for query in QUERIES]
    assert [document.text for document in dataset.documents] == ["a", "b", "c"]


def test_judgements_of_what_is_not_there_are_counted_and_said(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = [{"query": "q1", "document": "d9"}, {"query": "q9", "document": "d1"}]
    folder = write(tmp_path / "mine", jsonl(queries=QUERIES[:1], qrels=[*JUDGEMENTS, *gone]))
    dataset = open_dataset("labelled", source=folder)
    assert dataset.query_ids == ["q1"]
    assert dataset.qrels().document_id.to_pylist() == ["d1", "d9"]
    assert dataset.qrels().document.tolist() == [0, -1]
    assert [(r.kind.partition(":")[0], r.examples) for r in dataset.manifest.repairs] == [
        ("judgements of unknown queries", ["q9"]),
        ("judgements of documents that the corpus does not hold", ["q1 d9"]),
    ]
    assert capsys.readouterr().err.count("note: ") == 2


def test_a_document_that_stands_twice_is_kept_once_and_the_rows_behind_it_move_up(
    home: Path, tmp_path: Path
) -> None:
    one, two = {"haystack": ["a", "b"]}, {"haystack": {"b": "2024-01-02"}}
    documents = [
        {"id": "t1", "text": "Hello", "timestamp": "2024-01-01", **one},
        {"id": "t1", "text": "Hello", "timestamp": "2024-01-01", **one},
        {"id": "t2", "text": "Again", **two},
        {"id": "t1", "text": "Hello", "timestamp": "2024-01-01", **one},
        {"id": "t3", "text": "Bye", "timestamp": "2024-01-03", **one},
    ]
    queries = [{"id": f"q{h}", "text": "Who?", "haystack": h} for h in "ab"]
    judgements = [{"query": "qa", "document": "t3"}, {"query": "qb", "document": "t2"}]
    files = jsonl(documents=documents, queries=queries, qrels=judgements)
    dataset = open_dataset("labelled", source=write(tmp_path / "mine", files))
    assert [one.id for one in dataset.documents] == ["t1", "t2", "t3"]
    assert [dataset.haystack_rows(h).tolist() for h in range(2)] == [[0, 2], [0, 1, 2]]
    assert dataset.qrels().document.tolist() == [2, 1]
    assert [(r.count, r.examples) for r in dataset.manifest.repairs] == [
        (2, ["documents.jsonl:2 t1", "documents.jsonl:4 t1"])
    ]
    assert not verify(dataset)[0].message.count("not")


@pytest.mark.parametrize("held", [["d1", "d2"], {"d1": 1, "d2": 1}, '["d1", "d2"]', "['d1', 'd2']"])
def test_queries_may_hold_their_judgements(held: Any, home: Path, tmp_path: Path) -> None:
    queries = [
        {**QUERIES[0], "positive_ids": held},
        {"id": "q3", "text": "?", "positive_ids": "d1"},
    ]
    files = {"documents.jsonl": DOCUMENTS, "queries.jsonl": queries}
    dataset = open_dataset("labelled", source=write(tmp_path / "mine", files))
    assert contents(dataset)[2] == [("d1", 1), ("d2", 1), ("d1", 1)]


def test_unjudged_queries_are_kept_and_recorded_unless_nothing_answers_them(
    home: Path, tmp_path: Path
) -> None:
    queries = [*QUERIES, {"id": "q3", "text": "Nobody judged this"}]
    dataset = open_dataset("labelled", source=write(tmp_path / "mine", jsonl(queries=queries)))
    assert dataset.query_ids == ["q1", "q2", "q3"]
    (repair,) = dataset.manifest.repairs
    assert (repair.kind, repair.examples) == (
        "queries without a judgement: kept, but they cannot be scored",
        ["q3"],
    )


def test_an_empty_qrels_folder_names_the_file_to_write(home: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", {"documents.jsonl": DOCUMENTS, "queries.jsonl": QUERIES})
    (folder / "qrels").mkdir()
    with pytest.raises(UsageError, match=r"qrels: contains no qrels; write .* test\.tsv with"):
        open_dataset("labelled", source=folder)


def test_splits_are_the_files_under_qrels(home: Path, tmp_path: Path) -> None:
    files = {
        "documents.jsonl": DOCUMENTS,
        "queries.jsonl": [{"id": f"q{n}", "text": "?"} for n in range(3)],
        "qrels/dev.tsv": "q0\td1\t1\n",
        "qrels/train.tsv": "q1\td2\t1\n",
    }
    folder = write(tmp_path / "mine", files)
    assert open_dataset("labelled", source=folder, split="dev").query_ids == ["q0"]
    assert open_dataset("labelled", source=folder, split="all").query_ids == ["q0", "q1"]
    with pytest.raises(UsageError, match=r"no split test; available splits: dev, train"):
        open_dataset("labelled", source=folder)
    for stray in ("README.md", "train.tsv~", "dev.tsv.bak", ".DS_Store", "notes"):
        (folder / "qrels" / stray).write_text("no qrels\n")
    assert open_dataset("labelled", source=folder, split="all").query_ids == ["q0", "q1"]
    (folder / "qrels" / "test.qrels").write_text("q2 0 d1 1\n")
    assert open_dataset("labelled", source=folder).query_ids == ["q2"]
    (folder / "qrels" / "test.qrels").unlink()
    (folder / "qrels" / "dev.csv").write_text("query,document\nq2,d1\n")
    with pytest.raises(UsageError, match=r"dev\.tsv: dev\.csv is that split too; leave one"):
        open_dataset("labelled", source=folder, split="all")
    for stray in ("README.md", "train.tsv~", "dev.tsv.bak", ".DS_Store", "notes", "dev.csv"):
        (folder / "qrels" / stray).unlink()
    (folder / "qrels" / "dev.tsv").rename(folder / "qrels.txt")
    (folder / "qrels" / "train.tsv").unlink()
    (folder / "qrels").rmdir()
    with pytest.raises(UsageError, match="has no splits, so no 'dev'"):
        open_dataset("labelled", source=folder, split="dev")


CSV = {
    "documents.csv": "id,text\nd1,a\n",
    "queries.csv": "id,text\nq1,a\n",
    "judgements.csv": "query,document\nq1,d1\n",
}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (jsonl(qrels=[{"query": "q1", "document": "d9"}]),
         "qrels.jsonl:1: neither the document 'd9' nor any other judged document is"),
        (jsonl(qrels=[{"query": "q9", "document": "d1"}]), "qrels.jsonl: judges none of the quer"),
        (jsonl(qrels=[{"query": "q1", "document": "d1", "grade": 1.5}]),
         "qrels.jsonl:1: the grade '1.5' is not an integer"),
        (jsonl(qrels=[*JUDGEMENTS, {"query": "q1", "document": "d1", "grade": 1}]),
         "qrels.jsonl:2: the document 'd1' has grade 1 here and 2 on line 1"),
        (jsonl(qrels=[{"query": "q1"}]), "qrels.jsonl:1: no field 'document' (or"),
        (jsonl(qrels=[]), "qrels.jsonl: contains no qrels"),
        (jsonl(documents=[*DOCUMENTS, {**DOCUMENTS[0], "text": "other"}]),
         "documents.jsonl:3: the haystack and document id ('corpus', 'd1') is already used"),
        (jsonl(documents=[]), "documents.jsonl: contains no documents"),
        (jsonl(documents=[{**DOCUMENTS[0], "timestamp": "last May"}]),
         "documents.jsonl:1: the timestamp 'last May' is neither ISO 8601"),
        (jsonl(documents=[{**DOCUMENTS[0], "haystack": 3}]), "documents.jsonl:1: the haystack 3"),
        (jsonl(documents=[{"id": "d1", "text": "x", "haystack": {"a": 5}},
                          {"id": "d2", "text": "y", "haystack": "a"}]),
         "in the haystack 'a' some documents have a time, but 1 have none"),
        (jsonl(documents='{"id": "d1", "text": "The fer'), "documents.jsonl:1: not valid JSON"),
        (jsonl(queries=[{**QUERIES[0], "ability": "magic"}]),
         "queries.jsonl:1: unknown ability 'magic'; choose one of lookup, multi-hop"),
        (jsonl(queries=[{**QUERIES[0], "haystack": "nowhere"}]),
         "no document is in the haystack 'nowhere' of the query 'q1'"),
        (jsonl(queries=[QUERIES[0], QUERIES[0]]), "queries.jsonl:2: the query id 'q1' is already"),
        (jsonl(queries=[]), "queries.jsonl: contains no queries"),
        ({**CSV, "documents.csv": "id,txt\nd1,a\n"},
         "documents.csv:1: no field 'text' (or contents, content, body, passage, page_content); it "
         "has id, txt; did you mean 'txt' for it?"),
        ({**CSV, "documents.csv": "id,_id,text\nd1,d1,a\n"}, "csv:1: 'id' and '_id' both mean id"),
        ({**CSV, "documents.csv": "id,text,haystak\nd1,a,b\n"},
         "documents.csv:1: unknown field 'haystak'; did you mean haystack? (to ignore a field"),
        ({**CSV, "queries.csv": "id,text,abilty\nq1,a,temporal\n"},
         "queries.csv:1: unknown field 'abilty'; did you mean ability? (to ignore a field, add it "
         "to labelled.toml under [ignore] queries)"),
        ({**CSV, "judgements.csv": "query,document,gain\nq1,d1,0\n"},
         "judgements.csv:2: 'gain' holds numbers, and there is no grade: call it grade"),
        ({**CSV, "judgements.csv": "query,document,grad\nq1,d1,0\n"},
         "judgements.csv:1: unknown field 'grad'; did you mean grade?"),
        ({**CSV, "judgements.csv": "query,document,grade,grade\nq1,d1,0,1\n"},
         "judgements.csv:1: 'grade' occurs 2 times; keep one"),
        ({**CSV, "judgements.csv": "query,document,grade,Relevance\nq1,d1,0,1\n"},
         "judgements.csv:1: 'grade' and 'Relevance' both mean grade; take one out"),
        ({**CSV, "judgements.csv": "query,document,grade\nq1,d1,\n"},
         "judgements.csv:2: the grade is empty; give a whole number, 0 for not relevant"),
        (jsonl(qrels=[{"query": "q1", "document": "d1", "grade": None}]),
         "qrels.jsonl:1: the grade is empty"),
        (jsonl(qrels='{"query": "q1", "document": "d1", "grade": 0, "grade": 1}'),
         "qrels.jsonl:1: duplicate field 'grade'"),
        (jsonl(qrels=[{"query": "q1", "document": "d1", "grade": 10**12}]),
         "qrels.jsonl:1: the grade 1000000000000 is beyond 32 bits"),
        ({"documents.jsonl": DOCUMENTS, "queries.json": "[{]", "qrels.txt": "q1 0 d1 1\n"},
         "queries.json: not valid JSON"),
        ({"documents.jsonl": DOCUMENTS, "queries.json": '[{"id": "q1", "text": "a"}, 3]',
          "qrels.txt": "q1 0 d1 1\n"}, "queries.json, record 2: not an object"),
        ({"documents.jsonl": DOCUMENTS, "queries.jsonl": [{**QUERIES[0], "relevant": ["d9"]}]},
         "queries.jsonl:1: neither the document 'd9' nor"),
        (jsonl(queries=[{**QUERIES[0], "relevant": ["d1"]}]),
         "queries.jsonl:1: the document 'd1' has grade 1 here and 2 on line 1 of"),
        (jsonl(queries=[{**QUERIES[0], "relevant": True}]), "queries.jsonl:1: relevant is True:"),
        (jsonl(documents=[{**DOCUMENTS[0], "timestamp": 1683554160000}]),
         "documents.jsonl:1: the timestamp 1683554160000 is too large for seconds"),
        ({**CSV, "labelled.toml": "[ignored]\n"}, "toml: ignored: unknown field; did you"),
        ({**CSV, "labelled.toml": "[ignore]\nquery = []\n"}, "[ignore] has no 'query'; did you"),
        ({**CSV, "labelled.toml": '[rename.queries]\nnr = "idd"\n'}, "'nr': no field 'idd'"),
        ({**CSV, "documents.csv": "id,text\nd1,a,b\n"}, "documents.csv:2: 3 cells, but the head"),
        ({**CSV, "documents.csv": 'id,text\nd0,"two\nlines"\nd1,"a\n'},
         "documents.csv:4: not valid CSV"),
        ({**CSV, "documents.csv": b"id,text\nd1,caf\xe9\n"}, "documents.csv:2: byte 0xe9 is not"),
        ({**CSV, "documents.csv": ""}, "documents.csv: empty; a header line with id, text"),
        ({**CSV, "judgements.csv": "query,document,grade\nq1,d1,high\n"},
         "judgements.csv:2: the grade 'high' is not an integer"),
        ({"documents.jsonl": DOCUMENTS, "queries.jsonl": QUERIES}, "no qrels file"),
        ({**CSV, **jsonl()}, "several files could be the documents: documents.csv, documents.json"),
        ({"notes.txt": "x"}, "no file with the documents; accepted are documents, docs or corpus"),
        ({**jsonl(), "documents.jsonl": b"", "topics.txt": "q1 no tab\n"},
         "several files could be the queries"),
        ({"documents.trec": "<DOC>\n<TEXT>x</TEXT>\n</DOC>\n", "topics.txt": "q1\tx\n",
          "qrels.txt": "q1 0 d1 1\n"}, "documents.trec:1: this <DOC> has no <DOCNO>"),
        ({"documents.trec": "\n<DOC>\n<DOCNO>d1</DOCNO>\n", "topics.txt": "q1\tx\n",
          "qrels.txt": "q1 0 d1 1\n"}, "documents.trec:2: <doc> without </doc>"),
        ({"documents.tsv": "d1\tx\n", "topics.txt": "<top>\n<num> 5\n</top>\n",
          "qrels.txt": "5 0 d1 1\n"}, "topics.txt:1: the topic '5' has no <title>"),
        ({"documents.tsv": "d1\tx\n", "topics.txt": "q1 no tab\n", "qrels.txt": "q1 0 d1 1\n"},
         "topics.txt:1: 1 of 2 columns"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line_and_nothing_is_left(
    files: dict[str, Any], says: str, home: Path, tmp_path: Path
) -> None:
    folder = write(tmp_path / "mine", files)
    with pytest.raises(UsageError) as error:
        open_dataset("labelled", source=folder)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(home.rglob("*.arrow"))


def test_without_a_source_it_asks_for_one(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="add --source PATH"):
        open_dataset("labelled")
    (tmp_path / "file.jsonl").write_text("")
    with pytest.raises(UsageError, match="not a folder; pass one with"):
        open_dataset("labelled", source=tmp_path / "file.jsonl")
