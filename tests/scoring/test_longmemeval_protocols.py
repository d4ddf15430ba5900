"""The two LongMemEval protocols against outputs of the official metric functions."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.compute as pc
import pytest
from small import lists, ranked, value

from harness.datasets.registry import open_dataset
from harness.scoring.protocols import Choices
from harness.scoring.score import score
from harness.scoring.scores import Scores

KS = (1, 3, 5, 10, 30, 50)
NAMES = {"recall_any": "hit", "recall_all": "recall_all", "ndcg_any": "ndcg_b2"}
BOTH = Choices(["longmemeval-official", "longmemeval-470"])


def turn(role: str, evidence: bool, content: str = "x") -> dict[str, Any]:
    return {"role": role, "content": content, "has_answer": evidence}


def record(number: int, sessions: dict[str, list[list[dict[str, Any]]]]) -> dict[str, Any]:
    """A question in the official format; a session may stand in its haystack several times."""
    slots = [(id_, turns) for id_, copies in sessions.items() for turns in copies]
    return {
        "question_id": f"q{number}",
        "question_type": "multi-session",
        "question": "?",
        "answer": "",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21"] * len(slots),
        "haystack_session_ids": [id_ for id_, _ in slots],
        "haystack_sessions": [turns for _, turns in slots],
        "answer_session_ids": [],
    }


def session_record(number: int, ids: list[str]) -> dict[str, Any]:
    """A haystack of exactly these sessions; the official script calls the rest noans."""
    return record(
        number,
        {
            id_.replace("noans", "answer"): [[turn("user", "answer" in id_)]] * times
            for id_, times in Counter(ids).items()
        },
    )


def turn_record(number: int, ids: list[str]) -> dict[str, Any]:
    """A haystack whose user turns are exactly these."""
    sessions: dict[str, list[list[dict[str, Any]]]] = {}
    for id_ in sorted(ids, key=lambda i: int(i.rpartition("_")[2])):
        session, _, position = id_.rpartition("_")
        (turns,) = sessions.setdefault(session.replace("noans", "answer"), [[]])
        while len(turns) < int(position) - 1:
            turns.append(turn("assistant", False))
        turns.append(turn("user", "answer" in id_))
    return record(number, sessions)


def our_ids(ids: list[str]) -> list[str]:
    """The adapter's ids: without the renaming, and the copies of a session told apart."""
    seen: Counter[str] = Counter()
    named = []
    for id_ in (i.replace("noans", "answer") for i in ids):
        seen[id_] += 1
        named.append(id_ if seen[id_] == 1 else f"{id_}#{seen[id_]}")
    return named


def golden_scores(cases: list[dict[str, Any]], granularity: str, folder: Path) -> Scores:
    make = session_record if granularity == "session" else turn_record
    path = folder / "made.json"
    path.write_bytes(orjson.dumps([make(i, c["ranked_ids"]) for i, c in enumerate(cases)]))
    dataset = open_dataset("longmemeval", granularity=granularity, source=path)
    run = lists({f"q{i}": our_ids(case["ranked_ids"]) for i, case in enumerate(cases)})
    scores = score(dataset, run, BOTH)
    assert scores.report.unknown_documents == 0
    return scores


def values(scores: Scores, protocol: str, unit: str) -> dict[str, dict[str, Any]]:
    """query -> metric -> value of the per-query table."""
    table = scores.per_query
    table = table.filter(pc.equal(table["protocol"], protocol))
    rows = table.filter(pc.equal(table["level"], unit)).to_pylist()
    return {row["query"]: row for row in rows}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("granularity", "n"), [("session", 99), ("turn", 101)])
