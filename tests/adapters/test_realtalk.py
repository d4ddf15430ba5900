"""REALTALK: turns by their own ids, and what its evidence strings mean."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.schema import as_datetime


def mends(dataset: Dataset, words: str) -> int:
    """How often the mend was made whose sentence has these words."""
    return sum(r.count for r in dataset.manifest.repairs if words in r.kind)


def test_ten_chats_with_their_questions_and_what_dangles(home: Path, data: Path) -> None:
    dataset = open_dataset("realtalk", source=data / "realtalk")
    assert dataset.manifest.official
    assert (len(dataset.haystack_ids), len(dataset.documents)) == (10, 8944)
    assert Counter(zip(dataset.categories.tolist(), dataset.abilities.tolist(), strict=True)) == {
        ("multi-hop", "multi-hop"): 301,
        ("temporal", "temporal"): 319,
        ("commonsense", "lookup"): 108,
    }
    judged = dataset.qrels()
    assert len({*judged.query.tolist()}) == 705
    assert (judged.document >= 0).all()
    assert mends(dataset, "does not exist") + mends(dataset, "names no turn") == 143
    of_session = open_dataset("realtalk", granularity="session", source=data / "realtalk" / "data")
    assert len(of_session.documents) == 219


@pytest.mark.slow
def test_a_turn_belongs_to_the_session_where_it_stands(home: Path, data: Path) -> None:
    dataset = open_dataset("realtalk", source=data / "realtalk")
    session_of = {
        (file.stem, turn["dia_id"]): name
        for file in (data / "realtalk" / "data").glob("Chat_*.json")
        for name, turns in orjson.loads(file.read_bytes()).items()
        if name.removeprefix("session_").isdigit()
        for turn in turns
    }
    other: set[str] = set()
    for haystack, chat in enumerate(dataset.haystack_ids):
        for row in dataset.haystack_rows(haystack).tolist():
            document = dataset.documents[row]
            assert document.session == session_of[chat, document.id]
            if document.id.split(":")[0] != document.session.replace("session_", "D"):
                other.add(chat)
    assert len(other) == 5


@pytest.mark.slow
def test_bm25_reaches_what_was_measured_through_labelled_files(
    home: Path, data: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("realtalk", source=data / "realtalk")
    scores = score_run(run(dataset, "bm25", out=tmp_path), dataset)
    assert scores["recall@10"] == pytest.approx(0.4783, abs=0.001)  # which read ranges as two ends
    assert scores["hit@10"] == pytest.approx(0.613, abs=0.003)


# -- small files in the same form


def turn(id_: str, said: str, when: str = "29.12.2023, 22:42:04", **more: Any) -> dict[str, Any]:
    """A turn as the files have it."""
    return {"dia_id": id_, "speaker": "Ann", "clean_text": said, "date_time": when, **more}


def small() -> dict[str, Any]:
    """A chat of two sessions, of which the second goes on with the numbers of the first."""
    later = "30.12.2023, 08:00:00"
    return {
        "name": {"speaker_1": "Ann", "speaker_2": "Bo"},
        "session_1": [turn(f"D1:{n}", f"thing {n}") for n in range(1, 7)],
        "session_1_date_time": "29.12.2023, 22:42:04",
        "session_2": [turn("D1:7", "a hive", later, blip_caption="bees on wood")],
        "session_2_date_time": later,
        "qa": [
            {"question": "q?", "answer": "a", "category": 3, "evidence": evidence}
            for evidence in (["D1:2-D1:4"], ["D1:1. D1:7", "D1:7"], ["D9:9", "D17;39"], [])
        ],
    }


def put(folder: Path, chat: Any) -> Path:
    """A chat in a file of its own; returns its folder."""
    (folder / "Chat_1_Ann_Bo.json").write_bytes(orjson.dumps(chat))
    return folder


def test_evidence_strings_are_read_as_what_they_mean_and_counted(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("realtalk", source=put(tmp_path, small()))
    judged = dataset.qrels()
    ids = [dataset.documents[row].id for row in judged.document.tolist()]
    assert [*zip(judged.query.tolist(), ids, strict=True)] == [
        *((0, "D1:2"), (0, "D1:3"), (0, "D1:4")),
        *((1, "D1:1"), (1, "D1:7")),
    ]
    for words, count in {
        "a range of turns": 1,
        "name several turns": 1,
        "names a turn twice": 1,
        "names a turn which does not exist": 1,
        "names no turn": 1,
        "without evidence": 2,
        "number of another session": 1,
        "missing from this copy": 10,
    }.items():
        assert (words, mends(dataset, words)) == (words, count)
    assert not dataset.manifest.official


def test_texts_say_who_wrote_and_the_dated_ones_when_and_what_a_picture_shows(
    home: Path, tmp_path: Path
) -> None:
    source = put(tmp_path, small())
    plain = open_dataset("realtalk", source=source).documents[6]
    assert (plain.text, plain.session, plain.position) == ("Ann: a hive", "session_2", 0)
    assert as_datetime(plain.timestamp or 0).isoformat() == "2023-12-30T08:00:00"
    dated = open_dataset("realtalk", text="dated", granularity="session", source=source)
    assert dated.documents[1].text == "[2023-12-30 08:00] Ann: a hive (shared: bees on wood)"
    assert dated.documents[0].id == "S1"


def test_a_part_of_the_published_files_does_not_pass_for_the_whole(
    home: Path, data: Path, tmp_path: Path
) -> None:
    one = sorted((data / "realtalk" / "data").glob("Chat_*.json"))[0]
    for source in (one, shutil.copy(one, tmp_path) and tmp_path):
        with pytest.raises(UsageError, match="1 of the 10 published files"):
            open_dataset("realtalk", source=source)


def test_a_folder_without_chats_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no Chat_\*\.json in this folder; pass their folder"):
        open_dataset("realtalk", source=tmp_path)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: c.pop("session_2_date_time"), "'session_2_date_time' is missing"),
        (
            lambda c: c["session_1"][0].pop("clean_text"),
            "session_1, turn 0: the field 'clean_text'",
        ),
        (lambda c: c["session_1"][0].update(date_time="May"), "date_time 'May' is not a date like"),
        (lambda c: c["session_2"].append(turn("D1:1", "again")), "duplicate dia_id 'D1:1'"),
        (lambda c: c["qa"][0].update(category=5), "qa 0: category 5 is not one of 1 to 3"),
        (lambda c: c["qa"][0].pop("answer"), "qa 0: the field 'answer' is missing"),
        (lambda c: c["qa"][0].update(evidence="D1:1"), "'evidence' must be a list"),
    ],
)
def test_a_bad_record_is_one_error_that_says_where(
    home: Path, tmp_path: Path, spoil: Any, said: str
) -> None:
    chat = small()
    spoil(chat)
    with pytest.raises(UsageError, match=r"Chat_1_Ann_Bo\.json") as error:
        open_dataset("realtalk", granularity="session", source=put(tmp_path, chat))
    assert said in str(error.value)


@pytest.mark.parametrize("content", [orjson.dumps(small())[:-30], b"[]", b"{}"])
def test_another_file_or_one_that_is_cut_off_is_named(
    home: Path, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "Chat_2.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"Chat_2\.json: "):
        open_dataset("realtalk", source=tmp_path)
