"""`harness score` on what projects published: the values that it must give, and what was asked."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from output import protocols

pytestmark = pytest.mark.extensions

Harness = Callable[..., Any]
IDS = ["--dataset", "longmemeval/s-ids"]


def _scored(harness: Harness, *options: Any) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Cells of all queries under memory/1, the run's record, and what was said on stderr."""
    told = harness("score", *options, "--json")
    assert told.status == 0, told.err
    values = orjson.loads(told.out)
    block = next(b for b in protocols(values["scores"]) if b.protocol == "memory")
    record = {**values["run"], "folder": values["folder"]}
    return block.slices["all"].metrics, record, told.err


def _lines(path: Path, records: list[Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("memory-core_2026-04-27_15-05-28_n500", [0.9447, 0.9915, 0.9541, 0.8957, 0.9449, 0.9648]),
        ("dense_2026-04-19_20-13-52_n500", [0.8681, 0.9723, 0.9046, 0.8149, 0.8758, 0.9096]),
        ("bm25_2026-04-19_19-46-05_n500", [0.8468, 0.9511, 0.8814, 0.7979, 0.8544, 0.8877]),
        ("runP-v35_per_question", [0.9638, 0.9830, 0.9276, 0.8511, 0.9343, 0.9729]),
        ("baseline_per_question", [0.8383, 0.9830, 0.9276, 0.8511, 0.8805, 0.8989]),
    ],
)
def test_rankings_on_longmemeval_s_give_their_values_without_its_texts(
    harness: Harness, data: Path, file: str, expected: list[float]
) -> None:
    names = ["hit@1", "hit@5", "recall@5", "recall_all@5", "ndcg@5", "mrr"]
    (path,) = (data / "published").glob(f"*/{file}.json")
    cells, record, _ = _scored(harness, path, *IDS, "--ks", "1,5", "--metrics", "mrr")
    assert [round(cells[name].value, 4) for name in names] == expected
    assert {cells[name].n for name in names} == {470}
    assert all(cell.random_baseline is None for cell in cells.values())
    assert harness("verify", record["folder"]).status == 0
    assert record["dataset"]["text"] == "ids-only"


@pytest.mark.parametrize(
    ("file", "options", "expected"),
    [
        ("mempalace/*_raw_*.json", [], {"recall@10": 0.6020, "hit@10": 0.6493}),
        ("mempalace/*locomo_hybrid*.json", [], {"recall@10": 0.8889, "hit@10": 0.9263}),
        ("letta/results.jsonl", [], {"recall@5": 0.6007, "hit@5": 0.6569, "mrr@5": 0.4641}),
    ],
)
def test_rankings_on_locomo_give_their_values(
    harness: Harness,
    data: Path,
    locomo: list[str],
    file: str,
    options: list[str],
    expected: dict[str, float],
) -> None:
    (path,) = (data / "published").glob(file)
    cells, record, _ = _scored(harness, path, *locomo, *options)
    assert {name: round(cells[name].value, 4) for name in expected} == expected
    assert {cells[name].n for name in expected} == {1982}
    deepest = record["settings"]["k"]
    assert all(int(name.partition("@")[2] or 0) <= deepest for name in cells)


def test_ids_alone_and_the_texts_agree_to_the_last_digit(
    harness: Harness, data: Path, tmp_path: Path, longmemeval: list[str]
) -> None:
    sample = orjson.loads((data / "longmemeval" / "longmemeval_s_sample.json").read_bytes())
    ranked = {one["question_id"]: sorted(set(one["haystack_session_ids"]))[:20] for one in sample}
    path = tmp_path / "run.json"
    path.write_bytes(orjson.dumps(ranked))
    of_ids, record, _ = _scored(harness, path, *IDS)
    of_texts, _, _ = _scored(harness, path, *longmemeval)
    assert record["queries"]["asked"] == 4
    shared = of_ids.keys() & of_texts.keys()
    assert len(shared) > 20
    assert {m: of_ids[m].value for m in shared} == {m: of_texts[m].value for m in shared}


@pytest.mark.slow
def test_what_was_asked_is_what_is_scored(
    harness: Harness, data: Path, tmp_path: Path, locomo: list[str]
) -> None:
    whole = (data / "published" / "letta" / "results.jsonl").read_bytes().splitlines()
    path = _lines(tmp_path / "results.jsonl", [orjson.loads(line) for line in whole[:199]])
    cells, record, _ = _scored(harness, path, *locomo)
    about = record["imported_from"]
    names = ("asked", "queries", "haystacks_asked", "silent")
    assert [about[name] for name in names] == [199, 1986, 1, 2]
    assert cells["recall@5"].n == 197
    zero, _, _ = _scored(harness, path, *locomo, "--missing", "zero")
    assert zero["recall@5"].n > 1500
    ratio = zero["recall@5"].value * zero["recall@5"].n
    assert ratio == pytest.approx(cells["recall@5"].value * 197)


