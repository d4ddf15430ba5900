"""harness analyze: what a person reads, what a program gets, and what is left out to be shared."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from output import protocols

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset


@pytest.fixture
def run(sample_run: Callable[..., Path]) -> Path:
    """BM25 over the sample, by turn."""
    return sample_run("bm25")


ABILITIES = ("lookup", "multi-hop", "temporal", "knowledge-update")


class Piece(NamedTuple):
    """A piece of evidence, of which the sample has one document each."""

    query: str
    ability: str
    rank: float  # infinite where it was not returned


@pytest.fixture
def evidence(run: Path, sample: Dataset) -> list[Piece]:
    """Every piece of evidence and where it stood, from the labels and the TREC file alone."""
    lines = [line.split() for line in (run / "rankings.trec").read_text().splitlines()]
    ranks = {(query, document): int(rank) for query, _, document, rank, *_ in lines}
    judged = sample.qrels()
    pairs = zip(judged.query.tolist(), judged.document_id.to_pylist(), strict=True)
    return [
        Piece(sample.query_ids[q], sample.abilities[q], ranks.get((sample.query_ids[q], d), inf))
        for q, d in pairs
    ]


def by_ability(pieces: list[Piece]) -> list[str]:
    """How many are of each ability, and how many in all, as a table shows them."""
    return [*(str(sum(p.ability == one for p in pieces)) for one in ABILITIES), str(len(pieces))]


def test_causes_by_ability_places_worst_queries_and_examples_are_printed(
    run: Path, harness: Callable[..., Any], evidence: list[Piece], with_evidence: int
) -> None:
    missed = [piece for piece in evidence if piece.rank > 10]
    said = harness("analyze", run)
    assert said.status == 0
    assert (
        f"{len(missed)} of {len(evidence)} evidence items are not in the top 10, "
        f"in {len({piece.query for piece in missed})} of {with_evidence} queries"
    ) in said.out
    table = [line.split() for line in said.out.splitlines()]
    (head,) = (line for line in table if line[:4] == ["missed", "at", "k", "="])
    assert head[5:] == [*ABILITIES, "all", "share"]
    assert ["missed", *by_ability(missed), "100%"] in table
    near = sum(piece.rank <= 20 for piece in missed)
    assert f"places of missed evidence: {near} at rank 11-20" in said.out
    assert said.out.count("\nexample: ") == 3
    assert "signature of recall@10, all: recall@10|protocol:memory/1|" in said.out


def test_another_k_counts_what_is_missed_there(
    run: Path, harness: Callable[..., Any], evidence: list[Piece]
) -> None:
    deep = json.loads(harness("analyze", run, "--k", 20, "--json").out)
    assert (deep["k"], deep["missed"]) == (20, sum(p.rank > 20 for p in evidence))
    told = harness("analyze", run, "--k", 0)
    assert (told.status, told.err.count("\n")) == (2, 1)


def test_json_holds_every_missed_piece_with_its_texts(
    run: Path, harness: Callable[..., Any], evidence: list[Piece]
) -> None:
    missed = sum(piece.rank > 10 for piece in evidence)
    found = json.loads(harness("analyze", run, "--json").out)
    pieces = [piece for query in found["queries"] for piece in query["missed"]]
    assert len(pieces) == found["missed"] == missed
    assert sum(n for of in found["causes"].values() for n in of.values()) == missed
    known = {(document.id, document.content) for document in open_dataset("sample").documents}
    for piece in pieces:
        assert any((name, piece["text"]) in known for name in piece["documents"])
        assert [above["rank"] for above in piece["above"]] == [*range(1, len(piece["above"]) + 1)]


def texts(value: Any) -> set[str]:
    """Every text somewhere in a JSON value."""
    if isinstance(value, str):
        return {value}
    inside = value.values() if isinstance(value, dict) else value
    return set().union(*map(texts, inside)) if isinstance(value, dict | list) else set()


@pytest.mark.slow
def test_what_is_to_be_shared_holds_no_text_of_the_dataset(
    run: Path, harness: Callable[..., Any]
) -> None:
    dataset = open_dataset("sample")
    sentences = set(dataset.query_table["text"].to_pylist()) | set(dataset.documents.contents())
    whole = json.loads(harness("analyze", run, "--json").out)
    assert texts(whole) & sentences
    shared = json.loads(harness("analyze", run, "--json", "--share").out)
    assert not texts(shared) & sentences
    assert shared["missed"] == whole["missed"]
    first = harness("analyze", run, "--share", "--examples", 20).out
    assert first.count("\nexample: ") == 20
    assert not any(sentence[:40] in first for sentence in sentences if len(sentence) > 12)


def test_errata_are_shown_beside_the_key(
    run: Path,
    harness: Callable[..., Any],
    evidence: list[Piece],
    with_evidence: int,
    tmp_path: Path,
) -> None:
    named = [p for p in evidence if p.query in ("mira-02", "mira-04") and p.rank > 10]
    missed = sum(piece.rank > 10 for piece in evidence)
    assert named
    (tmp_path / "errata.jsonl").write_text(
        '{"query": "mira-02", "kind": "wrong citation", "evidence": ["s01_0"]}\n'
        '{"query": "mira-04", "kind": "ambiguous", "evidence": null}\n'
    )
    said = harness("analyze", run, "--errata", "errata.jsonl")
    assert said.status == 0
    assert "name 2 of these queries: 1 wrong citation, 1 ambiguous" in said.out
    rows = [line.split() for line in said.out.splitlines()]
    (row,) = (row for row in rows if row[:2] == ["all", str(with_evidence)])
    block = protocols(json.loads((run / "scores.json").read_text()))[0]
    recall = block.slices["all"].metrics["recall@10"].value
    assert (row[2], row[4]) == (f"{recall:.4f}", str(with_evidence - 1))
    share = f"{len(named) / missed:.0%}"
    assert ["label", "doubtful", *by_ability(named), share] in rows
    assert said.out.count("\nsignature of ") == 2
    told = harness("analyze", run, "--errata", "none.jsonl")
    assert (told.status, told.err.count("\n")) == (2, 1)


def test_the_rules_are_printed_without_a_run_and_a_run_is_needed_for_the_rest(
    harness: Callable[..., Any], tmp_path: Path
) -> None:
    rules = harness("analyze", "--rules")
    assert rules.status == 0
    assert "| cut by a tie " in rules.out
    assert harness("analyze").status == 2
    (tmp_path / "run.trec").write_text("q Q0 d 1 1 x\n")
    for wrong in ("run.trec", "nowhere", "."):
        told = harness("analyze", wrong)
        assert (told.status, told.err.count("\n")) == (2, 1)


def test_a_run_in_which_nothing_is_missed_says_so(
    harness: Callable[..., Any], sample_run: Callable[..., Path], sample: Dataset
) -> None:
    said = harness("analyze", sample_run("oracle"))
    assert said.status == 0
    pieces = len(sample.qrels().query)
    assert f"\n0 of {pieces} evidence items are not in the top 10" in said.out


@pytest.mark.extensions
@pytest.mark.slow
@pytest.mark.usefixtures("weights")
def test_similarity_by_a_model_is_a_cause_only_where_it_is_asked_for(
    run: Path, harness: Callable[..., Any]
) -> None:
    plain = harness("analyze", run)
    asked = harness("analyze", run, "--semantic")
    assert (plain.status, asked.status) == (0, 0)
    assert "low similarity" not in plain.out
    assert "low similarity" in asked.out
