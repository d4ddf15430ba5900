"""The shipped benchmark keeps its promises, and cannot be had by a trick."""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from harness.datasets.adapters.sample import SHIPPED
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.schema import Ability, Document, as_datetime

Order = Callable[[list[Document], str], list[int]]
"""Positions of a haystack's documents, best first, for a question."""


def evidence(dataset: Dataset) -> dict[int, list[Document]]:
    """Evidence of every query, by the query's row; empty where there is none."""
    key = dataset.qrels()
    found: dict[int, list[Document]] = {row: [] for row in range(dataset.n_queries)}
    for query, row in zip(key.query.tolist(), key.document.tolist(), strict=True):
        found[query].append(dataset.documents[row])
    return found


def recall_at_10(dataset: Dataset, order: Order) -> dict[str, float]:
    """Mean fraction of the evidence among the first ten, by ability and as `all`."""
    values: dict[str, list[float]] = defaultdict(list)
    haystacks = [
        [dataset.documents[row] for row in dataset.haystack_rows(haystack).tolist()]
        for haystack in range(len(dataset.haystack_ids))
    ]
    for row, gold in evidence(dataset).items():
        if gold:
            documents = haystacks[dataset.query_haystack[row]]
            first = {documents[p].id for p in order(documents, dataset.query(row).text)[:10]}
            recall = sum(g.id in first for g in gold) / len(gold)
            values[str(dataset.abilities[row])].append(recall)
            values["all"].append(recall)
    return {name: float(np.mean(v)) for name, v in values.items()}


def okapi(documents: list[Document], question: str) -> list[int]:
    from rank_bm25 import BM25Okapi

    texts = [re.findall(r"\w+", d.text.lower()) for d in documents]
    scores = BM25Okapi(texts).get_scores(re.findall(r"\w+", question.lower()))
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order


def by(key: Callable[[Any], Any]) -> Order:
    """An order that looks at no question; equals stay in the dataset's order."""
    return lambda documents, _: sorted(range(len(documents)), key=lambda p: key(documents[p]))


def test_twelve_people_a_dozen_dated_sessions_each_and_questions_over_all_five_abilities(
    sample: Dataset,
) -> None:
    assert len(sample.haystack_ids) == 12
    for haystack in range(12):
        documents = [sample.documents[row] for row in sample.haystack_rows(haystack).tolist()]
        dates = list({d.session: d.timestamp or 0 for d in documents}.values())
        assert len(dates) == len(set(dates)) == 12
        assert dates == sorted(dates)
        assert 300 < (as_datetime(dates[-1]) - as_datetime(dates[0])).days < 400
        assert all(6 <= n <= 10 for n in Counter(d.session for d in documents).values())
        asked = np.flatnonzero(sample.query_haystack == haystack).tolist()
        assert all((sample.query(row).timestamp or 0) > max(dates) for row in asked)
        per_ability = Counter(sample.abilities[asked].tolist())
        assert {a for a, n in per_ability.items() if n >= 4} == set(Ability)
    assert sample.n_queries >= 288