def test_every_golden_ranking_scores_as_the_official_functions_score_it(
    data: Path, tmp_path: Path, granularity: str, n: int
) -> None:
    golden = orjson.loads((data / "golden" / "longmemeval_official_metrics.json").read_bytes())
    cases = [case for case in golden if case["granularity"] == granularity]
    assert len(cases) == n
    scores = golden_scores(cases, granularity, tmp_path)
    parts = {"metrics": granularity}
    if granularity == "turn":
        parts["session_metrics"] = "turn>session"
    empty = [f"q{i}" for i, case in enumerate(cases) if not case["gold"]]
    assert scores.excluded == {
        "longmemeval-official": {"without relevant documents": empty},
        "longmemeval-470": {},
    }
    for protocol in BOTH.protocols:
        for part, unit in parts.items():
            found = values(scores, protocol, unit)
            for i, case in enumerate(cases):
                left_out = protocol == "longmemeval-official" and not case["gold"]
                for k in KS:
                    for theirs, ours in NAMES.items():
                        value = found[f"q{i}"][f"{ours}@{k}"]
                        if left_out:
                            assert value is None
                        else:
                            expected = case[part][f"{theirs}@{k}"]
                            assert value == pytest.approx(expected, abs=1e-9), (i, unit, ours, k)
    for block in scores.report.protocols:
        wanted = n - len(empty) if block.protocol == "longmemeval-official" else n
        assert block.slices["all"].n == wanted
        for cell in block.slices["all"].metrics.values():
            assert cell.n == wanted
            assert cell.value <= cell.upper_bound + 1e-12


def by_ids(order: list[str], corpus: list[str], k: int) -> tuple[float, float, float]:
    """Any, all and nDCG as the official script has them: sets of ids, a relevance a position."""
    gold, top = {id_ for id_ in corpus if "answer" in id_}, order[:k]
    weights = np.array([1.0, *(1 / np.log2(np.arange(2, len(corpus) + 1)))])
    relevant = np.array(["answer" in id_ for id_ in order[:k]], float)
    ideal = np.sort(["answer" in id_ for id_ in corpus])[::-1][:k].astype(float)
    share = (relevant * weights[: len(relevant)]).sum() / (ideal * weights[: len(ideal)]).sum()
    return float(bool(gold & {*top})), float(gold <= {*top}), float(share)


def by_session(order: list[str], corpus: list[str], k: int) -> tuple[float, float, float]:
    """The same of the sessions behind turns, at the k that holds so many of them."""
    order, corpus = ([id_.rpartition("_")[0] for id_ in ids] for ids in (order, corpus))
    deep = next((d for d in range(k, len(order)) if len({*order[:d]}) >= k), len(order))
    return by_ids(order, corpus, deep)


@pytest.mark.slow
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_copies_of_a_gold_session_are_one_id_as_they_are_in_the_official_script(
    tmp_path: Path, granularity: str
) -> None:
    marked = [turn("user", True), turn("assistant", False), turn("user", False, "y")]
    sessions = {"answer_a": [marked] * 3, "answer_b": [marked], "noise": [[turn("user", False)]]}
    sessions |= {f"filler_{i}": [[turn("user", False, f"{i}")] * 2] for i in range(8)}
    asked = record(0, sessions) | {"answer_session_ids": ["answer_a", "answer_b"]}
    (tmp_path / "made.json").write_bytes(orjson.dumps([asked]))
    dataset = open_dataset("longmemeval", granularity=granularity, source=tmp_path / "made.json")
    ours = dataset.documents.column("id", dataset.haystack_rows(0)).to_pylist()
    theirs = [re.sub(r"#\d", "", id_) for id_ in ours]
    if granularity == "turn":  # what is not marked is renamed
        theirs = [id_.replace("answer", "noans") if id_.endswith("_3") else id_ for id_ in theirs]
    rng = np.random.default_rng(0)
    for order in (rng.permutation(len(ours)) for _ in range(30)):
        scores = score(
            dataset, lists({"q0": [ours[i] for i in order]}), Choices([BOTH.protocols[0], "memory"])
        )
        parts = {granularity: by_ids, "turn>session": by_session}
        for unit, rule in parts.items() if granularity == "turn" else [(granularity, by_ids)]:
            found = values(scores, "longmemeval-official", unit)["q0"]
            for k in KS:
                expected = rule([theirs[i] for i in order], theirs, k)
                names = (f"{m}@{k}" for m in NAMES.values())
                assert [found[m] for m in names] == pytest.approx(expected, abs=1e-9), (unit, k)
        best = score(dataset, lists({"q0": ours}), Choices(["memory"], ks=(len(ours),)))
        assert best[f"recall@{len(ours)}"] == 1
    both = next(i for i, id_ in enumerate(ours) if id_.startswith("answer_b"))
    two = score(dataset, lists({"q0": [ours[both], ours[0]]}), Choices(["memory"], ks=(2,)))
    assert two["recall@2"] == 1


