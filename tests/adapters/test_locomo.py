"""LoCoMo as the official code sees it, and what is mended beside it, on the true file."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from rank_bm25 import BM25Okapi

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.schema import as_datetime

CUTS = (5, 10, 25, 50)


@pytest.fixture
def file(data: Path) -> Path:
    return data / "locomo" / "locomo10.json"


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _bm25_rankings(dataset: Dataset) -> list[list[int]]:
    """Rows for each query, best first, ties to the earlier document."""
    rankings, engines = [], {}
    for query in map(dataset.query, range(dataset.n_queries)):
        haystack = dataset.haystack_ids.index(query.haystack)
        rows = dataset.haystack_rows(haystack)
        if haystack not in engines:
            engines[haystack] = BM25Okapi([_tokens(t) for t in dataset.documents.contents(rows)])
        scores = engines[haystack].get_scores(_tokens(query.text))
        rankings.append(rows[np.argsort(-scores, kind="stable")].tolist())
    return rankings


def _found(
    dataset: Dataset, rankings: list[list[int]], key: str, k: int
) -> dict[int, tuple[int, int]]:
    """For each query with judgements: units found in its top k, and units there are."""
    judged = dataset.qrels(key)
    units: dict[int, dict[int, set[int]]] = {}
    for query, row, unit in zip(judged.query, judged.document, judged.evidence_id, strict=True):
        units.setdefault(int(query), {}).setdefault(int(unit), set()).add(int(row))
    return {
        query: (sum(bool(rows & set(rankings[query][:k])) for rows in of.values()), len(of))
        for query, of in units.items()
    }


def _percent(values: list[float], n: int) -> float:
    return round(100 * sum(values) / n, 2)


@pytest.mark.slow
def test_bm25_over_turns_reaches_every_published_recall(home: Path, file: Path) -> None:
    dataset = open_dataset("locomo", source=file)
    rankings = _bm25_rankings(dataset)
    table: dict[str, list[float]] = {}
    for k in CUTS:
        official = [f / n for f, n in _found(dataset, rankings, "locomo-official", k).values()]
        without = dataset.n_queries - len(official)
        mended = _found(dataset, rankings, "default", k).values()
        for name, values, n in (
            ("official, empty = 1", [*official, *[1.0] * without], 1986),
            ("official, empty = 0", official, 1986),
            ("fraction", [f / n for f, n in mended], 1982),
            ("any", [float(f > 0) for f, n in mended], 1982),
            ("all", [float(f == n) for f, n in mended], 1982),
        ):
            table.setdefault(name, []).append(_percent(values, n))
    assert table == {
        "official, empty = 1": [45.79, 52.82, 63.27, 69.57],
        "official, empty = 0": [45.59, 52.62, 63.07, 69.37],
        "fraction": [45.75, 52.80, 63.29, 69.64],
        "any": [49.45, 57.32, 68.77, 75.28],
        "all": [42.94, 49.29, 58.73, 64.83],
    }


@pytest.mark.slow
def test_bm25_over_sessions_reaches_every_published_recall(home: Path, file: Path) -> None:
    dataset = open_dataset("locomo", granularity="session", source=file)
    rankings = _bm25_rankings(dataset)
    mended = [_found(dataset, rankings, "default", k).values() for k in CUTS]
    assert [_percent([float(f > 0) for f, _ in m], 1982) for m in mended] == [
        88.04,
        94.70,
        99.29,
        100,
    ]
    assert [_percent([float(f == n) for f, n in m], 1982) for m in mended] == [
        78.36,
        85.87,
        97.58,
        100,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["turn", "session", "observation", "session-summary"])
def test_the_official_key_scores_any_retrieved_set_as_the_official_formula(
    home: Path, file: Path, granularity: str
) -> None:
    dataset = open_dataset("locomo", granularity=granularity, source=file)
    pointers = _pointers(file, granularity)
    rng = random.Random(granularity)
    shuffled = []
    for haystack in dataset.query_haystack.tolist():
        rows = dataset.haystack_rows(haystack).tolist()
        shuffled.append(rng.sample(rows, len(rows)))
    found = _found(dataset, shuffled, "locomo-official", 10)
    questions = [q for c in orjson.loads(file.read_bytes()) for q in c["qa"]]
    for query, question in enumerate(questions):
        evidence = question["evidence"]
        retrieved = {id_ for row in shuffled[query][:10] for id_ in pointers[row]}
        if granularity.startswith("session"):
            evidence = [f"S{string.split(':')[0][1:]}" for string in evidence]
        hits = sum(string in retrieved for string in evidence)
        assert found.get(query, (0, 0)) == (hits, len(evidence))


def _pointers(file: Path, granularity: str) -> list[list[str]]:
    """What the official code would return as the ids of each document, in file order."""
    pointers: list[list[str]] = []
    for record in orjson.loads(file.read_bytes()):
        conversation = record["conversation"]
        for number in range(1, 99):
            turns = conversation.get(f"session_{number}", [])
            if granularity == "turn":
                pointers += [[turn["dia_id"]] for turn in turns]
            elif granularity == "observation" and turns:
                for facts in record["observation"][f"session_{number}_observation"].values():
                    for _, ids in facts:
                        pointers.append(ids if isinstance(ids, list) else ids.split(", "))
            elif turns:
                pointers.append([f"S{number}"])
    return pointers


def test_every_mend_of_the_evidence_is_counted_and_names_its_question(
    home: Path, file: Path
) -> None:
    dataset = open_dataset("locomo", source=file)
    repairs = {r.kind.split(":")[0]: (r.count, r.examples) for r in dataset.manifest.repairs}
    named = {example.split(":")[0] for _, examples in repairs.values() for example in examples}
    assert named >= {
        "conv-26_qa37",
        "conv-42_qa58",
        "conv-42_qa88",
        "conv-43_qa18",
        "conv-47_qa38",
        "conv-49_qa31",
        "conv-49_qa38",
        "conv-49_qa46",
        "conv-50_qa69",
    }
    assert repairs["questions without evidence"][0] == 4
    assert repairs["dates of sessions that do not exist"][0] == 16
    assert len(dataset.qrels()) == 2820
    assert len(np.unique(dataset.qrels().query)) == 1982
    assert len(dataset.qrels("locomo-official")) == 2815
    assert dataset.manifest.official


def test_questions_carry_their_ability_category_and_reference_answers(
    home: Path, file: Path
) -> None:
    dataset = open_dataset("locomo", source=file)
    assert Counter(zip(dataset.categories.tolist(), dataset.abilities.tolist(), strict=True)) == {
        ("multi-hop", "multi-hop"): 282,
        ("temporal", "temporal"): 321,
        ("open-domain", "lookup"): 96,
        ("single-hop", "lookup"): 841,
        ("adversarial", "abstention"): 446,
    }
    queries = [dataset.query(row) for row in range(dataset.n_queries)]
    assert queries[1].id == "conv-26_qa1"
    assert queries[1].answers == ("2022",)
    assert sum(not query.answers for query in queries) == 444


def test_turns_carry_session_speaker_position_and_time_but_no_search_query(
    home: Path, file: Path
) -> None:
    dataset = open_dataset("locomo", source=file)
    assert len(dataset.documents) == 5882
    turn = dataset.documents[2]
    assert (turn.id, turn.session, turn.position) == ("D1:3", "session_1", 2)
    assert turn.speaker == _turns_of(file)[2]["speaker"]
    assert turn.timestamp is not None
    assert f"{as_datetime(turn.timestamp):%Y-%m-%d %H:%M}" == "2023-05-08 13:56"
    for said, document in zip(_turns_of(file), dataset.documents, strict=True):
        caption = f" and shared {said['blip_caption']}" if "blip_caption" in said else ""
        assert document.text == f'{said["speaker"]} said, "{said["text"]}"{caption}'


def test_the_dated_text_says_when_and_who(home: Path, file: Path) -> None:
    first, second = _turns_of(file)[:2]
    lines = [f"{turn['speaker']}: {turn['text']}" for turn in (first, second)]
    turns = open_dataset("locomo", text="dated", source=file)
    assert turns.documents[0].text == f"[2023-05-08 13:56] {lines[0]}"
    sessions = open_dataset("locomo", granularity="session", text="dated", source=file)
    assert sessions.documents[0].text.startswith("\n".join(["[2023-05-08 13:56]", *lines]))


def _turns_of(file: Path) -> list[dict[str, Any]]:
    return [
        turn
        for record in orjson.loads(file.read_bytes())
        for number in range(1, 99)
        for turn in record["conversation"].get(f"session_{number}", [])
    ]


def _small() -> list[dict[str, Any]]:
    return [
        {
            "sample_id": "c",
            "conversation": {
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "hello"}],
            },
            "qa": [{"question": "q?", "answer": "a", "category": 4, "evidence": ["D1:1"]}],
        }
    ]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: c["conversation"].pop("session_1_date_time"), "c: .*session_1_date_time"),
        (
            lambda c: c["conversation"].update(session_1_date_time="8 May"),
            "c: session_1_date_time '8 May' is not a date like",
        ),
        (
            lambda c: c["conversation"]["session_1"][0].pop("text"),
            "c, session_1, turn 0: the field 'text' is missing",
        ),
        (
            lambda c: c["conversation"]["session_1"].append(c["conversation"]["session_1"][0]),
            "c: duplicate dia_id 'D1:1'",
        ),
        (lambda c: c["qa"][0].update(category=6), "c, qa 0: category 6"),
        (lambda c: c["qa"][0].update(evidence="D1:1"), "c, qa 0: .*'evidence' must be a list"),
        (lambda c: c.pop("qa"), "c: the field 'qa' is missing"),
    ],
)
def test_a_bad_record_is_one_error_that_says_where(
    home: Path, tmp_path: Path, spoil: Any, message: str
) -> None:
    records = _small()
    spoil(records[0])
    path = tmp_path / "locomo10.json"
    path.write_bytes(orjson.dumps(records))
    with pytest.raises(UsageError, match=r"locomo10\.json: " + message):
        open_dataset("locomo", source=path)


def test_a_truncated_file_is_refused(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "locomo10.json"
    path.write_bytes(orjson.dumps(_small())[:-20])
    with pytest.raises(UsageError, match="truncated"):
        open_dataset("locomo", source=path)