@pytest.mark.slow
def test_what_came_without_an_id_counts_as_wrong_and_not_as_unasked(
    harness: Harness, data: Path, tmp_path: Path, locomo: list[str]
) -> None:
    lines = (data / "published" / "letta" / "results.jsonl").read_bytes().splitlines()[:20]
    records = [orjson.loads(line) for line in lines]
    whole, _, _ = _scored(harness, _lines(tmp_path / "a.jsonl", records), *locomo)
    for number, record in enumerate(records[10:]):
        if number < 3:
            del record["retrieved_turn_ids"]
        else:  # null is as if it were not there; a value of another kind is a broken record
            record["retrieved_turn_ids"] = None if number < 6 else {"D1:1": 1}
    path = _lines(tmp_path / "b.jsonl", records)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:19], lines[19][: len(lines[19]) // 2]]))
    cells, run, err = _scored(harness, path, *locomo)
    assert (cells["hit@5"].n, run["queries"]["asked"]) == (20, 20)
    right = sum("D" in str(record["retrieved_turn_ids"]) for record in records[:10])
    assert right == 10
    assert 0 < cells["hit@5"].value < whole["hit@5"].value
    assert "6 records name nothing that was retrieved" in err
    assert (
        "4 records cannot be read and count 0 (line 17: retrieved_turn_ids is not a list, ...)"
        in err
    )
    # A record of the same question that can be read stands for one that cannot.
    twice = path.read_bytes() + b"\n" + lines[15]
    path.write_bytes(twice)
    for more in ([], ["--repeats", "first"]):
        _, run, err = _scored(harness, path, *locomo, *more)
        about = run["imported_from"]
        assert (about["silent"], about["broken"], about["asked"]) == (6, 4, 20)


@pytest.mark.slow
def test_misses_are_in_the_mean_however_they_are_written(
    harness: Harness, data: Path, tmp_path: Path
) -> None:
    path = data / "published" / "cogito" / "baseline_per_question.json"
    whole, run, _ = _scored(harness, path, *IDS)
    records = orjson.loads(path.read_bytes())
    rows = pq.read_table(Path(run["folder"]) / "scores.parquet").to_pylist()
    right = {row["query"]: row["hit@5"] for row in rows if row["protocol"] == "memory"}
    assert sorted(right.values())[:9] == [0.0] * 8 + [1.0]
    for nothing in (None, {}, "none"):
        other = [r if right[r["qid"]] else {**r, "s2_top5_ids": nothing} for r in records]
        cells, _, _ = _scored(harness, _lines(tmp_path / "run.jsonl", other), *IDS)
        assert (cells["hit@5"].value, cells["hit@5"].n) == (whole["hit@5"].value, 470)


def test_every_empty_ranking_and_every_broken_file_is_told(
    harness: Harness, data: Path, tmp_path: Path
) -> None:
    path = _lines(tmp_path / "run.jsonl", [{"qid": "e47becba", "s2_top5_ids": []}])
    _, _, err = _scored(harness, path, *IDS)
    assert "every ranking is empty" in err
    whole = gzip.compress(path.read_bytes() * 50)
    for broken in (whole[:-20], b"no gzip"):
        cut = tmp_path / "run.jsonl.gz"
        cut.write_bytes(broken)
        told = harness("score", cut, *IDS)
        assert (told.status, len(told.err.splitlines())) == (2, 1)
        assert "cannot be read" in told.err


def test_doubled_broken_and_unknown_records_are_counted_and_named(
    harness: Harness, data: Path, tmp_path: Path, locomo: list[str]
) -> None:
    first, second = (
        orjson.loads(line)
        for line in (data / "published" / "letta" / "results.jsonl").read_bytes().split(b"\n")[:2]
    )
    better = {**first, "retrieved_turn_ids": ["D1:1"]}
    unknown = {**second, "question_id": "conv-99:1", "sample_id": "conv-99"}
    path = _lines(tmp_path / "results.jsonl", [first, second, second, better, unknown])
    path.write_bytes(path.read_bytes() + b'{"question_id": "conv-26:3", "sam')
    cells, record, err = _scored(harness, path, *locomo)
    about = record["imported_from"]
    counts = ("records", "broken", "unknown", "duplicates", "conflicts", "asked")
    assert [about[name] for name in counts] == [6, 1, 1, 2, 1, 2]
    assert "line 6: not valid JSON" in err
    assert "conv-99" in err
    latest = cells["recall@1"].value
    earlier, _, _ = _scored(harness, path, *locomo, "--repeats", "first")
    assert earlier["recall@1"].value > latest
    for option in (["--repeats", "refuse"], ["--strict"]):
        told = harness("score", path, *locomo, *option)
        assert told.status == 2
        assert len(told.err.splitlines()) == 1


@pytest.mark.slow
def test_a_stage_or_a_granularity_is_asked_for_by_name(
    harness: Harness, data: Path, locomo: list[str]
) -> None:
    cogito = data / "published" / "cogito" / "runP-v35_per_question.json"
    first, record, _ = _scored(harness, cogito, *IDS, "--ranking", "s1_top5_ids")
    last, _, _ = _scored(harness, cogito, *IDS)
    assert first["recall@5"].value == last["recall@5"].value  # re-ranked, of the same five
    assert first["mrr@5"].value < last["mrr@5"].value
    assert record["imported_from"]["ranking"] == "s1_top5_ids"
    letta = data / "published" / "letta" / "results.jsonl"
    _, record, _ = _scored(harness, letta, *locomo, "--granularity", "session")
    assert record["imported_from"]["ranking"] == "retrieved_session_ids"
    for options, said in (
        ([cogito, *IDS, "--ranking", "s3"], "'s3'"),
        ([cogito, *IDS, "--granularity", "turn"], "sessions, not of turns"),
        ([letta, *IDS], "longmemeval/s-ids has session"),
        ([cogito, *locomo], "none of its 470 records is of a question of locomo"),
        ([cogito, *IDS, "--format", "letta"], "unknown --format"),
    ):
        told = harness("score", *options)
        assert (told.status, len(told.err.splitlines())) == (2, 1)
        assert said in told.err


@pytest.mark.slow
def test_runs_compare_that_were_scored_on_the_same_questions(harness: Harness, data: Path) -> None:
    published = data / "published"
    asked_500 = published / "memory-core-eval" / "bm25_2026-04-19_19-46-05_n500.json"
    asked_470 = published / "cogito" / "baseline_per_question.json"
    folders = [_scored(harness, path, *IDS)[1]["folder"] for path in (asked_500, asked_470)]
    told = harness("compare", *folders, "--metrics", "recall@5", "--json")
    assert told.status == 0, told.err
    assert orjson.loads(told.out)["groups"]
    assert harness("report", folders[0]).status == 0


def test_texts_that_others_published_are_held_against_the_documents(
    harness: Harness, data: Path, tmp_path: Path, locomo: list[str]
) -> None:
    talk = orjson.loads((data / "locomo" / "locomo10.json").read_bytes())[1]
    turn = talk["conversation"]["session_1"][0]
    memory = {"memory": f"{turn['speaker']}: {turn['text']}", "score": 0.5}
    question = talk["qa"][0]["question"]
    record = {"question": question, "speaker_1_memories": [memory], "speaker_2_memories": []}
    path = tmp_path / "mem0_results.json"
    path.write_bytes(orjson.dumps({"1": [record]}))
    _, run, _ = _scored(harness, path, *locomo)
    assert run["hits"]["resolved"] == 1
    assert run["queries"]["asked"] == 1


def test_nothing_is_run_on_ids_alone(harness: Harness) -> None:
    told = harness("run", *IDS, "--retriever", "bm25")
    assert told.status == 2
    assert "ids alone" in told.err


@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_the_official_log_is_written_and_read_back_as_the_same_run(
    harness: Harness, data: Path, tmp_path: Path, longmemeval: list[str], granularity: str
) -> None:
    options = ["--retriever", "bm25-okapi", "--granularity", granularity, "--json"]
    run = orjson.loads(harness("run", *longmemeval, *options).out)
    log = tmp_path / "log.jsonl"
    told = harness("export", run["folder"], "--format", "longmemeval", "--out", log)
    assert told.status == 0, told.err
    back = orjson.loads(harness("score", log, *longmemeval, "--json").out)
    assert _all_values(back["scores"]) == _all_values(run["scores"])

    # What the official generation looks up, and what the official printing averages.
    entries = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    sample = orjson.loads((data / "longmemeval" / "longmemeval_s_sample.json").read_bytes())
    assert [{k: v for k, v in e.items() if k != "retrieval_results"} for e in entries] == sample
    twisted = 0
    for entry in entries:
        texts = dict(zip(entry["haystack_session_ids"], entry["haystack_sessions"], strict=True))
        for item in entry["retrieval_results"]["ranked_items"]:
            id_ = item["corpus_id"].replace("noans_", "answer_")
            twisted += id_ != item["corpus_id"]
            if granularity == "session":
                assert item["text"].startswith(
                    next((turn["content"] for turn in texts[id_] if turn["role"] == "user"), "")
                )
            else:
                session, _, number = id_.rpartition("_")
                assert texts[session][int(number) - 1]["content"] == item["text"]
            assert item["timestamp"] in entry["haystack_dates"]
    assert (twisted > 0) == (granularity == "turn")
    official = next(
        block
        for block in protocols(run["scores"])
        if (block.protocol, block.level) == ("longmemeval-470", granularity)
    )
    metrics = [entry["retrieval_results"]["metrics"][granularity] for entry in entries]
    mean = sum(one["recall_all@5"] for one in metrics) / len(metrics)
    assert mean == official.slices["all"].metrics["recall_all@5"].value


def test_a_log_is_of_longmemeval_alone(harness: Harness, sample_run: Any, tmp_path: Path) -> None:
    options = ["--format", "longmemeval", "--out", tmp_path / "log.jsonl"]
    told = harness("export", sample_run("bm25"), *options)
    assert told.status == 2
    assert "of LongMemEval's files" in told.err
    assert not (tmp_path / "log.jsonl").exists()


def _all_values(scores: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    return {
        (block.protocol, block.level, part, metric): (cell.value, cell.n)
        for block in protocols(scores)
        for part, found in block.slices.items()
        for metric, cell in found.metrics.items()
    }
