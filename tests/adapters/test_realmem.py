"""RealMem: each query over what came before it, and the official script's numbers."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson
import pytest
from archives import unpacked
from reference.verify import verify

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runfiles.readers import read_rankings
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.schema import as_datetime


@pytest.fixture(scope="module")
def people(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(data / "realmem" / "realmem.tar.gz", tmp_path_factory.mktemp("realmem"))


def mends(dataset: Dataset, words: str) -> int:
    """How often the mend was made whose sentence has these words."""
    return sum(r.count for r in dataset.manifest.repairs if words in r.kind)


def ids_of(dataset: Dataset, haystack: int) -> list[str]:
    """The ids of a haystack's documents, in its order."""
    rows = dataset.haystack_rows(haystack)
    ids: list[str] = dataset.documents.column("id", rows).to_pylist()
    return ids


def read(people: Path) -> dict[str, list[dict[str, Any]]]:
    """The sessions of each person, as the files have them."""
    return {
        file.name.removesuffix("_dialogues_256k.json"): orjson.loads(file.read_bytes())["dialogues"]
        for file in sorted(people.glob("dataset/*_dialogues_256k.json"))
    }


def test_ten_people_with_their_sessions_queries_and_evidence(home: Path, people: Path) -> None:
    dataset = open_dataset("realmem", source=people)
    assert dataset.manifest.official
    assert dataset.manifest.licence == "Apache-2.0"
    assert (len({*dataset.haystack_bases}), len(dataset.documents)) == (10, 2055)
    assert len(dataset.haystack_ids) == 869
    assert Counter(dataset.abilities.tolist()) == {
        "multi-hop": 1075,
        "knowledge-update": 156,
        "lookup": 160,
        "temporal": 24,
    }
    judged, official = dataset.qrels(), dataset.qrels("realmem-official")
    assert len({*judged.query.tolist()}) == 1415
    assert (len(judged), len(official)) == (2316, 2319)
    assert (judged.document >= 0).all()
    assert (official.document < 0).sum() == mends(dataset, "query's own session") == 3


@pytest.mark.slow
def test_the_haystack_of_a_query_is_the_sessions_that_stand_before_its_own(
    home: Path, people: Path
) -> None:
    dataset = open_dataset("realmem", source=people)
    sessions = {
        person: [session["session_identifier"] for session in held]
        for person, held in read(people).items()
    }
    place = {
        f"{person}_{turn['query_id']}": (person, at)
        for person, held in read(people).items()
        for at, session in enumerate(held)
        for turn in session["dialogue_turns"]
        if turn.get("is_query")
    }
    stamps = dataset.documents.column("timestamp").to_pylist()
    for row, id_ in enumerate(dataset.query_ids):
        haystack = int(dataset.query_haystack[row])
        person, at = place[id_]
        assert dataset.haystack_bases[haystack] == person
        assert ids_of(dataset, haystack) == sessions[person][:at]
        asked = dataset.query(row).timestamp
        assert asked is not None
        assert all(stamps[document] <= asked for document in dataset.haystack_rows(haystack))


def test_there_is_no_way_to_ask_over_the_whole_history(home: Path, people: Path) -> None:
    ways = [open_dataset("realmem", split=s, source=people) for s in ("", "test", "test-as-of")]
    assert {way.manifest.split for way in ways} == {"test-as-of"}
    assert len({way.fingerprint for way in ways}) == 1


