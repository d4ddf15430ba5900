"""The pages on metrics, protocols and signatures have what the code knows, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from docs_blocks import ROOT
from docs_tables import documented

from harness.errors import UsageError
from harness.records.scores import ScoreReport, fill_signature
from harness.runs.folder.run_folder import read_scores
from harness.scoring.metrics import METRICS
from harness.scoring.metrics.described import DESCRIBED, OF_ANSWERS
from harness.scoring.protocols import PROTOCOLS
from harness.scoring.ranks import Ties
from harness.scoring.signature_meaning import formula_of, parse_signature
from harness.scoring.signatures import Signature

PAGES = ROOT / "docs" / "reference"
METRIC_PAGE, PROTOCOL_PAGE = PAGES / "metrics.md", PAGES / "protocols.md"
SIGNATURES = PAGES / "signatures.md"


def _signature(metric: str) -> str:
    """As it is printed, with that metric."""
    rest = "data:a#b|level:turn|text:official|split:test|slice:all|n:1|queries:all|ties:order"
    return f"{metric}|protocol:memory/1|{rest}|depth:1|missing:zero|v:0.1.0"


def test_the_page_has_the_tables_of_all_metrics() -> None:
    text = METRIC_PAGE.read_text("utf-8")
    for one in (*METRICS.values(), *DESCRIBED):
        assert f"\n## {one.section}\n" in text, one.name
        assert f"<!-- generated: metrics {one.section} -->" in text, one.name


def test_signatures_say_what_every_described_metric_is() -> None:
    for one in DESCRIBED:
        assert formula_of(parse_signature(_signature(one.name))) == one.formula_and_source
    for one in OF_ANSWERS:
        signature = _signature(one.name) + "|reader:plain"
        assert formula_of(parse_signature(signature)) == one.formula_and_source
    with pytest.raises(UsageError):
        assert formula_of(parse_signature(_signature("no_such_metric")))


@pytest.mark.usefixtures("home", "weights")
def test_every_metric_of_a_scored_run_is_on_the_page(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name, lines in {
        "documents": '{"id": "d1", "text": "Ada moved to Lisbon", "timestamp": "2024-01-01"}\n'
        '{"id": "d2", "text": "Ada moved to Porto", "timestamp": "2024-02-01"}\n',
        "queries": '{"id": "q1", "text": "where did Ada move?", "answers": ["Porto"], '
        '"user_id": "u", '
        '"ability": "knowledge-update"}\n'
        '{"id": "q2", "text": "whose moved Porto dog?", "ability": "abstention"}\n'
        '{"id": "q3", "text": "where is Ada?", "timestamp": "2024-03-01"}\n'
        '{"id": "q4", "text": "where was Ada?", "timestamp": "2024-01-05"}\n',
        "qrels": '{"query": "q1", "document": "d1"}\n{"query": "q1", "document": "d2"}\n'
        '{"query": "q3", "document": "d1", "grade": 0}\n{"query": "q3", "document": "d2"}\n'
        '{"query": "q4", "document": "d1"}\n',
        "changes": '{"kind": "update", "document": "d1", "by": "d2", "timestamp": "2024-02-01"}\n'
        '{"kind": "forget", "document": "d2", "timestamp": "2024-02-20"}\n',
    }.items():
        (own / f"{name}.jsonl").write_text(lines)
    source = ("--source", "own")
    run = ("run", "--dataset", "labelled", *source, "--retriever", "bm25", "--quiet")
    assert harness(*run).status == 0
    (folder,) = (path for path in (tmp_path / "results").iterdir())
    again = ("score", str(folder), *source, "--answers", "--semantic", "--quiet")
    assert harness(*again).status == 0
    known = {*METRICS, *(one.name for one in DESCRIBED)}
    printed = _signatures(read_scores(folder))
    seen = {parse_signature(one).metric.partition("@")[0] for one in printed}
    assert seen <= known
    official = {"ndcg_b2", "retrieval_precision", "retrieval_recall"}
    assert known - seen <= {"f1", "precision_returned", "ndcg_exp", *official}


def _signatures(report: ScoreReport) -> set[str]:
    """All signatures of a report."""
    assert report.semantic is not None
    assert report.tokens is not None
    assert report.knowledge_update is not None
    assert report.changes is not None
    assert report.abstention is not None
    protocols = [*report.protocols, report.semantic.results]
    parts = [part for protocol in protocols for part in protocol.slices.values()]
    found = {result.signature for part in parts for result in part.metrics.values()}
    for section in (report.knowledge_update, report.changes, report.abstention):
        found.update(section.signatures.values())
    tokens = report.tokens
    return found | {
        fill_signature(tokens.signature, f"recall_in_tokens@{budget}", "answerable", recall.n)
        for budget, recall in tokens.recall_within_budget.items()
    }


def test_every_protocol_and_order_of_ties_has_its_place() -> None:
    assert documented(PROTOCOL_PAGE, "Protocols")[: len(PROTOCOLS)] == list(PROTOCOLS)
    text = PROTOCOL_PAGE.read_text("utf-8")
    for name in PROTOCOLS:
        assert f"\n## {name}\n" in text
        assert f"<!-- generated: protocol {name} -->" in text
    assert set(documented(PROTOCOL_PAGE, "Order of equal scores")) == set(Ties)


def test_every_part_of_a_signature_is_on_the_page_in_its_order() -> None:
    assert documented(SIGNATURES, "Signatures") == [field.name for field in fields(Signature)]


def test_metrics_that_need_a_cut_off_are_named() -> None:
    needing = {name for name, one in METRICS.items() if one.needs_cutoff}
    words = METRIC_PAGE.read_text("utf-8").partition("need a cut-off")[0].rpartition("counts;")[2]
    assert {word.strip("`\n ,") for word in words.replace(" and ", ",").split(",")} == needing
