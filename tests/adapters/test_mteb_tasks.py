"""MTEB's layout: as it stands on the hub, in a folder, in subsets; and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback
from mteb_files import SMALL, Row, write

from harness.datasets.adapters.mteb import MtebAdapter, tasks
from harness.datasets.export import export
from harness.datasets.reader import Dataset
from harness.datasets.registry import find, open_dataset
from harness.errors import RunError, UsageError
from harness.schema import Ability

REPO, COMMIT = "someone/notes", "0123456789abcdef0123456789abcdef01234567"


def subset(name: str, corpus: list[Row], queries: list[Row], **more: list[Row]) -> dict[str, Any]:
    """Tables of a subset; of each query the first document of its list or corpus is relevant."""
    lists = {row["query-id"]: row["corpus-ids"] for row in more.get("top_ranked", [])}
    first = {q["id"]: lists.get(q["id"], [corpus[0]["id"]])[0] for q in queries}
    qrels = [{"query-id": q, "corpus-id": d, "score": 1} for q, d in first.items()]
    tables = {"corpus": corpus, "queries": queries, "qrels": qrels, **more}
    return {f"{name}-{table}": rows for table, rows in tables.items()}


def docs(**texts: str) -> list[Row]:
    return [{"id": id_, "title": "", "text": text} for id_, text in texts.items()]


def asks(*ids: str) -> list[Row]:
    return [{"id": id_, "text": f"about {id_}?"} for id_ in ids]


def key(dataset: Dataset) -> set[tuple[str, str, int]]:
    found = dataset.qrels()
    columns = (found.query.tolist(), found.document_id.to_pylist(), found.grade.tolist())
    return {(dataset.query_ids[q], d, g) for q, d, g in zip(*columns, strict=True)}


def answered_from(dataset: Dataset, query: str) -> list[str]:
    haystack = int(dataset.query_haystack[dataset.query_ids.index(query)])
    ids: list[str] = dataset.documents.column("id", dataset.haystack_rows(haystack)).to_pylist()
    return ids


def repairs(dataset: Dataset) -> dict[str, list[str]]:
    return {one.kind: one.examples for one in dataset.manifest.repairs}


def refused(folder: Path, name: str = "mteb/mine", **choices: str) -> str:
    with pytest.raises(UsageError) as caught:
        open_dataset(name, source=folder, **choices)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_repository_becomes_documents_queries_and_judgements(
    tmp_path: Path, home: Path, kind: str
) -> None:
    dataset = open_dataset("mteb/mine", source=write(tmp_path / "r", SMALL, kind))
    assert [(d.id, d.title, d.text) for d in dataset.documents] == [
        (row["_id"], row["title"], row["text"]) for row in SMALL["corpus"]
    ]
    assert dataset.query_ids == ["q1", "q2"]
    assert key(dataset) == {("q1", "d1", 2), ("q2", "d2", 1), ("q2", "d1", 0)}
    assert repairs(dataset) == {"queries without a judgement: excluded": ["q3"]}
    assert dataset.manifest.k == 1000
    assert open_dataset("mteb/mine").fingerprint == dataset.fingerprint


def test_without_a_card_the_files_are_taken_by_their_names(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "qrels").mkdir(parents=True)
    for name, table in (("corpus", "corpus"), ("queries", "queries"), ("qrels/test", "default")):
        text = "".join(json.dumps(row) + "\n" for row in SMALL[table])
        (folder / f"{name}.jsonl").write_text(text)
    with_card = open_dataset("mteb/mine", source=write(tmp_path / "r", SMALL))
    assert open_dataset("mteb/plain", source=folder).fingerprint == with_card.fingerprint


@pytest.fixture
def hub(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with Loopback() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        yield hub


def files_of(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_task_is_downloaded_at_its_commit_and_only_what_is_read_of_it(
    tmp_path: Path, hub: Loopback
) -> None:
    folder = write(tmp_path / "r", {**SMALL, "other": SMALL["corpus"]})
    hub.put_dataset(REPO, COMMIT, files_of(folder))
    dataset = open_dataset(f"mteb/{REPO}@{COMMIT}")
    assert not any("other" in request.path for request in hub.requests)
    n = len(hub.requests)
    assert open_dataset(f"mteb/{REPO}@{COMMIT}").fingerprint == dataset.fingerprint
    assert len(hub.requests) == n
    statuses = {Path(raw.name).name: raw.status for raw in dataset.manifest.raw}
    assert statuses.pop("README.md") == "revision"
    assert set(statuses.values()) == {"pinned"}
    assert dataset.manifest.official
    assert key(dataset) == key(open_dataset("mteb/mine", source=folder))


def test_what_the_hub_does_not_give_is_one_line(tmp_path: Path, hub: Loopback) -> None:
    with pytest.raises(RunError, match=r"someone/none/resolve[^\n]*HTTP 401 [^\n]*--source[^\n]*$"):
        open_dataset(f"mteb/someone/none@{COMMIT}")
    hub.put_dataset(REPO, COMMIT, files_of(write(tmp_path / "r", SMALL)))
    hub.put_dataset("someone/else", COMMIT, {"README.md": b"", "corpus/../../out": b"x"})
    with pytest.raises(RunError, match=r"'corpus/../../out', a path that climbs out of it"):
        open_dataset(f"mteb/someone/else@{COMMIT}")
    hub.files.clear()  # the list of its files
    with pytest.raises(RunError, match=r"does not list the files of [^\n]*notes [^\n]*--source"):
        open_dataset(f"mteb/{REPO}@{COMMIT}")


def test_a_task_of_lmeb_comes_from_its_pinned_commit_with_abilities(
    tmp_path: Path, hub: Loopback
) -> None:
    task = tasks.find("LMEB-LoCoMo")
    assert task is not None
    tables: dict[str, list[Row]] = {}
    for name in task.subsets:
        lists = [{"query-id": f"{name}_q", "corpus-ids": ["b", "a"]}]
        tables |= subset(name, docs(a="tea", b="rye", c="jam"), asks(f"{name}_q"), top_ranked=lists)
    hub.put_dataset(task.repository, task.revision, files_of(write(tmp_path / "r", tables)))
    dataset = open_dataset("mteb/LMEB-LoCoMo")
    assert (dataset.name, dataset.manifest.licence) == ("mteb/LoCoMo", "cc-by-nc-4.0")
    assert dataset.manifest.official
    assert dict(zip(dataset.categories.tolist(), dataset.abilities.tolist(), strict=True)) == {
        "single_hop": "lookup",
        "multi_hop": "multi-hop",
        "temporal_reasoning": "temporal",
        "open_domain": "lookup",
        "adversarial": "abstention",
    }
    assert (len(dataset.documents), len(dataset.haystack_ids)) == (3, 1)
    hub.requests.clear()
    alone = open_dataset("mteb/LoCoMo:multi_hop")
    assert alone.query_ids == ["multi_hop_q"]
    assert not any("/lfs/" in request.path for request in hub.requests)  # downloaded with the whole


def test_a_subset_is_a_category_and_what_subsets_share_is_there_once(
    tmp_path: Path, home: Path
) -> None:
    """The same document under the same id is one row; another text under it is another document."""
    tables = {
        **subset("single_hop", docs(a="tea", b="rye"), asks("q1", "q2")),
        **subset("multi_hop", docs(b="rye", a="tea", c="jam"), asks("q3")),
        **subset("adversarial", docs(a="coffee"), asks("q1")),
    }
    folder = write(tmp_path / "r", tables)
    dataset = open_dataset("mteb/mine", source=folder)
    assert [(d.id, d.text) for d in dataset.documents] == [
        ("a", "tea"),
        ("b", "rye"),
        ("c", "jam"),
        ("a", "coffee"),
    ]
    # An id that two subsets ask under is told apart; the others stay as they are.
    assert dataset.query_ids == ["single_hop/q1", "q2", "q3", "adversarial/q1"]
    assert dataset.categories.tolist() == ["single_hop", "single_hop", "multi_hop", "adversarial"]
    assert answered_from(dataset, "q2") == ["a", "b"]
    assert answered_from(dataset, "q3") == ["a", "b", "c"]
    assert dataset.qrels().document.tolist() == [0, 0, 1, 3]
    assert dataset.manifest.mean_over == "categories"
    alone = open_dataset("mteb/mine:multi_hop", source=folder)
    assert (alone.query_ids, len(alone.documents)) == (["q3"], 3)
    assert "no config 'none-corpus'" in refused(folder, "mteb/mine:none")


def test_each_query_is_answered_from_its_list_and_equal_lists_are_one_haystack(
    tmp_path: Path, home: Path
) -> None:
    lists = [
        {"query-id": "q1", "corpus-ids": ["b", "a"]},
        {"query-id": "q2", "corpus-ids": ["a", "b", "a"]},
        {"query-id": "q3", "corpus-ids": ["c", "gone"]},
    ]
    corpus = docs(a="tea", b="rye", c="jam")
    tables = subset("s", corpus, asks("q1", "q2", "q3"), top_ranked=lists)
    tables["s-qrels"] += [
        {"query-id": "q3", "corpus-id": "a", "score": 1},
        {"query-id": "q3", "corpus-id": "nowhere", "score": 1},
        {"query-id": "q9", "corpus-id": "a", "score": 1},
    ]
    folder = write(tmp_path / "r", tables)
    dataset = open_dataset("mteb/mine", source=folder)
    assert answered_from(dataset, "q1") == answered_from(dataset, "q2") == ["a", "b"]
    assert answered_from(dataset, "q3") == ["c"]
    assert dataset.haystack_ids == ["s/q1", "s/q3"]
    found = repairs(dataset)
    assert found["documents of top_ranked missing from the corpus: excluded"] == ["gone"]
    assert found["duplicate documents in a list of top_ranked: merged"] == ["q2"]
    assert found["judgements of unknown queries: excluded"] == ["q9"]
    (out_of_reach,) = (of for kind, of in found.items() if "cannot be found" in kind)
    assert out_of_reach == ["q3 a", "q3 nowhere"]
    tables["s-top_ranked"] = lists[:2]
    assert "no documents for the query 'q3'" in refused(write(tmp_path / "short", tables))


def test_an_instruction_stands_behind_the_text_as_mteb_gives_it(tmp_path: Path, home: Path) -> None:
    told = [{"query-id": f"q{i}", "instruction": f"Say {i}."} for i in (1, 2, 3)]
    folder = write(tmp_path / "r", {**SMALL, "instruction": told})
    dataset = open_dataset("mteb/mine", source=folder)
    assert dataset.query(0).text == "When does the ferry leave? Say 1."
    folder = write(tmp_path / "less", {**SMALL, "instruction": told[1:]})
    assert "the query 'q1' has no row in instruction" in refused(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source"),
    [("locomo", "locomo/locomo10.json"), ("beir/scifact", "beir/scifact")],
)
def test_what_is_exported_comes_back_with_its_documents_queries_and_judgements(
    data: Path, home: Path, tmp_path: Path, name: str, source: str
) -> None:
    """Ids that stand in several conversations are `haystack/id`; others stay."""
    dataset = open_dataset(name, source=data / source)
    export(dataset, tmp_path / "out", "mteb")
    back = open_dataset("mteb/mine", source=tmp_path / "out")
    assert [d.text for d in back.documents] == [d.text for d in dataset.documents]
    ids = [d.id for d in back.documents]
    assert len(set(ids)) == len(ids)
    if name == "locomo":
        assert ids[0] == "conv-26/D1:1"
        assert len(back.haystack_ids) == 10
    else:
        assert ids == [d.id for d in dataset.documents]
    judged = dataset.qrels()
    asked = [dataset.query_ids[q] for q in dict.fromkeys(judged.query.tolist())]
    assert back.query_ids == asked
    again = back.qrels()
    assert again.grade.tolist() == judged.grade.tolist()
    assert again.document.tolist() == judged.document.tolist()
    for row, id_ in enumerate(back.query_ids):
        before = dataset.query_ids.index(id_)
        assert back.query(row).text == dataset.query(before).text
        rows = back.haystack_rows(int(back.query_haystack[row]))
        assert set(rows) == set(dataset.haystack_rows(int(dataset.query_haystack[before])))


def test_a_table_that_is_not_as_it_must_be_is_one_line(tmp_path: Path, home: Path) -> None:
    def folder(name: str, kind: str = "parquet", **tables: list[Row]) -> Path:
        return write(tmp_path / name, {**SMALL, **tables}, kind)

    texts = [{"_id": "d1", "title": "", "body": "x"}]
    assert "no column 'text' (available: _id, title, body)" in refused(folder("a", corpus=texts))
    twice = [*SMALL["corpus"], SMALL["corpus"][0]]
    assert "1 duplicate document ids, first 'd1'" in refused(folder("b", corpus=twice))
    mixed = [{"_id": "d1", "text": "x"}, {"_id": 2, "title": "Two", "text": "y"}]
    dataset = open_dataset("mteb/mine", source=folder("g", "jsonl", corpus=mixed))
    assert [(d.id, d.title) for d in dataset.documents] == [("d1", ""), ("2", "Two")]
    half = [{"query-id": "q1", "corpus-id": "d1", "score": 0.5}]
    for kind, said in (
        ("parquet", "values that are not int32"),
        ("jsonl", "'score' must be int32"),
    ):
        assert said in refused(folder(f"c-{kind}", kind, default=half))
    empty = [{"_id": "d1", "title": "", "text": "x"}, {"_id": "d2", "title": "", "text": None}]
    for kind, place in (("parquet", "test-00000-of-00001.parquet, row 2"), ("jsonl", ".jsonl:2")):
        assert f"{place}: the field 'text' is missing" in refused(
            folder(f"d-{kind}", kind, corpus=empty)
        )
    turns = [{"_id": "q1", "text": [{"role": "user", "content": "x"}]}]
    assert "'text' has type list" in refused(folder("e", queries=turns))
    strange = [{"query-id": "q8", "corpus-id": "d1", "score": 1}]
    assert "judges none of the queries" in refused(folder("f", default=strange))


def test_a_repository_that_is_not_whole_is_one_line(tmp_path: Path, home: Path) -> None:
    folder = write(tmp_path / "r", SMALL)
    table = folder / "corpus" / "test-00000-of-00001.parquet"
    content = table.read_bytes()
    table.write_bytes(content[:-9])
    assert "not a Parquet file, or truncated" in refused(folder)
    table.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    assert "`git lfs pull`" in refused(folder)
    table.unlink()
    assert "corpus has no file for split 'test'" in refused(folder)
    assert "no config 'corpus'" in refused(write(tmp_path / "s", {"default": SMALL["default"]}))
    assert "not a folder; pass the folder" in refused(folder / "README.md")
    (folder / "README.md").write_text("---\nconfigs: [\n---\n")
    assert "head is not YAML" in refused(folder)


def test_judgements_are_read_from_the_requested_split_or_the_one_there_is_is_named(
    tmp_path: Path, home: Path
) -> None:
    folder = write(tmp_path / "r", SMALL, split="train")
    assert "has judgements of the split train only; add --split train" in refused(folder)
    assert open_dataset("mteb/mine", source=folder, split="train").n_queries == 2
    card = (folder / "README.md").read_text()
    before = "  - split: train\n    path: default/train-*\n"
    (folder / "README.md").write_text(
        card.replace(before, before + before.replace("split: train", "split: dev"))
    )
    assert open_dataset("mteb/mine", source=folder, split="dev", rebuild=True).n_queries == 2
    assert "default has no split 'test' (available: train, dev)" in refused(folder)


def test_names_are_those_of_mteb_and_of_lmeb() -> None:
    for name, meant in (
        ("LoCoMo", "LoCoMo"),
        ("LMEB-LoCoMo", "LoCoMo"),
        ("LMEB-SciFact", "LMEB_SciFact"),
        ("LMEB-MLDR", "LMEBMLDR"),
        ("LMEB-LoCoMo:multi_hop", "LoCoMo:multi_hop"),
    ):
        assert find(f"mteb/{name}")[2] == f"mteb/{meant}"
    assert len(list(MtebAdapter().variants())) == 22
    task = tasks.find("LongMemEval")
    assert task is not None
    assert task.abilities == {
        "knowledge_update": Ability.KNOWLEDGE_UPDATE,
        "multi_session": Ability.MULTI_HOP,
        "temporal_reasoning": Ability.TEMPORAL,
    }
    for one in tasks.listed():
        assert {*one.abilities} <= {*one.subsets}
        assert len(one.revision) == 40
    for wrong, said in (
        ("LoCoMo:multihop", "no subset 'multihop'; did you mean multi_hop"),
        ("owner/name", "needs a commit .* use mteb/OWNER/NAME@COMMIT"),
        ("", "unknown dataset 'mteb'"),
    ):
        with pytest.raises(UsageError, match=said):
            find(f"mteb/{wrong}".rstrip("/"))


def test_a_name_that_nobody_knows_says_what_it_could_be(home: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown task.*did you mean LoCoMo\?.*--source"):
        open_dataset("mteb/LoCoMoo")


@pytest.mark.slow
def test_a_corpus_of_many_batches_and_lists_is_read_whole(tmp_path: Path, home: Path) -> None:
    corpus = [{"id": f"d{i}", "title": "", "text": f"text {i}"} for i in range(50_000)]
    lists = [
        {"query-id": f"q{i}", "corpus-ids": [f"d{d}" for d in range(i * 10, i * 10 + 90)]}
        for i in range(4_000)
    ]
    tables = subset("s", corpus, asks(*(row["query-id"] for row in lists)), top_ranked=lists)
    dataset = open_dataset("mteb/mine", source=write(tmp_path / "r", tables))
    assert dataset.manifest.counts["haystacks"] == 4_000
    assert answered_from(dataset, "q3999") == [f"d{d}" for d in range(39_990, 40_080)]
