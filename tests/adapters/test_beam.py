"""BEAM: what its questions name as evidence, what leaks order, and what an update made outdated."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from archives import unpacked
from reference.verify import verify

from harness.datasets.adapters.beam import ABILITIES
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.retrievers.contract import Corpus, Question
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.schema import Ability, as_datetime


@pytest.fixture(scope="module")
def chats(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(data / "beam" / "beam_100k.tar.gz", tmp_path_factory.mktemp("beam")) / "chats"


def repairs(dataset: Dataset) -> dict[str, int]:
    """How often each kind of mend was made."""
    return {repair.kind: repair.count for repair in dataset.manifest.repairs}


def mends(dataset: Dataset, words: str) -> int:
    """How often the mend was made whose sentence has these words."""
    return sum(count for kind, count in repairs(dataset).items() if words in kind)


@pytest.mark.slow
def test_the_100k_tier_is_whole_and_is_its_publishers(home: Path, chats: Path) -> None:
    dataset = open_dataset("beam/100k", source=chats)
    assert dataset.manifest.official
    assert (len(dataset.haystack_ids), len(dataset.documents)) == (20, 5094)
    assert Counter(dataset.categories.tolist()) == dict.fromkeys(ABILITIES, 40)
    judged = dataset.qrels()
    assert len({*judged.query.tolist()}) == 355
    assert (judged.document >= 0).all()
    assert len(judged) + mends(dataset, "names a message twice") == 856 + 253  # user, assistant
    assert mends(dataset, "without evidence") == 5
    assert mends(dataset, "truncated") == 10
    of_session = open_dataset("beam/100k", granularity="session", source=chats / "100K")
    assert len(of_session.documents) == 1877


@pytest.mark.slow
def test_no_text_tells_its_place_in_the_plan(home: Path, chats: Path) -> None:
    dataset = open_dataset("beam/100k", source=chats)
    assert not [text for text in dataset.documents.contents() if re.search(r"->->", text)]
    assert mends(dataset, "->-> n,m") == 1905 + 41  # the user's, and the assistant's


@pytest.mark.slow
def test_bm25_reaches_what_was_measured_through_labelled_files(
    home: Path, chats: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("beam/100k", source=chats.parent)
    made = run(dataset, "bm25", out=tmp_path)
    scores = score_run(made, dataset)
    assert round(scores["recall@10"], 4) == 0.4139
    assert round(scores["recall_all@10"], 3) == 0.296
    by_ability = {
        ability: round(scores["recall@10", ability], 3)
        for ability in Ability
        if ability != "abstention"
    }
    assert by_ability == {
        "lookup": 0.286,
        "multi-hop": 0.252,
        "temporal": 0.411,
        "knowledge-update": 0.761,
    }
    told = scores.report.changes
    assert told is not None
    assert told.n_after_update == 37
    assert told.values["outdated_above@10"] < told.values["outdated_returned@10"]
    assert verify(made).agrees


class Asks:
    """Looks at what it is told of changes."""

    def index(self, corpus: Corpus) -> None:
        assert corpus.changes == ()
        self.n = len(corpus)

    def update(self, handle: str, document: Any) -> None:
        raise AssertionError("the answer key was told")

    def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
        return [[*range(min(k, self.n))] for _ in queries]


def test_no_system_is_told_what_the_answer_key_alone_knows(home: Path, tmp_path: Path) -> None:
    dataset = open_dataset("beam/10m", source=ten_m(tmp_path))
    assert [(c.kind, c.row, c.by_row) for c in dataset.changes(0)] == [("key-update", 0, 2)]
    made = run(dataset, Asks(), out=tmp_path)
    found = score_run(made, dataset).report.changes
    assert found is not None
    assert found.n_after_update == 1


# -- small files in the layout of the repository


def message(id_: int, role: str, content: str, **more: Any) -> dict[str, Any]:
    """A message as the files have it."""
    return {"role": role, "id": id_, "content": content, **more}


def batch(number: int, first: int, anchor: str | None = "March-15-2024") -> dict[str, Any]:
    """Two exchanges of two messages."""
    dated = {} if anchor is None else {"time_anchor": anchor}
    turns = [
        [
            message(first, "user", f"Bees like me? ->-> {number},1", **dated),
            message(first + 1, "assistant", "Some do."),
        ],
        [
            message(first + 2, "user", f"Do wasps? ->-> {number},2/N/A"),
            message(first + 3, "assistant", "No."),
        ],
    ]
    return {"batch_number": number, "time_anchor": None, "turns": turns}


def asked() -> dict[str, list[dict[str, Any]]]:
    """Questions: one a kind, whose evidence stands in lists, lists of lists, and pairs."""
    named: dict[str, Any] = {kind: [0] for kind in ABILITIES}
    named["knowledge_update"] = {"original_info": [0], "updated_info": [2]}
    named["contradiction_resolution"] = {"first_statement": [0], "second_statement": [3]}
    named["event_ordering"] = [[0, 1], 2, 0, 99]
    return {
        kind: [
            {"question": f"{kind}?"}
            if kind == "abstention"
            else {"question": f"{kind}?", "answer": "yes", "source_chat_ids": ids}
        ]
        for kind, ids in named.items()
    }


def put(folder: Path, chat: Any, questions: Any = None, name: str = "chat.json") -> Path:
    """A chat with its questions, as one of a tier; returns the folder `chats`."""
    (folder / "probing_questions").mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(orjson.dumps(chat))
    path = folder / "probing_questions" / "probing_questions.json"
    path.write_bytes(orjson.dumps(asked() if questions is None else questions))
    return folder.parent.parent


def ten_m(folder: Path) -> Path:
    """A tier of 10M with one chat of two plans; the hub's rows name all plans in each part."""
    plans = [
        {"plan-1": [batch(1, 0)], "plan-2": None},
        {"plan-1": None, "plan-2": [batch(1, 4, "April-01-2024"), batch(2, 8, None)]},
    ]
    return put(folder / "chats" / "10M" / "1", plans)


