"""PrecisionMemBench from small files in the authors' layout, against a port of their scorer."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.datasets.reader import ChangedRow, Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runs.folder.score_folder import score_run
from harness.schema import Ability


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def belief(id_: str, scope: str, **more: Any) -> dict[str, Any]:
    return {
        "_id": id_,
        "user_id": "test-user",
        "type": "preference",
        "canonical_name": f"name_{id_}",
        "aliases": ["alias", ""],
        "content": f"Content of {id_}.",
        "why_it_matters": "Reason.",
        "scope": [scope],
        "pinned": False,
        "resolved_at": None,
        "superseded_by": None,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-02-01T00:00:00Z",
        **more,
    }


BELIEFS = [
    belief("db", "domain:code", pinned=True, created_at="2026-03-01T00:00:00Z"),
    belief("db-old", "domain:code", superseded_by="db"),
    belief("redis", "domain:code"),
    belief("k8s", "domain:code"),
    belief("mara", "domain:writing"),
    belief("theirs", "domain:code", user_id="other-user", pinned=True),
    belief("done", "domain:code", type="open_question", resolved_at="2026-04-01T00:00:00Z"),
]


def case(id_: str, category: str, expect: dict[str, Any], **more: Any) -> dict[str, Any]:
    about = {"caseId": id_, "category": category, "description": "-", "scope": ["domain:code"]}
    return {**about, "query": f"query {id_}", "expect": expect, **more}


CASES = [
    case("one", "Alias resolution", {"relevantBeliefs": {"shouldOnlyInclude": ["k8s"]}}),
    case("both", "Relation expansion", {
        "pinnedFacts": {"mustInclude": ["db"], "mustExclude": ["done"]},
        "relevantBeliefs": {"shouldOnlyInclude": ["k8s", "redis"]},
    }),
    case("listed", "Counter-signal retrieval", {
        "relevantBeliefs": {"mustInclude": ["db", "redis"], "mustExclude": ["mara"]},
    }),
    case("empty", "Scope disambiguation", {"relevantBeliefs": {"shouldOnlyInclude": []}},
         scope=["domain:code", "domain:writing"]),
    case("isolated", "Cross-user isolation", {"relevantBeliefs": {"mustExclude": ["theirs"]}}),
    case("new", "Cold start behavior", {"personaPrelude": {"isNull": True}}, userId="nobody"),
]  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "clone" / "fixtures").mkdir(parents=True)
    write_json(tmp_path / "clone/fixtures/beliefs.seed.json", BELIEFS)
    write_json(tmp_path / "clone/fixtures/retrieval.cases.json", CASES)
    return tmp_path / "clone"


@pytest.fixture
def small(home: Path, source: Path) -> Dataset:
    return open_dataset("precisionmembench", source=source)


def grades(dataset: Dataset, query: str, qrels_set: str = "default") -> dict[str, int]:
    judged = dataset.qrels(qrels_set)
    mine = judged.query == dataset.query_ids.index(query)
    ids = judged.document_id.filter(mine.tolist()).to_pylist()
    return dict(zip(ids, judged.grade[mine].tolist(), strict=True))


def test_exclusions_are_judged_and_evidence_is_that_of_the_official_scorer(small: Dataset) -> None:
    rest = dict.fromkeys(("db-old", "mara", "theirs", "done"), 0)  # db is pinned: not judged
    assert grades(small, "one") == {"k8s": 1, "redis": 0, **rest}
    assert grades(small, "both") == {"k8s": 1, "redis": 1, **rest}
    assert grades(small, "listed") == {"redis": 1, "mara": 0}
    assert grades(small, "isolated") == {"theirs": 0}
    assert grades(small, "new") == {}
    official = {q: grades(small, q, "precisionmembench-official") for q in small.query_ids}
    assert official["both"] == {"k8s": 1, "redis": 1}
    assert official["listed"] == {"redis": 1}
    assert [q for q, found in official.items() if not found] == ["empty", "isolated", "new"]
    abilities = dict(zip(small.query_ids, small.abilities.tolist(), strict=True))
    assert abilities == {
        "one": Ability.LOOKUP,
        "both": Ability.MULTI_HOP,
        "listed": Ability.KNOWLEDGE_UPDATE,
        **dict.fromkeys(("empty", "isolated", "new"), Ability.ABSTENTION),
    }


def test_a_case_may_read_the_beliefs_of_its_user_in_its_scopes(small: Dataset) -> None:
    assert small.scopes is not None
    rows = range(len(small.documents))
    for query, expected in {
        "one": {"db", "db-old", "redis", "k8s", "done"},
        "empty": {"db", "db-old", "redis", "k8s", "done", "mara"},
        "new": set(),
    }.items():
        foreign = small.scopes.foreign(np.full(7, small.query_ids.index(query)), np.arange(7))
        assert {small.documents[row].id for row in rows if not foreign[row]} == expected


def test_texts_and_changes_are_those_of_the_seed(small: Dataset) -> None:
    assert small.documents[2].text == "name_redis alias Content of redis. Reason."
    march, april = 1772323200, 1775001600
    assert small.changes(0) == [
        ChangedRow("update", 1, march, 0),  # db was created after the last update of db-old
        ChangedRow("forget", 6, april, None),
    ]
    assert not small.manifest.official


def official(returned: dict[str, list[str]]) -> dict[str, tuple[float | None, float | None]]:
    """Precision and recall of each case: a port of retrieval.external.eval.test.ts."""
    pinned = {b["_id"] for b in BELIEFS if b["pinned"] is True and b["user_id"] == "test-user"}
    found = {}
    for one in CASES:
        part = one["expect"].get("relevantBeliefs", {})
        if "shouldOnlyInclude" in part:
            expected = set(part["shouldOnlyInclude"])
        else:
            expected = {id_ for id_ in part.get("mustInclude", []) if id_ not in pinned}
        relevant = set(returned[one["caseId"]])
        hits = len(expected & relevant)
        precision = None
        if relevant or expected:
            precision = hits / len(relevant) if relevant else 0.0
        found[one["caseId"]] = (precision, hits / len(expected) if expected else None)
    return found


@pytest.mark.extensions
@pytest.mark.parametrize("seed", range(6))
def test_published_reports_score_as_with_the_official_scorer(
    small: Dataset, source: Path, tmp_path: Path, harness: Callable[..., Any], seed: int
) -> None:
    chance = random.Random(seed)
    ids = [one["_id"] for one in BELIEFS]
    size = 0 if seed == 5 else 7
    returned = {
        one["caseId"]: chance.sample(ids, chance.randint(0, size)) if seed else ids for one in CASES
    }
    if seed == 5:
        returned["one"] = ["k8s"]
    cases = [
        {"caseId": id_, "category": "-", "relevantBeliefs": found, "pinnedBeliefs": ["db"],
         "retrievalPrecision": None}
        for id_, found in returned.items()
    ]  # fmt: skip
    write_json(tmp_path / "report.json", {"provider": "x", "retrieval": {}, "cases": cases})
    arguments = ("--dataset", "precisionmembench", "--source", str(source), "--quiet")
    told = harness("score", str(tmp_path / "report.json"), *arguments)
    assert told.status == 0, told.err
    (folder,) = (tmp_path / "results").iterdir()
    scores = score_run(folder, small)
    expected = official(returned)
    table = scores.per_query.to_pylist()
    values = {
        row["query"]: (row["retrieval_precision"], row["retrieval_recall"])
        for row in table
        if row["protocol"] == "precisionmembench-official"
    }
    assert values == expected
    for i, name in enumerate(("retrieval_precision", "retrieval_recall")):
        known = [pair[i] for pair in expected.values() if pair[i] is not None]
        result = scores.result(name, protocol="precisionmembench-official")
        assert (result.value, result.n) == (pytest.approx(sum(known) / len(known)), len(known))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("beliefs.seed", lambda r: r[0].pop("scope"), "record 0: the field 'scope' is missing"),
        ("beliefs.seed", lambda r: r[1].update(pinned="no"), "record 1: the field 'pinned' must"),
        ("beliefs.seed", lambda r: r[1].update(superseded_by="x"), "names the belief 'x'"),
        ("beliefs.seed", lambda r: r[2].update(created_at="May"), "record 2: 'May' is not a time"),
        ("beliefs.seed", lambda r: r.append(r[0]), "record 7: duplicate _id 'db'"),
        ("retrieval.cases", lambda r: r[0].pop("expect"), "record 0: the field 'expect'"),
        (
            "retrieval.cases",
            lambda r: r[1]["expect"]["pinnedFacts"].update(mustExclude=["y"]),
            "record 1, pinnedFacts: names the belief 'y'",
        ),
    ],
)
def test_damaged_files_are_refused_with_the_place_of_the_damage(
    home: Path, source: Path, file: str, change: Callable[[Any], None], message: str
) -> None:
    path = source / "fixtures" / f"{file}.json"
    record = copy.deepcopy(json.loads(path.read_text()))
    change(record)
    write_json(path, record)
    with pytest.raises(UsageError, match=message):
        open_dataset("precisionmembench", source=source)