def test_one_piece_of_evidence_at_rank_r_by_hand() -> None:
    by_hand = {1: (1, 1), 2: (1, 0.6309), 3: (0.6309, 0.5), 4: (0.5, 0.4307), 5: (0.4307, 0.3869)}
    for r, (official, trec) in (by_hand | {10: (0.3010, 0.2891)}).items():
        order = [f"x{i}" for i in range(20)]
        order[r - 1] = "gold"
        of = ranked({"q": order}, {"q": {"gold": 1}})
        assert value("ndcg_b2@10", of) == pytest.approx(official, abs=5e-5)
        assert value("ndcg@10", of) == pytest.approx(trec, abs=5e-5)


def test_three_pieces_of_evidence_at_ranks_1_4_and_7_by_hand() -> None:
    order = ["a", "x1", "x2", "b", "x3", "x4", "c", "x5", "x6", "x7"]
    of = ranked({"q": order}, {"q": {"a": 1, "b": 1, "c": 1}})
    by_hand = {1: (1, 0, 1), 3: (1, 0, 0.3801), 5: (1, 0, 0.5701), 10: (1, 1, 0.7055)}
    for k, expected in by_hand.items():
        names = (f"hit@{k}", f"recall_all@{k}", f"ndcg_b2@{k}")
        assert tuple(value(name, of) for name in names) == pytest.approx(expected, abs=5e-5)


@pytest.mark.usefixtures("home")
def test_the_printing_script_s_470_counts_empty_gold_as_0_1_0_and_419_leaves_it_out(
    tmp_path: Path,
) -> None:
    sessions = ["ultrachat_1", "answer_a", "noans_b"]
    records = [session_record(0, sessions), session_record(1, ["ultrachat_1", "noans_b"])]
    abstention = session_record(2, sessions) | {"question_id": "q2_abs"}
    (tmp_path / "made.json").write_bytes(orjson.dumps([*records, abstention]))
    dataset = open_dataset("longmemeval", source=tmp_path / "made.json")
    run = lists({"q0": ["answer_b", "answer_a", "ultrachat_1"]})
    scores = score(dataset, run, BOTH)
    official, printed = scores.report.protocols
    no_answer = {"unanswerable": ["q2_abs"]}
    assert scores.excluded == {
        "longmemeval-official": no_answer | {"without relevant documents": ["q1"]},
        "longmemeval-470": no_answer,
    }
    cells = official.slices["all"].metrics
    assert [cells[f"{m}@1"].value for m in NAMES.values()] == [0, 0, 0]
    assert [cells[f"{m}@3"].value for m in NAMES.values()] == [1, 1, 1]
    cells = printed.slices["all"].metrics
    # q0 at k = 3 is (1, 1, 1), and q1, without evidence and without an answer, (0, 1, 0).
    assert [cells[f"{m}@3"].value for m in NAMES.values()] == [0.5, 1, 0.5]
    assert [cells[f"{m}@1"].value for m in NAMES.values()] == [0, 0.5, 0]
    assert {cell.n for cell in cells.values()} == {2}