@pytest.mark.parametrize("tier", ["100K", "500K", "1M"])
def test_every_tier_has_one_layout_and_a_part_of_one_says_so(
    home: Path, tmp_path: Path, tier: str
) -> None:
    source = put(tmp_path / "chats" / tier / "3", [batch(1, 0), batch(2, 4)])
    put(tmp_path / "chats" / tier / "12", [batch(1, 0)])
    whole, cut = ([batch(1, 0), batch(2, 4)], [batch(1, 0)])
    put(tmp_path / "chats" / tier / "13", whole)
    put(tmp_path / "chats" / tier / "13", cut, name="chat_trunecated.json")
    dataset = open_dataset(f"beam/{tier.lower()}", source=source)
    assert dataset.haystack_ids == ["3", "12", "13"]
    assert dataset.haystack_sizes.tolist() == [8, 4, 4]
    assert not dataset.manifest.official
    assert mends(dataset, "missing from this copy") == {"100K": 20}.get(tier, 35) - 3
    assert dataset.manifest.licence.startswith("none stated")


def test_plans_are_read_one_after_the_other_and_dated_by_their_batches(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("beam/10m", text="dated", source=ten_m(tmp_path))
    documents = [*dataset.documents]
    assert [d.id for d in documents] == [*map(str, range(12))]
    assert documents[0].text == "[2024-03-15] user: Bees like me?"
    assert documents[11].text == "assistant: No."  # of a batch that nobody dated
    assert [d.session for d in documents[::4]] == ["plan-1:1:0", "plan-2:1:0", "plan-2:2:0"]
    dates = [d.timestamp for d in documents[:8]]
    assert dates == sorted({*dates} - {None})  # no two at once, in the order of the file
    assert f"{as_datetime(dates[4] or 0):%Y-%m-%d}" == "2024-04-01"
    assert mends(dataset, "without a date") == 4


def test_evidence_is_read_from_lists_and_pairs_and_each_message_counts_once(
    home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("beam/10m", source=ten_m(tmp_path))
    judged = dataset.qrels()
    rows: dict[str, list[int]] = {}
    for query, row in zip(judged.query.tolist(), judged.document.tolist(), strict=True):
        rows.setdefault(dataset.query_ids[query], []).append(row)
    assert rows["1_event_ordering_0"] == [0, 1, 2]
    assert rows["1_knowledge_update_0"] == [0, 2]
    assert rows["1_contradiction_resolution_0"] == [0, 3]
    assert "1_abstention_0" not in rows
    assert mends(dataset, "names a message which does not exist") == 1
    assert mends(dataset, "names a message twice") == 1


def test_updates_that_cannot_be_ordered_are_counted(home: Path, tmp_path: Path) -> None:
    questions = asked()
    pairs = [([2], [0]), ([0], [0]), ([0], [])]
    named = [{"original_info": old, "updated_info": new} for old, new in pairs]
    questions["knowledge_update"] = [
        {"question": "?", "source_chat_ids": ids} for ids in (*named, [0, 2])
    ]
    source = put(tmp_path / "chats" / "500K" / "1", [batch(1, 0)], questions)
    dataset = open_dataset("beam/500k", source=source)
    assert not dataset.has_changes
    assert mends(dataset, "is not before the new one") == 2
    assert mends(dataset, "one of the two is not identified") == 2


def test_a_question_without_source_chat_ids_is_counted_and_the_files_are_unchecked(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = asked()
    del questions["summarization"][0]["source_chat_ids"]
    source = put(tmp_path / "chats" / "500K" / "1", [batch(1, 0)], questions)
    dataset = open_dataset("beam/500k", source=source)
    assert mends(dataset, "without source_chat_ids") == 1
    assert (dataset.manifest.official, dataset.manifest.published) == (False, None)
    assert {raw.status for raw in dataset.manifest.raw} == {"unchecked"}
    said = capsys.readouterr().err
    assert "2 of 2 files of beam/500k are unchecked: no checksum is published" in said
    assert "is not a published file" not in said


def test_what_was_downloaded_from_the_pinned_commit_is_the_publishers(
    home: Path, tmp_path: Path
) -> None:
    for chat in range(1, 36):
        put(home / "downloads" / "beam" / "chats" / "500K" / str(chat), [batch(1, 0)])
    dataset = open_dataset("beam/500k")
    assert {raw.status for raw in dataset.manifest.raw} == {"revision"}
    assert dataset.manifest.official


def test_a_part_of_the_published_files_does_not_pass_for_the_whole(
    home: Path, chats: Path, tmp_path: Path
) -> None:
    shutil.copytree(chats / "100K" / "7", tmp_path / "100K" / "7")
    with pytest.raises(UsageError, match=r"2 of the 40 published files; .* is missing"):
        open_dataset("beam/100k", source=tmp_path)


def test_ten_million_tokens_have_to_be_cloned(home: Path) -> None:
    with pytest.raises(UsageError, match="beam/10m cannot be downloaded: clone https://github"):
        open_dataset("beam/10m")


@pytest.mark.parametrize("other", ["chats/1M", "."])
def test_a_folder_of_another_tier_or_of_none_is_refused(
    home: Path, tmp_path: Path, other: str
) -> None:
    put(tmp_path / "chats" / "1M" / "1", [batch(1, 0)])
    with pytest.raises(UsageError, match="no 500K chats found; pass a clone of"):
        open_dataset("beam/500k", source=tmp_path / other)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda c, q: c[0]["turns"][0][0].pop("id"),
            "turn 0, message 0: the field 'id' is missing",
        ),
        (lambda c, q: c[0]["turns"][1][0].update(id=0), "duplicate message id 0"),
        (lambda c, q: c[0]["turns"].append({}), "turn 2: not a list of messages"),
        (lambda c, q: c[0].update(time_anchor="15 March"), "time_anchor '15 March' is not a date"),
        (lambda c, q: c.append({"plan-2": []}), "the field 'batch_number' is missing"),
        (lambda c, q: q.pop("summarization"), "the field 'summarization' is missing"),
        (lambda c, q: q.update(riddles=[]), "'riddles' is not one of abstention"),
        (lambda c, q: q["summarization"][0].pop("question"), "'question' is missing"),
        (
            lambda c, q: q["summarization"][0].update(
                source_chat_id=q["summarization"][0].pop("source_chat_ids")
            ),
            "did you mean source_chat_ids?",
        ),
        (
            lambda c, q: q["summarization"][0].update(source_chat_ids=["all"]),
            "'all' in source_chat_ids is not a message id",
        ),
        (
            lambda c, q: q["knowledge_update"][0].update(source_chat_ids={"old": [1]}),
            "the field 'original_info' is missing",
        ),
    ],
)
def test_a_bad_record_is_one_error_that_says_where(
    home: Path, tmp_path: Path, spoil: Any, said: str
) -> None:
    chat, questions = [batch(1, 0)], asked()
    spoil(chat, questions)
    source = put(tmp_path / "chats" / "1M" / "1", chat, questions)
    with pytest.raises(UsageError, match=r"1M/1/.*\.json") as error:
        open_dataset("beam/1m", source=source)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["chat.json", "probing_questions/probing_questions.json"])
def test_a_file_that_is_cut_off_or_missing_is_named(home: Path, tmp_path: Path, name: str) -> None:
    source = put(tmp_path / "chats" / "1M" / "1", [batch(1, 0)])
    path = tmp_path / "chats" / "1M" / "1" / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UsageError, match=f"{name}.*truncated"):
        open_dataset("beam/1m", source=source)
    path.unlink()
    with pytest.raises(UsageError, match=f"{name}: no such file"):
        open_dataset("beam/1m", source=source)