@pytest.mark.slow
def test_the_official_numbers_are_those_of_the_scripts_arithmetic(
    home: Path, people: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("realmem", source=people)
    made = run(dataset, "bm25", Settings(k=20), out=tmp_path)
    scores = score_run(made, dataset)
    rankings = read_rankings(made / "rankings.parquet")
    documents = rankings.document.to_pylist()
    found = {
        id_: documents[start:end]
        for id_, start, end in zip(
            rankings.query_ids, rankings.starts, rankings.starts[1:], strict=False
        )
    }
    values: dict[str, list[float]] = {}
    for person, held in read(people).items():
        name = {session["session_uuid"]: session["session_identifier"] for session in held}
        for session in held:
            turns = session["dialogue_turns"]
            for turn, answer in pairwise(turns):
                if not turn.get("is_query"):
                    continue
                gold = {name[uuid] for uuid in answer["memory_session_uuids"]}
                ranked = found[f"{person}_{turn['query_id']}"]
                for k in (5, 10, 20):
                    gains = [float(id_ in gold) for id_ in ranked[:k]]
                    best = _dcg([1.0] * min(len(gold), k))
                    values.setdefault(f"hit@{k}", []).append(float(any(gains)))
                    values.setdefault(f"recall_all@{k}", []).append(float(gold <= {*ranked[:k]}))
                    values.setdefault(f"ndcg_b2@{k}", []).append(_dcg(gains) / best)
    for metric, of_queries in values.items():
        assert len(of_queries) == 1415
        ours = scores.result(metric, protocol="realmem-official").value
        assert ours == pytest.approx(fmean(of_queries), abs=1e-12)
    some = run(dataset, "bm25", Settings(k=20, limit=100), out=tmp_path)
    score_run(some, dataset)
    assert verify(some).agrees


def _dcg(gains: list[float]) -> float:
    """The script's: neither the first nor the second is discounted."""
    return sum(gain / max(1.0, math.log2(place)) for place, gain in enumerate(gains, 1))


# -- small files in the same form


def said(speaker: str, content: str, **more: Any) -> dict[str, Any]:
    """A turn as the files have it."""
    return {"speaker": speaker, "content": content, "is_query": False, "query_id": "", **more}


def session(place: int, day: str, uses: list[str] | None = None) -> dict[str, Any]:
    """A session of two turns; with `uses`, one more query and its answer."""
    turns = [said("User", f"Of bees {place}."), said("Assistant", "Noted.")]
    if uses is not None:
        query = {"is_query": True, "query_id": f"Q-{place}", "category_name": "Dynamic Updating"}
        turns += [
            {**said("User", f"What of bees {place}?"), **query},
            said("Assistant", "This.", memory_used=[], memory_session_uuids=uses),
        ]
    return {
        "session_identifier": f"Bees:S{place}",
        "session_uuid": f"u{place}",
        "current_time": day,
        "extracted_memory": [],
        "dialogue_turns": turns,
    }


def small() -> dict[str, Any]:
    """Five sessions, three on one day and one whose date goes back."""
    return {
        "_metadata": {"person_name": "Ann"},
        "dialogues": [
            session(0, "2025-12-15 (Monday)"),
            session(1, "2025-12-15 (Monday)", ["u0"]),
            session(2, "2025-12-15 (Monday)", ["u1", "u0", "u2", "u1", "u9"]),
            session(3, "2025-12-01 (Monday)", ["u4"]),
            session(4, "2025-12-16 (Tuesday)", ["u3"]),
        ],
    }


def put(folder: Path, person: Any) -> Path:
    """A person's file; returns its folder."""
    (folder / "Ann_dialogues_256k.json").write_bytes(orjson.dumps(person))
    return folder


def test_sessions_of_a_day_and_those_whose_date_goes_back_keep_the_files_order(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("realmem", text="dated", source=put(tmp_path, small()))
    assert [ids_of(dataset, haystack) for haystack in range(4)] == [
        [f"Bees:S{place}" for place in range(n)] for n in (1, 2, 3, 4)
    ]
    moments = [as_datetime(d.timestamp or 0).isoformat() for d in dataset.documents]
    assert moments == [
        *(f"2025-12-15T00:00:0{second}" for second in (1, 2, 3, 4)),
        "2025-12-16T00:00:01",
    ]
    asked = [as_datetime(dataset.query(row).timestamp or 0).isoformat() for row in range(4)]
    assert asked[0] == "2025-12-15T00:00:01"
    assert asked[3] == "2025-12-16T00:00:00"  # the day of its own session, before it
    assert dataset.documents[3].text.startswith("[2025-12-15]\nUser: Of bees 3.\nAssistant: Noted.")
    assert mends(dataset, "dated before an earlier session") == 1


def test_evidence_that_was_not_there_is_left_out_and_counted(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("realmem", source=put(tmp_path, small()))
    of = {
        key: [*zip(one.query.tolist(), one.document_id.to_pylist(), strict=True)]
        for key in ("default", "realmem-official")
        for one in [dataset.qrels(key)]
    }
    before = [(0, "Bees:S0"), (1, "Bees:S1"), (1, "Bees:S0"), (3, "Bees:S3")]
    assert sorted(of["default"]) == sorted(before)
    missing = [(1, "Bees:S2"), (2, "Bees:S4")]
    assert sorted(of["realmem-official"]) == sorted(before + missing)
    for words, count in {
        "in the query's own session": 1,
        "in a later session": 1,
        "names a session which does not exist": 1,
        "names a session twice": 1,
        "without evidence": 1,
        "missing from this copy": 10,
    }.items():
        assert (words, mends(dataset, words)) == (words, count)


class Told:
    """A memory that grows: checks that nothing which it is told is later than what it is asked."""

    def reset(self) -> None:
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.latest = 0

    def add(self, documents: list[Any]) -> None:
        assert self.latest < documents[0].timestamp
        self.latest = documents[-1].timestamp
        self.ids += [document.id for document in documents]
        self.texts += [document.text for document in documents]

    def search(self, queries: list[Any], k: int) -> list[list[str]]:
        for query in queries:
            assert self.latest <= query.timestamp
            assert not any(query.text in text for text in self.texts)
        return [self.ids[::-1][:k] for _ in queries]


def test_a_memory_that_grows_is_told_each_session_once_before_what_is_asked_after_it(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("realmem", source=put(tmp_path, small()))
    scores = score_run(run(dataset, Told(), out=tmp_path / "results"), dataset)
    assert scores["recall@1"] == pytest.approx((1 + 1 / 2 + 1) / 3)  # the newest, and no failure


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: d[0].update(current_time="Monday"), "current_time 'Monday' is not a date like"),
        (lambda d: d[1].update(session_uuid="u0"), "session 1: duplicate 'u0'"),
        (lambda d: d[1]["dialogue_turns"].pop(), "no assistant turn follows this query"),
        (lambda d: d[1]["dialogue_turns"][3].pop("memory_session_uuids"), "'memory_session_uuids'"),
        (
            lambda d: d[1]["dialogue_turns"][2].update(category_name="?"),
            "category_name '?' is not one",
        ),
        (lambda d: d[1]["dialogue_turns"][2].pop("query_id"), "'query_id' is missing"),
        (lambda d: d[4]["dialogue_turns"][0].pop("content"), "turn 0: the field 'content'"),
    ],
)
def test_a_bad_record_is_one_error_that_says_where(
    home: Path, tmp_path: Path, spoil: Any, message: str
) -> None:
    person = small()
    spoil(person["dialogues"])
    with pytest.raises(UsageError, match=r"Ann_dialogues_256k\.json") as error:
        open_dataset("realmem", source=put(tmp_path, person))
    assert message in str(error.value)


def test_a_part_another_file_and_one_that_is_cut_off_are_refused(
    home: Path, people: Path, tmp_path: Path
) -> None:
    one = next(people.glob("dataset/Pak*.json"))
    with pytest.raises(UsageError, match="1 of the 10 published files"):
        open_dataset("realmem", source=one)
    with pytest.raises(UsageError, match="in this folder; pass their folder"):
        open_dataset("realmem", source=tmp_path)
    cut = tmp_path / one.name
    cut.write_bytes(one.read_bytes()[:-50])
    with pytest.raises(UsageError, match="truncated"):
        open_dataset("realmem", source=tmp_path)
    cut.write_bytes(b'{"documents": []}')
    with pytest.raises(UsageError, match="the field 'dialogues' is missing"):
        open_dataset("realmem", source=tmp_path)
