"""Retrievers see who may read a document, and who asks, by opaque names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from serving import Message, Reply, serving

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.retrievers import calls
from harness.retrievers.contract import Question
from harness.retrievers.registry import RetrieverSpec
from harness.runfiles.readers import read_rankings
from harness.runs.blinding import BlindedCorpus
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run
from harness.runs.settings import Settings

SYSTEMS = """
def words(text):
    return {word.strip("?.,!").lower() for word in text.split()}

class Plain:
    batch_size = 50
    def index(self, corpus):
        self.documents = list(corpus)
    def search(self, queries, k):
        return [self.best(query, k) for query in queries]
    def best(self, query, k):
        asked = words(query.text)
        shown = [d for d in self.documents if self.shown(query, d)]
        scores = {d.id: len(asked & words(d.content)) for d in shown}
        return sorted(scores.items(), key=lambda one: -one[1])[:k]
    def shown(self, query, document):
        return True

class Reads(Plain):
    def shown(self, query, document):
        return query.may_read(document)

class Takes(Plain):
    def search(self, queries, k, *, user_id=None):
        assert {query.user_id for query in queries} == {user_id} != {None}
        self.allowed = {None, user_id, *queries[0].groups}
        assert all(query.groups == queries[0].groups for query in queries)
        return super().search(queries, k)
    def shown(self, query, document):
        return document.user_id in self.allowed

class TakesLater(Takes):
    async def search(self, queries, k, user_id=None):
        return Takes.search(self, queries, k, user_id=user_id)
"""


@pytest.fixture
def scopes(home: Path) -> Dataset:
    return open_dataset("scopes")


@pytest.fixture
def systems(tmp_path: Path) -> str:
    path = tmp_path / "systems.py"
    path.write_text(SYSTEMS)
    return str(path)


def returned(
    dataset: Dataset, spec: RetrieverSpec, out: Path, **settings: Any
) -> list[tuple[str, str]]:
    """Query and document of each returned document."""
    folder = run(dataset, spec, Settings(k=10, **settings), out=out)
    assert RunFolder(folder).record.queries.failed == 0
    found = read_rankings(RunFolder(folder).rankings)
    ids = [found.query_ids[query] for query in found.query.tolist()]
    return list(zip(ids, found.document.to_pylist(), strict=True))


def foreign(dataset: Dataset, pairs: list[tuple[str, str]]) -> int:
    queries = {id_: row for row, id_ in enumerate(dataset.query_ids)}
    count = 0
    for id_, document in pairs:
        query = dataset.query(queries[id_])
        row = dataset.rows_by_id(int(dataset.query_haystack[queries[id_]]))[document]
        owner = dataset.documents[row].user_id
        count += owner not in (None, query.user_id, *query.groups)
    return count


@pytest.mark.slow
@pytest.mark.extensions
def test_a_retriever_that_reads_user_ids_returns_no_document_of_others(
    scopes: Dataset, systems: str, tmp_path: Path
) -> None:
    plain = returned(scopes, RetrieverSpec(f"{systems}:Plain"), tmp_path / "plain")
    assert foreign(scopes, plain) > len(plain) / 3
    reads = returned(scopes, RetrieverSpec(f"{systems}:Reads"), tmp_path / "reads")
    assert len(reads) == 10 * scopes.n_queries
    assert foreign(scopes, reads) == 0
    for name, settings in (
        ("Takes", {}),
        ("TakesLater", {"workers": 2}),
        ("Takes", {"isolate": True}),
    ):
        spec = RetrieverSpec(f"{systems}:{name}")
        assert returned(scopes, spec, tmp_path / f"{name}{settings}", **settings) == reads


def test_names_of_users_are_opaque_and_those_of_one_haystack(scopes: Dataset) -> None:
    seen: set[str] = set()
    for haystack in range(5):
        blinded = BlindedCorpus(scopes, haystack, 0)
        users = {one for one in blinded.corpus.user_ids if one}
        assert len(users) == 6
        assert not users & {*seen, *scopes.scopes.names}  # type: ignore[union-attr]
        seen |= users
        for position, row in enumerate(blinded.rows.tolist()):
            assert (blinded.corpus[position].user_id is None) == (
                scopes.documents[row].user_id is None
            )
        (query, *_) = [i for i, h in enumerate(scopes.query_haystack.tolist()) if h == haystack]
        question = blinded.question(query)
        assert {question.user_id, *question.groups} <= users


def test_users_are_part_of_what_identifies_an_index(scopes: Dataset) -> None:
    one, other = BlindedCorpus(scopes, 0, 0).corpus, BlindedCorpus(scopes, 0, 0).corpus
    other._users = None
    assert one.key != other.key
    assert one.fingerprint() != other.fingerprint()


def test_a_dataset_without_users_is_shown_as_before(sample: Dataset) -> None:
    blinded = BlindedCorpus(sample, 0, 0)
    assert set(blinded.corpus.user_ids) == {None}
    assert blinded.question(0) == Question(blinded.question(0).text, blinded.question(0).timestamp)

    class Takes:
        def search(self, queries: list[Question], k: int, user_id: str = "nobody") -> list[Any]:
            assert user_id == "nobody"
            return [[] for _ in queries]

    retriever: Any = Takes()
    assert calls.search(retriever, [blinded.question(0)], 3) == [[]]


def test_services_receive_the_user_of_documents_and_questions(
    scopes: Dataset, tmp_path: Path
) -> None:
    def answer(message: Message) -> Reply:
        results = [{"hits": []} for _ in message.get("queries", ())]
        return 200, {"concurrent_haystacks": True, "results": results}

    with serving(answer) as (url, told):
        returned(scopes, RetrieverSpec("http", {"url": url}), tmp_path, allow_empty=True)
    documents = [one for m in told if m["type"] == "index" for one in m["documents"]]
    queries = [one for m in told if m["type"] == "search" for one in m["queries"]]
    assert (len(documents), len(queries)) == (255, 230)
    assert sum("user_id" in one for one in documents) == 240
    owners = {one["user_id"] for one in documents if "user_id" in one}
    assert all(one["user_id"] in owners and set(one["groups"]) <= owners for one in queries)


def test_services_without_users_receive_the_same_messages_as_before(
    sample: Dataset, tmp_path: Path
) -> None:
    def answer(message: Message) -> Reply:
        results = [{"hits": []} for _ in message.get("queries", ())]
        return 200, {"concurrent_haystacks": True, "results": results}

    with serving(answer) as (url, told):
        returned(sample, RetrieverSpec("http", {"url": url}), tmp_path, allow_empty=True)
    assert "user_id" not in json.dumps(told)
    assert "groups" not in json.dumps(told)