@pytest.mark.parametrize("granularity", ["turn", "session"])
def test_all_evidence_stands_once_in_the_haystack_of_its_question(
    home: Path, granularity: str
) -> None:
    dataset = open_dataset("sample", granularity=granularity)
    key = dataset.qrels()
    pairs = list(zip(key.query.tolist(), key.document.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    for query, row in pairs:
        assert row in dataset.haystack_rows(int(dataset.query_haystack[query]))
    for haystack in range(12):
        rows = dataset.haystack_rows(haystack).tolist()
        assert len({dataset.documents[row].id for row in rows}) == len(rows)


def test_what_is_asked_of_a_memory_fits_the_evidence(sample: Dataset) -> None:
    for row, gold in evidence(sample).items():
        query = sample.query(row)
        dates, sessions = {g.timestamp for g in gold}, {g.session for g in gold}
        assert bool(gold) == bool(query.answers) == (query.ability is not Ability.ABSTENTION)
        if query.ability is Ability.KNOWLEDGE_UPDATE:
            assert len(dates) == len(gold) == (3 if query.category == "changed-twice" else 2)
        if query.ability is Ability.MULTI_HOP:
            assert len(sessions) >= 2


def test_an_empty_cache_gives_the_same_fingerprint_again(
    sample: Dataset, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_dataset("sample", text="dated")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "other"))
    second = open_dataset("sample", text="dated")
    assert first.folder != second.folder
    assert first.fingerprint == second.fingerprint != sample.fingerprint


def test_bm25_finds_a_good_part_and_is_far_from_perfect(sample: Dataset) -> None:
    recall = recall_at_10(sample, okapi)
    abilities = [recall[a] for a in Ability if a is not Ability.ABSTENTION]
    assert 0.45 < recall["all"] < 0.75
    assert max(abilities) < 0.9
    assert max(abilities) - min(abilities) > 0.1


@pytest.mark.slow
def test_no_place_nor_date_nor_length_nor_speaker_gives_the_evidence_away(sample: Dataset) -> None:
    rankers = {
        "newest": by(lambda d: (-d.timestamp, -d.position)),
        "oldest": by(lambda d: (d.timestamp, d.position)),
        "longest": by(lambda d: -len(d.text)),
        "newest of the user": by(lambda d: (d.speaker != "user", -d.timestamp)),
        "newest of the assistant": by(lambda d: (d.speaker == "user", -d.timestamp)),
    } | {f"turn {n} of each session": by(lambda d, n=n: d.position != n) for n in range(10)}
    sizes = sample.haystack_sizes[sample.query_haystack].tolist()
    chance = float(np.mean([10 / size for size in sizes]))
    found = {name: recall_at_10(sample, order)["all"] for name, order in rankers.items()}
    assert {name: value for name, value in found.items() if value > 2 * chance} == {}


def test_the_two_text_forms_of_turns_and_sessions(home: Path) -> None:
    def last(granularity: str, text: str) -> Document:
        dataset = open_dataset("sample", granularity=granularity, text=text)
        return dataset.documents[len(dataset.documents) - 1]

    turn, dated_turn = last("turn", "official"), last("turn", "dated")
    session, dated_session = last("session", "official"), last("session", "dated")
    date = f"[{as_datetime(turn.timestamp or 0):%Y-%m-%d %H:%M}]"
    assert dated_turn.text == f"{date} {turn.speaker}: {turn.text}"
    assert session.text.splitlines()[-1] == f"{turn.speaker}: {turn.text}"
    assert dated_session.text == f"{date}\n{session.text}"
    assert session.timestamp == turn.timestamp


def test_a_local_copy_of_the_shipped_files_is_the_official_dataset(
    sample: Dataset, home: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(SHIPPED, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    dataset = open_dataset("sample", source=copy)
    assert len(dataset.manifest.raw) == 12
    assert dataset.manifest.official
    assert dataset.fingerprint == sample.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["questions"][1].update(evidence=[["s01", 99]]), r"question 1.*\['s01', 99\]"),
        (lambda r: r["questions"][1].update(ability="guess"), "question 1.*'guess'"),
        (lambda r: r["sessions"][2].update(date="spring"), "session 2.*'spring'"),
        (lambda r: r["sessions"][2]["turns"].append(["user"]), "session 2.*not .speaker, text."),
        (lambda r: r["sessions"][2].update(id="s01"), "duplicate session id 's01'"),
        (lambda r: r["sessions"][2].pop("id"), "session 2.*'id' is missing"),
    ],
)
def test_a_damaged_copy_is_refused_with_the_place_of_the_damage(
    home: Path, tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    record = orjson.loads((SHIPPED / "mira.json").read_bytes())
    change(record)
    copy = tmp_path / "copy.json"
    copy.write_bytes(orjson.dumps(record))
    with pytest.raises(UsageError, match=message):
        open_dataset("sample", source=copy)
